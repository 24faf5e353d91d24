"""Texts that were made to cost time or memory, and what each part of `corpusgen.text` takes for them.

`python -m tests.corpusgen.text.adversarial` measures every part on every text at two sizes and names what grows faster
than the text does; it is the long form of what test_fuzz.py keeps watch over.
"""

import itertools
import sys
import time

import pyarrow as pa

from corpusgen.tables import PARAGRAPHS, SENTENCES

_ELEMENTS = [
    *("gallery", "timeline", "syntaxhighlight", "source", "pre", "score", "poem", "math", "chem", "ce", "hiero"),
    *("nowiki", "imagemap", "graph", "mapframe", "maplink", "table", "ul", "ol", "dl", "includeonly", "inputbox"),
    *("categorytree", "style", "script", "templatedata", "section", "references"),
]
_OPENED, _CLOSED = ("".join(f"<{slash}{name}>" for name in _ELEMENTS) for slash in ("", "/"))


def _repeated(piece, between=""):
    return lambda size: between.join(itertools.repeat(piece, max(1, size // len(piece + between))))


def _nested(opening, closing, inside=""):
    return lambda size: opening * (size // (2 * len(opening))) + inside + closing * (size // (2 * max(1, len(closing))))


def _after(start, piece, end=""):
    return lambda size: start + piece * max(1, (size - len(start + end)) // len(piece)) + end


def _numbered(pattern):
    return lambda size: "".join(pattern.format(n) for n in range(max(1, size // (len(pattern) + 4))))


GENERATORS = {
    # marks and spaces
    **{f"{piece!r} again and again": _repeated(piece) for piece in (
        "?!", "!", "?", ".", "…", "?)", ".)", '."', ".'", ".’", "!?\"", ".”", ". ", "! ", "? ", "… ", " .", ".  ",
        "...",
        ". . . ", ".) ", "?) ", ")", "]", '"', "“", "'", "’", "*", "-", "--", ",", ", ", ",.", ";", ":", "(", "[",
        "{",
        "}", "<", ">", "|", "=", "&", "_", "~", "/", "\\", " ", "\t", "\r", "\r\n", "\n", "\n\n", "\v", "\f", "\x1c",
        "\x85", "\u2028", "\u00a0", "\u3000",
    )},
    # words
    **{f"{piece!r} again and again": _repeated(piece) for piece in (
        "a", "A", "1", "é", "字", "a. ", "a. b. c. ", "A. B. ", "U.S. ", "Dr. Smith ", "e.g. ", "1. ", "1.", "a.",
        "A.",
        "a-", "a'", "don't", "a.b.c.", "Yahoo! ", "word ", "word. Word ", "No. 5 ", "Is it?\" he ", "word.) Word ",
        "aaaa. Aa", "etc., ", "1,000.00-", "3.14", "a,", "aα字א", "αβγ. ", "שלום ", "مرحبا. ", "สวัสดี", "字。", "字…”",
    )},
    # characters that are no letters
    **{f"{piece!r} again and again": _repeated(piece) for piece in (
        "\0", "\x1b[31m", "e\u0301", "\u0301", "\u200b", "\u200d", "\u200e", "\u202e", "\u2066", "\ufeff", "\u00ad",
        "\ufffc", "\ufdd0", "\ufdd1", "\ufffd", "\U0001f600", "👨‍👩‍👧", "🇩🇪", "\U0010ffff", "\x7f", "\x9b",
    )},
    # mark-up that is never closed, or never opened
    **{f"{piece!r} again and again": _repeated(piece) for piece in (
        "{{", "{{a", "{{a|", "{{ ", "{{\n", "{{{", "}}", "{{}}", "{{a}}", "{{a|b}}", "{|", "\n{|", "\n|}", "\n{|\n|",
        "|}", "\n|",
        "[[", "[[a", "[[a|", "[[a]]", "]]", "[[a|b", "[[a\n", "[[File:a|", "[//", "[//a ", "[//a [b] ", "[//a [",
        "[http://a ",
        "[mailto:a ", "http://", "//", "<ref", "<ref>", "<ref ", "<ref/>", "</ref>", "<ref>a</ref>", "<ref name=",
        "<!--",
        "<!-- ", "-->", "<!---->", "<!-- -->\n", "<nowiki>", "<nowiki/>", "</nowiki>", "<nowiki>[[</nowiki>",
        "<math>", "<ul>", "<b",
        "<b>", "<br", "<br>", "<div>", "<sup>", "<sup>2", "<sup> ", "</", "< ", "''", "'''", "''a", "''a'''", "'''a",
        "l'''", "''a'''s ",
        " l'''a", "''''", "__", "__a", "__TOC", "-{", "-{a", "}-", "&amp", "&amp;", "&#", "&#1", "&#x", "&a", "==",
        "\n==", "\n ", "\n:",
        "\n*", "\n#", "\n;", "#redirect", "({{ipa}}", "({{efn}}", "({{efn}};", ";{{efn}}", "{{ipa|a}}", "({{ipa|a}}",
        "[{{ipa|a}}]",
        "{{convert|1|km}}", "{{sfn}} ", ", {{sfn}} ", "(;", "（", "（；",
    )},
    **{f"{opening!r} in itself": _nested(opening, closing, "a") for opening, closing in (
        ("{{", "}}"), ("{{a|", "}}"), ("[[", "]]"), ("[[a|", "]]"), ("[[File:a|", "]]"), ("<ref>", "</ref>"),
        ("<ul>", "</ul>"),
        ("\n{|", "\n|}"), ("<nowiki>", "</nowiki>"), ("<!--", "-->"), ("(", ")"), ("''", "''"), ("-{", "}-"),
        ("<div>", "</div>"),
        ("{{{", "}}}"), ("[", "]"), ("[//a ", "]"), ("{{nowrap|", "}}"), ("{{lang|a|", "}}"),
    )},
    **{f"{start!r}, {piece!r} again and again, {end!r}": _after(start, piece, end) for start, piece, end in (
        ("#redirect", " ", "x"), ("#", " ", "redirect"), ("", " ", "#redirect [[a]]"), ("{{", " ", ""),
        ("{{", "a", "}}"),
        ("{{convert|1|", "e3", "km}}"), ("{{convert|", "1", "|km}}"), ("{{convert|", "1", "x|km}}"),
        ("{{convert|1 ", "1", "/x|km}}"),
        ("{{unité|", "1", "}}"), ("{{", "a|", "}}"), ("{{frac|", "1|", "}}"), ("&#", "9", ";"), ("&#x", "9", ";"),
        ("&", "a", ";"),
        ("[[a (", "(", "|]]"), ("[[a", ",", "|]]"), ("[[a", " ", "|]]"), ("[[", " ", ":a]]"), ("[[zh-", "a", ":b]]"),
        ("[//", "a", "]"),
        ("[//a ", "[b]", ""), ("[//a ", "[//b]", ""), ("[mailto:a ", "b", ""), ("<ref name=", "a", ""),
        ("<ref>", "a", ""), ("<ref>", "<b>", ""),
        ("<!--", "a", ""), ("<math>", "<b>", ""), ("<sup>", " ", "2</sup>"), ("{|", "\n|", ""), ("''", "a", "'"),
        ("__", "a", "__"), ("({{efn}}", ";", ""),
        ("(", "; ", "{{efn}}"), ("a.", " ", "B"), ("a.", " ", ""), ("a. ", "b", ". C"), ("A", "a", "."),
        ("A ", "a", ". B"), ("See ", "!", " Then."),
        ("a", ".", " B"), ("a", ". ", "B"), ("a.", ")", " B"), ("a.", '"', " b"), ("", "'", "a. B"),
        ("a.", "-", " B"), ("1", "1", ". A"), ("1", "1", "x. A"),
        ("a. ", " .", "b"), (".", " ", "."), ("http://", "a.", " b"), ("{{", "{{a}}", ""), ("[[", "[[a]]", ""),
        ("", "{", "}}"), ("", "[", "]]"), ("", "a\r", ""),
    )},
    "every element, none closed": _after(_OPENED, "a<b"),
    "elements in turn, none closed": _repeated(_OPENED),
    "elements in turn, closed in turn": _repeated(_OPENED + _CLOSED),
    "words that are all different": _numbered("w{0}. W{0} "),
    "templates that are all different": _numbered("{{{{t{0}}}}}"),
    "entities that are all different": _numbered("&#{0};"),
    "sentences": _repeated("The river rose in the night. It took the old bridge. Nobody was hurt. "),
}  # fmt: skip


def parts():
    """The parts that are measured, by name: each takes a text."""
    from corpusgen.config.build import FilterSettings
    from corpusgen.text.filters import FilterSentences
    from corpusgen.text.language import IdentifyLanguage
    from corpusgen.text.segment import SegmentSentences
    from corpusgen.text.wikitext import is_disambiguation, is_redirect, paragraphs
    from corpusgen.text.words import tokenize

    stage, language = SegmentSentences(), IdentifyLanguage()
    stage.setup()
    language.setup()
    off = {"capital_first", "ends_as_sentence", "no_repeated_characters", "balanced"}
    numbers = dict.fromkeys(("min_words", "max_words", "max_commas", "max_hyphens", "max_numbers"))
    late = FilterSentences(filters=FilterSettings(**numbers, **dict.fromkeys(off, False)))  # seldom asked: judged last
    early = FilterSentences(filters=FilterSettings(min_words=None, max_words=None))

    def segmented(text):
        assert not stage.process(table([text])).quarantined, "took too long"

    def filtered(text):
        """The text as one sentence, through the filters that look at all of it."""
        _, starts, ends = tokenize([text])
        row = {"source": "s", "article": "1", "paragraph": 0, "sentence": 0, "text": text,
               "token_starts": starts.tolist(), "token_ends": ends.tolist()}  # fmt: skip
        rows = pa.Table.from_pylist([row], pa.schema([field for field in SENTENCES if field.name != "id"]))
        late.process(rows)
        early.process(rows)

    return {
        "segment": segmented,
        "tokenize": lambda text: tokenize([text]),
        "wikitext": paragraphs,
        "redirect": is_redirect,
        "disambiguation": is_disambiguation,
        "identify": lambda text: language.process(table([text])),
        "filter": filtered,
    }


def table(texts):
    """Paragraphs as the readers give them."""
    provenance = {"source": "s", "article": "1", "title": "T", "revision": "9"}
    return pa.Table.from_pylist(
        [{**provenance, "paragraph": n, "text": text} for n, text in enumerate(texts)], PARAGRAPHS
    )


def measure(wanted="", size=200_000, factor=4, worth=0.05):
    """Say what grows faster than the text, what raises, and what is slowest for its size."""
    slowest = {}
    for name, part in parts().items():
        if wanted and wanted not in name:
            continue
        for what, make in GENERATORS.items():
            try:
                small, large = (_seconds(part, make(length)) for length in (size // factor, size))
            except Exception as error:
                _say(f"{name:15} RAISES {type(error).__name__}: {str(error)[:80]}  {what}")
                continue
            if large > worth and large / small > 1.5 * factor:
                _say(f"{name:15} {small:8.3f} s -> {large:8.3f} s  {what}")
            slowest[name] = max(slowest.get(name, (0.0, "")), (large, what))
    for name, (seconds, what) in slowest.items():
        _say(f"{name:15} at most {1e6 * seconds / size:.2f} µs a character: {what}")


def _seconds(part, text):
    taken = []
    for _ in range(3):
        started = time.process_time()
        part(text)
        taken.append(time.process_time() - started)
        if taken[-1] > 0.5:
            break
    return min(taken)


def _say(line):
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    measure(*sys.argv[1:2], *map(int, sys.argv[2:3]))
