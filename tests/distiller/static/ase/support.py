"""Runs of ASE on a tiny corpus with a tiny BERT, and the same vectors computed one text at a time."""

from collections import defaultdict

import numpy as np
import torch

from corpusgen.config.run import RunSettings
from corpusgen.engine import LocalExecutor
from corpusgen.store.products import open_product, read_vocabulary
from distiller.static.ase.sampling import find_occurrences, priorities
from distiller.static.job import run
from distiller.static.settings import StaticSettings
from distiller.static.vectors import StaticVectors
from tests.testing.frozen_models import reference

LAYERS = 4


def settings(corpus, frozen, output, **ase):
    backbone = {"model": frozen, **ase.pop("backbone", {})}
    of_all = {name: ase.pop(name) for name in ("words", "min_count", "seed", "workers") if name in ase}
    values = {"corpus": str(corpus), "output": str(output), "kind": "ase", "backbone": backbone, **of_all, "ase": ase}
    return StaticSettings.model_validate(values)


def made(*asked, **ase):
    """The tables of a run, by name, and what result.json says."""
    chosen = settings(*asked, **{"unit_paragraphs": 5, **ase})
    result = run(chosen, lambda method: (LocalExecutor(), RunSettings()), "npy", lambda line: None)
    tables = {name: StaticVectors.load(f"{chosen.output}/{name}") for name in result["files"]}
    return {name.removesuffix(".npy"): table for name, table in tables.items()}, result


def contexts_of(corpus, limit=None, seed=0):
    """For each word of the vocabulary its contexts, (text, start, end): those of lowest priority in the whole text."""
    words, _ = read_vocabulary(corpus)
    rows = open_product(corpus, "paragraphs").to_table()
    found = find_occurrences(rows, {word: number for number, word in enumerate(words)})
    of = priorities(rows["id"].to_pylist(), found, seed)
    contexts = defaultdict(list)
    for index in np.argsort(of):
        row = {name: rows[name][int(found.rows[index])].as_py() for name in rows.column_names}
        place = int(found.places[index])
        start, end = row["token_starts"][place], row["token_ends"][place]
        sentences = zip(row["sentence_starts"], row["sentence_ends"], strict=True)
        ((first, last),) = [(a, b) for a, b in sentences if a <= start and end <= b]
        contexts[words[found.words[index]]].append((row["text"][first:last], start - first, end - first))
    return {word: of_word[:limit] for word, of_word in contexts.items()}


POOLINGS = {
    "mean": lambda pieces: pieces.mean(0),
    "max": lambda pieces: pieces.max(0).values,
    "min": lambda pieces: pieces.min(0).values,
    "last": lambda pieces: pieces[-1],
}


def by_hand(frozen, text, start, end, pooling="mean"):
    """The states (L, D) of a word by plain transformers, one text at a time."""
    tokenizer, model = reference(frozen)
    read = tokenizer(text, return_offsets_mapping=True, return_tensors="pt")
    offsets = read.pop("offset_mapping")[0].tolist()
    pieces = [n for n, (a, b) in enumerate(offsets) if max(a, start) < min(b, end)]
    with torch.no_grad():
        hidden = model(**read, output_hidden_states=True).hidden_states
    return np.stack([POOLINGS[pooling](layer[0, pieces]).numpy() for layer in hidden])


def mean_by_hand(frozen, contexts, pooling="mean"):
    return np.mean([by_hand(frozen, *context, pooling) for context in contexts], axis=0)


def near(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
