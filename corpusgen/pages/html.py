"""What our HTML pages share: they stand alone, look alike, and can be read on a phone and in the dark."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from corpusgen.errors import CorpusgenError

RELOAD_SECONDS = 15


class Fact(NamedTuple):
    """A line about what a page is of."""

    label: str
    value: str
    fine_print: str = ""


def page(title: str, body: str, style: str = "", script: str = "", reload_seconds: int | None = None) -> str:
    """A whole page. Title and body are HTML already: what they hold of others' text must be escaped.

    Nothing may be fetched, and no script runs but ours, whatever others' text holds. With `reload_seconds` the page
    loads itself again and again, for whoever watches.
    """
    scripts = [text for text in (script, _resource("reload.js") if reload_seconds else "") if text]
    allowed = " ".join(f"'sha256-{_digest(text)}'" for text in scripts) or "'none'"
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {allowed}"
    lines = [
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<link rel="icon" href="data:,">',
    ]
    if reload_seconds:  # a script does it better: it lets people finish typing
        lines.append(f'<noscript><meta http-equiv="refresh" content="{reload_seconds}"></noscript>')
    lines.append(f"<title>{title}</title>\n<style>{_resource('page.css')}{style}</style>\n</head>\n<body>\n{body}")
    lines += [f"<script>{text}</script>" for text in scripts]
    return "\n".join(lines) + "\n</body>\n</html>\n"


def write_page(path: Path, text: str) -> int:
    """Put a page in its place; how many bytes it has.

    Whoever opens it meanwhile sees the old one or the new one, never half of one.
    """
    data = to_bytes(text)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(data)
        os.replace(temporary, path)
    except OSError as error:
        raise CorpusgenError(f"{path}: cannot be written: {error.strerror}") from error
    finally:
        with suppress(OSError):
            temporary.unlink()
    return len(data)


def to_bytes(text: str) -> bytes:
    """Whatever others' text holds."""
    return text.encode("utf-8", "replace")


def heading(
    kind: str, url: str, state: str, is_complete: bool, dates: Mapping[str, float | None], reload_seconds: int | None
) -> Iterator[str]:
    """What a page is about and how it stands; dates that are not known are left out."""
    yield f'<p class="kind-of-page">{kind}</p><h1>{escape(last_step(url))}</h1><p class="root">{escape(url)}</p>'
    spans = [f'<span class="state {"complete" if is_complete else "not-complete"}">{state}</span>']
    spans += [f"<span>{what} {_moment(time)}</span>" for what, time in dates.items() if time]
    yield f'<p class="dates">{"".join(spans)}</p>'
    if reload_seconds:
        yield (
            f'<p class="watch"><label><input type="checkbox" id="reload" data-seconds="{reload_seconds}" checked> '
            f"The work goes on: this page loads itself again every {reload_seconds} s</label></p>"
        )


def figures(values: Mapping[str, str]) -> str:
    """The few numbers to remember."""
    items = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in values.items())
    return f'<dl class="figures">{items}</dl>' if items else ""


def about(facts: Iterable[Fact], settings: Mapping[str, Any]) -> Iterator[str]:
    """What something was made of and with; all settings can be unfolded."""
    yield '<dl class="about">'
    for fact in facts:
        fine = f"<small>{escape(fact.fine_print)}</small>" if fact.fine_print else ""
        yield f"<div><dt>{escape(fact.label)}</dt><dd>{escape(fact.value)}{fine}</dd></div>"
    yield "</dl>"
    if settings:
        text = yaml.safe_dump(dict(settings), sort_keys=False, allow_unicode=True)
        yield f"<details><summary>All settings</summary><pre>{escape(text)}</pre></details>"


def links(names: Mapping[str, str], sections: str) -> str:
    """To those sections, by their id, that are there."""
    there = "".join(f'<a href="#{id_}">{name}</a>' for id_, name in names.items() if f'id="{id_}"' in sections)
    return f"<nav aria-label='Sections'>{there}</nav>"


def measure(share: float) -> str:
    """A bar that is filled by a share."""
    return f'<span class="measure"><span style="width:{share:.2%}"></span></span>'


def last_step(path: str) -> str:
    """The name of a file or folder."""
    return path.rstrip("/").rpartition("/")[2]


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%-d %b %Y %H:%M UTC")


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _resource(name: str) -> str:
    return files("corpusgen.pages").joinpath(name).read_text(encoding="utf-8")
