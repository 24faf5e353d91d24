"""Features of a real, tiny corpus: what is stored is what the backbone says, and the store's promises hold."""

import json
import shutil
from collections import namedtuple
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpusgen.config.build import BuildConfig
from corpusgen.config.loading import load_settings
from corpusgen.corpus.build import build
from corpusgen.engine import LocalExecutor, RunSettings
from corpusgen.errors import ConfigError, StoreError
from corpusgen.store import CommittedTable, Store, TripleStore
from corpusgen.store.check import verify
from distiller.settings import BackboneSettings, FeatureSettings
from distiller.words.backbone import NO_PIECE, Backbone
from distiller.words.features import (
    OVERFLOW,
    EncodeMembers,
    _packed,
    _unpacked,
    bytes_per_row,
    features_identity,
    features_store,
    make_features,
    open_features,
)
from tests.testing import triple_builds as support
from tests.testing.shared_data import shared_data

WORDS = {
    "original": ("text", "target_start", "target_end"),
    "positive": ("positive", "positive_start", "positive_end"),
    "negative": ("negative", "negative_start", "negative_end"),
}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A corpus with its models, and the features of it."""
    folder = tmp_path_factory.mktemp("corpus")
    corpus = build(BuildConfig.model_validate(support.settings(folder)), LocalExecutor()).url
    asked = settings(folder)
    return corpus, asked, make(corpus, asked)


@pytest.fixture
def copied(built, tmp_path):
    """The same, to spoil."""
    corpus, asked, store = built
    shutil.copytree(corpus, tmp_path / "store")
    return str(tmp_path / "store"), asked, Store.at(f"{tmp_path}/store/features/{Path(store.url).name}")


def settings(folder, unit_rows=7, **backbone):
    return FeatureSettings(backbone={"model": str(folder / "masked"), **backbone}, unit_rows=unit_rows)


def make(corpus, asked, **hooks):
    return make_features(corpus, asked, LocalExecutor(), RunSettings(), **hooks)


def files(store):
    """All parts with their bytes."""
    return {path.name: path.read_bytes() for path in Path(store.url).rglob("*.parquet")}


def test_features_are_the_states_of_the_three_words_as_float16(built):
    corpus, asked, store = built
    triples = TripleStore(corpus).to_table()
    assert triples.num_rows >= 15
    features = open_features(store)
    assert (features.layers, features.dimension, features.num_rows) == ([2, 3], 16, triples.num_rows)
    assert features.ids == triples["id"].to_pylist()
    batches = list(features.batches(batch_size=4))
    assert [name for batch in batches for name in batch.ids.to_pylist()] == features.ids
    assert max(len(batch.ids) for batch in batches) == 4
    backbone = Backbone(asked.backbone)
    for word, (text, start, end) in WORDS.items():
        spans = list(zip(triples[start].to_pylist(), triples[end].to_pylist(), strict=True))
        states, _ = backbone.states(triples[text].to_pylist(), spans)
        found = np.concatenate([batch.states[word] for batch in batches])
        assert found.dtype == np.float16
        # Other batches may change the last digit of a float32, which may tip the rounding.
        np.testing.assert_allclose(found, states.astype(np.float16), rtol=2e-3, atol=1e-4)


def test_batches_are_views_of_what_was_read(built):
    batch = next(open_features(built[2]).batches())
    assert not any(states.flags.owndata for states in batch.states.values())
    states = np.random.default_rng(0).normal(size=(5, 2, 3)).astype(np.float16)
    column = _packed(states).slice(1, 3)  # a column may begin in the middle of its memory
    np.testing.assert_array_equal(_unpacked(column, 2, 3), states[1:4])
    assert np.shares_memory(_unpacked(column, 2, 3), states)


def test_the_store_is_whole_and_says_what_it_is(built):
    corpus, _, store = built
    assert store.url.startswith(f"{corpus}/features/")
    assert len(Path(store.url).name) == 16
    checks = list(verify(store))
    assert [(check.name, check.ok) for check in checks] == [("features", True)]
    content = store.corpus()
    assert content["backbone"]["id"] == "masked"
    assert len(content["backbone"]["sha256"]) == 64
    assert content["layers"] == [2, 3]
    assert content["triples"]["rows"] == TripleStore(corpus).num_rows
    part = CommittedTable(store, "features", "features").parts[0]
    schema = pq.read_schema(f"{store.url}/{part.path}")
    described = {key.decode(): value.decode() for key, value in schema.metadata.items()}
    assert described["dtype"] == "float16"
    assert json.loads(described["layers"]) == [2, 3]
    assert described["dimension"] == "16"
    assert schema.field("negative").type == pa.binary(2 * 16 * 2)


def test_units_that_are_missing_are_done_again_with_the_same_bytes(copied):
    corpus, asked, store = copied
    before = files(store)
    commits = sorted(Path(store.url).glob("features/commits/*.json"))
    assert len(commits) >= 3
    for commit in commits[::2]:
        commit.unlink()
        for part in Path(store.url).glob(f"features/parts/{commit.stem}-*"):
            part.unlink()
    assert set(files(store)) < set(before)
    with pytest.raises(StoreError, match="not all features are computed yet"):
        open_features(store)
    partly = open_features(store, allow_incomplete=True)
    assert not partly.complete
    assert 0 < partly.num_rows < TripleStore(corpus).num_rows
    estimates = []
    assert make(corpus, asked, on_estimate=estimates.append).url == store.url
    assert estimates[0].left == estimates[0].rows - partly.num_rows
    assert files(store) == before
    assert open_features(store).complete


def test_nothing_is_left_to_do_the_second_time(built):
    corpus, asked, store = built
    before = {path: path.stat().st_mtime_ns for path in Path(store.url).rglob("*") if path.is_file()}
    estimates, totals = [], []
    make(corpus, asked, on_estimate=estimates.append, on_pass=lambda *said: totals.append(said))
    assert estimates[0].left == 0
    assert totals[0][0] == "features"
    assert totals[0][1].rows["features"] == TripleStore(corpus).num_rows
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_other_layers_another_model_or_other_triples_have_a_store_of_their_own(copied, tmp_path):
    corpus, asked, store = copied
    assert features_store(corpus, asked).url == store.url
    same = shutil.copytree(asked.backbone.model, tmp_path / "elsewhere" / "masked")
    assert features_store(corpus, settings(same.parent)).url == store.url
    tokenizer = same / "tokenizer.json"
    tokenizer.write_text(tokenizer.read_text() + "\n")
    others = [
        features_store(corpus, settings(same.parent)).url,
        features_store(corpus, settings(Path(asked.backbone.model).parent, first_layer=1)).url,
        features_store(corpus, settings(Path(asked.backbone.model).parent, dtype="float32")).url,
    ]
    next(Path(corpus).glob("generate/commits/*.json")).unlink()
    others.append(features_store(corpus, asked).url)
    assert len({store.url, *others}) == 5


def test_units_have_the_size_that_version_0_1_called_unit_triples(tmp_path):
    file = tmp_path / "features.yaml"
    file.write_text("backbone: {model: m}\nunit_triples: 7")
    asked = settings(tmp_path).model_copy(update={"backbone": BackboneSettings(model="m")})
    assert load_settings(FeatureSettings, file) == asked
    file.write_text("backbone: {model: m}")
    for name in ("unit_rows", "unit_triples"):
        assert load_settings(FeatureSettings, file, [f"{name}=7"]) == asked
        with pytest.raises(ConfigError, match=f"{name}.*greater than or equal to 1"):
            load_settings(FeatureSettings, file, [f"{name}=0"])
    with pytest.raises(ConfigError, match="unit_triples: unknown key"):
        load_settings(FeatureSettings, file, ["unit_rows=7", "unit_triples=8"])


def test_features_of_version_0_1_are_found_and_have_the_same_units(built):
    _, _, store = built
    assert store.corpus()["settings"] == {"unit_triples": 7, "batch_tokens": None}  # hashed into the ids of units
    backbone = {"id": "masked", "sha256": "0" * 64, "dtype": "auto"}
    rows = {"parts": "ab", "rows": 3, "complete": True}
    assert features_identity({"backbone": backbone, "layers": [2, 3], "triples": rows}) == "03f45c04cfe88bdb"


def test_other_units_of_the_same_features_are_refused(copied):
    corpus, asked, store = copied
    before = files(store)
    with pytest.raises(StoreError, match=r"settings.unit_triples: 7 in the store, 8 now"):
        make(corpus, asked.model_copy(update={"unit_rows": 8}))
    assert files(store) == before


def test_features_of_other_triples_are_refused(copied):
    corpus, _, store = copied
    rows = TripleStore(corpus).num_rows
    gone = Path(corpus) / "generate" / "commits"
    next(commit for commit in sorted(gone.iterdir()) if "triples" in json.loads(commit.read_bytes())["parts"]).unlink()
    with pytest.raises(StoreError, match=f"other rows than {corpus} has now: {rows} rows") as caught:
        open_features(store)
    assert store.url in str(caught.value)
    assert "build not finished) now" in str(caught.value)


def test_a_store_without_features_is_refused(built):
    corpus, asked, _ = built
    with pytest.raises(StoreError, match="holds no features"):
        open_features(Store.at(corpus))
    with pytest.raises(StoreError, match="no corpus here"):
        open_features(features_store(corpus, settings(Path(asked.backbone.model).parent, first_layer=1)))


def test_a_disk_too_small_is_told_before_anything_is_written(copied, monkeypatch):
    corpus, asked, store = copied
    shutil.rmtree(store.url)
    usage = namedtuple("usage", "total used free")(10**9, 10**9, 1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    estimates = []
    with pytest.raises(StoreError, match=r"features need 0.00 GB, but only 0.00 GB are free"):
        make(corpus, asked, on_estimate=estimates.append)
    assert not Path(store.url).exists()
    rows = TripleStore(corpus).num_rows
    assert (estimates[0].rows, estimates[0].bytes_left) == (rows, rows * 2 * 16 * 3 * 2)
    assert f"{rows} triples × 192 bytes (layers 2–3, dimension 16)" in str(estimates[0])


def test_the_estimate_of_a_large_model():
    assert bytes_per_row(3, 12, 1024) == 73_728


def stage(folder, **backbone):
    encode = EncodeMembers({}, BackboneSettings(model=str(folder), **backbone))
    encode.setup()
    return encode


def triple(number, **others):
    sentence = {"text": "The river took the water.", "target_start": 4, "target_end": 9}
    positive = {"positive": "The stream took the water.", "positive_start": 4, "positive_end": 10}
    negative = {"negative": "The wind took the water.", "negative_start": 4, "negative_end": 8}
    return {"id": f"t{number}", **sentence, **positive, **negative, **others}


def test_a_triple_with_a_word_that_cannot_be_encoded_is_a_reject(built):
    encode = stage(built[1].backbone.model)
    bad = [triple(1, negative_start=3, negative_end=4), triple(2, target_end=99, positive_start=3, positive_end=4)]
    result = encode.process(pa.Table.from_pylist([triple(0), *bad, triple(3)]))
    assert result.rows["id"].to_pylist() == ["t0", "t3"]
    assert result.rejects.to_pylist() == [
        {"id": "t1", "reason": f"negative: {NO_PIECE}"},
        {"id": "t2", "reason": "original: span is empty or outside the text"},
    ]
    good = encode.process(pa.Table.from_pylist([triple(0)]))
    assert result.rows["negative"][0] == good.rows["negative"][0]


def test_states_too_large_for_float16_are_rejects(built):
    encode = stage(built[1].backbone.model)
    wind = encode._backbone._tokenizer.convert_tokens_to_ids("wind")

    def enlarge(module, args, kwargs, output):
        """As some real models have them: a huge number in one dimension at one kind of token."""
        for states in output.hidden_states:
            states[kwargs["input_ids"] == wind] *= 1e6

    encode._backbone._model.register_forward_hook(enlarge, with_kwargs=True)
    calm = triple(1, negative="The storm took the water.", negative_end=9)
    result = encode.process(pa.Table.from_pylist([triple(0), calm]))
    assert result.rows["id"].to_pylist() == ["t1"]
    assert result.rejects.to_pylist() == [{"id": "t0", "reason": f"negative: {OVERFLOW}"}]


def test_rejects_are_kept_and_the_books_close(tmp_path):
    """A tokenizer to which two words are nothing but spaces."""
    corpus = build(BuildConfig.model_validate(support.settings(tmp_path)), LocalExecutor()).url
    tokenizer = tmp_path / "masked" / "tokenizer.json"
    content = json.loads(tokenizer.read_text())
    blank = [{"type": "Replace", "pattern": {"String": word}, "content": " "} for word in ("river", "water")]
    content["normalizer"] = {"type": "Sequence", "normalizers": [*blank, content["normalizer"]]}
    tokenizer.write_text(json.dumps(content))
    store = make(corpus, settings(tmp_path))
    triples = TripleStore(corpus).to_table().to_pylist()
    unusable = {t["id"] for t in triples if {"river", "water"} & {t["target"], t["positive_word"], t["negative_word"]}}
    assert 0 < len(unusable) < len(triples)
    rejects = CommittedTable(store, "features", "rejects").to_table()
    assert set(rejects["id"].to_pylist()) == unusable
    assert all(NO_PIECE in reason for reason in rejects["reason"].to_pylist())
    assert open_features(store).ids == [t["id"] for t in triples if t["id"] not in unusable]
    assert all(check.ok for check in verify(store))


def test_a_corpus_without_triples_is_refused(tmp_path):
    asked = support.settings(tmp_path)
    build(BuildConfig.model_validate(asked), LocalExecutor(), until="sample")
    with pytest.raises(StoreError, match="'generate' has not been started"):
        make(asked["store"], settings(tmp_path))


def test_features_on_s3_are_the_same(built, s3_root):
    corpus, asked, store = built
    target = Store.at(s3_root)
    for path in sorted(Path(corpus).rglob("*")):
        relative = path.relative_to(corpus).as_posix()
        if path.is_file() and relative.startswith(("corpus.json", "generate/")):
            target.files.write(relative, path.read_bytes())
    there = make(s3_root, asked)
    assert there.url == f"{s3_root}/features/{Path(store.url).name}"
    parts = [CommittedTable(some, "features", "features").parts for some in (store, there)]
    assert parts[0] == parts[1]
    batches = [open_features(some).batches() for some in (store, there)]
    here, far = (np.concatenate([batch.states["positive"] for batch in some]) for some in batches)
    np.testing.assert_array_equal(here, far)


@pytest.mark.slow
def test_ray_leaves_the_same_bytes(copied):
    from corpusgen.engine.cluster import ray_cluster
    from corpusgen.engine.ray_executor import RayExecutor

    corpus, asked, store = copied
    before = files(store)
    shutil.rmtree(store.url)
    with ray_cluster("local"):
        make_features(corpus, asked, RayExecutor(RunSettings()), RunSettings())
    assert files(store) == before


@pytest.mark.real
def test_features_of_a_real_model(copied):
    corpus, _, _ = copied
    model = str(shared_data("models/minilm-mlm"))
    store = make(corpus, FeatureSettings(backbone={"model": model}))
    features = open_features(store)
    assert (features.layers, features.dimension) == ([4, 5, 6], 384)
    assert features.num_rows == TripleStore(corpus).num_rows
    batch = next(features.batches())
    assert batch.states["original"].shape == (len(batch.ids), 3, 384)
    size = sum(part.bytes for part in features.parts)
    assert size < 1.1 * features.num_rows * bytes_per_row(3, 3, 384)
