"""Triples to look at, for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from corpusgen.errors import CorpusgenError
from corpusgen.inspect.rows import Row, marked, open_store, random_rows
from corpusgen.store import TripleStore


def sample_triples(root: str, number: int, seed: int = 0, word: str | None = None) -> list[Row]:
    """Random triples, the same for a seed; CorpusgenError if there are none."""
    triples = TripleStore(open_store(root))
    found = random_rows(triples, number, seed, word)
    if not found:
        if word is not None and triples.num_rows:
            raise CorpusgenError(f"{root}: no triple has the target {word!r}")
        raise CorpusgenError(f"{root}: no triples yet")
    return found


def triple_lines(row: Mapping[str, Any]) -> Iterator[str]:
    """A triple with its words in brackets."""
    yield f"{row['target']} · {row['positive_rule']} · {row['id']}"
    yield f"  S  {marked(row['text'], row['target_start'], row['target_end'])}"
    yield f"  Sp {marked(row['positive'], row['positive_start'], row['positive_end'])}{_scores(row, 'positive')}"
    yield f"  Sn {marked(row['negative'], row['negative_start'], row['negative_end'])}{_scores(row, 'negative')}"


def _scores(row: Mapping[str, Any], kind: str) -> str:
    cosine, probability = row[f"{kind}_cosine"], row[f"{kind}_probability"]
    scores = [f"cosine {cosine:.2f}"] if cosine is not None else []
    scores += [f"probability {probability:.3f}"] if probability is not None else []
    return f"  ({', '.join(scores)})" if scores else ""
