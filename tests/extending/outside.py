"""What somebody else's package could hold: a source kind, a recipe and an objective, as docs/extending.md has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import torch

from corpusgen.config.build import BuildConfig
from corpusgen.corpus.recipe import PassRecipe, Recipe, parts_of
from corpusgen.corpus.recipes import words
from corpusgen.engine import Pass, Stage
from corpusgen.engine.parts import OverParts
from corpusgen.sources.kinds import SourceKind
from corpusgen.sources.readers import PlainText, Take
from corpusgen.store import Store
from corpusgen.store.products import Member, Product
from corpusgen.store.records import Reads
from distiller.settings import TrainSettings
from distiller.words.model import Distillers, TrainingPosition
from distiller.words.objective import Forward, Judged, Reconstruct
from distiller.words.row_facts import BatchFacts


@dataclass
class Subtitles(PlainText):
    """Lines of the form `00:01:02 text`."""

    def _read(self, path: str, where: int, data: bytes) -> Take:
        time, _, text = data.decode().partition(" ")
        return lambda found: found.paragraphs((path, time, None, None), (text,), len(data))


SUBTITLES = SourceKind(lambda settings: [Subtitles()])


@dataclass
class PairNeighbours(OverParts):
    """A sentence and the one after it, each with its first word."""

    name: ClassVar[str] = "pair"
    adds: ClassVar[tuple[str, ...]] = (
        "id",
        "first",
        "first_start",
        "first_end",
        "second",
        "second_start",
        "second_end",
    )

    def process(self, rows: pa.Table) -> pa.Table:
        pairs = []
        for table in self._tables(rows):
            sentences = table.select(["id", "text", "token_starts", "token_ends"]).to_pylist()
            for one, other in zip(sentences[::2], sentences[1::2], strict=False):
                spans = [(side["text"], side["token_starts"][0], side["token_ends"][0]) for side in (one, other)]
                pairs.append(dict(zip(self.adds, (one["id"], *spans[0], *spans[1]), strict=True)))
        return pa.Table.from_pylist(pairs, PAIRS)


PAIRS = pa.schema(
    [(name, pa.string() if name in ("id", "first", "second") else pa.int32()) for name in PairNeighbours.adds]
)
READS = Reads(("harvest", "sentences"))


def pairs_pass(config: BuildConfig, store: Store, stages: list[Stage]) -> Pass:
    return Pass("pairs", stages, [[record] for record in parts_of(READS, store)], {"pairs": PAIRS})


RECIPE = Recipe(
    product=Product(
        recipe="tests.extending.outside:RECIPE",
        pass_name="pairs",
        table="pairs",
        rejects="rejects",
        members=(
            Member("first", "first", "first_start", "first_end"),
            Member("second", "second", "second_start", "second_end"),
        ),
        positive="the first word of the next sentence",
        negative="",
    ),
    passes={
        "harvest": words.RECIPE.passes["harvest"],
        "pairs": PassRecipe(lambda config, store: [PairNeighbours(store=store)], pairs_pass, READS, (PairNeighbours,)),
    },
    complete_for=lambda config: ["harvest", "pairs"],
)


class Closer(Reconstruct):
    """The paper's losses, and one more term: original and positive have the same meaning vector."""

    name: ClassVar[str] = "closer"

    def __init__(self, settings: TrainSettings) -> None:
        super().__init__(settings)

    @property
    def term_names(self) -> tuple[str, ...]:
        return (*super().term_names, "closer")

    def losses(
        self,
        call: Forward,
        model: Distillers,
        states: torch.Tensor,
        facts: BatchFacts,
        position: TrainingPosition,
        weight: float,
    ) -> torch.Tensor:
        distilled = call(states, position)
        apart = (distilled.meaning[0] - distilled.meaning[1]).square().mean(-1).sum() * weight
        return torch.cat([super().losses(lambda *_: distilled, model, states, facts, position, weight), apart[None]])

    def judge(self, model: Distillers, states: torch.Tensor, facts: BatchFacts) -> Judged:
        judged = super().judge(model, states, facts)
        meaning = model(states).meaning[:, 1:]
        apart = (meaning[0] - meaning[1]).square().mean(-1).sum().double()
        return judged._replace(losses=torch.cat([judged.losses, apart[None]]))


NOT_A_RECIPE = SUBTITLES
