"""The shared parts of all HTML pages, which are self-contained, look alike, and suit phones and dark mode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from markupsafe import Markup

from corpusgen.errors import CorpusgenError
from corpusgen.io.atomic import write_bytes
from corpusgen.pages.templates import read_resource, render

RELOAD_SECONDS = 15
_STYLES = tuple(f"corpusgen/pages/{name}.css" for name in ("colours", "page", "charts"))
_RELOAD = "corpusgen/pages/reload.js"


class Fact(NamedTuple):
    """A line about the subject of a page."""

    label: str
    value: str
    fine_print: str = ""


@dataclass(frozen=True)
class Header:
    """The top of a report, above its sections: its subject and state."""

    kind: str
    url: str
    state: str
    is_complete: bool
    dates: Mapping[str, float | None]
    """Times by the name of the event; unknown ones are not shown."""
    figures: Mapping[str, str]
    """The few numbers to remember."""
    facts: Sequence[Fact]
    """What the subject was made from and with."""
    settings: Mapping[str, Any]
    """All settings, shown in a foldable section."""

    @property
    def name(self) -> str:
        """Return the name of the folder that the report is about."""
        return last_step(self.url)

    @property
    def settings_text(self) -> str:
        """Return all settings as YAML."""
        return yaml.safe_dump(dict(self.settings), sort_keys=False, allow_unicode=True)


@dataclass(frozen=True)
class Figure:
    """A picture with its title and explanation."""

    title: str
    what: str
    picture: Markup
    note: str = ""
    legend: Markup | None = None
    kind: str = ""
    """How it is laid out: a class of the stylesheet."""


@dataclass(frozen=True)
class FigureGroup:
    """Figures side by side under a title of their own; `kind` as for a figure."""

    title: str
    figures: Sequence[Figure]
    note: str = ""
    kind: str = ""


def render_page(
    template: str,
    title: str,
    styles: Sequence[str] = (),
    scripts: Sequence[str] = (),
    reload_seconds: int | None = None,
    **facts: Any,
) -> str:
    """Render a whole page from a template that extends base.html.j2.

    Styles and scripts are files of packages. With `reload_seconds` the page keeps reloading itself, for live viewing.
    """
    return render(
        template,
        title=title,
        style=Markup("").join(map(_inlined, (*_STYLES, *styles))),
        scripts=[_inlined(name) for name in (*scripts, *((_RELOAD,) if reload_seconds else ()))],
        reload_seconds=reload_seconds,
        **facts,
    )


def _inlined(name: str) -> Markup:
    """Return a style or script of ours, to put into a page unescaped."""
    return Markup(read_resource(name))


def write_page(path: Path, text: str) -> int:
    """Write a page atomically and return its size in bytes.

    Readers see the old page or the new one, never half of one.
    """
    data = to_bytes(text)
    try:
        write_bytes(path, data)
    except OSError as error:
        raise CorpusgenError(f"cannot write {path}: {error.strerror}") from error
    return len(data)


def to_bytes(text: str) -> bytes:
    """Encode a page, whatever characters its text holds."""
    return text.encode("utf-8", "replace")


def last_step(path: str) -> str:
    """Return the name of a file or folder."""
    return path.rstrip("/").rpartition("/")[2]
