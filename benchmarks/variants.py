"""What holds the meaning vectors back: one model for each of several settings, on the same triples and benchmarks.

    python -m benchmarks.variants --model FOLDER --data EVAL --cache FOLDER --corpus ROOT [--corpus ROOT] \
        [--variants default,no-negatives,standardise=true,lr=1e-3+triples=5000]

The frozen model runs once over the triples and the benchmarks; its states of all layers are kept in `--cache`, so that
a variant costs its training only. Variants are written key=value+key=value; keys are settings of `distiller train` and

    corpus=N        the N-th of the corpora (from 0)
    triples=N       only the first N in an order drawn by hash
    first=N         lowest layer
    different=1     only triples whose positive is another word

`default` has none, `no-negatives` is negatives=false. Differences are those to the frozen model's own top half, item by
item, with bootstrap intervals of 95 %.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import numpy as np
import pyarrow as pa
import yaml

from corpusgen.store import TripleStore
from corpusgen.store.products import WORDS
from distiller.evaluation.evaluate import compare
from distiller.evaluation.results import TaskResult, Vectors
from distiller.evaluation.tasks import find_tasks
from distiller.inference.spans import means
from distiller.inference.word_distiller import WordDistiller
from distiller.settings import BackboneSettings, TrainSettings
from distiller.training.data import MappedFeatures
from distiller.training.loop import Training, Validation
from distiller.words.backbone import Backbone

OWN = ("corpus", "triples", "first", "different")


class States:
    """The frozen model's states of all layers above the embeddings, each computed once and kept on disk."""

    def __init__(self, model: str, cache: str) -> None:
        self.backbone = Backbone(BackboneSettings(model=model, first_layer=1))
        self._folder = Path(cache)
        self._folder.mkdir(parents=True, exist_ok=True)

    def words(self, texts: Sequence[str], spans: Sequence[tuple[int, int]]) -> tuple[Any, list[str | None]]:
        def make() -> tuple[Any, list[Any]]:
            made = [self.backbone.states(texts[i : i + 2048], spans[i : i + 2048]) for i in range(0, len(texts), 2048)]
            return np.concatenate([s.astype(np.float16) for s, _ in made]), [r for _, some in made for r in some]

        return self._kept(["words", texts, spans], make)

    def pieces(self, texts: Sequence[str]) -> tuple[Any, list[int]]:
        def make() -> tuple[Any, list[Any]]:
            states = [states.astype(np.float16) for states in self.backbone.piece_states(texts)]
            return np.concatenate(states), [len(one) for one in states]

        return self._kept(["pieces", texts], make)

    def _kept(self, asked: Any, make: Callable[[], tuple[Any, list[Any]]]) -> tuple[Any, list[Any]]:
        name = self._folder / hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:20]
        if not name.with_suffix(".json").exists():
            states, notes = make()
            np.save(name.with_suffix(".npy"), states)
            name.with_suffix(".json").write_text(json.dumps(notes))
        return np.load(name.with_suffix(".npy"), mmap_mode="r"), json.loads(name.with_suffix(".json").read_text())


class VariantEncoder:
    """A model as the tasks ask it, from states that are kept."""

    def __init__(self, states: States, model: WordDistiller, layers: slice) -> None:
        self._states, self._model, self._layers = states, model, layers

    def words(self, texts: Sequence[str], spans: Sequence[tuple[int, int]]) -> tuple[dict[str, Vectors], Any]:
        states, reasons = self._states.words(texts, spans)
        return self._vectors(states), reasons

    def sentences(self, texts: Sequence[str]) -> tuple[dict[str, Vectors], Any]:
        states, counts = self._states.pieces(texts)
        found = {kind: means(part, np.array(counts)) for kind, part in self._vectors(states).items()}
        return found, [None] * len(texts)

    def _vectors(self, states: Any) -> dict[str, Vectors]:
        kinds = ("meaning", "context")
        found: dict[str, list[Vectors]] = {kind: [] for kind in (*kinds, "baseline")}
        half = states.shape[1] // 2
        for start in range(0, len(states), 8192):
            some = states[start : start + 8192]
            given = np.asarray(some[:, self._layers], np.float32)
            for kind, part in zip(kinds, self._model.distil(given, kinds), strict=True):
                found[kind].append(part)
            found["baseline"].append(np.asarray(some[:, half:], np.float32).mean(1))
        return {kind: np.concatenate(parts) for kind, parts in found.items()}


