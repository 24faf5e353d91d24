"""A training: the same however it is interrupted, and what it learns."""

import numpy as np
import pyarrow as pa
import pytest
import torch
import torch.distributed as dist
from torch.multiprocessing import start_processes
from torch.nn.functional import cosine_similarity

from corpusgen.errors import ConfigError
from corpusgen.store.products import WORDS
from distiller.training import loop as training_module
from distiller.training.data import MappedFeatures
from distiller.training.loop import Training, _sent_as, training_split
from distiller.training.online import OnlineFeatures
from distiller.words.model import TrainingPosition
from distiller.words.row_facts import BatchFacts, distinct_words
from distiller.words.saved import ordered_text
from tests.distiller.support import made_features, settings

FACTS = BatchFacts.of(distinct_words(32))
TEXTS = [member.text for member in WORDS.members]


@pytest.fixture(scope="module")
def features(tmp_path_factory):
    return made_features(tmp_path_factory.mktemp("features"))


@pytest.mark.parametrize("standardise", [False, True])
def test_an_interrupted_training_goes_on_to_the_same_bit(features, standardise):
    chosen = settings(standardise=standardise)
    whole = list(Training(chosen, features).run())
    first = Training(chosen, features)
    steps = first.run()
    begun = [next(steps) for _ in range(17)]
    state = torch.utils._pytree.tree_map(lambda x: x.clone() if torch.is_tensor(x) else x, first.state())
    steps.close()
    second = Training(chosen, features)
    second.load_state(state)
    assert begun + list(second.run()) == whole


def test_meaning_is_told_from_context(features):
    training = Training(settings(max_epochs=40), features)
    validations = [validation for _, _, validation in training.run() if validation]
    assert validations[-1].loss < validations[0].loss
    assert validations[-1].ordered >= 0.9
    assert validations[-1].cosine_positive > validations[-1].cosine_negative + 0.3
    assert validations[-1].cosine_unrelated < 0.5


def test_only_positives_that_are_other_words_are_ordered_beside_the_frozen_model(features):
    facts = features.facts.copy()
    facts["differs"] = np.random.default_rng(1).random(len(facts)) < 0.3
    training = Training(settings(), MappedFeatures(features._states, features.ids, facts=facts))
    counted = training._held_out[facts["differs"][training._held_out]]
    states = features.batch(counted)
    meaning = training.model.eval()(states).meaning.detach()
    found = training.validate()
    assert found.differing == len(counted) < len(training._held_out)
    for share, vectors in ((found.ordered, meaning), (found.ordered_frozen, states.mean(2))):
        positive, negative = (cosine_similarity(vectors[0], vectors[member], dim=-1) for member in (1, 2))
        assert 0 < share == (positive > negative).double().mean().item() < 1


def test_nothing_is_ordered_where_every_positive_is_the_same_word(features):
    facts = features.facts.copy()
    facts["differs"] = False
    found = Training(settings(), MappedFeatures(features._states, features.ids, facts=facts)).validate()
    assert found.differing == 0
    assert np.isnan([found.ordered, found.ordered_frozen]).all()
    assert ordered_text(vars(found)) == "no held-out row has another word as positive"
    assert np.isfinite(found.loss)


