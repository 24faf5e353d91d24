"""What a training example costs: a pair of one word in one document, against a triple.

    python -m benchmarks.pairs [--targets 600] [--pairs 6000]

From the text of the quickstart to layer states, on one core, with its models: harvest → pairs → features, and harvest
→ targets → triples → features. Seconds are those of the processor. Bytes are of the states, all layers in half
precision; a pair has up to four words, most of them in sentences that other pairs need, too.
"""

from __future__ import annotations

import argparse
import tempfile
import time

import torch

from benchmarks.rows import Found, Row, seconds
from corpusgen.config.build import BuildConfig
from corpusgen.corpus.build import build
from corpusgen.engine import LocalExecutor, RunSettings
from corpusgen.store import Store
from corpusgen.store.products import product_of
from distiller.quickstart import settings
from distiller.settings import BackboneSettings, FeatureSettings
from distiller.words.features import make_features


def examples(folder: str, recipe: str, targets: int, pairs: int) -> tuple[int, dict[str, float], int]:
    """The rows of a build of the recipe, the seconds of each step, and the bytes of the features."""
    given = settings(folder, targets)[0].model_dump(mode="json")
    config = BuildConfig.model_validate({**given, "recipe": recipe, "discourse": {**given["discourse"], "size": pairs}})
    clock = time.process_time
    spent = {"harvest": seconds(lambda: build(config, LocalExecutor(), until="vocabulary"), clock)}
    spent["rows"] = seconds(lambda: build(config, LocalExecutor()), clock)
    asked = FeatureSettings(backbone=BackboneSettings(model="embedded:minilm", first_layer=1))
    made: list[Store] = []
    spent["features"] = seconds(
        lambda: made.append(make_features(config.store, asked, LocalExecutor(), RunSettings())), clock
    )
    parts = [part for commit in made[0].pass_store("features").commits() for part in commit.parts.values()]
    rows = product_of(Store.at(config.store)).open(Store.at(config.store)).num_rows
    return rows, spent, sum(part.bytes for part in parts)


def run(targets: int = 600, pairs: int = 6000) -> Found:
    """A pair against a triple: processor time of each, with and without the harvest, which both need."""
    torch.set_num_threads(1)
    costs, notes = {}, {}
    for recipe, noun in (("words", "triple"), ("discourse", "pair")):
        with tempfile.TemporaryDirectory() as folder:
            rows, spent, size = examples(folder, recipe, targets, pairs)
        costs[noun] = sum(spent.values()) / rows
        steps = ", ".join(f"{name} {1000 * value / rows:.2f} ms" for name, value in spent.items())
        notes[noun] = f"{rows:,} {noun}s: {steps}, {size / rows / 1000:.1f} kB each"
    note = "; ".join(notes.values())
    ratio = costs["triple"] / costs["pair"]
    return Found(
        [Row("text to layer states, a pair", "a triple", ratio, 8.0, f"{1 / costs['pair']:.0f} pairs/s", note)]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", type=int, default=600)
    parser.add_argument("--pairs", type=int, default=6000)
    given = parser.parse_args()
    for row in run(given.targets, given.pairs).rows:
        print(f"{row.name} against {row.opponent}: {row.ratio:.1f} × as cheap, {row.ours}\n{row.note}")


if __name__ == "__main__":
    main()
