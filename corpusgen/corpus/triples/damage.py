"""Signs that a paraphrase is damaged: words that nobody knows, and words that its sentence does not account for."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from corpusgen.corpus.triples.align import Sentences, all_cosines
from corpusgen.corpus.triples.choose import Criteria, Pairs
from corpusgen.corpus.triples.positives import looks_like
from corpusgen.models.lexical import is_function_word

Mask = npt.NDArray[np.bool_]

_INSIDE_WORDS = re.compile(r"[-'’.]")
_DECIMALS = 5  # of values that are compared with a threshold


class NewWord(NamedTuple):
    """A word of a paraphrase that its original lacks, and the number of their pair."""

    pair: int
    word: str
    number: int
    """Its number among the words of all paraphrases."""
    parts: list[str]
    """The parts of the word that the original lacks; the only part of most words is the word itself."""


def new_words(pairs: Pairs) -> Iterator[NewWord]:
    """Yield the words of each paraphrase that the original lacks, apart from names and numbers."""
    originals, paraphrases = pairs.originals, pairs.paraphrases
    of_original: list[set[str]] = [set() for _ in originals.texts]
    for pair, word in zip(originals.tokens.rows.tolist(), originals.words, strict=True):
        of_original[pair].update(_parts(word))
    rows, written = paraphrases.tokens.rows.tolist(), paraphrases.written()
    for index, (pair, word, surface) in enumerate(zip(rows, paraphrases.words, written, strict=True)):
        if surface.islower() and not any(character.isdigit() for character in word):
            parts = [part for part in _parts(word) if part not in of_original[pair]]
            if parts:
                yield NewWord(pair, word, index, parts)


def unknown_words(pairs: Pairs, knows: Callable[[Sequence[str]], Mask]) -> list[list[str]]:
    """Return the words of each paraphrase that are probably damaged: nobody knows them, and the original lacks them.

    Names and numbers do not count. A compound is known if its parts are.
    """
    new = list(new_words(pairs))
    known = _known({part for one in new for part in one.parts}, knows)
    unknown: list[list[str]] = [[] for _ in pairs.paraphrases.texts]
    for one in new:
        if not known.issuperset(one.parts):
            unknown[one.pair].append(one.word)
    return unknown


def unaccounted_words(pairs: Pairs, criteria: Criteria) -> list[NewWord]:
    """Return the words of the paraphrases that no word of their original accounts for.

    A word accounts for another that is as similar as an aligned word must be, or that looks like it. Function words
    come and go in any translation, so they neither need to be accounted for nor account for anything.
    """
    rules, language = criteria.rules, criteria.language
    new = [one for one in new_words(pairs) if not is_function_word(one.word, language)]
    originals, paraphrases = pairs.originals, pairs.paraphrases
    firsts = originals.tokens.firsts
    found = []
    for one in new:
        start = int(firsts[one.pair])
        there = range(start, start + int(originals.tokens.counts[one.pair]))
        content = [index for index in there if not is_function_word(originals.words[index], language)]
        left = Sentences(originals.vectors[content], np.array([len(content)]))
        right = Sentences(paraphrases.vectors[[one.number]], np.array([1]))
        similar = all_cosines(left, right)[0].round(_DECIMALS) >= rules.align_min_cosine
        if not similar.any() and not any(
            looks_like(one.word, originals.words[index], rules, language) for index in content
        ):
            found.append(one)
    return found


def _parts(word: str) -> list[str]:
    return [part for part in _INSIDE_WORDS.split(word) if len(part) > 1]


def _known(words: Collection[str], knows: Callable[[Sequence[str]], Mask]) -> set[str]:
    listed = sorted(words)
    return {word for word, is_known in zip(listed, knows(listed).tolist(), strict=True) if is_known}
