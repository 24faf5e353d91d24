"""The whole generate pass against its models called barely, and the memory of each stage.

    python -m benchmarks.generate CONFIG [--targets 1000] [--set key=value …]

Unit by unit, first ours (all stages, one worker, and the commit into a store), then the same models on the same
sentences with nothing around them: the translators on the texts of the unit, and the masked LM on texts that were
tokenised, masked, sorted by length and padded before the clock started. So both see the same load of the machine.
Memory is that of a process per stage, after its first and after its last unit.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pyarrow as pa

from corpusgen.config.build import BuildConfig, load_config
from corpusgen.corpus.build import build
from corpusgen.corpus.recipes.words import RECIPE
from corpusgen.corpus.triples.choose import aligned_slots
from corpusgen.engine import LocalExecutor, Pass, Stage
from corpusgen.engine.batch import Batch
from corpusgen.engine.isolate import run_stage
from corpusgen.engine.local import set_up
from corpusgen.engine.passes import Sink, first_batch
from corpusgen.models.translate import open_translator
from corpusgen.store import Store

BATCH_TOKENS = 1024


def generate_pass(config: BuildConfig, store: Store) -> Pass:
    return RECIPE.passes["generate"].make(config, store)


class Bare:
    """The models of a build and nothing else."""

    def __init__(self, config: BuildConfig) -> None:
        import torch
        from transformers import AutoModelForMaskedLM, AutoTokenizer

        torch.set_num_threads(1)
        assert config.masked
        self.translators = []
        if config.translation and config.generate.positives == "round_trip":
            sides = (config.translation.forward, config.translation.back)
            self.translators = [open_translator(side, "cpu", 1) for side in sides]
        self.tokenizer = AutoTokenizer.from_pretrained(config.masked.model)
        self.model = AutoModelForMaskedLM.from_pretrained(config.masked.model, dtype=torch.float32).eval()

    def translate(self, texts: Sequence[str]) -> float:
        started = time.perf_counter()
        for translator in self.translators:
            texts = translator.translate(texts)
        return time.perf_counter() - started

    def predict(self, slots: Sequence[tuple[str, int, int]]) -> float:
        """Seconds of the forward passes alone."""
        import torch

        mask = self.tokenizer.mask_token
        encoded = [self.tokenizer(text[:start] + mask + text[end:])["input_ids"] for text, start, end in slots]
        encoded.sort(key=len)
        batches: list[list[list[int]]] = []
        for ids in encoded:
            if not batches or (len(batches[-1]) + 1) * len(ids) > BATCH_TOKENS:
                batches.append([])
            batches[-1].append(ids)
        inputs = [self.tokenizer.pad({"input_ids": batch}, return_tensors="pt") for batch in batches]
        started = time.perf_counter()
        with torch.inference_mode():
            for batch in inputs:
                self.model(**batch)
        return time.perf_counter() - started


def compare(config: BuildConfig, targets: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        store = build(config.model_copy(update={"store": f"{folder}/store"}), LocalExecutor(), until="sample")
        config = config.model_copy(update={"store": f"{folder}/store"})
        pass_ = generate_pass(config, store)
        units = pass_.plan().units
        store.pass_store("generate").ensure_plan(pass_.plan())
        sink = Sink(store.pass_store("generate"), pass_.tables, pass_.derived)
        set_up(pass_.stages)
        bare = Bare(config)
        ours = bare_translation = bare_prediction = 0.0
        done = triples = slots_asked = 0
        per_stage: dict[str, float] = {}
        for unit in units:
            started = time.perf_counter()
            batch = first_batch(unit.records)
            read: pa.Table | None = None
            before_mask: pa.Table | None = None
            for stage in pass_.stages:
                if stage.name == "mask":
                    before_mask = batch.rows
                batch = run_stage(stage, batch)
                per_stage[stage.name] = per_stage.get(stage.name, 0) + batch.stages[stage.name].seconds
                if stage.name == "read":
                    read = batch.rows
            sink.commit(unit.id, "benchmark", batch)
            ours += time.perf_counter() - started
            assert read is not None
            assert before_mask is not None
            bare_translation += bare.translate(read["text"].to_pylist())
            slots = slots_of(before_mask, pass_.stages[-1])
            bare_prediction += bare.predict(slots)
            slots_asked += len(slots)
            done += read.num_rows
            triples += batch.num_rows
            if done >= targets:
                break
    return {
        "targets": done,
        "triples": triples,
        "slots": slots_asked,
        "ours_seconds": ours,
        "bare_seconds": bare_translation + bare_prediction,
        "bare_translation_seconds": bare_translation,
        "bare_prediction_seconds": bare_prediction,
        "ours_by_bare": ours / (bare_translation + bare_prediction),
        "triples_per_second": triples / ours,
        **{f"{name}_seconds": seconds for name, seconds in per_stage.items()},
    }


def slots_of(rows: pa.Table, stage: Any) -> list[tuple[str, int, int]]:
    """The slots that the stage asks its masked LM about."""
    records = rows.to_pylist()
    slots = [(record["text"], record["target_start"], record["target_end"]) for record in records]
    if "paraphrase" in rows.column_names:
        slots += [(slot.text, *slot.span) for slot in aligned_slots(records, stage.criteria)]
    return slots


def peak_mb() -> float:
    """The most memory that this process had: `getrusage` would count that of its parent too."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) / 1024


def memory_of(stage: Stage, batches: Sequence[Batch]) -> dict[str, float]:
    """Peak of a process that sets the stage up and works: after the first and after the last of the units."""
    os.environ["OMP_NUM_THREADS"] = "1"
    set_up([stage])
    run_stage(stage, batches[0])
    first = peak_mb()
    for batch in batches[1:]:
        run_stage(stage, batch)
    return {"first_unit_mb": first, "last_unit_mb": peak_mb()}


def memory(config: BuildConfig, units: int) -> dict[str, Any]:
    """Each stage in a process of its own, over so many units."""
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        config = config.model_copy(update={"store": f"{folder}/store"})
        store = build(config, LocalExecutor(), until="sample")
        pass_ = generate_pass(config, store)
        set_up(pass_.stages)
        batches = [first_batch(unit.records) for unit in pass_.plan().units[:units]]
        for stage in generate_pass(config, store).stages:
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
                result[stage.name] = process.submit(memory_of, stage, batches).result()
            mine = next(mine for mine in pass_.stages if mine.name == stage.name)
            batches = [run_stage(mine, batch) for batch in batches]
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config")
    parser.add_argument("--targets", type=int, default=1000)
    parser.add_argument("--part", choices=["speed", "memory", "all"], default="all")
    parser.add_argument("--memory-units", type=int, default=8)
    parser.add_argument("--set", action="append", default=[], dest="overrides")
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    overrides = [f"sample.size={arguments.targets}", *arguments.overrides]
    config = load_config(arguments.config, ["store=unused", *overrides])
    if arguments.part != "memory":
        print(json.dumps({"speed": compare(config, arguments.targets)}, indent=2))
    if arguments.part == "speed":
        return
    small = load_config(
        arguments.config,
        ["store=unused", *overrides, "generate.unit_targets=50", f"sample.size={50 * arguments.memory_units}"],
    )
    print(json.dumps({"memory": memory(small, arguments.memory_units)}, indent=2))


if __name__ == "__main__":
    main()
