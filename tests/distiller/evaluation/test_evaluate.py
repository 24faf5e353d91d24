"""Benchmarks run on a model: from files in a folder to scores, tables and a page."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from corpusgen.errors import ConfigError
from distiller.backbone import Backbone
from distiller.evaluation.evaluate import ModelEncoder, compare, evaluate
from distiller.model import WordModel
from distiller.saved import put_in_card
from distiller.settings import BackboneSettings
from distiller.word_distiller import WordDistiller
from tests.distiller.test_use import command, model  # noqa: F401 (a fixture)
from tests.generate import support


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    backbone = support.write_masked_lm(tmp_path_factory.mktemp("backbone"))
    return WordDistiller(Backbone(BackboneSettings(model=backbone)), WordModel(16, 4, seed=5))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """WiC and STS-B of a few items each."""
    folder = tmp_path_factory.mktemp("eval")
    random = np.random.default_rng(0)
    texts = support.sentences(80, seed=6)
    for split, some in (("train", texts[:40]), ("dev", texts[40:])):
        (folder / "wic" / split).mkdir(parents=True)
        lines = [
            f"willows\tN\t{a.split().index('willows')}-{b.split().index('willows')}\t{a}\t{b}"
            for a, b in zip(some[::2], some[1::2], strict=True)
        ]
        (folder / "wic" / split / f"{split}.data.txt").write_text("\n".join(lines) + "\n")
        gold = random.choice(["T", "F"], len(lines))
        (folder / "wic" / split / f"{split}.gold.txt").write_text("\n".join(gold) + "\n")
    (folder / "stsb").mkdir()
    rows = [
        f"g\tf\t2017\t{n}\t{random.uniform(0, 5):.3f}\t{a}\t{b}"
        for n, (a, b) in enumerate(zip(texts[::2], texts[1::2], strict=True))
    ]
    (folder / "stsb" / "sts-dev.csv").write_text("\n".join(rows) + "\n")
    return folder


def test_the_encoder_gives_what_the_library_gives(loaded):
    texts = support.sentences(9, seed=7)
    spans = [(text.index("willows"), text.index("willows") + 7) for text in texts]
    words, reasons = ModelEncoder(loaded).words([*texts, "a river"], [*spans, (3, 3)])
    assert [reason is None for reason in reasons] == [True] * 9 + [False]
    sentences, missing = ModelEncoder(loaded).sentences([*texts, " ", "\u200b"])
    assert [reason is None for reason in missing] == [True] * 9 + [False] * 2
    for kind in ("meaning", "context", "baseline"):
        np.testing.assert_allclose(words[kind][:9], loaded.encode(texts, spans, output=kind), atol=1e-5)
        np.testing.assert_allclose(sentences[kind][:9], loaded.encode_sentences(texts, output=kind), atol=1e-5)


def test_an_evaluation_has_all_kinds_and_a_comparison_with_the_frozen_model(loaded, data):
    evaluation = evaluate(loaded, "mine", str(data))
    assert [result.task for result in evaluation.results] == ["WiC dev", "STS-B dev"]
    assert [result.items for result in evaluation.results] == [20, 40]
    assert set(evaluation.results[0].scores) == {"meaning", "context", "baseline"}
    assert evaluation.compared is not None
    for result, difference in zip(evaluation.results, evaluation.compared.differences, strict=True):
        wanted = result.scores["meaning"].value - result.scores["baseline"].value
        assert difference.difference == pytest.approx(wanted)


def test_a_model_is_as_good_as_itself(loaded, data):
    results = evaluate(loaded, "mine", str(data)).results
    for difference in compare(results, results, "itself", "meaning").differences:
        assert (difference.difference, difference.low, difference.high) == (0, 0, 0)


def test_a_baseline_has_one_kind(loaded, data):
    evaluation = evaluate(WordDistiller(loaded.backbone, None), "plain", str(data), ["stsb"])
    assert set(evaluation.results[0].scores) == {"baseline"}
    assert evaluation.compared is None


def test_the_command_prints_a_table_and_writes_files(model, data, tmp_path):  # noqa: F811
    files = {name: tmp_path / f"out.{name}" for name in ("json", "markdown", "report")}
    options = [part for name, path in files.items() for part in (f"--{name}", path)]
    printed = command("evaluate", model, "--data", data, *options)
    assert "WiC dev" in printed
    assert json.loads(files["json"].read_text())["results"][0]["items"] == 20
    assert "| WiC dev |" in files["markdown"].read_text()
    assert files["report"].read_text().startswith("<!DOCTYPE html>")


def test_the_command_wants_one_model(data):
    with pytest.raises(ConfigError, match="give one of MODEL, --baseline and --static"):
        command("evaluate", "--data", data)


def test_the_table_goes_into_the_card_in_the_place_of_an_earlier_one(model, data, tmp_path):  # noqa: F811
    copy = shutil.copytree(model, tmp_path / "model")
    for tasks in ("wic", "stsb"):
        command("evaluate", copy, "--data", data, "--tasks", tasks, "--card")
    card = (copy / "README.md").read_text()
    assert card.startswith((Path(model) / "README.md").read_text().rstrip())
    assert card.count("## Evaluation") == 1
    assert "| STS-B dev |" in card
    assert "WiC" not in card
    with pytest.raises(ConfigError, match="only a trained model has a card"):
        command("evaluate", "--baseline", model, "--data", data, "--card")
    with pytest.raises(ConfigError, match="only the card of a model in a folder or on S3"):
        put_in_card("owner/name", "")
