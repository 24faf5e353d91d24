"""The page of an evaluation in a real browser: no error, no request, and it fits on a phone."""

import pytest

from distiller.evaluation.page import to_html
from distiller.evaluation.report import Comparison, Evaluation, TaskDifference
from distiller.evaluation.results import Skipped
from tests.distiller.evaluation.test_report import rated, sts, wic
from tests.testing.pages import assert_fits

LONG = "Donaudampfschifffahrtsgesellschaft" * 9


@pytest.fixture
def path(tmp_path):
    """An evaluation with all that there may be, of a model with a long name."""
    results = [wic(skipped=[Skipped(LONG, LONG)]), rated(), rated(LONG[:40]), sts()]
    compared = Comparison(LONG, [TaskDifference("WiC", "meaning", 0.02, 0.01, 0.03, 0.0001)])
    path = tmp_path / "evaluation.html"
    path.write_text(to_html(Evaluation(LONG, LONG, results, 75.4, compared)))
    return path


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 390, 1280])
def test_nothing_is_wider_than_the_window(open_page, path, width, scheme):
    assert_fits(open_page(path, width=width, scheme=scheme), width)


def test_pictures_and_scores_are_seen(open_page, path):
    page = open_page(path)
    assert page.locator("svg").count() == 1 + 3 + 1 + 1  # scores, WiC by kind, two that were rated
    assert all(picture.bounding_box()["height"] > 50 for picture in page.locator("svg").all())
    assert page.get_by_text("72.0 [71.0, 73.0]").first.is_visible()
