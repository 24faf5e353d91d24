"""Saved word models: the weights, the configuration that is needed to use them, and a model card."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from corpusgen.errors import ConfigError, StoreError
from corpusgen.io.files import Files, open_files
from corpusgen.models import embedded
from corpusgen.models.files import local_path
from corpusgen.models.identity import describe_hub_model
from distiller.settings import BackboneSettings, TrainSettings
from distiller.words.described import ModelConfig, as_mapping, described
from distiller.words.model import WordModel

FORMAT = 1
WEIGHTS, CONFIG, CARD = "model.safetensors", "config.json", "README.md"
_EVALUATION = "## Evaluation"
_SECTION = re.compile(rf"^{_EVALUATION}[^\S\n]*$(.*?)(?=^##? |\Z)", re.MULTILINE | re.DOTALL)
IN_A_RUN = "model"
"""The folder of the model in the folder of its run."""


@dataclass(frozen=True)
class SavedModel:
    """The files of a model."""

    config: Mapping[str, Any]
    weights: bytes
    card: str

    @classmethod
    def of(
        cls,
        model: WordModel,
        settings: TrainSettings,
        layers: Sequence[int],
        backbone: Mapping[str, Any],
        validation: Mapping[str, Any],
    ) -> SavedModel:
        """Make the files of a trained model; `backbone` identifies its frozen model by content."""
        from safetensors.torch import save

        named = settings.backbone.model_dump(mode="json", include={"model", "revision"})
        config = {
            "format": FORMAT,
            "backbone": {**named, **{name: backbone[name] for name in ("revision", "sha256") if backbone.get(name)}},
            "layers": [layers[0], layers[-1]],
            "dimension": model.meaning.expand.in_features,
            "heads": settings.heads,
            "dropout": settings.dropout,
            "training": settings.model_dump(mode="json", exclude={"output", "backbone", "cache"}),
            "validation": dict(validation),
        }
        weights = save({name: value.contiguous() for name, value in model.state_dict().items()})
        return cls(config, weights, _card(config))

    def word_model(self) -> WordModel:
        """Return the two distillers; raise StoreError if the weights are damaged."""
        from safetensors.torch import load

        config = self.config
        first, last = config["layers"]
        standardised = last + 1 - first if config["training"].get("standardise") else None
        try:
            weights = load(self.weights)
            found = weights["meaning.expand.weight"].shape[1]
            if found != config["dimension"]:  # checked before a model of any size is made
                raise ValueError(f"it has {found} dimensions, not {config['dimension']}")
            model = WordModel(found, config["heads"], config["dropout"], standardised=standardised)
            model.load_state_dict(weights)
        except Exception as error:
            raise StoreError(f"{WEIGHTS} is damaged or not of this {CONFIG}: {error}; fetch the model again") from error
        return model

    def files(self) -> dict[str, bytes]:
        """Return the content of each file. The configuration is last, because its presence makes a folder a model."""
        config = {**self.config, "weights_sha256": sha256(self.weights).hexdigest()}
        return {
            WEIGHTS: self.weights,
            CARD: self.card.encode(),
            CONFIG: json.dumps(config, indent=1).encode(),
        }

    def backbone_settings(self, place: str | None, dtype: Any, batch_tokens: int | None) -> BackboneSettings:
        """Return the settings of the frozen model, at `place` if it is not where it was in training."""
        first, last = self.config["layers"]
        named = self.config["backbone"]
        return BackboneSettings(
            model=place or named["model"],
            revision=None if place else named.get("revision"),
            first_layer=first,
            last_layer=last,
            dtype=dtype,
            batch_tokens=batch_tokens,
        )

    def check_backbone(self, settings: BackboneSettings) -> BackboneSettings:
        """Return the settings with the model's local path; raise ConfigError if it is not the model of the training."""
        expected = self.config["backbone"].get("sha256")
        if not expected:
            return settings
        embedded_one = settings.model.startswith(embedded.PREFIX)
        path = settings.model if embedded_one else local_path(settings.model)
        if not embedded_one and not os.path.isdir(path):
            raise ConfigError(
                f"the frozen model {settings.model} is not here: give its folder as `backbone` (--backbone in commands)"
            )
        if describe_hub_model(path, None)["sha256"] != expected:
            raise ConfigError(
                f"{settings.model} is not the frozen model that this one was trained on: its files have other content"
            )
        return settings.model_copy(update={"model": path})


def write_saved(path: str, saved: SavedModel) -> None:
    """Write a model to a folder or S3."""
    files = open_files(path)
    for name, content in saved.files().items():
        files.write(name, content)


