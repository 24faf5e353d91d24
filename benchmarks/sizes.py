"""How cost and memory go with size: harvest and sampling with the text, resuming with what is done.

    python -m benchmarks.sizes [--factor 1] [--plot FILE]

Each point of a corpus comes from a process of its own, so that its memory is its own.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.engine import part_done
from benchmarks.harvest import in_own_process
from benchmarks.parts import prepare
from benchmarks.pictures import draw
from benchmarks.rows import Curve, Found, Row

MEGABYTES = (2, 4, 8, 16)
CANDIDATES = (250_000, 500_000, 1_000_000, 2_000_000)
UNITS = (5_000, 10_000, 20_000, 40_000)

Points = Sequence[tuple[float, float]]


def corpus(sizes: Sequence[float]) -> Found:
    """Harvest and sampling of text that has the same sentences over and over, with other beginnings."""
    with tempfile.TemporaryDirectory() as folder:
        sample = Path(folder) / "sample.txt"
        sample.write_text("\n".join(prepare(f"{folder}/corpus", 1000).texts) + "\n", encoding="utf-8")
        points = [in_own_process("harvest_and_sample", str(sample), size) for size in sizes]
    seconds, memory = (
        {name: [(point["megabytes"], point[f"{name}_{what}"]) for point in points] for name in ("harvest", "sample")}
        for what in ("seconds", "peak_mb")
    )
    rows = [_flat(f"{name}: time for a MB more", "MB of text", line) for name, line in seconds.items()]
    rows.append(_steady("harvest and sample: peak memory", "MB of text", memory["sample"]))
    return Found(
        rows, [Curve("time of a corpus", "MB of text", "s", seconds), Curve("peak memory", "MB of text", "MB", memory)]
    )


def selection(sizes: Sequence[int]) -> Found:
    """A third of the candidates chosen, of 50,000 words: what sees all at once, and of a word 80 at most."""
    points = [in_own_process("sampling", size) for size in sizes]
    line = [(point["candidates"], point["seconds"]) for point in points]
    return Found(
        [_flat("selection: time for a candidate more", "candidates", line)],
        [Curve("selection", "candidates", "s", {"": line})],
    )


def resuming(sizes: Sequence[int]) -> Found:
    """Until it is known what is left, 99 % of the units being committed."""
    line = []
    for units in sizes:
        with tempfile.TemporaryDirectory() as folder:
            line.append((float(units), part_done(units, units * 99 // 100, Path(folder) / "store")[1]))
    return Found(
        [_flat("resuming: time for a unit more", "units", line)],
        [Curve("resuming: time to the first unit", "units, 99 % committed", "s", {"": line})],
    )


def _flat(name: str, unit: str, points: Points) -> Row:
    """What more costs where there is much, against where there is little: starts do not count."""
    (a, first), (b, second), (c, last) = points[0], points[-2], points[-1]
    ratio = (second - first) / (b - a) / ((last - second) / (c - b))
    return Row(
        f"{name}, {b:,.0f} to {c:,.0f} {unit}", f"{a:,.0f} to {b:,.0f}", ratio, None, f"{last:.1f} s for {c:,.0f}"
    )


def _steady(name: str, unit: str, points: Points) -> Row:
    (least, first), (most, last) = points[0], points[-1]
    return Row(f"{name}, {most:,g} {unit}", f"{least:,g}", first / last, None, f"{last:.0f} MB")


def run(factor: float = 1.0) -> Found:
    """All; the factor makes everything larger or smaller."""
    parts = [
        corpus([size * factor for size in MEGABYTES]),
        selection([int(size * factor) for size in CANDIDATES]),
        resuming([int(size * factor) for size in UNITS]),
    ]
    return Found([row for part in parts for row in part.rows], [curve for part in parts for curve in part.curves])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--factor", type=float, default=1.0, help="of all sizes")
    parser.add_argument("--plot", type=Path, help="a picture of the curves")
    arguments = parser.parse_args()
    found = run(arguments.factor)
    for row in found.rows:
        print(row)
    for curve in found.curves:
        for name, line in curve.lines.items():
            print(f"{curve.title}, {name}: {', '.join(f'{y:.1f} {curve.y} at {x:,g}' for x, y in line)}")
    if arguments.plot:
        draw(found.curves, arguments.plot)


if __name__ == "__main__":
    main()
