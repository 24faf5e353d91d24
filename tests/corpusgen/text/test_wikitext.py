"""Wikitext to paragraphs: one small test for each rule, then properties, hostile input and real articles."""

from __future__ import annotations

import bz2
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusgen.text.marks import HOLE
from corpusgen.text.templates import _known_kind
from corpusgen.text.wikitext import is_disambiguation, is_redirect, paragraphs
from tests.testing import PROJECT

DUMPS = PROJECT.parent / "shared" / "data" / "wikipedia" / "dumps"


def clean(wikitext: str) -> str:
    return "\n".join(paragraphs(wikitext))


# --- paragraphs and lines


def test_lines_without_a_blank_line_between_them_are_one_paragraph():
    assert paragraphs("One\ntwo.\n\nThree.\n\n\n\nFour.") == ["One two.", "Three.", "Four."]


@pytest.mark.parametrize(
    "line", ["* item", "# item", "; term", ": indented", "== Heading ==", "----", " code()", "| x"]
)
def test_lines_that_are_no_running_text_are_gone_and_end_a_paragraph(line: str):
    assert paragraphs(f"Before.\n{line}\nAfter.") == ["Before.", "After."]


def test_windows_line_ends_are_line_ends():
    assert paragraphs("One.\r\n\r\nTwo.") == ["One.", "Two."]


def test_nothing_gives_nothing():
    assert paragraphs("") == []
    assert paragraphs("{{Infobox}}\n[[Category:X]]\n----\n") == []


# --- comments, notes, elements


def test_comments_are_gone():
    assert clean("A<!-- [[x]] {{ --> b.") == "A b."


def test_a_comment_on_a_line_of_its_own_does_not_end_the_paragraph():
    assert paragraphs("One\n<!-- note -->\ntwo.") == ["One two."]


def test_an_unclosed_comment_costs_its_line_only():
    assert paragraphs("A. <!-- b\n\nC.") == [f"A. {HOLE}", "C."]


@pytest.mark.parametrize(
    "note", ["<ref>x [[y]]</ref>", '<ref name="a" />', "<ref name=a>{{cite web|u=1}}</ref>", "<REF>x</REF>"]
)
def test_notes_are_gone(note: str):
    assert clean(f"It is so.{note} Really{note}, yes.") == "It is so. Really, yes."


def test_an_unclosed_note_costs_its_paragraph_only():
    assert paragraphs("A.\n\nB is.<ref>c d\n\nE.<ref>x</ref>") == ["A.", f"B is.{HOLE}", "E."]


@pytest.mark.parametrize(
    "name", ["gallery", "timeline", "syntaxhighlight", "source", "pre", "score", "poem", "imagemap", "table", "ul"]
)
def test_blocks_are_gone(name: str):
    assert paragraphs(f"A.\n\n<{name} a=b>\nx\n\n* [[y]]\n</{name}>\n\nB.") == ["A.", "B."]


@pytest.mark.parametrize("formula", ["<math>x</math>", "<chem>H2O</chem>", '<math display="block">a < b</math>'])
def test_formulas_leave_a_hole(formula: str):
    assert clean(f"Let {formula} be it.") == f"Let {HOLE} be it."


def test_a_formula_on_its_own_line_in_a_sentence_leaves_a_hole():
    assert paragraphs("Then\n<math>x</math>\nholds.") == [f"Then {HOLE} holds."]


def test_nowiki_keeps_its_content_as_it_is():
    assert (
        clean("Write <nowiki>[[x]], {{y}}, '''z''' and &amp;</nowiki> so.")
        == "Write [[x]], {{y}}, '''z''' and &amp; so."
    )


def test_tags_are_stripped_and_their_content_stays():
    text = "<div class='x'>a <small>b</small> <span>c</span> CO<sub>2</sub> 4<sup>th</sup> <i>d</i></div>"
    assert clean(text) == "a b c CO2 4th d"


