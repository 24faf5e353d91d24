"""Facts about the unit of work that made a row."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from corpusgen.store import Store
from corpusgen.store.products import WORDS, Product


def unit_facts(store: Store, unit: str, product: Product = WORDS) -> dict[str, Any]:
    """Return who did a unit, when and how fast: from its commit, and from its event if one was written."""
    pass_store = store.pass_store(product.pass_name)
    commit = pass_store.read_commit(unit)
    return {
        "id": unit,
        "attempt": commit.attempt,
        "worker": commit.worker,
        "committed_at": commit.committed_at,
        "seconds": {stage.name: stage.seconds for stage in commit.stages},
        "event": _event(store, product, unit, commit.attempt),
    }


def _event(store: Store, product: Product, unit: str, attempt: str) -> dict[str, Any] | None:
    """Return the line that the winning run wrote about the unit; reads only files of that run."""
    run = attempt.rpartition("-")[0]
    for info in store.files.list(f"{product.pass_name}/events"):
        if info.path.rpartition("/")[2].startswith(f"{run}-"):
            for line in store.files.read(info.path).splitlines():
                event: dict[str, Any] = json.loads(line)
                if event.get("unit") == unit and event.get("won"):
                    return event
    return None


def unit_text(unit: Mapping[str, Any]) -> str:
    """Return the facts of a unit as one line."""
    when = datetime.fromtimestamp(unit["committed_at"], UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    seconds = ", ".join(f"{name} {value:.1f} s" for name, value in unit["seconds"].items())
    return f"{unit['id']}, attempt {unit['attempt']} by {unit['worker'] or 'unknown'}, committed {when} ({seconds})"
