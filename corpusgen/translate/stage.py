"""The round trip as two stages: into the pivot language and back."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa

from corpusgen.engine import Result, Stage, split_by_reason
from corpusgen.errors import StageError
from corpusgen.text.language import FastTextIdentifier, Identifier
from corpusgen.translate import Device, Translator, TranslatorSettings, open_translator
from corpusgen.translate.checks import fault


@dataclass
class _Translate(Stage):
    """Adds a column with the translation of another; rejects what is visibly no translation.

    `translator` are the fields of `TranslatorSettings`. With `identify`, a translation is rejected that fastText takes
    for another language than `language` with at least the probability `threshold`; what it is unsure of stays. Measured
    at 0.7: it catches 97 to 99 % of the sentences in another language, and none of 3,000 good translations.
    """

    translator: dict[str, Any]
    language: str
    identify: bool = True
    threshold: float = 0.7
    language_model: str | None = None
    device: Device = field(default="auto", metadata={"content": False})

    def setup(self) -> None:
        """Load the translator and the language model."""
        if self.language_model and not os.path.isfile(self.language_model):
            raise StageError(f"language.model: {self.language_model}: no such file")
        settings = TranslatorSettings.model_validate(self.translator)
        threads = max(1, int(self.resources.cpus))
        self._translator: Translator = open_translator(settings, self.device, threads)
        self._identifier: Identifier | None = FastTextIdentifier(self.language_model) if self.identify else None

    def process(self, rows: pa.Table) -> Result:
        """Translate all texts, then look at each translation."""
        texts = rows[self.needs[0]].to_pylist()
        translations = self._translator.translate(texts)
        reasons = [
            fault(text, translation, self.language) or foreign
            for text, translation, foreign in zip(texts, translations, self._foreign(translations), strict=True)
        ]
        return split_by_reason(rows.append_column(self.adds[0], pa.array(translations, pa.string())), reasons)

    def _foreign(self, translations: Sequence[str]) -> list[str | None]:
        if self._identifier is None:
            return [None] * len(translations)
        return [
            "translation in another language" if code != self.language and probability >= self.threshold else None
            for code, probability in self._identifier.identify(translations)
        ]


@dataclass
class TranslateForward(_Translate):
    """A text into the pivot language."""

    name: ClassVar[str] = "translate"
    needs: ClassVar[tuple[str, ...]] = ("text",)
    adds: ClassVar[tuple[str, ...]] = ("pivot",)


@dataclass
class TranslateBack(_Translate):
    """The pivot back into the language of the text."""

    name: ClassVar[str] = "translate_back"
    needs: ClassVar[tuple[str, ...]] = ("pivot",)
    adds: ClassVar[tuple[str, ...]] = ("paraphrase",)