def test_powers_stay_powers():
    assert clean("10<sup>6</sup> km<sup>2</sup> s<sup>−1</sup>") == "10⁶ km² s⁻¹"


def test_line_breaks_are_spaces_and_blocks_are_paragraphs():
    assert paragraphs("a<br>b<br/>c") == ["a b c"]
    assert paragraphs("a<blockquote>b</blockquote>c") == ["a", "b", "c"]


def test_a_less_than_sign_is_no_tag():
    assert clean("a < b and c > d, <10 ppm") == "a < b and c > d, <10 ppm"


def test_entities_are_characters_and_never_markup():
    assert clean("a&nbsp;b &amp; &lt;ref&gt; &#91;&#91;x&#93;&#93; &mdash; c&thinsp;d") == "a b & <ref> [[x]] — c d"


def test_unusual_spaces_are_spaces():
    assert clean("a\u00a0b\u2009c\u202fd\u3000e  f\tg\u200b") == "a b c d e f g"


@pytest.mark.parametrize("word", ["__TOC__", "__NOTOC__", "__INHALTSVERZEICHNIS__"])
def test_magic_words_are_gone(word: str):
    assert paragraphs(f"{word}\nText{word}.") == ["Text."]


# --- tables


def test_tables_are_gone():
    assert paragraphs("A.\n{| class=x\n|-\n| cell\ntext\n\nmore\n|}\nB.") == ["A.", "B."]


def test_nested_tables_are_gone():
    assert paragraphs("A.\n{|\n| x\n{|\n| y\n|}\ntext\n|}\nB.") == ["A.", "B."]


def test_an_unclosed_table_costs_its_rows_only():
    assert paragraphs("A.\n\n{| class=x\n! head\n| cell\n\nB.\n\n{|\n| x\n|}\nC.") == ["A.", "B.", "C."]


def test_a_table_in_a_template_is_gone():
    assert paragraphs("{{Box|\n{|\n| x\n|}\n}}\nA.") == ["A."]


# --- links


@pytest.mark.parametrize(
    ("link", "shown"),
    [
        ("[[bus]]", "bus"),
        ("[[bus]]es", "buses"),
        ("[[bus|coach]]es", "coaches"),
        ("[[bus (vehicle)|]]", "bus"),
        ("[[Boston, Massachusetts|]]", "Boston"),
        ("[[Help:Bus (vehicle)|]]", "Bus"),
        ("[[:Category:Buses]]", "Category:Buses"),
        ("[[:de:Bus|German bus]]", "German bus"),
        ("[[2001: A Space Odyssey]]", "2001: A Space Odyssey"),
        ("[[Foo: Bar|baz: x]]", "baz: x"),
        ("[[wikt:bus|bus]]", "bus"),
        ("[[s:Bus|bus]]", "bus"),
        ("[[a|''b'' {{nowrap|c d}}]]", "b c d"),
        ("[https://example.org/a?b=c a label]", "a label"),
        ("[//example.org label]", "label"),
        ("[mailto:a@example.org write]", "write"),
    ],
)
def test_links_show_their_label(link: str, shown: str):
    assert clean(f"See {link} here.") == f"See {shown} here."


def test_a_web_link_without_a_label_is_gone():
    assert clean("See this [http://example.org/x].") == "See this."


def test_a_bare_url_leaves_a_hole():
    assert clean("See http://example.org/x?y=z for it.") == f"See {HOLE} for it."


@pytest.mark.parametrize(
    "name",
    [
        "File",
        "Image",
        "image",
        "Datei",
        "Bild",
        "Fichier",
        "Файл",
        "Картинка",
        "Archivo",
        "Plik",
        "ファイル",
        "Tập tin",
        "ملف",
    ],
)
def test_pictures_are_gone_with_links_in_their_captions(name: str):
    picture = f"[[{name}:x.jpg|thumb|A [[b|c]], [http://x d], [[{name}:y.png|20px]] and [[e: f]].]]"
    assert paragraphs(f"{picture}\nOne {picture}two.") == ["One two."]