def validations(rank, workers, folder):
    """What a worker finds; it runs in a process of its own."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{folder}/group", rank=rank, world_size=workers)
    training = Training(settings(max_epochs=2), made_features(folder / f"features{rank}"), rank, workers)
    torch.save(
        [(dict(losses), vars(found) if found else None) for _, losses, found in training.run()], folder / f"{rank}.pt"
    )
    dist.destroy_process_group()


def test_two_workers_find_what_one_does(features, tmp_path):
    start_processes(validations, (2, tmp_path), nprocs=2)
    first, second = (torch.load(tmp_path / f"{rank}.pt") for rank in (0, 1))
    assert first == second
    alone = list(Training(settings(max_epochs=2), features).run())
    for (losses, validation), (_, expected_losses, expected) in zip(first, alone, strict=True):
        assert losses == pytest.approx(expected_losses, rel=1e-4)
        assert (validation is None) == (expected is None)
        if validation:
            assert validation.pop("terms") == pytest.approx(expected.terms, rel=1e-4)
            assert validation == pytest.approx({name: vars(expected)[name] for name in validation}, rel=1e-4)


@pytest.mark.parametrize("at_once", [1, 7, 1024])
def test_unrelated_words_are_neighbours_by_hash_whatever_is_judged_at_once(features, monkeypatch, at_once):
    monkeypatch.setattr(training_module, "_VALIDATION_ROWS", at_once)
    training = Training(settings(), features)
    held_out = training._held_out
    assert held_out.tolist() != sorted(held_out)
    meaning = training.model.eval()(features.batch(held_out)).meaning[0].detach()
    expected = cosine_similarity(meaning, meaning.roll(1, 0), dim=-1).mean()
    assert training.validate().cosine_unrelated == pytest.approx(expected.item(), abs=1e-6)


def gradient_of_first_step(features, **changed):
    training = Training(settings(**changed), features)
    training._step(features.batch(np.arange(32)), FACTS, TrainingPosition(seed=0, step=0), 32)
    return torch.cat([parameter.grad.flatten() for parameter in training.model.parameters()])


def test_a_clipped_gradient_keeps_its_direction(features):
    whole = gradient_of_first_step(features)
    assert whole.norm() > 0.02
    torch.testing.assert_close(gradient_of_first_step(features, clip_gradient=0.01), whole * (0.01 / whole.norm()))
    assert torch.equal(gradient_of_first_step(features, clip_gradient=1e6), whole)


@pytest.mark.parametrize(
    ("precision", "products"), [("auto", torch.float32), ("float32", torch.float32), ("bfloat16", torch.bfloat16)]
)
def test_only_matrix_products_are_in_the_chosen_precision(features, precision, products):
    training = Training(settings(precision=precision), features)
    seen = []
    training.model.meaning.expand.register_forward_hook(lambda module, given, result: seen.append(result.dtype))
    losses = training._step(features.batch(np.arange(32)), FACTS, TrainingPosition(seed=0, step=0), 32)
    assert seen == [products]
    kept = [state for of in training.state()["optimizer"]["state"].values() for state in of.values()]
    kept += [one for parameter in training.model.parameters() for one in (parameter, parameter.grad)]
    assert {one.dtype for one in kept} == {torch.float32}
    exact = Training(settings(), features)._step(
        features.batch(np.arange(32)), FACTS, TrainingPosition(seed=0, step=0), 32
    )
    assert losses == pytest.approx(exact, rel=0.02)
    assert (losses == exact) == (products == torch.float32)


def test_no_value_is_looked_at_during_a_step(features):
    """A meta tensor has no values: whatever looked at one on the way, as a wait for a GPU would, raises."""
    training = Training(settings(clip_gradient=1.0, dropout=0.0), features)
    training.model.to("meta")
    training._optimizer = torch.optim.AdamW(training.model.parameters())  # the fused one knows real devices only
    losses = training._step(features.batch(np.arange(32)).to("meta"), FACTS, TrainingPosition(seed=0, step=0), 32)
    with pytest.raises(NotImplementedError, match="meta"):
        dict(losses)


@pytest.mark.parametrize(("warmup", "rates"), [(4, [1, 2, 3, 4, 4, 4]), (0, [4] * 6)])
def test_the_learning_rate_rises_and_then_stays(features, warmup, rates):
    training = Training(settings(learning_rate=4e-3, warmup_steps=warmup), features)
    used = [training._optimizer.param_groups[0]["lr"] for _ in zip(range(6), training.run(), strict=False)]
    assert used == pytest.approx([rate * 1e-3 for rate in rates])


class LoudBackbone:
    """Its states are too large for half precision."""

    layers = range(3)
    dimension = 16

    def states(self, texts, spans):
        return np.full((len(texts), 3, 16), 1e5, np.float32), [None] * len(texts)


def test_a_gpu_gets_halves_only_of_states_that_are_kept_so(features):
    columns = {name: ["a"] if name in TEXTS else [0] for name in WORDS.columns}
    online = OnlineFeatures(pa.table(columns), WORDS, np.array([b"id"]), LoudBackbone())
    rows, gpu = np.array([0]), torch.device("cuda")
    assert online.batch(rows, _sent_as(online.dtype, gpu)).isfinite().all()
    kept = features.batch(rows, _sent_as(features.dtype, gpu))
    assert kept.dtype == torch.float16
    assert torch.equal(kept.float(), features.batch(rows))


class SomeTriples:
    """A store of two triples that counts how often it is read."""

    schema = pa.schema([(name, pa.string() if name in ("id", *TEXTS) else pa.int64()) for name in WORDS.columns])

    def __init__(self):
        self.reads = 0

    def batches(self, columns):
        self.reads += 1
        words = {name: ["word one", "word two"] if name in TEXTS else [0, 0] for name in columns}
        ends = {name: [4, 4] for name in columns if name.endswith("_end")}
        yield pa.RecordBatch.from_pydict({**words, **ends, "id": ["a", "b"]}, self.schema)


class NamingBackbone:
    """Its states tell the lengths of the texts."""

    layers = range(3)
    dimension = 16

    def reasons(self, texts, spans):
        return [None] * len(texts)

    def states(self, texts, spans):
        return np.full((len(texts), 3, 16), len(texts[0]), np.float32), [None] * len(texts)


@pytest.mark.parametrize("name", ["rows.arrow", "ids.npy", "facts.npy"])
def test_a_damaged_copy_of_triples_is_made_again(tmp_path, name):
    triples = SomeTriples()
    for _ in range(2):
        online = OnlineFeatures.open(tmp_path, "abc", triples, WORDS, NamingBackbone())
    assert triples.reads == 1
    path = next(tmp_path.glob(f"*/{name}"))
    data = path.read_bytes()
    path.write_bytes(data.replace(b"word one", b"ward one") if name == "rows.arrow" else data[:-1] + b"x")
    online = OnlineFeatures.open(tmp_path, "abc", triples, WORDS, NamingBackbone())
    assert triples.reads == 2
    assert path.read_bytes() == data
    assert online.ids.tolist() == [b"a", b"b"]
    assert (online.batch(np.array([1, 0])) == 8).all()


def test_a_copy_of_version_0_1_is_made_again(tmp_path):
    rows = SomeTriples()
    OnlineFeatures.open(tmp_path, "abc", rows, WORDS, NamingBackbone())
    made = next(tmp_path.glob("*/rows.arrow"))
    complete = made.parent / "complete.json"
    made.rename(made.with_name("triples.arrow"))
    complete.write_text(complete.read_text().replace("rows.arrow", "triples.arrow"))
    assert len(OnlineFeatures.open(tmp_path, "abc", rows, WORDS, NamingBackbone())) == 2
    assert rows.reads == 2
    assert not list(tmp_path.glob("*/triples.arrow"))


def test_standardised_layers_are_those_of_the_originals_trained_on(features):
    training = Training(settings(standardise=True), features)
    originals = features.batch(training._rows)[0].numpy()
    prepared = (originals - originals.mean(0)) / originals.std(0)
    model = training.model
    np.testing.assert_allclose(model.layers(torch.from_numpy(originals)).numpy(), prepared, atol=1e-4)
    np.testing.assert_allclose(model.rebuilt(torch.from_numpy(originals)).numpy(), prepared.mean(1), atol=1e-4)
    by_hand = Training(settings(), features).model.eval()(torch.from_numpy(prepared).float())
    found = model.eval()(torch.from_numpy(originals))
    np.testing.assert_allclose(found.meaning.detach(), by_hand.meaning.detach(), atol=1e-4)
    np.testing.assert_allclose(found.context.detach(), by_hand.context.detach(), atol=1e-4)


def test_without_negatives_there_are_four_terms(features):
    *_, (_, losses, _) = Training(settings(max_epochs=1, negatives=False), features).run()
    assert len(losses) == 4


def test_it_stops_when_nothing_gets_better(features):
    training = Training(settings(learning_rate=1e-12, min_delta=1.0, patience=3, max_epochs=100), features)
    *_, (step, _, _) = training.run()
    # The first validation is the best; then it waits for three.
    assert step == 4 * training.validation_interval
    assert training.progress.best_step == training.validation_interval


def test_too_few_triples_are_refused(features):
    with pytest.raises(ConfigError, match=r"400 rows leave .* to train on and 0 to validate with.*validation_share"):
        Training(settings(validation_share=1e-6), features)


def test_a_document_with_more_rows_than_may_be_held_out_is_refused():
    ids = [f"document {n // 10}" for n in range(400)]
    assert len(training_split(ids, settings(validation_at_most=10)).validation) == 10
    with pytest.raises(ConfigError, match=r"0 to validate with.* validation_at_most"):
        training_split(ids, settings(validation_at_most=9))
