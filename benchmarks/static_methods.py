"""Static vectors by every method from the same text and the same frozen model, on the same benchmarks.

    python -m benchmarks.static_methods --text 'PATH/wiki_*.gz' --model FOLDER --data EVAL --folder RESULTS \
        [--only x2static] [--files 5 9 18 40] [--workers 2]

The corpus has whole paragraphs (docs/paragraphs.md). Each method is a run of `distiller static`; fastText trains on the
corpus as `corpusgen export --format txt` writes it. What is there already is not made again. With several numbers of
`--files`, each is a corpus of its own: a curve over the amount of text, scored on the words that all of them have.
Scores are times 100; differences are those to `--against`, item by item, with bootstrap intervals of 95 %.
"""

from __future__ import annotations

import argparse
import glob
import json
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from corpusgen.models.vectors import WordVectors
from corpusgen.store.products import open_product, read_vocabulary
from distiller.evaluation.evaluate import VectorFile, compare, evaluate_static
from distiller.evaluation.results import TaskResult
from distiller.static.vectors import StaticVectors

KIND = "static"
SIMILARITIES = ("RG-65", "WS-353", "SimLex-999")
MEANING = {"model": "embedded:minilm"}  # the frozen model of embedded:minilm-wic
# Adam moves every number by about the learning rate, so short sentence vectors need a higher one (docs/x2static.md).
FASTER = {"learning_rate": 0.015, "epochs": 5}
ADAGRAD = {"optimizer": "adagrad", "batch_lines": 128}
METHODS: dict[str, dict[str, Any]] = {
    "ase": {"kind": "ase"},
    "ase layers": {"kind": "ase", "ase": {"layers": [0, 1, 2, 3, 4, 5, 6]}},
    "ase alone": {"kind": "ase", "ase": {"contexts_per_word": 0}},
    "x2static sentence": {"kind": "x2static"},
    "x2static sentence, 20 epochs": {"kind": "x2static", "x2static": {"epochs": 20}},
    "x2static sentence, rate 0.015, 5 epochs": {"kind": "x2static", "x2static": FASTER},
    "x2static paragraph": {"kind": "x2static", "x2static": {"contexts": "paragraph"}},
    "x2static paragraph, rate 0.015, 5 epochs": {"kind": "x2static", "x2static": {"contexts": "paragraph", **FASTER}},
    "x2static paragraph, rate 0.015, 20 epochs": {
        "kind": "x2static", "x2static": {"contexts": "paragraph", **FASTER, "epochs": 20},
    },
    "x2static published, rate 0.015, 5 epochs": {"kind": "x2static", "preset": "published", "x2static": FASTER},
    "ase of embedded:minilm": {
        "kind": "ase", "backbone": {**MEANING, "first_layer": 4, "last_layer": 6}, "ase": {"contexts_per_word": 10},
    },
    "skipgram": {"kind": "skipgram"},
    "skipgram, adagrad": {"kind": "skipgram", "skipgram": ADAGRAD},
    "skipgram, adagrad, 5 epochs": {"kind": "skipgram", "skipgram": {**ADAGRAD, "epochs": 5}},
    "skipgram, adagrad, centre included": {"kind": "skipgram", "skipgram": {**ADAGRAD, "centre": "include"}},
    "skipgram, adagrad, mean of the window": {"kind": "skipgram", "skipgram": {**ADAGRAD, "attention": "none"}},
    "skipgram, adagrad, negatives per pair": {"kind": "skipgram", "skipgram": {**ADAGRAD, "negatives_per": "pair"}},
    "skipgram, adagrad, published": {
        "kind": "skipgram", "preset": "published", "skipgram": {**ADAGRAD, "rare_words": "keep"},
    },
    "skipgram, adagrad, published without the centre": {
        "kind": "skipgram", "preset": "published",
        "skipgram": {**ADAGRAD, "rare_words": "keep", "centre": "exclude"},
    },
    "meaning of embedded:minilm-wic": {
        "kind": "ase", "backbone": MEANING,
        "ase": {"of": "meaning", "model": "embedded:minilm-wic", "contexts_per_word": 10},
    },
}  # fmt: skip
FASTTEXT: dict[str, dict[str, Any]] = {
    "fastText skipgram": {"model": "skipgram"},
    "fastText cbow": {"model": "cbow"},
}


def run(module: str, *arguments: str) -> float:
    """Run a command of ours, and return its seconds."""
    print("$", module.partition(".")[0], *arguments, flush=True)
    started = time.monotonic()
    subprocess.run([sys.executable, "-m", module, *arguments], check=True)
    return time.monotonic() - started


