"""Benchmarks run on a model: from files in a folder to scores, tables and a page."""

import json
import re
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from corpusgen.errors import ConfigError, CorpusgenError
from distiller.evaluation import evaluate as running
from distiller.evaluation.evaluate import ModelEncoder, compare, evaluate
from distiller.evaluation.metrics import paired_bootstrap, pearson
from distiller.evaluation.scoring import Judged, averaged, change, correlated, decided, joined
from distiller.inference.word_distiller import WordDistiller
from distiller.settings import BackboneSettings, TrainSettings
from distiller.words.backbone import Backbone
from distiller.words.model import WordModel
from distiller.words.saved import SavedModel, evaluation_in, put_in_card, write_saved
from tests.distiller.commands import command
from tests.testing import triple_builds as support
from tests.testing.word_models import VALIDATION


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
    assert [result.label for result in evaluation.results] == ["WiC dev", "WiC dev, AUC", "STS-B dev"]
    assert [result.items for result in evaluation.results] == [20, 20, 40]
    assert set(evaluation.results[0].scores) == {"meaning", "context", "baseline"}
    assert evaluation.compared is not None
    for result, difference in zip(evaluation.results, evaluation.compared.differences, strict=True):
        wanted = result.scores["meaning"].value - result.scores["baseline"].value
        assert difference.difference == pytest.approx(wanted)
        assert difference.low <= difference.difference <= difference.high
        assert (difference.task, difference.metric) == (result.task, result.metric)


def test_a_model_is_as_good_as_itself(loaded, data):
    results = evaluate(loaded, "mine", str(data)).results
    for difference in compare(results, results, "itself", "meaning").differences:
        assert (difference.difference, difference.low, difference.high) == (0, 0, 0)


def judged(count, missing=(), seed=0):
    """Items whose similarities say something of gold; those that are missing could not be encoded."""
    random = np.random.default_rng(seed)
    gold = random.normal(size=count)
    reasons = ["too long" if index in missing else None for index in range(count)]
    similarities = {"meaning": gold + random.normal(size=count), "baseline": gold}
    return Judged([str(index) for index in range(count)], gold, similarities, reasons)


def test_items_are_paired_by_what_they_are_and_not_by_how_many():
    """Each model leaves out another item: of all others both say the same."""
    ours, theirs = (correlated("t", "Pearson", judged(60, missing)) for missing in ([3], [40]))
    assert ours.items == theirs.items
    (found,) = compare([ours], [theirs], "other", "meaning").differences
    assert (found.difference, found.low, found.high) == (0, 0, 0)
    assert (found.items, found.unpaired) == (58, 2)


def test_items_of_sub_corpora_are_paired_within_them():
    def year(*missing):
        return averaged("STS", "Pearson", [(f"{n}", judged(40, left_out, n)) for n, left_out in enumerate(missing)])

    (found,) = compare([year([1, 2], [])], [year([], [30, 31])], "other", "meaning").differences
    assert (found.difference, found.low, found.high, found.items, found.unpaired) == (0, 0, 0, 76, 4)
    whole = year([], [])
    (found,) = compare([whole], [whole], "itself", "meaning", "baseline").differences
    assert found.difference == pytest.approx(whole.scores["meaning"].value - 1)


def test_what_is_drawn_together_for_a_score_is_drawn_together_for_a_difference():
    groups = np.repeat([f"word {number}" for number in range(20)], 3)
    ours, theirs = (
        correlated("t", "Pearson", replace(judged(60, missing), groups=groups)) for missing in ([3], [40, 41])
    )
    assert ours.groups.tolist() == np.delete(groups, 3).tolist()
    (found,) = compare([ours], [theirs], "other", "meaning", "baseline").differences
    kept = np.delete(np.arange(60), [3, 40, 41])
    values = [judged(60).similarities[kind][kept] for kind in ("meaning", "baseline")]
    expected = paired_bootstrap(pearson, *values, judged(60).gold[kept], groups=groups[kept])
    assert (found.difference, found.low, found.high, found.p) == expected


