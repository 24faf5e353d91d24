"""Replace the templates of an article by nothing, a sign, an argument, a computed text or a hole."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from corpusgen.text.marks import DEEPEST, GONE, HOLE, SOUND, SUPERSCRIPTS, names

# A template ends before the next heading: otherwise one lost pair of braces could eat all sections up to another.
_TEMPLATE = re.compile(r"\{\{((?:[^{}\n]++|\n(?!==)|\{(?!\{)|\}(?!\}))*+)\}\}")
_UNCLOSED_TEMPLATE = re.compile(r"\{\{[^\n]*+(?:\n(?![\n=*#:;])[^\n]*+)*+")
_PARAMETER_NAME = re.compile(r"\s*+[\w][\w -]*+\s*+$")
_VARIABLE = re.compile(r"[^\W\d_]{4,}:")  # {{DEFAULTSORT:…}}
_ORDINAL = re.compile(r"\d+(?:e|er|re|st|nd|rd|th)|[IVX]+e siècle")

_INVISIBLE = names(
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
_SOUND_NAMES = names(
    "ipa, ipalink, ipa link, ipaslink, ipablink, ipaplink, api, afi, lautschrift, мфа, phon, phoneme, sampa, x-sampa"
)
_QUOTATIONS = names("quote, cquote, blockquote, quotation, bquote, quote box, zitat, citation bloc, цитат, цитата")
_TEXTUAL_NOTES = names("harvtxt, harvcoltxt, harvtxt2, harvard citation text, harv text")

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
    dict.fromkeys(names(_FIRST), "1") | dict.fromkeys(names(_SECOND), "2") | dict.fromkeys(names(_LAST), "last")
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
    **dict.fromkeys(_INVISIBLE, GONE),
    **dict.fromkeys(_SOUND_NAMES, SOUND),
    **dict.fromkeys(_QUOTATIONS, "\n\n"),  # between paragraphs, wherever it is written
    **dict.fromkeys(_TEXTUAL_NOTES, HOLE),
    **_SIGNS,
}


def with_templates_replaced(text: str) -> str:
    """Replace each template in a text by what a reader sees in its place."""
    if "{{" in text:
        for _ in range(DEEPEST):  # from the inside out
            text, found = _TEMPLATE.subn(_template, text)
            if not found:
                break
        text = _UNCLOSED_TEMPLATE.sub(HOLE, text)
    return text


def _template(match: re.Match[str]) -> str:
    body: str = match[1]
    name, _, arguments = body.partition("|")
    shown = (_known_kind if len(name) <= _LONGEST_NAME else _kind)(name)
    if not isinstance(shown, str):
        shown = shown(_arguments(name, arguments))
    if shown == HOLE and "\n" in body:  # spread over lines: a box beside the text, not a part of it
        return GONE
    return shown


_Handler = Callable[[dict[str, str]], str]


def _kind(written: str) -> str | _Handler:
    """Return what a template of this name becomes: a fixed text, or a function of its arguments."""
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
        return GONE
    return name_shown if _ORDINAL.fullmatch(name_shown := written.strip()) else HOLE


_LONGEST_NAME = 255  # of a template, by MediaWiki's rules; longer ones are not cached, as they would take memory
_known_kind = lru_cache(maxsize=20_000)(_kind)


def _arguments(name: str, written: str) -> dict[str, str]:
    """Return the arguments by name; unnamed ones are called "1", "2", …, and the last of them also "last"."""
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
_MONTHS = names("January, February, March, April, May, June, July, August, September, October, November, December")


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
    """Format a number as English readers see it, with commas; return an empty string if it is not a number."""
    if plain := _PLAIN_NUMBER.fullmatch(written):
        return f"{int(plain[1]):,}{plain[2] or ''}"
    return written.replace("+", " ") if _NUMBER.fullmatch(written) else ""


def _unit(written: str) -> str:
    if multiple := _MULTIPLE.fullmatch(written):
        unit = _plain_unit(multiple[2])
        return f"{_MULTIPLES[multiple[1]]} {unit}" if unit else ""
    return _plain_unit(written)


def _plain_unit(written: str) -> str:
    known = _UNITS.get(written.lower())
    return known or (written if _UNIT.fullmatch(written) else "")


def _french_quantity(arguments: dict[str, str]) -> str:
    """Format a French quantity: {{unité|1234.5|km|2}} is "1 234,5 km²"."""
    words = [arguments[key] for key in map(str, range(1, 8)) if arguments.get(key)]
    if not words or not words[0][0].isdigit():
        return HOLE
    if len(words) > 2 and words[2] in ("2", "3"):
        words[1:3] = [words[1] + words[2].translate(SUPERSCRIPTS)]
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
    """Return the formula, unless it has a charge, which would look like a number of atoms."""
    formula = "".join(value for key, value in arguments.items() if key.isdecimal())
    return HOLE if not formula or "+" in formula or "-" in formula or "−" in formula else formula


def _date(arguments: dict[str, str]) -> str:
    parts = [value for key, value in arguments.items() if key.isdecimal() and value]
    return " ".join(parts) if parts and not (len(parts) == 3 and parts[1].isdecimal()) else HOLE


def _note_sign(arguments: dict[str, str]) -> str:
    return {"flat": "♭", "sharp": "♯", "natural": "♮"}.get(arguments.get("1", ""), HOLE)


def _citation(arguments: dict[str, str]) -> str:
    """Show a French quotation; in English the same name is a note with named arguments."""
    return f"« {arguments['1']} »" if list(arguments) == ["1", "last"] else GONE


def _sic(arguments: dict[str, str]) -> str:
    return arguments.get("1", "") + arguments.get("2", "") if "1" in arguments else GONE


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
