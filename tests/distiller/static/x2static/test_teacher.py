"""The vectors of sentences are those of the plain model, each sentence's own, and every sentence is accounted for."""

import itertools
import shutil
from pathlib import Path

import numpy as np
import pytest

from corpusgen.engine import RunSettings
from corpusgen.store.check import verify
from corpusgen.store.products import open_product, read_vocabulary
from distiller.static.settings import StaticSettings, X2StaticSettings
from distiller.static.x2static.pooling import NO_PIECE, TOO_LONG
from distiller.static.x2static.teacher import NO_WORD, OVERFLOW, identity, lowered, make_sentences
from distiller.words.backbone import Backbone
from tests.distiller.static.x2static.teaching import by_the_book, save_corpus, save_frozen, taught, teacher


@pytest.fixture(scope="module")
def frozen(tmp_path_factory):
    return save_frozen(tmp_path_factory.mktemp("frozen"))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return save_corpus(tmp_path_factory.mktemp("corpus"))


def sentences_of(corpus):
    rows = open_product(corpus, "paragraphs").to_table(["id", "sentence_starts"]).to_pylist()
    return {(row["id"], number) for row in rows for number in range(len(row["sentence_starts"]))}


CASES = [
    *itertools.product(["sentence"], ["piece", "word"], [True, False]),
    *itertools.product(["paragraph"], ["piece", "word"], [False]),
]
SHORT = ["The U.S. grew 3.5 percent. It fell.", "It fell again. They grew."]


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    """Paragraphs that the tiny model reads whole."""
    settings = {"min_characters": 10, "min_sentences": 1, "min_count": 1}
    return save_corpus(tmp_path_factory.mktemp("short"), SHORT, paragraphs=settings)


@pytest.mark.parametrize(("contexts", "weights", "special_tokens"), CASES)
def test_vectors_are_the_plain_models(short, frozen, contexts, weights, special_tokens):
    asked = teacher(short, frozen, contexts=contexts, weights=weights, special_tokens=special_tokens)
    _, found, rejects = taught(asked)
    wanted = by_the_book(short, frozen, contexts, weights, special_tokens)
    assert rejects == {}
    assert found.keys() == wanted.keys()
    assert len(found) == 4
    for place, (vector, words) in wanted.items():
        np.testing.assert_allclose(found[place][0], vector, rtol=2e-3, atol=1e-3)
        assert found[place][1] == words


def test_a_word_gets_the_vector_of_its_own_sentence_whatever_full_stops_the_tokenizer_makes(short, frozen):
    """The published code counts full stops: "3.5" has one of its own, so "It fell." would get the vector of a part."""
    tokenizer = Backbone(teacher(short, frozen).backbone)._tokenizer
    assert tokenizer.tokenize(SHORT[0].lower()).count(".") == 5
    _, found, _ = taught(teacher(short, frozen, contexts="paragraph", weights="piece"))
    vocabulary, _ = read_vocabulary(short)
    ids = open_product(short, "paragraphs").to_table(["id", "text"]).to_pylist()
    (place,) = (row["id"] for row in ids if row["text"] == SHORT[0])
    named = {number: [vocabulary[word] for word in found[place, number][1]] for number in (0, 1)}
    assert named == {0: ["the", "u.s.", "grew", "3.5", "percent", "."], 1: ["it", "fell", "."]}
    wanted = by_the_book(short, frozen, "paragraph", "piece", False)
    gap = np.abs(wanted[place, 0][0] - wanted[place, 1][0]).max()
    for number in (0, 1):
        assert np.abs(found[place, number][0] - wanted[place, number][0]).max() < gap / 50


def test_another_layer_can_be_chosen_and_several_are_refused(short, frozen):
    _, found, _ = taught(teacher(short, frozen, {"last_layer": 1}))
    wanted = by_the_book(short, frozen, "sentence", "word", False, layer=1)
    for place, (vector, _) in wanted.items():
        np.testing.assert_allclose(found[place][0], vector, rtol=2e-3, atol=1e-3)
    common = {"corpus": short, "output": "vectors", "kind": "x2static"}
    with pytest.raises(ValueError, match=r"backbone\.first_layer: 1, but x2static uses a single layer"):
        StaticSettings.model_validate({**common, "backbone": {"model": frozen, "first_layer": 1}})


@pytest.mark.parametrize("contexts", ["sentence", "paragraph"])
def test_every_sentence_has_a_row_or_a_reason(corpus, frozen, contexts):
    store, found, rejects = taught(teacher(corpus, frozen, contexts=contexts, max_pieces=40, unit_paragraphs=5))
    assert found.keys() | rejects.keys() == sentences_of(corpus)
    assert not found.keys() & rejects.keys()
    assert set(rejects.values()) == {TOO_LONG}
    assert [(check.name, check.ok) for check in verify(store)] == [("sentences", True)]
    assert all(words for _, words in found.values())
    assert all(np.abs(vector).max() > 0.01 for vector, _ in found.values())


