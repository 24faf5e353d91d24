"""Training: what reading costs, what online states cost, and what a second worker brings.

    python -m benchmarks.training [--model FOLDER --text 'PATH/wiki_*.gz'] [--layers 3 --dimension 384]

Cached: triples a second of our loop on features in a mapped file, against the same step on tensors in memory. Online
(with a model): triples a second of states as training asks for them, against the bare model on all texts ready-made in
batches sorted by length; both on one core. Workers: two processes with a core each against one. Contestants take turns
in several rounds; a figure is the median of the rounds' ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")

import numpy as np
import pyarrow as pa
import torch
import torch.distributed as dist
import torch.multiprocessing as processes
from torch.nn.parallel import DistributedDataParallel

from benchmarks.baselines.bare import call_on_all, padded_batches
from benchmarks.masked import targets
from distiller.settings import BackboneSettings, TrainSettings
from distiller.training.data import FeatureChunk, MappedFeatures
from distiller.training.loop import Training
from distiller.words.model import TrainingPosition
from distiller.words.row_facts import BatchFacts


def settings(batch_size: int) -> TrainSettings:
    return TrainSettings.model_validate(
        {"corpus": "", "output": "", "backbone": {"model": ""}, "batch_size": batch_size, "warmup_steps": 1}
    )


def chunks(rows: int, layers: int, dimension: int) -> Iterator[FeatureChunk]:
    random = np.random.default_rng(0)
    for start in range(0, rows, 1000):
        states = random.normal(size=(1000, 3, layers, dimension)).astype(np.float16)
        yield FeatureChunk([f"sentence {start + n}" for n in range(1000)], states)


def features(folder: str, arguments: argparse.Namespace) -> MappedFeatures:
    return MappedFeatures.open(folder, "bench", lambda: chunks(arguments.rows, arguments.layers, arguments.dimension))


def cached_ratio(mapped: MappedFeatures, steps: int, rounds: int, batch_size: int) -> dict[str, float]:
    ours, bare = Training(settings(batch_size), mapped), Training(settings(batch_size), mapped)
    loop = ours.steps(lambda step: 4e-5)
    next(loop)
    in_memory = [mapped.batch(np.arange(n * batch_size, (n + 1) * batch_size)) for n in range(steps)]
    facts = BatchFacts.of(mapped.facts[:batch_size])
    ratios, rates = [], []
    for _ in range(rounds):
        started = time.perf_counter()
        for step, states in enumerate(in_memory):
            bare._step(states, facts, TrainingPosition(0, step), batch_size)
        middle = time.perf_counter()
        for _ in islice(loop, steps):
            pass
        ended = time.perf_counter()
        ratios.append((middle - started) / (ended - middle))
        rates.append(steps * batch_size / (ended - middle))
    return {"triples/s": statistics.median(rates), "speed against memory": statistics.median(ratios)}


def online_ratio(arguments: argparse.Namespace) -> dict[str, float]:
    from transformers import AutoModel

    from corpusgen.store.products import WORDS
    from distiller.training.online import OnlineFeatures
    from distiller.words.backbone import Backbone

    backbone = Backbone(BackboneSettings(model=arguments.model), "cpu", threads=1)
    model = AutoModel.from_pretrained(arguments.model, dtype=torch.float32).eval()
    texts, spans = targets(arguments.text, 3 * arguments.online_triples)
    count = len(texts) // 3
    columns: dict[str, Any] = {}
    for number, (text, start, end) in enumerate(member.columns for member in WORDS.members):
        some = slice(number * count, (number + 1) * count)
        columns |= {text: texts[some], start: [a for a, _ in spans[some]], end: [b for _, b in spans[some]]}
    source = OnlineFeatures(pa.table(columns), WORDS, np.array([b""] * count), backbone)
    encoded = backbone._backend.encode_batch(texts[: 3 * count])
    batches = padded_batches([encoding.ids for encoding in encoded], 1024)
    ratios, rates = [], []
    size = arguments.batch_size
    for _ in range(arguments.rounds):
        started = time.perf_counter()
        call_on_all(model, batches)
        middle = time.perf_counter()
        for first in range(0, count, size):
            source.batch(np.arange(first, min(first + size, count)))
        ended = time.perf_counter()
        ratios.append((middle - started) / (ended - middle))
        rates.append(count / (ended - middle))
    return {"triples/s": statistics.median(rates), "speed against the bare model": statistics.median(ratios)}


class Spent(NamedTuple):
    """Milliseconds of a step; the rest of the time a process waits, for the other or for a core that others use."""

    time: float
    computing: float


def measured_workers(folder: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """What a second worker brings, and where the rest of its core goes, by contestants that take turns.

    Two trainings apart show what the machine itself permits; a step with half the batch what does not become less with
    fewer rows; workers that keep their gradients to themselves how much they wait for each other.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    out = processes.get_context("spawn").SimpleQueue()
    processes.spawn(take_turns, (port, folder, arguments, out), nprocs=2)  # type: ignore[attr-defined]
    rounds: list[dict[str, Spent]] = out.get()

    def against_one(contestant: str, batches: int) -> float:
        return statistics.median(batches * found["one"].time / found[contestant].time for found in rounds)

    return {
        "two that share its batch against one": against_one("two that share its batch", 1),
        "two with its batch each against it": against_one("two with its batch each", 2),
        "two that do not talk against it": against_one("two apart", 2),
        "ms of a step": {name: statistics.median(found[name].time for found in rounds) for name in rounds[0]},
        "of them computing": {name: statistics.median(found[name].computing for found in rounds) for name in rounds[0]},
    }


