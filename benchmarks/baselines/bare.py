"""The limit: the same models on ready-made batches of texts of like length, with nothing around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

Batch = dict[str, torch.Tensor]


def padded_batches(ids: Sequence[Sequence[int]], batch_tokens: int = 1024) -> list[Batch]:
    """Inputs sorted by length, as many at a time as fit into so many tokens, padding counted."""
    batches: list[list[Sequence[int]]] = [[]]
    for one in sorted(ids, key=len):
        if (len(batches[-1]) + 1) * len(one) > batch_tokens and batches[-1]:
            batches.append([])
        batches[-1].append(one)
    return [_padded(batch) for batch in batches]


def _padded(batch: Sequence[Sequence[int]]) -> Batch:
    width = max(map(len, batch))
    rows = [([*one, *[0] * (width - len(one))], [1] * len(one) + [0] * (width - len(one))) for one in batch]
    return {
        "input_ids": torch.tensor([ids for ids, _ in rows]),
        "attention_mask": torch.tensor([present for _, present in rows]),
    }


@torch.inference_mode()
def call_on_all(model: Any, batches: Sequence[Batch]) -> None:
    """Every batch through the model; what it says is thrown away."""
    for batch in batches:
        model(**batch)


def masked_ids(tokenizer: Any, text: str, span: tuple[int, int]) -> list[int]:
    """The pieces of a text, those of the word at the span masked."""
    encoded = tokenizer(text, return_offsets_mapping=True)
    pieces = zip(encoded["input_ids"], encoded["offset_mapping"], strict=True)
    return [tokenizer.mask_token_id if a < span[1] and b > span[0] else piece for piece, (a, b) in pieces]
