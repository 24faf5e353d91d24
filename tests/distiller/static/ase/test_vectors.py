"""The vectors of ASE are those that plain transformers give, one text at a time."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from corpusgen.errors import ConfigError, CorpusgenError
from corpusgen.store.products import read_vocabulary
from distiller import WordDistiller
from distiller.static.ase.reading import ReadAlone, packed, unpacked
from distiller.static.ase.readout import read_out
from distiller.static.job import prepare
from distiller.words.backbone import TOO_LONG
from tests.distiller.static.ase.support import POOLINGS, by_hand, contexts_of, made, mean_by_hand, near, settings
from tests.testing import frozen_models, paragraph_builds


@pytest.mark.parametrize("limit", [None, 3])
def test_vectors_are_means_over_contexts_and_lower_layers(corpus, frozen, tmp_path, limit):
    tables, result = made(corpus, frozen, tmp_path, contexts_per_word=limit)
    words, counts = read_vocabulary(corpus)
    table = tables["vectors"]
    assert list(table.words) == words
    np.testing.assert_array_equal(table.counts, counts)
    contexts = contexts_of(corpus, limit)
    for word in words:
        near(table[word], mean_by_hand(frozen, contexts[word])[:3].mean(0))
    assert result["contexts"] == sum(map(len, contexts.values()))


@pytest.mark.parametrize("pooling", POOLINGS)
def test_each_layer_has_its_table_and_pieces_are_pooled(corpus, frozen, tmp_path, pooling):
    tables, _ = made(corpus, frozen, tmp_path, contexts_per_word=2, layers=[4, 0, 1], pieces=pooling, words=30)
    assert list(tables) == ["layer_4", "layer_0", "layer_1"]
    contexts = contexts_of(corpus, 2)
    for word in tables["layer_0"].words:
        states = mean_by_hand(frozen, contexts[word], pooling)
        for layer in (0, 1, 4):
            near(tables[f"layer_{layer}"][word], states[layer])


def test_the_backbone_limits_the_layers_of_the_mean(corpus, frozen, tmp_path):
    backbone = {"first_layer": 1, "last_layer": 3}
    tables, _ = made(corpus, frozen, tmp_path, contexts_per_word=1, backbone=backbone, words=5)
    contexts = contexts_of(corpus, 1)
    for word in tables["vectors"].words:
        near(tables["vectors"][word], mean_by_hand(frozen, contexts[word])[1:4].mean(0))


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_without_contexts_words_are_read_alone(corpus, tmp_path, family):
    frozen = frozen_models.save(family, tmp_path / "frozen")
    tables, result = made(corpus, frozen, tmp_path / "made", contexts_per_word=0, layers=[2])
    words, _ = read_vocabulary(corpus)
    for word in words:
        near(tables["layer_2"][word], by_hand(frozen, f" {word}", 1, len(word) + 1)[2])
    assert result["words read alone"] == len(words)


def test_a_word_too_long_for_the_model_has_no_vector_and_its_contexts_are_counted(tmp_path):
    folder = tmp_path / "corpus"
    folder.mkdir()
    long = "x" * (frozen_models.LONGEST + 10)
    text = f"{paragraph_builds.KEPT[1]} The {long} bank stood there for many years."
    rows = [{"id": str(n), "title": "", "text": text} for n in range(4)]
    (folder / "articles.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    corpus = paragraph_builds.make(folder, language={"identify": False}).url
    frozen = frozen_models.save("roberta", tmp_path / "frozen")
    tables, result = made(corpus, frozen, tmp_path / "made", contexts_per_word=None)
    assert long in read_vocabulary(corpus)[0]
    assert long not in tables["vectors"]
    assert "bank" in tables["vectors"]
    assert result[f"contexts left out: {TOO_LONG}"] == 4


def test_only_words_without_contexts_are_read_alone(frozen):
    read = read_out(settings("c", frozen, "o", layers=[1, 3]))
    stage = ReadAlone({}, read)
    stage.setup()
    known = np.random.default_rng(0).normal(size=(3, 2, read.dimension)).astype(np.float32)
    vectors = packed(known, np.array([True, False, True]))
    filled = stage.process(pa.table({"word": ["river", "castle", "king"], "vectors": pa.chunked_array([vectors])}))
    found = unpacked(filled.rows["vectors"], read.dimension)
    np.testing.assert_array_equal(found[[0, 2]], known[[0, 2]])
    near(found[1], by_hand(frozen, "castle", 0, 6)[[1, 3]])


@pytest.mark.parametrize("kind", ["meaning", "context"])
def test_vectors_of_a_word_model_are_means_of_its_own(corpus, frozen, folder, tmp_path, kind):
    tables, _ = made(corpus, frozen, tmp_path, contexts_per_word=2, of=kind, model=folder, words=20)
    model = WordDistiller.from_pretrained(folder)
    contexts = contexts_of(corpus, 2)
    for word in tables["vectors"].words:
        texts, spans = zip(*((text, (start, end)) for text, start, end in contexts[word]), strict=True)
        near(tables["vectors"][word], model.encode(list(texts), list(spans), output=kind).mean(0))


def test_words_and_counts_limit_the_vocabulary(corpus, frozen, tmp_path):
    words, counts = read_vocabulary(corpus)
    asked = settings(corpus, frozen, tmp_path, words=7)
    assert prepare(asked)[1].words == words[:7]
    rare = settings(corpus, frozen, tmp_path, min_count=int(counts[3]))
    assert len(prepare(rare)[1].words) == (counts >= counts[3]).sum()


@pytest.mark.parametrize(
    ("ase", "message"),
    [
        ({"layers": [2, 5]}, "ase.layers: .* has no layer 5; it has 0, the embeddings, to 4"),
        ({"backbone": {"last_layer": 9}}, "layers 0 to 9 of .*, which has 4"),
        ({"backbone": {"model": "/nowhere/at/all"}}, "backbone /nowhere/at/all: no such folder"),
        ({"min_count": 10**6}, "min_count: 1000000, but the most frequent word"),
        ({"of": "meaning", "model": "/nowhere/model"}, "/nowhere/model: no such folder"),
    ],
)
def test_what_cannot_work_is_said_before_anything_starts(corpus, frozen, tmp_path, ase, message):
    with pytest.raises(CorpusgenError, match=message):
        made(corpus, frozen, tmp_path / "out", **ase)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("ase", "message"),
    [
        ({"layers": []}, "at least one"),
        ({"layers": [1, 1]}, "each only once"),
        ({"of": "meaning"}, "`model` is not set"),
        ({"model": "m"}, "only for `of: meaning`"),
        ({"of": "context", "model": "m", "pieces": "max"}, "layers and pieces are those of the model"),
        ({"layers": [1], "backbone": {"first_layer": 1}}, "first_layer and last_layer only limit"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(ase, message):
    with pytest.raises(ValueError, match=message):
        settings("c", "f", "o", **ase)


def test_a_word_model_of_another_frozen_model_is_refused(corpus, folder, tmp_path):
    other = frozen_models.save("bert", tmp_path / "other", layers=6)
    with pytest.raises(ConfigError, match="is not the frozen model that this one was trained on"):
        made(corpus, other, tmp_path / "out", of="meaning", model=folder)


def test_the_result_has_cards_that_say_how_it_was_made(corpus, frozen, tmp_path):
    made(corpus, frozen, tmp_path, contexts_per_word=2, layers=[1, 2], words=5)
    for card in ("README.md", "layer_1.npy.README.md", "layer_2.npy.README.md"):
        text = (tmp_path / card).read_text()
        assert f"| frozen model | {Path(frozen).name} |" in text
        assert "| contexts per word | 2 |" in text
    assert json.loads((tmp_path / "result.json").read_text())["files"]["layer_2.npy"]["words"] == 5
