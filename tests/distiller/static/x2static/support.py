"""A small text, and X2Static as the paper states it: loops over targets, in double precision."""

import math

import numpy as np

from distiller.static.settings import X2StaticSettings
from distiller.static.x2static.sampling import Sampling
from distiller.static.x2static.sentences import Sentences, batches
from distiller.static.x2static.trainer import ShardTrainer

VOCABULARY = 60


def text(lines=40, dimension=50, sentences_per_line=2, scale=1.0, seed=0):
    """Random sentences whose words follow Zipf's law, and the counts of all words."""
    chance = np.random.default_rng(seed)
    sentences = lines * sentences_per_line
    offsets = np.concatenate([[0], np.cumsum(chance.integers(0, 12, sentences))])
    frequency = 1 / np.arange(1, VOCABULARY + 1)
    tokens = chance.choice(VOCABULARY, offsets[-1], p=frequency / frequency.sum()).astype(np.int32)
    contexts = (scale * chance.standard_normal((sentences, dimension))).astype(np.float16)
    made = Sentences(contexts, tokens, offsets, np.arange(lines + 1) * sentences_per_line)
    return made, np.bincount(tokens, minlength=VOCABULARY) + 1


def settings(**given):
    """Settings with which a small text has both words that are thinned out and words that are not."""
    return X2StaticSettings(**{"threshold": 0.005, "batch_lines": 8, "learning_rate": 0.01, "epochs": 2, **given})


def trained(sentences, counts, given, workers=1, threads=1):
    """All shards after the whole training, and the loss of each step."""
    dimension = sentences.contexts.shape[1]
    shards = [ShardTrainer(given, counts, dimension, rank, workers, threads) for rank in range(workers)]
    losses = []
    for batch in batches(sentences, given):
        first, *others = (shard.step(batch) for shard in shards)
        losses.append(sum(others, first))
    return shards, losses


def whole(shards):
    """The state and the touches of all words, put together from their shards."""
    size = shards[0].vocabulary
    state, touches = np.zeros((size, 3, shards[0].dimension), np.float32), np.zeros(size, np.int32)
    for shard in shards:
        state[shard.rows], touches[shard.rows] = shard.state, shard.touches
    return state, touches


class ByTheBook:
    """The method in plain Python: dictionaries of gradients, Adam on the rows that have one."""

    def __init__(self, given, counts, vectors):
        self.given, self.sampling = given, Sampling.of(given, counts)
        self.vectors = vectors.astype(np.float64)
        self.means, self.squares = np.zeros_like(self.vectors), np.zeros_like(self.vectors)
        self.touches = np.zeros(len(vectors), int)

    def objective(self, batch, vectors):
        """The loss, and the gradient of each row that is a target or a negative."""
        candidates, words = self.sampling.draw(batch)
        loss, gradients = 0.0, {}
        for number, row_of_words in zip(candidates, words, strict=True):
            c = batch.contexts[batch.sentence[number]].astype(np.float64)
            for k, word in enumerate(row_of_words):
                sign = 1 if k == 0 else -1
                x = sign * float(vectors[word] @ c)
                loss += math.log1p(math.exp(-min(max(x, -20), 20))) / len(words)
                slope = -sign / (1 + math.exp(x)) / len(words) if -20 <= x <= 20 else 0.0
                gradients[word] = gradients.get(word, 0.0) + slope * c
        return loss, gradients

    def step(self, batch):
        loss, gradients = self.objective(batch, self.vectors)
        given = self.given
        for word, gradient in gradients.items():
            self.touches[word] += 1
            step = self.touches[word] if given.bias_correction == "row" else batch.step + 1
            self.means[word] = given.beta1 * self.means[word] + (1 - given.beta1) * gradient
            self.squares[word] = given.beta2 * self.squares[word] + (1 - given.beta2) * gradient**2
            size = given.learning_rate * math.sqrt(1 - given.beta2**step) / (1 - given.beta1**step)
            self.vectors[word] -= size * self.means[word] / (np.sqrt(self.squares[word]) + given.epsilon)
        return loss
