"""The page of a training in a real browser: no error, no request, and it fits on a phone."""

import pytest

from distiller.training.report import RunFacts, to_html
from tests.distiller.support import made_features
from tests.distiller.training.report.support import evaluated, finish, train
from tests.testing.pages import assert_fits

LONG = "Donaudampfschifffahrtsgesellschaft" * 9


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run that was resumed once, with a model and scores, on a corpus of a long name."""
    features = made_features(tmp_path_factory.mktemp("features"))
    output = str(tmp_path_factory.mktemp("runs") / LONG[:200])
    train(output, features, until=12, corpus=LONG)
    run = train(output, features, corpus=LONG)
    finish(run, features, corpus=LONG)
    evaluated(run)
    return run


@pytest.fixture(scope="module")
def path(run, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(to_html(RunFacts.read(run)))
    return path


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 390, 1280])
def test_nothing_is_wider_than_the_window(open_page, path, width, scheme):
    assert_fits(open_page(path, width=width, scheme=scheme), width)


@pytest.mark.parametrize("width", [390, 1280])
def test_curves_fill_their_charts_and_what_is_written_stays_readable(open_page, path, width):
    page = open_page(path, width=width)
    chart = page.locator("#loss ~ figure .plot > div").first.bounding_box()
    curve = page.locator("#loss ~ figure .curve.training").first.bounding_box()
    assert chart["width"] > 0.7 * min(width, 1024)
    assert curve["width"] == pytest.approx(chart["width"], rel=0.1)
    assert chart["y"] - 1 <= curve["y"]
    assert curve["y"] + curve["height"] <= chart["y"] + chart["height"] + 1
    sizes = "[...document.querySelectorAll('.plot span')].map((tick) => tick.getBoundingClientRect().height)"
    assert set(page.evaluate(sizes)) == {11}


def test_values_are_told_where_a_curve_or_a_rate_is_pointed_at(open_page, path):
    page = open_page(path)
    told = """(found) => {
        found.scrollIntoView({ block: "center" });
        const box = found.getBoundingClientRect();
        const hit = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
        return hit.querySelector("title")?.textContent ?? hit.outerHTML;
    }"""
    first = page.locator("#loss ~ figure .hover").nth(1)
    assert first.evaluate(told).startswith("training, step ")
    assert page.locator("#loss ~ figure .dot").nth(3).evaluate(told).startswith("held out, step ")
    assert page.locator("#speed ~ div .column").first.evaluate(told).endswith("/s")


def test_links_lead_to_sections_below_the_bar(open_page, path):
    page = open_page(path)
    page.locator("nav a", has_text="Speed").click()
    assert page.locator("#speed").bounding_box()["y"] >= page.locator("nav").bounding_box()["height"] - 1


def test_the_page_of_a_training_that_goes_on_loads_itself_again(open_page, run, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(to_html(RunFacts.read(run), reload_seconds=1))
    page = open_page(path)
    path.write_text(to_html(RunFacts.read(run)))
    with page.expect_event("load"):
        pass
    assert page.locator("#reload").count() == 0
