"""Encoding words: speed against the bare model and against one text at a time; memory of a long stream.

    python -m benchmarks.encode --model FOLDER --text 'PATH/wiki_*.gz' [--wic FOLDER] [--stream 1000000]

The bare model gets all texts ready-made in batches sorted by length. Contestants take turns in several rounds; a figure
is the median of the rounds' ratios. What batches bring depends on length: WiC's texts are short. The stream is of
short texts through a tiny encoder with random weights.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")

import psutil
import torch

from benchmarks.baselines.bare import call_on_all, padded_batches
from benchmarks.masked import Span, targets
from distiller.evaluation.word_files import read_wic
from distiller.inference.word_distiller import WordDistiller
from distiller.settings import BackboneSettings
from distiller.words.backbone import Backbone
from distiller.words.model import WordModel
from tests.testing import triple_builds as support


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def speed(model: str, texts: list[str], spans: list[Span], rounds: int) -> dict[str, float]:
    from transformers import AutoModel

    backbone = Backbone(BackboneSettings(model=model), "cpu", threads=1)
    distiller = WordDistiller(backbone, WordModel(backbone.dimension))
    bare = AutoModel.from_pretrained(model, dtype=torch.float32).eval()
    batches = padded_batches([encoding.ids for encoding in backbone._backend.encode_batch(texts)], 1024)
    some = len(texts) // 8  # one at a time takes long
    against_bare, against_loop, rates = [], [], []
    for _ in range(rounds):
        of_bare = timed(lambda: call_on_all(bare, batches))
        ours = timed(lambda: distiller.encode(texts, spans))
        loop = timed(lambda: [distiller.encode(*item) for item in zip(texts[:some], spans[:some], strict=True)])
        against_bare.append(of_bare / ours)
        against_loop.append(loop / some / (ours / len(texts)))
        rates.append(len(texts) / ours)
    return {
        "texts/s": statistics.median(rates),
        "speed against the bare model": statistics.median(against_bare),
        "speed against one text at a time": statistics.median(against_loop),
    }


def stream(count: int) -> dict[str, float]:
    """Resident memory after some and after all of a stream's texts."""
    words = support.vocabulary()

    def items() -> Iterator[tuple[str, Span]]:
        """All different: the same text would be encoded once for many."""
        for number in range(count):
            chosen = [words[number // len(words) ** digit % len(words)] for digit in range(4)]
            yield " ".join(chosen), (0, len(chosen[0]))

    with tempfile.TemporaryDirectory() as folder:
        backbone = Backbone(BackboneSettings(model=support.write_masked_lm(folder)), "cpu", threads=1)
        model = WordDistiller(backbone, WordModel(backbone.dimension, heads=4))
        memory, started = {}, time.perf_counter()
        for number, _ in enumerate(model.encode_stream(items()), 1):
            if number in (count // 10, count):
                memory[number] = psutil.Process().memory_info().rss / 1e6
    return {
        "texts": count,
        "texts/s": count / (time.perf_counter() - started),
        "MB after a tenth": memory[count // 10],
        "MB after all": memory[count],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="folder of an encoder")
    parser.add_argument("--text", required=True, help="glob of WikiExtractor files, gzipped")
    parser.add_argument("--wic", help="folder with train.data.txt and train.gold.txt")
    parser.add_argument("--sentences", type=int, default=800)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--stream", type=int, default=0, help="how many short texts to stream; 0: none")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    texts, spans = targets(arguments.text, arguments.sentences)
    result: dict[str, object] = {"Wikipedia": speed(arguments.model, texts, spans, arguments.rounds)}
    if arguments.wic:
        pairs = read_wic(*(Path(arguments.wic, f"train.{kind}.txt") for kind in ("data", "gold"))).pairs
        words = [pair.occurrences[0] for pair in pairs[: 2 * arguments.sentences]]
        short = [(text, span) for text, span in words if span]
        texts, spans = [text for text, _ in short], [span for _, span in short]
        result["WiC"] = speed(arguments.model, texts, spans, arguments.rounds)
    if arguments.stream:
        result["stream"] = stream(arguments.stream)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