def parsed(variant: str) -> dict[str, Any]:
    if variant in ("default", "no-negatives"):
        return {} if variant == "default" else {"negatives": False}
    short = {"lr": "learning_rate", "epochs": "max_epochs"}
    pairs = (part.partition("=") for part in variant.split("+"))
    values = {short.get(key, key): yaml.safe_load(value) for key, _, value in pairs}
    return {key: float(v) if isinstance(v, str) and "e" in v else v for key, v in values.items()}  # YAML's 1e-3


def triples_of(root: str, states: States, settings: dict[str, Any]) -> tuple[Any, list[bytes]]:
    table = TripleStore(root).to_table()
    columns = [
        states.words(table[text].to_pylist(), list(zip(*(table[c].to_pylist() for c in place), strict=True)))[0]
        for text, *place in (member.columns for member in WORDS.members)
    ]
    kept = np.arange(table.num_rows)
    if settings.get("different"):
        targets, positives = (pa.compute.utf8_lower(table[name]).to_pylist() for name in ("target", "positive_word"))
        kept = np.flatnonzero(np.array(targets) != np.array(positives))
    ids = [one.encode() for one in table["id"].to_pylist()]
    kept = np.array(sorted(kept, key=lambda row: hashlib.sha256(ids[row]).digest()))[: settings.get("triples")]
    return np.stack([column[kept] for column in columns], 1), [ids[row] for row in kept]


def run(variant: str, states: States, arguments: argparse.Namespace) -> dict[str, Any]:
    started = time.perf_counter()
    chosen = parsed(variant)
    raw, ids = triples_of(arguments.corpus[chosen.get("corpus", 0)], states, chosen)
    layers = slice(chosen.get("first", raw.shape[2] // 2 + 1) - 1, None)
    features = MappedFeatures(np.ascontiguousarray(raw[:, :, layers]), np.array(ids))
    given = {"corpus": "", "output": "", "backbone": {"model": arguments.model}}
    defaults = {"learning_rate": 5e-4, "warmup_steps": 100, "max_epochs": 8, "validate_every": 1, "patience": 100}
    settings = {key: value for key, value in chosen.items() if key not in OWN}
    training = Training(TrainSettings.model_validate({**given, **defaults, **settings}), features)
    validation: Validation | None = None
    for _, _, found in training.run():
        validation = found or validation
    assert validation is not None
    model = WordDistiller(states.backbone, training.model)
    encoder = VariantEncoder(states, model, layers)
    tasks = find_tasks(arguments.data, arguments.tasks.split(","))
    results = [result for task in tasks for result in task.run(encoder)]
    return {
        "variant": variant,
        "triples": len(ids),
        "cos(h,p)": validation.cosine_positive,
        "cos(h,n)": validation.cosine_negative,
        "unrelated": validation.cosine_unrelated,
        "ordered": validation.ordered,
        "scores": {result.task: scores(result) for result in results},
        "seconds": time.perf_counter() - started,
    }


def scores(result: TaskResult) -> dict[str, Any]:
    (gain,) = compare([result], [result], "", "meaning", "baseline").differences
    values = {kind: 100 * score.value for kind, score in result.scores.items()}
    return values | {"gain": 100 * gain.difference, "interval": (100 * gain.low, 100 * gain.high)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="folder of an encoder")
    parser.add_argument("--data", required=True, help="folder of benchmarks, as for distiller evaluate")
    parser.add_argument("--corpus", required=True, action="append", help="root of a store with triples")
    parser.add_argument("--cache", required=True, help="folder for the states")
    parser.add_argument("--variants", default="default,no-negatives")
    parser.add_argument("--tasks", default="wic,scws,sts,stsb")
    parser.add_argument("--json", help="file to add a line for each variant to")
    arguments = parser.parse_args()
    states = States(arguments.model, arguments.cache)
    for variant in arguments.variants.split(","):
        found = run(variant, states, arguments)
        if arguments.json:
            with open(arguments.json, "a") as file:
                file.write(json.dumps(found) + "\n")
        cosines = ", ".join(f"{name} {found[name]:.3f}" for name in ("cos(h,p)", "cos(h,n)", "unrelated", "ordered"))
        print(f"{variant}: {found['triples']:,} triples, {cosines}, {found['seconds']:.0f} s")
        for task, values in found["scores"].items():
            low, high = values["interval"]
            print(
                f"  {task:14} baseline {values['baseline']:5.1f}  meaning {values['meaning']:5.1f}  context "
                f"{values['context']:5.1f}  gain {values['gain']:+.1f} [{low:+.1f}, {high:+.1f}]",
                flush=True,
            )


if __name__ == "__main__":
    main()
