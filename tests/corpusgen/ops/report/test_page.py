"""The page as text: what is in it, and that no text of a corpus becomes markup."""

import json
import re

import pytest
from typer.testing import CliRunner

from corpusgen.cli.app import app
from corpusgen.errors import CorpusgenError, StoreError, StoreUnavailableError
from corpusgen.ops.report import Collector, to_html, watch_report, write_report
from corpusgen.ops.report.about import facts_of
from corpusgen.ops.report.samples import RowSample
from tests.corpusgen.ops.report.support import (
    BEGUN,
    MODELS,
    SETTINGS,
    commit_unit,
    plan_generate,
    reject,
    small_store,
    start,
    triple,
)
from tests.testing.pages import Page, assert_pictures_speak, assert_stands_alone

HOSTILE = "</script><b>bold</b> <!-- \"' & "


def page_of(root, **settings):
    return Page(to_html(Collector(str(root)).refresh(), **settings))


def test_tells_what_the_corpus_is_and_how_it_was_made(tmp_path):
    small_store(str(tmp_path / "mine"))
    page = page_of(tmp_path / "mine")
    assert page.count("h1") == 1
    for text in (
        *("mine", "complete", "14 Nov 2023 22:13 UTC", "2 of 2 units", "data/*.txt", "en → de → en", "fairseq"),
        *("some-vectors.bin", "sha256 abababababab…", "bert-large-cased", "revision cccccccccccc…"),
        *("strict", "negative_max_cosine 0.4", "over 20 words, seed 7", "929,265"),
    ):
        assert text in page.text, text
    assert "not complete" not in page.text
    assert "this page every" not in page.text


def test_a_seed_that_merged_stores_do_not_share_is_not_made_up(both):
    corpus = both.corpus()
    assert "over 60 words, seed 0" in {fact.fine_print for fact in facts_of(corpus)}
    del corpus["settings"]["seed"]
    assert {fact.fine_print for fact in facts_of(corpus) if fact.label.endswith("requested")} == {"over 60 words"}


def test_another_recipe_with_a_pass_of_our_name_is_not_described_as_ours():
    corpus = {"passes": ["harvest", "generate"], "settings": {"rules": {"preset": "strict"}}}
    assert "rules" in [fact.label for fact in facts_of(corpus)]
    assert "rules" not in [fact.label for fact in facts_of({**corpus, "recipe": "elsewhere:RECIPE"})]


def test_has_every_section_and_its_own_words(tmp_path):
    generate = plan_generate(start(str(tmp_path)), 12)
    for number in range(12):
        commit_unit(generate, number, [triple(number)], [reject(number + 100)])
    page = page_of(tmp_path)
    sections = page.named("h2")
    assert sections == ["funnel", "triples", "stages", "rejects", "numbers", "targets", "speed"]
    links = [found["href"] for tag, found in page.elements if tag == "a"]
    assert links == [f"#{section}" for section in sections]
    assert page.count("svg") == 2 * 3 + 6 + 3  # steps of two funnels, histograms, speeds
    assert "12 more" not in page.text
    assert "Too few units to draw: harvest" in page.text
    assert "We left the bank at noon." in page.text


def test_every_picture_says_what_it_shows(tmp_path):
    small_store(str(tmp_path))
    assert_pictures_speak(page_of(tmp_path))


def test_needs_nothing_from_elsewhere(tmp_path):
    small_store(str(tmp_path))
    assert_stands_alone(to_html(Collector(str(tmp_path)).refresh(), reload_seconds=15))


def test_takes_no_text_of_the_corpus_for_markup(tmp_path):
    root = str(tmp_path / "a<b>")
    store = start(
        root,
        settings={**SETTINGS, "source": {"kind": HOSTILE, "paths": [HOSTILE]}, "language": {"code": '"><b>'}},
        models={**MODELS, HOSTILE: {"id": HOSTILE, "revision": HOSTILE}},
    )
    words = (f"{HOSTILE}😀", f"{HOSTILE}𝒷", f"{HOSTILE}x")
    rows = [triple(1, words, f"𝒜 {HOSTILE}", HOSTILE, pivot=HOSTILE, title=HOSTILE, positive_rule=HOSTILE)]
    failed = [reject(2, HOSTILE, HOSTILE, paraphrase=HOSTILE), reject(3, HOSTILE, HOSTILE, pivot=HOSTILE)]
    quarantined = [{"stage": HOSTILE, "error": HOSTILE + "\ud800", "record": HOSTILE}]
    commit_unit(plan_generate(store, 1), 0, rows, failed, quarantined)
    write_report(root, tmp_path / "report.html")

    text = (tmp_path / "report.html").read_text()
    page = Page(text)

    assert "<b>bold" not in text
    assert page.text.count(HOSTILE.strip()) >= 12  # where it is shown, it is shown as it is
    assert page.count("script") == 2
    (((rule, (original, positive, negative), _, ((_, pivot),), origin),),) = (
        one["rows"] for one in json.loads(page.data)
    )
    assert rule == pivot == origin == HOSTILE
    assert original == [f"𝒜 {HOSTILE}", words[0], HOSTILE]
    assert (positive[1], negative[1]) == words[1:]
    assert "<" not in page.data


def test_says_how_many_triples_it_holds(tmp_path, monkeypatch):
    monkeypatch.setattr("corpusgen.ops.report.collect.RowSample", lambda columns: RowSample(columns, most=3))
    generate = plan_generate(start(str(tmp_path)), 1)
    commit_unit(generate, 0, [triple(number) for number in range(5)])
    page = page_of(tmp_path)
    assert "3 of 5 are on this page" in page.text
    assert [len(one["rows"]) for one in json.loads(page.data)] == [3]


