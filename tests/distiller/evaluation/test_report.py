"""A report says what the results say, in every format, whatever they hold."""

import io
import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from distiller.evaluation.page import to_html
from distiller.evaluation.report import (
    Comparison,
    Evaluation,
    Row,
    TaskDifference,
    compared_cells,
    comparison_table,
    from_markdown,
    heads,
    note,
    rows,
    table,
    terminal,
    to_json,
    to_markdown,
    verdict,
)
from distiller.evaluation.results import Score, Skipped, TaskResult
from tests.testing.pages import Page, assert_pictures_speak, assert_stands_alone

UNKNOWN = Score(math.nan, math.nan, math.nan)


def wic(kinds=("baseline", "meaning", "context"), items=200, skipped=()):
    """The first kind scores 65, the next 72, the last 55; each interval is two wide."""
    random = np.random.default_rng(0)
    gold = random.random(items) > 0.5
    values = dict(zip(kinds, (0.65, 0.72, 0.55), strict=False))
    return TaskResult(
        task="WiC",
        metric="accuracy",
        items=items,
        scores={kind: Score(value, value - 0.01, value + 0.01, threshold=0.4) for kind, value in values.items()},
        skipped=list(skipped),
        paper={"baseline": 0.65, "meaning": 0.684, "context": 0.529},
        similarities={kind: random.normal(0.4 + 0.2 * gold, 0.2) for kind in kinds},
        gold=gold,
    )


def rated(task="USim", items=150):
    random = np.random.default_rng(1)
    gold = random.uniform(1, 5, items)
    similarities = random.normal(gold / 5, 0.2)
    similarities[0] = np.nan
    scores = {"baseline": Score(0.5, 0.4, 0.6), "meaning": Score(0.55, 0.45, 0.65), "context": UNKNOWN}
    return TaskResult(task, "Spearman", items, scores, similarities={"meaning": similarities}, gold=gold)


def sts():
    parts = [
        TaskResult("MSRpar", "Pearson", 700, {"baseline": Score(0.4, 0.3, 0.5), "meaning": Score(0.45, 0.35, 0.55)}),
        TaskResult("SMTnews", "Pearson", 399, {"baseline": UNKNOWN}, [Skipped("line 7", "it is empty")]),
    ]
    return TaskResult("STS 2012", "Pearson", 1099, {"baseline": Score(0.4, 0.3, 0.5)}, parts=parts)


@pytest.fixture
def evaluation():
    skipped = [Skipped("1", "<script>alert(1)</script>"), Skipped("2", "cut | off"), Skipped("3", "cut | off")]
    differences = [
        TaskDifference("WiC", "meaning", 0.02, 0.01, 0.03, 0.0001, 199, 2, "accuracy"),
        TaskDifference("USim", "meaning", -0.01, -0.03, 0.01, 0.4, 150, 0, "Spearman"),
        TaskDifference("STS 2012", "meaning", math.nan, math.nan, math.nan, math.nan, 0, 1099, "Pearson"),
    ]
    return Evaluation("runs/a_b", "bert", [wic(skipped=skipped), rated(), sts()], 75.4, Comparison("old", differences))


def baseline_only():
    return Evaluation("none", "bert", [wic(kinds=("baseline",))], 1.0)


def printed(renderable, styles=False, width=160):
    text = io.StringIO()
    Console(width=width, file=text, force_terminal=styles, color_system="standard" if styles else None).print(
        renderable
    )
    return text.getvalue()


def one_line(cell):
    """What a cell of a table holds of a text."""
    return " ".join(cell.split())