@pytest.mark.parametrize("number", [1, 2])
def test_groups_of_several_sets_stay_with_their_items(number):
    sets = [replace(judged(30, [4], n), groups=np.array([f"{n} {index // 5}" for index in range(30)])) for n in (0, 1)]
    expected = [name for one in sets[:number] for name in np.delete(one.groups, 4).tolist()]
    assert averaged("t", "Pearson", [(str(n), one) for n, one in enumerate(sets[:number])]).groups.tolist() == expected
    assert joined(*sets).groups.tolist() == [*sets[0].groups, *sets[1].groups]
    assert change(*sets).groups.tolist() == sets[0].groups.tolist()


def test_no_task_disappears_from_a_comparison():
    first, second, third = (correlated(name, "Pearson", judged(30)) for name in "abc")
    unlike = correlated("b", "Pearson", judged(30, range(15)))
    nothing = correlated("c", "Pearson", judged(30, range(30)))
    disjoint = correlated("b", "Pearson", judged(30, range(15, 30)))
    found = {
        each.task: each for each in compare([first, unlike, third], [disjoint, nothing], "o", "meaning").differences
    }
    assert {name: (each.items, each.unpaired) for name, each in found.items()} == {
        "a": (0, 30),
        "b": (0, 30),
        "c": (0, 30),
    }
    assert all(np.isnan(each.difference) for each in found.values())
    (missed,) = compare([], [second], "o", "meaning").differences
    assert (missed.task, missed.items, missed.unpaired) == ("b", 0, 30)


def test_decisions_without_a_threshold_are_not_compared():
    gold = np.arange(20) % 2.0
    items = Judged([""] * 20, gold, {"meaning": gold, "baseline": gold}, [None] * 20)
    untuned = decided("WiC", replace(items, missing=["too long"] * 20), items)
    (found,) = compare([untuned], [decided("WiC", items, items)], "other", "meaning").differences
    assert (found.items, found.unpaired) == (20, 0)
    assert np.isnan(found.difference)


def test_texts_that_the_model_reads_nothing_in_cost_one_run(loaded, monkeypatch):
    texts, seen = support.sentences(9, seed=7), []
    run = Backbone.piece_states
    monkeypatch.setattr(Backbone, "piece_states", lambda self, some: seen.append(len(some)) or run(self, some))
    sentences, missing = ModelEncoder(loaded).sentences(["\u200b", *texts, "\u200b \u200b", "\u200d"])
    assert seen == [12]
    assert [index for index, reason in enumerate(missing) if reason] == [0, 10, 11]
    np.testing.assert_allclose(sentences["context"][1:10], loaded.encode_sentences(texts, output="context"), atol=1e-5)
    only, missing = ModelEncoder(loaded).sentences(["\u200b", "\u200d"])
    assert not only["meaning"].any()
    assert all(missing)


def test_a_baseline_has_one_kind(loaded, data):
    evaluation = evaluate(WordDistiller(loaded.backbone, None), "plain", str(data), ["stsb"])
    assert set(evaluation.results[0].scores) == {"baseline"}
    assert evaluation.compared is None


def test_the_command_prints_a_table_and_writes_files(model_path, data, tmp_path):
    files = {name: tmp_path / f"out.{name}" for name in ("json", "markdown", "report")}
    options = [part for name, path in files.items() for part in (f"--{name}", path)]
    printed = command("evaluate", model_path, "--data", data, *options)
    assert "WiC dev" in printed
    assert json.loads(files["json"].read_text())["results"][0]["items"] == 20
    for metric in ("accuracy", "AUC"):
        assert files["markdown"].read_text().count(f"| WiC dev | {metric} | 20 |") == 2  # difference and score
    shown = (printed, files["markdown"].read_text(), files["report"].read_text())
    assert all(text.index("compared with the frozen model") < text.index("bootstrap intervals") for text in shown)
    sentence = json.loads(files["json"].read_text())["verdict"]
    assert re.match(r"Meaning vectors are .* of 2 sets", sentence)
    assert all(sentence[:50] in text for text in shown)
    assert files["report"].read_text().startswith("<!DOCTYPE html>")


