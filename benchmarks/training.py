"""Training: what reading costs, what online states cost, and what a second worker brings.

    python -m benchmarks.training [--model FOLDER --text 'PATH/wiki_*.gz'] [--layers 3 --dimension 384]

Cached: triples a second of our loop on features in a mapped file, against the same step on tensors in memory. Online
(with a model): triples a second of states as training asks for them, against the bare model on all texts ready-made in
batches sorted by length. Workers: two processes with one thread each against one. Contestants take turns in several
rounds; a figure is the median of the rounds' ratios.
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
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")

import numpy as np
import pyarrow as pa
import torch
import torch.distributed as dist
import torch.multiprocessing as processes
from torch.nn.parallel import DistributedDataParallel

from benchmarks.masked import call_on_all, padded_batches, targets
from distiller.data import FeatureChunk, MappedFeatures
from distiller.model import TrainingPlace
from distiller.settings import BackboneSettings, TrainSettings
from distiller.training import Training


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
    ratios, rates = [], []
    for _ in range(rounds):
        started = time.perf_counter()
        for step, states in enumerate(in_memory):
            bare._step(states, TrainingPlace(0, step), batch_size)
        middle = time.perf_counter()
        for _ in islice(loop, steps):
            pass
        ended = time.perf_counter()
        ratios.append((middle - started) / (ended - middle))
        rates.append(steps * batch_size / (ended - middle))
    return {"triples/s": statistics.median(rates), "speed against memory": statistics.median(ratios)}


def online_ratio(arguments: argparse.Namespace) -> dict[str, float]:
    from transformers import AutoModel

    from distiller.backbone import Backbone
    from distiller.features import WORDS
    from distiller.online import OnlineFeatures

    backbone = Backbone(BackboneSettings(model=arguments.model), "cpu", threads=1)
    model = AutoModel.from_pretrained(arguments.model, dtype=torch.float32).eval()
    texts, spans = targets(arguments.text, 3 * arguments.online_triples)
    count = len(texts) // 3
    columns: dict[str, Any] = {}
    for number, (text, start, end) in enumerate(WORDS.values()):
        some = slice(number * count, (number + 1) * count)
        columns |= {text: texts[some], start: [a for a, _ in spans[some]], end: [b for _, b in spans[some]]}
    source = OnlineFeatures(pa.table(columns), np.array([b""] * count), backbone)
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


def train_in_process(rank: int, workers: int, port: int, folder: str, arguments: argparse.Namespace, out: Any) -> None:
    torch.set_num_threads(1)
    if workers > 1:
        dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=workers)
    training = Training(settings(arguments.batch_size), features(folder, arguments), rank, workers)
    loop = training.steps(lambda step: 4e-5)
    for _ in islice(loop, 5):
        pass
    started = time.perf_counter()
    for _ in islice(loop, arguments.steps):
        pass
    whole = (time.perf_counter() - started) / arguments.steps
    alone, talk = whole, 0.0
    if workers > 1:
        assert isinstance(training._model, DistributedDataParallel)
        with training._model.no_sync():
            alone = _seconds_each(arguments.steps, lambda: next(loop))
        gradients = torch.zeros(sum(parameter.numel() for parameter in training.model.parameters()))
        talk = _seconds_each(arguments.steps, lambda: dist.all_reduce(gradients))
    if rank == 0:
        out.put((arguments.batch_size / whole, 1e3 * whole, 1e3 * alone, 1e3 * talk))


def _seconds_each(count: int, work: Callable[[], object]) -> float:
    started = time.perf_counter()
    for _ in range(count):
        work()
    return (time.perf_counter() - started) / count


def rate_with(workers: int, folder: str, arguments: argparse.Namespace) -> tuple[float, ...]:
    """Triples a second; milliseconds of a step, of one whose gradients stay where they are, of sending them."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    context = processes.get_context("spawn")
    out = context.SimpleQueue()
    processes.spawn(train_in_process, (workers, port, folder, arguments, out), nprocs=workers)
    found: tuple[float, ...] = out.get()
    return found


def measured_workers(folder: str, arguments: argparse.Namespace) -> dict[str, float]:
    """Two workers that share the batch of one, two with such a batch each, and two trainings apart, against one.

    Two trainings apart show what the machine itself permits.
    """
    one, step_of_one, *_ = rate_with(1, folder, arguments)
    shared, whole, alone, talk = rate_with(2, folder, arguments)
    doubled = argparse.Namespace(**{**vars(arguments), "batch_size": 2 * arguments.batch_size})
    full = rate_with(2, folder, doubled)[0]
    with ThreadPoolExecutor(2) as pool:
        apart = sum(rate for rate, *_ in pool.map(lambda _: rate_with(1, folder, arguments), range(2)))
    return {
        "triples/s of one": one,
        "two with half its batch each against it": shared / one,
        "two with its batch each against it": full / one,
        "two that do not talk against it": apart / one,
        "ms of a step of one": step_of_one,
        "ms of a step of two with half its batch each": whole,
        "ms of such a step without talk of gradients": alone,
        "ms of that talk by itself": talk,
    }


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
        result["cached"] = {
            "bytes/triple": size // len(mapped),
            **cached_ratio(mapped, arguments.steps, arguments.rounds, arguments.batch_size),
        }
        if arguments.model:
            result["online"] = online_ratio(arguments)
        rounds = [measured_workers(folder, arguments) for _ in range(arguments.rounds)]
        result["workers"] = {name: statistics.median(found[name] for found in rounds) for name in rounds[0]}
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