def take_turns(rank: int, port: int, folder: str, arguments: argparse.Namespace, out: Any) -> None:
    """The part of one of two processes, with a core each; the first says how long a step of each contestant took."""
    os.sched_setaffinity(0, {cores()[rank]})
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    mapped, size = features(folder, arguments), arguments.batch_size
    whole, half = (Training(settings(rows), mapped) for rows in (size, size // 2))
    shared, doubled = (Training(settings(rows), mapped, rank, 2) for rows in (size, 2 * size))
    assert isinstance(shared._model, DistributedDataParallel)
    loops = {training: training.steps(lambda step: 4e-5) for training in (whole, half, shared, doubled)}
    for loop in loops.values():
        list(islice(loop, 3))
    gradients = torch.zeros(sum(parameter.numel() for parameter in shared.model.parameters()))

    def spent(work: Callable[[], object], alone: bool = False) -> Spent:
        dist.barrier()
        began = time.perf_counter(), time.process_time()
        for _ in range(0 if alone and rank else arguments.steps):
            work()
        ended = time.perf_counter(), time.process_time()
        return Spent(*(1e3 * (end - begin) / arguments.steps for begin, end in zip(began, ended, strict=True)))

    rounds = []
    for _ in range(arguments.rounds):
        found = {
            "one": spent(lambda: next(loops[whole]), alone=True),
            "one with half the batch": spent(lambda: next(loops[half]), alone=True),
            "two apart": spent(lambda: next(loops[whole])),
            "two apart with half the batch each": spent(lambda: next(loops[half])),
            "two that share its batch": spent(lambda: next(loops[shared])),
            "two with its batch each": spent(lambda: next(loops[doubled])),
            "sending gradients and nothing else": spent(lambda: dist.all_reduce(gradients)),
        }
        with shared._model.no_sync():
            found["two that share its batch but not their gradients"] = spent(lambda: next(loops[shared]))
        rounds.append(found)
    if rank == 0:
        out.put(rounds)


def cores() -> list[int]:
    return sorted(os.sched_getaffinity(0))


@contextmanager
def one_core() -> Iterator[None]:
    """Nothing started within runs elsewhere: not even the thread that reads ahead."""
    all_of_them = cores()
    os.sched_setaffinity(0, all_of_them[:1])
    yield
    os.sched_setaffinity(0, all_of_them)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="folder of an encoder, for the online states")
    parser.add_argument("--text", help="glob of WikiExtractor files, gzipped, for the online states")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--online-triples", type=int, default=384)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        mapped = features(folder, arguments)
        size = sum(path.stat().st_size for path in Path(folder).rglob("states.f16"))
        with one_core():
            result["cached"] = {
                "bytes/triple": size // len(mapped),
                **cached_ratio(mapped, arguments.steps, arguments.rounds, arguments.batch_size),
            }
            if arguments.model:
                result["online"] = online_ratio(arguments)
        result["workers"] = measured_workers(folder, arguments)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
