"""Trainings without Ray: states of words as the method supposes them, and settings that suit so few."""

import numpy as np

from distiller.settings import TrainSettings
from distiller.training.data import FeatureChunk, MappedFeatures
from distiller.words.row_facts import distinct_words

LAYERS, LAYERS_OF_PAIRS, DIMENSION = 3, 4, 16


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


def made_pairs(folder):
    """Words of sixty meanings in contexts of their own; a word has two meanings, and some rows lack a member."""
    random, rows = np.random.default_rng(0), 300
    senses = random.normal(size=(60, DIMENSION // 2))
    sense = random.integers(60, size=rows)
    contexts = 2 * random.normal(size=(3, rows, DIMENSION // 2))  # louder than the senses: there is something to learn
    other_word = random.integers(60, size=rows)
    words = [
        np.hstack([senses[meaning], contexts[context]])
        for meaning, context in ((sense, 0), (sense, 1), (sense ^ 1, 2), (other_word, 0))
    ]
    states = np.stack(words, 1)[:, :, None] + 1.0 * random.normal(size=(rows, 4, LAYERS_OF_PAIRS, DIMENSION))
    facts = distinct_words(rows)
    facts["word"], facts["differs"], facts["present"] = sense // 2, False, 0b1111
    facts["present"][::7], facts["present"][::11] = 0b1011, 0b0111
    chunk = FeatureChunk([f"{n:x}-{n}" for n in range(rows)], states.astype(np.float16), facts)
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