class TestTable:
    def test_shows_scores_with_intervals_and_the_papers(self, evaluation):
        lines = printed(table(evaluation)).splitlines()
        assert re.split(r"\s{2,}", lines[1].strip()) == ["task", "metric", "items", "baseline", "meaning", "context"]
        assert "200 +3 skipped" in lines[2]
        assert "72.0 [71.0, 73.0]" in lines[2]
        assert re.split(r"\s{2,}", lines[3].strip()) == ["paper", "65.0", "68.4", "52.9"]

    def test_shows_what_is_not_known_as_a_dash(self, evaluation):
        assert printed(table(evaluation)).splitlines()[4].split()[-1] == "–"

    def test_shows_parts_only_when_asked(self, evaluation):
        assert "MSRpar" not in printed(table(evaluation))
        assert "\n  MSRpar" in printed(table(evaluation, verbose=True))

    def test_counts_what_the_parts_skipped(self, evaluation):
        assert "1,099 +1 skipped" in printed(table(evaluation))

    def test_tells_items_by_subwords_apart(self, evaluation):
        first = replace(evaluation.results[0], by_subwords=12)
        several = replace(evaluation, results=[first, *evaluation.results[1:]])
        assert "200 (12 by sub-words) +3 skipped" in printed(table(several))
        assert "not in the vocabulary" in note(several)
        assert "not in the vocabulary" not in note(evaluation)

    def test_stresses_the_better_one_only_when_intervals_are_apart(self, evaluation):
        lines = printed(table(evaluation), styles=True).splitlines()
        assert "\x1b[1m72.0 [71.0, 73.0]" in lines[2]
        assert "\x1b[1m" not in "".join(lines[3:])

    @pytest.mark.parametrize("kind", ["baseline", "static"])
    def test_has_only_the_columns_that_are_scored(self, kind):
        text = printed(table(Evaluation("vectors", "none", [wic(kinds=(kind,))], 1.0)))
        assert kind in text
        assert "meaning" not in text
        assert ("paper" in text) == (kind == "baseline")

    def test_says_where_the_papers_figures_are_of_other_items(self):
        elsewhere = Evaluation("m", "bert", [replace(wic(), task="WiC dev", paper_items="test set")], 1.0)
        assert re.split(r"\s{2,}", printed(table(elsewhere)).splitlines()[3].strip())[:2] == ["paper, test set", "65.0"]
        assert "some of them for other items" in note(elsewhere)
        assert "some of them for other items" not in note(Evaluation("m", "bert", [wic()], 1.0))

    def test_shows_what_is_published_of_other_static_vectors(self):
        published = {"X2Static BERT-12 para": 0.7555, "ASE BERT-12 best layer": 0.6948}
        result = TaskResult("RG-65", "Spearman", 65, {"static": Score(0.7, 0.6, 0.8)}, published=published)
        evaluation = Evaluation("vectors", "", [result], 1.0)
        _, x2static, ase = rows(evaluation)
        assert (x2static.role, x2static.cells) == ("paper", ["X2Static BERT-12 para", "", "", "75.5"])
        assert ase.cells[-1] == "69.5"
        assert "published scores of static vectors" in note(evaluation)
        assert next(iter(from_markdown(to_markdown(evaluation))))[1] == list(rows(evaluation))

    def test_takes_names_for_no_markup(self):
        evaluation = Evaluation("[red]m[/red]", "[/x]", [wic()], 1.0)
        assert "[red]m[/red] on [/x]" in printed(table(evaluation))

    def test_shows_differences_to_another_model(self, evaluation):
        lines = printed(comparison_table(evaluation.compared)).splitlines()
        items = ["199", "+2", "unpaired"]
        assert lines[0].strip() == "meaning vectors compared with old"
        assert lines[2].split() == ["WiC", "accuracy", *items, "+2.0", "[+1.0,", "+3.0]", "<0.001"]
        assert lines[3].split()[2] == "150"
        assert lines[3].split()[-1] == "0.400"
        assert lines[4].split()[-5:] == ["0", "+1,099", "unpaired", "–", "–"]

    def test_comes_after_the_verdict_and_the_differences(self, evaluation):
        said, differences, scores = terminal(evaluation)
        assert str(said).strip() == verdict(evaluation)
        assert printed(differences) == printed(comparison_table(evaluation.compared))
        assert printed(scores) == printed(table(evaluation))
        assert len(list(terminal(baseline_only()))) == 1


def differing(*differences, other="the frozen model", kind="meaning"):
    """An evaluation with differences of these names, values and intervals, each five points wide to either side."""
    named = [
        TaskDifference(task, kind, value, value - 0.05, value + 0.05, 0.5, 9, 0, "Spearman")
        for task, value in differences
    ]
    return Evaluation("m", "b", [], 1.0, Comparison(other, named))