class Text:
    """A corpus of some files, and what was made from it."""

    def __init__(self, folder: Path, files: Sequence[str], arguments: argparse.Namespace) -> None:
        self.folder, self._arguments = folder / f"{len(files)} files", arguments
        self.folder.mkdir(parents=True, exist_ok=True)
        self.corpus, self._lines = self.folder / "corpus", self.folder / "text.txt"
        config = {
            "store": str(self.corpus),
            "recipe": "paragraphs",
            "source": {"kind": "wikiextractor", "paths": list(files)},
        }
        run("corpusgen.cli", "build", self._written("corpus", config), "--executor", "local")
        if not self._lines.exists():
            run("corpusgen.cli", "export", str(self.corpus), "--output", str(self._lines), "--format", "txt")
        rows = open_product(str(self.corpus), "paragraphs").to_table(["sentence_tokens"])["sentence_tokens"]
        self.sentences = sum(map(len, rows.to_pylist()))
        self.words, _ = read_vocabulary(str(self.corpus))

    def _written(self, name: str, config: Mapping[str, Any]) -> str:
        path = self.folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(dict(config)))
        return str(path)

    def make(self, name: str) -> dict[str, StaticVectors]:
        """Return the tables of a method by name, made now or before."""
        output = self.folder / name
        made = output / "result.json"
        if not made.exists():
            if name in FASTTEXT:
                self._fasttext(name, output)
            else:
                shared = {"corpus": str(self.corpus), "output": str(output), "workers": self._arguments.workers}
                own = METHODS[name]
                backbone = {"model": self._arguments.model, "dtype": self._arguments.dtype} | own.get("backbone", {})
                config = {**shared, **own, "backbone": backbone}
                seconds = run("distiller.cli", "static", self._written(name, config), "--format", "npy")
                print(f"{name}: {seconds:.0f} s", flush=True)
        files = json.loads(made.read_text())["files"]
        tables = {name if len(files) == 1 else f"{name}, {path}": str(output / path) for path in files}
        return {name: StaticVectors.load(path) for name, path in tables.items()}

    def _fasttext(self, name: str, output: Path) -> None:
        import fasttext

        threads = self._arguments.workers or 2
        started = time.monotonic()
        model = fasttext.train_unsupervised(
            str(self._lines), dim=self._arguments.dimension, minCount=10, thread=threads, **FASTTEXT[name]
        )
        seconds = time.monotonic() - started
        rate = sum(len(line.split()) for line in self._lines.open()) * FASTTEXT[name].get("epoch", 5) / seconds
        print(f"{name}: {seconds:.0f} s, {rate:,.0f} words/s", flush=True)
        output.mkdir(exist_ok=True)
        known = [word for word in model.get_words() if word != "</s>"]
        matrix = np.stack([model.get_word_vector(word) for word in known])
        StaticVectors.of(known, matrix).save(str(output / "vectors.npy"))
        (output / "result.json").write_text(json.dumps({"files": ["vectors.npy"]}))


def scored(vectors: StaticVectors, name: str, data: str, words: Sequence[str]) -> list[TaskResult]:
    """Evaluate vectors on the items of some words."""
    known = [word for word in words if word in vectors]
    table = StaticVectors.of(known, vectors.lookup(known)[0])
    return evaluate_static(VectorFile(WordVectors(name, table.source)), name, data).results


def shown(name: str, results: Iterable[TaskResult]) -> str:
    """Return a row of scores, with their mean over the similarities."""
    of = {result.task: result for result in results}
    cells = [f"{100 * of[task].scores[KIND].value:.1f} ({of[task].items:,})" for task in of]
    mean = np.mean([of[task].scores[KIND].value for task in SIMILARITIES])
    return f"| {name} | {' | '.join(cells)} | {100 * mean:.1f} |"


def differences(results: Sequence[TaskResult], theirs: Sequence[TaskResult]) -> str:
    """Return how much better a table is on each task, with intervals."""
    found = compare(results, theirs, "", KIND).differences
    return "; ".join(f"{d.task} {100 * d.difference:+.1f} [{100 * d.low:+.1f}, {100 * d.high:+.1f}]" for d in found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", required=True, help="files of WikiExtractor, a glob")
    parser.add_argument("--model", required=True, help="the frozen model")
    parser.add_argument("--data", required=True, help="folder of benchmarks")
    parser.add_argument("--folder", required=True, help="where everything is made")
    parser.add_argument("--only", action="append", default=[], help="methods whose name begins so")
    parser.add_argument("--files", type=int, nargs="+", default=[], help="how many files of text; default: all")
    parser.add_argument("--workers", type=int, help="processes; default: as many as there is room for")
    parser.add_argument("--dtype", default="auto", help="of the frozen model")
    parser.add_argument("--dimension", type=int, default=384, help="of fastText")
    parser.add_argument("--against", default="ase", help="the method that the others are compared with")
    arguments = parser.parse_args()
    chosen = [name for name in (*METHODS, *FASTTEXT) if not arguments.only or name.startswith(tuple(arguments.only))]
    files = sorted(glob.glob(arguments.text))
    if not files or not chosen:
        parser.error(f"nothing to do: {len(files)} files, {len(chosen)} methods")
    # Spread over the text, since neighbouring files have neighbouring articles.
    spread = [[files[n * len(files) // count] for n in range(count)] for count in arguments.files or [len(files)]]
    texts = [Text(Path(arguments.folder), some, arguments) for some in spread]
    others = set.intersection(*(set(text.words) for text in texts))
    words = [word for word in texts[0].words if word in others]
    for text in texts:
        results: dict[str, list[TaskResult]] = {}
        for method in chosen:
            for name, vectors in text.make(method).items():
                results[name] = scored(vectors, name, arguments.data, words)
                print(f"{text.sentences:,} sentences", shown(name, results[name]), flush=True)
        heading = " | ".join(result.task for result in next(iter(results.values())))
        print(
            f"\n{text.sentences:,} sentences, {len(text.words):,} words\n| method | {heading} | mean of similarities |"
        )
        print("|---" * (heading.count("|") + 3) + "|")
        print("\n".join(shown(name, of) for name, of in results.items()))
        for name, of in results.items():
            if arguments.against in results and name != arguments.against:
                print(f"{name} − {arguments.against}: {differences(of, results[arguments.against])}")


if __name__ == "__main__":
    main()
