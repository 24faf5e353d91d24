"""The whole way, against the plain way and against the models alone.

    python -m benchmarks.end_to_end [--targets 400] [--plain-targets 60] [--eval FOLDER]

Targets → triples, triples → layer states, states → trained steps, texts → vectors, benchmarks → scores; on one core,
with the text and models of the quickstart. *Plain* is benchmarks/baselines/naive.py, which must find the same triples;
*bare* is benchmarks/baselines/bare.py. Without --eval the benchmarks are the quickstart's; the folder of the field's
own (wic/, scws/) gives the figure that the project wants.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModel, AutoModelForMaskedLM, AutoTokenizer

from benchmarks.baselines.bare import call_on_all, masked_ids, padded_batches
from benchmarks.baselines.naive import NaivePipeline, layer_states
from benchmarks.parts import Parts, Span, prepare
from benchmarks.rows import Row, fastest, seconds
from benchmarks.translation import learn
from corpusgen.config.rules import PAPER
from corpusgen.corpus.recipes.words import RECIPE
from corpusgen.corpus.triples.choose import aligned_slots
from corpusgen.engine.isolate import run_stage
from corpusgen.engine.local import set_up
from corpusgen.engine.passes import Sink, first_batch
from corpusgen.models.translate import TranslatorSettings, open_translator
from corpusgen.models.translate.convert import convert_translator
from corpusgen.models.vectors import open_vectors
from corpusgen.store import Store, TripleStore, Unit
from corpusgen.store.products import WORDS
from distiller.evaluation.evaluate import evaluate
from distiller.evaluation.tasks import find_tasks
from distiller.inference.word_distiller import WordDistiller
from distiller.quickstart import _evaluation_data
from distiller.settings import BackboneSettings, TrainSettings
from distiller.training.data import FeatureChunk, MappedFeatures
from distiller.training.loop import Training
from distiller.words.backbone import Backbone
from distiller.words.features import EncodeMembers
from distiller.words.model import TrainingPosition, WordModel
from distiller.words.row_facts import BatchFacts

UNITS = {"unit_targets": 100}
RULES = {"preset": "paper", **PAPER}
WIDTHS = ((0, "without padding", None), (200, "each padded to 200, as published", 8.0))
EVALUATION_WIDTH = 512
_MOST_DIFFERENT = 0.1
_TRIPLES = 128
_PLAIN_TRIPLES = 8


class Generate:
    """The stages of the generate pass, one unit after the other in this process, each committed."""

    def __init__(self, parts: Parts) -> None:
        self.pass_ = RECIPE.passes["generate"].make(parts.config, parts.store)
        self.units = self.pass_.plan().units
        self.store = parts.store.pass_store("generate")
        self.store.ensure_plan(self.pass_.plan())
        self._sink = Sink(self.store, self.pass_.tables, self.pass_.derived)
        set_up(self.pass_.stages)
        self.texts: list[str] = []
        """What the translators were asked about in the last unit."""
        self.slots: list[tuple[str, Span]] = []
        """What the masked LM was asked about."""

    def run(self, unit: Unit) -> None:
        batch = first_batch(unit.records)
        for stage in self.pass_.stages:
            if batch.rows is not None and stage.name in ("translate", "mask"):
                self._note(batch.rows.to_pylist(), stage)
            batch = run_stage(stage, batch)
        self._sink.commit(unit.id, "benchmark", batch)

    def run_all(self) -> None:
        for unit in self.units:
            self.run(unit)

    def _note(self, records: Sequence[Mapping[str, Any]], stage: Any) -> None:
        if stage.name == "translate":
            self.texts = [record["text"] for record in records]
        else:
            self.slots = [(record["text"], (record["target_start"], record["target_end"])) for record in records]
            self.slots += [(slot.text, slot.span) for slot in aligned_slots(records, stage.criteria)]


def generate(folder: str, targets: int, plain_targets: int) -> list[Row]:
    """Targets → triples by the paper's rules."""
    parts = prepare(f"{folder}/all", targets, rules=RULES, masked={"masks": "piece"}, generate=UNITS)
    assert parts.config.translation
    sides = (parts.config.translation.forward, parts.config.translation.back)
    translators = [open_translator(side, "cpu", 1) for side in sides]
    model = AutoModelForMaskedLM.from_pretrained(parts.model, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(parts.model)

    def translate(texts: list[str]) -> None:
        for translator in translators:
            texts = translator.translate(texts)

    ours = Generate(parts)
    taken = translation = prediction = 0.0
    for unit in ours.units:  # in turn, so that both meet the same load of the machine
        taken += seconds(partial(ours.run, unit))
        translation += seconds(partial(translate, ours.texts))
        batches = padded_batches([masked_ids(tokenizer, *slot) for slot in ours.slots])
        prediction += seconds(partial(call_on_all, model, batches))
    triples = TripleStore(parts.store).to_table().to_pylist()
    some = parts.targets[:plain_targets]
    note = f"of our time translation, which takes one sentence at a time on both sides, is {translation / taken:.0%}"
    rows = [
        _against_plain(
            f"generate against the plain way, {what}",
            (triples, taken / len(parts.targets)),
            (_naive(parts, translators, model, tokenizer, width), some),
            bar,
            note,
        )
        for width, what, bar in WIDTHS
    ]
    bare = translation + prediction
    rows.append(
        Row(
            "generate against the bare models",
            "translators and masked LM alone, on ready-made batches",
            bare / taken,
            0.87,
            f"{len(parts.targets) / taken:.1f} targets/s",
        )
    )
    return rows


def generate_in_batches(folder: str, targets: int) -> list[Row]:
    """The same with a translator that takes many sentences at a time: CTranslate2 against the same model, one by one.

    A small model of each direction learns by heart what Bergamot says, so that all texts are real.
    """
    options = {"rules": RULES, "masked": {"masks": "piece"}}
    texts = prepare(f"{folder}/texts", targets, **options).texts
    sides, plain = {}, []
    for side, source, target in (("forward", "en", "pt"), ("back", "pt", "en")):
        bergamot = TranslatorSettings(backend="bergamot", source=source, target=target)
        pairs = dict(zip(texts, texts := open_translator(bergamot, "cpu", 1).translate(texts), strict=True))
        model, converted = Path(folder) / side, f"{folder}/{side}.ct2"
        learn(model, pairs)
        convert_translator(str(model), converted)
        sides[side] = {"backend": "ctranslate2", "model": converted}
        plain.append(open_translator(TranslatorSettings(backend="transformers", model=str(model)), "cpu", 1))
    parts = prepare(f"{folder}/batches", targets, **options, translation={"pivot": "pt", **sides})
    ours = Generate(parts)
    taken = seconds(ours.run_all)
    triples = TripleStore(parts.store).to_table().to_pylist()
    model = AutoModelForMaskedLM.from_pretrained(parts.model, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(parts.model)
    return [
        _against_plain(
            f"generate with CTranslate2 against the plain way with transformers, {what}",
            (triples, taken / len(parts.targets)),
            (_naive(parts, plain, model, tokenizer, width), parts.targets),
            bar,
            f"{len(triples)} triples",
        )
        for width, what, bar in WIDTHS
    ]


def _against_plain(
    name: str,
    ours: tuple[Sequence[dict[str, Any]], float],
    theirs: tuple[NaivePipeline, Sequence[dict[str, Any]]],
    bar: float | None,
    note: str,
) -> Row:
    """Our triples and seconds a target, against the plain way on these targets."""
    (triples, taken), (pipeline, targets) = ours, theirs
    found: list[dict[str, Any] | None] = []
    plain = seconds(lambda: found.extend(pipeline.triples(targets))) / len(targets)
    return Row(
        name,
        "one sentence at a time, all probabilities, a cosine per pair of words",
        plain / taken,
        bar,
        f"{1 / taken:.1f} targets/s",
        f"the same triple or none for {_same(triples, found, targets):.0%} of {len(targets)} targets; {note}",
    )


def _naive(parts: Parts, translators: Sequence[Any], model: Any, tokenizer: Any, width: int) -> NaivePipeline:
    assert parts.config.vectors
    vectors = open_vectors(parts.config.vectors.path, parts.config.vectors.words)
    remembered: dict[str, Any] = {}

    def vector(word: str) -> Any:
        if word not in remembered:  # a dictionary in memory, as the published code has it
            remembered[word] = vectors.lookup([word])[0]
        return remembered[word]

    forward, back = (translator.translate for translator in translators)
    return NaivePipeline(forward, back, model, tokenizer, vector, lambda word: bool(vector(word).any()), width=width)


def _same(
    ours: Sequence[dict[str, Any]], plain: Sequence[dict[str, Any] | None], some: Sequence[dict[str, Any]]
) -> float:
    """For how many targets both say the same. Searching by letters finds a wrong one now and then."""
    by_id = {triple["id"]: triple for triple in ours}
    same = 0
    for target, theirs in zip(some, plain, strict=True):
        mine = by_id.get(target["id"])
        columns = ("positive", "negative")
        same += (mine is None and theirs is None) or bool(
            mine and theirs and all(mine[column] == theirs[column] for column in columns)
        )
    share = same / len(some)
    if share < 1 - _MOST_DIFFERENT:
        raise SystemExit(f"only {share:.0%} of the triples are those of the plain way: one of them is wrong")
    return share


def features(parts: Parts, store: Store, rounds: int) -> list[Row]:
    """Triples → layer states as half-precision columns."""
    rows = TripleStore(store).to_table().slice(0, _TRIPLES)
    backbone = BackboneSettings(model=parts.model)
    stage = EncodeMembers({}, backbone, "cpu")
    stage.setup()
    bare = AutoModel.from_pretrained(parts.model, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(parts.model)
    batches = [
        batch
        for member in WORDS.members
        for batch in padded_batches(tokenizer(rows[member.text].to_pylist())["input_ids"])
    ]
    best = fastest(rounds, {"ours": lambda: stage.process(rows), "bare": lambda: call_on_all(bare, batches)})
    speed = f"{rows.num_rows / best['ours']:.0f} triples/s"
    found = [Row("features", "the bare frozen model on the same texts", best["bare"] / best["ours"], 0.9, speed)]
    some = rows.slice(0, _PLAIN_TRIPLES)
    made = stage.process(some).rows
    for width, what in ((0, "without padding"), (EVALUATION_WIDTH, f"each padded to {EVALUATION_WIDTH}, as published")):
        plain: list[list[Any]] = []
        taken = seconds(
            lambda plain=plain, width=width: plain.extend(  # type: ignore[misc]
                [
                    layer_states(bare, tokenizer, row[member.text], (row[member.start], row[member.end]), width)
                    for member in WORDS.members
                ]
                for row in some.to_pylist()
            )
        )
        for index, word in enumerate(member.name for member in WORDS.members):
            mine = np.stack([np.frombuffer(states, np.float16) for states in made[word].to_pylist()])
            theirs = np.stack([of_triple[index].ravel() for of_triple in plain])
            np.testing.assert_allclose(mine, theirs, atol=0.01)  # ours are in half precision
        ratio = (taken / some.num_rows) / (best["ours"] / rows.num_rows)
        found.append(Row(f"features against the plain way, {what}", "one text at a time", ratio, None, speed))
    return found


def training(folder: str, rounds: int, steps: int = 10, size: int = 128) -> list[Row]:
    """Steps from the mapped file against the same steps on tensors in memory."""
    settings = TrainSettings.model_validate(
        {"corpus": "", "output": "", "backbone": {"model": ""}, "batch_size": size, "warmup_steps": 1}
    )
    random = np.random.default_rng(0)
    count = 4 * steps * size
    states = random.normal(size=(count, 3, 3, 384)).astype(np.float16)
    chunks = [FeatureChunk([f"sentence {number}" for number in range(count)], states)]
    mapped = MappedFeatures.open(folder, "benchmark", lambda: iter(chunks))
    ours, bare = Training(settings, mapped), Training(settings, mapped)
    loop = ours.steps(lambda step: 4e-5)
    next(loop)
    in_memory = [mapped.batch(np.arange(n * size, (n + 1) * size)) for n in range(steps)]
    facts = BatchFacts.of(mapped.facts[:size])

    def steps_in_memory() -> None:
        for step, batch in enumerate(in_memory):
            bare._step(batch, facts, TrainingPosition(0, step), size)

    def steps_of_ours() -> None:
        for _, _ in zip(range(steps), loop, strict=False):
            pass

    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})  # what prepares the next batch must not have a core of its own
    best = fastest(rounds, {"ours": steps_of_ours, "bare": steps_in_memory})
    os.sched_setaffinity(0, cores)
    speed = f"{steps * size / best['ours']:.0f} triples/s"
    return [Row("training step", "the same step on tensors in memory", best["bare"] / best["ours"], 0.9, speed)]


def encode(parts: Parts, rounds: int) -> list[Row]:
    """Texts and spans → meaning vectors."""
    backbone = Backbone(BackboneSettings(model=parts.model), "cpu", threads=1)
    model = WordDistiller(backbone, WordModel(backbone.dimension))
    bare = AutoModel.from_pretrained(parts.model, dtype=torch.float32).eval()
    texts, spans = parts.texts, parts.spans
    batches = padded_batches(AutoTokenizer.from_pretrained(parts.model)(texts)["input_ids"])
    few = len(texts) // 8  # one at a time takes long

    def one_by_one() -> None:
        for item in zip(texts[:few], spans[:few], strict=True):
            model.encode(*item)

    contestants = {
        "ours": lambda: model.encode(texts, spans),
        "bare": lambda: call_on_all(bare, batches),
        "one": one_by_one,
    }
    best = fastest(rounds, contestants)
    speed = f"{len(texts) / best['ours']:.0f} texts/s"
    loop = best["one"] / few / (best["ours"] / len(texts))
    return [
        Row("encode", "the bare frozen model on ready-made batches", best["bare"] / best["ours"], 0.9, speed),
        Row("encode, many texts at once", "one text at a time", loop, None, speed),
    ]


def evaluation(parts: Parts, folder: str, few: int = 24) -> list[Row]:
    """Scores of WiC and SCWS, or what there is, against one item at a time padded to the model's whole input."""
    backbone = Backbone(BackboneSettings(model=parts.model), "cpu", threads=1)
    model = WordDistiller(backbone, WordModel(backbone.dimension))
    names = [name for name in ("wic", "scws", "usages") if (Path(folder) / name).is_dir()]
    tasks = find_tasks(folder, names)
    pairs = [pair for task in tasks for items in task.sets for pair in items.pairs]
    occurrences = {occurrence for pair in pairs for occurrence in pair.occurrences}
    texts = sorted(text for text, span in occurrences if span)
    ours = seconds(lambda: evaluate(model, "benchmark", folder, names))
    tokenizer = AutoTokenizer.from_pretrained(parts.model)
    bare = AutoModel.from_pretrained(parts.model, dtype=torch.float32).eval()
    chosen = [texts[index] for index in range(0, len(texts), max(1, len(texts) // few))]
    inputs = [
        tokenizer(text, padding="max_length", truncation=True, max_length=EVALUATION_WIDTH, return_tensors="pt")
        for text in chosen
    ]

    @torch.inference_mode()
    def one_at_a_time() -> None:
        for one in inputs:
            bare(**one, output_hidden_states=True)

    padded = seconds(one_at_a_time) / len(chosen) * len(texts)
    return [
        Row(
            f"evaluation of {' and '.join(names)}",
            f"one text at a time, padded to {EVALUATION_WIDTH}; reckoned from {len(chosen)} texts",
            padded / ours,
            10.0 if "wic" in names else None,
            f"{ours:.0f} s for {len(texts):,} words in context",
        )
    ]


def run(targets: int, plain_targets: int, rounds: int, eval_folder: str | None) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        rows = generate(folder, targets, plain_targets)
        rows += generate_in_batches(folder, plain_targets)
        parts = prepare(f"{folder}/all", targets, rules=RULES, masked={"masks": "piece"}, generate=UNITS)
        rows += features(parts, parts.store, rounds)
        rows += training(f"{folder}/mapped", rounds)
        rows += encode(parts, rounds)
        rows += evaluation(parts, eval_folder or str(_evaluation_data(folder)))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", type=int, default=400)
    parser.add_argument("--plain-targets", type=int, default=60, help="of the plain way, which takes its time")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--eval", help="folder with wic/ and scws/")
    arguments = parser.parse_args()
    for row in run(arguments.targets, arguments.plain_targets, arguments.rounds, arguments.eval):
        print(row)


if __name__ == "__main__":
    main()
