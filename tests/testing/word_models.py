"""Word models with random weights on tiny frozen models, and their vectors by hand."""

import numpy as np
import torch

from corpusgen.models.identity import describe_hub_model
from distiller.settings import BackboneSettings, TrainSettings
from distiller.words.model import WordModel
from distiller.words.saved import SavedModel

DIMENSION, HEADS, LAYERS = 16, 4, (3, 4)
TEXT, RIVER = "the small river stood.", (10, 15)
VALIDATION = {
    "step": 10,
    "epoch": 0.5,
    "loss": 1.25,
    "terms": {},
    "cosine_positive": 0.9,
    "cosine_negative": 0.5,
    "ordered": 0.95,
    "cosine_unrelated": 0.25,
}


def saved_on(folder, described=None, dimension=DIMENSION):
    """A model with random weights on the frozen model in a folder, by default with the hash of its content."""
    trained = TrainSettings(corpus="none", output="none", backbone=BackboneSettings(model=folder), heads=HEADS)
    described = describe_hub_model(folder, None) if described is None else described
    return SavedModel.of(WordModel(dimension, HEADS, seed=1), trained, LAYERS, described, VALIDATION)


def by_hand(states):
    """Meaning and context vectors of layer states (n, layers, d)."""
    with torch.no_grad():
        return [vectors.numpy() for vectors in WordModel(DIMENSION, HEADS, seed=1).eval()(torch.as_tensor(states))]


def near(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
