"""Extract running text from the mark-up of a Wikipedia article, by regular expressions that do a lot in each pass.

What readers do not see, or what is not running text (notes, tables, lists, pictures), is removed. Where something
visible was removed from the middle of a sentence, a `HOLE` stays behind, so that a later filter can reject the
sentence: better no sentence than "The river is long." made from "The river is {{length}} long."

The patterns use possessive quantifiers and stop at the next opening mark, so their time grows with the length of the
text, however broken the mark-up is.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

from corpusgen.text.marks import DEEPEST, GONE, HOLE, SOUND, SUPERSCRIPTS, names
from corpusgen.text.templates import with_templates_replaced

# Marks of our own, like those of marks.py.
_LITERAL = {ord(char): 0xFDD2 + i for i, char in enumerate("[]{}|<>='*#:;!&_-/\n")}  # mark-up inside <nowiki>
_UNLITERAL = {ours: theirs for theirs, ours in _LITERAL.items()} | {0xFDD2 + len(_LITERAL) - 1: " "}
_OURS = [GONE, SOUND, *map(chr, _LITERAL.values())]


def paragraphs(wikitext: str) -> list[str]:
    """Return an article's paragraphs of running text, without mark-up; a HOLE stands for visible text that was lost."""
    text = _without_our_marks(wikitext)
    text = _INDENTED.sub("\n:", text)
    text = _without_comments(text)
    text = _without_elements(text)
    text = _without_tables(text)
    text = _with_simple_links_shown(text)
    text = with_templates_replaced(text)
    text = _with_links_shown(text)
    text = _without_inline_marks(text)
    text = _tidied("\n".join(_joined_lines(text)))
    return [paragraph for paragraph in text.split("\n") if _has_text(paragraph)]


def is_redirect(wikitext: str) -> bool:
    """Return whether the page only sends the reader to another one."""
    return _REDIRECT.match(wikitext) is not None


def is_disambiguation(wikitext: str) -> bool:
    """Return whether the page lists the meanings or bearers of a name instead of being an article."""
    return _DISAMBIGUATION.search(wikitext) is not None


def _alternatives(names: Iterable[str]) -> str:
    longest_first = sorted(names, key=len, reverse=True)
    return "|".join(re.escape(name).replace(r"\ ", "[ _]") for name in longest_first)


_REDIRECT_WORDS = names(
    "redirect, weiterleitung, redirection, виж, пренасочване, перенаправление, перенапр, redirección, redireccion, "
    "rinvia, rinvio, doorverwijzing, patrz, przekieruj, tam, redirecionamento, omdirigering, 転送, リダイレクト, "
    "重定向, перенаправлення, đổi, تحويل, تغییر_مسیر, تغییرمسیر, redirecció, преусмери, preusmeri, alih, 넘겨주기, "
    "viderekobling, ohjaus, uudelleenohjaus, yönlendirme, yönlendi̇rme, átirányítás, přesměruj, redirecționează, "
    "ανακατευθυνση, ανακατεύθυνση, הפניה, अनुप्रेषित, पुनर्प्रेषित, alidirektu, alidirekti, suuna, birzuzendu, "
    "presmeruj, preusmjeri, preusmeritev, peradresavimas, เปลี่ยนทาง, lencongan, tilvísun, дахьаьхьорг, əvəzetmə"
)
_REDIRECT = re.compile(rf"\ufeff?\s*+#\s*+(?:{_alternatives(_REDIRECT_WORDS)})\s*+:?\s*+\[\[", re.IGNORECASE)

