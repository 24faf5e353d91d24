"""Random rows of a corpus for the terminal: each member with its word in brackets, or each sentence with its tokens."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from corpusgen.corpus.stored_settings import open_store
from corpusgen.errors import CorpusgenError
from corpusgen.io.terminal import marked, visible
from corpusgen.store.products import PARAGRAPHS, Member, Product, product_of
from corpusgen.store.rows import Row, random_rows


def sample_rows(
    root: str, number: int, seed: int = 0, word: str | None = None, table: str | None = None
) -> tuple[Product, list[Row]]:
    """Return the product of a corpus and random rows of it, the same for the same seed.

    Raises:
        CorpusgenError: There are no rows, or none with this word; or the corpus has no such table.
    """
    store = open_store(root)
    product = product_of(store, table)
    column = product.members[0].word if product.members else None
    if word is not None and column is None:
        raise CorpusgenError(f"{root}: {product.table} have no column with the word, so --word cannot be used")
    rows = product.open(store)
    found = random_rows(rows, number, seed, word, column)
    if not found:
        if word is not None and rows.num_rows:
            raise CorpusgenError(f"{root}: no {product.noun} has the word {word!r}")
        raise CorpusgenError(f"{root}: no {product.table} yet")
    return product, found


def row_lines(product: Product, row: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a row, with its words in brackets; a member that is null is left out."""
    if product.text:
        yield from _paragraph_lines(row) if product == PARAGRAPHS else (row["id"], f"  {visible(row[product.text])}")
        return
    kind = [str(row[product.kind])] if product.kind else []
    yield visible(" · ".join([word_of(product.members[0], row), *kind, str(row["id"])]))
    width = max(len(member.name) for member in product.members)
    for member in product.members:
        if row[member.start] is not None:
            yield f"  {member.name:{width}}  {visible(marked_member(member, row))}{_scores(member, row)}"


def _paragraph_lines(row: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each sentence of a paragraph, with spaces between its tokens."""
    place = str(row["title"] or row["article"] or row["source"])
    yield visible(" · ".join([place, f"paragraph {row['paragraph']}", str(row["id"])]))
    tokens = zip(row["token_starts"], row["token_ends"], strict=True)
    for number in row["sentence_tokens"]:
        words = (row["text"][start:end] for start, end in itertools.islice(tokens, number))
        yield f"  {visible(' '.join(words))}"


def word_of(member: Member, row: Mapping[str, Any]) -> str:
    """Return the word of a member."""
    text, start, end = (row[name] for name in member.columns)
    return str(row[member.word] if member.word else text[start:end])


def marked_member(member: Member, row: Mapping[str, Any]) -> str:
    """Return the sentence of a member, with its word in brackets."""
    return marked(*(row[name] for name in member.columns))


def _scores(member: Member, row: Mapping[str, Any]) -> str:
    scores = [f"{label} {row[column]:.3f}" for column, label in member.scores if row[column] is not None]
    return f"  ({', '.join(scores)})" if scores else ""
