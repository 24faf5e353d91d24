"""What each part of a training brings: one model for each of several settings, on the same rows and benchmarks.

    python -m benchmarks.variants --model FOLDER --data EVAL --cache FOLDER --corpus ROOT [--corpus ROOT] \
        [--variants objective=contrast,objective=contrast+contrast.head=transformer+rows=5000] [--seeds 3]

The frozen model runs once over the sentences and the benchmarks; its states of all layers are kept in `--cache`, so
that a variant costs its training only. Variants are written key=value+key=value; keys are settings of `distiller train`
(dots for those of a section, `table=triples&pairs` for both tables) and

    corpus=N        the N-th of the corpora (from 0)
    rows=N          only the first N of each table in an order drawn by hash
    first=N         lowest layer
    different=1     only rows whose positive is another word

`default` has none, `no-negatives` is negatives=false. Differences are those to the frozen model's own top half, item by
item, with bootstrap intervals of 95 %; of several seeds, the mean of the differences and of the ends of the intervals.
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
import torch
import yaml

from corpusgen.store import Store
from corpusgen.store.products import BOTH, Product
from distiller.evaluation.evaluate import compare
from distiller.evaluation.results import TaskResult, Vectors
from distiller.evaluation.tasks import find_tasks
from distiller.inference.spans import means
from distiller.inference.word_distiller import WordDistiller
from distiller.settings import BackboneSettings, TrainSettings
from distiller.training.data import MappedFeatures
from distiller.training.loop import Training, Validation
from distiller.words.backbone import Backbone
from distiller.words.features import member_words
from distiller.words.objective import objective_of, products_for
from distiller.words.row_facts import RowFacts, row_facts

OWN = ("corpus", "rows", "first", "different")
DEFAULTS: dict[str, dict[str, Any]] = {
    "reconstruct": {
        "learning_rate": 5e-4, "warmup_steps": 100, "max_epochs": 8, "validate_every": 1, "patience": 100,
    },
    "contrast": {
        "batch_size": 512, "learning_rate": 2e-4, "warmup_steps": 30, "decay": "cosine", "max_steps": 300,
        "max_epochs": 1000, "validate_every": 1000, "patience": 100, "first": 1,
    },
}  # fmt: skip


class States:
    """The frozen model's states of all layers above the embeddings, each computed once and kept on disk."""

    def __init__(self, model: str, cache: str) -> None:
        self.backbone = Backbone(BackboneSettings(model=model, first_layer=1))
        self._folder = Path(cache)
        self._folder.mkdir(parents=True, exist_ok=True)

    def words(self, texts: Sequence[str], spans: Sequence[tuple[int, int]]) -> tuple[Any, list[str | None]]:
        def make() -> tuple[Any, list[Any]]:
            kept, reasons = [], []
            for start in range(0, len(texts), 2048):
                found, why_not = self.backbone.states(texts[start : start + 2048], spans[start : start + 2048])
                kept.append(found.astype(np.float16))
                reasons += why_not
            return np.concatenate(kept), reasons

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
        found = {kind: means(part, np.array(counts)) for kind, part in self._vectors(states, in_sentence=True).items()}
        return found, [None] * len(texts)

    def _vectors(self, states: Any, in_sentence: bool = False) -> dict[str, Vectors]:
        kinds = ("meaning", "context")
        found: dict[str, list[Vectors]] = {kind: [] for kind in (*kinds, "baseline")}
        half = states.shape[1] // 2
        for start in range(0, len(states), 8192):
            some = states[start : start + 8192]
            given = np.asarray(some[:, self._layers], np.float32)
            for kind, part in zip(kinds, self._model.distil(given, kinds, in_sentence), strict=True):
                found[kind].append(part)
            found["baseline"].append(np.asarray(some[:, half:], np.float32).mean(1))
        return {kind: np.concatenate(parts) for kind, parts in found.items()}


def parsed(variant: str) -> dict[str, Any]:
    if variant in ("default", "no-negatives"):
        return {} if variant == "default" else {"negatives": False}
    short = {"lr": "learning_rate", "epochs": "max_epochs"}
    values: dict[str, Any] = {}
    for part in variant.split("+"):
        key, _, written = part.partition("=")
        value = yaml.safe_load(written.replace("&", BOTH))
        if isinstance(value, str) and value[0].isdigit():
            value = float(value)  # YAML takes 1e-3 for a string
        section, _, name = short.get(key, key).rpartition(".")
        (values.setdefault(section, {}) if section else values)[name] = value
    return values


