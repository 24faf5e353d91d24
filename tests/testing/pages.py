"""Pages as tests read them: their elements and text, and that they need nothing from elsewhere."""

import re
from html.parser import HTMLParser

VOID = {"meta", "br", "hr", "img", "link", "input"}
REFERENCES = {"src", "href", "xlink:href", "action"}


class Page(HTMLParser):
    """Elements of a page, its text, and the JSON in it; fails where elements are not properly nested."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.text, self.data = [], [], "", ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append((tag, dict(attributes)))

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        tag, attributes = self.open[-1] if self.open else ("", {})
        if attributes.get("type") == "application/json":
            self.data += data
        elif tag not in ("script", "style"):
            self.text += data

    def count(self, tag, kind=None):
        return sum(name == tag and kind in (None, found.get("class")) for name, found in self.elements)

    def named(self, tag):
        """The ids of all elements of a kind."""
        return [found["id"] for name, found in self.elements if name == tag]


def assert_stands_alone(text):
    """A page that fetches nothing, and lets nothing be fetched."""
    page = Page(text)
    assert not {"img", "iframe", "object", "base", "video"} & {tag for tag, _ in page.elements}
    references = [value for _, found in page.elements for name, value in found.items() if name in REFERENCES]
    assert all(reference.startswith("#") or reference == "data:," for reference in references)
    assert set(re.findall(r"url\((.)", text)) <= {"#"}
    assert "@import" not in text
    assert "default-src 'none'" in text
    scripts = re.search(r"script-src ([^\";]*)", text)[1].split()
    assert all(script == "'none'" or script.startswith("'sha256-") for script in scripts)


def assert_pictures_speak(page):
    """Every picture says what it shows, by itself or by what it is in."""
    pictures = [found for tag, found in page.elements if tag == "svg" or found.get("role") == "img"]
    assert pictures
    assert all(found.get("aria-hidden") or (found["role"] == "img" and found["aria-label"]) for found in pictures)


def assert_fits(opened, width):
    """A page in a browser that needs no scrolling sideways, with all that can be unfolded."""
    opened.evaluate("document.querySelectorAll('details').forEach((details) => { details.open = true })")
    assert opened.evaluate("document.documentElement.scrollWidth") == width
    assert opened.evaluate("document.body.scrollWidth") <= width
