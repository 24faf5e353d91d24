"""Typed settings of the word models; unknown keys are errors."""

from __future__ import annotations

import math
from typing import Literal, Self

from pydantic import AliasChoices, Field, model_validator

from corpusgen.config.job import Job
from corpusgen.config.section import Section


class BackboneSettings(Section):
    """The frozen model whose layer states are distilled."""

    model: str = Field(description="folder, s3://bucket/prefix or hub id of an encoder")
    revision: str | None = Field(None, description="commit, tag or branch of a hub id")
    first_layer: int | None = Field(
        None,
        ge=0,
        description="lowest layer to use, where 0 is the embeddings; default: the first of the top half, or for the "
        "objective contrast 1",
    )
    last_layer: int | None = Field(None, ge=0, description="highest layer to use; default: the top layer")
    batch_tokens: int | None = Field(
        None, ge=1, description="tokens per batch, including padding; default: chosen for the device"
    )
    dtype: Literal["auto", "float32", "float16", "bfloat16"] = Field(
        "auto",
        description="auto: float16 on a GPU, float32 on a CPU; on a CPU with instructions for it, bfloat16 is twice as "
        "fast",
    )


class FeatureSettings(Section):
    """Layer states of the words in a corpus' rows, computed once."""

    backbone: BackboneSettings = Field(description="the frozen model whose states are computed")
    table: str | None = Field(None, description="the table whose words are encoded, if the corpus has several")
    unit_rows: int = Field(
        500,
        ge=1,
        validation_alias=AliasChoices("unit_rows", "unit_triples"),  # the latter is its name in version 0.1
        description="rows per unit of work; their states must fit in memory (see the estimate)",
    )
    device: str = Field(
        "auto",
        description="where the model runs: cpu, cuda or cuda:N; auto: on a GPU if there is one, else on the CPU",
    )


class ContrastSettings(Section):
    """The objective `contrast`."""

    head: Literal["linear", "transformer"] = Field(
        "linear",
        description="what corrects the frozen vector: a linear map of each layer, or a transformer over the layers",
    )
    base_layers: int | None = Field(
        None,
        ge=1,
        description="number of top layers whose mean is the frozen vector; default: those of the model's top half",
    )
    strength: float | None = Field(
        None,
        ge=0,
        le=1,
        description="fraction of the learned correction that the model adds to the frozen vector, from 0 to 1; null: "
        "as much as `kept` allows",
    )
    kept: float = Field(
        0.85,
        gt=0,
        le=1,
        description="minimum correlation with the frozen model in how the similarity of two words changes from "
        "context to context, measured on unlabelled rows at each validation; more of the correction than that makes "
        "vectors insensitive to their context",
    )
    temperature: float = Field(0.3, gt=0, description="temperature of the contrast of meanings")
    similar_share: float = Field(
        0.4,
        ge=0,
        lt=1,
        description="how much of the right answer are words of the batch that the frozen model finds similar, instead "
        "of the partner: most of them are related, and should not be pushed away",
    )
    similar_temperature: float = Field(
        0.05, gt=0, description="temperature at which the frozen model's cosines say which words are similar"
    )
    preservation: float = Field(
        10.0,
        ge=0,
        description="weight of the term that keeps the cosines of different words as the frozen model has them",
    )
    same_word_share: float = Field(
        0.15,
        ge=0,
        description="weight of the same word in another document as a negative, as a fraction of the batch",
    )
    centred: bool = Field(
        True,
        description="corrections see how a word differs from the mean of all words; without this they learn to remove "
        "what all words share, which an encoder trained for sentence similarity can afford, and others cannot",
    )
    context_temperature: float = Field(0.1, gt=0, description="temperature of the contrast of contexts")
    context_same_word_share: float = Field(
        1.0,
        ge=0,
        description="weight of the same word in another sentence as a negative of contexts, as a fraction of the batch",
    )
    sentence_temperature: float | None = Field(
        0.4,
        gt=0,
        description="temperature of the contrast of words whose mean is the vector of a text; null: the vector of a "
        "text is the mean of meaning vectors",
    )
    reconstruction: float = Field(
        0.0,
        ge=0,
        description="weight of the terms of `reconstruct`, by which meaning and context tend to add up to the frozen "
        "vector; above 0, `strength` applies to context vectors too",
    )


