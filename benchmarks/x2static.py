"""A step of X2Static on one core, against plain PyTorch and against the memory's bandwidth.

    python -m benchmarks.x2static [--vocabularies 50000 750000] [--dimensions 384 768] [--rounds 9]

PyTorch's side is `nn.Embedding(sparse=True)` with `SparseAdam`, in one thread. It gets targets and negatives ready
made, while ours draws them within its time. Both start from the same vectors and take the same batches in turn, and
must end with the same vectors. Words follow Zipf's law, 24 to a sentence; a batch is 128 sentences or 128 paragraphs of
six. Figures are medians, in seconds of processor time.

A step must read and write the vector and both moments of every row it touches. The bandwidth is that of a copy of a
large array by numpy, measured in between; each byte counts twice, once read and once written.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, TypeVar

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

import numpy as np
import psutil
import torch
from torch.nn.functional import softplus

from benchmarks.rows import Row, seconds
from distiller.static.settings import X2StaticSettings
from distiller.static.x2static.kernel import sorted_entries
from distiller.static.x2static.sampling import Sampling
from distiller.static.x2static.sentences import Batch, Sentences, batch_of
from distiller.static.x2static.trainer import Prepared, ShardTrainer

WORDS_OF_A_SENTENCE, SENTENCES_OF_A_PARAGRAPH = 24, 6
CORPUS_WORDS = 1.28e9  # the paper's
COPIED = 1 << 28  # bytes: far more than any cache

T = TypeVar("T")


@dataclass(frozen=True)
class Case:
    """One size of the problem."""

    vocabulary: int
    dimension: int
    lines: str

    @property
    def bytes_needed(self) -> int:
        """Both tables with their moments, and what PyTorch makes in a step."""
        return 2 * 12 * self.vocabulary * self.dimension + 12_000 * 4 * 11 * self.dimension * 6


@dataclass(frozen=True)
class Measured:
    """Milliseconds of a step, and ratios."""

    targets: float
    rows: float
    torch: float
    ours: float
    drawing: float
    sorting: float
    training: float
    torch_in_ours: float
    gigabytes_per_second: float
    copy_gigabytes_per_second: float
    share_of_copy: float
    """Of the training of rows alone."""


def counts_of(vocabulary: int) -> np.ndarray:
    """Counts by Zipf's law."""
    inverse = 1 / np.arange(1, vocabulary + 1)
    return np.maximum(1, CORPUS_WORDS * inverse / inverse.sum()).astype(np.int64)


def made_up(case: Case, settings: X2StaticSettings, counts: np.ndarray, batches: int) -> Sentences:
    """So many batches of random text."""
    chance = np.random.default_rng(0)
    per_line = SENTENCES_OF_A_PARAGRAPH if case.lines == "paragraphs" else 1
    lines = settings.batch_lines * batches
    sentences = lines * per_line
    places = chance.random(sentences * WORDS_OF_A_SENTENCE) * counts.sum()
    return Sentences(
        contexts=(0.3 * chance.standard_normal((sentences, case.dimension), np.float32)).astype(np.float16),
        tokens=np.searchsorted(np.cumsum(counts), places, side="right").astype(np.int32),
        offsets=np.arange(sentences + 1) * WORDS_OF_A_SENTENCE,
        line_offsets=np.arange(lines + 1) * per_line,
    )


class PlainTorch:
    """The same step as anyone would write it."""

    def __init__(self, settings: X2StaticSettings, vectors: np.ndarray) -> None:
        words, dimension = vectors.shape
        self.table = torch.nn.Embedding(words, dimension, sparse=True)
        with torch.no_grad():
            self.table.weight.copy_(torch.from_numpy(vectors))
        betas = (settings.beta1, settings.beta2)
        self.optimizer = torch.optim.SparseAdam(
            self.table.parameters(), lr=settings.learning_rate, betas=betas, eps=settings.epsilon
        )

    def step(self, contexts: torch.Tensor, sentence: torch.Tensor, words: torch.Tensor) -> float:
        """Train on targets and negatives (N, 1 + K)."""
        self.optimizer.zero_grad()
        c = contexts[sentence]
        of_targets = (self.table(words[:, 0]) * c).sum(-1).clamp(-20, 20)
        of_negatives = torch.einsum("nkd,nd->nk", self.table(words[:, 1:]), c).clamp(-20, 20)
        loss = softplus(-of_targets).mean() + softplus(of_negatives).mean(0).sum()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def touch_moments(self) -> None:
        """See to it that all memory of the moments is there, as it is on our side, and after many steps anyway."""
        for moment in self.optimizer.state[self.table.weight].values():
            if isinstance(moment, torch.Tensor):
                moment.mul_(1.0)


