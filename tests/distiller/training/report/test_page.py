"""The page of a training says what its run says, at every moment of it."""

import json
import re
import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

from corpusgen.errors import ConfigError, StoreError
from distiller.cli.app import app
from distiller.training.report import RunFacts, refresh_report, to_html, write_report
from distiller.training.run_folder import RunFolder
from tests.distiller.support import made_features, made_pairs
from tests.distiller.training.report.support import SCORES, evaluated, finish, start, train
from tests.testing.pages import Page, assert_pictures_speak, assert_stands_alone

HOSTILE = "</p><b>bold</b> <!-- \"' & "
SECTIONS = ["loss", "terms", "separation", "speed", "evaluation"]


@pytest.fixture(scope="module")
def features(tmp_path_factory):
    return made_features(tmp_path_factory.mktemp("features"))


@pytest.fixture(scope="module")
def trained(tmp_path_factory, features):
    """A whole run with its model and scores."""
    run = train(str(tmp_path_factory.mktemp("runs") / "mine"), features)
    finish(run, features)
    evaluated(run)
    return run


@pytest.fixture
def copy(trained, tmp_path):
    """The same run, for tests that change its files."""
    shutil.copytree(trained.url, tmp_path / "copy")
    return RunFolder(str(tmp_path / "copy"))


def page_of(run, **settings):
    return Page(to_html(RunFacts.read(RunFolder(run.url)), **settings))


def test_tells_how_it_ended_and_what_it_was_made_of(trained):
    page, facts = page_of(trained), RunFacts.read(trained)
    best = facts.best
    for text in (
        *("mine", "trained", f"Trained to the end: 6 epochs, {facts.step} steps."),
        *(f"The model is from step {best['step']:.0f}, epoch {best['epoch']:.1f}.", f"{best['loss']:.4f}"),
        *("none", "sha256 abababababab…", "0 to 2", "nowhere", "400", "hash 0123456789ab…"),
        *(f"{facts.progress['trained_on']} rows", f"{facts.progress['held_out']} held out", "7 terms"),
        *("32 rows", "1 worker, features cached", "0.003", "after 5 steps of warm-up", "validate_every: 0.5"),
    ):
        assert text in page.text, text
    assert facts.step == 6 * facts.progress["steps_per_epoch"]
    assert facts.progress["trained_on"] + facts.progress["held_out"] == 400
    assert best["loss"] == min(facts.validations["loss"])
    assert "not finished" not in page.text
    assert "this page every" not in page.text
    assert page.count("script") == 0


def test_has_every_section_and_a_picture_of_each_curve(trained):
    page = page_of(trained)
    assert page.named("h2") == SECTIONS
    links = [found["href"] for tag, found in page.elements if tag == "a"]
    assert links == [f"#{section}" for section in SECTIONS]
    kinds = [found["class"] for tag, found in page.elements if tag == "path" and found["class"].startswith("curve ")]
    assert kinds.count("curve training") == kinds.count("curve held-out") == 1 + 7  # loss, its terms
    assert [kind for kind in kinds if kind not in ("curve training", "curve held-out")] == [
        f"curve {kind}" for kind in ("ordered", "frozen", "positive", "negative", "unrelated", "rate")
    ]
    assert page.count("path", "line") == 1  # rows a second
    assert_pictures_speak(page)


def test_needs_nothing_from_elsewhere(trained):
    assert_stands_alone(to_html(RunFacts.read(trained), reload_seconds=15))


def test_shows_the_scores_of_the_models_card(trained):
    page = page_of(trained)
    for text in ("WiC", "68.4 [67.0, 69.0]", "638", "SCWS", "2,003", "bootstrap intervals"):
        assert text in page.text
    assert page.count("strong") == 1  # the better one, where it is clear
    assert page.count("tr", "task") == len(SCORES)
    assert page.count("tr", "paper") == 1


