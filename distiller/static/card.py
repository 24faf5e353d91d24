"""The card of static vectors: what they are, how they were made and how good they are, as Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Card:
    """What a card says beyond the size of the table."""

    kind: str = "static word vectors"
    """What they are, in a few words."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What they were made of and how, by name."""
    scores: str = ""
    """An evaluation in Markdown."""

    def text(self, words: int, dimension: int) -> str:
        """Return the card of a table of this size."""
        facts = {"words": f"{words:,}", "dimension": dimension, **self.settings}
        rows = "\n".join(f"| {_cell(name)} | {_cell(value)} |" for name, value in facts.items())
        scores = f"\n## Evaluation\n\n{self.scores.strip()}\n" if self.scores else ""
        return f"""---
library_name: wicdistil
tags: [static-embeddings, word-vectors]
---
# {self.kind[:1].upper()}{self.kind[1:]}

One vector per word, the same in every text.

| | |
|---|---|
{rows}
{scores}"""


def _cell(value: Any) -> str:
    return " ".join(str(value).split()).replace("|", "\\|")