class TestVerdict:
    @pytest.mark.parametrize(
        ("differences", "sentence"),
        [
            (
                [("A", 0.06), ("B", 0.07), ("C", -0.01)],
                "above the frozen model on 2 of 3 sets and not distinguishable on the other; the clearest gain is B, "
                "+7.0 [+2.0, +12.0].",
            ),
            (
                [("A", 0.08), ("B", 0.06)],
                "above the frozen model on all 2 sets; the clearest gain is A, +8.0 [+3.0, +13.0].",
            ),
            (
                [("A", 0.01), ("B", -0.06), ("C", 0.02), ("D", -0.04)],
                "below the frozen model on 1 of 4 sets and not distinguishable on the other 3; the clearest loss is B, "
                "-6.0 [-11.0, -1.0].",
            ),
            ([("A", -0.06)], "below the frozen model on the only set; the clearest loss is A, -6.0 [-11.0, -1.0]."),
            (
                [("A", 0.06), ("B", -0.06), ("C", -0.09), ("D", 0.02), ("E", 0)],
                "above the frozen model on 1 of 5 sets, below the frozen model on 2 of 5 sets and not distinguishable "
                "on the other 2; the clearest gain is A, +6.0 [+1.0, +11.0] and the clearest loss is C, "
                "-9.0 [-14.0, -4.0].",
            ),
            (
                [("A", 0.06), ("B", -0.06)],
                "above the frozen model on 1 of 2 sets and below the frozen model on 1 of 2 sets; the clearest gain "
                "is A, +6.0 [+1.0, +11.0] and the clearest loss is B, -6.0 [-11.0, -1.0].",
            ),
            ([("A", 0.04), ("B", -0.05)], "not distinguishable from the frozen model on any of 2 sets."),
            ([("A", 0.04)], "not distinguishable from the frozen model on the only set."),
        ],
    )
    def test_says_where_and_how_clearly(self, differences, sentence):
        assert verdict(differing(*differences)) == f"Meaning vectors are {sentence}"

    def test_the_clearest_is_the_surest_and_not_the_largest(self):
        evaluation = differing(("narrow", 0.06), ("wide", 0.10))
        wide = replace(evaluation.compared.differences[1], low=0.001, high=0.2)
        evaluation.compared.differences[1] = wide
        assert "the clearest gain is narrow, +6.0" in verdict(evaluation)

    def test_counts_a_set_once_and_only_if_it_was_compared(self):
        evaluation = differing(("A", 0.06), ("B", 0.01))
        first = evaluation.compared.differences[0]
        unknown = replace(first, task="C", difference=math.nan, low=math.nan, high=math.nan)
        evaluation.compared.differences.extend([replace(first, metric="AUC", second=True), unknown])
        assert "on 1 of 2 sets" in verdict(evaluation)
        evaluation.compared.differences[:] = [unknown]
        assert verdict(evaluation) == ""

    def test_names_what_is_compared(self):
        said = verdict(differing(("A", 0.06), other="old.vec", kind="static"))
        assert said.startswith("Static vectors are above old.vec on the only set")

    def test_says_nothing_where_nothing_is_compared(self):
        assert verdict(baseline_only()) == ""


class TestJson:
    def test_is_strict_json_and_says_the_same(self, evaluation):
        content = to_json(evaluation)
        assert json.loads(json.dumps(content, allow_nan=False)) == content
        assert content["results"][1]["scores"]["context"] == {
            "value": None,
            "low": None,
            "high": None,
            "threshold": None,
        }
        assert content["results"][0]["skipped"][0] == {"item": "1", "reason": "<script>alert(1)</script>"}
        assert content["results"][2]["parts"][0]["task"] == "MSRpar"
        assert content["compared"]["other"] == "old"

    def test_leaves_single_items_out(self, evaluation):
        text = json.dumps(to_json(evaluation))
        for name in ("similarities", "gold", "item_indices"):
            assert name not in text

    def test_rounds_also_what_numpy_made(self):
        result = TaskResult("t", "Pearson", 3, {"static": Score(np.float32(1 / 3), np.float64(0.1), math.inf)})
        score = to_json(Evaluation("m", "b", [result], 1 / 3))["results"][0]["scores"]["static"]
        assert score == {"value": 0.333333, "low": 0.1, "high": None, "threshold": None}


class TestMarkdown:
    @pytest.mark.parametrize("named", ["WiC", "a | b", "`c` *d*\ne"])
    def test_rows_have_as_many_cells_as_the_head(self, evaluation, named):
        evaluation.results.append(TaskResult(named, "Spearman", 0, {}))
        blocks = to_markdown(evaluation).split("\n\n")
        for block, cells in ((blocks[2], 5), (blocks[4], 6)):
            assert {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()} == {cells + 1}

    def test_says_what_intervals_are_and_counts_skipped_items_by_reason(self, evaluation):
        text = to_markdown(evaluation)
        assert "95 % bootstrap intervals" in text
        assert r"- WiC: 2 × cut \| off; 1 × \<script>alert(1)\</script>" in text
        assert "**72.0 [71.0, 73.0]**" in text

    @given(st.text(), st.text())
    def test_can_be_read_again(self, task, metric):
        results = [wic(), TaskResult(task, metric, 3, {"meaning": Score(0.5, 0.4, 0.6)}, [Skipped("1", "* cut _ off")])]
        differences = [TaskDifference(task, "meaning", 0.2, 0.1, 0.3, 0, 3, 0, metric)]
        written = Evaluation("m", "b", results, 1.0, Comparison("old", differences))
        said, compared, differences, _, scores, told, *_ = from_markdown(to_markdown(written))
        shown = list(rows(written))
        assert said == one_line(verdict(written))
        assert scores == (heads(written), [Row(row.role, list(map(one_line, row.cells)), row.best) for row in shown])
        assert told == note(written)
        assert compared == "Meaning vectors compared with old:"
        cells = [list(map(one_line, cells)) for cells in compared_cells(written.compared)]
        assert [row.cells for row in differences[1]] == cells

    def test_baseline_alone_is_stressed_nowhere(self):
        text = to_markdown(baseline_only())
        assert "Bold" not in text
        assert "**" not in text
        assert "without a score" not in text


