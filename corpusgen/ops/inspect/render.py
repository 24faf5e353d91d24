"""The text of explanations and replays for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from corpusgen.io.terminal import marked, visible
from corpusgen.ops.inspect.explain import Explanation
from corpusgen.ops.inspect.judgements import CHOSEN, AlignedWord, Candidate, Choice
from corpusgen.ops.inspect.matrix import Matrix
from corpusgen.ops.inspect.replay import ChangedColumn, Replayed
from corpusgen.ops.inspect.units import unit_text

_LETTERS_OF_A_HASH = 12


def lines(found: Explanation) -> Iterator[str]:
    """Yield the path of a target through the stages, up to where it ended."""
    row = found.stored
    yield f"{row['target']} · {found.outcome} · {row['id']}"
    yield f"  from      {_named(found.provenance)}"
    yield f"  S         {visible(marked(row['text'], row['target_start'], row['target_end']))}"
    if found.pivot is not None:
        yield f"  pivot     {visible(found.pivot)}"
    if found.paraphrase is not None:
        yield f"  and back  {visible(found.paraphrase)}"
    for other in found.hypotheses or ():
        if other != found.paraphrase:
            yield f"  or        {visible(other)}"
    if found.unknown:
        yield f"  unknown   {visible(', '.join(found.unknown))}"
    for new in found.new_words:
        yield f"  new word  {visible(new.word)} {new.probability:.5f}{', improbable' if new.improbable else ''}"
    if found.alignment is not None and found.matrix is not None:
        yield from ("", "alignment: words of the paraphrase, by cosine to the target")
        yield from _alignment(found.alignment, found.matrix)
    if found.positive is not None:
        yield from _choice("positive", found.positive)
    if found.negative is not None:
        yield from _choice("negative", found.negative)
    yield ""
    yield from _outcome(found)
    yield ""
    for name, model in found.models.items():
        yield f"  {name:20} {model.get('id')} {_version(model)}"
    yield f"  {'unit':20} {unit_text(found.unit)}"
    yield f"  {'store':20} {found.store}"
    yield from _not_as_then(found.same_code, found.note)
    yield from _differences(found.differences)


def replay_lines(found: Sequence[Replayed]) -> Iterator[str]:
    """Yield what differs, and how many are the same."""
    for one in found:
        if not one.same:
            yield f"{one.id} {one.target}: differs"
            yield from _differences(one.differences)
    for same_code, note in dict.fromkeys((one.same_code, one.note) for one in found):
        yield from _not_as_then(same_code, note)
    same = sum(one.same for one in found)
    yield f"{same:,} of {len(found):,} came out the same ({same / len(found):.1%})"


def _not_as_then(same_code: bool, note: str | None) -> Iterator[str]:
    if not same_code:
        yield "  another version of the stages made this store"
    if note:
        yield f"  {note}"


def _outcome(found: Explanation) -> Iterator[str]:
    row = found.stored
    if found.outcome == "reject":
        yield f"rejected: {row['reason']}"
        return
    yield f"positive word by rule: {row['positive_rule']}, edit distance {row['edit_distance']}"
    yield f"  Sp        {visible(marked(row['positive'], row['positive_start'], row['positive_end']))}"
    yield f"  Sn        {visible(marked(row['negative'], row['negative_start'], row['negative_end']))}"


def _named(provenance: Mapping[str, Any]) -> str:
    named = [str(provenance["title"] or provenance["article"] or provenance["source"])]
    named += [
        f"{name} {provenance[name]}"
        for name in ("article", "revision", "paragraph", "sentence")
        if provenance[name] is not None
    ]
    return visible(", ".join([*named, str(provenance["source"])]))


def _alignment(words: Sequence[AlignedWord], matrix: Matrix) -> Iterator[str]:
    for word, taker in sorted(zip(words, matrix.takers, strict=True), key=lambda pair: -pair[0].cosine):
        score = "" if word.score is None else f" score {word.score:>7.2f}"
        taken = f", taken by {word.taken_by!r}" if word.taken_by and "taken by" not in word.verdict else ""
        nearer = "" if taker is None else f" ({taker:.5f})"
        yield f"  {_sign(word.verdict)} {word.word:20} {word.cosine:>8.5f}{score}  {word.verdict}{taken}{nearer}"
    if not matrix.columns:
        return
    yield "words next to the target, or that took a word, and the word of the paraphrase nearest to each"
    for row in matrix.rows:
        cosine, nearest = max(zip(row.cosines, matrix.columns, strict=True), key=lambda pair: pair[0])
        yield f"    {row.word:20} {cosine:>8.5f}  {nearest}"


def _choice(kind: str, choice: Choice) -> Iterator[str]:
    yield ""
    yield f"{kind}: {visible(choice.place)}"
    if choice.note:
        yield f"    {choice.note}"
    if choice.candidates:
        yield f"    {'predicted':20} {'probability':>11} {'cosine':>8}"
        yield from map(_candidate, choice.candidates)


def _candidate(candidate: Candidate) -> str:
    likeness = "" if candidate.likeness is None else f" (in context {candidate.likeness:.5f})"
    numbers = f"{candidate.probability:>11.5f} {candidate.cosine:>8.5f}"
    return f"  {_sign(candidate.verdict)} {candidate.word:20} {numbers}  {candidate.verdict}{likeness}"


def _sign(verdict: str) -> str:
    return "→" if verdict == CHOSEN else " "


def _version(model: Mapping[str, Any]) -> str:
    if model.get("sha256"):
        return f"sha256 {model['sha256'][:_LETTERS_OF_A_HASH]}…"
    return f"revision {model['revision']}" if model.get("revision") else "version unknown"


def _differences(differences: Iterable[ChangedColumn]) -> Iterator[str]:
    for column, stored, now in differences:
        yield f"    {column}: {stored!r} in the store, {now!r} now"
