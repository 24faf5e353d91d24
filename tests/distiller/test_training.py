"""A training: the same however it is interrupted, and what it learns."""

import numpy as np
import pytest
import torch

from corpusgen.errors import ConfigError
from distiller.training import Training
from tests.distiller.support import made_features, settings


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
    with pytest.raises(ConfigError, match=r"400 triples leave .* to train on and 0 to validate with"):
        Training(settings(validation_share=1e-6), features)
