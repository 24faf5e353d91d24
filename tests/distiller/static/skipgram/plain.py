"""Dynamic skip-gram written plainly with numpy: windows, losses and gradients in loops, and the optimizers."""

import math

import numpy as np


def window(sentence, i, size, centre):
    """The places of the contexts of the token at place `i`."""
    if centre == "published":  # as the published code has it, absolute and relative places confused
        begin = max(i - size, 0)
        return [begin + index for index, _ in enumerate(sentence[begin : i + size]) if index != i]
    return [j for j in range(max(0, i - size), min(len(sentence), i + size + 1)) if j != i or centre == "include"]


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def softmax(scores):
    powers = np.exp(scores - np.max(scores))
    return powers / powers.sum()


def gradients(states, contexts, negatives, weight, bias, table, settings):
    """Return the two sums of losses, the number of predictions, and the gradients of map, bias and table.

    `contexts` has a list of words for each centre; `negatives` one for each centre, or for each of its pairs.
    """
    scale = 1 / math.sqrt(table.shape[1]) if settings.scaled else 1.0
    of_map, of_bias, of_table = np.zeros_like(weight), np.zeros_like(bias), np.zeros_like(table)
    centres = [weight @ state + bias for state in states]
    pairs = [(n, word) for n, words in enumerate(contexts) for word in words]
    scores = [centres[n] @ table[word] for n, word in pairs]
    slopes = np.zeros(len(pairs))  # of the loss, by the score of each pair
    targets = predictions = 0
    if settings.attention == "pairs":
        groups = [range(first, min(first + 5, len(pairs))) for first in range(0, len(pairs), 5)]
    else:
        groups, first = [], 0
        for words in contexts:
            groups.append(range(first, first + len(words)))
            first += len(words)
    for group in groups:
        p = np.array([scores[index] for index in group])
        a = np.full(len(p), 1 / len(p)) if settings.attention == "none" else softmax(scale * p)
        k = 0.0 if settings.attention == "none" else scale
        if settings.attention == "pairs":
            targets += sum(-math.log(sigmoid(y)) for y in a * p)
            predictions += len(p)
            h = np.array([-sigmoid(-y) for y in a * p])
            slope = h * a + k * a * (h * p - (h * a * p).sum())
        else:
            x = (a * p).sum()
            targets += -math.log(sigmoid(x))
            predictions += 1
            slope = -sigmoid(-x) * (a + k * a * (p - x))
        slopes[list(group)] = slope
    of_centres = [np.zeros(table.shape[1]) for _ in centres]
    for (n, word), slope in zip(pairs, slopes, strict=True):
        of_centres[n] += slope * table[word]
        of_table[word] += slope * centres[n]
    against = 0.0
    owners = range(len(centres)) if settings.negatives_per == "centre" else [n for n, _ in pairs]
    for n, words in zip(owners, negatives, strict=True):
        for word in words:
            x = centres[n] @ table[word]
            against += -math.log(sigmoid(-x))
            of_centres[n] += sigmoid(x) * table[word]
            of_table[word] += sigmoid(x) * centres[n]
    for state, gradient in zip(states, of_centres, strict=True):
        of_map += np.outer(gradient, state)
        of_bias += gradient
    return targets, against, predictions, of_map, of_bias, of_table


class PlainTrainer:
    """All steps in one process, in float64."""

    def __init__(self, settings, weight, bias, words, last_step):
        self.settings, self.last_step, self.step = settings, last_step, 0
        self.weight, self.bias = weight.astype(np.float64), bias.astype(np.float64)
        self.table = np.zeros((words, settings.dimension))
        self._squares = [np.zeros_like(self.weight), np.zeros_like(self.bias), np.zeros(words)]

    def train(self, states, contexts, negatives):
        settings = self.settings
        found = gradients(states, contexts, negatives, self.weight, self.bias, self.table, settings)
        of_map, of_bias, of_table = found[3:]
        rate = settings.learning_rate * (1 - self.step / self.last_step if settings.decay == "linear" else 1)
        self.step += 1
        if settings.optimizer == "sgd":
            if settings.clip_gradient is not None:
                own = (of_map, of_table, *([of_bias] if settings.bias else []))
                norm = math.sqrt(sum((gradient**2).sum() for gradient in own))
                rate *= min(1.0, settings.clip_gradient / max(norm, 1e-12))
            self.weight -= rate * of_map
            self.bias -= rate * of_bias if settings.bias else 0
            self.table -= rate * of_table
        else:
            of_weight, of_biases, of_words = self._squares
            of_weight += of_map**2
            of_biases += of_bias**2
            of_words += (of_table**2).mean(1)
            self.weight -= rate * of_map / (np.sqrt(of_weight) + 1e-10)
            self.bias -= rate * of_bias / (np.sqrt(of_biases) + 1e-10) if settings.bias else 0
            self.table -= rate * of_table / (np.sqrt(of_words)[:, None] + 1e-10)
        return found[0] / found[2], found[1] / found[2]
