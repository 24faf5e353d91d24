"""The settings of the word models: typed, unknown keys are errors."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Section(BaseModel):
    """A part of the settings."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class BackboneSettings(Section):
    """The frozen model whose layer states are distilled."""

    model: str = Field(description="folder or hub id of an encoder")
    revision: str | None = Field(None, description="of a hub id: commit, tag or branch")
    first_layer: int | None = Field(
        None, ge=0, description="lowest layer used, 0 being the embeddings; by default the first of the top half"
    )
    last_layer: int | None = Field(None, ge=0, description="highest layer used; by default the top")
    batch_tokens: int | None = Field(
        None, ge=1, description="tokens in a batch, padding included; by default what suits the device"
    )
    dtype: Literal["auto", "float32", "float16", "bfloat16"] = Field(
        "auto", description="auto: float16 on a GPU, float32 on a CPU"
    )


class FeatureSettings(Section):
    """Layer states of a corpus' triples, computed once."""

    backbone: BackboneSettings = Field(description="the model that they are states of")
    unit_triples: int = Field(
        2000,
        ge=1,
        description="triples that make one unit of work; their states must fit into memory, see the estimate",
    )
    device: str = Field("auto", description="where the model runs: cpu, cuda or cuda:N; auto: on a GPU if there is one")
