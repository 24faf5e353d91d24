"""A chart as a file of its own: with its styles, in the colours of a light page, on a background."""

from __future__ import annotations

import re
from collections.abc import Sequence

from markupsafe import Markup

from corpusgen.pages.templates import read_resource

_FONT = "system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
_PADDING = 12


def svg_file(width: int, height: int, label: str, parts: Sequence[Markup]) -> bytes:
    """Assemble a picture that image viewers and Markdown show as pages do; `label` says in words what it shows."""
    light = read_resource("corpusgen/pages/colours.css").partition("@media")[0]
    colours = dict(re.findall(r"--(\w+): (#\w+)", light))
    style = read_resource("corpusgen/pages/charts.css")
    # Image viewers do not know variables.
    plain = re.sub(r"var\(--(\w+)\)", lambda found: colours[found[1]], style)
    element = Markup(
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="{x} {y} {width} {height}" width="{width}" height="{height}" '
        'role="img" aria-label="{label}" font-family="{font}">\n<style>\n{style}</style>\n'
        '<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{ground}"/>\n{parts}\n</svg>\n'
    )
    filled = element.format(
        x=-_PADDING,
        y=-_PADDING,
        width=width + 2 * _PADDING,
        height=height + 2 * _PADDING,
        label=label,
        font=_FONT,
        style=Markup(plain),
        ground=colours["ground"],
        parts=Markup("\n").join(parts),
    )
    return filled.encode()
