"""Facts of words: the same word has the same key, and rows find theirs though others are lacking."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from corpusgen.config.build import BuildConfig
from corpusgen.corpus.build import build
from corpusgen.engine import LocalExecutor, RunSettings
from corpusgen.errors import StoreError
from corpusgen.store import TripleStore
from corpusgen.store.products import DISCOURSE, WORDS
from distiller.settings import FeatureSettings
from distiller.training.data import EpochOrder, FeatureChunk, MappedFeatures, rank_batches
from distiller.training.worker import feature_chunks
from distiller.words.features import make_features, open_features
from distiller.words.row_facts import ROW_FACTS, BatchFacts, FactsInOrder, distinct_words, row_facts, word_key
from tests.testing import triple_builds as support


def triples(*pairs):
    """Rows with these originals and positives, each within a sentence."""
    texts = {"text": [f"A {one}." for one, _ in pairs], "positive": [f"The {other}!" for _, other in pairs]}
    spans = {
        "target_start": [2] * len(pairs),
        "target_end": [2 + len(one) for one, _ in pairs],
        "positive_start": [4] * len(pairs),
        "positive_end": [4 + len(other) for _, other in pairs],
        "negative_start": [2] * len(pairs),
        "negative_end": [3] * len(pairs),
    }
    texts["negative"] = ["A x."] * len(pairs)
    return pa.table({"id": [f"id{row}" for row in range(len(pairs))], **texts, **spans})


def test_words_are_compared_without_case():
    facts = row_facts(triples(("Bank", "bank"), ("bank", "shore"), ("shore", "Éclair"), ("éclair", "ÉCLAIR")), WORDS)
    assert facts.dtype == ROW_FACTS
    assert facts["differs"].tolist() == [False, True, True, False]
    assert facts["word"].tolist() == [word_key(word) for word in ("bank", "BANK", "shore", "Éclair")]
    assert len(set(facts["word"].tolist())) == 3
    assert not row_facts(triples(("bank", "shore")), WORDS.only(["original"]))["differs"].any()


def test_members_that_a_row_lacks_are_told():
    pairs = pa.table(
        {
            "id": ["a", "b"],
            **{name: ["A bank."] * 2 for name in ("text", "positive")},
            **{f"{name}_{end}": [at] * 2 for name in ("target", "positive") for end, at in (("start", 2), ("end", 6))},
            "negative": ["The bank.", None],
            "negative_start": [4, None],
            "negative_end": [8, None],
            "neighbour_start": pa.array([None, 0], pa.int32()),
            "neighbour_end": pa.array([None, 1], pa.int32()),
        }
    )
    members = ["original", "positive", "same_word", "same_context"]
    assert row_facts(pairs, DISCOURSE.only(members))["present"].tolist() == [0b0111, 0b1011]
    facts = BatchFacts.of(row_facts(pairs, DISCOURSE.only(members)))
    assert [facts.has(member).tolist() for member in range(4)] == [
        [True, True],
        [True, True],
        [True, False],
        [False, True],
    ]
    # Triples have no same word with another meaning: another member stands for it, and is told to be absent.
    assert row_facts(triples(("a", "b")), WORDS.only(members))["present"].tolist() == [0b1011]


def test_a_key_will_always_be_the_same():
    assert word_key("Bank") == -6817393125910682328


def test_rows_without_texts_have_words_of_their_own(tmp_path):
    states = np.zeros((6, 3, 2, 4), np.float16)
    ids = [f"id{row}" for row in range(6)]
    chunks = [FeatureChunk(ids[:4], states[:4]), FeatureChunk(ids[4:], states[4:])]
    facts = MappedFeatures.open(tmp_path, "abc", lambda: chunks).facts
    assert np.array_equal(facts, distinct_words(6))
    assert len(set(facts["word"])) == 6
    with pytest.raises(ValueError, match="facts of 5 rows with 6 ids"):
        MappedFeatures.open(tmp_path, "abd", lambda: [FeatureChunk(ids, states, facts[:5])])


class Rows:
    """A corpus in memory, read in batches."""

    def __init__(self, table):
        self.table = table

    def batches(self, columns):
        return self.table.select(columns).to_batches(max_chunksize=3)


@given(kept=st.lists(st.booleans(), max_size=12), chunk=st.integers(1, 5))
def test_rows_find_their_facts_whichever_others_are_lacking(kept, chunk):
    table = triples(*((f"w{row}", f"w{row % 2}") for row in range(len(kept))))
    whole = row_facts(table, WORDS)
    rows = np.flatnonzero(kept)
    reader = FactsInOrder(Rows(table), WORDS)
    found = [reader.next([f"id{row}" for row in rows[start : start + chunk]]) for start in range(0, len(rows), chunk)]
    assert np.array_equal(np.concatenate([whole[:0], *found]), whole[rows])


def test_a_row_that_the_corpus_lacks_is_named():
    reader = FactsInOrder(Rows(triples(("a", "b"), ("c", "d"))), WORDS)
    with pytest.raises(StoreError, match="no row 'id7' in this order"):
        reader.next(["id0", "id7"])


def test_a_batch_has_the_facts_of_its_rows(tmp_path):
    facts = row_facts(triples(*((f"w{row}", f"w{row % 3}") for row in range(10))), WORDS)
    states = np.random.default_rng(0).normal(size=(10, 3, 2, 4)).astype(np.float16)
    chunk = FeatureChunk([f"id{row}" for row in range(10)], states, facts)
    features = MappedFeatures.open(tmp_path, "abc", lambda: [chunk])
    rows = np.array([9, 1, 4, 0, 7, 2])
    for rank, taken in ((0, slice(0, 2)), (1, slice(2, 4))):
        order = EpochOrder(len(rows), 4, seed=3)
        batch = next(rank_batches(features, rows, order, first_step=0, rank=rank, workers=2))
        expected = rows[order.batch(0)[taken]]
        assert batch.facts.word.tolist() == facts["word"][expected].tolist()
        assert batch.facts.differs.tolist() == facts["differs"][expected].tolist()
        assert torch.equal(batch.states, features.batch(expected))


@pytest.mark.parametrize("count", [0, 1, 5])
def test_facts_become_tensors_of_their_kinds(count):
    facts = BatchFacts.of(distinct_words(count)).to("cpu")
    assert (facts.word.dtype, facts.differs.dtype) == (torch.int64, torch.bool)
    assert facts.word.tolist() == list(range(count))


def test_features_of_a_corpus_get_the_facts_of_its_rows(tmp_path):
    corpus = build(BuildConfig.model_validate(support.settings(tmp_path)), LocalExecutor()).url
    asked = FeatureSettings(backbone={"model": str(tmp_path / "masked")}, unit_triples=4)
    store = make_features(corpus, asked, LocalExecutor(), RunSettings())
    for commit in sorted(Path(store.url).glob("features/commits/*.json"))[::2]:  # as if their rows were refused
        commit.unlink()
    features = open_features(store, allow_incomplete=True)
    table = TripleStore(corpus).to_table()
    by_id = dict(zip(table["id"].to_pylist(), row_facts(table, WORDS), strict=True))
    assert 0 < features.num_rows < len(by_id)
    chunks = list(feature_chunks(features, TripleStore(corpus), WORDS))
    expected = np.stack([by_id[name] for name in features.ids])
    assert np.concatenate([chunk.facts for chunk in chunks]).tobytes() == expected.tobytes()
    targets, positives = (table[name].to_pylist() for name in ("target", "positive_word"))
    expected = [
        (word_key(one), one.lower() != other.lower(), 0b111) for one, other in zip(targets, positives, strict=True)
    ]
    assert [fact.item()[:3] for fact in by_id.values()] == expected
