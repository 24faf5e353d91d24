"""The page in a real browser: it opens without an error, asks nobody for anything, and its filters work."""

import pytest

from corpusgen.ops.report import Collector, to_html, write_report
from tests.corpusgen.ops.report.support import commit_unit, plan_generate, reject, start, triple
from tests.testing.pages import assert_fits

HOSTILE = "</script><b>bold</b>"
LONG = "Donaudampfschifffahrtsgesellschaft" * 9


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Thirty triples of `bank`, and some that are out of the ordinary."""
    root = str(tmp_path_factory.mktemp("store"))
    generate = plan_generate(start(root), 13)
    enriched = {"positive_rule": "enriched", "positive_probability": 0.5, "edit_distance": 9}
    others = [
        triple(1, ("Spring", "Fountain", "Winter"), "😀 𝒜 the ", f" 🏞 {HOSTILE}", pivot="die Quelle"),
        triple(2, ("springs", "wells", "winters"), **enriched),
        triple(3, (LONG, "short", "x"), LONG, LONG, edit_distance=1, title=LONG),
        triple(4, ("עברית", "مرحبا", "שלום"), "", "."),
    ]
    commit_unit(generate, 0, others, [reject(9, LONG, LONG, paraphrase=LONG)])
    for number in range(1, 12):
        commit_unit(generate, number, [triple(10 * number + row) for row in range(3)], [reject(number)])
    return root  # a unit is left to do


@pytest.fixture
def opened(open_page, store, tmp_path):
    """Opens the report."""
    path = tmp_path / "report.html"
    write_report(store, path)
    return lambda address="", **how: open_page(path, address, **how)


def words_of(page, kind):
    return page.locator(f".list mark.{kind}").all_text_contents()


def test_triples_are_listed_with_their_words_marked(opened):
    page = opened()
    assert page.locator(".list .row").count() == 10
    assert page.locator(".list mark").count() == 30
    assert words_of(page, "target")[:4] == ["Spring", "springs", LONG, "עברית"]
    assert words_of(page, "positive")[:2] == ["Fountain", "wells"]
    assert words_of(page, "negative")[:2] == ["Winter", "winters"]
    first = page.locator(".list .row").first.locator("p").first
    assert first.text_content() == f"original😀 𝒜 the Spring 🏞 {HOSTILE}"
    assert page.locator(".list b").count() == 0


def test_more_are_shown_on_demand(opened):
    page = opened()
    assert page.locator(".found").text_content() == "10 of 37"
    for _ in range(3):
        page.locator(".more").click()
    assert page.locator(".list .row").count() == 37
    assert page.locator(".more").is_hidden()


def test_the_search_filters_the_list(opened):
    page = opened()
    page.locator("[name=text]").fill("QUELLE")
    assert words_of(page, "target") == ["Spring"]
    assert page.locator(".found").text_content() == "1 of 1 that match"
    page.locator("[name=text]").fill("no such text")
    assert page.locator(".list .row").count() == 0
    assert page.locator(".found").text_content() == "0 of 0 that match"
    page.locator("[name=text]").fill("")
    assert page.locator(".list .row").count() == 10


def test_the_other_filters_work_alone_and_together(opened):
    page = opened()
    page.locator("[name=target]").fill("spr")
    assert words_of(page, "target") == ["Spring", "springs"]
    page.locator("[name=target]").fill("spring")  # there is such a target: it is meant as it is
    assert words_of(page, "target") == ["Spring"]
    page.locator("[name=target]").fill("")
    page.locator("[name=rule]").select_option("enriched")
    assert words_of(page, "target") == ["springs"]
    page.locator("[name=rule]").select_option("")
    page.locator("[name=edit_distance]").fill("5")
    assert words_of(page, "target") == ["springs"]
    page.locator("[name=text]").fill("quelle")
    assert page.locator(".list .row").count() == 0


def test_details_hold_the_scores_and_the_pivot(opened):
    page = opened("#rule=enriched")
    page.locator(".list summary").click()
    details = page.locator(".list dl").text_content()
    for text in ("cosine of wt and wn0.25", "probability of wp0.5", "Sie saßen am Ufer", "An article"):
        assert text in details


def test_what_was_asked_for_is_in_the_address_and_outlives_a_reload(opened):
    page = opened()
    page.locator("[name=target]").fill("bank")
    page.locator(".more").click()
    assert page.evaluate("location.hash") == "#target=bank&shown=20"
    page.reload()
    assert page.locator("[name=target]").input_value() == "bank"
    assert page.locator(".list .row").count() == 20
    assert set(words_of(page, "target")) == {"bank"}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 390, 1280])
def test_nothing_is_wider_than_the_window(opened, width, scheme):
    assert_fits(opened(width=width, scheme=scheme), width)


def test_a_page_of_a_build_that_goes_on_loads_itself_again_but_not_under_the_fingers(open_page, store, tmp_path):
    path = tmp_path / "watched.html"
    path.write_text(to_html(Collector(store).refresh(), reload_seconds=1))
    page = open_page(path)
    page.locator("[name=text]").fill("quelle")
    page.evaluate("window.isOld = true")
    page.wait_for_timeout(1500)
    assert page.evaluate("window.isOld")
    with page.expect_event("load"):
        page.locator("[name=text]").blur()
    assert page.locator("[name=text]").input_value() == "quelle"
    assert words_of(page, "target") == ["Spring"]
    page.locator("#reload").uncheck()
    page.evaluate("window.isOld = true")
    page.wait_for_timeout(1500)
    assert page.evaluate("window.isOld")


def test_two_products_are_looked_through_apart(open_page, both, tmp_path):
    write_report(both.url, tmp_path / "report.html")
    page = open_page(tmp_path / "report.html")
    triples, pairs = page.locator("[data-table=triples]"), page.locator("[data-table=pairs]")
    word = pairs.locator("mark.target").first.text_content()
    page.locator("[name=pairs-target]").fill(word)
    assert set(pairs.locator("mark.target").all_text_contents()) == {word}
    assert len(set(triples.locator("mark.target").all_text_contents())) > 1
    page.reload()
    assert page.locator("[name=pairs-target]").input_value() == word
    page.locator("[name=pairs-round]").fill("1000")
    assert pairs.locator(".row").count() == 0
    assert triples.locator(".row").count() > 0


def test_a_pair_without_a_negative_has_two_sentences(open_page, pairs, tmp_path):
    write_report(pairs.url, tmp_path / "report.html")
    page = open_page(tmp_path / "report.html", "#target=flood")
    assert page.locator(".list mark.negative").count() == 0
    assert page.locator(".list mark.target, .list mark.positive").all_text_contents() == ["flood", "flood"]
    assert_fits(page, 1280)


def test_paragraphs_are_searched_without_a_field_for_words(open_page, paragraphs, tmp_path):
    write_report(paragraphs.url, tmp_path / "report.html")
    page = open_page(tmp_path / "report.html")
    assert page.locator(".list .row").count() == 10
    assert page.locator(".list mark").count() == 0
    assert page.locator("[name=target]").count() == 0
    page.locator("[name=text]").fill("herons nest")
    shown = page.locator(".list .row p").all_text_contents()
    assert shown
    assert all("herons nest" in text for text in shown)
    assert_fits(page, 1280)
