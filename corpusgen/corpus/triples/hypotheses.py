"""Choose among several paraphrases of a sentence: an undamaged one, and one in which another word means the target."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from corpusgen.tables import HYPOTHESES

Mask = npt.NDArray[np.bool_]


def one_per_row(rows: pa.Table) -> tuple[pa.Table, npt.NDArray[np.int64]]:
    """Return a row for each hypothesis, as if it were the only one, and the number of the row it comes from."""
    several = rows[HYPOTHESES.name].combine_chunks()
    of_row, each = pc.list_parent_indices(several), pc.list_flatten(several)
    table = rows.drop_columns([HYPOTHESES.name]).take(of_row)
    for name in ("pivot", "paraphrase"):
        table = table.set_column(table.column_names.index(name), name, pc.struct_field(each, name))
    return table, of_row.to_numpy().astype(np.int64)


def preferred(
    of_row: npt.NDArray[np.int64], faulty: Mask, differs: Mask, cosines: npt.NDArray[Any]
) -> npt.NDArray[np.int64]:
    """Return the hypothesis to use for each row, of those without a fault if there are any.

    It is the one whose aligned word is another word than the target and nearest to it. If all have the target itself,
    it is the first one, which the translator finds best.
    """
    differs = differs & ~faulty
    order = np.lexsort((np.arange(len(of_row)), np.where(differs, -cosines, 0), ~differs, faulty, of_row))
    return order[np.flatnonzero(np.diff(of_row[order], prepend=-1))]