def test_a_model_without_scores_says_how_to_get_them(copy):
    copy.files.delete("model/README.md")
    page = page_of(copy)
    assert "distiller evaluate --card" in page.text
    assert page.count("table") == 0


def test_before_the_first_checkpoint(tmp_path):
    run, _ = start(str(tmp_path))
    page = page_of(run)
    assert "not finished" in page.text
    assert "Nothing to show yet: no checkpoint has been written." in page.text
    assert "sha256 abababababab…" in page.text
    assert page.named("h2") == []


def test_before_the_first_validation(tmp_path, features):
    page = page_of(train(str(tmp_path), features, until=4))
    assert "Step 4 of at most 66." in page.text
    assert "Best" not in page.text
    assert page.named("h2") == ["loss", "terms", "speed"]


def test_a_training_that_goes_on(tmp_path, features):
    page = page_of(train(str(tmp_path), features, until=22), reload_seconds=15)
    assert "Step 22 of at most 66. Best so far: step 18, epoch 1.6." in page.text
    assert "reload this page every 15 s" in page.text
    assert ("meta", {"http-equiv": "refresh", "content": "15"}) in page.elements
    assert page.named("h2") == SECTIONS[:-1]


def test_a_training_that_waits_for_a_better_loss_and_stops(tmp_path, features):
    never = {"min_delta": 1.0, "learning_rate": 1e-12, "patience": 3}
    page = page_of(train(str(tmp_path), features, until=18, **never))
    assert "Best so far: step 6, epoch 0.5. Validations since then: 2; training stops after 3 without" in page.text
    page = page_of(train(str(tmp_path), features, **never))
    assert "Stopped early after step 24: 3 validations without a better loss." in page.text


def test_a_training_without_negatives_has_four_terms(tmp_path, features):
    page = page_of(train(str(tmp_path), features, negatives=False, max_epochs=1))
    assert "4 terms" in page.text
    assert "without negatives" in page.text
    assert page.count("path", "curve training") == 1 + 4


def test_a_training_on_pairs_explains_its_own_figures(tmp_path):
    run = train(str(tmp_path / "run"), made_pairs(tmp_path / "features"), objective="contrast", max_epochs=1)
    page = page_of(run)
    for text in ("contrast", "4 terms", "InfoNCE", "of those with a negative", "the same word in another document"):
        assert text in page.text, text
    for text in ("triple", "Mean squared errors", "Other terms", "the original's own word"):
        assert text not in page.text, text
    assert page.count("path", "curve training") == 1 + 4
    assert_pictures_speak(page)


def test_a_break_is_left_out_of_the_time_of_work(tmp_path, features):
    train(str(tmp_path), features, until=22)
    run = train(str(tmp_path), features)
    stretches = run.progress()["stretches"]
    assert [stretch[0][0] for stretch in stretches] == [0, 22]
    assert [stretch[-1][0] for stretch in stretches] == [22, 66]
    facts = RunFacts.read(run)
    worked = sum(stretch[-1][1] - stretch[0][1] for stretch in stretches)
    assert facts.seconds == pytest.approx(worked)
    assert facts.mean_rate == pytest.approx(6 * facts.progress["trained_on"] / worked)
    page = page_of(run)
    assert page.count("path", "break") == 1
    assert "the training was stopped and later resumed" in page.text


def test_speeds_are_those_between_checkpoints(copy):
    progress = copy.progress()
    per_step = progress["trained_on"] / progress["steps_per_epoch"]
    marks = [[0, 100.0], [10, 101.0], [20, 102.0], [30, 103.0], [40, 104.0], [44, 105.0], [52, 107.0], [56, 108.0]]
    none = [[56, 500.0]]
    put_back = [[56, 600.0], [60, 602.0], [61, 601.0], [62, 603.0]]
    copy.files.write("progress.json", json.dumps({**progress, "stretches": [marks, none, put_back]}).encode())
    facts = RunFacts.read(copy)
    assert [edges.tolist() for edges, _ in facts.rates] == [[0, 4, 8], [8, 11]]
    np.testing.assert_allclose(np.concatenate([rates for _, rates in facts.rates]), np.array([10, 4, 2]) * per_step)
    assert facts.mean_rate == pytest.approx(62 * per_step / 11)


