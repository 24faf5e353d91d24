"""Random rows: fair, the same for a seed, in whatever order a store was written."""

import json

import pytest

from corpusgen.errors import ConfigError, CorpusgenError
from corpusgen.io.terminal import marked
from corpusgen.ops.inspect.sample import row_lines, sample_rows
from corpusgen.store import TripleStore
from corpusgen.store.rows import plain_rows, random_rows, rows_at
from tests.corpusgen.ops.inspect.support import corpusgen
from tests.corpusgen.ops.report.support import commit_unit, plan_generate, small_store, start, triple

UNITS = 5


def store_of(root, order, each=8):
    """Units committed in some order; those left out are still to be done."""
    store = start(root)
    generate = plan_generate(store, UNITS)
    words = (("bank", "shore", "money"), ("Spring", "Fountain", "Winter"))
    for unit in order:
        commit_unit(generate, unit, [triple(100 * unit + n, words[n % 2]) for n in range(each)])
    return store


def sample(root, *arguments, **others):
    return sample_rows(root, *arguments, **others)[1]


def ids(rows):
    return [row["id"] for row in rows]


def test_the_sample_does_not_depend_on_the_order_of_work(tmp_path):
    one, other = (store_of(str(tmp_path / name), o) for name, o in (("a", range(UNITS)), ("b", (3, 1, 4, 0, 2))))
    samples = [random_rows(TripleStore(store), 10, seed=3) for store in (one, other)]
    assert samples[0] == samples[1]
    assert len(set(ids(samples[0]))) == 10


def test_a_larger_sample_goes_on_from_a_smaller_one_and_a_seed_changes_it(tmp_path):
    triples = TripleStore(store_of(str(tmp_path / "a"), range(UNITS)))
    assert ids(random_rows(triples, 20))[:7] == ids(random_rows(triples, 7))
    assert ids(random_rows(triples, 7, seed=1)) != ids(random_rows(triples, 7))
    assert set(ids(random_rows(triples, 1000))) == set(triples.to_table()["id"].to_pylist())


def test_each_triple_is_as_likely(tmp_path):
    triples = TripleStore(store_of(str(tmp_path / "a"), range(UNITS)))
    often = dict.fromkeys(triples.to_table()["id"].to_pylist(), 0)
    for seed in range(80):
        for id_ in ids(random_rows(triples, 4, seed)):
            often[id_] += 1
    assert 1 <= min(often.values()) <= max(often.values()) <= 20  # 8 on average


def test_rows_are_those_of_the_table(tmp_path):
    triples = TripleStore(store_of(str(tmp_path / "a"), range(UNITS)))
    stored = {row["id"]: row for batch in triples.batches() for row in plain_rows(batch)}
    assert all(row == stored[row["id"]] for row in random_rows(triples, 9))
    assert rows_at(triples, []) == []


def test_only_a_word_in_whatever_case(root):
    small_store(root)
    assert {row["target"] for row in sample(root, 10, word="spring")} == {"Spring"}
    assert len(sample(root, 10, word="BANK")) == 3
    with pytest.raises(CorpusgenError, match="no triple has the word 'zebra'"):
        sample(root, 10, word="zebra")


def test_a_store_that_is_being_written(root):
    store_of(root, [2])
    assert len(sample(root, 100)) == 8


def test_words_are_in_brackets_and_numbers_are_short(tmp_path):
    small_store(str(tmp_path))
    product, (row,) = sample_rows(str(tmp_path), 1, word="spring")
    assert list(row_lines(product, row)) == [
        f"Spring · aligned · {2:024x}",
        "  original  They sat on the [Spring] of the river.",
        "  positive  On the whole: They sat on the [Fountain] of the river.  (cosine 0.750)",
        "  negative  They sat on the [Winter] of the river.  (cosine 0.250, probability 0.125)",
    ]
    assert row["negative_cosine"] == 0.25
    assert marked("a bank", 2, 6) == "a [bank]"


def test_the_command(tmp_path):
    small_store(str(tmp_path))
    found = corpusgen("sample", tmp_path, "-n", 2, "--json")
    assert found.returncode == 0, found.stderr
    assert len([json.loads(line) for line in found.stdout.splitlines()]) == 2
    nowhere = corpusgen("sample", tmp_path / "nowhere")
    assert (nowhere.returncode, nowhere.stdout) == (1, "")
    assert "no corpus here" in nowhere.stderr


def test_a_pair_without_a_negative_shows_what_it_has(pairs):
    product, (row,) = sample_rows(pairs.url, 5, word="Flood")
    head, *members = row_lines(product, row)
    assert head == f"flood · {row['id']}"
    assert row["negative"] is None
    assert [line.split()[0] for line in members] == ["original", "positive", "neighbour"]
    assert all("[flood]" in line for line in members[:2])
    assert f"[{row['neighbour_word']}]" in members[2]
    assert members[1].endswith(f"(overlap {row['overlap']:.3f})")
    _, (with_negative, *_) = sample_rows(pairs.url, 5, word="museum")
    assert "  negative  " in "\n".join(row_lines(product, with_negative))


def test_of_several_tables_the_first_is_shown_or_the_one_asked_for(both, command):
    assert sample_rows(both.url, 1)[0].table == "triples"
    assert sample_rows(both.url, 1, table="pairs")[0].table == "pairs"
    with pytest.raises(ConfigError, match="holds triples and pairs, not targets"):
        sample_rows(both.url, 1, table="targets")
    rows = [
        json.loads(line) for line in command("sample", both.url, "--table", "pairs", "-n", 3, "--json").out.splitlines()
    ]
    assert all(row["overlap"] <= 0.9 for row in rows)


def test_a_recipe_of_another_package_is_shown_by_its_members(outside):
    product, rows = sample_rows(outside.url, 3)
    lines = [list(row_lines(product, row)) for row in rows]
    assert [[line.split()[0] for line in found[1:]] for found in lines] == [["first", "second"]] * 3
    assert all(f"[{row['second'].split()[0]}]" in found[2] for row, found in zip(rows, lines, strict=True))
    with pytest.raises(CorpusgenError, match="pairs have no column with the word"):
        sample_rows(outside.url, 3, word="the")
