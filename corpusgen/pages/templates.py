"""The Jinja environment of all pages: it escapes every text that is not known to be markup."""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined

from corpusgen.pages.charts import duration, rate_text


def read_resource(name: str) -> str:
    """Return the text of a file in a package, by its path from the package on: `corpusgen/pages/page.css`."""
    return _file(name).read_text(encoding="utf-8")


def render(template: str, **values: Any) -> str:
    """Render a template, named like the files of `read_resource`; a missing value is an error."""
    return ENVIRONMENT.get_template(template).render(values)


def thousands(number: int) -> str:
    """Format a whole number with commas between its thousands."""
    return f"{number:,}"


def percent(share: float) -> str:
    """Format a share in percent; a tiny one does not become zero."""
    return "< 0.1%" if 0 < share < 0.0005 else f"{share:.1%}"


def width(share: float) -> str:
    """Format a share as a length for a stylesheet."""
    return f"{share:.2%}"


def moment(seconds: float) -> str:
    """Format a time since the epoch as day and minute."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%-d %b %Y %H:%M UTC")


def digest(script: str) -> str:
    """Return the hash by which a content security policy allows a script."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _file(name: str) -> Traversable:
    """Find a file in any package: templates are next to the modules that use them and may extend others."""
    package, _, path = name.partition("/")
    return files(package).joinpath(path)


def _source(name: str) -> tuple[str, str, None]:
    """Return the source of a template and its path, which tracebacks show."""
    return read_resource(name), str(_file(name)), None


def _environment() -> Environment:
    made = Environment(
        loader=FunctionLoader(_source),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= {
        "digest": digest,
        "duration": duration,
        "moment": moment,
        "percent": percent,
        "rate": rate_text,
        "thousands": thousands,
        "width": width,
    }
    made.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "separators": (",", ":")}
    return made


ENVIRONMENT = _environment()
