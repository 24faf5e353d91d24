"""Charts as files of their own: they need no stylesheet of a page, and are light wherever they are shown."""

from xml.etree import ElementTree

import pytest

from corpusgen.pages.charts import path, tick_text
from corpusgen.pages.svg_file import svg_file

HOSTILE = "<b>bold</b> \"' & ]]>"
SVG = "{http://www.w3.org/2000/svg}"


def picture():
    parts = [path("curve held-out", "M10 10L90 40", HOSTILE), tick_text(5, 50, HOSTILE, "start")]
    return svg_file(100, 60, HOSTILE, parts)


def test_it_is_xml_in_which_text_stays_text():
    root = ElementTree.fromstring(picture())
    assert root.tag == f"{SVG}svg"
    assert root.get("aria-label") == HOSTILE
    assert [root.find(f".//{SVG}{tag}").text for tag in ("title", "text")] == [HOSTILE] * 2
    assert root.find(f".//{SVG}b") is None


def test_its_style_uses_nothing_that_image_viewers_do_not_know():
    style = ElementTree.fromstring(picture()).find(f"{SVG}style").text
    assert "#2f6fb0" in style
    assert not [word for word in ("var(", "@", "--", ":is", "url(") if word in style]


def test_its_background_covers_it_all():
    root = ElementTree.fromstring(picture())
    ground = root.find(f"{SVG}rect")
    assert root.get("viewBox").split() == [ground.get(name) for name in ("x", "y", "width", "height")]
    assert ground.get("fill") == "#fff"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_shows_it_in_light_colours(open_page, tmp_path, scheme):
    file = tmp_path / "picture.svg"
    file.write_bytes(picture())
    page = open_page(file, scheme=scheme)
    assert page.locator(".curve").evaluate("(found) => getComputedStyle(found).stroke") == "rgb(47, 111, 176)"
    assert page.locator(".tick").evaluate("(found) => getComputedStyle(found).fill") == "rgb(92, 100, 112)"
