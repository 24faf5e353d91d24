"""Translators: sentences a second and sameness of output for the same model by different programs; batches and beams.

    python -m benchmarks.translation [--sentences 32] [--updates 80]

A small Marian model of OPUS-MT's kind learns some sentences of Wikipedia, as Bergamot translates them, by heart: so its
output has the length of a translation. The same weights then run in transformers and, converted, in CTranslate2
(float32 and int8). The same for a model that fairseq made, where it is installed. Bergamot has models of its own, which
nothing else runs: only its speed stands here. One core; contestants take turns.
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.parts import prepare
from benchmarks.rows import Curve, Found, Row, fastest
from corpusgen.models.batches import TRANSLATOR_TOKENS
from corpusgen.models.translate import TranslatorSettings, open_translator
from corpusgen.models.translate.convert import convert_translator
from tests.testing.tiny_translators import make_marian, model_size

BEAMS = (1, 2, 5)
BATCHES = (128, 256, 512, 1024, 4096)
UPDATES = 80
_MAX_TOKENS = 100
_COPIES = 8
_BEAM = TranslatorSettings(backend="ctranslate2", model="any").beam
_SET = TRANSLATOR_TOKENS["cpu"]


def translator(backend: str, folder: Path | None, **options: Any) -> Any:
    given = {"max_tokens": _MAX_TOKENS, **options}
    if backend == "bergamot":
        return open_translator(TranslatorSettings(backend="bergamot", source="en", target="pt", **given), "cpu", 1)
    return open_translator(TranslatorSettings(backend=backend, model=str(folder), **given), "cpu", 1)


def learn(folder: Path, pairs: Mapping[str, str], updates: int = UPDATES) -> None:
    """A small Marian model that knows these translations by heart, most of them."""
    make_marian(folder, pairs=pairs, pieces=1500, size=model_size(2, 256, 1024), updates=updates, rate=1e-3)


def same(ours: list[str], theirs: list[str]) -> float:
    return sum(a == b for a, b in zip(ours, theirs, strict=True)) / len(ours)


def of_one_model(texts: list[str], folders: dict[str, tuple[str, Path]], rounds: int) -> list[Row]:
    """The same weights by several programs, the first of which is the one they were made for."""
    rows = []
    for beam in (min(BEAMS), max(BEAMS)):
        opened = {name: translator(backend, folder, beam=beam) for name, (backend, folder) in folders.items()}
        outputs = {name: one.translate(texts) for name, one in opened.items()}
        best = fastest(rounds, {name: lambda one=one: one.translate(texts) for name, one in opened.items()})  # type: ignore[misc]
        original, *converted = folders
        rows += [
            Row(
                f"translation by {name}, beam {beam}",
                f"{original}, the same model and batches",
                best[original] / best[name],
                None,
                f"{len(texts) / best[name]:.0f} sentences/s",
                f"the same text for {same(outputs[name], outputs[original]):.0%}",
            )
            for name in converted
        ]
    return rows


def sweep(texts: list[str], folder: Path, rounds: int) -> Curve:
    """Sentences a second of CTranslate2 in int8 by size of batch, for each beam."""
    # Enough to fill the largest batch. With spaces at their ends they are other texts to us, not to the model.
    many = [text + " " * number for number in range(_COPIES) for text in texts]
    lines = {}
    for beam in BEAMS:
        opened = {size: translator("ctranslate2", folder, beam=beam, batch_tokens=size) for size in BATCHES}
        best = fastest(rounds, {str(size): lambda one=one: one.translate(many) for size, one in opened.items()})  # type: ignore[misc]
        lines[f"beam {beam}"] = [(float(size), len(many) / taken) for size, taken in best.items()]
    return Curve("CTranslate2 in int8", "tokens in a batch", "sentences/s", lines)


def run(sentences: int, rounds: int, updates: int = UPDATES) -> Found:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        texts = prepare(f"{folder}/corpus", sentences).texts[:sentences]
        bergamot = translator("bergamot", None)
        pairs = dict(zip(texts, bergamot.translate(texts), strict=True))
        learn(folder / "marian", pairs, updates)
        convert_translator(str(folder / "marian"), str(folder / "float32"))
        convert_translator(str(folder / "marian"), str(folder / "int8"), quantization="int8")
        programs = {
            "transformers": ("transformers", folder / "marian"),
            "CTranslate2 in float32": ("ctranslate2", folder / "float32"),
            "CTranslate2 in int8": ("ctranslate2", folder / "int8"),
        }
        rows = of_one_model(texts, programs, rounds)
        int8 = translator("ctranslate2", folder / "int8", beam=1)
        learnt = same(translator("ctranslate2", folder / "float32", beam=1).translate(texts), list(pairs.values()))
        curve = sweep(texts, folder / "int8", rounds)
        speeds = dict(curve.lines[f"beam {_BEAM}"])
        best = max(speeds, key=lambda size: speeds[size])
        rows.append(
            Row(
                f"translation in batches of {_SET:,} tokens, the default, beam {_BEAM}",
                "the best size of a sweep",
                speeds[_SET] / speeds[best],
                None,
                f"{speeds[_SET]:.0f} sentences/s",
                f"the best is {best:,.0f}; the small model knows {learnt:.0%} of the translations by heart",
            )
        )
        if importlib.util.find_spec("fairseq"):
            rows += _of_fairseq(texts, pairs, folder, updates, rounds)
        alone = fastest(rounds, {"bergamot": lambda: bergamot.translate(texts), "other": lambda: int8.translate(texts)})
        rows.append(
            Row(
                "translation by Bergamot, its own model, beam 1",
                "CTranslate2 in int8, a small model, beam 1",
                alone["other"] / alone["bergamot"],
                None,
                f"{len(texts) / alone['bergamot']:.0f} sentences/s",
            )
        )
    return Found(rows, [curve])


def _of_fairseq(texts: list[str], pairs: dict[str, str], folder: Path, updates: int, rounds: int) -> list[Row]:
    from corpusgen.models.translate.subwords import Words
    from tests.testing.tiny_fairseq import make_fairseq

    size = {"embed_dim": 256, "ffn_embed_dim": 1024, "layers": 2, "attention_heads": 4}
    make_fairseq(folder / "fairseq", Words(), updates=updates, known=pairs, size=size, rate=1e-3)
    convert_translator(str(folder / "fairseq"), str(folder / "fairseq.ct2"))
    programs = {
        "fairseq": ("fairseq", folder / "fairseq"),
        "CTranslate2 of a fairseq model": ("ctranslate2", folder / "fairseq.ct2"),
    }
    return of_one_model(texts, programs, rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=32)
    parser.add_argument("--updates", type=int, default=UPDATES)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    found = run(arguments.sentences, arguments.rounds, arguments.updates)
    for row in found.rows:
        print(row)
    for name, points in found.curves[0].lines.items():
        print(f"{name}: {', '.join(f'{speed:.0f} sentences/s with {size:,.0f} tokens' for size, speed in points)}")


if __name__ == "__main__":
    main()
