"""A driver process for tests: runs the demonstration pass and exits as the command line would.

python -m tests.corpusgen.engine.drive ROOT EXECUTOR [--point POINT] [--set name=value …]
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from pathlib import Path

from corpusgen.engine import LocalExecutor, RunSettings
from corpusgen.engine.passes import run_pass
from corpusgen.engine.progress import Lines
from corpusgen.engine.ray_executor import RayExecutor
from corpusgen.errors import CorpusgenError
from corpusgen.store import Store
from tests.testing.demo_pass import demo_pass
from tests.testing.faults import faulty_store


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("executor", choices=["local", "ray"])
    parser.add_argument("--point")
    parser.add_argument("--run", default="{}")
    parser.add_argument("--pass", dest="pass_settings", default="{}")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO)
    pass_settings = json.loads(arguments.pass_settings)
    if arguments.point:
        store = faulty_store(Path(arguments.root), arguments.point, os.getpid(), **pass_settings)
    else:
        store = Store.at(arguments.root)
    settings = RunSettings(**json.loads(arguments.run))
    executors = {"local": LocalExecutor, "ray": RayExecutor}
    try:
        store.ensure_corpus({"passes": ["demo"]})
        run_pass(
            demo_pass(**pass_settings),
            store.pass_store("demo"),
            executors[arguments.executor](settings, Lines()),
            settings,
        )
    except CorpusgenError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