def test_the_command_says_what_is_done_while_it_runs_and_then_what_was_left_out(model_path, data, tmp_path):
    copied = shutil.copytree(data, tmp_path / "eval")
    with (copied / "stsb" / "sts-dev.csv").open("a") as file:
        file.write("g\tf\t2017\t99\tno number\ta\tb\n")
    printed = command("evaluate", model_path, "--data", copied, "--tasks", "wic,stsb")
    before, _, after = printed.partition("bootstrap intervals")
    assert before.index("WiC dev: meaning") < before.index("STS-B dev: meaning") < before.index("items")
    assert "STS-B dev: skipped 1 × " in after


def test_the_command_wants_one_model(data):
    with pytest.raises(ConfigError, match="give exactly one of MODEL, --baseline and --static"):
        command("evaluate", "--data", data)


@pytest.mark.parametrize("option", ["--json", "--markdown", "--report"])
def test_a_file_that_cannot_be_written_is_refused_first(model_path, data, tmp_path, monkeypatch, option):
    monkeypatch.setattr(running, "evaluate", None)
    for path, message in (
        (tmp_path / "absent" / "out", "no such folder: .*absent; create it first"),
        (tmp_path, "is a folder; give a file name"),
        (f"{tmp_path}/absent/", "is a folder"),
    ):
        with pytest.raises(ConfigError, match=message):
            command("evaluate", model_path, "--data", data, option, path)


@pytest.fixture(scope="module")
def compared(model_path, tmp_path_factory):
    """Another model, whose frozen one is no longer where it was; and where that one is now."""
    folder = tmp_path_factory.mktemp("compared")
    backbone = shutil.copytree(Path(model_path).parent / "backbone", folder / "moved")
    named = BackboneSettings(model=str(folder / "absent"))
    settings = TrainSettings(corpus="none", output="none", backbone=named, heads=4)
    write_saved(str(folder / "model"), SavedModel.of(WordModel(16, 4, seed=9), settings, [2, 3], {}, VALIDATION))
    return folder / "model", backbone


def test_a_model_is_compared_with_another_on_a_frozen_model_of_its_own(model_path, data, compared, tmp_path):
    options = ("--data", data, "--tasks", "stsb", "--json", tmp_path / "out.json", "--compare", compared[0])
    printed = command("evaluate", model_path, *options, "--compare-backbone", compared[1])
    assert "compared with" in printed
    (found,) = json.loads((tmp_path / "out.json").read_text())["compared"]["differences"]
    assert (found["kind"], found["items"], found["unpaired"]) == ("meaning", 40, 0)
    with pytest.raises(CorpusgenError, match="absent"):
        command("evaluate", model_path, *options, "--backbone", compared[1])


def test_a_frozen_model_is_compared_with_a_trained_one(model_path, data, compared, tmp_path):
    backbone = Path(model_path).parent / "backbone"
    options = ("--data", data, "--tasks", "stsb", "--json", tmp_path / "out.json", "--compare", compared[0])
    command("evaluate", "--baseline", backbone, *options, "--compare-backbone", compared[1])
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["compared"]["other"] == f"the meaning vectors of {compared[0]}"
    ours = found["results"][0]["scores"]["baseline"]["value"]
    command("evaluate", compared[0], *options[:6], "--backbone", compared[1])
    theirs = json.loads((tmp_path / "out.json").read_text())["results"][0]["scores"]["meaning"]["value"]
    assert found["compared"]["differences"][0]["difference"] == pytest.approx(ours - theirs, abs=1e-5)


