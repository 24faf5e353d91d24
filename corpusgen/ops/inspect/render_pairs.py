"""The text of explanations of pairs for the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from corpusgen.io.terminal import visible
from corpusgen.ops.inspect.explain_pairs import NoPair, PairExplanation
from corpusgen.ops.inspect.sample import row_lines
from corpusgen.ops.inspect.units import unit_text
from corpusgen.store.products import DISCOURSE

_EXAMPLES_SHOWN = 5


def pair_lines(found: PairExplanation) -> Iterator[str]:
    """Yield a pair, what its document had to choose from, and why this pair was taken."""
    row = found.stored
    yield from row_lines(DISCOURSE, row)
    yield visible(f"  from      {row['title'] or row['article'] or row['source']}, {row['source']}")
    if row["negative"] is not None:
        yield visible(f"  negative  from {row['negative_title'] or row['negative_article'] or row['negative_source']}")
    yield ""
    yield f"the document has {found.sentences:,} sentences; the word is in these, in the order of their hashes:"
    for one in found.occurrences:
        where = f"paragraph {one.paragraph}, sentence {one.sentence}"
        yield visible(f"  {one.number:>3}  {one.text}  ({where}){f'  ✗ {one.reason}' if one.reason else ''}")
    yield ""
    yield f"pairs that were tried, until there were {found.settings['per_document']:,}:"
    for tried in found.tried:
        sign = "→" if tried.verdict == "taken" else " "
        yield f"  {sign} {tried.first} and {tried.second}, overlap {tried.overlap:.3f}: {tried.verdict}"
    yield ""
    yield (
        f"round {row['round']:,}: of {found.candidates:,} candidate pairs of the word this one comes "
        f"{_ordinal(row['round'])}, by the priority of its document ({found.priority:016x})"
    )
    yield f"  {'unit':8} {unit_text(found.unit)}"
    yield f"  {'store':8} {found.store}"
    if not found.same_code:
        yield "  the stages are of another version than those that made this store"
    if found.same:
        yield "the same pair comes out now"
    for column, stored, now in found.differences:
        yield f"  {column}: {stored!r} in the store, {now!r} now"


def _ordinal(number: int) -> str:
    suffix = "th" if 10 < number % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{suffix}"


def no_pair_lines(found: NoPair) -> Iterator[str]:
    """Yield why a word has no pair."""
    word = visible(found.word)
    yield f"{word} · no pair"
    if not found.in_vocabulary:
        yield "  it is not in the vocabulary (sample.vocabulary, sample.drop_top_share), written like this"
        return
    if found.reason:
        yield f"  never paired: {found.reason}"
        return
    if found.documents:
        some = "" if found.whole else ", and perhaps more"
        yield f"  documents that repeat it and give no pair: {found.documents:,}{some}"
    for reason, count in found.reasons.items():
        titles = [visible(title) for title, why in found.examples if why == reason][:_EXAMPLES_SHOWN]
        yield f"  {count:>6,} {reason}: {', '.join(titles)}"
    if found.candidates:
        yield f"  {found.candidates:,} candidate pairs were found, but other words filled the corpus (discourse.size)"
    elif not found.documents:
        yield "  no document has it in two sentences"
