"""Saved word models: the weights, the configuration that is needed to use them, and a model card."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from corpusgen.errors import ConfigError, StoreError
from corpusgen.io.files import Files, open_files
from corpusgen.io.strict_json import from_json
from corpusgen.models import embedded
from corpusgen.models.files import local_path
from corpusgen.models.identity import describe_hub_model
from distiller.embedded import folder_of
from distiller.settings import BackboneSettings, TrainSettings
from distiller.words.described import ModelConfig, as_mapping
from distiller.words.model import Distillers, WordModel
from distiller.words.residual import ResidualModel

FORMAT = 2
"""The newest format. Models without a correction for sentences are written as format 1, which older versions read."""
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
        model: Distillers,
        settings: TrainSettings,
        layers: Sequence[int],
        backbone: Mapping[str, Any],
        validation: Mapping[str, Any],
    ) -> SavedModel:
        """Make the files of a trained model; `backbone` identifies its frozen model by content."""
        from safetensors.torch import save

        named = settings.backbone.model_dump(mode="json", include={"model", "revision"})
        config = {
            "format": 1,
            "backbone": {**named, **{name: backbone[name] for name in ("revision", "sha256") if backbone.get(name)}},
            "layers": [layers[0], layers[-1]],
            "dimension": model.dimension,
            "heads": settings.heads,
            "dropout": settings.dropout,
            "training": settings.model_dump(mode="json", exclude={"output", "backbone", "cache"}),
            "validation": {name: _known(value) for name, value in validation.items()},
        }
        if isinstance(model, ResidualModel):
            strength = round(model.meaning.strength.item(), 6)
            config["residual"] = {
                "head": settings.contrast.head, "base_layers": model.base_layers, "strength": strength
            }  # fmt: skip
            if model.sentence is not None:
                config["format"] = FORMAT
        weights = save({name: value.contiguous() for name, value in model.state_dict().items()})
        return cls(config, weights, _card(config))

    def word_model(self) -> Distillers:
        """Return the two distillers; raise StoreError if the weights are damaged."""
        from safetensors.torch import load

        try:
            weights = load(self.weights)
            model = self._empty_model(weights)
            model.load_state_dict(weights)
        except Exception as error:
            raise StoreError(
                f"{WEIGHTS} is damaged or does not belong to this {CONFIG}: {error}; download the model again"
            ) from error
        return model

    def _empty_model(self, weights: Mapping[str, Any]) -> Distillers:
        config, residual = self.config, self.config.get("residual")
        first, last = config["layers"]
        layers = last + 1 - first
        known = {None: "expand.weight", "linear": "correction.maps", "transformer": "correction.output.weight"}
        found = weights[f"meaning.{known[residual and residual['head']]}"].shape[1]
        if found != config["dimension"]:  # checked before a model of any size is made
            raise ValueError(f"it has {found} dimensions, not {config['dimension']}")
        shape = config["heads"], config["dropout"]
        if residual:
            return ResidualModel(
                layers, found, residual["base_layers"], residual["head"], *shape, with_sentence=config["format"] > 1
            )
        standardised = layers if config["training"].get("standardise") else None
        return WordModel(found, *shape, standardised=standardised)

    def files(self) -> dict[str, bytes]:
        """Return the content of each file. The configuration is last, because its presence makes a folder a model."""
        config = {**self.config, "weights_sha256": sha256(self.weights).hexdigest()}
        return {
            WEIGHTS: self.weights,
            CARD: self.card.encode(),
            CONFIG: json.dumps(config, indent=1).encode(),
        }

    def backbone_settings(self, location: str | None, dtype: Any, batch_tokens: int | None) -> BackboneSettings:
        """Return the settings of the frozen model, at `location` if it is not where it was in training."""
        first, last = self.config["layers"]
        named = self.config["backbone"]
        return BackboneSettings(
            model=location or named["model"],
            revision=None if location else named.get("revision"),
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
                f"cannot find the frozen model {settings.model}; give its folder as `backbone` (--backbone in commands)"
            )
        if describe_hub_model(path, None)["sha256"] != expected:
            raise ConfigError(
                f"{settings.model} is not the frozen model that this one was trained on: its files differ"
            )
        return settings.model_copy(update={"model": path})


def write_saved(path: str, saved: SavedModel) -> None:
    """Write a model to a folder or S3."""
    files = open_files(path)
    for name, content in saved.files().items():
        files.write(name, content)


def load_saved(name: str, revision: str | None = None) -> SavedModel:
    """Load a model from its folder, the folder of its run, S3, the hub, or this package (`embedded:NAME`)."""
    path = folder_of(name) if name.startswith(embedded.PREFIX) else os.path.expanduser(name)
    if not _is_location(path):
        if path.startswith((os.sep, ".")) or path.count("/") != 1:
            raise ConfigError(f"{name}: no such folder; give the folder of a model or a run, s3://…, or a hub id")
        path = _downloaded(name, revision)
    root, folder = _model_in(path, name)
    config = _config(root.read(folder + CONFIG), name)
    try:
        weights = root.read(folder + WEIGHTS)
    except FileNotFoundError:
        raise StoreError(f"{name}: {WEIGHTS} is missing; download the model again") from None
    expected = config.get("weights_sha256")
    if expected and sha256(weights).hexdigest() != expected:
        raise StoreError(
            f"{name}: {WEIGHTS} is damaged: its hash differs from that in {CONFIG}; download the model again, or, in "
            f"the folder of its run, remove {IN_A_RUN} and run the training command again"
        )
    card = root.read(folder + CARD).decode(errors="replace") if root.exists(folder + CARD) else _card(config)
    return SavedModel(config, weights, card)


def _config(data: bytes, name: str) -> dict[str, Any]:
    """Parse the configuration of a model; raise an error unless it is an intact word model of a known version."""
    try:
        config = as_mapping(data)
    except ValueError:
        raise StoreError(f"{name}: {CONFIG} is damaged; download the model again") from None
    if "backbone" not in config or not isinstance(config.get("format"), int):
        raise ConfigError(f"{name} holds another kind of model; give one made by `distiller train`")
    if config["format"] > FORMAT:
        raise ConfigError(f"{name} was saved by a newer version of wicdistil; update wicdistil to load it")
    try:
        from_json(data, ModelConfig)
    except ValueError as error:
        raise StoreError(f"{name}: {CONFIG} is damaged: {error}; download the model again") from None
    return config


def put_in_card(name: str, evaluation: str) -> None:
    """Put an evaluation, as Markdown, into a model's card, in place of any earlier one."""
    root, folder = card_location(name)
    card = load_saved(name).card
    found = _SECTION.search(card)
    before, after = (card[: found.start()], card[found.end() :]) if found else (card, "")
    sections = [before.rstrip(), f"{_EVALUATION}\n\n{evaluation.strip()}", after.rstrip()]
    root.write(folder + CARD, ("\n\n".join(filter(None, sections)) + "\n").encode())