def rows_of(corpus: Store, product: Product, states: States, own: dict[str, Any]) -> tuple[Any, list[str], RowFacts]:
    """Return the states (N, M, L, D), groups and facts of the chosen rows of a table."""
    table = product.open(corpus).to_table([*product.columns])
    facts = row_facts(table, product)
    kept = np.flatnonzero(facts["differs"]) if own.get("different") else np.arange(table.num_rows)
    ids = table["id"].to_pylist()
    drawn = sorted(kept.tolist(), key=lambda row: hashlib.sha256(ids[row].encode()).digest())[: own.get("rows")]
    chosen = np.sort(np.array(drawn))
    asked = list(zip(*member_words(table, product), strict=True))
    occurrences = sorted(set(asked))  # neighbours share a sentence, which the model then reads once
    vectors, reasons = states.words([text for text, _ in occurrences], [span for _, span in occurrences])
    number = {occurrence: index for index, occurrence in enumerate(occurrences)}
    at = np.array([number[one] for one in asked]).reshape(-1, table.num_rows).T
    known = np.array([reason is None for reason in reasons])
    chosen = chosen[known[at[chosen]].all(1)]
    return vectors[at[chosen]], [product.group_of(ids[row]) for row in chosen], facts[chosen]


def run(variant: str, seed: int, states: States, arguments: argparse.Namespace) -> dict[str, Any]:
    started = time.perf_counter()
    chosen = parsed(variant)
    chosen = {**DEFAULTS.get(chosen.get("objective", "reconstruct"), {}), "seed": seed, **chosen}
    corpus = Store.at(arguments.corpus[chosen.get("corpus", 0)])
    first = chosen.get("first", len(states.backbone.layers) // 2 + 1)
    given = {"corpus": corpus.url, "output": "", "backbone": {"model": arguments.model, "first_layer": first}}
    settings = TrainSettings.model_validate({**given, **{key: chosen[key] for key in chosen if key not in OWN}})
    members = objective_of(settings).members
    sources = [rows_of(corpus, one.only(members), states, chosen) for one in products_for(settings, corpus)]
    layers = slice(first - 1, None)
    raw = np.concatenate([one[:, :, layers] for one, _, _ in sources])
    ids = np.array([group.encode() for _, groups, _ in sources for group in groups])
    facts = np.concatenate([one for _, _, one in sources])
    training = Training(settings, MappedFeatures(raw, ids, facts=facts))
    validation: Validation | None = None
    for _, _, found in training.run():
        validation = found or validation
    assert validation is not None
    model = WordDistiller(states.backbone, training.model.eval())
    encoder = VariantEncoder(states, model, layers)
    tasks = find_tasks(arguments.data, arguments.tasks.split(","))
    results = [result for task in tasks for result in task.run(encoder)]
    return {
        "variant": variant,
        "seed": seed,
        "rows": len(ids),
        "cos(h,p)": validation.cosine_positive,
        "cos(h,n)": validation.cosine_negative,
        "unrelated": validation.cosine_unrelated,
        "ordered": validation.ordered,
        "frozen": validation.ordered_frozen,
        "loss": validation.loss,
        "strength": getattr(training.model.meaning, "strength", torch.tensor(1.0)).item(),
        "scores": {result.label: scores(result) for result in results},
        "seconds": time.perf_counter() - started,
    }


def averaged(runs: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return the mean of each figure of each task over runs of several seeds."""
    return {
        task: {name: float(np.mean([run["scores"][task][name] for run in runs])) for name in runs[0]["scores"][task]}
        for task in runs[0]["scores"]
    }


def scores(result: TaskResult) -> dict[str, Any]:
    (gain,) = compare([result], [result], "", "meaning", "baseline").differences
    values = {kind: 100 * score.value for kind, score in result.scores.items()}
    return values | {"gain": 100 * gain.difference, "low": 100 * gain.low, "high": 100 * gain.high}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="folder of an encoder")
    parser.add_argument("--data", required=True, help="folder of benchmarks, as for distiller evaluate")
    parser.add_argument("--corpus", required=True, action="append", help="root of a store with triples or pairs")
    parser.add_argument("--cache", required=True, help="folder for the states")
    parser.add_argument("--variants", default="default,no-negatives")
    parser.add_argument("--tasks", default="wic,scws,sts,stsb")
    parser.add_argument("--seeds", type=int, default=1, help="how many trainings of each variant")
    parser.add_argument("--json", help="file to add a line for each training to")
    arguments = parser.parse_args()
    states = States(arguments.model, arguments.cache)
    for variant in arguments.variants.split(","):
        runs = [run(variant, seed, states, arguments) for seed in range(arguments.seeds)]
        if arguments.json:
            with open(arguments.json, "a") as file:
                file.writelines(json.dumps(found) + "\n" for found in runs)
        shown = ("cos(h,p)", "cos(h,n)", "unrelated", "ordered", "frozen", "loss", "strength", "seconds")
        figures = ", ".join(f"{name} {np.mean([found[name] for found in runs]):.3f}" for name in shown)
        print(f"{variant}: {runs[0]['rows']:,} rows, {figures}")
        for task, values in averaged(runs).items():
            print(
                f"  {task:14} baseline {values['baseline']:5.1f}  meaning {values['meaning']:5.1f}  context "
                f"{values['context']:5.1f}  gain {values['gain']:+.1f} [{values['low']:+.1f}, {values['high']:+.1f}]",
                flush=True,
            )


if __name__ == "__main__":
    main()
