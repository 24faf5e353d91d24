"""Export of a model, the frozen model with both distillers, as one ONNX graph, for use without torch."""

from __future__ import annotations

import copy
import json
import os
import tempfile
import warnings

import torch
from torch import nn

from corpusgen.errors import ConfigError
from corpusgen.extras import require
from corpusgen.io.files import open_files
from distiller.inference.word_distiller import WordDistiller
from distiller.words.model import Distillers, own_vectors
from distiller.words.residual import ResidualModel


def export_onnx(model: WordDistiller, path: str, opset: int | None = None) -> None:
    """Write a model to an ONNX file, on disk or S3; weights of more than 1.5 GB go to a second file, `<path>.data`.

    The graph takes `input_ids` and `attention_mask` from the frozen model's tokenizer, and `word_mask`, which is true
    at the pieces of the word: each (batch, length), of any size that the frozen model accepts. It returns `meaning`
    and `context`, or `baseline` if the model is one: each (batch, d) in single precision, NaN for a word without a
    piece. A model with a correction for sentences also returns `sentence`, the vector of the text that the mask marks.
    Its metadata name the frozen model and the layers used.
    """
    require("an export to ONNX", extra="onnx")
    import pyarrow as pa

    folder, name = os.path.split(path)
    if not name or folder == "s3:" or os.path.isdir(os.path.expanduser(path)):
        raise ConfigError(f"{path} is a folder; give a file name, such as {path.rstrip('/')}/model.onnx")
    program = _program(model, opset)
    files = open_files(folder)
    with tempfile.TemporaryDirectory() as temporary:
        program.save(f"{temporary}/{name}")
        # Write the graph last: it names the weights file, if there is one.
        for made in sorted(os.listdir(temporary), key=name.__eq__):
            with pa.memory_map(f"{temporary}/{made}") as file:
                files.write(made, file.read_buffer())


def _program(model: WordDistiller, opset: int | None) -> torch.onnx.ONNXProgram:
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's warnings about itself
        program = torch.onnx.export(
            _Graph(model).eval(),
            _example(),
            input_names=("input_ids", "attention_mask", "word_mask"),
            output_names=_outputs(model.model),
            dynamic_shapes=({0: batch, 1: length},) * 3,
            opset_version=opset,
            dynamo=True,
            verbose=False,
        )
    assert program is not None  # only the older exporter returns None
    made = program.model.opset_imports[""]
    if opset not in (None, made):
        raise ConfigError(f"opset {opset}: torch cannot export the model to it; use opset {made}")
    program.model.metadata_props.update(_metadata(model))
    for node in program.model.graph.all_nodes():
        node.metadata_props.clear()  # remove the source location of each node, with its local paths
    return program


class _Graph(nn.Module):
    """The graph from the frozen model's input to word vectors. It copies the model, which stays usable unchanged."""

    def __init__(self, model: WordDistiller) -> None:
        super().__init__()
        self.encoder = copy.deepcopy(model.backbone.encoder).float().cpu()
        self.distillers = copy.deepcopy(model.model).cpu() if model.model else None
        self.layers = model.backbone.layers

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, word_mask: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        hidden = self.encoder(input_ids, attention_mask, output_hidden_states=True).hidden_states
        pieces = word_mask.float()
        weights = (pieces / pieces.sum(1, keepdim=True)).unsqueeze(1)  # (batch, 1, length)
        states = torch.cat([weights @ hidden[layer] for layer in self.layers], 1)  # (batch, layers, d)
        if self.distillers is None:
            return (own_vectors(states),)
        return tuple(self.distillers(states))[: len(_outputs(self.distillers))]


def _outputs(model: Distillers | None) -> tuple[str, ...]:
    """Return the names of the outputs, in the order of the vectors that a model returns."""
    if model is None:
        return ("baseline",)
    has_sentence = isinstance(model, ResidualModel) and model.sentence is not None
    return ("meaning", "context", "sentence") if has_sentence else ("meaning", "context")


def _example() -> tuple[torch.Tensor, ...]:
    """Return two texts of several pieces: the exporter would take sizes of 0 or 1 for constants."""
    ids = torch.arange(10).view(2, 5)
    return ids, torch.ones_like(ids), ids % 5 == 1


def _metadata(model: WordDistiller) -> dict[str, str]:
    settings = model.backbone.settings
    backbone = model.config.get("backbone") or settings.model_dump(include={"model", "revision"}, exclude_none=True)
    layers = model.backbone.layers
    return {"backbone": json.dumps(backbone), "layers": json.dumps([layers[0], layers[-1]])}