class Times:
    """Seconds of processor time by name."""

    def __init__(self) -> None:
        self._found: dict[str, list[float]] = {}

    def time(self, name: str, work: Callable[..., T], *arguments: Any) -> T:
        """Do some work and note how long it takes."""
        results: list[T] = []
        taken = seconds(lambda: results.append(work(*arguments)), time.process_time)
        self._found.setdefault(name, []).append(taken)
        return results[0]

    def milliseconds(self) -> dict[str, float]:
        """The medians, without the first two of each."""
        return {name: 1000 * median(found[2:]) for name, found in self._found.items()}


def measure(case: Case, rounds: int) -> Measured:
    """Measure one case. Rounds after the first two count."""
    settings, counts = X2StaticSettings(), counts_of(case.vocabulary)
    sentences = made_up(case, settings, counts, rounds + 2)
    batches = [batch_of(sentences, settings, step) for step in range(rounds + 2)]
    trainer, sampling, times = ShardTrainer(settings, counts, case.dimension), Sampling.of(settings, counts), Times()
    compare(trainer, sampling, batches, times)
    drawn = [take_apart(trainer, sampling, batch, times) for batch in batches]
    found = times.milliseconds()
    rows = median(len(np.unique(words)) for words in drawn)
    speed = 2 * 12 * case.dimension * rows / found["training"] / 1e6
    copying = 2 * COPIED / found.pop("copying") / 1e6
    return Measured(
        targets=median(map(len, drawn)),
        rows=rows,
        torch_in_ours=found["torch"] / found["ours"],
        gigabytes_per_second=speed,
        copy_gigabytes_per_second=copying,
        share_of_copy=speed / copying,
        **found,
    )


def compare(trainer: ShardTrainer, sampling: Sampling, batches: Sequence[Batch], times: Times) -> None:
    """Let both do the same steps in turn, and check that they come to the same vectors."""
    plain = PlainTorch(trainer.settings, trainer.vectors)
    original, copy = np.ones(COPIED, np.uint8), np.ones(COPIED, np.uint8)
    for batch in batches:
        candidates, words = sampling.draw(batch)
        ready = (batch.contexts, batch.sentence[candidates].astype(np.int64), words)
        times.time("torch", plain.step, *map(torch.from_numpy, ready))
        times.time("ours", trainer.step, batch)
        times.time("copying", np.copyto, copy, original)
        if batch.step == 0:
            plain.touch_moments()
    difference = float(np.abs(trainer.vectors - plain.table.weight.detach().numpy()).max())
    if difference > 1e-4:
        raise SystemExit(f"the vectors are not PyTorch's: they differ by {difference:.1e}")


def take_apart(trainer: ShardTrainer, sampling: Sampling, batch: Batch, times: Times) -> np.ndarray:
    """Time the parts of our step, on vectors that are trained further; return targets and negatives."""
    candidates, words = times.time("drawing", sampling.draw, batch)
    entries = times.time("sorting", sorted_entries, words, 0, 1, trainer.vocabulary)
    prepared = Prepared(trainer.steps, batch.contexts, batch.sentence[candidates], entries)
    times.time("training", trainer.train, prepared)
    return words


def run(vocabularies: Sequence[int], dimensions: Sequence[int], rounds: int) -> list[Row]:
    """Every case for which there is memory."""
    torch.set_num_threads(1)
    rows = []
    for vocabulary in vocabularies:
        for dimension in dimensions:
            for lines in ("sentences", "paragraphs"):
                case = Case(vocabulary, dimension, lines)
                name = f"X2Static, {vocabulary:,} words, {dimension} dimensions, {lines}"
                if case.bytes_needed > psutil.virtual_memory().available:
                    print(f"{name}: left out, it needs {case.bytes_needed / 1e9:.0f} GB")
                    continue
                found = measure(case, rounds)
                print(name, json.dumps({key: round(value, 2) for key, value in asdict(found).items()}), flush=True)
                note = f"{found.share_of_copy:.2f} of the bandwidth of a copy"
                speed = f"{found.targets / found.ours:.0f} thousand targets/s"
                rows.append(Row(name, "nn.Embedding and SparseAdam", found.torch_in_ours, 10.0, speed, note))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocabularies", type=int, nargs="+", default=[50_000, 750_000])
    parser.add_argument("--dimensions", type=int, nargs="+", default=[384, 768])
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    for row in run(arguments.vocabularies, arguments.dimensions, arguments.rounds):
        print(f"{row.name}: {row.ratio:.1f} × {row.opponent} (wanted {row.bar}); {row.ours}; {row.note}")


if __name__ == "__main__":
    main()
