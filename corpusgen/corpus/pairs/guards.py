"""Guards: why a word, an occurrence or a pair of occurrences is not used, although a document repeats the word.

A word mostly keeps its meaning within a document. The guards exclude the known exceptions, and pairs from which
nothing can be learnt because both contexts are the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from corpusgen.models.lexical import is_function_word
from corpusgen.targets.names import is_name

FUNCTION_WORD = "function word"
NAME = "name"
BOILERPLATE = "boilerplate"
MULTI_WORD = "multi-word expression"
SAME_NEIGHBOURS = "same neighbours"
NEAR_DUPLICATE = "near-duplicate sentences"
ENOUGH = "enough pairs of the word"
TWICE = "twice in one sentence"

_SHORTEST_TERM = 3  # letters of a neighbour that can be part of a term
MOST_OCCURRENCES = 16  # a document may repeat a word hundreds of times; the first pair that fits is near the start


class Occurrence(NamedTuple):
    """A word in a sentence: the sentence's row, the word's span, the sentence's tokens and the number of the word's."""

    row: int
    start: int
    end: int
    tokens: Sequence[str]
    token: int

    @property
    def before(self) -> str:
        """Return the token before the word in lower case; empty at the start of the sentence."""
        return self.tokens[self.token - 1].lower() if self.token else ""

    @property
    def after(self) -> str:
        """Return the token after the word in lower case; empty at the end of the sentence."""
        return self.tokens[self.token + 1].lower() if self.token + 1 < len(self.tokens) else ""


Pair = tuple[Occurrence, Occurrence, float]
"""Two occurrences, and the share of the words of their sentences that both sentences have."""


def word_reason(word: str, capital_share: float, limit: float, language: str) -> str | None:
    """Return why a word is never used; None if it is."""
    if is_function_word(word.lower(), language) or (word.isascii() and len(word) < _SHORTEST_TERM):
        return FUNCTION_WORD
    return NAME if is_name(word, capital_share, limit) else None


def terms(occurrences: Sequence[Occurrence], language: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the neighbours before and after a word that a document repeats with it, as “natural” with “history”."""
    return (
        _repeated([occurrence.before for occurrence in occurrences], language),
        _repeated([occurrence.after for occurrence in occurrences], language),
    )


def _repeated(neighbours: Sequence[str], language: str) -> frozenset[str]:
    return frozenset(
        token
        for token, count in Counter(neighbours).items()
        if count > 1 and len(token) >= _SHORTEST_TERM and token.isalpha() and not is_function_word(token, language)
    )


class Tried(NamedTuple):
    """Two occurrences that came into question as a pair, and what speaks against it; None if they were taken."""

    first: Occurrence
    second: Occurrence
    overlap: float
    problem: str | None


def try_pairs(occurrences: Sequence[Occurrence], most: int, max_overlap: float, language: str) -> Iterator[Tried]:
    """Yield the pairs of occurrences of a word in a document in the order in which they are tried, up to `most` taken.

    No occurrence is in two pairs. Occurrences that come first are preferred.
    """
    before, after = terms(occurrences, language)
    free = list(occurrences)
    taken = 0
    while len(free) > 1 and taken < most:
        first = free.pop(0)
        for second in free:
            overlap = _overlap(first.tokens, second.tokens)
            problem = _problem(first, second, before, after) or (NEAR_DUPLICATE if overlap > max_overlap else None)
            yield Tried(first, second, overlap, problem)
            if problem is None:
                taken += 1
                free.remove(second)
                break


def find_pairs(
    occurrences: Sequence[Occurrence], most: int, max_overlap: float, language: str
) -> tuple[list[Pair], str | None]:
    """Return up to `most` pairs of the occurrences of a word in a document, and why there is none."""
    pairs: list[Pair] = []
    reason: str | None = None
    for first, second, overlap, problem in try_pairs(occurrences, most, max_overlap, language):
        if problem is None:
            pairs.append((first, second, overlap))
        reason = reason or problem
    return pairs, None if pairs else reason


def _problem(first: Occurrence, second: Occurrence, before: frozenset[str], after: frozenset[str]) -> str | None:
    if first.before != second.before and (first.before in before or second.before in before):
        return MULTI_WORD
    if first.after != second.after and (first.after in after or second.after in after):
        return MULTI_WORD
    return SAME_NEIGHBOURS if (first.before, first.after) == (second.before, second.after) else None


def _overlap(first: Sequence[str], second: Sequence[str]) -> float:
    ours, theirs = ({token.lower() for token in tokens} for tokens in (first, second))
    return len(ours & theirs) / len(ours | theirs)


def skeleton(tokens: Sequence[str]) -> str:
    """Return a sentence without its names and numbers; equal ones in several documents come from a template."""
    kept = [
        "#" if token[:1].isdigit() else "*" if token[:1].isupper() and number else token.lower()
        for number, token in enumerate(tokens)
    ]
    return " ".join(kept)
