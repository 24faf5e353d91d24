"""The dashboard asks for metrics that there are, by labels that they have, and leaves none out."""

import json
import re

import pytest

from corpusgen.engine.metrics import LABELS
from tests.testing import PROJECT

DASHBOARD = json.loads((PROJECT / "cluster/grafana.json").read_text())
PANELS = DASHBOARD["panels"]
TARGETS = [
    pytest.param(target, id=f"{panel['title']} {target['refId']}") for panel in PANELS for target in panel["targets"]
]
FUNCTIONS = {"rate", "increase", "sum", "max", "label_values"}
VARIABLES = {"__rate_interval", "__range", *(variable["name"] for variable in DASHBOARD["templating"]["list"])}
TOKEN = re.compile(r'\s+|ray_\w+|\w+|"[^"]*"|\$\w+|=~|[-/(){}\[\],=]')


def selectors(expression):
    """The metrics of an expression, each with the labels by which it is chosen."""
    for name, matchers in re.findall(r"\bray_(corpusgen_\w+)(?:\{([^}]*)\})?", expression):
        yield name, re.findall(r"(\w+)=~?\"", matchers)


def check(expression):
    """Fail on anything that Prometheus would not take, as far as names, labels and brackets go."""
    assert "".join(match[0] for match in TOKEN.finditer(expression)) == expression
    assert set(re.findall(r"\$\{?(\w+)", expression)) <= VARIABLES
    open_brackets = []
    for character in re.sub(r'"[^"]*"', "", expression):
        if character in "([{":
            open_brackets.append({"(": ")", "[": "]", "{": "}"}[character])
        elif character in ")]}":
            assert character == open_brackets.pop(), expression
    assert not open_brackets
    assert set(re.findall(r"\b([a-z_]+) ?(?:by \([^)]*\) )?\(", expression)) - {"by"} <= FUNCTIONS
    found = dict(selectors(expression))
    assert found
    for name, labels in found.items():
        assert set(labels) <= set(LABELS[name]), name
        ranged = re.search(rf"(rate|increase)\(ray_{name}(\{{[^}}]*\}})?\[[^\]]+\]\)", expression)
        assert bool(ranged) == name.endswith("_total"), f"{name}: only a counter has a rate, and only it has to"
    for grouped in re.findall(r"by \(([^)]*)\)", expression):
        for name in found:
            assert set(grouped.split(", ")) <= set(LABELS[name]), name


@pytest.mark.parametrize("target", TARGETS)
def test_queries_ask_for_what_there_is(target):
    check(target["expr"])
    grouped = set(", ".join(re.findall(r"by \(([^)]*)\)", target["expr"])).split(", "))
    assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= grouped


def test_variables_ask_for_what_there_is():
    (store,) = (variable for variable in DASHBOARD["templating"]["list"] if variable["type"] == "query")
    name, label = re.fullmatch(r"label_values\(ray_(\w+), (\w+)\)", store["query"]["query"]).groups()
    assert label in LABELS[name]


def test_every_metric_is_shown():
    shown = {name for panel in PANELS for target in panel["targets"] for name, _ in selectors(target["expr"])}
    assert shown == set(LABELS)


def test_every_metric_is_documented():
    table = re.findall(r"^\| (`ray_corpusgen_.*?) \|", (PROJECT / "docs/cluster.md").read_text(), re.M)
    assert set(re.findall(r"ray_(\w+)", " ".join(table))) == set(LABELS)


def test_panels_are_told_apart_and_do_not_overlap():
    assert len({panel["id"] for panel in PANELS}) == len({panel["title"] for panel in PANELS}) == len(PANELS)
    cells = [
        (x, y)
        for panel in PANELS
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24


@pytest.mark.parametrize(
    "wrong",
    [
        "sum by (pass) (ray_corpusgen_nothing)",
        "sum by (stage) (ray_corpusgen_planned_units)",
        'ray_corpusgen_workers{node="x"}',
        "sum by (pass) (ray_corpusgen_rows_in_total)",
        "rate(ray_corpusgen_workers[5m])",
        "rate(ray_corpusgen_rows_in_total[5m)",
        "average(ray_corpusgen_workers)",
        'ray_corpusgen_workers{store="$shop"}',
        "ray_corpusgen_workers; 1",
    ],
)
def test_a_query_that_is_wrong_is_found(wrong):
    with pytest.raises((AssertionError, KeyError)):
        check(wrong)


def test_names_follow_the_conventions_of_prometheus():
    for name in LABELS:
        assert re.fullmatch(r"corpusgen_[a-z]+(_[a-z]+)*", name)
        assert "second" not in name or re.search(r"_seconds(_total)?$", name)
        assert "byte" not in name or re.search(r"_bytes(_total)?$", name)