def load_saved(name: str, revision: str | None = None) -> SavedModel:
    """Load a model from its folder, the folder of its run, S3, or the hub."""
    path = os.path.expanduser(name)
    if not _is_place(path):
        if path.startswith((os.sep, ".")) or path.count("/") != 1:
            raise ConfigError(f"{name}: no such folder; give that of a model or of a run, s3://…, or a hub id")
        path = _downloaded(name, revision)
    root, folder = _model_in(path, name)
    config = _config(root.read(folder + CONFIG), name)
    try:
        weights = root.read(folder + WEIGHTS)
    except FileNotFoundError:
        raise StoreError(f"{name}: {WEIGHTS} is missing; fetch the model again") from None
    expected = config.get("weights_sha256")
    if expected and sha256(weights).hexdigest() != expected:
        raise StoreError(
            f"{name}: {WEIGHTS} is damaged: it has another hash than {CONFIG} says; fetch the model again, or in the "
            f"folder of its run remove {IN_A_RUN} and run the command of its training again"
        )
    card = root.read(folder + CARD).decode(errors="replace") if root.exists(folder + CARD) else _card(config)
    return SavedModel(config, weights, card)


def _config(data: bytes, name: str) -> dict[str, Any]:
    """Parse the configuration of a model; raise an error unless it is an intact word model of a known version."""
    try:
        config = as_mapping(data)
    except ValueError:
        raise StoreError(f"{name}: {CONFIG} is damaged; fetch the model again") from None
    if "backbone" not in config or not isinstance(config.get("format"), int):
        raise ConfigError(f"{name} holds another kind of model: `distiller train` makes word models")
    if config["format"] > FORMAT:
        raise ConfigError(f"{name} was saved by a newer version of wicdistil: update it to load this model")
    try:
        described(data, ModelConfig)
    except ValueError as error:
        raise StoreError(f"{name}: {CONFIG} is damaged: {error}; fetch the model again") from None
    return config


def put_in_card(name: str, evaluation: str) -> None:
    """Put an evaluation, as Markdown, into a model's card, in place of any earlier one."""
    root, folder = card_place(name)
    card = load_saved(name).card
    found = _SECTION.search(card)
    before, after = (card[: found.start()], card[found.end() :]) if found else (card, "")
    sections = [before.rstrip(), f"{_EVALUATION}\n\n{evaluation.strip()}", after.rstrip()]
    root.write(folder + CARD, ("\n\n".join(filter(None, sections)) + "\n").encode())


def card_place(name: str) -> tuple[Files, str]:
    """Return a model's files and the folder of its card in them; raise ConfigError if it cannot be changed."""
    path = os.path.expanduser(name)
    if not _is_place(path):
        raise ConfigError(f"{name}: only the card of a model in a folder or on S3 can be changed; save it there first")
    return _model_in(path, name)


def evaluation_in(card: str) -> str:
    """Return the evaluation in a card, as Markdown; empty if there is none."""
    found = _SECTION.search(card)
    return found[1].strip() if found else ""


def _is_place(path: str) -> bool:
    return "://" in path or os.path.isdir(path)


def _model_in(path: str, name: str) -> tuple[Files, str]:
    """Return the files of a model or a run, and the folder of the model in them."""
    root = open_files(path)
    folder = next((folder for folder in ("", f"{IN_A_RUN}/") if root.exists(folder + CONFIG)), None)
    if folder is None:
        raise ConfigError(
            f"{name} holds no word model ({CONFIG} is missing): give the folder of a model or of a finished run"
        )
    return root, folder


def push_saved(repository: str, saved: SavedModel, private: bool, token: str | None) -> str:
    """Upload a model to the hub and return its address."""
    from huggingface_hub import CommitOperationAdd, HfApi

    api = HfApi(token=token)
    address = api.create_repo(repository, private=private, exist_ok=True)
    operations = [CommitOperationAdd(name, data) for name, data in saved.files().items()]
    api.create_commit(repository, operations, commit_message="Word model")
    return str(address)


def _downloaded(name: str, revision: str | None) -> str:
    from huggingface_hub import snapshot_download

    try:
        return str(snapshot_download(name, revision=revision, allow_patterns=[WEIGHTS, CONFIG, CARD]))
    except Exception as error:
        raise ConfigError(
            f"{name} is neither a folder here nor a model of the hub that this machine can reach: {error}"
        ) from error


def _card(config: Mapping[str, Any]) -> str:
    validation, backbone, layers = config["validation"], config["backbone"], config["layers"]
    of_the_hub = not backbone.get("sha256")  # a path means nothing elsewhere, and the hub refuses it as a base model
    frozen = backbone["model"] if of_the_hub else os.path.basename(os.path.normpath(backbone["model"]))
    base_model = f"base_model: {frozen}\n" if of_the_hub else ""
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
{base_model}tags: [word-meaning-in-context]
---
# Word meaning in context, distilled from {frozen}

Two distillers over layers {layers[0]} to {layers[1]} of the frozen model: one for what a word means, one for what
it has from its context. Trained by wicdistil on triples made without human labels, {negatives} negatives.

On held-out triples:

| | |
|---|---|
{table}
"""
