"""The published way to train X2Static: one process, the frozen model in the loop, a Python loop over words.

Written from its description: a batch of sentences goes through the model, every kept word of it becomes a target with
the vector of its sentence and ten negatives, and PyTorch's `SparseAdam` makes a step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.nn.functional import softplus

from distiller.static.x2static.sampling import keep_probability

NEGATIVES, THRESHOLD, EXPONENT, RATE = 10, 5e-6, 0.5, 1e-3


class Published:
    """A training on one device."""

    def __init__(self, tokenizer: Any, model: Any, numbers: Mapping[str, int], counts: np.ndarray) -> None:
        self._tokenizer, self._model, self._numbers = tokenizer, model, numbers
        self._kept = keep_probability(counts, THRESHOLD)
        share = counts.astype(np.float64) ** EXPONENT
        self._share = share / share.sum()
        self._chance = np.random.default_rng(0)
        dimension = model.config.hidden_size
        self._table = torch.nn.Embedding(len(counts), dimension, sparse=True)
        torch.nn.init.uniform_(self._table.weight, -1 / dimension, 1 / dimension)
        self._optimizer = torch.optim.SparseAdam(self._table.parameters(), lr=RATE)

    def step(self, sentences: Sequence[Sequence[str]]) -> None:
        """Train on a batch of sentences, which are lists of words."""
        read = self._tokenizer(
            [" ".join(words) for words in sentences], padding=True, truncation=True, max_length=200, return_tensors="pt"
        )
        with torch.inference_mode():
            states = self._model(**read).last_hidden_state
            present = read["attention_mask"].unsqueeze(-1)
            vectors = (states * present).sum(1) / present.sum(1)
        contexts, targets = [], []
        for number, words in enumerate(sentences):
            for word in words:
                found = self._numbers.get(word)
                if found is not None and self._chance.random() < self._kept[found]:
                    contexts.append(number)
                    targets.append(found)
        if not targets:
            return
        negatives = self._chance.choice(len(self._share), (len(targets), NEGATIVES), p=self._share)
        c = vectors.clone()[contexts]
        self._optimizer.zero_grad()
        of_targets = (self._table(torch.tensor(targets)) * c).sum(-1).clamp(-20, 20)
        of_negatives = torch.einsum("nkd,nd->nk", self._table(torch.from_numpy(negatives)), c).clamp(-20, 20)
        (softplus(-of_targets).mean() + softplus(of_negatives).mean(0).sum()).backward()
        self._optimizer.step()
