"""Harvest and sampling: speed per core, and memory that does not grow with the input.

    python -m benchmarks.harvest --text 'PATH/wiki_*.gz' [--stanza MODEL_DIR]

Each figure comes from a process of its own with one thread.
"""

from __future__ import annotations

import argparse
import glob
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

MB = 1e6
_TARGETS_PER_MB = 500


def peak_mb() -> float:
    """Of this process. What getrusage says is the parent's, if that was larger when it started this one."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")) / 1024


def read_texts(pattern: str, most: float) -> list[str]:
    """Paragraphs of WikiExtractor files, about so many bytes."""
    texts: list[str] = []
    size = 0
    for path in sorted(glob.glob(pattern)):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            lines = [line.strip() for line in file if line.strip() and not line.startswith(("<doc", "</doc"))]
        texts += lines
        size += sum(map(len, lines))
        if size > most:
            break
    return texts


def sentences(pattern: str, megabytes: float, segmenter: str, model_dir: str | None) -> dict[str, float]:
    """Extracted text → filtered sentences: megabytes of text per second of processor time."""
    from corpusgen.engine.batch import Batch
    from corpusgen.engine.isolate import run_stage
    from corpusgen.tables import PARAGRAPHS
    from corpusgen.text.filters import FilterSentences
    from corpusgen.text.language import IdentifyLanguage
    from corpusgen.text.segment import SegmentSentences

    provenance = {"source": "s", "article": "1", "title": "T", "revision": None}
    texts = read_texts(pattern, megabytes * MB)
    rows = [{**provenance, "paragraph": number, "text": text} for number, text in enumerate(texts)]
    batch = Batch(pa.Table.from_pylist(rows, PARAGRAPHS))
    stages = [IdentifyLanguage(), SegmentSentences(segmenter, "en", model_dir), FilterSentences()]
    batch_of_few = batch.slice(0, 500)
    for stage in stages:
        stage.setup()
        batch_of_few = run_stage(stage, batch_of_few)  # models load and caches fill when they are first used
    size = sum(len(text.encode()) for text in texts) / MB
    result: dict[str, float] = {"megabytes": size}
    total = time.process_time()
    for stage in stages:
        started = time.process_time()
        batch = run_stage(stage, batch)
        result[f"{stage.name}_seconds"] = time.process_time() - started
    result["mb_per_second"] = size / (time.process_time() - total)
    result["sentences"] = batch.num_rows
    return result


def harvest_and_sample(text_file: str, megabytes: float) -> dict[str, float]:
    """Harvest and sampling of so many megabytes in one compressed stream, made of a file of text over and over.

    In each copy all sentences begin differently: the same ones again would cost nothing.
    """
    from corpusgen.config.build import BuildConfig
    from corpusgen.corpus.build import build
    from corpusgen.engine import LocalExecutor

    text = Path(text_file).read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "text.gz"
        with gzip.open(path, "wb", compresslevel=1) as file:
            for copy in range(max(1, round(megabytes * MB / len(text)))):
                file.write(b"".join(b"As part %d tells, %s" % (copy, line) for line in text.splitlines(keepends=True)))
        source = {"kind": "text", "paths": [str(path)], "unit_bytes": 2 << 20}
        sample = {"size": max(1, int(_TARGETS_PER_MB * megabytes)), "vocabulary": 5000}
        config = BuildConfig.model_validate({"store": f"{folder}/store", "source": source, "sample": sample})
        found = {"megabytes": megabytes}
        for name in ("harvest", "sample"):
            started = time.perf_counter()
            build(config, LocalExecutor(), until=name)
            found |= {f"{name}_seconds": time.perf_counter() - started, f"{name}_peak_mb": peak_mb()}
    return found


def sampling(candidates: int) -> dict[str, float]:
    """Merging and selecting so many candidates."""
    from corpusgen.tables import CANDIDATES
    from corpusgen.targets.sampling import select

    random = np.random.default_rng(0)
    words = np.array([f"word{n}" for n in range(50_000)])
    table = pa.table(
        {
            "word": words[random.integers(0, len(words), candidates)],
            "priority": random.integers(0, 2**63, candidates).astype(np.uint64),
            "sentence": [f"{n:024x}" for n in random.integers(0, candidates, candidates)],
            "start": np.zeros(candidates, np.int32),
            "end": np.ones(candidates, np.int32),
        },
        schema=CANDIDATES,
    )
    started = time.perf_counter()
    chosen = select([table], candidates // 3, 0, 80).num_rows
    return {"candidates": candidates, "chosen": chosen, "seconds": time.perf_counter() - started, "peak_mb": peak_mb()}


def in_own_process(name: str, *arguments: object) -> dict[str, float]:
    code = f"import json; from benchmarks.harvest import {name}; print(json.dumps({name}(*{arguments!r})))"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment)
    result: dict[str, float] = json.loads(output.stdout.splitlines()[-1])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", required=True, help="glob of WikiExtractor files, gzipped")
    parser.add_argument("--stanza", help="folder of Stanza's models")
    parser.add_argument("--large", type=float, default=400, help="megabytes of the large input")
    arguments = parser.parse_args()
    runs = [in_own_process("sentences", arguments.text, 10, "rules", None) for _ in range(5)]
    results = {"rules, best of five": max(runs, key=lambda run: run["mb_per_second"])}
    results["rules, all"] = {f"mb_per_second_{number}": run["mb_per_second"] for number, run in enumerate(runs)}
    if arguments.stanza:
        results["stanza"] = in_own_process("sentences", arguments.text, 0.1, "stanza", arguments.stanza)
    with tempfile.NamedTemporaryFile() as sample:
        Path(sample.name).write_text("\n".join(read_texts(arguments.text, 5 * MB)) + "\n", encoding="utf-8")
        results["memory, small input"] = in_own_process("harvest_and_sample", sample.name, 5)
        results["memory, large input"] = in_own_process("harvest_and_sample", sample.name, arguments.large)
    results["sampling"] = in_own_process("sampling", 1_000_000)
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
