"""Find the words that a document repeats, and choose a balanced set of pairs among them.

Each document has a *priority*, a hash of its key and the seed. Each unit keeps, for each word, the pairs from the
documents of lowest priority (`find_repeats`); what the units kept is merged in the same way, and the words take turns
until there are enough pairs (`choose`). Merging is exact, as `corpusgen.targets.sampling` shows, so the choice is the
same for any division into units. As all words prefer the same documents, and in a document the same sentences, many
pairs share a sentence: a model that reads it once has the states of all its words.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from corpusgen.config.build import DiscourseSettings
from corpusgen.corpus.pairs import guards
from corpusgen.corpus.pairs.guards import Occurrence, Pair
from corpusgen.io.hashing import seeded_hashes
from corpusgen.models.lexical import particles
from corpusgen.tables import CHOICE, REPEATS
from corpusgen.targets.names import capital_share_limit
from corpusgen.targets.sampling import fitted_per_word
from corpusgen.targets.tokens import token_batches

Integers = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]
_FoundPair = tuple[int, int, int, Occurrence, Occurrence, float]
"""The word, the document, the pair's number in it, both occurrences and their overlap."""

_ALONE = 2  # documents in which a word stands alone, kept for each word: only their use as negatives matters
_PAIR_BITS = np.uint64(127)  # of a priority: the number of the pair in its document
_ROWS_WORTH_MERGING = 100_000


class Documents(NamedTuple):
    """The documents of a table of sentences: each row's document, each document's key."""

    of_row: Integers
    keys: list[str]


