"""X2Static from a corpus of paragraphs: its pass of the frozen model, and all of it, on one core.

    python -m benchmarks.teacher --model FOLDER --text 'PATH/wiki_*.gz' [--paragraphs 300] [--rounds 3]

The pass makes vectors of sentences out of committed paragraphs and commits them. Its opponent is the bare model on
ready-made batches of the same texts, sorted by length, of which nothing is kept. All of it is the pass and an epoch of
training to the last checkpoint; its opponent is the published way, written plainly, on the same words and always with
sentences alone (benchmarks/baselines/published_x2static.py). Contestants take turns; a figure is the median of the
rounds' ratios. Seconds are of processor time, loading of models left out.
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false", RAYON_NUM_THREADS="1")

import torch

from benchmarks.baselines.bare import call_on_all, padded_batches
from benchmarks.baselines.published_x2static import Published
from benchmarks.rows import Row, seconds
from corpusgen.config.build import BuildConfig
from corpusgen.corpus.build import build
from corpusgen.engine import LocalExecutor, RunSettings
from corpusgen.io.files import open_files
from corpusgen.io.lock import held
from corpusgen.store import Store
from corpusgen.store.products import open_product, read_vocabulary
from distiller.settings import BackboneSettings
from distiller.static.settings import X2StaticSettings
from distiller.static.x2static.teacher import EncodeSentences, Teacher, lowered, make_sentences
from distiller.static.x2static.training import train
from distiller.static.x2static.workers import Task, Threads

BATCH = 128


class Bench:
    """A small corpus, and the contestants on it."""

    def __init__(self, folder: Path, model: str, corpus: str, contexts: str) -> None:
        from transformers import AutoModel, AutoTokenizer

        self._folder, self._corpus = folder, corpus
        settings = X2StaticSettings(contexts=contexts, cache=str(folder / "cache")).completed("paper")
        self._teacher = Teacher(corpus, BackboneSettings(model=model), settings)
        self._tokenizer = AutoTokenizer.from_pretrained(model)
        self._model = AutoModel.from_pretrained(model, dtype=torch.float32).eval()
        rows = open_product(corpus, "paragraphs").to_table().to_pylist()
        self.sentences = [words for row in rows for words in words_of(row)]
        """The words of each sentence, in lower case."""
        texts = [lowered(text) for row in rows for text in texts_of(row, contexts)]
        ids = self._tokenizer(texts, truncation=True, max_length=settings.max_pieces)["input_ids"]
        self._batches = padded_batches([list(one) for one in {tuple(one) for one in ids}])

    def bare(self) -> float:
        """The model alone."""
        return seconds(lambda: call_on_all(self._model, self._batches), time.process_time)

    def taught(self) -> tuple[float, Store]:
        """Our pass, from committed paragraphs to committed vectors."""
        shutil.rmtree(Path(self._corpus) / "static", ignore_errors=True)
        loading: list[float] = []
        made: list[Store] = []
        load = EncodeSentences.setup

        def setup(stage: EncodeSentences) -> None:
            loading.append(seconds(lambda: load(stage), time.process_time))

        def make() -> None:
            made.append(make_sentences(self._teacher, LocalExecutor(), RunSettings(), "cpu")[0])

        with patch.object(EncodeSentences, "setup", setup):
            taken = seconds(make, time.process_time)
        return taken - sum(loading), made[0]

    def trained(self, sentences: Store) -> float:
        """Our training, from committed vectors to the last checkpoint."""
        shutil.rmtree(self._folder / "work", ignore_errors=True)
        shutil.rmtree(self._folder / "cache", ignore_errors=True)
        files = open_files(str(self._folder / "work"))
        words = len(read_vocabulary(self._corpus)[0])
        task = Task(self._teacher.settings, Store.at(self._corpus), sentences, words, files)
        dimension: int = sentences.corpus()["dimension"]
        with held(files, "training", "a benchmark") as lock:
            return seconds(
                lambda: train(task, dimension, lambda task: Threads(task, 1), lock, lambda line: None),
                time.process_time,
            )

    def published(self, batches: int) -> float:
        """Seconds per sentence of the published way, on some batches."""
        words, counts = read_vocabulary(self._corpus)
        numbers = {word: number for number, word in enumerate(words)}
        training = Published(self._tokenizer, self._model, numbers, counts)
        training.step(self.sentences[:BATCH])
        some = self.sentences[: batches * BATCH]
        steps = [some[start : start + BATCH] for start in range(0, len(some), BATCH)]

        def work() -> None:
            for one in steps:
                training.step(one)

        return seconds(work, time.process_time) / len(some)


def words_of(row: dict[str, Any]) -> list[list[str]]:
    """The words of each sentence of a paragraph."""
    tokens = [row["text"][a:b].lower() for a, b in zip(row["token_starts"], row["token_ends"], strict=True)]
    ends = [sum(row["sentence_tokens"][: n + 1]) for n in range(len(row["sentence_tokens"]))]
    return [tokens[end - count : end] for end, count in zip(ends, row["sentence_tokens"], strict=True)]


def texts_of(row: dict[str, Any], contexts: str) -> list[str]:
    """The texts that the model reads for a paragraph."""
    if contexts == "paragraph":
        return [row["text"]]
    return [row["text"][a:b] for a, b in zip(row["sentence_starts"], row["sentence_ends"], strict=True)]


def small_corpus(folder: Path, pattern: str, paragraphs: int) -> str:
    """A corpus of some paragraphs of Wikipedia."""
    paths = sorted(glob.glob(pattern))[:1]
    values = {"store": str(folder / "all"), "recipe": "paragraphs", "source": {"kind": "wikiextractor", "paths": paths}}
    every = build(BuildConfig.model_validate(values), LocalExecutor())
    texts = open_product(every, "paragraphs").to_table(["text"])["text"].to_pylist()[:paragraphs]
    source = folder / "some.jsonl"
    source.write_text("".join(json.dumps({"id": str(n), "text": text}) + "\n" for n, text in enumerate(texts)))
    values |= {"store": str(folder / "some"), "source": {"kind": "jsonl", "paths": [str(source)]}}
    return build(BuildConfig.model_validate({**values, "paragraphs": {"min_count": 2}}), LocalExecutor()).url


def run(model: str, pattern: str, paragraphs: int, rounds: int) -> list[Row]:
    """Both kinds of contexts."""
    torch.set_num_threads(1)
    rows = []
    with tempfile.TemporaryDirectory() as name:
        corpus = small_corpus(Path(name), pattern, paragraphs)
        for contexts in ("sentence", "paragraph"):
            bench = Bench(Path(name), model, corpus, contexts)
            words = sum(map(len, bench.sentences))
            of_bare, of_published, speeds, shares = [], [], [], []
            for _ in range(rounds):
                bare = bench.bare()
                taught, store = bench.taught()
                trained = bench.trained(store)
                published = bench.published(4) * len(bench.sentences)
                of_bare.append(bare / taught)
                of_published.append(published / (taught + trained))
                speeds.append(words / (taught + trained))
                shares.append(trained / (taught + trained))
            speed, share = statistics.median(speeds), statistics.median(shares)
            named = f"X2Static, contexts: {contexts}"
            note = f"{share:.0%} of the time is training"
            rows += [
                Row(f"{named}, the frozen model", "the bare model", statistics.median(of_bare), 0.9, ""),
                Row(named, "the published way", statistics.median(of_published), None, f"{speed:,.0f} words/s", note),
            ]
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--text", required=True)
    parser.add_argument("--paragraphs", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    for row in run(arguments.model, arguments.text, arguments.paragraphs, arguments.rounds):
        wanted = "" if row.bar is None else f" (wanted {row.bar})"
        print(f"{row.name}: {row.ratio:.2f} × {row.opponent}{wanted}; {row.ours} {row.note}".rstrip("; "), flush=True)


if __name__ == "__main__":
    main()
