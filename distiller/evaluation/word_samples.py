"""Samples of words to analyse vectors with: word pairs from sentence pairs, and words with known properties.

The choice depends only on the texts, their order and a seed. Content words are those of English.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import lemminflect
import numpy as np
import numpy.typing as npt

from corpusgen.errors import ConfigError
from corpusgen.models.lexical import is_function_word
from distiller.evaluation.files import ItemSet, SentencePair, Span
from distiller.evaluation.sentence_files import read_paws, read_stsb

Occurrence = tuple[str, Span]
"""A text and the span of a word in it."""

_WORD = re.compile(r"(?<!\w)[^\W\d_]{3,}(?!\w|['’]t\b)")  # not the first half of "don't"
_EVERY = 4  # one in this many items is held out
_FREQUENT_WORDS = 50
_OCCURRENCES = 40  # the most occurrences used of a frequent word
_LEAST_OCCURRENCES = 4
_PARTS_OF_SPEECH = ("NOUN", "VERB", "ADJ", "ADV")
_SPLITS = ("test", "dev", "train")
_PAWS = [f"{name}/{split}{end}" for name in ("paws_wiki", "paws") for split in _SPLITS for end in (".csv", ".tsv")]
_STSB = [f"stsb/sts-{split}.csv" for split in _SPLITS]


# -------------------------------------------------------------- pairs of words


@dataclass(frozen=True)
class WordPairs:
    """Pairs of words from pairs of sentences."""

    name: str
    """For example "common words in paraphrases"."""
    pairs: list[tuple[Occurrence, Occurrence]]
    sentences: list[int]
    """For each pair of words, the number of its pair of sentences."""


def read_sentence_pairs(data_dir: str | Path, say: Callable[[str], None] = print) -> list[SentencePair]:
    """Read paraphrases, with gold 1, and non-paraphrases, with gold 0, from a folder of benchmarks.

    They come from PAWS-Wiki or, failing that, from the STS benchmark, where scores of 4 or more are paraphrases and
    scores of 2 or less are not.
    """
    for paths, read, label in ((_PAWS, read_paws, _as_it_is), (_STSB, read_stsb, _by_score)):
        for path in (Path(data_dir) / name for name in paths):
            if path.exists():
                return _labelled(path, read(path), label, say)
    raise ConfigError(
        f"{data_dir} has no paraphrases; give a folder with a split of PAWS-Wiki, such as {_PAWS[1]}, or of the STS "
        f"benchmark, such as {_STSB[0]}"
    )


def _labelled(
    path: Path, items: ItemSet, label: Callable[[float], float | None], say: Callable[[str], None]
) -> list[SentencePair]:
    labelled = [replace(pair, gold=gold) for pair in items.pairs if (gold := label(pair.gold)) is not None]
    counts = Counter(pair.gold for pair in labelled)
    skipped = f"; {len(items.skipped):,} lines skipped" if items.skipped else ""
    say(f"{path}: {counts[1]:,} paraphrases, {counts[0]:,} other pairs{skipped}")
    return labelled


def _as_it_is(gold: float) -> float | None:
    return gold


def _by_score(gold: float) -> float | None:
    return 1.0 if gold >= 4 else 0.0 if gold <= 2 else None


def word_pairs(sentence_pairs: Sequence[SentencePair], most: int, seed: int) -> list[WordPairs]:
    """Pair common and different words of paraphrases, gold 1, and of others, gold 0; use at most `most` of each."""
    generator = np.random.default_rng(seed)
    labels = {1: "paraphrases", 0: "non-paraphrases"}
    made = [WordPairs(f"{words} words in {of}", [], []) for words in ("common", "different") for of in labels.values()]
    for number, label in enumerate(labels):
        of_label = [pair for pair in sentence_pairs if pair.gold == label]
        for index in generator.permutation(len(of_label))[:most]:
            first, second = of_label[index].texts
            chosen = _common(first, second), _different(first, second, generator)
            for of, pairs in zip((made[number], made[number + 2]), chosen, strict=True):
                of.pairs.extend(pairs)
                of.sentences.extend([int(index)] * len(pairs))
    return made


def _common(first: str, second: str) -> list[tuple[Occurrence, Occurrence]]:
    of_first, of_second = content_words(first), content_words(second)
    return [((first, of_first[word]), (second, of_second[word])) for word in of_first if word in of_second]


def _different(first: str, second: str, generator: np.random.Generator) -> list[tuple[Occurrence, Occurrence]]:
    """Pair at random the words of each text that the other lacks, until the shorter list ends."""
    occurrences = []
    for text, other in ((first, second), (second, first)):
        not_there = {word for word, _ in _words(other)}
        own = [(text, span) for word, span in content_words(text).items() if word not in not_there]
        occurrences.append([own[index] for index in generator.permutation(len(own))])
    return list(zip(*occurrences, strict=False))


def content_words(text: str) -> dict[str, Span]:
    """Return the content words of three letters or more that occur once in a text, in lower case, with their spans.

    >>> content_words("The dog saw a cat, and the cat didn't run.")
    {'dog': (4, 7), 'saw': (8, 11), 'run': (38, 41)}
    """
    counts = Counter(word for word, _ in _words(text))
    return {word: span for word, span in _words(text) if counts[word] == 1 and not is_function_word(word, "en")}


def _words(text: str) -> Iterator[tuple[str, Span]]:
    return ((found[0].lower(), found.span()) for found in _WORD.finditer(text))


# ------------------------------------------------------------ words for probes


@dataclass(frozen=True)
class ProbeItems:
    """Words and the targets that a probe should find in their vectors."""

    occurrences: list[Occurrence]
    targets: npt.NDArray[np.float64]
    """Amounts or class numbers."""
    held_out: npt.NDArray[np.bool_]
    """The words that test the probe; it learns from the others."""


def sample_texts(texts: Sequence[str], most: int, seed: int) -> list[str]:
    """Return at most `most` different texts in random order."""
    different = list(dict.fromkeys(texts))
    return [different[index] for index in np.random.default_rng(seed).permutation(len(different))[:most]]


def sentence_lengths(texts: Sequence[str], seed: int) -> ProbeItems:
    """Sample one word of each text; its target is the number of words in the text."""
    generator = np.random.default_rng(seed)
    found = [(text, list(words.values())) for text in texts if (words := content_words(text))]
    occurrences = [(text, spans[generator.integers(len(spans))]) for text, spans in found]
    return _items(occurrences, [len(text.split()) for text, _ in occurrences], range(len(occurrences)))


def frequent_words(texts: Sequence[str]) -> ProbeItems:
    """Sample occurrences of the most frequent words; the target is the word. Those of some texts are held out."""
    of_word: dict[str, list[tuple[int, Span]]] = {}
    for number, text in enumerate(texts):
        for word, span in content_words(text).items():
            of_word.setdefault(word, []).append((number, span))
    known = [word for word, own in of_word.items() if _on_both_sides(own)]
    frequent = sorted(known, key=lambda word: (-len(of_word[word]), word))[:_FREQUENT_WORDS]
    chosen = [(label, *each) for label, word in enumerate(frequent) for each in of_word[word][:_OCCURRENCES]]
    found = [(texts[number], span) for _, number, span in chosen]
    return _items(found, [label for label, _, _ in chosen], [number for _, number, _ in chosen])


def _on_both_sides(occurrences: Sequence[tuple[int, Span]]) -> bool:
    sides = {_is_held_out(number) for number, _ in occurrences[:_OCCURRENCES]}
    return len(occurrences) >= _LEAST_OCCURRENCES and len(sides) == 2


def parts_of_speech(texts: Sequence[str]) -> ProbeItems:
    """Sample words that can only be one part of speech, one word per lemma; the target is the part of speech.

    So a probe is tested on words that it has not seen in any form. Only lower-case words count, which excludes names.
    """
    found: dict[str, tuple[Occurrence, int]] = {}
    for text in texts:
        for word, (start, end) in content_words(text).items():
            lemmas: Mapping[str, tuple[str, ...]] = lemminflect.getAllLemmas(word)
            if len(lemmas) == 1 and lemmas.keys() <= set(_PARTS_OF_SPEECH) and text[start:end].islower():
                ((part, (lemma, *_)),) = lemmas.items()
                found.setdefault(lemma, ((text, (start, end)), _PARTS_OF_SPEECH.index(part)))
    return _items(
        [occurrence for occurrence, _ in found.values()], [part for _, part in found.values()], range(len(found))
    )


def _items(occurrences: list[Occurrence], targets: Sequence[float], numbers: Sequence[int]) -> ProbeItems:
    held_out = np.array([_is_held_out(number) for number in numbers], bool)
    return ProbeItems(occurrences, np.array(targets, np.float64), held_out)


def _is_held_out(number: int) -> bool:
    return number % _EVERY == _EVERY - 1