def test_a_build_that_goes_on(tmp_path):
    generate = plan_generate(start(str(tmp_path)), 3)
    page = page_of(tmp_path)
    assert "not complete" in page.text
    assert "No triples yet" in page.text
    assert "0 of 3 units" in page.text
    commit_unit(generate, 1, [], [reject(1)])
    page = page_of(tmp_path, reload_seconds=15)
    assert "1 of 3 units" in page.text
    assert "None so far." in page.text
    assert "reload this page every 15 s" in page.text
    assert ("meta", {"http-equiv": "refresh", "content": "15"}) in page.elements


@pytest.mark.parametrize(
    ("passes", "line"),
    [(["harvest"], "No triples: this build ends with targets."), (["harvest", "generate"], "No triples yet")],
)
def test_without_triples_one_line_says_so(tmp_path, passes, line):
    start(str(tmp_path), passes=passes)
    page = page_of(tmp_path)
    assert line in page.text
    assert page.named("h2") == ["stages", "rejects"]
    assert "too short" in page.text
    assert json.loads(page.data) == []


def test_a_corpus_that_tells_little_of_itself(tmp_path):
    store = start(str(tmp_path), settings={}, models={})
    commit_unit(plan_generate(store, 1), 0, [triple(1)])
    assert page_of(tmp_path).count("h1") == 1


def test_is_the_same_when_made_again(tmp_path):
    small_store(str(tmp_path))
    moment = re.compile(r"this page [^<]*")
    texts = [moment.sub("", to_html(Collector(str(tmp_path)).refresh())) for _ in range(2)]
    assert texts[0] == texts[1]


class TestWriting:
    def test_watching_ends_with_the_build(self, tmp_path):
        root, path = str(tmp_path / "store"), tmp_path / "report.html"
        generate = plan_generate(start(root), 2)
        pages = []

        def sleep(seconds):
            assert seconds == 15
            pages.append(path.read_text())
            commit_unit(generate, len(pages) - 1, [triple(len(pages))])

        watch_report(root, path, sleep=sleep)

        assert len(pages) == 2
        assert all("reload this page" in page for page in pages)
        assert "reload this page" not in path.read_text()
        assert "All of them are on this page." in path.read_text()
        assert [file.name for file in tmp_path.iterdir() if file.is_file()] == ["report.html"]

    def test_a_store_that_is_away_for_a_while_is_waited_for(self, tmp_path, monkeypatch, caplog):
        root, path, answers = str(tmp_path / "store"), tmp_path / "report.html", [True, False]
        small_store(root)
        refresh = Collector.refresh

        def sometimes(self):
            if answers.pop():
                return refresh(self)
            raise StoreUnavailableError("gone")

        monkeypatch.setattr(Collector, "refresh", sometimes)
        waited = []
        watch_report(root, path, sleep=waited.append)
        assert waited == [15]
        assert "gone" in caplog.text
        assert path.exists()

    def test_the_command(self, tmp_path):
        small_store(str(tmp_path / "store"))
        for options in ([], ["--watch"]):
            result = CliRunner().invoke(
                app, ["report", str(tmp_path / "store"), "-o", str(tmp_path / "a.html"), *options]
            )
            assert result.exit_code == 0, result.output
            assert "a.html: 0.0 MB" in result.output
            assert (tmp_path / "a.html").read_text().startswith("<!DOCTYPE html>")

    def test_mistakes_are_named(self, tmp_path):
        with pytest.raises(StoreError, match="no corpus here"):
            write_report(str(tmp_path / "nowhere"), tmp_path / "a.html")
        small_store(str(tmp_path / "store"))
        with pytest.raises(CorpusgenError, match=r"cannot write .*no/such/a\.html: No such file"):
            write_report(str(tmp_path / "store"), tmp_path / "no/such/a.html")


def test_begun_is_when_the_first_unit_was_committed_if_the_store_was_copied_since(tmp_path):
    small_store(str(tmp_path))  # its corpus.json is of today, its commits are not
    assert Collector(str(tmp_path)).refresh().begun == BEGUN


def test_a_page_of_pairs_has_their_funnel_and_no_word_of_triples(pairs):
    page = page_of(pairs.url)
    assert page.named("h2") == ["funnel", "pairs", "stages", "rejects", "numbers", "words"]
    told = ("with a negative", "no negative: in no other document", "pairs requested", "21 words have pairs")
    for text in ("words that a document repeats", *told):
        assert text in page.text, text
    assert "triples" not in page.text
    assert_pictures_speak(page)
    (data,) = json.loads(page.data)
    assert [name for name, _ in data["members"]] == ["original", "positive", "negative", "neighbour"]
    assert any(members[2] is None for _, members, *_ in data["rows"])


def test_a_page_of_two_products_has_the_sections_of_each(both):
    page = page_of(both.url)
    assert [name for name in page.named("h2") if name not in ("stages", "rejects", "speed")] == [
        *("funnel", "triples", "funnel-pairs", "pairs"),
        *("numbers", "targets", "numbers-pairs", "words-pairs"),
    ]
    assert [data["table"] for data in json.loads(page.data)] == ["triples", "pairs"]


def test_a_page_of_a_recipe_of_another_package(outside):
    page = page_of(outside.url)
    assert page.named("h2") == ["pairs", "stages", "numbers", "words"]
    assert [name for name, _ in json.loads(page.data)[0]["members"]] == ["first", "second"]
