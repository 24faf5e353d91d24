"""The text of an estimate for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from corpusgen.io.units import SIZES, TIMES, Unit, largest_unit
from corpusgen.ops.estimate.estimate import Estimate, StageEstimate
from corpusgen.ops.estimate.uncertain import Interval
from corpusgen.ops.estimate.workers import Schedule

_HEADS = (("", 14), ("rows in", 37), ("rows out", 39), ("kept", 24), ("s/1,000 rows", 28), ("time with one worker", 30))


def lines(found: Estimate) -> Iterator[str]:
    """Yield what the build will take, stage by stage, with 90 % intervals in brackets."""
    read = f"{found.share_read:.1%} of {found.source_bytes / 1e6:,.1f} MB in {found.source_files:,} files"
    tried = f" and {found.targets_tried:,} targets" if found.targets_tried else ""
    yield f"from {read}{tried}, in {found.seconds:,.0f} s; brackets: 90 % intervals"
    yield ""
    yield "".join(f"{head:>{width}}" for head, width in _HEADS) + "  worker"
    pass_name = ""
    for stage in found.stages:
        if stage.pass_name != pass_name:
            pass_name = stage.pass_name
            yield pass_name
        yield _stage(stage)
    yield ""
    for table in found.tables:
        if table.rows.value:
            yield f"{table.pass_name + '/' + table.table:24}{_number(table.rows):>40} rows  {_size(table.bytes):>34}"
    yield f"{'storage':24}{'':45}  {_size(found.storage_bytes):>34}"
    yield ""
    for kind, hours in found.hours.items():
        yield f"{'work of ' + kind + 's':24}{_time(hours)}"
    yield from _cost(found)
    loading = {stage.stage: stage.loading_seconds for stage in found.stages if stage.loading_seconds >= 0.5}
    if loading:
        each = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in loading.items())
        yield f"{'loading, each worker':24}{each}"
    if found.schedule:
        yield ""
        yield from _schedule(found.schedule)
    for note in found.notes:
        yield ""
        yield f"note: {note}"


def _stage(stage: StageEstimate) -> str:
    kept = "–"
    if stage.share_kept:
        value, low, high = stage.share_kept
        kept = f"{value:.1%} ({low:.1%}–{high:.1%})"
    worker = f"{stage.devices:g} {stage.worker}" + ("" if stage.worker == stage.measured_on else ", measured on a CPU")
    return (
        f"  {stage.stage:12}{_number(stage.rows_in):>37}  {_number(stage.rows_out):>37}  {kept:>22}  "
        f"{_decimal(stage.seconds_per_1000_rows):>26}  {_time(stage.hours):>28}  {worker}"
    )


def _cost(found: Estimate) -> Iterator[str]:
    missing = [kind for kind in found.hours if kind not in found.prices]
    if found.cost is not None:
        without = f", without the hours of {' and '.join(missing)}, which have no price" if missing else ""
        yield f"{'cost of the work':24}{_decimal(found.cost)}{without}"
    else:
        yield f"{'cost':24}give --price {','.join(f'{kind}=…/h' for kind in missing)}"


def _schedule(found: Schedule) -> Iterator[str]:
    given = ", ".join(f"{name}={number}" for name, number in found.workers.items())
    yield f"with {given}, and one worker for every other stage: {_time(found.hours)}"
    for of_pass in found.passes:
        busy = ", ".join(f"{name} {share:.0%}" for name, share in of_pass.busy.items())
        yield f"  {of_pass.name:12}{_time(of_pass.hours):>28}; bottleneck: {of_pass.bottleneck} (busy: {busy})"
    if found.cost is not None:
        yield f"  cost of these workers, including loading and idle time: {_decimal(found.cost)}"
    for split in found.splits:
        best = ", ".join(f"{name}={number}" for name, number in split.workers.items())
        yield (
            f"  best split of these {split.devices:g} {split.kind}s: {best}: {_time(split.hours)} instead of "
            f"{_time(split.hours_as_given)}"
        )


def _number(of: Interval) -> str:
    if of.low == of.high:
        return f"{of.value:,.0f}"
    return f"{of.value:,.0f} ({of.low:,.0f}–{of.high:,.0f})"


def _decimal(of: Interval) -> str:
    return f"{_short(of.value)} ({_short(of.low)}–{_short(of.high)})"


def _short(value: float) -> str:
    """Return a number with about three significant digits, whatever its size."""
    if value >= 100 or value == 0:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 0.001 else f"{value:.1e}"


def _size(of: Interval) -> str:
    return _in_units(of, SIZES)


def _time(hours: Interval) -> str:
    return _in_units(Interval(*(value * 3600 for value in hours)), TIMES)


def _in_units(of: Interval, units: Sequence[Unit]) -> str:
    """Return all three numbers in the largest unit that the value reaches."""
    unit, name = largest_unit(of.value, units)
    return f"{_decimal(Interval(*(value / unit for value in of)))} {name}"
