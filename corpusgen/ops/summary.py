"""Summaries of the commits of a pass, for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from corpusgen.io.terminal import visible
from corpusgen.store import Totals
from corpusgen.store.status import PassStatus


def headline(name: str, totals: Totals) -> str:
    """Return a pass as one line."""
    rows = ", ".join(f"{count:,} {table}" for table, count in totals.rows.items())
    return f"{name}: {totals.committed:,} of {totals.units:,} units, {rows}"


def summary(name: str, totals: Totals) -> str:
    """Return a pass with its stages, and what they rejected."""
    return "\n".join([headline(name, totals), *stage_lines(totals)])


def stage_lines(totals: Totals) -> Iterator[str]:
    """Yield what each stage took in, gave out and rejected."""
    for stage in totals.stages.values():
        line = f"  {stage.name:12} {stage.rows_in:>12,} in {stage.rows_out:>12,} out"
        if stage.quarantined:
            line += f" {stage.quarantined:>8,} quarantined"
        yield line
        for reason, count in sorted(stage.rejected.items(), key=lambda item: -item[1]):
            yield f"  {'':12} {count:>12,} rejected: {reason}"


def failures(status: PassStatus, url: str) -> Iterator[str]:
    """Yield some of the failures in quarantine, and where the rest is."""
    for failure in status.failures():
        error, record = visible(str(failure["error"])), json.dumps(failure.get("record"))[:200]
        yield f"quarantined by {failure['stage']}: {error} ({record})"
    if status.totals.quarantined:
        yield f"all of them: {url}/{status.name}/quarantine/"


def as_dict(totals: Totals) -> dict[str, Any]:
    """Return the totals of a pass, for JSON."""
    return {
        "units": totals.units,
        "committed": totals.committed,
        "rows": totals.rows,
        "rejected": totals.rejected,
        "quarantined": totals.quarantined,
        "stages": [vars(stage) for stage in totals.stages.values()],
    }
