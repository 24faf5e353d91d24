"""The funnel of a corpus of paragraphs, from those of the source to the words of the vocabulary, and their lengths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from corpusgen.store import CommittedTable, StageCount, Store
from corpusgen.store.products import PARAGRAPHS, TOKEN_VOCABULARY


@dataclass(frozen=True)
class ParagraphFunnel:
    """The numbers of paragraphs in the source and in the corpus, and of what is in the latter.

    Each paragraph of the source was kept, rejected for one reason, or could not be split: `read` is the sum of
    `paragraphs`, `rejected` and `quarantined`. Of the `tokens`, `covered` are in the vocabulary, which has `words`
    words; both are None before it is made.
    """

    read: int
    rejected: dict[str, int]
    quarantined: int
    paragraphs: int
    sentences: int
    tokens: int
    words: int | None
    covered: int | None


@dataclass
class ParagraphFunnelCount:
    """A funnel counted batch by batch."""

    OF_ROWS = ("sentence_tokens",)
    OF_REJECTS = ()

    store: Store
    _read: int = 0
    _rejected: Counter[str] = field(default_factory=Counter)
    _quarantined: int = 0
    _paragraphs: int = 0
    _sentences: int = 0
    _tokens: int = 0

    def add_stages(self, stages: Sequence[StageCount]) -> None:
        """Count what the stages of a unit did with the paragraphs that its reader found."""
        after_reading = [stage for stage in stages if not stage.expands]
        self._read += after_reading[0].rows_in
        for stage in after_reading:
            self._rejected.update(stage.rejected)
            self._quarantined += stage.quarantined

    def add_rows(self, batch: pa.RecordBatch) -> None:
        """Count paragraphs; the batch has at least the columns `OF_ROWS`."""
        tokens = batch["sentence_tokens"].flatten().to_numpy()
        self._paragraphs += batch.num_rows
        self._sentences += len(tokens)
        self._tokens += int(tokens.sum(dtype=np.int64))

    def add_rejects(self, batch: pa.RecordBatch) -> None:
        """Count nothing: only commits count what was rejected."""

    def result(self) -> ParagraphFunnel:
        """Return the funnel of everything that was added."""
        words, covered = _vocabulary(self.store)
        return ParagraphFunnel(
            self._read,
            dict(self._rejected.most_common()),
            self._quarantined,
            self._paragraphs,
            self._sentences,
            self._tokens,
            words,
            covered,
        )


def _vocabulary(store: Store) -> tuple[int | None, int | None]:
    """Return how many words the vocabulary has, and how often they occur; None before it is made."""
    name, table = TOKEN_VOCABULARY
    if not store.pass_store(name).started() or not (words := CommittedTable(store, name, table)).complete:
        return None, None
    return words.num_rows, int(words.to_table(["count"])["count"].to_numpy().sum())


def paragraph_funnel(store: Store) -> ParagraphFunnel:
    """Return the funnel of what is committed."""
    count = ParagraphFunnelCount(store)
    for commit in store.pass_store(PARAGRAPHS.pass_name).commits():
        count.add_stages(commit.stages)
    for batch in PARAGRAPHS.open(store).batches(ParagraphFunnelCount.OF_ROWS):
        count.add_rows(batch)
    return count.result()


def lines(found: ParagraphFunnel) -> Iterator[str]:
    """Yield a table for the terminal; shares are of the number that a line is part of."""
    yield "funnel of paragraphs"
    yield _line("paragraphs in the source", found.read)
    for reason, count in found.rejected.items():
        yield _line(f"  {reason}", count, found.read)
    if found.quarantined:
        yield _line("  quarantined", found.quarantined, found.read)
    yield _line("  kept", found.paragraphs, found.read)
    yield _line("sentences", found.sentences)
    yield _line("tokens", found.tokens)
    if found.words is not None and found.covered is not None:
        yield _line("  in the vocabulary", found.covered, found.tokens)
        yield _line("words in the vocabulary", found.words)


def _line(label: str, value: int, of: int | None = None) -> str:
    return f"{label:36}{value:>12,}" + (f"{value / of:>8.1%}" if of else "")


def lengths(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """Return how long paragraphs are, by the names in `LENGTHS`; the batch has the column `sentence_tokens`."""
    sentences, of_sentences = batch["sentence_tokens"].value_lengths(), batch["sentence_tokens"].flatten()
    rows = np.repeat(np.arange(batch.num_rows), sentences.to_numpy())
    tokens = np.bincount(rows, of_sentences.to_numpy(), batch.num_rows).astype(np.int64)
    return {"sentences": sentences, "tokens": pa.array(tokens), "sentence_tokens": of_sentences}


LENGTHS = {
    "sentences": "sentences of a paragraph",
    "tokens": "tokens of a paragraph",
    "sentence_tokens": "tokens of a sentence",
}
"""What the numbers of `lengths` are."""
