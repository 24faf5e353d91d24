"""The published sets and samples of their formats are read whole, with the marked words where they are."""

import json
import re

import pytest

from distiller.evaluation.sentence_files import read_paws, read_sts, read_stsb
from distiller.evaluation.static_files import SIMILARITIES, read_google_analogies, read_similarities
from distiller.evaluation.tasks import find_tasks
from distiller.evaluation.word_files import read_cosimlex, read_mclwic, read_scws, read_usim, read_wic
from tests.testing.shared_data import shared_data

pytestmark = pytest.mark.real


def marked_words(items):
    assert not items.skipped
    found = [tuple(text[start:end] for text, (start, end) in pair.occurrences) for pair in items.pairs]
    assert all(word and word == word.strip() for pair in found for word in pair)
    return found


@pytest.mark.parametrize(("split", "count"), [("train", 5428), ("dev", 638)])
def test_wic(split, count):
    data = shared_data(f"eval/wic/{split}/{split}.data.txt")
    items = read_wic(data, data.with_name(f"{split}.gold.txt"))
    assert len(items.pairs) == count
    assert sum(pair.gold for pair in items.pairs) == count / 2
    lemmas = [line.split("\t")[0] for line in data.read_text().splitlines()]
    begin_alike = [
        word.lower()[0] == lemma[0] for pair, lemma in zip(marked_words(items), lemmas, strict=True) for word in pair
    ]
    assert sum(begin_alike) / len(begin_alike) > 0.99  # the others are went, was and the like


def test_scws():
    path = shared_data("eval/scws/ratings.txt")
    items = read_scws(path)
    assert len(items.pairs) == 2003
    named = [(columns[1], columns[3]) for columns in (line.split("\t") for line in path.read_text().splitlines())]
    for pair, found, words in zip(items.pairs, marked_words(items), named, strict=True):
        assert tuple(map(str.lower, found)) == tuple(map(str.lower, words))
        assert not any(re.search("</?b>", text) for text in pair.texts)


@pytest.mark.parametrize("language", ["en", "fr", "zh"])
def test_mclwic(language):
    data = shared_data(f"eval/mclwic/dev.{language}-{language}.data")
    items = read_mclwic(data, data.with_suffix(".gold"))
    assert len(marked_words(items)) == 1000
    assert sum(pair.gold for pair in items.pairs) == 500


def test_the_sample_of_crosslingual_mclwic(tmp_path):
    data = shared_data("eval/formats/mclwic_test.en-fr.data")
    gold = tmp_path / "test.en-fr.gold"
    gold.write_text(json.dumps([{"id": f"test.en-fr.{number}", "tag": "T"} for number in range(3)]))
    expected = [("gently", "modérément"), ("gently", "légère"), ("next", "suivante")]
    assert marked_words(read_mclwic(data, gold)) == expected


def test_the_sample_of_usim():
    items = read_usim(shared_data("eval/formats/usim_en.txt"))
    assert marked_words(items) == [("bright", "brighter"), ("bright", "bright"), ("bright", "bright")]
    assert [pair.gold for pair in items.pairs] == [1.625, 1.875, 5]


def test_the_sample_of_cosimlex():
    first, second = read_cosimlex(shared_data("eval/formats/cosimlex_en.csv"))
    assert marked_words(first) == [("presence", "absence"), ("acknowledge", "accept"), ("accepts", "believe")]
    assert marked_words(second) == [("presence", "absence"), ("accept", "acknowledges"), ("accepts", "believes")]
    assert [pair.gold for pair in (*first.pairs, *second.pairs)] == [2.27, 8.04, 3.48, 1.37, 6.98, 7.55]
    assert "strong>" not in "".join(pair.texts[0] for pair in (*first.pairs, *second.pairs))


def test_the_sample_of_paws():
    items = read_paws(shared_data("eval/formats/paws_wiki.csv"))
    assert not items.skipped
    assert [pair.gold for pair in items.pairs] == [0, 1, 1]
    assert items.pairs[1].texts[0] == "They were there to enjoy us and they were there to pray for us ."


@pytest.mark.parametrize(
    ("year", "counts"),
    [
        ("2012", {"MSRpar": 750, "OnWN": 750, "SMTeuroparl": 459, "SMTnews": 399}),
        ("2013", {"FNWN": 189, "OnWN": 561, "headlines": 750}),
        (
            "2014",
            {"OnWN": 750, "deft-forum": 450, "deft-news": 300, "headlines": 750, "images": 750, "tweet-news": 750},
        ),
    ],
)
def test_sts(year, counts):
    sets = {path.name.split(".")[0]: read_sts(path) for path in shared_data(f"eval/sts/{year}").glob("*.test.tsv")}
    assert {name: len(items.pairs) for name, items in sets.items()} == counts
    assert not any(items.skipped for items in sets.values())
    assert all(0 <= pair.gold <= 5 for items in sets.values() for pair in items.pairs)


def test_the_sts_benchmark():
    items = read_stsb(shared_data("eval/stsb/sts-dev.csv"))
    assert (len(items.pairs), len(items.skipped)) == (1500, 0)


@pytest.mark.parametrize(
    ("task", "count"),
    [("RG-65", 65), ("WS-353", 353), ("WS-353 similarity", 203), ("WS-353 relatedness", 252), ("SimLex-999", 999)],
)
def test_similarities_of_words(task, count):
    layout = SIMILARITIES[task][0]
    items = read_similarities(shared_data(f"eval/wordsim/{layout.name}"), layout)
    assert (len(items.pairs), len(items.skipped)) == (count, 0)


def test_analogies():
    analogies, skipped = read_google_analogies(shared_data("eval/wordsim/questions-words.txt"))
    assert (len(analogies), len(skipped)) == (19544, 0)
    assert len({analogy.section for analogy in analogies}) == 14
    assert sum(analogy.section.startswith("gram") for analogy in analogies) == 10675


def test_all_sets_of_the_folder_are_found():
    tasks = {task.name: sum(len(items.pairs) for items in task.sets) for task in find_tasks(shared_data("eval"))}
    assert tasks == {"wic": 6066, "scws": 2003, "sts": 7608, "stsb": 1500, "mclwic": 3000, "wordsim": 1872}