_DISAMBIGUATION_NAMES = names(
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

_INDENTED = re.compile(r"\n[ \t]++(?=[^\s{}<\[|!*#:;=])")  # MediaWiki shows such a line verbatim, like code
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
    # Up to the last end of a comment every comment is closed, so no search for an end can fail.
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
    return GONE


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


# --- links ----------------------------------------------------------------------------------------------------------

_FILES = names(
    "file, image, media, datei, bild, fichier, média, fil, bestand, afbeelding, файл, изображение, медиа, archivo, "
    "imagen, medio, immagine, plik, grafika, ملف, صورة, وسائط, 文件, 图像, 圖像, 檔案, 档案, 图片, 圖片, 媒体, 媒體, "
    "ファイル, 画像, メディア, зображення, медіа, tập tin, hình, phương tiện, ficheiro, arquivo, imagem, multimédia, "
    "پرونده, تصویر, مدیا, رسانه, fitxer, imatge, датотека, слика, datoteka, slika, медиј, medij, berkas, gambar, "
    "파일, 그림, 미디어, bilde, medium, tiedosto, kuva, dosya, resim, ortam, fájl, kép, soubor, médium, fișier, "
    "fişier, imagine, картинка, медия, αρχείο, εικόνα, μέσο, קובץ, תמונה, מדיה, billede, चित्र, मीडिया, dosiero, "
    "pilt, súbor, obrázok, fitxategi, irudi, payl, hulagway, paypay, vaizdas, attēls, mynd, ไฟล์, ภาพ, fail, şəkil, "
    "fayl, պատկեր, ფაილი, сурет, выява, хӏум, ficheru, imaxe"
)
_CATEGORIES = names(
    "category, kategorie, catégorie, kategori, categorie, категория, categoría, categoria, kategoria, تصنيف, 分类, "
    "分類, カテゴリ, категорія, thể loại, رده, категорија, kategorija, 분류, luokka, kategória, κατηγορία, קטגוריה, "
    "श्रेणी, kategorio, kategooria, kaarangay, kategoriya, категори, kateqoriya, หมวดหมู่, flokkur, կատեգորիա, "
    "კატეგორია, санат, катэгорыя, clase"
)
_UNSEEN_NAMESPACES = frozenset([*_FILES, *_CATEGORIES])
_LANGUAGE = re.compile(
    r"(?!doi$|rfc$|voy$|wmf$|iso$|mw$|oed$|hdl$|tv$)[a-z]{2,3}|simple|(?:zh|be|roa|map|bat|fiu|cbk|nds)-[a-z-]+"
)

# The label is the only group: joining what `split` returns puts it in place of the link.
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
        text = _FLAT_LINK.sub(_link, text)  # before templates, which would take its bar for theirs
    if "//" in text:
        text = "".join(_WEB_LINK.split(text))
    return text


def _with_links_shown(text: str) -> str:
    if "[" not in text:
        return text
    for _ in range(DEEPEST):  # from the inside out: captions of pictures contain links
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
            return GONE
        if _LANGUAGE.fullmatch(namespace):
            return GONE
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
_EMPHASIS = re.compile(r"'''''|'''|''")
_POSSESSIVE = re.compile(r"''(?<!''')(?!')([^'\n]++)'''(?=s\b)")  # ''Title'''s is an italic title and an apostrophe
# l'''Iliade'' is an apostrophe and an italic title
_ELISION = re.compile(r"'''(?:(?<=[^\w']\w''')|(?<=[Qq]u'''))(?=\w)([^'\n]++)''(?!')")
_MAGIC_WORD = re.compile(r"__[^\W\d_]{3,30}+__")
_BARE_URL = re.compile(r"(?:https?|ftps?|HTTPS?|FTP)://[^\s<>\[\]{}|\"]*+")
_VARIANTS = re.compile(r"-\{([^{}]*+)\}-")  # Chinese, Serbian: spelling by the reader's choice


def _without_inline_marks(text: str) -> str:
    if "<" in text:
        text = _POWER.sub(lambda match: match[1].translate(SUPERSCRIPTS), text)
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
_NOTHING = f"{HOLE}{GONE}{SOUND}"
_SENTENCE_ENDS = tuple('.!?:。！？…"”“»)」』')


def _joined_lines(text: str) -> list[str]:
    """Return one string per paragraph: adjacent lines are joined, as MediaWiki shows them."""
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

_MARK = f"[{GONE}{SOUND}]"
_MARKS = re.compile(rf"{_MARK}(?:\s*+{_MARK})++")
_SEPARATOR = r"[\s;,:/–—-]"
_LABEL = rf"(?:[^();,:{GONE}{SOUND}\n]{{0,40}}+:)?+"  # as in "(German pronunciation: …)"
_AFTER_OPENING = re.compile(rf"([(（]){_LABEL}{_SEPARATOR}*+{_MARK}(?:{_SEPARATOR}|or\b|{_MARK})*+")
_EMPTY_BRACKETS = re.compile(rf"[(（]{GONE}[)）]")
_BRACKETS = re.compile(rf"[(（][^()（）\n{SOUND}]*+{SOUND}[^()（）\n]*+[)）]")
_BEFORE_SEPARATOR = re.compile(rf"(?:[;,]{_LABEL})?+[^\S\n]*+{GONE}[^\S\n]*+(?=[;,)）])")
_LOOSE = [(f" {stop}{after}", f"{stop}{after}") for stop in ",." for after in (" ", "\n", HOLE)]
_LOOSE += [("( ", "("), (" )", ")")]
_LOST_NOTE = re.compile(r"</?[Rr][Ee][Ff][^\n]*+")  # a note without an end may be the rest of the paragraph
_LOST_MARKS = ("[[", "]]", "{{", "}}", "{|", "'''")
_ENDLESS_NUMBER = re.compile(r"&#[0-9]{1000,}+;?")  # not a character; Python refuses to read that many digits
_INVISIBLE_CHARACTERS = ("\u200b", "\ufeff", "\u00ad", "\u200e", "\u200f", "\u2060")


def _tidied(text: str) -> str:
    for mark in _INVISIBLE_CHARACTERS:
        if mark in text:
            text = text.replace(mark, "")
    if GONE in text or SOUND in text:
        text = "\n".join([_without_marks(line) for line in text.split("\n")])
    for mark in _LOST_MARKS:
        if mark in text:
            text = text.replace(mark, HOLE)
    if "<" in text:
        text = _LOST_NOTE.sub(HOLE, text)
    if "&" in text:
        text = html.unescape(_ENDLESS_NUMBER.sub("\ufffd", text))
    text = "".join([" ".join(line.split()) + "\n" for line in text.split("\n")])
    for loose, tight in _LOOSE:
        if loose in text:
            text = text.replace(loose, tight)
    return text.translate(_UNLITERAL) if any(mark in text for mark in _OURS) else text


def _without_marks(text: str) -> str:
    """Remove our marks and the punctuation that only served what was removed, as in "(; born 1879)"."""
    if GONE not in text and SOUND not in text:
        return text
    text = _MARKS.sub(lambda match: SOUND if SOUND in match[0] else GONE, " ".join(text.split()))
    text = _AFTER_OPENING.sub(rf"\1{GONE}", text)
    text = _EMPTY_BRACKETS.sub("", text)
    if SOUND in text:
        text = text.replace(f"[{SOUND}]", GONE)
        text = _BRACKETS.sub(lambda match: match[0].replace(SOUND, GONE), text)
    text = _BEFORE_SEPARATOR.sub("", text)
    return text.replace(GONE, "").replace(SOUND, HOLE)


def _has_text(paragraph: str) -> bool:
    return any(char.isalnum() for char in paragraph[:200])
