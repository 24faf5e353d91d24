"""How many of the targets became what: beside the figures of the paper."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow.compute as pc

from corpusgen.store import CommittedTable, Store, TripleStore

_FAR = 3  # of letters: what the paper calls a paraphrase that is not trivial


@dataclass(frozen=True)
class Funnel:
    """Targets, those with a paraphrase and an aligned word, triples, and what kinds of them."""

    targets: int
    aligned: int | None
    triples: int
    enriched: int | None
    different: int | None
    far: int
    distinct_targets: int


PAPER = Funnel(1_000_000, None, 929_265, None, None, 242_643, 44_614)


def funnel(store: Store) -> Funnel:
    """Of what was committed."""
    triples = TripleStore(store)
    table = triples.to_table(["target", "positive_word", "positive_rule", "edit_distance"])
    failed = CommittedTable(store, "generate", "rejects").to_table(["aligned_start"])
    different = pc.not_equal(pc.utf8_lower(table["target"]), pc.utf8_lower(table["positive_word"]))
    return Funnel(
        targets=table.num_rows + failed.num_rows,
        aligned=table.num_rows + failed.num_rows - failed["aligned_start"].null_count,
        triples=table.num_rows,
        enriched=pc.sum(pc.not_equal(table["positive_rule"], "aligned")).as_py() or 0,
        different=pc.sum(different).as_py() or 0,
        far=pc.sum(pc.greater(table["edit_distance"], _FAR)).as_py() or 0,
        distinct_targets=len(table["target"].unique()),
    )


def lines(ours: Funnel, paper: Funnel = PAPER) -> list[str]:
    """A table for the terminal."""
    rows = [
        ("targets", "targets"),
        ("with an aligned word", "aligned"),
        ("triples", "triples"),
        ("  wp is predicted", "enriched"),
        ("  wp ≠ wt", "different"),
        (f"  edit distance > {_FAR}", "far"),
        ("  distinct targets", "distinct_targets"),
    ]
    found = [f"{'funnel':24}{'here':>12}{'':>8}{'paper':>12}"]
    for label, name in rows:
        columns = [_number(getattr(side, name), side.targets) for side in (ours, paper)]
        found.append(f"{label:24}" + "".join(columns))
    return found


def _number(value: int | None, of: int) -> str:
    if value is None:
        return f"{'–':>12}{'':>8}"
    return f"{value:>12,}{value / of:>8.1%}" if of else f"{value:>12,}{'':>8}"
