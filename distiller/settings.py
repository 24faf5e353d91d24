"""Typed settings of the word models; unknown keys are errors."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from corpusgen.config.job import Job
from corpusgen.config.section import Section


class BackboneSettings(Section):
    """The frozen model whose layer states are distilled."""

    model: str = Field(description="folder, s3://bucket/prefix or hub id of an encoder")
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
        500,
        ge=1,
        description="triples that make one unit of work; their states must fit into memory, see the estimate",
    )
    device: str = Field("auto", description="where the model runs: cpu, cuda or cuda:N; auto: on a GPU if there is one")


class TrainSettings(Section):
    """Everything `distiller train` needs. The defaults are the paper's."""

    corpus: str = Field(description="root of a corpus with triples: a folder or s3://bucket/prefix")
    output: str = Field(description="folder of the run: checkpoints, logs and the trained model")
    backbone: BackboneSettings = Field(description="the frozen model whose layer states are distilled")
    features: Literal["cached", "online"] = Field(
        "cached",
        description="cached: compute the layer states once and keep them beside the corpus; online: compute them in "
        "every epoch, where they are too large to keep",
    )
    cache: str | None = Field(
        None, description="folder on the local disk of each node for a copy of the data; by default ~/.cache/wicdistil"
    )
    seed: int = Field(0, description="of weights, order and dropout")
    objective: str = Field(
        "reconstruct",
        description="what is trained: reconstruct, the paper's; or one of your own, as package.module:NAME "
        "(docs/extending.md)",
    )
    negatives: bool = Field(True, description="false: the paper's ablation, in which meaning vectors collapse")
    crosslingual: bool = Field(
        False, description="the negatives were made of the translation; refused if the corpus says otherwise"
    )
    standardise: bool = Field(
        False, description="give each dimension of each layer mean 0 and deviation 1 before it is distilled"
    )
    heads: int = Field(8, ge=1, description="attention heads of a distiller")
    dropout: float = Field(0.1, ge=0, lt=1, description="share of values dropped in training")
    batch_size: int = Field(128, ge=1, description="triples in a batch, those of all workers together")
    learning_rate: float = Field(4e-5, gt=0, description="of AdamW, after the warm-up")
    weight_decay: float = Field(0.01, ge=0, description="of AdamW")
    warmup_steps: int = Field(1000, ge=0, description="steps in which the learning rate rises from nothing")
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="of the distillers' matrix products; auto: bfloat16 on a GPU that has it, else float32"
    )
    clip_gradient: float | None = Field(None, gt=0, description="largest norm of the gradient; null: any")
    max_epochs: int = Field(100, ge=1, description="passes over the triples at most")
    validation_share: float = Field(0.05, gt=0, lt=1, description="share of the sentences never trained on")
    validation_at_most: int = Field(10_000, ge=1, description="triples to validate with")
    validate_every: float = Field(0.1, gt=0, description="epochs from one validation to the next")
    patience: int = Field(15, ge=1, description="validations without a better loss before it stops")
    min_delta: float = Field(1e-4, ge=0, description="by how much a better loss must be lower")
    checkpoint_steps: int = Field(200, ge=1, description="steps from one checkpoint to the next")
    log_steps: int = Field(10, ge=1, description="steps that make a row of steps.csv: their mean losses")
    workers: int = Field(1, ge=1, description="processes that train together")
    max_failures: int = Field(3, ge=0, description="how often a run goes on by itself after a worker died")

    def learning_rate_at(self, step: int) -> float:
        """Return the learning rate of a step, counted from one."""
        return self.learning_rate * min(1.0, step / max(1, self.warmup_steps))


TRAIN_JOB = Job(TrainSettings, results=("corpus", "output"), command=("distiller.cli", "train"))
