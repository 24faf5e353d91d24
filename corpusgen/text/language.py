"""Identify languages, and reject texts that are not in the wanted one or cannot be judged."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, ClassVar, Protocol

import pyarrow as pa

from corpusgen.engine import Result, Stage, split_by_reason
from corpusgen.errors import StageError
from corpusgen.extras import missing_extra
from corpusgen.models import language_id
from corpusgen.models.identity import NamedModel, confirmed

_ENOUGH = 200  # characters that tell a language as surely as a whole paragraph, several times faster


class Identifier(Protocol):
    """A model that names the language of texts."""

    def identify(self, texts: Sequence[str]) -> list[tuple[str, float]]:
        """Return the ISO code and the probability for each text."""


class FastTextIdentifier:
    """fastText's lid.176, from a path or bundled with this package."""

    def __init__(self, path: str | None = None) -> None:
        try:
            import fasttext
        except ImportError as missing:
            raise StageError(missing_extra("language identification", "fasttext-numpy2", "corpus")) from missing
        self._model: Any = fasttext.load_model(path or bundled_model())

    def identify(self, texts: Sequence[str]) -> list[tuple[str, float]]:
        """Identify the language of each text from its beginning."""
        labels, probabilities = self._model.predict([text[:_ENOUGH].replace("\n", " ") for text in texts])
        return [
            (label[0].removeprefix("__label__"), float(probability[0])) if len(label) else ("", 0.0)
            for label, probability in zip(labels, probabilities, strict=True)
        ]


def open_identifier(model: str | None, recorded: Mapping[str, Any] | None) -> Identifier:
    """Open the identifier that `language.model` names; raise StageError if it is missing or not the recorded one."""
    if model is None:
        return FastTextIdentifier()
    path, _ = confirmed(model, None, recorded)
    if not os.path.isfile(path):
        raise StageError(f"language.model: {model}: no such file")
    return FastTextIdentifier(path)


def bundled_model() -> str:
    """Return the path of lid.176.ftz in this package."""
    return str(files(language_id) / "lid.176.ftz")


def language_models(model: str | None) -> list[NamedModel]:
    """Return the model that the settings name, in the role that every stage records it under."""
    return [NamedModel("language", "files", model)] if model else []


@dataclass
class IdentifyLanguage(Stage):
    """Keeps the texts whose most probable language is the wanted one."""

    name: ClassVar[str] = "identify"
    needs: ClassVar[tuple[str, ...]] = ("text",)

    code: str = "en"
    threshold: float = 0.5
    model: str | None = field(default=None)

    def uses(self) -> Sequence[NamedModel]:
        """Return the model, unless it is the bundled one."""
        return language_models(self.model)

    def setup(self) -> None:
        """Load the model."""
        self._identifier: Identifier = open_identifier(self.model, self.models.get("language"))

    def process(self, rows: pa.Table) -> Result:
        """Keep or reject each text."""
        judged = self._identifier.identify(rows["text"].to_pylist())
        return split_by_reason(rows, [self._reason(code, probability) for code, probability in judged])

    def _reason(self, code: str, probability: float) -> str | None:
        if code != self.code:
            return "other language"
        return None if probability >= self.threshold else "language uncertain"
