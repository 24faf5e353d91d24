"""Train the word model inside the package, `embedded:minilm-wic`, on text of Wikipedia.

    python tools/train_embedded_distiller.py --text 'extracted/*.gz' --eval eval

The text is what WikiExtractor writes, or with `--kind mediawiki` a dump. The script makes pairs of one word in one
article (configs/wikipedia_en_discourse.yaml), trains over the embedded encoder (configs/distill_contrast.yaml), scores
the model in half precision, as it is shipped, and writes it into the package with its card. Each step is a command of
ours, printed before it runs. All they make is in `--folder`; running the script again resumes there.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from safetensors.torch import load, save

from corpusgen.models.embedded import BASE_PACKAGE, PREFIX
from corpusgen.store import Store
from corpusgen.store.products import DISCOURSE
from distiller import __version__
from distiller.embedded import HERE
from distiller.words.saved import SavedModel, load_saved, write_saved

NAME = "minilm-wic"
CONFIGS = Path(__file__).parents[1] / "configs"
ENOUGH = 100_000  # pairs; with fewer, the card says that it was a trial


def in_half_precision(saved: SavedModel) -> SavedModel:
    """Return the model with its matrices in half precision; loading makes them single again."""
    weights = {name: value.half() if value.ndim > 1 else value for name, value in load(saved.weights).items()}
    return replace(saved, weights=save(weights))


def with_origin(saved: SavedModel, pairs: int, articles: int) -> SavedModel:
    """Return the model with a card and a configuration that say what it was trained on instead of naming a folder."""
    trained_on = f"{pairs:,} pairs of one word in one article, from {articles:,} articles of English Wikipedia"
    config = {**saved.config, "training": {**saved.config["training"], "corpus": trained_on}}
    card = saved.card.replace("library_name: wicdistil\n", "library_name: wicdistil\nlicense: apache-2.0\n", 1)
    steps, batch = saved.config["validation"]["step"], saved.config["training"]["batch_size"]
    trial = "" if pairs >= ENOUGH else f"\n**A trial with fewer than {ENOUGH:,} pairs: not the model to use.**\n"
    return replace(saved, config=config, card=card.rstrip() + f"""
{trial}
## Origin and licence

- **Frozen model**: all-MiniLM-L6-v2 as the package `{BASE_PACKAGE}` has it (6 layers, 384 dimensions, English in lower
  case; Apache-2.0). It is not part of this model.
- **Trained on** {trained_on} (CC BY-SA 4.0),
  {steps:,} steps of {batch} pairs, by `tools/train_embedded_distiller.py` of wicdistil {__version__}. The weights are
  stored in half precision, and scored like that.
- **Meant for** trying things without a model hub, and for tests. The frozen model is small: for work that matters,
  train on a larger one.
- **Licence of the weights**: Apache-2.0, as the frozen model. They contain no text of Wikipedia.
""")  # fmt: skip


def run(module: str, *arguments: str) -> None:
    """Run a command of ours; end with its exit code if it fails."""
    print("\n$", shlex.join([module.partition(".")[0], *arguments]), flush=True)
    ended = subprocess.run([sys.executable, "-m", module, *arguments], check=False)
    if ended.returncode:
        sys.exit(ended.returncode)


def setting(key: str, value: Any) -> list[str]:
    """Return the option that changes a setting; JSON is also YAML."""
    return ["--set", f"{key}={json.dumps(value)}"]


def train(arguments: argparse.Namespace) -> None:
    corpus, trained, model = (f"{arguments.folder}/{name}" for name in ("corpus", "run", "model"))
    source = [*setting("source.kind", arguments.kind), *setting("source.paths", arguments.text)]
    size = setting("discourse.size", arguments.pairs)
    run("corpusgen.cli", "build", f"{CONFIGS}/wikipedia_en_discourse.yaml", *setting("store", corpus), *source, *size)
    places = [*setting("corpus", corpus), *setting("output", trained)]
    changed = [option for override in arguments.set for option in ("--set", override)]
    frozen = setting("backbone.model", f"{PREFIX}minilm")
    run("distiller.cli", "train", f"{CONFIGS}/distill_contrast.yaml", *places, *frozen, *changed)
    ids = DISCOURSE.open(Store.at(corpus)).to_table(["id"])["id"].to_pylist()
    articles = {DISCOURSE.group_of(id_) for id_ in ids}
    write_saved(model, with_origin(in_half_precision(load_saved(trained)), len(ids), len(articles)))
    if arguments.eval:
        run("distiller.cli", "evaluate", model, "--data", arguments.eval, "--card")
    write_saved(arguments.output, load_saved(model))
    print(f"\n{arguments.output}: {len(ids):,} pairs, {len(load_saved(model).weights) / 1e6:.1f} MB")
    if len(ids) < ENOUGH:
        print(f"fewer than {ENOUGH:,} pairs: the card calls it a trial; give more text, or raise --pairs")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", nargs="+", required=True, help="files or globs, plain or compressed", metavar="PATH")
    parser.add_argument("--kind", default="wikiextractor", help="source.kind of the text")
    parser.add_argument("--pairs", type=int, default=ENOUGH, help="how many to make; 18 kB of disk each, twice")
    parser.add_argument("--eval", help="folder of benchmarks; their scores go into the card", metavar="FOLDER")
    parser.add_argument("--folder", default=f"runs/{NAME}", help="where the corpus and the training are")
    parser.add_argument("--output", default=str(HERE / NAME), help="where the model goes; default: into the package")
    parser.add_argument(
        "--set", action="append", default=[], help="change a setting of the training", metavar="KEY=VALUE"
    )
    train(parser.parse_args())


if __name__ == "__main__":
    main()
