"""Running text from the mark-up of a Wikipedia article, by regular expressions that do a lot in each pass.

What a reader does not see, or what is no running text (notes, tables, lists, pictures), is removed. Where something
was removed that the reader did see in the middle of a sentence, a `HOLE` stays behind, so that a later filter can
reject that sentence: better no sentence than "The river is long." made of "The river is {{length}} long."

The patterns use possessive quantifiers and stop at the next opening mark, so their time grows with the length of the
text, however broken the mark-up is.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable
from functools import lru_cache

HOLE = "\ufffc"

# Code points that Unicode promises never to be characters: they can stand for our own marks inside the text.
_GONE = "\ufdd0"  # here was something invisible: tidy the punctuation around it
_SOUND = "\ufdd1"  # here was a pronunciation: invisible inside brackets, a hole in a sentence
_LITERAL = {ord(char): 0xFDD2 + i for i, char in enumerate("[]{}|<>='*#:;!&_-/\n")}  # mark-up inside <nowiki>
_UNLITERAL = {ours: theirs for theirs, ours in _LITERAL.items()} | {0xFDD2 + len(_LITERAL) - 1: " "}
_OURS = [_GONE, _SOUND, *map(chr, _LITERAL.values())]

_DEEPEST = 25  # templates inside templates: real articles stay below ten


def paragraphs(wikitext: str) -> list[str]:
    """The paragraphs of running text of an article, without mark-up; a HOLE where visible text could not be kept."""
    text = _without_our_marks(wikitext)
    text = _INDENTED.sub("\n:", text)
    text = _without_comments(text)
    text = _without_elements(text)
    text = _without_tables(text)
    text = _with_simple_links_shown(text)
    text = _with_templates_replaced(text)
    text = _with_links_shown(text)
    text = _without_inline_marks(text)
    text = _tidied("\n".join(_joined_lines(text)))
    return [paragraph for paragraph in text.split("\n") if _has_text(paragraph)]


def is_redirect(wikitext: str) -> bool:
    """Whether the page only sends the reader to another one."""
    return _REDIRECT.match(wikitext) is not None


def is_disambiguation(wikitext: str) -> bool:
    """Whether the page lists the meanings or bearers of a name instead of being an article."""
    return _DISAMBIGUATION.search(wikitext) is not None


def _names(listed: str) -> list[str]:
    return [name.strip() for name in listed.split(",") if name.strip()]


def _alternatives(names: Iterable[str]) -> str:
    longest_first = sorted(names, key=len, reverse=True)
    return "|".join(re.escape(name).replace(r"\ ", "[ _]") for name in longest_first)


_REDIRECT_WORDS = _names(
    "redirect, weiterleitung, redirection, виж, пренасочване, перенаправление, перенапр, redirección, redireccion, "
    "rinvia, rinvio, doorverwijzing, patrz, przekieruj, tam, redirecionamento, omdirigering, 転送, リダイレクト, "
    "重定向, перенаправлення, đổi, تحويل, تغییر_مسیر, تغییرمسیر, redirecció, преусмери, preusmeri, alih, 넘겨주기, "
    "viderekobling, ohjaus, uudelleenohjaus, yönlendirme, yönlendi̇rme, átirányítás, přesměruj, redirecționează, "
    "ανακατευθυνση, ανακατεύθυνση, הפניה, अनुप्रेषित, पुनर्प्रेषित, alidirektu, alidirekti, suuna, birzuzendu, "
    "presmeruj, preusmjeri, preusmeritev, peradresavimas, เปลี่ยนทาง, lencongan, tilvísun, дахьаьхьорг, əvəzetmə"
)
_REDIRECT = re.compile(rf"\ufeff?\s*#\s*(?:{_alternatives(_REDIRECT_WORDS)})\s*:?\s*\[\[", re.IGNORECASE)

_DISAMBIGUATION_NAMES = _names(
    # English, its redirects, and lists of people or things that share a name
    "disambiguation, disambig, disamb, dab, dabpage, disambiguation page, disambiguation cleanup, disambig-cleanup, "
    "hndis, hndis-cleanup, human name disambiguation, geodis, geodab, place name disambiguation, placedis, "
    "schooldis, school disambiguation, hospitaldis, hospital disambiguation, mathdab, mathematical disambiguation, "
    "numberdis, number disambiguation, roaddis, road disambiguation, airport disambiguation, biology disambiguation, "
    "callsigndis, call sign disambiguation, chinese title disambiguation, church disambiguation, "
    "letter disambiguation, letter-numbercombdisambig, letter-number combination disambiguation, "
    "music disambiguation, opus number disambiguation, phonetics disambiguation, portal disambiguation, "
    "species latin name disambiguation, species latin name abbreviation disambiguation, taxonomy disambiguation, "
    "wp disambig, surname, surnames, given name, nickname, set index article, sia, set index, mountainindex, "
    "shipindex, roadindex, lakeindex, riverindex, sportindex, storm index, plant common name, "
    # other languages
    "begriffsklärung, homonymie, homonymes, patronyme, paronymie, toponymie, internationalisation, пояснение, "
    "desambiguación, desambiguacion, desambig, disambigua, doorverwijspagina, dp, неоднозначность, многозначность, "
    "однофамильцы, фамилия, ujednoznacznienie, desambiguação, förgrening, förgreningssida, grensida, gren, "
    "efternamn, aimai, 曖昧さ回避, 人名の曖昧さ回避, 地名の曖昧さ回避, 消歧义, 消歧義, 消歧义页, 消歧義頁, "
    "неоднозначність, багатозначність, прізвище, định hướng, trang định hướng, توضيح, صفحة توضيح, ابهام‌زدایی, "
    "ابهام زدایی, desambiguació, вишезначна одредница, вишезначност, višeznačna odrednica, disambiguasi, 동음이의, "
    "동명이인, peker, pekerside, täsmennyssivu, täsmennys, anlam ayrımı, anlamayrımı, egyért, egyértelműsítő, "
    "egyértelműsítő lap, rozcestník, příjmení, dezambiguizare, dezambig, flertydig, פירושונים, αποσαφήνιση, αποσαφ, "
    "apartigilo, täpsustus, täpsustuslehekülg, argipen, rozlišovacia stránka, razdvojba, razločitev, nuorodinis, "
    "nuorodinis straipsnis, nozīmju atdalīšana, giklaro, pansayod, बहुविकल्पी, แก้กำกวม, แก้ความกำกวม, "
    "nyahkekaburan, homónimos, discretiva, dəqiqləşdirmə, բազմիմաստություն, მრავალმნიშვნელოვანი, айрық, "
    "неадназначнасць, aðgreiningarsíða"
)
_DISAMBIGUATION = re.compile(
    rf"\{{\{{\s*+(?:{_alternatives(_DISAMBIGUATION_NAMES)})\s*+(?:\||\}}\}})|__DISAMBIG__",
    re.IGNORECASE,
)


# --- comments, notes and other elements -----------------------------------------------------------------------------

_INDENTED = re.compile(r"\n[ \t]++(?=[^\s{}<\[|!*#:;=])")  # MediaWiki shows such a line as it is, like code
_COMMENT = re.compile(r"<!--.*?-->([ \t]*+\n)?", re.DOTALL)
_LINE_END = re.compile(r"(?:[ \t]*+\n)?+")
_UNCLOSED_COMMENT = re.compile(r"<!--[^\n]*+")
_NOTE = re.compile(r"<[Rr][Ee][Ff]\b[^<>]*+>(?:(?<=/>)|(?:[^<]++|<(?!/?[Rr][Ee][Ff]\b))*+</[Rr][Ee][Ff]\s*+>)")
_ELEMENT = re.compile(
    r"<(gallery|timeline|syntaxhighlight|source|pre|score|poem|math|chem|ce|hiero|nowiki|imagemap|graph|mapframe"
    r"|maplink|table|ul|ol|dl|includeonly|inputbox|categorytree|style|script|templatedata|section|references)"
    r"\b([^<>]*+)>(?:(?<=/>)|((?:[^<]++|<(?!/?\1\b))*+)</\1\s*+>)",
    re.IGNORECASE,
)
_SHOWN_ELEMENTS = frozenset(["math", "chem", "ce", "hiero", "maplink"])
_CODE_ELEMENTS = frozenset(["syntaxhighlight", "source"])


def _without_our_marks(text: str) -> str:
    for mark in _OURS:
        if mark in text:
            text = text.replace(mark, "")
    return text.replace("\r\n", "\n") if "\r" in text else text


def _without_comments(text: str) -> str:
    if "<!--" not in text:
        return text
    # Up to the last end of a comment every beginning has an end, so no search for one can be in vain.
    end = _LINE_END.match(text, text.rindex("-->") + 3) if "-->" in text else None
    closed = end.end() if end else 0
    return _COMMENT.sub(_comment, text[:closed]) + _UNCLOSED_COMMENT.sub(HOLE, text[closed:])


def _comment(match: re.Match[str]) -> str:
    newline: str = match[1] or ""
    alone = not match.start() or match.string[match.start() - 1] == "\n"
    return "" if alone else newline


def _without_elements(text: str) -> str:
    if "<" not in text:
        return text
    text = _NOTE.sub("", text)
    for _ in range(3):  # lists and tables contain each other
        text, found = _ELEMENT.subn(_element, text)
        if not found:
            break
    return text


def _element(match: re.Match[str]) -> str:
    name, attributes, content = match[1].lower(), match[2], match[3] or ""
    if name == "nowiki":
        return content.translate(_LITERAL)
    if name in _SHOWN_ELEMENTS:
        return HOLE
    if name in _CODE_ELEMENTS and "inline" in attributes.lower():
        return HOLE
    return _GONE


# --- tables ---------------------------------------------------------------------------------------------------------

_TABLE_MARK = re.compile(r"\n[ \t:*#]*+(\{\||\|\}(?!\}))")
_UNCLOSED_TABLE = re.compile(r"\{\|[^\n]*+(?:\n[ \t]*+[|!][^\n]*+)*+")


def _without_tables(text: str) -> str:
    if "{|" not in text:
        return text
    text = f"\n{text}"
    spans: list[tuple[int, int]] = []
    opened: list[int] = []
    for mark in _TABLE_MARK.finditer(text):
        if mark[1] == "{|":
            opened.append(mark.start())
        elif opened:
            start = opened.pop()
            while spans and spans[-1][0] > start:  # tables inside this one
                spans.pop()
            spans.append((start, mark.end()))
    kept, end = [], 0
    for start, after in spans:
        kept.append(text[end:start])
        end = after
    text = "\n\n".join([*kept, text[end:]])
    return _UNCLOSED_TABLE.sub("\n", text) if "{|" in text else text


# --- templates ------------------------------------------------------------------------------------------------------

# A template ends before the next heading: without this, one lost pair of braces could eat all sections up to another.
_TEMPLATE = re.compile(r"\{\{((?:[^{}\n]++|\n(?!==)|\{(?!\{)|\}(?!\}))*+)\}\}")
_UNCLOSED_TEMPLATE = re.compile(r"\{\{[^\n]*+(?:\n(?![\n=*#:;])[^\n]*+)*+")
_PARAMETER_NAME = re.compile(r"\s*+[\w][\w -]*+\s*+$")
_VARIABLE = re.compile(r"[^\W\d_]{4,}:")  # {{DEFAULTSORT:…}}
_ORDINAL = re.compile(r"\d+(?:e|er|re|st|nd|rd|th)|[IVX]+e siècle")

_INVISIBLE = _names(
    # notes and marks of doubt
    "sfn, sfnp, sfnm, sfnref, efn, efn-ua, efn-lr, refn, ref, r, rp, note, notetag, notelist, ref label, note label, "
    "cn, fact, citation needed, cite quote, clarify, clarification needed, vague, when, who, whom, which, where, "
    "why, by whom, according to whom, dubious, disputed inline, disputed-inline, failed verification, "
    "verification needed, verify source, vn, nvs, page needed, pn, page number, year needed, volume needed, full, "
    "full citation needed, full citation, better source, better source needed, bsn, unreliable source?, "
    "self-published inline, sps, primary source inline, primary source-inline, non-primary source needed, "
    "original research inline, or, synthesis inline, syn, pov-inline, pov inline, pov statement, "
    "neutrality disputed, weasel inline, weasel-inline, peacock inline, peacock term, specify, example needed, "
    "quantify, attribution needed, update inline, update after, outdated inline, citation not found, dead link, "
    "deadlink, dl, lien brisé, wayback, webarchive, retrieved, doi, contradict-inline, contradiction inline, "
    "importance inline, relevance inline, undue-inline, lopsided inline, disambiguation needed, dn, toter link, "
    "incomprehensible inline, awkward, copyedit inline, jargon inline, speculation inline, nonspecific, "
    "third-party source needed, medcn, request quotation, additional citation needed, better source example, "
    "tone inline, why?, how, how?, definition needed, ambiguous, inconsistent, sync-inline, référence nécessaire, "
    "référence souhaitée, refnec, référence insuffisante, quoi, qui, quand, pas clair, belege fehlen, "
    "nicht mehr erreichbar, нет аи, нет источника, уточнить, източник, няма източник, cita requerida, senza fonte, "
    "bron?, fonte, harvsp, sfn*, "
    # notices and structure
    "main, main article, see also, further, further information, details, about, for, other uses, redirect, hatnote, "
    "distinguish, other people, other places, short description, use dmy dates, use mdy dates, use british english, "
    "use american english, italic title, lowercase title, lowercase, displaytitle, good article, featured article, "
    "anchor, anchors, visible anchor, clear, clr, -, toc, toc limit, toc left, toc right, coord, coordinate, coords, "
    "portal, commons, commons category, wiktionary, wikiquote, wikisource, refimprove, unreferenced, update, expand, "
    "expand section, reflist, references, refbegin, refend, div col, div col end, col-begin, col-end, col-break, "
    "col-2, authority control, multiple image, double image, nowrap begin, nowrap end, nobr begin, nobr end, "
    "flagicon, flag icon, small div, noprint, void, if empty, sort, hs, hauptartikel, siehe auch, anker, absatz, "
    "article détaillé, article connexe, articles détaillés, ancre, основна, други значения, artículo principal, ap, "
    "vedi anche, dynamic list, inuse, 0, dnb-portal, de, en, fr, es, it, qualify evidence, fr icon, en icon, "
    "weiterleitungshinweis, begriffsklärungshinweis, drapeau, "
    # sounds that are heard, not read
    "audio, audio-nohelp, listen, sound, pronunciation needed, audio-ipa, respell, pronunciation, pron, pron-en, "
    "prononciation, us dict, usdict, pron-audio, écouter, ecouter"
)
_INVISIBLE_PREFIXES = (
    "harv", "sfn", "efn", "cite ", "infobox", "taxobox", "use ", "pp-", "refimprove", "citation needed",
    "mehrere bilder", "personendaten", "navbox", "ipa", "inflation-fn", "portal", "commons", "wikt", "wikiquote",
    "wikisource", "#tag:ref",
)  # fmt: skip
_SOUND_NAMES = _names(
    "ipa, ipalink, ipa link, ipaslink, ipablink, ipaplink, api, afi, lautschrift, мфа, phon, phoneme, sampa, x-sampa"
)
_QUOTATIONS = _names("quote, cquote, blockquote, quotation, bquote, quote box, zitat, citation bloc, цитат, цитата")
_TEXTUAL_NOTES = _names("harvtxt, harvcoltxt, harvtxt2, harvard citation text, harv text")

# Templates that show one of their arguments, and which: the first, the second, the last.
_FIRST = (
    "nowrap, nobr, nobreak, no wrap, nowr, abbr, abbrlink, em, strong, small, smaller, big, larger, sc, smallcaps, "
    "sc2, smcaps, small caps, noitalic, normal, nonitalic, nospell, not a typo, notatypo, typo, as written, "
    "proper name, sic, visible anchor, vanchor, okay, var, mvar, code, mono, kbd, tt, samp, kern, highlight, hl, "
    "underline, u, strikethrough, s, serif, sans-serif, ill, interlanguage link, interlanguage link multi, "
    "link-interwiki, illm, iw, llm, unicode, polytonic, script, flag, flagcountry, flagu, nihongo, nihongo2, "
    "nihongo3, nihongo krt, zh2, linktext, wikt-lang, lien, citation étrangère, incise, formatnum, nts, number, "
    "nombre, num, nombres, nb, mp, iast, iast1, transliteration, translit, clarify span, citation needed span, "
    "cn-span, fact span, chem2, stylize, title-small, raise, sup, sub, su, pl, nl, gras, exp, ind, emploi, "
    "terme défini, formnum, uc, lc, ucfirst, lcfirst, plainlink, hebrew, script/hebrew, he, hebr, rtl-lang, my, nq, "
    "polish, fontcolor, large, nobold, nastaliq, naskh, latin, resize, midsize, midsmall, pashto"
)
_SECOND = (
    "lang, langue, lengua, tooltip, color, colored, font color, colour, tlang, wikt, h:title, htitle, lang1, ref-lang"
)
_LAST = "en langue, resize, transl, transliteration, translit, tlit, rtl-lang, script/arabic"
_TEXT_ARGUMENT = (
    dict.fromkeys(_names(_FIRST), "1") | dict.fromkeys(_names(_SECOND), "2") | dict.fromkeys(_names(_LAST), "last")
)  # fmt: skip

_SIGNS = {
    ",": "", "-\"": "\"", "mdashb": "—",
    "!": "|", "=": "=", "pipe": "|", "'": "'", "'s": "'s", "' \"": "' \"", '" \'': "\" '", "\"'": "\"'", "'\"": "'\"",
    "nbsp": " ", "nbs": " ", "space": " ", "spaces": " ", "thinsp": " ", "thin space": " ", "hair space": " ",
    "hairsp": " ", "zwsp": "", "shy": "", "zwj": "", "wbr": "", "ndash": "–", "–": "–", "en dash": "–", "endash": "–",
    "nsndns": " – ", "snd": " – ", "snds": " – ", "spnd": " – ", "sndash": " – ", "spndash": " – ",
    "spaced ndash": " – ", "spaced en dash": " – ", "dash": " – ", "spaced en dash space": " – ", "mdash": "—",
    "emdash": "—", "em dash": "—", "—": "—", "spaced mdash": " — ", "·": " · ", "•": " • ", "dot": " · ",
    "bullet": " • ", "okina": "ʻ", "hamza": "ʾ", "ayin": "ʿ", "prime": "′", "pprime": "″", "minus": "−",
    "times": "×", "x": "×", "plus": "+", "ellipsis": "…", "...": "…", "number sign": "№",
    "ier": "Ier", "ire": "Ire", "er": "er", "1er": "1er", "1re": "1re", "av. j.-c.": "av. J.-C.", "av jc": "av. J.-C.",
    "bce": "BCE", "ce": "CE", "ad": "AD", "bc": "BC", "°": "°", "deg": "°", "°c": "°C", "sharp": "♯",
    "flat": "♭", "reichsmark": "ℛℳ", "`": "`", "etc.": "etc.",
}  # fmt: skip

_FIXED = {
    **dict.fromkeys(_INVISIBLE, _GONE),
    **dict.fromkeys(_SOUND_NAMES, _SOUND),
    **dict.fromkeys(_QUOTATIONS, "\n\n"),  # between paragraphs, wherever it is written
    **dict.fromkeys(_TEXTUAL_NOTES, HOLE),
    **_SIGNS,
}


def _with_templates_replaced(text: str) -> str:
    if "{{" in text:
        for _ in range(_DEEPEST):  # from the inside out
            text, found = _TEMPLATE.subn(_template, text)
            if not found:
                break
        text = _UNCLOSED_TEMPLATE.sub(HOLE, text)
    return text


def _template(match: re.Match[str]) -> str:
    body: str = match[1]
    name, _, arguments = body.partition("|")
    shown = _kind(name)
    if not isinstance(shown, str):
        shown = shown(_arguments(name, arguments))
    if shown == HOLE and "\n" in body:  # spread over lines: a box beside the text, not a part of it
        return _GONE
    return shown


_Handler = Callable[[dict[str, str]], str]


@lru_cache(maxsize=20_000)
def _kind(written: str) -> str | _Handler:
    """What a template of this name leaves: a fixed text, or a function of its arguments."""
    name = " ".join(written.replace("_", " ").split()).lower().removeprefix("template:")
    function, colon, _ = name.partition(":")
    if colon and function in _TEXT_ARGUMENT:
        name = function
    if name in _FIXED:
        return _FIXED[name]
    if name in _COMPUTED:
        return _COMPUTED[name]
    if name in _TEXT_ARGUMENT:
        return _argument_shower(_TEXT_ARGUMENT[name])
    if name.startswith("lang-"):
        return _argument_shower("1")
    if not name or name.startswith(_INVISIBLE_PREFIXES) or _VARIABLE.match(name):
        return _GONE
    return name_shown if _ORDINAL.fullmatch(name_shown := written.strip()) else HOLE


def _arguments(name: str, written: str) -> dict[str, str]:
    """The arguments by name; those without one are called "1", "2", …, and the last of them also "last"."""
    arguments: dict[str, str] = {}
    _, colon, value = name.partition(":")
    parts = [value] if colon else []
    parts += written.split("|") if written else []
    unnamed = 0
    for part in parts:
        key, equals, value = part.partition("=")
        if equals and _PARAMETER_NAME.match(key):
            arguments[key.strip()] = value.strip()
        else:
            unnamed += 1
            arguments[str(unnamed)] = arguments["last"] = part.strip()
    return arguments


def _argument_shower(which: str) -> _Handler:
    def show(arguments: dict[str, str]) -> str:
        return arguments.get(which) or arguments.get("text") or arguments.get("fr") or arguments.get("1") or HOLE

    return show


# --- templates that compute what they show --------------------------------------------------------------------------

_NUMBER = re.compile(r"[-−–+]?[\d.,]*\d(?:[ +]\d+[/⁄]\d+|[/⁄]\d+)?")
_PLAIN_NUMBER = re.compile(r"(\d{1,30})(\.\d+)?")
_UNIT = re.compile(r"[^\W\d_]{1,4}(?:/[^\W\d_]{1,3})?")
_RANGES = {
    "-": "–", "–": "–", "to": " to ", "and": " and ", "or": " or ", "by": " by ", "x": " × ", "×": " × ", "xx": " × ",
    "to(-)": " to ", "to about": " to about ", "+/-": " ± ", "±": " ± ", "and(-)": " and ", ",": ", ", "&": " and ",
    "or(-)": " or ", "à": " à ", "et": " et ", "bis": " bis ",
}  # fmt: skip
_UNITS = {
    "sqmi": "sq mi", "sqkm": "km²", "km2": "km²", "m2": "m²", "cm2": "cm²", "mm2": "mm²", "sqft": "sq ft",
    "sqyd": "sq yd", "sqin": "sq in", "sqm": "m²", "ft2": "sq ft", "mi2": "sq mi", "m3": "m³", "km3": "km³",
    "cm3": "cm³", "cc": "cc", "cuft": "cu ft", "cuyd": "cu yd", "cumi": "cu mi", "cuin": "cu in", "ft3": "cu ft",
    "c": "°C", "f": "°F", "°c": "°C", "°f": "°F", "c-change": "°C", "f-change": "°F", "acre": "acres",
    "acres": "acres", "hectare": "hectares", "mile": "miles", "miles": "miles", "foot": "feet", "feet": "feet",
    "inch": "inches", "inches": "inches", "yard": "yards", "metre": "metres", "meter": "meters",
    "metres": "metres", "meters": "meters", "kilometre": "kilometres", "kilometer": "kilometers", "pound": "pounds",
    "kilometres": "kilometres", "kilometers": "kilometers", "pounds": "pounds", "tonne": "tonnes", "tonnes": "tonnes",
    "nmi": "nautical miles", "lbs": "lb", "kn": "knots", "knot": "knots", "knots": "knots", "kph": "km/h",
    "km/h": "km/h", "kmph": "km/h", "mph": "mph", "impgal": "imperial gallons", "usgal": "US gallons", "ozt": "troy oz",
    "pd/sqmi": "people per sq mi", "pd/km2": "people per km²", "/sqmi": "per sq mi", "/km2": "per km²",
    "inhabitants/km2": "inhabitants per km²", "inhabitants/sqmi": "inhabitants per sq mi", "kg/m3": "kg/m³",
    "g/cm3": "g/cm³", "m/s2": "m/s²", "psi": "psi", "inhg": "inHg", "u.s.gal": "US gallons", "st": "stone",
    "oilbbl": "barrels", "bbl": "barrels", "oilbbl/d": "barrels per day", "bbl/d": "barrels per day",
    "koilbbl/d": "thousand barrels per day", "kbbl/d": "thousand barrels per day", "moilbbl": "million barrels",
    "mbbl": "million barrels", "moilbbl/d": "million barrels per day", "goilbbl": "billion barrels",
    "hab./km2": "hab./km²", "e3km2": "thousand km²", "km²": "km²", "m²": "m²", "m³": "m³", "%": "%",
}  # fmt: skip
_MULTIPLES = {"e3": "thousand", "e6": "million", "e9": "billion", "e12": "trillion"}
_MULTIPLE = re.compile(r"(e3|e6|e9|e12)(.+)")
_SMALLER_UNITS = frozenset(["in", "oz", "lb", "ft", "yd", "ch", "cwt"])
_MONTHS = _names("January, February, March, April, May, June, July, August, September, October, November, December")


def _convert(arguments: dict[str, str]) -> str:
    value, second = _number(arguments.get("1", "")), arguments.get("2", "")
    if not value:
        return HOLE
    third, fourth = _number(arguments.get("3", "")), arguments.get("4", "")
    if second.lower() in _RANGES:
        unit = _unit(fourth)
        return f"{value}{_RANGES[second.lower()]}{third} {unit}" if third and unit else HOLE
    unit = _unit(second)
    if unit and third and fourth in _SMALLER_UNITS:
        return f"{value} {unit} {third} {_unit(fourth)}"
    return f"{value} {unit}" if unit else HOLE


def _number(written: str) -> str:
    """A number as English readers see it, with commas; nothing if it is none."""
    if plain := _PLAIN_NUMBER.fullmatch(written):
        return f"{int(plain[1]):,}{plain[2] or ''}"
    return written.replace("+", " ") if _NUMBER.fullmatch(written) else ""


def _unit(written: str) -> str:
    if multiple := _MULTIPLE.fullmatch(written):
        unit = _unit(multiple[2])
        return f"{_MULTIPLES[multiple[1]]} {unit}" if unit else ""
    known = _UNITS.get(written.lower())
    return known or (written if _UNIT.fullmatch(written) else "")


def _french_quantity(arguments: dict[str, str]) -> str:
    """{{unité|1234.5|km|2}} is "1 234,5 km²"."""
    words = [arguments[key] for key in map(str, range(1, 8)) if arguments.get(key)]
    if not words or not words[0][0].isdigit():
        return HOLE
    if len(words) > 2 and words[2] in ("2", "3"):
        words[1:3] = [words[1] + words[2].translate(_SUPERSCRIPTS)]
    number, space, rest = words[0].partition(" ")
    if plain := _PLAIN_NUMBER.fullmatch(number):
        number = f"{int(plain[1]):,}".replace(",", " ") + (plain[2] or "").replace(".", ",")
    return " ".join([f"{number}{space}{rest}", *words[1:]])


def _as_of(arguments: dict[str, str]) -> str:
    year, month, day = (arguments.get(str(i), "") for i in (1, 2, 3))
    if "alt" in arguments:
        return arguments["alt"]
    if month.isdecimal() and len(month) <= 2 and 1 <= int(month) <= 12:
        month = _MONTHS[int(month) - 1]
    words = "since" if "since" in arguments else "as of"
    if not arguments.get("lc"):
        words = words.capitalize()
    return " ".join(filter(None, [words, day, month, year])) if year else HOLE


def _fraction(arguments: dict[str, str]) -> str:
    numbers = [arguments[str(i)] for i in (1, 2, 3) if arguments.get(str(i))]
    return {1: "1/{}", 2: "{}/{}", 3: "{} {}/{}"}[len(numbers)].format(*numbers) if numbers else "/"


def _after(words: str) -> _Handler:
    """Show the first argument after these words."""
    return lambda arguments: f"{words}{arguments['1']}" if arguments.get("1") else words.strip()


def _around(before: str, after: str) -> _Handler:
    """Show the first argument between these marks."""
    return lambda arguments: f"{before}{arguments['1']}{after}" if arguments.get("1") else HOLE


def _all_joined(between: str) -> _Handler:
    """Show all unnamed arguments."""
    return lambda arguments: between.join(value for key, value in arguments.items() if key.isdecimal()) or HOLE


def _chemical(arguments: dict[str, str]) -> str:
    """The formula, unless it has a charge, which would look like a number of atoms."""
    formula = "".join(value for key, value in arguments.items() if key.isdecimal())
    return HOLE if not formula or "+" in formula or "-" in formula or "−" in formula else formula


def _date(arguments: dict[str, str]) -> str:
    parts = [value for key, value in arguments.items() if key.isdecimal() and value]
    return " ".join(parts) if parts and not (len(parts) == 3 and parts[1].isdecimal()) else HOLE


def _note_sign(arguments: dict[str, str]) -> str:
    return {"flat": "♭", "sharp": "♯", "natural": "♮"}.get(arguments.get("1", ""), HOLE)


def _citation(arguments: dict[str, str]) -> str:
    """A French quotation; in English the same name is a note with named arguments."""
    return f"« {arguments['1']} »" if list(arguments) == ["1", "last"] else _GONE


def _sic(arguments: dict[str, str]) -> str:
    return arguments.get("1", "") + arguments.get("2", "") if "1" in arguments else _GONE


def _century(arguments: dict[str, str]) -> str:
    return f"{arguments['1']}e siècle" if arguments.get("1") else HOLE


_COMPUTED: dict[str, _Handler] = {
    "convert": _convert, "cvt": _convert, "conv": _convert, "unité": _french_quantity,
    "unite": _french_quantity, "nombre": _french_quantity,
    "as of": _as_of, "asof": _as_of, "frac": _fraction, "fraction": _fraction, "sfrac": _fraction,
    "circa": _after("c. "), "c.": _after("c. "), "ca.": _after("c. "), "ca": _after("c. "), "c": _after("c. "),
    "floruit": _after("fl. "), "fl.": _after("fl. "), "p.": _after("p. "), "us$": _after("US$"), "usd": _after("US$"),
    "gbp": _after("£"), "£": _after("£"), "eur": _after("€"), "€": _after("€"), "inr": _after("₹"), "¥": _after("¥"),
    "hms": _after("HMS "), "uss": _after("USS "), "rms": _after("RMS "), "ss": _after("SS "), "sms": _after("SMS "),
    "angbr": _around("⟨", "⟩"), "angle bracket": _around("⟨", "⟩"), '"': _around("„", "“"), "“": _around("“", "”"),
    "chem": _chemical, "chem2": _chemical, "date": _date, "date-": _date,
    "date de naissance": _date, "date de décès": _date,
    "music": _note_sign, "citation": _citation, "incise": _around("– ", " –"), "vol.": _after("vol. "),
    "sic": _sic,
    "s-": _century, "smn": _century, "s": _century, "siècle": _century, "sia-": _century, "bracket": _around("[", "]"),
    "heure": _all_joined(" h "), "tmp": _around("", " °C"), "keypress": _all_joined("+"), "key press": _all_joined("+"),
    "euro": lambda arguments: f"{arguments['1']} €" if arguments.get("1") else "€",
    "höhe": _around("", " m"),
}  # fmt: skip


# --- links ----------------------------------------------------------------------------------------------------------

_FILES = _names(
    "file, image, media, datei, bild, fichier, média, fil, bestand, afbeelding, файл, изображение, медиа, archivo, "
    "imagen, medio, immagine, plik, grafika, ملف, صورة, وسائط, 文件, 图像, 圖像, 檔案, 档案, 图片, 圖片, 媒体, 媒體, "
    "ファイル, 画像, メディア, зображення, медіа, tập tin, hình, phương tiện, ficheiro, arquivo, imagem, multimédia, "
    "پرونده, تصویر, مدیا, رسانه, fitxer, imatge, датотека, слика, datoteka, slika, медиј, medij, berkas, gambar, "
    "파일, 그림, 미디어, bilde, medium, tiedosto, kuva, dosya, resim, ortam, fájl, kép, soubor, médium, fișier, "
    "fişier, imagine, картинка, медия, αρχείο, εικόνα, μέσο, קובץ, תמונה, מדיה, billede, चित्र, मीडिया, dosiero, "
    "pilt, súbor, obrázok, fitxategi, irudi, payl, hulagway, paypay, vaizdas, attēls, mynd, ไฟล์, ภาพ, fail, şəkil, "
    "fayl, պատկեր, ფაილი, сурет, выява, хӏум, ficheru, imaxe"
)
_CATEGORIES = _names(
    "category, kategorie, catégorie, kategori, categorie, категория, categoría, categoria, kategoria, تصنيف, 分类, "
    "分類, カテゴリ, категорія, thể loại, رده, категорија, kategorija, 분류, luokka, kategória, κατηγορία, קטגוריה, "
    "श्रेणी, kategorio, kategooria, kaarangay, kategoriya, категори, kateqoriya, หมวดหมู่, flokkur, կատեգորիա, "
    "კატეგორია, санат, катэгорыя, clase"
)
_UNSEEN_NAMESPACES = frozenset([*_FILES, *_CATEGORIES])
_LANGUAGE = re.compile(
    r"(?!doi$|rfc$|voy$|wmf$|iso$|mw$|oed$|hdl$|tv$)[a-z]{2,3}|simple|(?:zh|be|roa|map|bat|fiu|cbk|nds)-[a-z-]+"
)

# The label is the only group: joining what `split` returns puts it in the place of the link.
_SIMPLE_LINK = re.compile(r"\[\[(?:[^\[\]{}|:\n]*+\|)?+([^\[\]{}|:\n]++)\]\]")
_FLAT_LINK = re.compile(r"\[\[([^\[\]{}\n]++)\]\]")
_WEB_LINK = re.compile(
    r"\[(?:(?:https?|ftps?|irc|ircs|gopher|telnet|nntp|svn|git|sftp):)?//[^\s\[\]<>]*+[^\S\n]*+"
    r"([^\[\]\n]*+(?:\[[^\[\]\n]*+\][^\[\]\n]*+)*+)\]",
    re.IGNORECASE,
)
_MAIL_LINK = re.compile(
    r"\[(?:mailto|news|tel|geo|magnet|urn|sip|xmpp):[^\s\[\]<>]++[^\S\n]*+([^\[\]\n]*+)\]", re.IGNORECASE
)
_LINK = re.compile(r"\[\[((?:[^\[\]\n]++|\n(?!\n)|\[(?!\[)|\](?!\]))*+)\]\]")
_UNCLOSED_LINK = re.compile(r"\[\[(?:[^\[\]|\n]*+\|)?+")
_PIPE_TRICK = re.compile(r"\s*+(?:\([^()]*+\)|,.*+)\s*+$", re.DOTALL)


def _with_simple_links_shown(text: str) -> str:
    if "[[" in text:
        text = "".join(_SIMPLE_LINK.split(text))
        text = _FLAT_LINK.sub(_link, text)  # before the templates: they would take its bar for theirs
    if "//" in text:
        text = "".join(_WEB_LINK.split(text))
    return text


def _with_links_shown(text: str) -> str:
    if "[" not in text:
        return text
    for _ in range(_DEEPEST):  # from the inside out: captions of pictures contain links
        if "[[" not in text:
            break
        text, found = _LINK.subn(_link, text)
        if not found:
            text = _UNCLOSED_LINK.sub(HOLE, text)
            break
    if "//" in text:
        text = "".join(_WEB_LINK.split(text))
    return "".join(_MAIL_LINK.split(text))


def _link(match: re.Match[str]) -> str:
    target, bar, label = match[1].partition("|")
    namespace, colon, title = target.partition(":")
    if colon and (namespace := namespace.strip()):
        if namespace.replace("_", " ").lower() in _UNSEEN_NAMESPACES:
            return _GONE
        if _LANGUAGE.fullmatch(namespace):
            return _GONE
    if label.strip():
        return label
    if bar:
        target = title if colon else target
        return _PIPE_TRICK.sub("", " ".join(target.split()))
    return target.strip().removeprefix(":")


# --- inline marks ---------------------------------------------------------------------------------------------------

_BLOCK_TAG = re.compile(
    r"</?(?:p|div|blockquote|center|hr|h[1-6]|table|tr|td|th|li|ul|ol|dl|dd|dt)\b[^<>]*+>", re.IGNORECASE
)
_LINE_BREAK = re.compile(r"</?br\b[^<>]*+>", re.IGNORECASE)
_TAG = re.compile(r"</?(?![Rr][Ee][Ff]\b)[A-Za-z][A-Za-z0-9]*+(?:\s[^<>]*+)?+/?>")
_POWER = re.compile(r"<[Ss][Uu][Pp]>\s*+([-−–+]?\d{1,4})\s*+</[Ss][Uu][Pp]>")
_SUPERSCRIPTS = str.maketrans("0123456789-−–+", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁻⁻⁺")
_EMPHASIS = re.compile(r"'''''|'''|''")
_POSSESSIVE = re.compile(r"''(?<!''')(?!')([^'\n]++)'''(?=s\b)")  # ''Title'''s is an italic title and an apostrophe
# l'''Iliade'' is an apostrophe and an italic title
_ELISION = re.compile(r"'''(?:(?<=[^\w']\w''')|(?<=[Qq]u'''))(?=\w)([^'\n]++)''(?!')")
_MAGIC_WORD = re.compile(r"__[^\W\d_]{3,30}+__")
_BARE_URL = re.compile(r"(?:https?|ftps?|HTTPS?|FTP)://[^\s<>\[\]{}|\"]*+")
_VARIANTS = re.compile(r"-\{([^{}]*+)\}-")  # Chinese, Serbian: spelling by the reader's choice


def _without_inline_marks(text: str) -> str:
    if "<" in text:
        text = _POWER.sub(lambda match: match[1].translate(_SUPERSCRIPTS), text)
        text = _LINE_BREAK.sub(" ", text)
        text = _BLOCK_TAG.sub("\n\n", text)
        text = _TAG.sub("", text)
    if "''" in text:
        if "'''" in text:
            text = _ELISION.sub(r"'\1", _POSSESSIVE.sub(r"\1'", text))
        text = _EMPHASIS.sub("", text)
    if "__" in text:
        text = _MAGIC_WORD.sub("", text)
    if "://" in text:
        text = _BARE_URL.sub(HOLE, text)
    if "-{" in text:
        text = _VARIANTS.sub(lambda match: HOLE if ":" in match[1] or ";" in match[1] else match[1], text)
    return text


# --- lines to paragraphs --------------------------------------------------------------------------------------------

_NOT_PROSE = tuple("*#;:|=}")
_NOTHING = f"{HOLE}{_GONE}{_SOUND}"
_SENTENCE_ENDS = tuple('.!?:。！？…"”“»)」』')


def _joined_lines(text: str) -> list[str]:
    """One string for each paragraph: lines that follow each other are one, as MediaWiki shows them."""
    found: list[str] = []
    current: list[str] = []
    for untrimmed in text.split("\n"):
        line = untrimmed.strip()
        if line and line[0] in _NOTHING and not line.strip(f"{_NOTHING} ,;.·|"):
            # Only templates. In the middle of a sentence they are a part of it, otherwise a box between paragraphs.
            line = HOLE if HOLE in line and current and not current[-1].endswith(_SENTENCE_ENDS) else ""
        if line and not line.lstrip(_NOTHING + " ").startswith(_NOT_PROSE) and not line.startswith("----"):
            current.append(line)
        elif current:
            found.append(" ".join(current))
            current = []
    if current:
        found.append(" ".join(current))
    return found


# --- tidying --------------------------------------------------------------------------------------------------------

_MARK = f"[{_GONE}{_SOUND}]"
_MARKS = re.compile(rf"{_MARK}(?:\s*+{_MARK})++")
_SEPARATOR = r"[\s;,:/–—-]"
_LABEL = rf"(?:[^();,:{_GONE}{_SOUND}\n]{{0,40}}+:)?+"  # as in "(German pronunciation: …)"
_AFTER_OPENING = re.compile(rf"([(（]){_LABEL}{_SEPARATOR}*+{_MARK}(?:{_SEPARATOR}|or\b|{_MARK})*+")
_EMPTY_BRACKETS = re.compile(rf"[(（]{_GONE}[)）]")
_BRACKETS = re.compile(rf"[(（][^()（）\n{_SOUND}]*+{_SOUND}[^()（）\n]*+[)）]")
_BEFORE_SEPARATOR = re.compile(rf"(?:[;,]{_LABEL})?+[^\S\n]*+{_GONE}[^\S\n]*+(?=[;,)）])")
_LOOSE = [(f" {stop}{after}", f"{stop}{after}") for stop in ",." for after in (" ", "\n", HOLE)]
_LOOSE += [("( ", "("), (" )", ")")]
_LOST_NOTE = re.compile(r"</?[Rr][Ee][Ff][^\n]*+")  # where a note has no end, it may be the rest of the paragraph
_LOST_MARKS = ("[[", "]]", "{{", "}}", "{|", "'''")
_INVISIBLE_CHARACTERS = ("\u200b", "\ufeff", "\u00ad", "\u200e", "\u200f", "\u2060")


def _tidied(text: str) -> str:
    for mark in _INVISIBLE_CHARACTERS:
        if mark in text:
            text = text.replace(mark, "")
    if _GONE in text or _SOUND in text:
        text = "\n".join([_without_marks(line) for line in text.split("\n")])
    for mark in _LOST_MARKS:
        if mark in text:
            text = text.replace(mark, HOLE)
    if "<" in text:
        text = _LOST_NOTE.sub(HOLE, text)
    if "&" in text:
        text = html.unescape(text)
    text = "".join([" ".join(line.split()) + "\n" for line in text.split("\n")])
    for loose, tight in _LOOSE:
        if loose in text:
            text = text.replace(loose, tight)
    return text.translate(_UNLITERAL) if any(mark in text for mark in _OURS) else text


def _without_marks(text: str) -> str:
    """Remove our marks with the punctuation that only served what was there, as in "(; born 1879)"."""
    if _GONE not in text and _SOUND not in text:
        return text
    text = _MARKS.sub(lambda match: _SOUND if _SOUND in match[0] else _GONE, " ".join(text.split()))
    text = _AFTER_OPENING.sub(rf"\1{_GONE}", text)
    text = _EMPTY_BRACKETS.sub("", text)
    if _SOUND in text:
        text = text.replace(f"[{_SOUND}]", _GONE)
        text = _BRACKETS.sub(lambda match: match[0].replace(_SOUND, _GONE), text)
    text = _BEFORE_SEPARATOR.sub("", text)
    return text.replace(_GONE, "").replace(_SOUND, HOLE)


def _has_text(paragraph: str) -> bool:
    return any(char.isalnum() for char in paragraph[:200])
