"""The commands on a store of paragraphs: what they show, write and merge, and what they refuse by name."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from corpusgen.config.build import BuildConfig
from corpusgen.corpus.build import build
from corpusgen.engine import LocalExecutor
from corpusgen.errors import ConfigError, CorpusgenError
from corpusgen.ops.export import export
from corpusgen.ops.funnels import funnel_of
from corpusgen.ops.inspect.sample import row_lines, sample_rows
from corpusgen.ops.inspect.stats import stats
from corpusgen.ops.merge import duplicates, merge
from corpusgen.ops.report import Collector, to_html
from corpusgen.store import Store
from corpusgen.store.products import PARAGRAPHS, PRODUCTS, open_product, product_of, read_vocabulary
from distiller.settings import TrainSettings
from distiller.words.objective import check_fits
from tests.testing import document_builds, paragraph_builds
from tests.testing.pages import Page, assert_pictures_speak, assert_stands_alone


def rows_of(store):
    return open_product(store, "paragraphs").to_table().to_pylist()


def tokens_of(row):
    return [row["text"][a:b].lower() for a, b in zip(row["token_starts"], row["token_ends"], strict=True)]


def counted(store, least):
    """The vocabulary that the paragraphs of a store have."""
    counts = Counter(token for row in rows_of(store) for token in tokens_of(row))
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return [pair for pair in ordered if pair[1] >= least]


def vocabulary_of(store):
    words, counts = read_vocabulary(store)
    return list(zip(words, counts.tolist(), strict=True))


# --- looking ---


def test_the_funnel_closes(paragraphs):
    found = funnel_of(paragraphs, PARAGRAPHS)
    rows = rows_of(paragraphs)
    assert found.read == 72 == found.paragraphs + sum(found.rejected.values()) + found.quarantined
    assert found.rejected == dict.fromkeys(paragraph_builds.NOT_KEPT, 12)
    assert (found.paragraphs, found.sentences) == (24, sum(len(row["sentence_starts"]) for row in rows))
    assert found.tokens == sum(len(row["token_starts"]) for row in rows)
    assert found.words == len(read_vocabulary(paragraphs)[0])
    assert found.covered == read_vocabulary(paragraphs)[1].sum() < found.tokens


def test_stats_show_the_funnel_and_how_long_paragraphs_are(paragraphs, command):
    found = stats(paragraphs.url).products["paragraphs"]
    lengths = [len(row["token_starts"]) for row in rows_of(paragraphs)]
    assert (found.distributions["tokens"]["min"], found.distributions["tokens"]["max"]) == (min(lengths), max(lengths))
    assert found.distributions["sentences"]["count"] == 24
    assert found.distributions["sentence_tokens"]["count"] == found.funnel.sentences
    ended = command("stats", paragraphs.url)
    for text in ("24 paragraphs", "paragraphs in the source", "too few sentences", "tokens of a sentence"):
        assert text in ended.out
    assert "distinct words" not in ended.out
    assert json.loads(command("stats", paragraphs.url, "--json").out)["products"]["paragraphs"]["funnel"]["read"] == 72


def test_a_vocabulary_that_is_not_made_yet_is_left_out(tmp_path, command):
    build(paragraph_builds.config(tmp_path), LocalExecutor(), until="paragraphs")
    assert stats(str(tmp_path / "store")).products["paragraphs"].funnel.words is None
    assert "in the vocabulary" not in command("stats", tmp_path / "store").out
    assert "not complete" in to_html(Collector(str(tmp_path / "store")).refresh())


def test_a_sample_has_a_line_for_each_sentence_with_spaces_between_tokens(paragraphs, command):
    ended = command("sample", paragraphs.url, "-n", 24)
    assert "\n  The U.S. grew 3.5 percent in May .\n  Nobody saw it coming , and 1,000 mills" in ended.out
    assert ended.out.count("Article ") == 24
    (row,) = map(json.loads, command("sample", paragraphs.url, "-n", 1, "--json").out.splitlines())
    assert row in rows_of(paragraphs)
    assert "--word cannot be used" in command("sample", paragraphs.url, "--word", "river").err


def test_the_report_shows_paragraphs_their_funnel_and_their_lengths(paragraphs):
    text = to_html(Collector(paragraphs.url).refresh())
    assert_stands_alone(text)
    page = Page(text)
    assert_pictures_speak(page)
    for shown in ("paragraphs in the source", "kept", "too few sentences", "tokens of a paragraph", "at least 3 times"):
        assert shown in page.text
    assert page.named("h2") == ["funnel", "paragraphs", "stages", "rejects", "numbers"]
    (data,) = json.loads(page.data)
    assert {row[1][0][0] for row in data["rows"]} == {row["text"] for row in rows_of(paragraphs)}
    assert not any(found.get("name") == "target" for _, found in page.elements)


def test_the_report_shows_paragraphs_beside_pairs(tmp_path):
    settings = {"min_sentences": 2, "min_characters": 100}
    values = document_builds.settings(tmp_path, recipe="discourse+paragraphs", paragraphs=settings)
    store = build(BuildConfig.model_validate(values), LocalExecutor())
    page = Page(to_html(Collector(store.url).refresh()))
    for name in ("funnel", "pairs", "words", "funnel-paragraphs", "paragraphs", "numbers-paragraphs"):
        assert name in page.named("h2")
    assert [data["table"] for data in json.loads(page.data)] == ["pairs", "paragraphs"]


# --- writing ---


def test_plain_text_has_a_paragraph_a_line_with_lower_case_tokens(paragraphs, tmp_path, command):
    path = tmp_path / "text.txt"
    assert export(paragraphs.url, str(path), "txt") == 24
    lines = path.read_text().splitlines()
    assert [line.split(" ") for line in lines] == [tokens_of(row) for row in rows_of(paragraphs)]
    assert lines[0].startswith("the u.s. grew 3.5 percent in may . nobody saw it coming , and 1,000 mills")
    assert command("export", paragraphs.url, "--format", "txt").out == path.read_text()
    counts = Counter(path.read_text().split())
    assert dict(vocabulary_of(paragraphs)) == {word: count for word, count in counts.items() if count >= 3}


def test_json_lines_have_all_columns(paragraphs, tmp_path):
    path = tmp_path / "paragraphs.jsonl"
    assert export(paragraphs.url, str(path), "jsonl") == 24
    assert [json.loads(line) for line in path.read_text().splitlines()] == rows_of(paragraphs)


def test_a_data_set_has_lists(paragraphs, tmp_path):
    datasets = pytest.importorskip("datasets")
    assert export(paragraphs.url, str(tmp_path / "set"), "hf") == 24
    card = (tmp_path / "set" / "README.md").read_text()
    assert "| `token_starts` | list of int32 | first character of each token |" in card
    found = datasets.load_dataset(str(tmp_path / "set"), split="train", cache_dir=str(tmp_path / "cache"))
    assert found.to_list() == rows_of(paragraphs)


def test_formats_that_make_no_sense_are_refused_by_name(paragraphs, pairs, tmp_path):
    with pytest.raises(CorpusgenError, match=r"tsv writes a word .* paragraphs are about no word; use txt"):
        export(paragraphs.url, str(tmp_path / "x"), "tsv")
    with pytest.raises(CorpusgenError, match="txt is for paragraphs, and these are pairs"):
        export(pairs.url, str(tmp_path / "x"), "txt")
    assert not (tmp_path / "x").exists()


# --- merging ---


def test_merged_paragraphs_are_there_once_and_have_a_vocabulary_of_their_own(paragraphs, tmp_path, command):
    more = paragraph_builds.make(tmp_path / "more", number=15)  # the first twelve articles are the same
    root = str(tmp_path / "all")
    totals = merge(root, [paragraphs.url, more.url])["paragraphs"]
    texts = Counter(row["text"] for row in [*rows_of(paragraphs), *rows_of(more)])
    assert duplicates(totals) == texts.total() - len(texts) > 24
    assert {row["text"] for row in rows_of(Store.at(root))} == set(texts)
    assert totals.rows["paragraphs"] == len(texts)
    assert vocabulary_of(root) == counted(Store.at(root), 3) != vocabulary_of(more)
    assert command("verify", root).out.endswith("ok\n")
    assert command("status", root).code == command("stats", root).code == command("gc", root).code == 0
    found = funnel_of(Store.at(root), PARAGRAPHS)
    assert found.read == found.paragraphs + sum(found.rejected.values())
    assert merge(root, [paragraphs.url, more.url])["paragraphs"].rows == totals.rows
    again = str(tmp_path / "again")
    merge(again, [root, paragraphs.url])
    assert vocabulary_of(again) == vocabulary_of(root)


def test_stores_with_other_settings_are_not_merged(paragraphs, tmp_path):
    other = paragraph_builds.make(tmp_path, paragraphs={"min_characters": 100, "min_count": 2})
    with pytest.raises(CorpusgenError, match=r"'min_count': 2.*'min_count': 3.*only stores with the same settings"):
        merge(str(tmp_path / "all"), [paragraphs.url, other.url])
    assert not (tmp_path / "all").exists()


# --- refusing ---


def test_what_needs_words_refuses_paragraphs_by_name(paragraphs, command):
    for arguments in (("explain", paragraphs.url, "x"), ("replay", paragraphs.url, "x")):
        ended = command(*arguments)
        assert ended.code == 1
        assert "the recipe 'paragraphs'" in ended.err
    backbone = {"model": "some-model"}
    settings = TrainSettings.model_validate({"corpus": paragraphs.url, "output": "x", "backbone": backbone})
    with pytest.raises(ConfigError, match="made with the recipe 'paragraphs', whose rows have no words to compare"):
        check_fits(settings, product_of(paragraphs))


def test_a_build_is_checked_estimated_and_reports_its_funnel(tmp_path, command):
    path = tmp_path / "build.yaml"
    path.write_text(paragraph_builds.config(tmp_path).to_yaml())
    checked = command("doctor", path)
    assert checked.code == 0
    assert "complete for paragraphs, tokens" in checked.out
    assert "stage segment" in checked.out
    assert command("estimate", path).code == 0
    built = command("build", path, "--executor", "local")
    assert built.code == 0
    assert "funnel of paragraphs" in built.out
    assert Path(tmp_path, "store", "tokens").is_dir()


def test_texts_of_another_recipe_are_shown_too(paragraphs, monkeypatch):
    """One that is made like ours, but that no command knows."""
    other = replace(PARAGRAPHS, recipe="other")
    monkeypatch.setitem(PRODUCTS, "paragraphs", other)
    product, (row,) = sample_rows(paragraphs.url, 1)
    assert product == other
    assert list(row_lines(product, row)) == [row["id"], f"  {row['text']}"]
    assert stats(paragraphs.url).products["paragraphs"].rows == 24
    page = Page(to_html(Collector(paragraphs.url).refresh()))
    assert page.named("h2") == ["paragraphs", "stages", "rejects", "numbers"]
    assert "words in text, separated by spaces" in page.text