def test_paragraphs_longer_than_the_model_are_read_in_windows(corpus, frozen):
    backbone = Backbone(teacher(corpus, frozen).backbone)
    texts = open_product(corpus, "paragraphs").to_table(["text"])["text"].to_pylist()
    assert max(len(encoding.ids) for encoding in backbone.encoded(texts)) > backbone.longest == 64
    _, found, rejects = taught(teacher(corpus, frozen, contexts="paragraph"))
    assert found.keys() == sentences_of(corpus)
    assert rejects == {}


def test_sentences_without_a_word_a_piece_or_a_finite_vector_are_rejected_with_the_reason(
    tmp_path, frozen, monkeypatch
):
    texts = ["The bank fell. Zebras dwell! The bank fell again.", "The bank fell. The bank fell again. They fell."]
    settings = {"min_characters": 10, "min_sentences": 1, "min_count": 2}
    corpus = save_corpus(tmp_path / "corpus", texts, paragraphs=settings)
    assert sorted(read_vocabulary(corpus)[0]) == [".", "again", "bank", "fell", "the"]
    means = Backbone.means

    def spoiled(self, weights):
        """The longest sentence overflows."""
        for ids, vectors in means(self, weights):
            yield ids, vectors * (1e6 if len(ids) == max(map(len, weights)) else 1)

    def blanked(text):
        """A tokenizer that makes nothing of some sentence."""
        return "\0" * len(text) if text == "They fell." else text.lower()

    monkeypatch.setattr(Backbone, "means", spoiled)
    monkeypatch.setattr("distiller.static.x2static.teacher.lowered", blanked)
    _, found, rejects = taught(teacher(corpus, frozen))
    assert sorted(rejects.values()) == sorted([NO_WORD, NO_PIECE, OVERFLOW, OVERFLOW])
    assert len(found) == 2


def test_units_that_are_missing_are_made_again_with_the_same_bytes(corpus, frozen):
    asked = teacher(corpus, frozen, unit_paragraphs=4, max_pieces=50)
    store, found, _ = taught(asked)
    before = {path.name: path.read_bytes() for path in Path(store.url).rglob("*.parquet")}
    commits = sorted(Path(store.url).glob("sentences/commits/*.json"))
    assert len(commits) >= 3
    for commit in commits[::2]:
        commit.unlink()
        for part in Path(store.url).glob(f"sentences/parts/{commit.stem}-*"):
            part.unlink()
    assert taught(asked)[1].keys() == found.keys()
    assert {path.name: path.read_bytes() for path in Path(store.url).rglob("*.parquet")} == before


def test_other_settings_have_a_store_of_their_own_and_those_of_the_training_share_one(corpus, frozen):
    def name(backbone=None, **given):
        return identity(teacher(corpus, frozen, backbone, **given).content())

    assert name() == name(preset="paper") == name(seed=3, negatives=5, unit_paragraphs=7)
    others = [name(preset="published"), name(contexts="paragraph"), name(lower=False), name(max_pieces=50)]
    others += [name({"last_layer": 1}), name(weights="piece"), name(special_tokens=True)]
    assert len({name(), *others}) == 1 + len(others)


def test_presets_fill_in_what_is_not_given():
    def chosen(preset="paper", **given):
        asked = {"corpus": "c", "output": "o", "kind": "x2static", "preset": preset, "backbone": {"model": "m"}}
        settings = StaticSettings.model_validate({**asked, "seed": 7, "x2static": given})
        assert StaticSettings.model_validate(settings.model_dump()) == settings
        found = settings.x2static
        return found.weights, found.special_tokens, found.max_pieces, found.seed

    assert chosen() == ("word", False, 200, 7)
    assert chosen("published") == ("piece", True, 200, 7)
    assert chosen("published", contexts="paragraph", seed=3) == ("piece", False, 500, 3)
    assert chosen("published", weights="word", special_tokens=False, max_pieces=64) == ("word", False, 64, 7)
    with pytest.raises(ValueError, match="special_tokens: true needs contexts: sentence"):
        X2StaticSettings(contexts="paragraph", special_tokens=True)


@pytest.mark.parametrize("text", ["The İstanbul BANK", "ΣΑΣ", "ß ẞ", ""])
def test_lower_case_keeps_the_places_of_letters(text):
    assert len(lowered(text)) == len(text)
    assert lowered("The BANK") == "the bank"


@pytest.mark.slow
def test_ray_leaves_the_same_bytes(corpus, frozen):
    from corpusgen.engine.cluster import ray_cluster
    from corpusgen.engine.ray_executor import RayExecutor

    asked = teacher(corpus, frozen, contexts="paragraph", unit_paragraphs=3)
    store, _, _ = taught(asked)
    before = {path.name: path.read_bytes() for path in Path(store.url).rglob("*.parquet")}
    shutil.rmtree(store.url)
    with ray_cluster("local"), RayExecutor(RunSettings()) as executor:
        make_sentences(asked, executor, RunSettings())
    assert {path.name: path.read_bytes() for path in Path(store.url).rglob("*.parquet")} == before
