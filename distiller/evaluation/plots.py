"""SVG pictures of an evaluation for light and dark pages, with a colour for each kind of vectors."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from distiller.evaluation.results import Similarities, TaskResult

# Colour-blind readers can tell them apart, and the contrast with white and near-black is three or more.
_COLOURS = {"baseline": "#d55e00", "meaning": "#2f80c3", "context": "#009e73", "static": "#b5679a"}
_GREY = "#808080"
_STYLE = {
    "axes.edgecolor": _GREY,
    "axes.labelcolor": _GREY,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "font.size": 9,
    "legend.frameon": False,
    "svg.fonttype": "none",  # text stays text: small, selectable, in the font of the page
    "text.color": _GREY,
    "text.parse_math": False,
    "xtick.color": _GREY,
    "ytick.color": _GREY,
}
_BARS, _BINS = 30, 10


def in_order(kinds: Iterable[str]) -> list[str]:
    """Sort kinds of vectors into the order in which they are shown: known ones first."""
    known = list(_COLOURS)
    return sorted(set(kinds), key=lambda kind: (known.index(kind) if kind in known else len(known), kind))


def scores_chart(results: Sequence[TaskResult]) -> str:
    """Draw the scores of all tasks as bars with their intervals."""
    kinds = in_order(kind for result in results for kind in result.scores)
    thickness = 0.8 / max(1, len(kinds))

    def draw(axes: Any) -> None:
        for place, kind in enumerate(kinds):
            scored = [(row, result.scores[kind]) for row, result in enumerate(results) if _is_known(result, kind)]
            rows = [row - 0.4 + (place + 0.5) * thickness for row, _ in scored]
            values = [100 * score.value for _, score in scored]
            lows, highs = ([100 * getattr(score, end) for _, score in scored] for end in ("low", "high"))
            axes.barh(rows, values, 0.9 * thickness, color=_colour(kind), alpha=0.45, label=kind)
            axes.hlines(rows, lows, highs, color=_colour(kind), linewidth=2)
        axes.set_yticks(range(len(results)), [result.task for result in results])
        axes.set_ylim(len(results) - 0.5, -0.5)
        axes.set_xlabel("score × 100; lines are intervals of 95 %")
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x", color=_GREY, alpha=0.25)
        axes.set_axisbelow(True)
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=len(kinds), borderaxespad=0.2)

    height = 1.0 + len(results) * (0.2 + 0.15 * len(kinds))
    said = "; ".join(f"{result.task}: {_spoken(result)}" for result in results)
    return _svg((9.6, height), draw, f"Bar chart of the scores. {said}.")


def panel_caption(result: TaskResult) -> str:
    """Return the caption that explains the panels of a task."""
    if result.metric == "accuracy":
        return "Filled: pairs of the same meaning. Outlined: pairs of different meanings. Dashed: the threshold."
    return "Dots: mean prediction for items that people rate alike. Band: the middle half of them."


def similarity_panels(result: TaskResult) -> list[str]:
    """Draw a panel for each kind of vectors: predictions against human ratings; none if these are not known.

    The gold of decisions by threshold is true where the meaning is the same; other gold is a number. Answers that are
    only right or wrong have no panels.
    """
    panels = []
    for kind in in_order(result.similarities) if result.gold is not None else []:
        values, gold = (np.asarray(each, dtype=np.float64) for each in (result.similarities[kind], result.gold))
        known = np.isfinite(values) & np.isfinite(gold)
        threshold = result.scores[kind].threshold if kind in result.scores else None
        if not known.any():
            continue
        if threshold is not None:
            panels.append(_decided(f"{result.task}, {kind}", kind, values[known], gold[known] > 0, threshold))
        elif result.metric != "accuracy":
            panels.append(_rated(f"{result.task}, {kind}", kind, values[known], gold[known]))
    return panels


def _decided(name: str, kind: str, values: Similarities, is_same: npt.NDArray[np.bool_], threshold: float) -> str:
    same, different = values[is_same], values[~is_same]
    edges = np.histogram_bin_edges(values, _BARS)

    def draw(axes: Any) -> None:
        axes.hist(same, edges, color=_colour(kind), histtype="stepfilled", alpha=0.75)
        axes.hist(different, edges, color=_GREY, histtype="step", linewidth=1.6)
        axes.axvline(threshold, color=_GREY, linestyle="--", linewidth=1.6)
        axes.set(title=f"{kind}, threshold {threshold:.2f}", xlabel="predicted similarity", ylabel="pairs")

    medians = [f"{np.median(part):.2f}" if len(part) else "unknown" for part in (same, different)]
    alt = (
        f"{name}: histograms of similarities, median {medians[0]} for pairs of the same meaning, "
        f"{medians[1]} for pairs of different meanings, threshold {threshold:.2f}"
    )
    return _svg((3.4, 2.4), draw, alt)


def _rated(name: str, kind: str, values: Similarities, gold: Similarities) -> str:
    bins = np.digitize(gold, np.linspace(gold.min(), gold.max(), _BINS + 1)[1:-1])
    members = [bins == number for number in np.unique(bins)]
    centres = [gold[member].mean() for member in members]
    means = [values[member].mean() for member in members]
    quartiles = np.array([np.percentile(values[member], (25, 75)) for member in members])

    def draw(axes: Any) -> None:
        axes.fill_between(centres, *quartiles.T, color=_colour(kind), alpha=0.2, linewidth=0)
        axes.plot(centres, means, "o-", color=_colour(kind), markersize=4)
        axes.set(title=kind, xlabel="said by people", ylabel="predicted")

    alt = (
        f"{name}: mean prediction by rating, from {means[0]:.2f} at {centres[0]:.2f} "
        f"to {means[-1]:.2f} at {centres[-1]:.2f}"
    )
    return _svg((3.4, 2.4), draw, alt)


def _svg(inches: tuple[float, float], draw: Callable[[Any], None], alt: str) -> str:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    # Ids inside a picture are hashes. They are salted, because several pictures share the namespace of one page.
    with rc_context({**_STYLE, "svg.hashsalt": alt}):
        figure = Figure(figsize=inches, layout="constrained")
        draw(figure.add_subplot())
        text = io.StringIO()
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(text, format="svg", transparent=True, metadata=nothing)
    picture = text.getvalue()
    picture = re.sub(r'<g id="[^"]*"', "<g", picture[picture.index("<svg") :])
    return picture.replace("<svg ", f'<svg role="img" aria-label="{html.escape(alt)}" ', 1)


def _colour(kind: str) -> str:
    return _COLOURS.get(kind, _GREY)


def _is_known(result: TaskResult, kind: str) -> bool:
    return kind in result.scores and bool(np.isfinite(result.scores[kind].value))


def _spoken(result: TaskResult) -> str:
    known = [kind for kind in in_order(result.scores) if _is_known(result, kind)]
    return ", ".join(f"{kind} {100 * result.scores[kind].value:.1f}" for kind in known) or "not known"
