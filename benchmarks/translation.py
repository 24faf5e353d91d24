"""Translators: sentences a second and sameness of output for the same model by different programs; batches and beams.

    python -m benchmarks.translation [--sentences 48] [--updates 160]

A small Marian model of OPUS-MT's kind learns some sentences of Wikipedia, as Bergamot translates them, by heart: so its
output has the length of a translation. The same weights then run in transformers and, converted, in CTranslate2
(float32 and int8). The same for a model that fairseq made, where it is installed. Bergamot has models of its own, which
nothing else runs: only its speed stands here. One core; contestants take turns.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.parts import prepare
from benchmarks.rows import Row, fastest
from corpusgen.translate import TranslatorSettings, open_translator
from corpusgen.translate.convert import convert_translator
from tests.translate.tiny_models import make_marian, model_size

BEAMS = (1, 2, 5)
BATCHES = (64, 256, 1024, 4096, 16384)
_MAX_TOKENS = 100


def translator(backend: str, folder: Path | None, **options: Any) -> Any:
    given = {"max_tokens": _MAX_TOKENS, **options}
    if backend == "bergamot":
        return open_translator(TranslatorSettings(backend="bergamot", source="en", target="pt", **given), "cpu", 1)
    return open_translator(TranslatorSettings(backend=backend, model=str(folder), **given), "cpu", 1)


def same(ours: list[str], theirs: list[str]) -> float:
    return sum(a == b for a, b in zip(ours, theirs, strict=True)) / len(ours)


def of_one_model(texts: list[str], folders: dict[str, tuple[str, Path]], rounds: int) -> list[Row]:
    """The same weights by several programs, the first of which is the one they were made for."""
    rows = []
    for beam in BEAMS:
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


def sweep(texts: list[str], folder: Path, rounds: int) -> dict[str, dict[int, float]]:
    """Sentences a second of CTranslate2 in int8 by size of batch, for each beam."""
    found: dict[str, dict[int, float]] = {}
    for beam in BEAMS:
        opened = {size: translator("ctranslate2", folder, beam=beam, batch_tokens=size) for size in BATCHES}
        contestants = {str(size): lambda one=one: one.translate(texts) for size, one in opened.items()}
        best = fastest(rounds, contestants)
        found[f"beam {beam}"] = {int(size): len(texts) / taken for size, taken in best.items()}
    return found


def run(sentences: int, updates: int, rounds: int) -> tuple[list[Row], dict[str, Any]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        texts = prepare(f"{folder}/corpus", sentences).texts[:sentences]
        bergamot = translator("bergamot", None)
        pairs = dict(zip(texts, bergamot.translate(texts), strict=True))
        make_marian(
            folder / "marian", pairs=pairs, pieces=600, size=model_size(2, 256, 1024), updates=updates, rate=1e-3
        )
        convert_translator(str(folder / "marian"), str(folder / "float32"))
        convert_translator(str(folder / "marian"), str(folder / "int8"), quantization="int8")
        programs = {
            "transformers": ("transformers", folder / "marian"),
            "CTranslate2 in float32": ("ctranslate2", folder / "float32"),
            "CTranslate2 in int8": ("ctranslate2", folder / "int8"),
        }
        rows = of_one_model(texts, programs, rounds)
        learnt = same(translator("ctranslate2", folder / "float32", beam=1).translate(texts), list(pairs.values()))
        sizes = sweep(texts, folder / "int8", rounds)
        if importlib.util.find_spec("fairseq"):
            rows += _of_fairseq(texts, folder, rounds)
        alone = fastest(rounds, {"bergamot": lambda: bergamot.translate(texts)})["bergamot"]
    facts = {
        "sentences": len(texts),
        "translations that the small model knows by heart": learnt,
        "Bergamot, its own model, sentences/s": len(texts) / alone,
        "sentences/s of CTranslate2 in int8 by tokens in a batch": sizes,
    }
    return rows, facts


def _of_fairseq(texts: list[str], folder: Path, rounds: int) -> list[Row]:
    from corpusgen.translate.subwords import Words
    from tests.translate.test_fairseq import make_model

    make_model(folder / "fairseq", Words(), updates=80)
    convert_translator(str(folder / "fairseq"), str(folder / "fairseq.ct2"))
    programs = {
        "fairseq": ("fairseq", folder / "fairseq"),
        "CTranslate2 of a fairseq model": ("ctranslate2", folder / "fairseq.ct2"),
    }
    return of_one_model(texts, programs, rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=48)
    parser.add_argument("--updates", type=int, default=160)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    rows, facts = run(arguments.sentences, arguments.updates, arguments.rounds)
    for row in rows:
        print(row)
    print(json.dumps(facts, indent=2))


if __name__ == "__main__":
    main()
