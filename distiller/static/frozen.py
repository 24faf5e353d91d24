"""The single layer of a frozen model that teaches static vectors, and what identifies it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from corpusgen.models.identity import describe_hub_model
from corpusgen.store import CommittedTable
from corpusgen.store.products import PARAGRAPHS, TOKEN_VOCABULARY, open_product
from corpusgen.store.records import hash_of_parts
from distiller.settings import BackboneSettings
from distiller.words.backbone import shape_of


def one_layer(backbone: BackboneSettings) -> BackboneSettings:
    """Return the settings of the frozen model with a single layer: the top one, or `last_layer`."""
    last = shape_of(backbone.model_copy(update={"first_layer": 0})).layers[-1]
    return backbone.model_copy(update={"first_layer": last, "last_layer": last})


def made_from(backbone: BackboneSettings, corpus: str) -> dict[str, Any]:
    """Describe the frozen model, its single layer and the corpus, wherever they are."""
    layers, dimension = shape_of(backbone)
    model = describe_hub_model(backbone.model, backbone.revision)
    if "sha256" in model:
        model["id"] = Path(model["id"]).name  # a folder may move
    return {
        "backbone": {**model, "dtype": backbone.dtype},
        "layer": layers[-1],
        "dimension": dimension,
        "paragraphs": hash_of_parts(open_product(corpus, PARAGRAPHS.table).parts),
        "vocabulary": hash_of_parts(CommittedTable(corpus, *TOKEN_VOCABULARY).parts),
    }