@pytest.mark.parametrize("name", ["Category", "Kategorie", "Catégorie", "Категория", "Categoría", "カテゴリ", "분류"])
def test_categories_are_gone(name: str):
    assert paragraphs(f"Text.\n[[{name}:X|sort]]\n[[{name}:Y]]") == ["Text."]


def test_links_to_other_languages_are_gone():
    assert paragraphs("Text.\n\n[[de:Wort]]\n[[zh-min-nan:X]]\n[[simple:Word]]") == ["Text."]


def test_an_unclosed_link_costs_its_paragraph_only():
    assert paragraphs("A [[b|c d.\n\nE [[f]].") == [f"A {HOLE}c d.", "E f."]


def test_a_picture_with_an_unclosed_caption_does_not_eat_the_next_paragraph():
    assert paragraphs("[[File:x.jpg|thumb|A [[b]].\n\nText [[c]].")[-1] == "Text c."


# --- emphasis


@pytest.mark.parametrize(
    ("marked", "plain"),
    [
        ("''a'' '''b''' '''''c'''''", "a b c"),
        ("the ''Iliad'''s hero", "the Iliad's hero"),
        ("dans l'''Iliade'' et qu'''elle''", "dans l'Iliade et qu'elle"),
        ("don't 'quote' it", "don't 'quote' it"),
        ("the '''bus''' is ''not'' the '''A'''rt of ''it''", "the bus is not the Art of it"),
        ("'''unclosed bold", "unclosed bold"),
    ],
)
def test_emphasis_marks_are_gone_and_apostrophes_stay(marked: str, plain: str):
    assert clean(marked) == plain


# --- templates


@pytest.mark.parametrize(
    "template",
    [
        "{{sfn|Smith|2000|p=1}}", "{{harv|Smith|2000}}", "{{efn|A note.}}", "{{refn|group=n|x}}",
        "{{cn|date=May 2010}}", "{{Citation needed|date=May 2010}}", "{{citation_needed}}", "{{clarify}}",
        "{{fact}}", "{{r|a}}", "{{rp|12}}", "{{anchor|x}}", "{{coord|1|2}}", "{{IPAc-en|a}}", "{{respell|AY}}",
        "{{audio|x.ogg}}", "{{Use dmy dates|date=x}}", "{{short description|x}}",
        "{{cite web|url=http://x.org|title=[[a|b]]}}", "{{DEFAULTSORT:X}}", "{{efn|{{cn}} x}}",
    ],
)  # fmt: skip
def test_invisible_templates_are_gone_without_trace(template: str):
    assert clean(f"So it is{template}, and{template} stays.{template}") == "So it is, and stays."


@pytest.mark.parametrize(
    ("template", "shown"),
    [
        ("{{lang|de|Wort}}", "Wort"),
        ("{{lang-de|Wort}}", "Wort"),
        ("{{Lang-de|[[Wort|Wörter]]}}", "Wörter"),
        ("{{nowrap|x y}}", "x y"),
        ("{{nobr|1=x = y}}", "x = y"),
        ("{{abbr|e.g.|for example}}", "e.g."),
        ("{{em|x}}", "x"),
        ("{{transl|ar|ISO|x}}", "x"),
        ("{{convert|5|km|mi|abbr=on}}", "5 km"),
        ("{{cvt|1200|sqmi|km2}}", "1,200 sq mi"),
        ("{{convert|2381741.5|km2}}", "2,381,741.5 km²"),
        ("{{convert|5|to|10|C|F}}", "5 to 10 °C"),
        ("{{convert|5|-|10|mph}}", "5–10 mph"),
        ("{{convert|6|ft|2|in|m}}", "6 ft 2 in"),
        ("{{convert|22|e6acre|km2}}", "22 million acres"),
        ("{{as of|2010}}", "As of 2010"),
        ("{{as of|2010|5|lc=y}}", "as of May 2010"),
        ("{{circa|1500}}", "c. 1500"),
        ("{{c.|1500}}", "c. 1500"),
        ("a{{ndash}}b", "a–b"),
        ("a{{–}}b", "a–b"),
        ("a{{snd}}b", "a – b"),
        ("a{{'}}b", "a'b"),
        ("a{{'s}}", "a's"),
        ("{{frac|3|1|2}}", "3 1/2"),
        ("{{nowrap|{{lang|de|{{em|x}}}}}}", "x"),
        ("{{chem|H|2|O}}", "H2O"),
        ("{{unité|1234.5|km|2}}", "1 234,5 km²"),
        ("{{formatnum:98659}}", "98659"),
        ('{{"|Wort}}', "„Wort“"),
    ],
)
def test_templates_that_carry_text_show_it(template: str, shown: str):
    assert clean(f"So {template} is.") == f"So {shown} is."


