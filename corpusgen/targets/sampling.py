"""Draw the balanced sample of targets: one word per sentence, as many sentences for each word as for any other.

A small sample has room for one sentence of most words. With `at_once`, it takes several sentences of fewer words.

Every (sentence, word) pair has a *priority*, a hash of seed, word and sentence id. Each unit keeps, per word, the
pairs of lowest priority (`candidates`); what the units kept is merged in the same way, and sentences are dealt out to
the words in rounds (`select`). No pair's priority depends on any other pair, so the sample is the same however the
sentences are divided into units and in whatever order these come.

Write low(A) for the k pairs of lowest priority in a set A of pairs of one word, or all of A if it has no more. Merging
is exact, low(A ∪ B) = low(low(A) ∪ low(B)): a pair in low(A ∪ B) has fewer than k pairs below it in A ∪ B, so fewer
than k in the set it came from, and is in low(A) or low(B). By induction the same holds for any number of units.

Before that, every pair above a limit that depends on the word alone is dropped, which leaves the lower end of A. If k
or more pairs are left, low(A) does not change. If fewer, low(A) shrinks to these: still the lowest of all, still a
uniform sample of the word's sentences, still the same for every division into units. The word then merely offers
fewer sentences than it could have.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from corpusgen.io.hashing import mixed, seeded_hashes
from corpusgen.tables import CANDIDATES
from corpusgen.targets.tokens import token_batches
from corpusgen.text.words import Tokens

_SPARE = 4
_FEWEST_PER_WORD = 32
_ROWS_WORTH_MERGING = 100_000


Integers = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]
_Pairs = tuple[Integers, Hashes, Integers, npt.NDArray[np.int32], npt.NDArray[np.int32]]
_NO_PAIRS: list[npt.NDArray[Any]] = [np.empty(0, kind) for kind in ("i8", "u8", "i8", "i4", "i4")]


def default_per_word(size: int, vocabulary_size: int) -> int:
    """Return how many candidates to keep per word for a sample of `size`: four times the mean, at least 32.

    A word needs spare candidates because others take some of its sentences, and because frequent words make up for
    rare ones. Where most words are rare, as in a small corpus, the mean says little: see `fitted_per_word`.
    """
    return _with_spare(-(-size // max(vocabulary_size, 1)))


def fitted_per_word(vocabulary: pa.Table, size: int, at_once: int = 1) -> int:
    """Return how many candidates to keep per word, from the counts of the words.

    It is four times the number of rounds that fill the sample when a word can give as many sentences as it has
    occurrences, or four times `at_once` if that is more, and at least 32. With enough occurrences of every word this is
    `default_per_word`. The candidates of all words are then never more than about four times the sample, or 32 times
    the vocabulary.
    """
    counts = vocabulary.column("count").to_numpy()
    fewest, most = 1, int(counts.max(initial=1))
    while fewest < most:
        rounds = (fewest + most) // 2
        if np.minimum(counts, rounds).sum() < size:
            fewest = rounds + 1
        else:
            most = rounds
    return _with_spare(max(fewest, at_once))


def _with_spare(rounds: int) -> int:
    return max(_FEWEST_PER_WORD, _SPARE * rounds)


def candidates(
    sentences: pa.Table,
    sentence_ids: pa.Array | pa.ChunkedArray,
    vocabulary: pa.Table,
    seed: int,
    per_word: int,
    slack: float = 2.0,
) -> pa.Table:
    """Return the candidates of one unit: `word`, `priority`, `sentence`, `start`, `end`.

    A pair is a candidate if the word is in the vocabulary and exactly one token of the sentence is that word. Case
    matters, as in the vocabulary: “May” and “may” are two words, and neither excludes the other.

    The `per_word` lowest priorities of each word are kept, and none above a limit: for a word with c occurrences in
    the whole corpus, the lowest `slack × per_word / c` of all priorities. So all units together keep about
    `slack × per_word` candidates per word, however many units there are. `slack` also makes up for occurrences that
    are not candidates because the word is twice in a sentence. The module says what happens if a word ends up with
    fewer than `per_word`.

    Sentence ids (strings or integers) must be unique in the corpus. Rows are in the order of the vocabulary, then by
    priority.
    """
    if len(sentence_ids) != sentences.num_rows:
        raise ValueError(f"{sentences.num_rows} sentences have {len(sentence_ids)} ids")
    if slack < 1:
        raise ValueError(f"with slack {slack}, most words would lose candidates that they need; use at least 1")
    ids = _array(sentence_ids)
    words = _array(vocabulary.column("word")).cast(pa.string())
    limits = _limits(vocabulary.column("count").to_numpy(), slack * per_word)
    sentence_keys = seeded_hashes(ids.to_pylist(), seed, b"sentence")
    word_keys = _WordKeys(words, seed)
    found = [
        _pairs(tokens, first_row, pc.index_in(surfaces, words), limits, word_keys, sentence_keys)
        for first_row, tokens, surfaces in token_batches(sentences)
    ]
    code, priority, row, start, end = (np.concatenate(column) for column in zip(_NO_PAIRS, *found, strict=True))
    sentence = ids.take(pa.array(row))
    low = _lowest(code, priority, sentence, per_word)
    columns = [words.take(pa.array(code[low])), priority[low], sentence.take(pa.array(low)), start[low], end[low]]
    return pa.table(columns, names=CANDIDATES.names)


class _WordKeys:
    """A hash per word of the vocabulary, computed when first needed: a small unit has few of the words."""

    def __init__(self, words: pa.Array, seed: int) -> None:
        self._words, self._seed = words, seed
        self._keys: Hashes = np.zeros(len(words), np.uint64)
        self._known = np.zeros(len(words), bool)

    def __getitem__(self, codes: Integers) -> Hashes:
        new = np.unique(codes[~self._known[codes]])
        self._keys[new] = seeded_hashes(self._words.take(pa.array(new)).to_pylist(), self._seed, b"word")
        self._known[new] = True
        return self._keys[codes]


def _pairs(
    tokens: Tokens, first_row: int, codes: pa.Int32Array, limits: Hashes, word_keys: _WordKeys, sentence_keys: Hashes
) -> _Pairs:
    """Return word code, priority, row and span of the candidates among the tokens."""
    rows = first_row + tokens.rows
    at = np.flatnonzero(codes.is_valid())
    code: Integers = codes.drop_null().to_numpy().astype(np.int64)
    priority = mixed(word_keys[code] + sentence_keys[rows[at]])
    # Two occurrences of a pair have the same priority and are dropped or kept together: repeats can still be found
    # afterwards, when there is much less to look through.
    low = priority <= limits[code]
    at, code, priority = at[low], code[low], priority[low]
    _, first, occurrences = np.unique(rows[at] * len(limits) + code, return_index=True, return_counts=True)
    once = first[occurrences == 1]
    at = at[once]
    return code[once], priority[once], rows[at], tokens.starts[at], tokens.ends[at]


def select(candidate_tables: Iterable[pa.Table], size: int, seed: int, per_word: int, at_once: int = 1) -> pa.Table:
    """Return the sample: `sentence`, `word`, `start`, `end`, `round`, sorted by sentence.

    In every round each word that still has candidates whose sentences are free gets the `at_once` of lowest priority;
    a word with fewer gets them at the end of the round. Words with the fewest candidates come first, as they have the
    least choice. In a round for which the budget is too small, words come in the order of a hash of word and seed:
    otherwise a small sample would consist of rare words. The rounds end with `size` targets or when no word has a
    candidate left. `round` counts from 1: a word's r-th sentence is of round r.

    `seed` and `per_word` are those of `candidates`. Memory holds vocabulary × `per_word` rows, half as many that wait
    to be merged, and one table.
    """
    table = _merge(candidate_tables, per_word)
    word, sentence = _array(table.column("word")), _array(table.column("sentence")).dictionary_encode()
    first = _group_starts(word.indices.to_numpy())
    available = np.diff(first, append=table.num_rows)
    words = word.take(pa.array(first)).cast(pa.string())
    alphabetical = pc.rank(words).to_numpy()  # in case two words have the same hash
    by_chance = np.lexsort((alphabetical, seeded_hashes(words.to_pylist(), seed, b"order")))
    first, available = first[by_chance], available[by_chance]
    rarest_first = np.argsort(available, kind="stable")
    chosen, rounds = _deal(first, first + available, rarest_first, sentence.indices.to_numpy(), size, at_once)
    sample = table.select(["sentence", "word", "start", "end"]).take(pa.array(chosen))
    sample = sample.set_column(1, "word", sample.column("word").cast(pa.string()))
    return sample.append_column("round", pa.array(rounds, pa.int32())).sort_by("sentence")


def _deal(
    first: Integers, stop: Integers, rarest_first: Integers, sentence: npt.NDArray[np.int32], size: int, at_once: int
) -> tuple[Integers, npt.NDArray[np.int32]]:
    """Return the chosen candidates and their rounds; the n-th word in random order has `first[n]` to `stop[n]`."""
    taken = bytearray(int(sentence.max(initial=-1)) + 1)
    sentences = sentence.data  # indexes faster than the array, without a Python object per row
    position, stops = first.tolist(), stop.tolist()
    given = [0] * len(position)
    chosen, rounds = array("q"), array("i")

    def free(word: int) -> list[int]:
        """Return the next candidates of a word whose sentences are free, at most `at_once`."""
        rest = range(position[word], stops[word])
        return list(itertools.islice((at for at in rest if not taken[sentences[at]]), at_once))

    def give(word: int, candidates: list[int]) -> None:
        for at in candidates[: size - len(chosen)]:
            taken[sentences[at]] = 1
            chosen.append(at)
            position[word] = at + 1
            given[word] += 1
            rounds.append(given[word])

    words: list[int] = rarest_first.tolist()
    while words and len(chosen) < size:
        if len(words) * at_once > size - len(chosen):
            words.sort()
        having, short = [], []
        for word in words:
            found = free(word)
            if len(found) == at_once:
                give(word, found)
                having.append(word)
                if len(chosen) == size:
                    break
            else:
                short.append(word)
        for word in short:
            give(word, free(word))
        words = having
    return np.array(chosen, np.int64), np.array(rounds, np.int32)


def _merge(tables: Iterable[pa.Table], per_word: int) -> pa.Table:
    """Return the lowest pairs of all tables, sorted by word, priority and sentence; words are dictionary-encoded."""
    kept: list[pa.Table] = []
    rows = merged_rows = 0
    for table in tables:
        if table.num_rows or not kept:
            kept.append(_encoded(table))
            rows += table.num_rows
        if rows >= merged_rows + max(merged_rows // 2, _ROWS_WORTH_MERGING):
            kept = [_lowest_of(kept, per_word)]
            rows = merged_rows = kept[0].num_rows
    if kept and rows == merged_rows:  # nothing came after the last merge
        return kept[0]
    return _lowest_of(kept or [_encoded(CANDIDATES.empty_table())], per_word)


def _encoded(table: pa.Table) -> pa.Table:
    table = table.select(CANDIDATES.names)
    return table.set_column(0, "word", table.column("word").dictionary_encode())


def _lowest_of(tables: Sequence[pa.Table], per_word: int) -> pa.Table:
    table = pa.concat_tables(tables).unify_dictionaries().combine_chunks()
    code, priority = _array(table.column("word")).indices.to_numpy(), table.column("priority").to_numpy()
    return table.take(pa.array(_lowest(code, priority, table.column("sentence"), per_word)))


def _lowest(code: npt.NDArray[Any], priority: Hashes, sentence: pa.Array | pa.ChunkedArray, per_word: int) -> Integers:
    """Return the indices of each word's `per_word` lowest pairs, sorted by word, priority and sentence."""
    order = np.lexsort((priority, code))
    same = (np.diff(code[order]) == 0) & (np.diff(priority[order]) == 0)
    if same.any():  # so rare with 64 bits that sentence ids are compared only now
        order = np.lexsort((pc.rank(sentence, tiebreaker="dense").to_numpy(), priority, code))
    first = _group_starts(code[order])
    rank_in_group = np.arange(len(order)) - np.repeat(first, np.diff(first, append=len(order)))
    return order[rank_in_group < per_word]


def _group_starts(codes: npt.NDArray[Any]) -> Integers:
    """Return where each run of equal codes begins."""
    return np.flatnonzero(np.diff(codes, prepend=-1))


def _limits(counts: Integers, keep: float) -> Hashes:
    """Return each word's highest priority worth keeping, so that about `keep` of its `counts` occurrences are kept."""
    share = keep / np.maximum(counts, 1)
    limits: Hashes = np.full(len(share), np.iinfo(np.uint64).max, np.uint64)
    limits[share < 1] = (share[share < 1] * 2.0**64).astype(np.uint64)
    return limits


def _array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