def test_many_checkpoints_are_drawn_as_fewer_with_the_same_mean(copy):
    marks = [[step, float(step)] for step in range(1001)]
    copy.files.write("progress.json", json.dumps({**copy.progress(), "stretches": [marks]}).encode())
    facts = RunFacts.read(copy)
    ((edges, rates),) = facts.rates
    assert len(rates) == 60
    assert edges[-1] == 1000
    np.testing.assert_allclose(rates, facts.mean_rate)


@pytest.mark.parametrize("loss", ["nan", "inf", "0", "-1"])
def test_any_losses_can_be_shown(copy, loss):
    head, *lines = copy.files.read("steps.csv").decode().splitlines()
    lines[2] = ",".join(["6", *[loss] * head.count(",")])
    for some in (lines, lines[2:3]):
        copy.files.write("steps.csv", "\n".join([head, *some]).encode())
        page = page_of(copy)
        drawn = [found.get("d", "") + found.get("style", "") for _, found in page.elements]
        assert not any("nan" in text or "inf" in text for text in drawn)


def test_takes_no_text_for_markup(tmp_path, features):
    hostile = {"corpus": HOSTILE, "backbone": {"model": HOSTILE}, "max_epochs": 1}
    run = train(str(tmp_path / "a<b>"), features, **hostile)
    finish(run, features, **hostile)
    card = f"## Evaluation\n\n| {HOSTILE} | b |\n|--|--|\n| x | {HOSTILE} |\n\n{HOSTILE}"
    run.files.write("model/README.md", card.encode())
    write_report(run.url)
    text = run.files.read("report.html").decode()
    assert "<b>bold" not in text
    assert Page(text).text.count("<b>bold") == 6  # twice in the settings, once as the corpus, thrice in the card


def test_a_table_that_somebody_wrote_is_no_failure(copy):
    copy.files.write("model/README.md", b"## Evaluation\n\n|a|b|\n|-|-|\n\n| alone |\n\n| a |\n| - |\n| b | c |")
    assert page_of(copy).count("table") == 2


class TestWriting:
    def test_the_command_writes_it_into_the_run_or_where_it_is_told(self, root, features, tmp_path):
        run = train(root, features, max_epochs=1)
        result = CliRunner().invoke(app, ["report", root])
        assert result.exit_code == 0, result.output
        assert result.output.strip() == f"{run.url}/report.html"
        assert b"not finished" in run.files.read("report.html")
        result = CliRunner().invoke(app, ["report", root, "-o", str(tmp_path / "a.html")])
        assert result.exit_code == 0, result.output
        assert result.output.strip() == str(tmp_path / "a.html")
        assert (tmp_path / "a.html").read_text().startswith("<!DOCTYPE html>")

    def test_it_is_refreshed_whatever_happens(self, copy, caplog):
        refresh_report(copy)
        page = copy.files.read("report.html")
        assert b"reload this page" in page
        copy.files.write("steps.csv", b"step,loss\ndamaged")
        refresh_report(copy)
        assert re.search(r"cannot write \S+/report\.html", caplog.text)
        assert copy.files.read("report.html") == page

    def test_mistakes_are_named(self, tmp_path):
        with pytest.raises(ConfigError, match="does not hold a run; give the `output` of a training"):
            write_report(str(tmp_path / "nowhere"))
        run, _ = start(str(tmp_path / "run"))
        run.files.write("settings.json", json.dumps({"new_key": 1}).encode())
        with pytest.raises(StoreError, match="another version of wicdistil made"):
            write_report(run.url)
        run.files.write("settings.json", b"{")
        with pytest.raises(StoreError, match=r"settings\.json is damaged"):
            write_report(run.url)