@pytest.mark.parametrize(
    "template", ["{{length|x}}", "{{convert|x|y}}", "{{#if:a|b|c}}", "{{harvtxt|Smith|2000}}", "{{foo|{{y}}}}"]
)
def test_unknown_templates_in_a_sentence_leave_a_hole(template: str):
    assert clean(f"It is {template} long.") == f"It is {HOLE} long."


def test_templates_alone_on_their_lines_are_gone():
    assert paragraphs("{{Unknown|a}}\n{{Infobox x\n| a = {{b}}\n}}\n'''A''' is b.\n\n{{Other}} {{thing}}") == [
        "A is b."
    ]


def test_a_box_directly_before_the_text_leaves_no_hole():
    assert clean("{{Unknown box\n| a = [[b|c]]\n| d = {{e|f}}\n}}'''A''' is b.") == "A is b."


def test_a_phonetic_sign_that_is_part_of_the_sentence_leaves_a_hole():
    assert clean("The vowel {{IPA|a}} is open.") == f"The vowel {HOLE} is open."


def test_an_unclosed_template_costs_its_paragraph_only():
    assert paragraphs("A. {{b|c\nd\n\nE {{nowrap|f}}.") == [f"A. {HOLE}", "E f."]


def test_a_lost_pair_of_braces_does_not_eat_the_next_section():
    assert paragraphs("A.\n\n{{b\n\nC.\n\n== D ==\nE.\n\nF }} g.") == ["A.", "C.", "E.", f"F {HOLE} g."]


# --- tidying


@pytest.mark.parametrize(
    ("wikitext", "tidy"),
    [
        ("Einstein ({{IPA|x}}; 14 March 1879) was", "Einstein (14 March 1879) was"),
        ("Einstein ({{IPAc-en|x}}, {{IPA-de|y}}; 14 March) was", "Einstein (14 March) was"),
        ("Einstein ({{IPA|x}}) was", "Einstein was"),
        ("Einstein (German: {{IPA|x}}; 14 March) was", "Einstein (14 March) was"),
        ("Wort ({{lang|de|Wort}}, pronounced: {{IPA|x}}) is", "Wort (Wort) is"),
        ("Wort ({{lang|de|Wort}}; {{audio|x}}; y) is", "Wort (Wort; y) is"),
        ("Wort ({{audio|x}}), a", "Wort, a"),
        ("It is <ref>x</ref> , or <ref>y</ref> .", "It is, or."),
        ("( a )", "(a)"),
        ("call f() and g( )", "call f() and g()"),
        ("the .NET of ... .5", "the .NET of ... .5"),
    ],
)
def test_what_removal_leaves_is_tidied(wikitext: str, tidy: str):
    assert clean(wikitext) == tidy


# --- kinds of pages