class TestHtml:
    def test_is_a_page_with_tables_and_pictures(self, evaluation):
        page = Page(to_html(evaluation))
        assert page.count("h1") == 1
        assert page.count("table") == 3  # scores, with parts, differences
        assert page.count("svg") == 1 + 3 + 1  # scores, WiC by kind, USim by kind
        assert "72.0 [71.0, 73.0]" in page.text
        assert "threshold 0.400" in page.text

    def test_begins_with_the_verdict_and_the_differences(self, evaluation):
        text = Page(to_html(evaluation)).text
        places = [text.index(part) for part in (verdict(evaluation), "+2.0 [+1.0, +3.0]", "72.0 [71.0, 73.0]")]
        assert places == sorted(places)
        assert "Meaning vectors compared with old" in text

    def test_a_second_figure_has_a_bar_of_its_own_but_no_pictures(self, evaluation):
        evaluation.results.append(replace(wic(), metric="AUC", second=True))
        page = Page(to_html(evaluation))
        assert page.count("svg") == 1 + 3 + 1
        assert "WiC, AUC: baseline 65.0" in next(found["aria-label"] for tag, found in page.elements if tag == "svg")

    def test_a_threshold_beyond_all_similarities_does_not_stretch_the_picture(self):
        def span(threshold):
            scores = {kind: replace(score, threshold=threshold) for kind, score in wic().scores.items()}
            return to_html(Evaluation("m", "b", [replace(wic(), scores=scores)], 1.0)).count("−")

        assert span(-1.6) == span(0.4)

    def test_needs_nothing_from_elsewhere(self, evaluation):
        assert_stands_alone(to_html(evaluation))
        assert Page(to_html(evaluation)).count("script") == 0

    def test_takes_no_text_for_html(self, evaluation):
        evaluation.model = "<script>m</script>"
        evaluation.compared = Comparison("<script>o</script>", [TaskDifference("<script>", "<b>", 0, 0, 0, 1)])
        evaluation.results.append(TaskResult('<script>"$t$', "<script>", 1, {'<script>"': Score(0.5, 0.4, 0.6)}))
        evaluation.results.append(rated('"><script>'))
        text = to_html(evaluation)
        assert Page(text).count("script") == 0
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text

    def test_every_picture_says_what_it_shows(self, evaluation):
        page = Page(to_html(evaluation))
        assert_pictures_speak(page)
        pictures = [attributes for tag, attributes in page.elements if tag == "svg"]
        assert "WiC: baseline 65.0, meaning 72.0, context 55.0" in pictures[0]["aria-label"]

    def test_names_are_unique_in_the_page(self, evaluation):
        names = [attributes["id"] for _, attributes in Page(to_html(evaluation)).elements if "id" in attributes]
        assert len(names) == len(set(names))

    def test_is_the_same_when_made_again(self, evaluation):
        assert to_html(evaluation) == to_html(evaluation)

    def test_draws_no_distribution_of_right_and_wrong_answers(self):
        answers = {"similarities": {"static": np.array([0.0, 1.0, 1.0])}, "gold": np.ones(3)}
        result = TaskResult("analogies", "accuracy", 3, {"static": Score(0.67, 0.3, 1.0)}, **answers)
        assert Page(to_html(Evaluation("vectors", "", [result], 1.0))).count("svg") == 1

    def test_works_where_little_is_known(self):
        for result in (
            wic(kinds=("baseline",)),
            wic(kinds=("static",)),
            TaskResult(
                "t", "Spearman", 0, {"static": UNKNOWN}, similarities={"static": np.array([])}, gold=np.array([])
            ),
            TaskResult("t", "Pearson", 1, {"own": UNKNOWN}, similarities={"own": np.ones(1)}, gold=np.ones(1)),
            wic(items=1),
        ):
            Page(to_html(Evaluation("m", "b", [result], 0.1)))
        Page(to_html(Evaluation("m", "b", [], 0.1)))
