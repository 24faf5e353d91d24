"""The meaning of cosines in a file of word vectors, and the thresholds that follow from it.

The paper took λ = 0.6 from the distribution of its vectors (fastText, 300 dimensions); in other vectors the same
number may separate nothing. So words are drawn from the vocabulary, each as likely as any other, as targets are, to
measure three things: what random pairs reach, how near a word's nearest neighbours are, and how near words of one
stem are.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from corpusgen.errors import StageError
from corpusgen.models.vectors import WordVectors

_PAPER = 0.6
_PERCENTILES = (50, 90, 95, 99, 99.9)
_NEIGHBOURS = (1, 5, 10)
_LOOKED_AT = 100  # nearest words searched for one of another form
_FEWEST_WORDS = 50
_EXAMPLE_WORDS = 5
_EXAMPLES_EACH = 3
_DECIMALS = 5  # hides the order in which a matrix product adds up
_ROWS_AT_ONCE = 256
_PAIRS_AT_ONCE = 1 << 14

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Spread:
    """The quartiles of some cosines."""

    low: float
    median: float
    high: float


@dataclass(frozen=True)
class Example:
    """A word, and other words just above and just below a threshold, the nearest to the threshold first."""

    word: str
    above: list[tuple[str, float]]
    below: list[tuple[str, float]]


@dataclass(frozen=True)
class Threshold:
    """A value for a setting of `rules`, the reason for it, and its effect."""

    setting: str
    value: float
    why: str
    random_share: float
    """Share of random pairs at or above the value."""
    neighbours: float
    """Number of words at or above the value, on average for each word."""
    words_with_neighbours: float
    """Share of the words that have at least one such neighbour in another form than their own."""
    examples: list[Example]


@dataclass(frozen=True)
class Calibration:
    """The cosines of a file of vectors; `dataclasses.asdict` makes it ready for JSON."""

    dimension: int
    words: int
    """Number of most frequent words, among which neighbours are searched."""
    sampled: int
    pairs: int
    seed: int
    random_mean: float
    random_percentiles: dict[str, float]
    neighbours: dict[str, Spread]
    """Cosines of the 1st, 5th and 10th nearest word."""
    other_form: Spread
    """Cosines of the nearest word that does not begin like the word itself."""
    same_stem: Spread | None
    """Cosines of words and the same words with a common ending; None if there are no such endings."""
    suggestions: list[Threshold]
    paper: Threshold


def calibrate(
    vectors: WordVectors, words_sample: int = 1000, seed: int = 0, pairs: int = 200_000, top: int = 30_000
) -> Calibration:
    """Measure `pairs` random pairs and the neighbours of `words_sample` words among the `top` most frequent ones.

    The suggestions, rounded to 0.01:

    - `align_min_cosine` (λ): the 99th percentile of random pairs. The aligner can choose from the few words of a
      paraphrase that are not taken by others; of four unrelated words, one reaches λ in four of a hundred sentences.
    - `enrich_min_cosine`: the median cosine of a word and its nearest neighbour in another form. The word that replaces
      an aligned word must be as near as the best that a typical word has; half of the words have none as near. λ would
      not do: hundreds of words on the same topic reach it.
    - `negative_max_cosine`: the 90th percentile of random pairs. Below it, a word is no nearer to the target than
      unrelated words are. Between it and the other two, nothing is certain.

    Only words of letters count, in lower case, as in the corpus. The same vectors and seed give the same result.
    """
    words = frequent_words(vectors.vocabulary, top)
    units = vectors.lookup(words)
    if not units.any(axis=1).all():
        present = np.flatnonzero(units.any(axis=1))
        words, units = [words[index] for index in present], units[present]
    if len(words) < _FEWEST_WORDS:
        raise StageError(
            f"only {len(words)} alphabetic words have vectors, too few to calibrate with; use a larger file"
        )
    random = np.random.default_rng(seed)
    sample = random.choice(len(words), min(words_sample, len(words)), replace=False)
    of_random = _random_cosines(units, pairs, random)
    nearest, other_form = _nearest(words, units, sample)
    percentiles = {f"{at:g}": _round(np.percentile(of_random, at)) for at in _PERCENTILES}
    usual = [index for index in sample.tolist() if index < len(words) // 3]  # people judge by words they know
    examples = (usual or sample.tolist())[:_EXAMPLE_WORDS]
    values = (
        ("align_min_cosine", round(percentiles["99"], 2), "99th percentile of random pairs"),
        ("enrich_min_cosine", round(float(np.median(other_form)), 2), "nearest word of another form, median"),
        ("negative_max_cosine", round(percentiles["90"], 2), "90th percentile of random pairs"),
        ("the paper's λ", _PAPER, "for comparison"),
    )
    above = _count_above(units, sample, [value for _, value, _ in values])
    *suggestions, paper = (
        Threshold(
            setting,
            value,
            why,
            random_share=_round((of_random >= value).mean()),
            neighbours=_round(count / len(sample)),
            words_with_neighbours=_round((other_form >= value).mean()),
            examples=[_example(words, units, word, value) for word in examples],
        )
        for (setting, value, why), count in zip(values, above, strict=True)
    )
    return Calibration(
        dimension=vectors.dimension,
        words=len(words),
        sampled=len(sample),
        pairs=len(of_random),
        seed=seed,
        random_mean=_round(of_random.mean(dtype=np.float64)),
        random_percentiles=percentiles,
        neighbours={str(rank): _spread(nearest[:, rank - 1]) for rank in _NEIGHBOURS},
        other_form=_spread(other_form),
        same_stem=_same_stem(words, units),
        suggestions=suggestions,
        paper=paper,
    )


def report(calibration: Calibration) -> str:
    """Return tables for the terminal: the distribution, the thresholds, and examples, which people decide by."""
    lines = [
        f"{calibration.words} most frequent words, {calibration.dimension} dimensions; cosines of",
        f"  {calibration.pairs} random pairs: mean {calibration.random_mean:.2f}, "
        + ", ".join(f"{at} % below {value:.2f}" for at, value in calibration.random_percentiles.items()),
    ]
    thresholds = [*calibration.suggestions, calibration.paper]
    spreads = [(f"neighbour {rank}", spread) for rank, spread in calibration.neighbours.items()]
    spreads.append(("nearest word of another form", calibration.other_form))
    if calibration.same_stem:
        spreads.append(("word and word with an ending", calibration.same_stem))
    lines += [f"  {name:<28}  median {s.median:.2f}, half in {s.low:.2f}–{s.high:.2f}" for name, s in spreads]
    lines += ["", "setting              value  random pairs above  words above, mean  words with any  why"]
    lines += [
        f"{t.setting:<20} {t.value:>5.2f} {t.random_share:>19.1%} {t.neighbours:>18.1f} "
        f"{t.words_with_neighbours:>15.0%}  {t.why}"
        for t in thresholds
    ]
    for threshold in thresholds:
        lines += ["", f"around {threshold.value:.2f} ({threshold.setting})"]
        for example in threshold.examples:
            above, below = (
                ", ".join(f"{word} {cosine:.2f}" for word, cosine in some) or "none"
                for some in (example.above, example.below)
            )
            lines.append(f"  {example.word:<16} above: {above};  below: {below}")
    return "\n".join(lines)


def frequent_words(vocabulary: Sequence[str], top: int) -> list[str]:
    """Return the first `top` words of letters, in lower case, from a vocabulary sorted by descending frequency."""
    words: dict[str, None] = {}
    for word in vocabulary:
        if word.isalpha():
            words[word.lower()] = None
            if len(words) == top:
                break
    return list(words)


def _random_cosines(units: Floats, pairs: int, random: np.random.Generator) -> Floats:
    left = random.integers(len(units), size=pairs)
    right = (left + random.integers(1, len(units), size=pairs)) % len(units)  # never the same word
    return _cosines(units, left, right)


def _cosines(units: Floats, left: Ints, right: Ints) -> Floats:
    starts = range(0, len(left), _PAIRS_AT_ONCE)
    chunks = [slice(start, start + _PAIRS_AT_ONCE) for start in starts]
    return np.concatenate([np.einsum("ij,ij->i", units[left[chunk]], units[right[chunk]]) for chunk in chunks])


def _blocks(units: Floats, sample: Ints) -> Iterator[tuple[Ints, Floats]]:
    """Yield some words at a time, with their cosines to all words, and -1 to themselves."""
    for start in range(0, len(sample), _ROWS_AT_ONCE):
        some = sample[start : start + _ROWS_AT_ONCE]
        cosines = np.round(units[some] @ units.T, _DECIMALS)
        cosines[np.arange(len(some)), some] = -1
        yield some, cosines


def _nearest(words: Sequence[str], units: Floats, sample: Ints) -> tuple[Floats, Floats]:
    """Return, for each sampled word, the cosines of its nearest words, and of the nearest in another form."""
    count = min(_LOOKED_AT, len(words) - 1)
    nearest, other_form = [], []
    for some, cosines in _blocks(units, sample):
        order = np.argpartition(-cosines, count, axis=1)[:, :count]
        near = np.take_along_axis(cosines, order, 1)
        alike = [[_look_alike(words[a], words[b]) for b in row] for a, row in zip(some, order.tolist(), strict=True)]
        # If all of them begin alike, the next word is at most as near as the last one.
        other_form.append(np.where(alike, near.min(axis=1, keepdims=True), near).max(axis=1))
        nearest.append(-np.sort(-near, axis=1))
    return np.concatenate(nearest), np.concatenate(other_form)


def _count_above(units: Floats, sample: Ints, values: Sequence[float]) -> Ints:
    """Count the words at or above each value, over all sampled words."""
    return sum(
        (np.array([(cosines >= value).sum() for value in values]) for _, cosines in _blocks(units, sample)),
        start=np.zeros(len(values), np.int64),
    )


def _look_alike(a: str, b: str) -> bool:
    """Return whether two words begin alike, as forms and derivations of one stem do in most languages."""
    half = (max(len(a), len(b)) + 1) // 2
    return a[:half] == b[:half]


def _same_stem(words: Sequence[str], units: Floats) -> Spread | None:
    """Return the cosines of pairs like "word" and "words", for the ten most common endings in the vocabulary."""
    rows = {word: row for row, word in enumerate(words)}
    pairs = [
        (row, rows[word[:-length]], word[-length:])
        for word, row in rows.items()
        for length in (1, 2, 3)
        if len(word) >= length + 4 and word[:-length] in rows
    ]
    common = {ending for ending, _ in Counter(ending for *_, ending in pairs).most_common(10)}
    chosen = np.array([pair[:2] for pair in pairs if pair[2] in common], np.int64)
    return _spread(_cosines(units, *chosen.T)) if len(chosen) else None


def _example(words: Sequence[str], units: Floats, word: int, threshold: float) -> Example:
    cosines = np.round(units @ units[word], _DECIMALS)
    order = np.argsort(-cosines, kind="stable")
    border = int((cosines >= threshold).sum())

    def first(rows: Ints) -> list[tuple[str, float]]:
        others = ((words[row], _round(cosines[row])) for row in rows if not _look_alike(words[row], words[word]))
        return list(itertools.islice(others, _EXAMPLES_EACH))

    return Example(words[word], above=first(order[:border][::-1]), below=first(order[border:]))


def _spread(cosines: Floats) -> Spread:
    return Spread(*(_round(value) for value in np.percentile(cosines, (25, 50, 75))))


def _round(value: float | np.floating) -> float:
    return round(float(value), 4)