@pytest.mark.parametrize(
    "text",
    ["#REDIRECT [[A]]", "#redirect[[A]]", "\n# Redirect: [[A]]", "#WEITERLEITUNG [[A]]", "#REDIRECTION [[A]]",
     "#виж [[A]]", "#ВИЖ [[A]]", "#перенаправление [[A]]", "#転送 [[A]]", "#REDIRECCIÓN [[A]]"],
)  # fmt: skip
def test_redirects_are_known(text: str):
    assert is_redirect(text)
    assert paragraphs(text) == []


@pytest.mark.parametrize("text", ["", "A #REDIRECT [[B]]", "# [[B]]", "#1 hits", "Text\n#REDIRECT [[A]]"])
def test_articles_are_no_redirects(text: str):
    assert not is_redirect(text)


@pytest.mark.parametrize(
    "name",
    ["disambiguation", "Disambig", "dab", "hndis|Smith, A", "geodis", "surname", "human_name_disambiguation",
     "set index article", "Begriffsklärung", "Homonymie", "пояснение", "Пояснение", "desambiguación", "disambigua",
     "неоднозначность", "曖昧さ回避"],
)  # fmt: skip
def test_disambiguations_are_known(name: str):
    assert is_disambiguation(f"'''A''' may be:\n* [[B]]\n\n{{{{{name}}}}}\n")


@pytest.mark.parametrize(
    "text",
    [
        "Text.",
        "{{disambiguation needed}}",
        "{{Begriffsklärungshinweis}}",
        "{{other uses|A (disambiguation)}}",
        "surname",
    ],
)
def test_articles_are_no_disambiguations(text: str):
    assert not is_disambiguation(text)


# --- properties

SNIPPETS = [
    "{{", "}}", "[[", "]]", "{|", "|}", "\n{|", "\n|}", "<ref>", "</ref>", "<ref name=a/>", "<ref", "<!--", "-->",
    "'''", "''", "'", "|", "=", "\n==", "==\n", "\n\n", "\n", " ", "* ", ":", "(", ")", ",", ";", "word", "Word.",
    "[", "]", "{", "}", "<", ">", "/", "File:", "Category:", "de:", "lang|de|", "convert|5|km", "IPA|x", "sfn|a",
    "http://x.org", "<math>", "</math>", "<div>", "<br>", "__TOC__", "-{", "}-", "\u00ad", "\u200b", "\ufdd0",
    "\ufdd5", HOLE, "nowrap|", "<table>", "ref", "as of|2010|",
    "000100000|", "{{as of|", "{{unité|", "{{frac|", "{{convert|", "{{date|", "{{chem|", "{{s-|", "1=", "5|km|", "²|",
]  # fmt: skip
LEFTOVERS = ("[[", "]]", "{{", "}}", "<ref", "'''", "\n", "\ufdd0", "\ufdd1")


@given(st.lists(st.sampled_from(SNIPPETS), max_size=40).map("".join))
def test_no_combination_of_marks_survives(wikitext: str):
    for paragraph in paragraphs(wikitext):
        assert not [mark for mark in LEFTOVERS if mark in paragraph]
        assert paragraph == " ".join(paragraph.split())


@given(st.text())
def test_any_text_is_taken(wikitext: str):
    assert all(paragraphs(wikitext))
    is_redirect(wikitext)
    is_disambiguation(wikitext)


PROSE = st.lists(st.text("abcXYZäßжя中 0123456789.,()?!-–'\"", min_size=1), min_size=1).map(" ".join)


@given(PROSE.filter(lambda text: "''" not in text and "----" not in text and any(map(str.isalnum, text[:200]))))
def test_prose_without_markup_is_unchanged_up_to_white_space(text: str):
    text = text.strip()
    assert "".join(clean(text).split()) == "".join(text.split())


