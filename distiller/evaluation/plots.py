"""Pictures of an evaluation, with a colour for each kind of vectors (charts.css)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from corpusgen.pages.charts import (
    WIDTH,
    Axis,
    Curve,
    Frame,
    Numbers,
    Scale,
    bar,
    draw_bottom_axis,
    draw_curve,
    draw_keys,
    draw_side_axis,
    path,
    svg,
    text_width,
    tick_text,
)
from corpusgen.pages.html import Figure
from distiller.evaluation.results import Score, Similarities, TaskResult

_KINDS = ("baseline", "meaning", "context", "static", "original", "processed")
_BINS_OF_SIMILARITIES, _BINS_OF_RATINGS = 30, 10
_SCORES_WIDTH, _PANEL_HEIGHT = 760, 210
_BAR, _GAP = 11, 14  # the height of a bar, and the room between tasks
_LONGEST_NAME = 30


def in_order(kinds: Iterable[str]) -> list[str]:
    """Sort kinds of vectors into the order in which they are shown: known ones first."""
    return sorted(set(kinds), key=lambda kind: (_KINDS.index(kind) if kind in _KINDS else len(_KINDS), kind))


def scores_chart(results: Sequence[TaskResult]) -> Markup:
    """Draw the scores of all tasks as bars with their intervals."""
    kinds = in_order(kind for result in results for kind in result.scores)
    scored = [[(kind, result.scores[kind]) for kind in kinds if _is_known(result, kind)] for result in results]
    values = [
        100 * value for of_task in scored for _, score in of_task for value in (score.value, score.low, score.high)
    ]
    names = [_shortened(result.label) for result in results]
    across = Axis(Scale.linear(np.array([0.0, *values]), most_ticks=10), "score × 100; lines are 95 % intervals")
    room = _GAP + _BAR * len(kinds)
    top, left = 28, 10 + text_width(max(names, key=len, default=""))
    frame = Frame(across, Axis(Scale(0, 1, ())), left, top, _SCORES_WIDTH - 16, top + room * len(results))
    parts = draw_bottom_axis(frame, has_grid=True)
    for row, (name, of_task) in enumerate(zip(names, scored, strict=True)):
        middle = top + room * (row + 0.5)
        parts.append(tick_text(left - 8, middle + 4, name, "end"))
        for index, (kind, score) in enumerate(of_task):
            y = middle + _BAR * (index - len(of_task) / 2)
            parts += _scored(frame, y, kind, score, f"{results[row].label}, {kind}")
    parts += draw_keys(frame, [(_class_of(kind), kind) for kind in kinds])
    said = "; ".join(f"{result.label}: {_spoken(result)}" for result in results)
    return svg(round(frame.bottom) + 38, f"Bar chart of the scores. {said}.", parts, _SCORES_WIDTH)


def _scored(frame: Frame, y: float, kind: str, score: Score, name: str) -> list[Markup]:
    """Draw a bar from zero to a score, and its interval."""
    zero, end, low, high = frame.across([0.0, *(100 * value for value in (score.value, score.low, score.high))])
    told = f"{name}: {100 * score.value:.1f} [{100 * score.low:.1f}, {100 * score.high:.1f}]"
    parts = [bar(f"bar {_class_of(kind)}", min(zero, end), y + 0.5, abs(end - zero), _BAR - 1, told)]
    if np.isfinite([low, high]).all():
        parts.append(path(f"curve {_class_of(kind)}", f"M{low:.1f} {y + _BAR / 2:.1f}H{high:.1f}", told))
    return parts


def panel_caption(result: TaskResult) -> str:
    """Return the caption that explains the panels of a task."""
    if result.metric == "accuracy":
        return "Filled: pairs of the same meaning. Outlined: pairs of different meanings. Dashed: the threshold."
    return "Dots: mean prediction for items with similar human ratings. Band: the middle half of them."


def similarity_panels(result: TaskResult) -> list[Figure]:
    """Draw a panel for each kind of vectors: predictions against human ratings; none if these are not known.

    A second figure of the same items has no panels of its own.

    The gold of decisions by threshold is true where the meaning is the same; other gold is a number. Answers that are
    only right or wrong have no panels.
    """
    panels = []
    for kind in in_order(result.similarities) if result.gold is not None and not result.second else []:
        values, gold = (np.asarray(each, dtype=np.float64) for each in (result.similarities[kind], result.gold))
        known = np.isfinite(values) & np.isfinite(gold)
        threshold = result.scores[kind].threshold if kind in result.scores else None
        if not known.any():
            continue
        name = f"{result.task}, {kind}"
        if threshold is not None:
            picture = _decided(name, kind, values[known], gold[known] > 0, threshold)
            panels.append(Figure(kind, f"threshold {threshold:.3f}", picture))
        elif result.metric != "accuracy":
            panels.append(Figure(kind, "", _rated(name, kind, values[known], gold[known])))
    return panels


def _decided(name: str, kind: str, values: Similarities, is_same: npt.NDArray[np.bool_], threshold: float) -> Markup:
    """Draw histograms of the similarities of pairs of the same meaning and of different meanings."""
    parts_of_values = values[is_same], values[~is_same]
    edges = np.histogram_bin_edges(values, _BINS_OF_SIMILARITIES)
    same, different = (np.histogram(part, edges)[0] for part in parts_of_values)
    across = Axis(Scale.linear(np.append(edges, threshold)), "predicted similarity")
    most = int(max(same.max(), different.max()))
    frame = _panel(across, Axis(Scale.linear(np.array([0.0, most]), most_ticks=min(most, 5)), "pairs"))
    parts = [
        *draw_side_axis(frame),
        path(f"distribution {_class_of(kind)}", _outline(frame, edges, same)),
        path("curve different", _outline(frame, edges, different)),
        *draw_bottom_axis(frame),
    ]
    if edges[0] <= threshold <= edges[-1]:  # otherwise all pairs are decided alike
        parts.append(path("bound", f"M{float(frame.across(threshold)):.1f} {frame.top}V{frame.bottom}"))
    for low, high, alike, others in zip(edges[:-1], edges[1:], same, different, strict=True):
        left, right = frame.across([low, high])
        told = f"{low:.2f} to {high:.2f}: {alike:,} of the same meaning, {others:,} of different meanings"
        parts.append(path("column", f"M{left:.1f} {frame.top}H{right:.1f}V{frame.bottom}H{left:.1f}Z", told))
    medians = [f"{np.median(part):.2f}" if len(part) else "unknown" for part in parts_of_values]
    alt = (
        f"{name}: histograms of similarities, median {medians[0]} for pairs of the same meaning, "
        f"{medians[1]} for pairs of different meanings, threshold {threshold:.3f}"
    )
    return svg(_PANEL_HEIGHT, alt, parts)


def _rated(name: str, kind: str, values: Similarities, gold: Similarities) -> Markup:
    """Draw the mean prediction for items that people rate alike, and the middle half of their predictions."""
    bins = np.digitize(gold, np.linspace(gold.min(), gold.max(), _BINS_OF_RATINGS + 1)[1:-1])
    members = [bins == number for number in np.unique(bins)]
    centres = np.array([gold[member].mean() for member in members])
    means = np.array([values[member].mean() for member in members])
    lows, highs = np.array([np.percentile(values[member], (25, 75)) for member in members]).T
    across = Axis(Scale.linear(centres), "human rating", "{:.3g}".format)
    frame = _panel(across, Axis(Scale.linear(np.concatenate([means, lows, highs])), "predicted", "{:.3g}".format))
    around = np.append(frame.across(centres), frame.across(centres[::-1]))
    edge = np.append(frame.down(lows), frame.down(highs[::-1]))
    band = "L".join(f"{x:.1f} {y:.1f}" for x, y in zip(around, edge, strict=True))
    parts = [
        *draw_side_axis(frame),
        *draw_bottom_axis(frame),
        path(f"band {_class_of(kind)}", f"M{band}Z"),
        *draw_curve(frame, Curve("mean", _class_of(kind), centres, means, has_dots=True)),
    ]
    alt = (
        f"{name}: mean prediction by rating, from {means[0]:.2f} at {centres[0]:.2f} "
        f"to {means[-1]:.2f} at {centres[-1]:.2f}"
    )
    return svg(_PANEL_HEIGHT, alt, parts)


def _panel(across: Axis, down: Axis) -> Frame:
    return Frame.within(across, down, WIDTH, _PANEL_HEIGHT)


def _outline(frame: Frame, edges: Numbers, counts: npt.NDArray[np.int64]) -> str:
    """Return the line around the bars of a histogram."""
    across, down = frame.across(edges), frame.down(counts)
    bars = "".join(f"V{y:.1f}H{x:.1f}" for x, y in zip(across[1:], down, strict=True))
    return f"M{across[0]:.1f} {frame.bottom:.1f}{bars}V{frame.bottom:.1f}"


def _class_of(kind: str) -> str:
    return kind if kind in _KINDS else "other"


def _shortened(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


def _is_known(result: TaskResult, kind: str) -> bool:
    return kind in result.scores and bool(np.isfinite(result.scores[kind].value))


def _spoken(result: TaskResult) -> str:
    known = [kind for kind in in_order(result.scores) if _is_known(result, kind)]
    return ", ".join(f"{kind} {100 * result.scores[kind].value:.1f}" for kind in known) or "not known"