def test_static_vectors_are_compared_with_others(tmp_path):
    random = np.random.default_rng(0)
    words = [f"w{n}" for n in range(40)]
    for name, known in (("ours", words[1:]), ("theirs", words[:-1])):
        rows = ["{} {}".format(word, " ".join(f"{x:.4f}" for x in random.normal(size=8))) for word in known]
        (tmp_path / f"{name}.txt").write_text("\n".join(rows) + "\n")
    (tmp_path / "wordsim").mkdir()
    pairs = [f"{a} {b} {random.uniform():.3f}" for a, b in pairwise(words)]
    (tmp_path / "wordsim" / "EN-RG-65.txt").write_text("\n".join(pairs) + "\n")
    (tmp_path / "wordsim" / "EN-MSR.txt").write_text("w1 w2 w3 w4\nw5 w6 w7 w8\nw0 w1 w2 w3\n")
    out = tmp_path / "out.json"
    files = ("--static", tmp_path / "ours.txt", "--compare", tmp_path / "theirs.txt")
    command("evaluate", *files, "--data", tmp_path, "--json", out)
    differences = {each["task"]: each for each in json.loads(out.read_text())["compared"]["differences"]}
    assert {task: (each["items"], each["unpaired"]) for task, each in differences.items()} == {
        "RG-65": (37, 2),
        "MSR analogies": (2, 1),
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--static", "v.txt", "--backbone", "b"), "--backbone: only for a trained model"),
        (("--baseline", "bert", "--backbone", "b"), "--backbone: only for a trained model"),
        (("--static", "v.txt", "--compare", "w.txt", "--compare-backbone", "b"), "only together with --compare"),
        (("runs/mine", "--compare-backbone", "b"), "only together with --compare"),
        (("owner/name", "--card"), "only a model in a folder or on S3"),
    ],
)
def test_options_that_would_be_ignored_are_refused(data, arguments, message):
    with pytest.raises(ConfigError, match=message):
        command("evaluate", *arguments, "--data", data)


def test_the_table_goes_into_the_card_in_the_place_of_an_earlier_one(model_path, data, tmp_path):
    copy = shutil.copytree(model_path, tmp_path / "model")
    for tasks in ("wic", "stsb"):
        command("evaluate", copy, "--data", data, "--tasks", tasks, "--card")
    card = (copy / "README.md").read_text()
    assert card.startswith((Path(model_path) / "README.md").read_text().rstrip())
    assert card.count("## Evaluation") == 1
    assert "| STS-B dev |" in card
    assert "WiC" not in card
    with pytest.raises(ConfigError, match="--card: only for a trained model"):
        command("evaluate", "--baseline", model_path, "--data", data, "--card")
    with pytest.raises(ConfigError, match="only a model in a folder or on S3"):
        put_in_card("owner/name", "")


@pytest.mark.parametrize("after", ["", "## Licence\n\nMine.\n", "# Notes\n\n### Evaluation\n\nOf my own.\n"])
def test_a_card_keeps_what_its_owner_wrote(model_path, tmp_path, after):
    copy = shutil.copytree(model_path, tmp_path / "model")
    before = "# A model\n\n## Evaluation data\n\nNone.\n"
    (copy / "README.md").write_text(before + ("\n" + after if after else ""))
    put_in_card(str(copy), "| first |\n")
    assert evaluation_in((copy / "README.md").read_text()) == "| first |"
    (copy / "README.md").write_text(f"{before}\n## Evaluation\n\n| first |\n\n{after}")
    for scores in ("| second |", "| third |"):
        put_in_card(str(copy), f"{scores}\n")
        card = (copy / "README.md").read_text()
        assert card.rstrip() == f"{before}\n## Evaluation\n\n{scores}\n\n{after}".rstrip()
        assert evaluation_in(card) == scores
    assert evaluation_in(before + after) == ""