@pytest.mark.parametrize(
    "mark",
    ["{{", "[[", "{|", "<ref>", "{|\n", "<!--", "{{a|", "[[a|", "[[File:a|", "<ref name=a>x", "<nowiki>", "<math>",
     "<table>", "[http://a ", "{{nowrap|", "{{{", "(", "'", "<", "&", "__", "-{", "{{x}}", "}}", "|}\n", "(:",
     "{{cn}} ", "({{cn}}",
     "; ", "\n "],
)  # fmt: skip
def test_hostile_repetition_ends_and_spares_the_next_section(mark: str):
    assert paragraphs(mark * 100_000 + "\n\n== Next ==\n\nThe end.")[-1] == "The end."


@pytest.mark.parametrize("text", [f"a{' ' * 200_000}b{{{{cn}}}}", f"[[a{' ' * 200_000}b|]]", f"<ref{' ' * 200_000}"])
def test_hostile_white_space_ends(text: str):
    assert paragraphs(f"{text}\n\nThe end.")[-1] == "The end."


@pytest.mark.parametrize(("opening", "closing"), [("{{", "}}"), ("[[", "]]"), ("{|\n", "|}\n"), ("{{nowrap|", "}}")])
def test_hostile_nesting_ends_and_spares_the_next_section(opening: str, closing: str):
    text = opening * 50_000 + "x" + "\n" + closing * 50_000
    assert paragraphs(f"{text}\n\n== Next ==\n\nThe end.")[-1] == "The end."


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("It has {{convert|3|" + "e3" * 5000 + "km}} of road.", f"It has {HOLE} of road."),
        ("It has {{convert|3|e3km}} of road.", "It has 3 thousand km of road."),
        ("The sign &#" + "9" * 5000 + "; is none.", "The sign \ufffd is none."),
        ("The sign &#0000000065; is one.", "The sign A is one."),
        ("It is {{" + "a" * 5000 + "}} long.", f"It is {HOLE} long."),
    ],
)
def test_hostile_numbers_and_names_cost_themselves_only(text: str, shown: str):
    assert paragraphs(text) == [shown]


def test_hostile_white_space_in_a_redirect_ends():
    assert not is_redirect("#redirect" + " " * 200_000 + "nowhere")
    assert is_redirect("#redirect" + " " * 200_000 + "[[somewhere]]")


def test_names_of_templates_that_cannot_be_are_not_remembered():
    _known_kind.cache_clear()
    paragraphs("".join(f"{{{{{'a' * 5000}{number}}}}}" for number in range(20)) + "{{sfn}}")
    assert _known_kind.cache_info().currsize == 1


# --- real articles


def _articles(path: Path) -> list[str]:
    pages = ET.fromstring(bz2.decompress(path.read_bytes())).iterfind("{*}page")
    return [page.findtext("{*}revision/{*}text") or "" for page in pages if page.findtext("{*}ns") == "0"]


@pytest.mark.real
@pytest.mark.skipif(not DUMPS.is_dir(), reason="needs the Wikipedia miniatures in ../shared/data/wikipedia/dumps")
def test_real_articles_come_out_clean():
    texts = [text for path in sorted(DUMPS.glob("*.bz2")) for text in _articles(path) if not is_redirect(text)]
    found = [paragraph for text in texts for paragraph in paragraphs(text)]
    assert len(found) > 5000
    assert not [p for p in found if any(mark in p for mark in LEFTOVERS) or "''" in p]
    assert sum(HOLE in p for p in found) < 0.02 * len(found)
    marked = [p for p in found if re.search(r"[{}|]|</?\w+>|__[A-Z]+__|https?:|\bthumb\|", p)]
    assert len(marked) <= 5  # of the article on ASCII, and a typing error
    assert any(p.startswith("Albert Einstein (14 March 1879 – 18 April 1955) was a") for p in found)
    assert any(
        p.startswith("Arthur Schopenhauer (* 22. Februar 1788 in Danzig; † 21. September 1860 in") for p in found
    )
    assert any(
        p.startswith("Григорианският календар (понякога наричан и Грегориански календар, „нов стил“)") for p in found
    )