def card_location(name: str) -> tuple[Files, str]:
    """Return a model's files and the folder of its card in them; raise ConfigError if it cannot be changed."""
    path = os.path.expanduser(name)
    if not _is_location(path):
        raise ConfigError(f"{name}: only a model in a folder or on S3 can have its card changed; save it there first")
    return _model_in(path, name)


def evaluation_in(card: str) -> str:
    """Return the evaluation in a card, as Markdown; empty if there is none."""
    found = _SECTION.search(card)
    return found[1].strip() if found else ""


def _is_location(path: str) -> bool:
    return "://" in path or os.path.isdir(path)


def _model_in(path: str, name: str) -> tuple[Files, str]:
    """Return the files of a model or a run, and the folder of the model in them."""
    root = open_files(path)
    folder = next((folder for folder in ("", f"{IN_A_RUN}/") if root.exists(folder + CONFIG)), None)
    if folder is None:
        raise ConfigError(
            f"{name} holds no word model ({CONFIG} is missing); give the folder of a model or of a finished run"
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
            f"{name} is neither a local folder nor a model that can be downloaded from the hub: {error}"
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
        ("cosine of unrelated words", validation["cosine_unrelated"]),
    ]
    table = "\n".join(f"| {name} | {value:.4f} |" for name, value in rows if value is not None)
    ordered = ordered_text(validation, bool(config.get("residual")))
    return f"""---
library_name: wicdistil
{base_model}tags: [word-meaning-in-context]
---
# Word meaning in context, distilled from {frozen}

Two distillers over layers {layers[0]} to {layers[1]} of the frozen model: one for the meaning of a word, one for what
it gets from its context. {_trained_how(config)}

On held-out rows:

| | |
|---|---|
{table}

{ordered[0].upper()}{ordered[1:]}.
"""


def _trained_how(config: Mapping[str, Any]) -> str:
    from corpusgen.store.products import BOTH, DISCOURSE  # needs pyarrow, which using a model does not

    residual = config.get("residual")
    if not residual:
        negatives = "with" if config["training"]["negatives"] else "without"
        return f"Trained by wicdistil on triples made without human labels, {negatives} negatives."
    tables = (config["training"].get("table") or DISCOURSE.table).split(BOTH)
    elsewhere = " and from the same word in other documents" if DISCOURSE.table in tables else ""
    of_texts = " Vectors of whole texts have a correction of their own." if config["format"] > 1 else ""
    return (
        f"They correct the frozen model's own vector. Trained by wicdistil on {' and '.join(tables)} made without "
        f"human labels, to tell words of one meaning in two sentences from other words{elsewhere}. Strength of the "
        f"correction: {residual['strength']:.2g}.{of_texts}"
    )


def ordered_text(validation: Mapping[str, Any], has_pairs: bool = False) -> str:
    """Say how many held-out rows have the positive nearer than the negative, beside the frozen model's figure.

    Of triples, those count whose positive is another word; of pairs, those with the same word in another document.
    Models and runs of earlier versions counted all triples, also those whose positive is the original's own word.
    """
    share, frozen, counted = (validation.get(name) for name in ("ordered", "ordered_frozen", "differing"))
    if share is None or counted == 0:
        return f"no held-out row has {'the same word in another document' if has_pairs else 'another word as positive'}"
    if counted is None:
        return f"{share:.1%} of held-out triples ordered, also counting those whose positive is the same word"
    beside = "" if frozen is None else f", {frozen:.1%} by the frozen model"
    if has_pairs:
        than = "the word in another document"
        return f"{share:.1%} of {counted:,} held-out pairs nearer to each other than to {than}{beside}"
    return f"{share:.1%} of {counted:,} held-out triples whose positive is another word ordered{beside}"


def _known(value: Any) -> Any:
    """Return None for NaN, which JSON cannot hold."""
    return None if isinstance(value, float) and math.isnan(value) else value
