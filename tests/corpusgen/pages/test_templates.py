"""Templates: text stays text wherever it is put, what is missing is an error, and every template can be read."""

import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError
from markupsafe import Markup

from corpusgen.pages.charts import Curve, Scale, curves, legend, path, svg, tick_text
from corpusgen.pages.html import Fact, Figure, Header, render_page
from corpusgen.pages.templates import ENVIRONMENT, digest, percent, read_resource, render
from tests.testing import PROJECT
from tests.testing.pages import Page, assert_stands_alone

HOSTILE = "</script></p><b>bold</b> <!-- \"' & "
TEMPLATES = sorted(
    str(found.relative_to(PROJECT)) for top in ("corpusgen", "distiller") for found in (PROJECT / top).rglob("*.j2")
)


def header(text):
    return Header(
        text, text, text, False, {text: 1e9, "never": None}, {text: text}, [Fact(text, text, text)], {text: 1}
    )


def test_there_are_templates_in_both_packages():
    assert {name.partition("/")[0] for name in TEMPLATES} == {"corpusgen", "distiller"}


@pytest.mark.parametrize("name", TEMPLATES)
def test_no_template_switches_escaping_off(name):
    assert not re.search(r"\|\s*safe\b|autoescape|Markup", read_resource(name))


@given(st.text() | st.just(HOSTILE))
def test_text_stays_text_wherever_it_is_put(text):
    page = Page(render_page("corpusgen/pages/report.html.j2", text, header=header(text), links={text: text}))
    assert page.count("b") == 0
    assert page.count("script") == 0
    assert ("a", {"href": f"#{text}"}) in page.elements
    assert page.text.count("<b>bold</b>") == 12 * text.count("<b>bold</b>")


def test_a_page_allows_only_its_own_scripts():
    text = render_page("corpusgen/pages/report.html.j2", "t", reload_seconds=5, header=header("x"), links={})
    assert_stands_alone(text)
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert f"script-src 'sha256-{digest(script)}'\"" in text
    assert "script-src 'none'\"" in render_page("corpusgen/pages/base.html.j2", "t")


def test_a_value_that_is_missing_is_an_error():
    with pytest.raises(UndefinedError, match="'header' is undefined"):
        render_page("corpusgen/pages/report.html.j2", "t", links={})


def test_a_template_that_is_missing_is_an_error():
    with pytest.raises(FileNotFoundError):
        render("corpusgen/pages/no_such.html.j2")


@given(st.text() | st.just(HOSTILE))
def test_labels_of_charts_are_text(text):
    curve = Curve(text, "mine", np.arange(2.0), np.arange(2.0), has_dots=True)
    drawn = [
        curves(text, [curve], Scale.linear(curve.y), bound=(text, 1.0), say=lambda value: text),
        legend([curve], lambda value: text),
        svg(10, text, [tick_text(0, 0, text, "end"), path("line", "M0 0", text)]),
    ]
    assert all(isinstance(picture, Markup) for picture in drawn)
    pages = [Page(str(picture)) for picture in drawn]
    assert sum(one.count("b") for one in pages) == 1  # the value of the legend
    assert ("svg", {"viewbox": "0 0 320 10", "role": "img", "aria-label": text}) in pages[2].elements
    assert all(text.count("<b>bold") <= one.text.count("<b>bold") for one in pages)


def test_figures_have_what_is_known_of_them():
    def shown(found):
        macro = '{% from "corpusgen/pages/macros.html.j2" import figure %}{{ figure(found) }}'
        return Page(ENVIRONMENT.from_string(macro).render(found=found))

    page = shown(Figure(HOSTILE, HOSTILE, Markup("<svg></svg>"), HOSTILE, Markup("<p></p>"), "curves"))
    assert [tag for tag, _ in page.elements] == ["figure", "figcaption", "b", "p", "svg", "p"]
    assert page.text.count("<b>bold") == 3
    page = shown(Figure("", "", Markup("<svg></svg>")))
    assert page.elements == [("figure", {}), ("svg", {})]


def test_data_in_a_page_cannot_end_its_element():
    data = [["</script>", "<!--", "ä", None, 0.5]]
    text = ENVIRONMENT.from_string("{{ data|tojson }}").render(data=data)
    assert "<" not in text
    assert json.loads(text) == data
    assert "ä" in text


@pytest.mark.parametrize(
    ("share", "text"), [(0, "0.0%"), (0.0004, "< 0.1%"), (0.0005, "0.1%"), (0.5, "50.0%"), (1, "100.0%")]
)
def test_shares_in_words(share, text):
    assert percent(share) == text
