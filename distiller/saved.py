"""A word model as it is saved: weights, what is needed to use them, and a card that says what it is."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from distiller.model import WordModel
from distiller.settings import TrainSettings

FORMAT = 1
WEIGHTS, CONFIG, CARD = "model.safetensors", "config.json", "README.md"


def save_model(
    files: Any,
    folder: str,
    model: WordModel,
    settings: TrainSettings,
    layers: Sequence[int],
    validation: Mapping[str, Any],
) -> None:
    """Write the model into a folder of `files`; its configuration last, since that is what makes it a model."""
    from safetensors.torch import save

    config = {
        "format": FORMAT,
        "backbone": settings.backbone.model_dump(mode="json", include={"model", "revision"}),
        "layers": [layers[0], layers[-1]],
        "dimension": model.meaning.expand.in_features,
        "heads": settings.heads,
        "dropout": settings.dropout,
        "training": settings.model_dump(mode="json", exclude={"output", "backbone"}),
        "validation": dict(validation),
    }
    files.write(f"{folder}/{WEIGHTS}", save({name: value.contiguous() for name, value in model.state_dict().items()}))
    files.write(f"{folder}/{CARD}", _card(config).encode())
    files.write(f"{folder}/{CONFIG}", json.dumps(config, indent=1).encode())


def _card(config: Mapping[str, Any]) -> str:
    validation, backbone, layers = config["validation"], config["backbone"]["model"], config["layers"]
    rows = [
        ("loss", validation["loss"]),
        ("cosine of the meanings of original and positive", validation["cosine_positive"]),
        ("cosine of the meanings of original and negative", validation["cosine_negative"]),
        ("original nearer to positive than to negative", validation["ordered"]),
        ("cosine of unrelated words", validation["cosine_unrelated"]),
    ]
    negatives = "with" if config["training"]["negatives"] else "without"
    table = "\n".join(f"| {name} | {value:.4f} |" for name, value in rows)
    return f"""---
library_name: wicdistil
base_model: {backbone}
tags: [word-meaning-in-context]
---
# Word meaning in context, distilled from {backbone}

Two distillers over layers {layers[0]} to {layers[1]} of the frozen model: one for what a word means, one for what
it has from its context. Trained by wicdistil on triples made without human labels, {negatives} negatives.

On held-out triples:

| | |
|---|---|
{table}
"""
