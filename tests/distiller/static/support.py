"""Small tables of words of all kinds."""

import numpy as np

from distiller.static.vectors import StaticVectors

WORDS = ["the", ",", "u.s.", "«", "naïve", "北京", "don't", "3.5", "...", "é", "c++", "𝒳", "-", "zero", "1990"]
MATRIX = np.random.default_rng(7).normal(0, 0.3, (len(WORDS), 6)).astype(np.float32)
MATRIX[WORDS.index("zero")] = 0
COUNTS = [1000 // (row + 1) for row in range(len(WORDS))]


def odd_words(counts=COUNTS):
    return StaticVectors.of(WORDS, MATRIX, counts)


def random_table(words, dimension, seed=0, prefix="w"):
    matrix = np.random.default_rng(seed).normal(size=(words, dimension)).astype(np.float32)
    return StaticVectors.of([f"{prefix}{number}" for number in range(words)], matrix)