class TrainSettings(Section):
    """Everything `distiller train` needs. The defaults are the paper's."""

    corpus: str = Field(description="root of a corpus with triples or pairs: a folder or s3://bucket/prefix")
    output: str = Field(description="folder of the run: checkpoints, logs and the trained model")
    backbone: BackboneSettings = Field(description="the frozen model whose layer states are distilled")
    features: Literal["cached", "online"] = Field(
        "cached",
        description="cached: compute the layer states once and store them with the corpus; online: compute them in "
        "every epoch, if they are too large to store",
    )
    cache: str | None = Field(
        None, description="folder on each node's local disk for a copy of the data; default: ~/.cache/wicdistil"
    )
    seed: int = Field(0, description="seed of the initial weights, the order of rows and dropout")
    table: str | None = Field(
        None,
        description="the table to train on, if the corpus has several, or some together, such as triples+pairs; "
        "default: the one that fits best",
    )
    objective: str = Field(
        "reconstruct",
        description="what to train: reconstruct (as in the paper), contrast (for pairs of one word, triples, or both), "
        "or your own, as package.module:NAME (docs/extending.md)",
    )
    contrast: ContrastSettings = Field(default_factory=ContrastSettings)
    negatives: bool = Field(True, description="use negatives; false is the paper's ablation: meaning vectors collapse")
    crosslingual: bool = Field(
        False, description="whether the negatives were made from the translation; must match the corpus"
    )
    standardise: bool = Field(
        False, description="normalise each dimension of each layer to mean 0 and standard deviation 1 before distilling"
    )
    heads: int = Field(8, ge=1, description="number of attention heads of each distiller")
    dropout: float = Field(0.1, ge=0, lt=1, description="dropout rate in training")
    batch_size: int = Field(128, ge=1, description="rows (triples or pairs) per batch, over all workers")
    learning_rate: float = Field(4e-5, gt=0, description="learning rate of AdamW after the warm-up")
    weight_decay: float = Field(0.01, ge=0, description="weight decay of AdamW")
    warmup_steps: int = Field(1000, ge=0, description="steps over which the learning rate rises from 0")
    decay: Literal["none", "cosine"] = Field(
        "none", description="how the learning rate decays after the warm-up: not at all, or to 0 at the last step"
    )
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto",
        description="precision of the distillers' matrix products; auto: bfloat16 on a GPU that has it, else float32",
    )
    clip_gradient: float | None = Field(None, gt=0, description="maximum norm of the gradient; null: no limit")
    max_epochs: int = Field(100, ge=1, description="maximum number of passes over the rows")
    max_steps: int | None = Field(None, ge=1, description="maximum number of steps; null: as many as the epochs have")
    validation_share: float = Field(
        0.05, gt=0, lt=1, description="fraction of the sentences (of pairs: documents) held out for validation"
    )
    validation_at_most: int = Field(10_000, ge=1, description="maximum number of rows to validate with")
    validate_every: float = Field(0.1, gt=0, description="epochs between validations")
    patience: int = Field(15, ge=1, description="number of validations without a better loss before training stops")
    min_delta: float = Field(1e-4, ge=0, description="minimum decrease that counts as a better loss")
    checkpoint_steps: int = Field(200, ge=1, description="steps between checkpoints")
    log_steps: int = Field(10, ge=1, description="steps per row of steps.csv, which holds their mean losses")
    workers: int = Field(1, ge=1, description="number of processes that train together")
    max_failures: int = Field(3, ge=0, description="how many times a run restarts by itself after a worker has died")

    @model_validator(mode="after")
    def _all_layers_for_contrast(self) -> Self:
        if self.objective == "contrast" and self.backbone.first_layer is None:
            layers = self.backbone.model_copy(update={"first_layer": 1})
            object.__setattr__(self, "backbone", layers)
        return self

    def learning_rate_at(self, step: int, last_step: int) -> float:
        """Return the learning rate of a step, counted from one, in a training of `last_step` steps."""
        rate = self.learning_rate * min(1.0, step / max(1, self.warmup_steps))
        return rate * (1 + math.cos(math.pi * (step - 1) / last_step)) / 2 if self.decay == "cosine" else rate


TRAIN_JOB = Job(TrainSettings, results=("corpus", "output"), command=("distiller.cli", "train"))
