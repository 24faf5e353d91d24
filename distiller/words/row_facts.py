"""Facts about rows that their layer states do not tell: which word they are about, and which sentences they have.

Whoever reads the texts of rows makes the facts with `row_facts`. A data source keeps them beside the ids, one record of
ROW_FACTS per row (`Source.facts`). The training hands those of each batch to its objective as tensors (`BatchFacts`).

Shapes: B rows of a batch, N rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from corpusgen.errors import StoreError
from corpusgen.store import CommittedTable
from corpusgen.store.products import Member, Product

_MOST_MEMBERS = 8

ROW_FACTS = np.dtype([("word", "<i8"), ("differs", "?"), ("present", "u1"), ("sentences", "<i8", (_MOST_MEMBERS,))])
"""The facts of a row, about lower-cased words.

`word` is the key of the first member's word (`word_key`): rows with the same word have the same key, on any machine.
`differs` says whether the second member is another word than the first; False if rows have one member. `present` has a
bit for each member, set if the row has it: others have the states of the first member, which mean nothing.
`sentences` are the keys of the members' sentences; 0 for a member that the row lacks.
"""

RowFacts = NDArray[Any]
"""Facts of rows, (N,) of ROW_FACTS."""


class BatchFacts(NamedTuple):
    """The facts of a batch as tensors on the device of its states, each (B,): int64, bool, uint8 and int64."""

    word: torch.Tensor
    differs: torch.Tensor
    present: torch.Tensor
    sentence: torch.Tensor
    """The keys of the first members' sentences."""

    @classmethod
    def of(cls, facts: RowFacts) -> BatchFacts:
        """Return the facts of some rows as tensors."""
        values = facts["word"], facts["differs"], facts["present"], facts["sentences"][:, 0]
        return cls(*(torch.from_numpy(one.copy()) for one in values))

    def has(self, member: int) -> torch.Tensor:
        """Return which rows have this member, (B,)."""
        return (self.present >> member) & 1 != 0

    def after_first(self) -> BatchFacts:
        """Return the facts of all rows but the first."""
        return BatchFacts(*(values[1:] for values in self))

    def pin_memory(self) -> BatchFacts:
        """Return the facts in page-locked memory, from which a GPU copies without a wait."""
        return BatchFacts(*(values.pin_memory() for values in self))

    def to(self, device: torch.device | str) -> BatchFacts:
        """Return the facts on a device."""
        return BatchFacts(*(values.to(device, non_blocking=True) for values in self))


def word_key(word: str) -> int:
    """Return the key of a word, whatever the case of its letters: a signed 64-bit hash."""
    return _key(word.lower())


def _key(text: str) -> int:
    digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def row_facts(rows: pa.Table | pa.RecordBatch, product: Product) -> RowFacts:
    """Return the facts of rows that have the columns of the product."""
    words = [_words(rows, member) for member in product.members[:2]]
    facts = np.zeros(rows.num_rows, ROW_FACTS)
    for number, member in enumerate(product.members):
        if not member.absent:
            is_there = rows[member.start].is_valid().to_numpy(zero_copy_only=False)
            facts["present"] |= is_there.astype(np.uint8) << number
            sentences = zip(is_there, rows[member.text].to_pylist(), strict=True)
            facts["sentences"][:, number] = [_key(text) if there else 0 for there, text in sentences]
    facts["word"] = [word_key(word) for word in words[0]]
    if len(words) > 1:
        facts["differs"] = [first != second for first, second in zip(*words, strict=True)]
    return facts


def _words(rows: pa.Table | pa.RecordBatch, member: Member) -> list[str]:
    columns = (rows[name].to_pylist() for name in member.columns)
    return [text[start:end].lower() for text, start, end in zip(*columns, strict=True)]


def distinct_words(count: int, first: int = 0) -> RowFacts:
    """Return the facts of rows without texts, such as random states.

    Each has a word and sentences of its own, with keys from `first`.
    """
    facts = np.zeros(count, ROW_FACTS)
    facts["word"], facts["differs"], facts["present"] = np.arange(first, first + count), True, 255
    numbers = np.arange(_MOST_MEMBERS * first, _MOST_MEMBERS * (first + count))
    facts["sentences"] = 1 + numbers.reshape(count, _MOST_MEMBERS)
    return facts


class FactsInOrder:
    """The facts of a corpus for someone who has its rows in the same order, but perhaps not all of them.

    Features are like that: they lack the rows with a word that the backbone cannot encode, and they have no texts. Rows
    are found by their id. If an id repeats, which no recipe of ours does, and the first of its rows is lacking, the
    second gets the facts of the first.
    """

    def __init__(self, rows: CommittedTable, product: Product) -> None:
        self._rest = _facts_by_id(rows, product)

    def next(self, ids: Sequence[str]) -> RowFacts:
        """Return the facts of the next rows, those with these ids; raise StoreError if the corpus lacks one."""
        facts = np.empty(len(ids), ROW_FACTS)
        for index, wanted in enumerate(ids):
            found = next((fact for known, fact in self._rest if known == wanted), None)
            if found is None:
                raise StoreError(f"the corpus has no row {wanted!r} in this order; make the features again")
            facts[index] = found
        return facts


def _facts_by_id(rows: CommittedTable, product: Product) -> Iterator[tuple[str, Any]]:
    for batch in rows.batches(product.columns):
        yield from zip(batch["id"].to_pylist(), row_facts(batch, product), strict=True)
