"""Where a worker's layer states come from: the tables it trains on, and the members that its objective needs."""

import numpy as np
import pytest
import torch

from corpusgen.config.build import BuildConfig
from corpusgen.corpus.build import build
from corpusgen.engine import LocalExecutor, RunSettings
from corpusgen.errors import ConfigError
from corpusgen.store import Store, TripleStore
from corpusgen.store.products import DISCOURSE, WORDS, open_product, product_of
from distiller.settings import FeatureSettings
from distiller.training.worker import Instructions, _source
from distiller.words.features import features_content, features_identity, make_features
from distiller.words.objective import products_for
from tests.distiller.support import settings
from tests.testing import document_builds, triple_builds


@pytest.fixture
def triples(tmp_path):
    return build(BuildConfig.model_validate(triple_builds.settings(tmp_path)), LocalExecutor()).url


@pytest.fixture
def both(tmp_path):
    """A store of triples and pairs."""
    config = triple_builds.settings(tmp_path, **triple_builds.AND_PAIRS, store=str(tmp_path / "both"))
    return build(BuildConfig.model_validate(config), LocalExecutor()).url


def source(corpus, folder, objective, features="cached", table=None):
    """What a worker of a training with this objective reads."""
    backbone = {"model": str(folder / "masked"), "first_layer": 1}
    identities = {}
    for name in table.split("+") if table else [product_of(Store.at(corpus)).table]:
        asked = FeatureSettings(backbone=backbone, table=name)
        if features == "cached":
            make_features(corpus, asked, LocalExecutor(), RunSettings())
        content = features_content(Store.at(corpus), asked)
        identities[name] = features_identity(content)
    chosen = {"objective": objective, "features": features, "table": table, "cache": str(folder / "cache")}
    chosen = settings(corpus=corpus, backbone=backbone, **chosen)
    return _source(Instructions(chosen, identities, content["backbone"]), "cpu")


@pytest.mark.parametrize("features", ["cached", "online"])
def test_objectives_of_one_corpus_do_not_share_a_copy(triples, tmp_path, features):
    rows = np.arange(4)
    three = source(triples, tmp_path, "reconstruct", features)
    four = source(triples, tmp_path, "contrast", features)
    original, positive, negative = source(triples, tmp_path, "reconstruct", features).batch(rows)
    assert torch.equal(three.batch(rows), torch.stack([original, positive, negative]))
    # Triples have no same word in another document: the original stands there, and is told to be absent.
    assert torch.equal(four.batch(rows), torch.stack([original, positive, original, negative]))
    assert three.facts["present"].tolist() == [0b111] * len(three)
    assert four.facts["present"].tolist() == [0b1011] * len(four)


def test_triples_are_held_out_by_their_sentence(triples, tmp_path):
    ids = TripleStore(triples).to_table(["id"])["id"].to_pylist()
    assert source(triples, tmp_path, "reconstruct").ids.tolist() == [id_.encode() for id_ in ids]


@pytest.mark.parametrize("features", ["cached", "online"])
def test_pairs_are_held_out_by_their_document(tmp_path, features):
    triple_builds.write_masked_lm(tmp_path / "masked")
    document_builds.write(tmp_path, "jsonl", document_builds.documents(12))
    config = BuildConfig.model_validate(document_builds.settings(tmp_path, discourse={"size": 60}))
    pairs = build(config, LocalExecutor()).url
    table = open_product(pairs).to_table(["id", "negative"])
    found = source(pairs, tmp_path, "contrast", features)
    assert found.ids.tolist() == [id_.partition("-")[0].encode() for id_ in table["id"].to_pylist()]
    assert 1 < len(set(found.ids.tolist())) <= 12
    has_negative = [negative is not None for negative in table["negative"].to_pylist()]
    assert [bool(present & 0b0100) for present in found.facts["present"].tolist()] == has_negative


@pytest.mark.parametrize("features", ["cached", "online"])
def test_the_rows_of_two_tables_follow_one_another(both, tmp_path, features):
    triples, pairs, together = (
        source(both, tmp_path, "contrast", features, table) for table in ("triples", "pairs", "pairs+triples")
    )
    assert len(triples) > 10
    assert len(pairs) > 10
    assert together.ids.tolist() == triples.ids.tolist() + pairs.ids.tolist()  # as the corpus has them, not as named
    assert np.array_equal(together.facts, np.concatenate([triples.facts, pairs.facts]))
    assert set(triples.facts["present"].tolist()) == {0b1011}
    assert 0b1111 in pairs.facts["present"].tolist()
    mixed = np.random.default_rng(0).permutation(len(together))[:20]
    of_triples = mixed < len(triples)
    states = together.batch(mixed)
    expected = [triples.batch(mixed[of_triples]), pairs.batch(mixed[~of_triples] - len(triples))]
    # Online states are encoded in batches of other texts: their last bits may be others.
    for found, wanted in zip((states[:, of_triples], states[:, ~of_triples]), expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-5 if features == "online" else 0)
    for rows in (mixed[of_triples], mixed[~of_triples]):  # batches with rows of one table, or with none
        torch.testing.assert_close(together.batch(rows), states[:, np.isin(mixed, rows)], rtol=0, atol=1e-5)
    assert together.batch(mixed[:0]).shape == (4, 0, *states.shape[2:])


def test_a_table_has_one_copy_for_all_trainings_on_it(both, tmp_path):
    copies = [source(both, tmp_path, "contrast", table=table)._copy for table in ("triples", "pairs")]
    together = source(both, tmp_path, "contrast", table="triples+pairs")
    assert [one._copy for one in together._sources] == copies


def test_tables_are_those_that_the_corpus_has(both, triples):
    def chosen(corpus, table=None):
        return products_for(settings(corpus=corpus, table=table, objective="contrast"), Store.at(corpus))

    assert chosen(both) == [DISCOURSE]
    assert chosen(both, "triples") == [WORDS]
    assert chosen(both, "triples+pairs") == chosen(both, "pairs+triples") == [WORDS, DISCOURSE]
    with pytest.raises(ConfigError, match="holds triples, not pairs"):
        chosen(triples, "triples+pairs")
    with pytest.raises(ConfigError, match="holds triples and pairs, not pears"):
        chosen(both, "triples+pears")
