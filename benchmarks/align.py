"""Alignment: how much faster than a loop with one cosine for each pair of words, as the paper's published code has it.

    python -m benchmarks.align --text 'PATH/wiki_*.gz' --vectors PATH

Sentences of Wikipedia, and in place of a paraphrase the same words, some of them dropped and others moved. Both sides
run on one thread of one process in turn, and must find the same words.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.harvest import read_texts
from benchmarks.rows import Row
from corpusgen.corpus.triples.align import Alignment, Sentences, chosen_words, judge_by_cosine
from corpusgen.models.vectors import WordVectors, open_vectors
from corpusgen.text.segment import RuleSegmenter

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

THRESHOLD = 0.6
DROPPED = 0.15  # share of the words
MOVED = 1.5  # words, the standard deviation
DECIMALS = 5
PAIRS_AT_ONCE = 1000


class Pair(NamedTuple):
    original: list[str]
    target: int
    paraphrase: list[str]


def read_pairs(texts: list[str], most: int) -> list[Pair]:
    taken, spans, tokens = RuleSegmenter().segment(texts)
    ends = np.cumsum(tokens.counts).tolist()
    random = np.random.default_rng(0)
    pairs: list[Pair] = []
    for index, (start, stop), first, last in zip(taken, spans, [0, *ends], ends, strict=False):
        text = texts[index][start:stop]
        bounds = zip(tokens.starts[first:last].tolist(), tokens.ends[first:last].tolist(), strict=True)
        words = [text[a:b].lower() for a, b in bounds if text[a : a + 1].isalnum()]
        if 15 <= len(words) <= 50 and len(pairs) < most:
            kept = np.flatnonzero(random.random(len(words)) >= DROPPED)
            moved = kept[np.argsort(kept + random.normal(0, MOVED, len(kept)))]
            pairs.append(Pair(words, int(random.integers(len(words))), [words[number] for number in moved]))
    return pairs


def cosine(a: Floats, b: Floats) -> float:
    lengths = np.linalg.norm(a) * np.linalg.norm(b)
    return float(np.dot(a, b) / lengths) if lengths else 0.0


def align_one(original: Sequence[Floats], target: int, paraphrase: Sequence[Floats]) -> tuple[int, float]:
    """Algorithm 4.1, one cosine after the other."""
    matrix = np.zeros((len(original), len(paraphrase)))
    for i, a in enumerate(original):
        for j, b in enumerate(paraphrase):
            matrix[i, j] = cosine(a, b)
    best = matrix.argmax(1)
    taken = {best[i] for i in range(len(original)) if i != target and matrix[:, best[i]].argmax() == i}
    of_target = matrix[target].round(DECIMALS)
    for j in np.argsort(-matrix[target], kind="stable"):
        if j not in taken and of_target[j] >= THRESHOLD:
            return int(j), float(of_target[j])
    return -1, float("nan")


def align_in_a_loop(pairs: Sequence[tuple[Sequence[Floats], int, Sequence[Floats]]]) -> Alignment:
    words, cosines = zip(*(align_one(*pair) for pair in pairs), strict=True)
    return Alignment(np.array(words), np.array(cosines, np.float32))


def align_together(groups: Sequence[tuple[Sentences, Ints, Sentences]]) -> Alignment:
    results = [chosen_words(judge_by_cosine(*group, THRESHOLD)) for group in groups]
    return Alignment(*(np.concatenate(column) for column in zip(*results, strict=True)))


def in_groups(pairs: Sequence[Pair], vectors: WordVectors) -> list[tuple[Sentences, Ints, Sentences]]:
    """The vectors of many pairs in one look-up."""

    def look_up(sentences: Sequence[Sequence[str]]) -> Sentences:
        found = vectors.lookup([word for words in sentences for word in words])
        return Sentences(found, np.array([len(words) for words in sentences]))

    groups = [pairs[first : first + PAIRS_AT_ONCE] for first in range(0, len(pairs), PAIRS_AT_ONCE)]
    return [
        (
            look_up([pair.original for pair in group]),
            np.array([pair.target for pair in group]),
            look_up([pair.paraphrase for pair in group]),
        )
        for group in groups
    ]


def in_lists(pairs: Sequence[Pair], vectors: WordVectors) -> list[tuple[list[Floats], int, list[Floats]]]:
    """The vectors word by word, from a dictionary: no look-up of single words is cheaper."""
    words = list({word for pair in pairs for word in pair.original})
    by_word = dict(zip(words, vectors.lookup(words), strict=True))
    return [
        ([by_word[word] for word in pair.original], pair.target, [by_word[word] for word in pair.paraphrase])
        for pair in pairs
    ]


def seconds(action: Callable[[], Alignment]) -> tuple[float, Alignment]:
    started = time.process_time()
    result = action()
    return time.process_time() - started, result


def compare(pairs: list[Pair], vectors: WordVectors, rounds: int) -> dict[str, object]:
    """Processor time of both sides in turn, the best of some rounds, with vectors at hand and with their look-up."""
    groups, lists = in_groups(pairs, vectors), in_lists(pairs, vectors)
    sides: dict[str, Callable[[], Alignment]] = {
        "align": lambda: align_together(groups),
        "loop": lambda: align_in_a_loop(lists),
        "look-up and align": lambda: align_together(in_groups(pairs, vectors)),
        "look-up and loop": lambda: align_in_a_loop(in_lists(pairs, vectors)),
    }
    best = dict.fromkeys(sides, float("inf"))
    for _ in range(rounds):
        for name, action in sides.items():
            elapsed, result = seconds(action)
            best[name] = min(best[name], elapsed)
            if name == "align":
                expected = result
            np.testing.assert_array_equal(result.word, expected.word, f"{name} aligns other words")
            np.testing.assert_allclose(result.cosine, expected.cosine, rtol=0, atol=1.1 * 10.0**-DECIMALS)
    return {
        "pairs": len(pairs),
        "aligned": int((expected.word >= 0).sum()),
        "words per sentence": round(float(np.mean([len(pair.original) for pair in pairs])), 1),
        "microseconds per pair": {name: round(1e6 * elapsed / len(pairs), 1) for name, elapsed in best.items()},
        "times faster": round(best["loop"] / best["align"], 1),
        "times faster, with look-up": round(best["look-up and loop"] / best["look-up and align"], 1),
    }


def run(pairs: int, rounds: int) -> list[Row]:
    """On the text and the vectors of the quickstart."""
    from benchmarks.parts import prepare

    with tempfile.TemporaryDirectory() as folder:
        parts = prepare(folder, pairs)
        assert parts.config.vectors
        vectors = open_vectors(parts.config.vectors.path, parts.config.vectors.words)
        found: dict[str, Any] = compare(read_pairs(parts.texts, pairs), vectors, rounds)
    speed = f"{found['microseconds per pair']['align']:.0f} µs a pair of sentences"
    return [
        Row("alignment", "a loop with one cosine per pair of words", found["times faster"], 50.0, speed),
        Row("alignment, look-up", "the same, looking words up", found["times faster, with look-up"], None, speed),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", required=True, help="glob of WikiExtractor files, gzipped")
    parser.add_argument("--vectors", required=True, help="file of word vectors")
    parser.add_argument("--pairs", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    if os.environ.get("OMP_NUM_THREADS") != "1":  # too late for numpy, which is loaded
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, "OMP_NUM_THREADS": "1"})
    pairs = read_pairs(read_texts(arguments.text, arguments.pairs * 1000), arguments.pairs)
    print(json.dumps(compare(pairs, open_vectors(arguments.vectors), arguments.rounds), indent=2))


if __name__ == "__main__":
    main()
