"""Trainings without Ray: states of words as the method supposes them, and settings that suit so few."""

import numpy as np

from distiller.settings import TrainSettings
from distiller.training.data import FeatureChunk, MappedFeatures

LAYERS, DIMENSION = 3, 16


def made_features(folder):
    """Half of a state is meaning, half is context, a little different by layer."""
    random = np.random.default_rng(0)
    rows = 400
    meaning, other, context, elsewhere = random.normal(size=(4, rows, DIMENSION // 2))
    words = [np.hstack(halves) for halves in ((meaning, context), (meaning, elsewhere), (other, context))]
    words = np.stack(words, 1)
    states = words[:, :, None] + 0.1 * random.normal(size=(rows, 3, LAYERS, DIMENSION))
    chunk = FeatureChunk([f"id{n}" for n in range(rows)], states.astype(np.float16))
    return MappedFeatures.open(folder, "made", lambda: [chunk])


def settings(**changed):
    values = {
        "corpus": "nowhere",
        "output": "nowhere",
        "backbone": {"model": "none"},
        "batch_size": 32,
        "heads": 4,
        "learning_rate": 3e-3,
        "warmup_steps": 5,
        "max_epochs": 6,
        "validation_share": 0.2,
        "validate_every": 0.5,
    }
    return TrainSettings.model_validate({**values, **changed})
