"""The method as one writes it down first, and as the code published with the paper does it.

One sentence per call of the translators and of the masked language model, probabilities of all words everywhere, one
cosine for each pair of words, words found by searching for their letters, everything in memory. Given the same models
and the paper's rules it must find the same triples: the benchmarks see to that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

_WORD = re.compile(r"\w+(?:[-'’.]\w+)*")
_DECIMALS = 5
_TOP = 100

Vector = npt.NDArray[np.float32]


@dataclass
class NaivePipeline:
    """Round trip, alignment, enrichment and negative of one target after the other."""

    forward: Callable[[list[str]], list[str]]
    back: Callable[[list[str]], list[str]]
    model: Any
    tokenizer: Any
    vector: Callable[[str], Vector]
    """Of a word in lower case; zeros if it has none."""
    known: Callable[[str], bool]
    cosine: float = 0.6
    probability: float = 0.003
    width: int = 0
    """To which every sentence is padded; the published code has 200."""

    def triples(self, targets: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any] | None]:
        """The triple of each target; None where there is none."""
        return (self._triple(target) for target in targets)

    def _triple(self, target: Mapping[str, Any]) -> dict[str, Any] | None:
        text, word = target["text"], target["target"]
        (paraphrase,) = self.back(self.forward([text]))
        aligned = self._aligned(text, word, paraphrase)
        if aligned is None:
            return None
        positive, positive_word = paraphrase, aligned
        is_name = text.index(word) > 0 and word[0].isupper()
        if distance(word.lower(), aligned.lower()) <= 3 and not is_name:
            for candidate, _ in self._candidates(paraphrase, aligned, word, lambda cosine: cosine >= self.cosine):
                if distance(word.lower(), candidate) > 3:
                    positive_word = like(candidate, aligned)
                    positive = replaced(paraphrase, aligned, positive_word)
                    break
        for candidate, _ in self._candidates(text, word, word, lambda cosine: cosine < self.cosine):
            if candidate != word.lower():
                negative_word = like(candidate, word)
                return {
                    "id": target["id"],
                    "positive": positive,
                    "positive_word": positive_word,
                    "negative": replaced(text, word, negative_word),
                    "negative_word": negative_word,
                }
        return None

    def _aligned(self, text: str, word: str, paraphrase: str) -> str | None:
        """Algorithm 4.1, one cosine after the other."""
        originals, others = _WORD.findall(text), _WORD.findall(paraphrase)
        target = originals.index(word)
        matrix = np.array([[self._cosine(a.lower(), b.lower()) for b in others] for a in originals])
        taken = {
            matrix[row].argmax()
            for row in range(len(originals))
            if row != target and matrix[:, matrix[row].argmax()].argmax() == row
        }
        for column in np.argsort(-matrix[target], kind="stable"):
            if column not in taken:
                return others[column] if round(matrix[target][column], _DECIMALS) >= self.cosine else None
        return None

    def _cosine(self, a: str, b: str) -> float:
        left, right = self.vector(a), self.vector(b)
        lengths = np.linalg.norm(left) * np.linalg.norm(right)
        return float(np.dot(left, right) / lengths) if lengths else 0.0

    def _candidates(
        self, text: str, masked: str, target: str, wanted: Callable[[float], bool]
    ) -> Iterator[tuple[str, float]]:
        """Probable words where `masked` stands that are as near to the target as wanted."""
        start = text.index(masked)
        encoded = self.tokenizer(text, return_offsets_mapping=True)
        inside = [a < start + len(masked) and b > start for a, b in encoded["offset_mapping"]]
        ids = [
            self.tokenizer.mask_token_id if here else piece
            for piece, here in zip(encoded["input_ids"], inside, strict=True)
        ]
        padding = max(0, self.width - len(ids))
        with torch.no_grad():
            present = torch.tensor([[1] * len(ids) + [0] * padding])
            logits = self.model(torch.tensor([ids + [0] * padding]), attention_mask=present).logits
            probabilities = torch.softmax(logits, -1)[0, inside.index(True)]
        found = 0
        for index in probabilities.argsort(descending=True).tolist():
            candidate = self.tokenizer.convert_ids_to_tokens(index)
            if candidate.startswith("##") or not candidate.isalpha() or len(candidate) < 2:
                continue
            probability, found = round(float(probabilities[index]), _DECIMALS), found + 1
            if probability < self.probability or found > _TOP:
                return
            if self.known(candidate) and wanted(round(self._cosine(target.lower(), candidate), _DECIMALS)):
                yield candidate, probability


@torch.no_grad()
def layer_states(model: Any, tokenizer: Any, text: str, span: tuple[int, int], width: int = 0) -> Vector:
    """What the upper half of the layers say of a word, (layers, d), from all layers of all pieces of one text."""
    options = {"padding": "max_length", "max_length": width} if width else {}
    encoded = tokenizer(text, return_offsets_mapping=True, return_tensors="pt", **options)
    offsets = encoded.pop("offset_mapping")[0].tolist()
    inside = [start < span[1] and end > span[0] for start, end in offsets]
    layers = model(**encoded, output_hidden_states=True).hidden_states[1:]
    states: Vector = torch.stack([layer[0, inside].mean(0) for layer in layers[len(layers) // 2 :]]).numpy()
    return states


def distance(a: str, b: str) -> int:
    """Letters to insert, delete or replace."""
    row = list(range(len(b) + 1))
    for i, left in enumerate(a, 1):
        row, above = [i], row
        for j, right in enumerate(b, 1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (left != right)))
    return row[-1]


def like(word: str, model: str) -> str:
    """In the case of another word."""
    if len(model) > 1 and model.isupper():
        return word.upper()
    return word.capitalize() if model[0].isupper() else word


def replaced(text: str, word: str, other: str) -> str:
    """The first such word, found by its letters, replaced."""
    return text.replace(word, other, 1)
