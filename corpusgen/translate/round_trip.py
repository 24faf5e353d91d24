"""The round trip as one stage: its workers hold both translators, so that a paraphrase is one step of a pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from corpusgen.engine import Result, Stage
from corpusgen.engine.batch import concat_tables
from corpusgen.translate import Device
from corpusgen.translate.stage import TranslateBack, TranslateForward


@dataclass
class RoundTrip(Stage):
    """Into the pivot language and back. What cannot be right on either way is rejected with its reason."""

    name: ClassVar[str] = "translate"
    needs: ClassVar[tuple[str, ...]] = ("text",)
    adds: ClassVar[tuple[str, ...]] = ("pivot", "paraphrase")

    forward: Mapping[str, Any]
    back: Mapping[str, Any]
    pivot: str
    language: str
    identify: bool = True
    threshold: float = 0.7
    language_model: str | None = None
    device: Device = field(default="auto", metadata={"content": False})

    def setup(self) -> None:
        """Load both translators."""
        identification = (self.identify, self.threshold, self.language_model)
        self._there = TranslateForward(
            dict(self.forward), self.pivot, *identification, self.device, resources=self.resources
        )
        self._back = TranslateBack(
            dict(self.back), self.language, *identification, self.device, resources=self.resources
        )
        self._there.setup()
        self._back.setup()

    def process(self, rows: pa.Table) -> Result:
        """Only what came through on the way there goes back."""
        there = self._there.process(rows)
        if not there.rows.num_rows:
            return there
        back = self._back.process(there.rows)
        assert back.rejects is not None
        reasons = pc.binary_join_element_wise(back.rejects["reason"].combine_chunks(), "on the way back", " ")
        rejects = back.rejects.set_column(back.rejects.column_names.index("reason"), "reason", reasons)
        return replace(back, rejects=concat_tables([there.rejects, rejects]) or rejects)
