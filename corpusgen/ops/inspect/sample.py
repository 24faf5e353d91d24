"""Random triples for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from corpusgen.corpus.stored_settings import open_store
from corpusgen.errors import CorpusgenError
from corpusgen.io.terminal import marked, visible
from corpusgen.store import TripleStore
from corpusgen.store.rows import Row, random_rows


def sample_triples(root: str, number: int, seed: int = 0, word: str | None = None) -> list[Row]:
    """Return random triples, the same for the same seed; raise CorpusgenError if there are none."""
    triples = TripleStore(open_store(root))
    found = random_rows(triples, number, seed, word)
    if not found:
        if word is not None and triples.num_rows:
            raise CorpusgenError(f"{root}: no triple has the target {word!r}")
        raise CorpusgenError(f"{root}: no triples yet")
    return found


def triple_lines(row: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a triple, with its words in brackets."""
    yield f"{row['target']} · {row['positive_rule']} · {row['id']}"
    yield f"  S  {visible(marked(row['text'], row['target_start'], row['target_end']))}"
    for label, kind in (("Sp", "positive"), ("Sn", "negative")):
        text = marked(row[kind], row[f"{kind}_start"], row[f"{kind}_end"])
        yield f"  {label} {visible(text)}{_scores(row, kind)}"


def _scores(row: Mapping[str, Any], kind: str) -> str:
    cosine, probability = row[f"{kind}_cosine"], row[f"{kind}_probability"]
    scores = [f"cosine {cosine:.2f}"] if cosine is not None else []
    scores += [f"probability {probability:.3f}"] if probability is not None else []
    return f"  ({', '.join(scores)})" if scores else ""