def documents_of(sentences: pa.Table, block: int | None = None) -> Documents:
    """Return which sentences belong together: neighbours of the same article of the same file.

    A sentence that does not come after the one before begins another document: records may share an id, or have none.

    With `block`, `article` is the offset of a line of plain text, and lines whose offsets fall into the same block of
    this many bytes form a document.
    """
    source, article = (sentences[name].to_pylist() for name in ("source", "article"))
    begins = np.ones(len(source), bool)
    if block is None:
        paragraph, sentence = (sentences[name].to_numpy() for name in ("paragraph", "sentence"))
        same_paragraph = paragraph[1:] == paragraph[:-1]
        begins[1:] = (paragraph[1:] < paragraph[:-1]) | (same_paragraph & (sentence[1:] <= sentence[:-1]))
    else:
        article = [str(int(offset) // block) for offset in article]
        begins[1:] = False
    names = list(zip(source, article, strict=True))
    begins[1:] |= np.array([name != before for before, name in itertools.pairwise(names)], bool)
    ids = sentences["id"].to_pylist()
    keys = [hashlib.blake2b(ids[row].encode(), digest_size=8).hexdigest() for row in np.flatnonzero(begins)]
    return Documents(np.cumsum(begins) - 1, keys)


class WordFilter:
    """The words of a vocabulary, each with the reason why it is never paired, or None.

    `per_word` is how many pairs of each word to keep, so that enough are found although most words are rare.
    """

    def __init__(self, vocabulary: pa.Table, settings: DiscourseSettings, language: str) -> None:
        limit = capital_share_limit(settings.max_capital_share, language)
        words, shares = vocabulary["word"].to_pylist(), vocabulary["capital_share"].to_pylist()
        self.words = pa.array(words, pa.string())
        self.reasons = [guards.word_reason(*pair, limit, language) for pair in zip(words, shares, strict=True)]
        self.usable = np.array([reason is None for reason in self.reasons], bool)
        most_pairs = vocabulary["count"].to_numpy()[self.usable] // 2  # a pair takes two occurrences
        self.per_word = fitted_per_word(pa.table({"count": most_pairs}), settings.size)


class _Occurrences(NamedTuple):
    """The first occurrence of each word of the vocabulary in each sentence, sorted by document and word."""

    document: Integers
    word: Integers
    row: Integers
    start: Integers
    end: Integers
    token: Integers
    """The number of the token in its sentence."""
    has_particle: Integers
    """Whether a particle follows that makes another word of it, as “up” does in “put up”."""
    is_repeated: Integers
    """Whether the sentence has the word again: then it is not used there."""

    def take(self, indices: npt.NDArray[Any]) -> _Occurrences:
        return _Occurrences._make(column[indices] for column in self)

    def groups(self) -> Iterator[range]:
        """Yield the indices of each word in each document."""
        starts = np.flatnonzero(_changes(self.document) | _changes(self.word)).tolist()
        for start, stop in itertools.pairwise([*starts, len(self.word)]):
            yield range(start, stop)


class Repeats(NamedTuple):
    """What a table of sentences has: pairs and single occurrences (REPEATS), and repeated words that gave no pair."""

    found: pa.Table
    rejects: pa.Table


def find_repeats(
    sentences: pa.Table, words: WordFilter, settings: DiscourseSettings, language: str, seed: int, per_word: int
) -> Repeats:
    """Return the pairs of a table of sentences, at most `per_word` for each word, and what was rejected.

    Every word of the vocabulary that a document has in two sentences becomes one or more pairs, or one reject with its
    word, document and reason.
    """
    documents = documents_of(sentences, settings.document_bytes)
    found, tokens_of = _read(sentences, documents, words, seed, language)
    boilerplate = _boilerplate(tokens_of, documents, settings.boilerplate_documents)
    rejects: list[tuple[int, int, str]] = []
    pairs: list[_FoundPair] = []
    for group in found.groups():
        if len(group) < 2:
            continue
        word, document = int(found.word[group[0]]), int(found.document[group[0]])
        of_word: list[Pair] = []
        reason = words.reasons[word]
        if reason is None:
            of_word, reason = _pairs_of(found, group, boilerplate, tokens_of, settings, language)
        if reason is not None:
            rejects.append((word, document, reason))
        pairs += [(word, document, number, *pair) for number, pair in enumerate(of_word)]
    excluded = boilerplate[found.row] | (found.has_particle == 1) | (found.is_repeated == 1)
    free = np.flatnonzero(words.usable[found.word] & ~excluded)
    return _tables(sentences, words, documents, pairs, found.take(free), rejects, seed, per_word)


def _pairs_of(
    found: _Occurrences,
    group: range,
    boilerplate: npt.NDArray[np.bool_],
    tokens_of: Sequence[Sequence[str]],
    settings: DiscourseSettings,
    language: str,
) -> tuple[list[Pair], str | None]:
    """Return the pairs of a word in a document, and why there is none."""
    indices = [index for index in group if not found.is_repeated[index]]
    if len(indices) < 2:
        return [], guards.TWICE
    indices = [index for index in indices if not boilerplate[found.row[index]]]
    if len(indices) < 2:
        return [], guards.BOILERPLATE
    indices = [index for index in indices if not found.has_particle[index]]
    if len(indices) < 2:
        return [], guards.MULTI_WORD
    occurrences = [
        Occurrence(
            int(found.row[n]), int(found.start[n]), int(found.end[n]), tokens_of[found.row[n]], int(found.token[n])
        )
        for n in indices[: max(guards.MOST_OCCURRENCES, 2 * settings.per_document)]
    ]
    return guards.find_pairs(occurrences, settings.per_document, settings.max_overlap, language)


class JudgedOccurrence(NamedTuple):
    """An occurrence of a word, and why it is in no pair whatever the other is; None if it may be in one."""

    occurrence: Occurrence
    reason: str | None


def judge_occurrences(
    sentences: pa.Table,
    words: WordFilter,
    settings: DiscourseSettings,
    language: str,
    seed: int,
    word: str,
    document: str,
) -> list[JudgedOccurrence]:
    """Return the occurrences of a word in a document of these sentences, in the order in which they are tried.

    Sentences that have the word more than once come last: they are left out before.
    """
    documents = documents_of(sentences, settings.document_bytes)
    found, tokens_of = _read(sentences, documents, words, seed, language)
    boilerplate = _boilerplate(tokens_of, documents, settings.boilerplate_documents)
    number, code = documents.keys.index(document), words.words.index(pa.scalar(word)).as_py()
    judged = []
    for n in np.flatnonzero((found.document == number) & (found.word == code)).tolist():
        row = int(found.row[n])
        occurrence = Occurrence(row, int(found.start[n]), int(found.end[n]), tokens_of[row], int(found.token[n]))
        reasons = {
            guards.TWICE: found.is_repeated[n],
            guards.BOILERPLATE: boilerplate[row],
            guards.MULTI_WORD: found.has_particle[n],
        }
        judged.append(JudgedOccurrence(occurrence, next((reason for reason, holds in reasons.items() if holds), None)))
    return sorted(judged, key=lambda one: one.reason == guards.TWICE)


def _read(
    sentences: pa.Table, documents: Documents, words: WordFilter, seed: int, language: str
) -> tuple[_Occurrences, list[list[str]]]:
    """Return the occurrences of vocabulary words, and the tokens of each sentence."""
    following = pa.array(sorted(particles(language)), pa.string())
    columns: list[npt.NDArray[np.int64]] = [np.zeros((7, 0), np.int64)]
    tokens_of: list[list[str]] = []
    for first_row, tokens, surfaces in token_batches(sentences):
        codes = pc.fill_null(pc.index_in(surfaces, words.words), -1).to_numpy()
        written, firsts, rows = surfaces.to_pylist(), tokens.firsts, tokens.rows
        tokens_of += [
            written[first : first + n] for first, n in zip(firsts.tolist(), tokens.counts.tolist(), strict=True)
        ]
        known = np.flatnonzero(codes >= 0)
        _, index, times = np.unique(
            rows[known] * len(words.words) + codes[known], return_index=True, return_counts=True
        )
        at = known[index]
        is_particle = np.append(pc.is_in(surfaces, following).to_numpy(zero_copy_only=False), False)
        last = at == (firsts + tokens.counts - 1)[rows[at]]
        columns.append(
            np.stack(
                [codes[at], first_row + rows[at], tokens.starts[at], tokens.ends[at], at - firsts[rows[at]],
                 is_particle[at + 1] & ~last, times > 1]
            ).astype(np.int64)
        )  # fmt: skip
    word, row, *others = np.concatenate(columns, axis=1)
    found = _Occurrences(documents.of_row[row], word, row, *others)
    by_sentence = seeded_hashes(sentences["id"].to_pylist(), seed, b"sentence")
    return found.take(np.lexsort((by_sentence[row], word, found.document))), tokens_of


def _boilerplate(tokens_of: Sequence[Sequence[str]], documents: Documents, most: int | None) -> npt.NDArray[np.bool_]:
    """Return which sentences occur, apart from names and numbers, in `most` documents or more."""
    if most is None:
        return np.zeros(len(tokens_of), bool)
    skeletons = [guards.skeleton(tokens) for tokens in tokens_of]
    seen = {(skeleton, document) for skeleton, document in zip(skeletons, documents.of_row.tolist(), strict=True)}
    in_documents = Counter(skeleton for skeleton, _ in seen)
    return np.array([in_documents[skeleton] >= most for skeleton in skeletons], bool)


def _tables(
    sentences: pa.Table,
    words: WordFilter,
    documents: Documents,
    pairs: Sequence[_FoundPair],
    usable: _Occurrences,
    rejects: list[tuple[int, int, str]],
    seed: int,
    per_word: int,
) -> Repeats:
    priorities = seeded_hashes(documents.keys, seed, b"document") & ~_PAIR_BITS
    ids, keys = sentences["id"].to_pylist(), documents.keys
    names = words.words.to_pylist()
    neighbours = _neighbours(usable, [first for _, _, _, first, *_ in pairs])
    rows = [
        (names[word], int(priorities[document]) | number, keys[document], ids[a.row], a.start, a.end,
         ids[b.row], b.start, b.end, overlap, *neighbour)
        for (word, document, number, a, b, overlap), neighbour in zip(pairs, neighbours, strict=True)
    ]  # fmt: skip
    table = _lowest(_table(rows), per_word)
    kept = set(zip(table["word"].to_pylist(), table["document"].to_pylist(), strict=True))
    dropped = {(word, document) for word, document, *_ in pairs if (names[word], keys[document]) not in kept}
    rejects += sorted((word, document, guards.ENOUGH) for word, document in dropped)
    singles = _alone(usable, priorities, keys)
    alone = [
        (names[usable.word[n]], int(priorities[usable.document[n]]), keys[usable.document[n]], ids[usable.row[n]],
         int(usable.start[n]), int(usable.end[n]), *[None] * 6)
        for n in singles
    ]  # fmt: skip
    rejected = pa.table(
        {
            "word": pa.array([names[word] for word, _, _ in rejects], pa.string()),
            "document": pa.array([keys[document] for _, document, _ in rejects], pa.string()),
            "reason": pa.array([reason for *_, reason in rejects], pa.string()),
        }
    )
    return Repeats(pa.concat_tables([table, _table(alone)]), rejected)


def _alone(usable: _Occurrences, priorities: Hashes, keys: Sequence[str]) -> list[int]:
    """Return for each word one occurrence from each of the first documents that have it; copies count once."""
    first = np.flatnonzero(_changes(usable.document) | _changes(usable.word))
    _, key = np.unique(np.array(keys, str), return_inverse=True)
    order = first[np.lexsort((key[usable.document[first]], priorities[usable.document[first]], usable.word[first]))]
    order = order[_changes(key[usable.document[order]]) | _changes(usable.word[order])]
    alone: list[int] = order[_rank_in_group(usable.word[order]) < _ALONE].tolist()
    return alone


def _neighbours(usable: _Occurrences, firsts: Sequence[Occurrence]) -> list[tuple[int | None, int | None]]:
    """Return the span of the next content word of each occurrence's sentence, or its first; nulls if there is none."""
    order = np.lexsort((usable.start, usable.row))
    row, start, end = usable.row[order], usable.start[order], usable.end[order]
    first_of_row = np.arange(len(row)) - _rank_in_group(row)
    index_of = {pair: index for index, pair in enumerate(zip(row.tolist(), start.tolist(), strict=True))}
    found: list[tuple[int | None, int | None]] = []
    for occurrence in firsts:
        own = index_of[occurrence.row, occurrence.start]
        following = own + 1
        if following == len(row) or row[following] != occurrence.row:
            following = int(first_of_row[own])
        found.append((None, None) if following == own else (int(start[following]), int(end[following])))
    return found


def _table(rows: Sequence[tuple[object, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(REPEATS)
    return pa.Table.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, REPEATS, strict=True)], schema=REPEATS
    )


def _changes(codes: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return where a run of equal values begins."""
    return np.append(np.ones(min(1, len(codes)), bool), codes[1:] != codes[:-1])


def _rank_in_group(codes: npt.NDArray[Any]) -> Integers:
    """Return the position of each value in its run of equal values."""
    starts = np.flatnonzero(_changes(codes))
    ranks: Integers = np.arange(len(codes)) - np.repeat(starts, np.diff(np.append(starts, len(codes))))
    return ranks


def _lowest(table: pa.Table, per_word: int) -> pa.Table:
    """Return the rows of lowest priority of each word, sorted by word, priority and document; copies count once.

    There are copies if the same file was given twice, in two folders.
    """
    order = ("word", "priority", "document", "first", "second")
    table = table.sort_by([(name, "ascending") for name in order])
    codes = [table[name].combine_chunks().dictionary_encode().indices.fill_null(-1).to_numpy() for name in order]
    distinct = np.logical_or.reduce([_changes(column) for column in codes])
    table, words = table.filter(pa.array(distinct)), codes[0][distinct]
    return table.filter(pa.array(_rank_in_group(words) < per_word))


# ------------------------------------------------------------------------------------------------------ choosing


def choose(tables: Iterable[pa.Table], size: int, seed: int, per_word: int) -> pa.Table:
    """Return the chosen pairs (CHOICE), sorted by document.

    In every round each word that has a pair left gives the one of lowest priority, until there are `size` pairs. In a
    round for which that leaves too few, words come in the order of a hash. The negative of a pair is the word in the
    document that comes next by priority, whether that has a pair or not.

    `seed` and `per_word` are those of `find_repeats`. Memory holds vocabulary × `per_word` rows, half as many that
    wait to be merged, and one table.
    """
    pairs, alone = _merge(tables, per_word)
    rounds = _rank_in_group(pairs["word"].combine_chunks().dictionary_encode().indices.to_numpy())
    chosen = _in_rounds(pairs["word"], rounds, size, seed)
    negatives = _negatives(pairs, alone)
    table = pairs.append_column("round", pa.array(rounds + 1, pa.int32()))
    for name, column in negatives.items():
        table = table.append_column(name, column)
    table = table.take(pa.array(chosen))
    columns = ("document", "word", "first", "second")
    ids = [
        f"{document}-{hashlib.blake2b(repr(rest).encode(), digest_size=6).hexdigest()}"
        for document, *rest in zip(*(table[name].to_pylist() for name in columns), strict=True)
    ]
    table = table.append_column("id", pa.array(ids, pa.string())).select(CHOICE.names).cast(CHOICE)
    return table.sort_by([("document", "ascending"), ("first", "ascending"), ("id", "ascending")])


def _merge(tables: Iterable[pa.Table], per_word: int) -> tuple[pa.Table, pa.Table]:
    """Return the pairs and the single occurrences of lowest priority of all tables, each sorted by word."""
    limits = (per_word, _ALONE)
    kept: list[list[pa.Table]] = [[REPEATS.empty_table()], [REPEATS.empty_table()]]
    waiting = merged = 0
    for table in tables:
        is_pair = pc.is_valid(table["second"])
        for side, part in zip(kept, (table.filter(is_pair), table.filter(pc.invert(is_pair))), strict=True):
            side.append(part.select(REPEATS.names).cast(REPEATS))
        waiting += table.num_rows
        if waiting >= max(merged // 2, _ROWS_WORTH_MERGING):
            kept = [[_lowest(pa.concat_tables(side), limit)] for side, limit in zip(kept, limits, strict=True)]
            waiting, merged = 0, sum(side[0].num_rows for side in kept)
    pairs, alone = (_lowest(pa.concat_tables(side), limit) for side, limit in zip(kept, limits, strict=True))
    return pairs, alone


def _in_rounds(words: pa.ChunkedArray, rounds: Integers, size: int, seed: int) -> Integers:
    """Return the pairs of the first rounds, `size` of them if there are so many."""
    of_round = np.bincount(rounds) if len(rounds) else np.zeros(0, np.int64)
    whole = int(np.searchsorted(np.cumsum(of_round), size, side="right"))
    chosen = np.flatnonzero(rounds < whole)
    left = size - len(chosen)
    if whole < len(of_round) and left:
        last = np.flatnonzero(rounds == whole)
        names = words.take(pa.array(last)).to_pylist()
        chosen = np.concatenate([chosen, last[np.lexsort((names, seeded_hashes(names, seed, b"order")))[:left]]])
    return chosen


def _negatives(pairs: pa.Table, alone: pa.Table) -> dict[str, pa.Array]:
    """Return a sentence and span for each pair: its word in the next document by priority; nulls if there is none."""
    columns = ["word", "priority", "document", "first", "first_start", "first_end"]
    both = pa.concat_tables([pairs.select(columns), alone.select(columns)])
    both = both.set_column(1, "priority", pc.bit_wise_and(both["priority"], pa.scalar(int(~_PAIR_BITS), pa.uint64())))
    order = [(name, "ascending") for name in ("word", "priority", "document", "first", "first_start")]
    both = both.sort_by(order)
    word, document = (
        both[name].combine_chunks().dictionary_encode().indices.to_numpy() for name in ("word", "document")
    )
    kept = np.ones(len(word), bool)
    kept[1:] = (word[1:] != word[:-1]) | (document[1:] != document[:-1])  # one entry for each document of a word
    both, word = both.filter(pa.array(kept)), word[kept]
    starts = np.arange(len(word)) - _rank_in_group(word)
    sizes = np.bincount(word, minlength=1)[word] if len(word) else np.zeros(0, np.int64)
    following = np.where(np.arange(len(word)) + 1 < starts + sizes, np.arange(len(word)) + 1, starts)
    entry = {
        pair: index
        for index, pair in enumerate(zip(both["word"].to_pylist(), both["document"].to_pylist(), strict=True))
    }
    own = [entry[pair] for pair in zip(pairs["word"].to_pylist(), pairs["document"].to_pylist(), strict=True)]
    at = [int(following[index]) if sizes[index] > 1 else None for index in own]
    found = both.take(pa.array(at, pa.int64()))
    return {
        "negative": found["first"],
        "negative_start": found["first_start"],
        "negative_end": found["first_end"],
    }
