"""Pictures of an evaluation: bars as long as scores, histograms and bands of all that was predicted."""

import re

import numpy as np
import pytest

from distiller.evaluation.plots import in_order, scores_chart, similarity_panels
from distiller.evaluation.results import Score, TaskResult
from tests.distiller.evaluation.test_report import rated, wic
from tests.testing.pages import Page


def bars_of(picture):
    page = Page(str(picture))
    return {found["class"]: found for tag, found in page.elements if tag == "rect"}, page


def test_known_kinds_come_first():
    assert in_order(["own", "static", "meaning", "another", "baseline"]) == [
        *("baseline", "meaning", "static"),
        *("another", "own"),
    ]


def test_bars_are_as_long_as_scores_and_tell_them():
    bars, page = bars_of(scores_chart([wic()]))
    lengths = [float(bars[f"bar {kind}"]["width"]) for kind in ("baseline", "meaning", "context")]
    assert lengths[0] / lengths[1] == pytest.approx(0.65 / 0.72, abs=0.005)
    assert lengths[2] / lengths[1] == pytest.approx(0.55 / 0.72, abs=0.005)
    assert page.text.count("WiC, meaning: 72.0 [71.0, 73.0]") == 2  # the bar and its interval


def test_a_score_below_zero_lies_left_of_the_others():
    scores = {"baseline": Score(-0.2, -0.3, -0.1), "meaning": Score(0.4, 0.3, 0.5)}
    bars, _ = bars_of(scores_chart([TaskResult("t", "Pearson", 9, scores)]))
    below, above = bars["bar baseline"], bars["bar meaning"]
    assert float(below["x"]) + float(below["width"]) == pytest.approx(float(above["x"]), abs=0.15)


def test_kinds_of_no_colour_are_named_each():
    scores = {"own": Score(0.4, 0.3, 0.5), "another": Score(0.3, 0.2, 0.4)}
    page = Page(str(scores_chart([TaskResult("t", "Pearson", 9, scores)])))
    assert page.count("rect", "bar other") == 2
    assert {"own", "another"} <= set(re.split(r"\W+", page.text))


def test_a_long_name_is_cut_where_it_is_seen_and_whole_where_it_is_told():
    name = "Donaudampfschifffahrtsgesellschaft"
    text = str(scores_chart([rated(name)]))
    assert f">{name[:29]}…</text>" in text
    assert f"<title>{name}, meaning: " in text


def test_histograms_count_every_pair_once():
    panels = similarity_panels(wic(items=200))
    assert [(panel.title, panel.what) for panel in panels] == [
        (kind, "threshold 0.400") for kind in ("baseline", "meaning", "context")
    ]
    told = re.findall(r": (\d+) of the same meaning, (\d+) of different meanings</title>", panels[0].picture)
    assert len(told) == 30
    gold = wic(items=200).gold
    assert np.array(told, int).sum(0).tolist() == [gold.sum(), (~gold).sum()]


def test_ratings_are_told_with_the_mean_prediction():
    (panel,) = similarity_panels(rated())
    told = re.findall(r"mean, human rating ([\d.]+): ([\d.]+)", panel.picture)
    assert len(told) == 10
    people, predicted = np.array(told, float).T
    assert (np.diff(people) > 0).all()
    assert predicted == pytest.approx(people / 5, abs=0.15)
    assert "band meaning" in panel.picture


@pytest.mark.parametrize("items", [1, 2, 7])
def test_few_pairs_are_counted_in_whole_numbers(items):
    for panel in similarity_panels(wic(items=items)):
        ticks = re.findall(r'text-anchor="end">([^<]*)<', panel.picture)
        assert ticks[0] == "0"
        assert all(tick.isdigit() for tick in ticks)
