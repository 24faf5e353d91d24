"""Cores and starts: threads times processes on this machine, what a start costs, and rows that move without a copy.

    python -m benchmarks.cpu [--sentences 300]

A worker has one thread for each CPU it asks for, one by default: the table shows what other ways of using the same
cores would bring. Starts are those of fresh processes.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import psutil
import pyarrow as pa

from benchmarks.parts import Span, prepare
from benchmarks.rows import Curve, Found, Row, seconds
from corpusgen.engine.batch import Batch

STARTS = {
    "corpusgen --help": "import sys; sys.argv = ['corpusgen', '--help']; from corpusgen.cli import main; main()",
    "import distiller": "import distiller",
    "import of WordDistiller": "from distiller import WordDistiller",
    "import of the mask stage": "from corpusgen.corpus.triples.stages import MakeTriples",
    "masked LM, loaded": "from corpusgen.models.masked_lm import MaskedPredictor as MLM; MLM({model!r}, device='cpu')",
}
BARS = {"corpusgen --help": 0.5, "import distiller": 2.0}
"""Seconds."""


def predict(model: str, texts: list[str], spans: list[Span], threads: int, begin: float) -> tuple[float, float]:
    """When the sentences were begun and done, with the model loaded before."""
    import torch

    from corpusgen.models.masked_lm import MaskedPredictor

    torch.set_num_threads(threads)
    predictor = MaskedPredictor(model, device="cpu", threads=threads)
    predictor.predict(texts[:10], spans[:10])
    time.sleep(max(0.0, begin - time.time()))
    started = time.time()
    predictor.predict(texts, spans)
    return started, time.time()


def throughput(model: str, texts: list[str], spans: list[Span], threads: int, processes: int) -> float:
    """Sentences a second of so many processes, each with its share of the sentences."""
    shares = [slice(number, None, processes) for number in range(processes)]
    begin = time.time() + 12  # until all have loaded the model
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        jobs = [pool.submit(predict, model, texts[some], spans[some], threads, begin) for some in shares]
        times = [job.result() for job in jobs]
    return len(texts) / (max(end for _, end in times) - min(start for start, _ in times))


def threads_and_processes(model: str, texts: list[str], spans: list[Span]) -> Found:
    cores = psutil.cpu_count() or 1
    speeds = {
        (threads, processes): throughput(model, texts, spans, threads, processes)
        for threads, processes in dict.fromkeys([(1, 1), (cores, 1), (1, cores), (cores, cores)])
    }
    default = speeds[1, cores]
    rows = [
        Row(
            f"masked prediction, {cores} workers with one thread",
            f"{processes} with {threads}",
            default / speed,
            None,
            f"{default:.0f} sentences/s",
        )
        for (threads, processes), speed in speeds.items()
        if (threads, processes) != (1, cores)
    ]
    lines = {
        f"{threads} thread{'s' * (threads > 1)} each": [
            (float(processes), speed) for (each, processes), speed in speeds.items() if each == threads
        ]
        for threads in dict.fromkeys((1, cores))
    }
    return Found(rows, [Curve(f"masked prediction on {cores} cores", "processes", "sentences/s", lines)])


def start(code: str) -> float:
    """Seconds of a fresh process, the best of some."""
    command = [sys.executable, "-c", code]
    return min(seconds(lambda: subprocess.run(command, check=True, capture_output=True)) for _ in range(2))


def starts(model: str) -> list[Row]:
    nothing = start("pass")
    rows = []
    for name, code in STARTS.items():
        taken = start(code.replace("{model!r}", repr(model)))
        bar = BARS.get(name)
        rows.append(
            Row(
                f"start: {name}",
                f"its limit of {bar} s" if bar else "a bare python",
                (bar or nothing) / taken,
                1.0 if bar else None,
                f"{taken:.2f} s",
                f"a bare python takes {nothing:.2f} s",
            )
        )
    return rows


def moving_rows(rows: int = 10_000) -> list[Row]:
    """A batch on its way between processes: as Arrow's stream, read without a copy, against Python objects."""
    table = pa.table({"id": range(rows), "text": ["A sentence of some length, as they are in a corpus."] * rows})

    def ours() -> int:
        rebuild, streams = Batch(table).__reduce_ex__(5)
        before = pa.total_allocated_bytes()
        received = rebuild(*streams)
        assert received.num_rows == rows
        return int(pa.total_allocated_bytes() - before)

    def as_objects() -> object:
        return pa.Table.from_pylist(table.to_pylist(), table.schema)

    note = f"{ours():,} bytes copied by the reader, of {table.nbytes:,}"
    times = [(seconds(ours), seconds(as_objects)) for _ in range(9)]
    ratio = statistics.median(theirs / mine for mine, theirs in times)
    return [Row(f"{rows:,} rows from stage to stage", "the same as Python objects", ratio, None, "", note)]


def run(sentences: int) -> Found:
    with tempfile.TemporaryDirectory() as folder:
        parts = prepare(folder, sentences)
        found = threads_and_processes(parts.model, parts.texts, parts.spans)
        return Found(found.rows + starts(parts.model) + moving_rows(), found.curves)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=300)
    for row in run(parser.parse_args().sentences).rows:
        print(row)


if __name__ == "__main__":
    main()
