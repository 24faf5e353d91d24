"""Typed settings of static word vectors; unknown keys are errors."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from corpusgen.config.section import Section
from distiller.settings import BackboneSettings


class X2StaticSettings(Section):
    """How X2Static makes its vectors. The defaults are the paper's, or its published code's where it says nothing."""

    contexts: Literal["sentence", "paragraph"] = Field(
        "sentence",
        description="what the frozen model reads: each sentence alone, or whole paragraphs. A word is always compared "
        "with the vector of its sentence",
    )
    weights: Literal["piece", "word"] | None = Field(
        None,
        description="what has equal weight in the vector of a sentence: its word pieces, or its words; default: word "
        "in the preset paper, piece in published",
    )
    special_tokens: bool | None = Field(
        None,
        description="count special tokens, such as [CLS], among the pieces of a sentence; default: only in the preset "
        "published with contexts: sentence",
    )
    lower: bool = Field(True, description="let the frozen model read lower case")
    max_pieces: int | None = Field(
        None,
        ge=8,
        description="most pieces that the frozen model reads at a time, if it can take as many; default: 200 for "
        "sentences, 500 for paragraphs, of which longer ones are read in windows",
    )
    unit_paragraphs: int = Field(
        2000, ge=1, description="paragraphs per unit of work; the vectors of their sentences must fit in memory"
    )
    threshold: float = Field(
        5e-6, gt=0, description="t: a word of frequency f is a target with probability √(t/f) + t/f, at most 1"
    )
    negatives: int = Field(10, ge=1, description="number of negative words per target")
    negative_exponent: float = Field(
        0.5, ge=0, description="negative words are drawn in proportion to their count to this power"
    )
    learning_rate: float = Field(1e-3, gt=0, description="learning rate of lazy Adam, which stays constant")
    beta1: float = Field(0.9, ge=0, lt=1, description="decay of Adam's first moment")
    beta2: float = Field(0.999, ge=0, lt=1, description="decay of Adam's second moment")
    epsilon: float = Field(1e-8, gt=0, description="what Adam adds to the root of the second moment")
    bias_correction: Literal["global", "row"] = Field(
        "global",
        description="steps that Adam's bias correction counts: all of them, by which a word that is first seen late "
        "moves 3.2 times as far, or those in which the word itself was seen",
    )
    epochs: int = Field(1, ge=1, description="number of passes over the text")
    batch_lines: int = Field(128, ge=1, description="lines (sentences or paragraphs) per step")
    seed: int = Field(
        0, description="seed of the initial vectors, the order of lines, targets and negatives; default: `seed` above"
    )

    checkpoint_steps: int = Field(10_000, ge=1, description="steps between checkpoints")
    cache: str | None = Field(
        None, description="folder on each node's local disk for a copy of the data; default: ~/.cache/wicdistil"
    )
    max_failures: int = Field(
        3, ge=0, description="how many times a training restarts by itself after a worker has died"
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.special_tokens and self.contexts == "paragraph":
            raise ValueError(
                "special_tokens: true needs contexts: sentence, because special tokens belong to no single sentence of "
                "a paragraph; leave it out"
            )
        return self

    def completed(self, preset: str, seed: int = 0) -> X2StaticSettings:
        """Return the settings with the values of a preset, and this seed, where none are given."""
        is_published, is_sentence = preset == "published", self.contexts == "sentence"
        defaults = {
            "weights": "piece" if is_published else "word",
            "special_tokens": is_published and is_sentence,
            "max_pieces": 200 if is_sentence else 500,
        }
        missing: dict[str, Any] = {name: value for name, value in defaults.items() if getattr(self, name) is None}
        return self.model_copy(update=missing | ({} if "seed" in self.model_fields_set else {"seed": seed}))


_CHECKPOINT_LINES = 1_000_000


class SkipgramSettings(Section):
    """How dynamic skip-gram (Wang, Cui & Zhang 2020) makes its vectors."""

    dimension: int = Field(300, ge=1, description="number of dimensions of the vectors")
    window: int = Field(5, ge=1, description="number of words on each side that are the context of a word")
    centre: Literal["exclude", "include", "published"] | None = Field(
        None,
        description="whether a word is a context of itself; published: the window of the published code, in which most "
        "words are; default: exclude in the preset paper, published in published",
    )
    attention: Literal["window", "none", "pairs"] | None = Field(
        None,
        description="window: a word predicts the mean of its contexts, weighted by attention; none: their plain mean; "
        "pairs: each context on its own, weighted among five consecutive pairs, as the published code does; default: "
        "window in the preset paper, pairs in published",
    )
    scaled: bool = Field(True, description="divide the scores of the attention by √dimension")
    negatives: int = Field(5, ge=1, description="number of negative words")
    negatives_per: Literal["centre", "pair"] | None = Field(
        None,
        description="draw negatives for each word, or for each pair of a word and a context; default: centre in the "
        "preset paper, pair in published",
    )
    negative_exponent: float = Field(
        0.75, ge=0, description="negative words are drawn in proportion to their count to this power"
    )
    bias: bool | None = Field(
        None, description="whether the map of centres has a bias; default: only in the preset published"
    )
    rare_words: Literal["keep", "drop"] | None = Field(
        None,
        description="keep: the frozen model reads sentences as they are; drop: without the words that are not in the "
        "vocabulary, in lower case and separated by spaces; default: keep in the preset paper, drop in published",
    )
    lower: bool = Field(True, description="let the frozen model read lower case")
    min_tokens: int = Field(10, ge=2, description="fewest tokens of a sentence")
    max_tokens: int = Field(40, ge=2, description="most tokens of a sentence")
    teacher: Literal["cached", "online"] = Field(
        "cached",
        description="cached: the frozen model's vectors of all words are made once and stored beside the corpus, 2 "
        "bytes × dimension for each token; online: they are made as training needs them",
    )
    unit_paragraphs: int = Field(
        1000, ge=1, description="paragraphs per unit of work; the vectors of their words must fit in memory"
    )
    batch_lines: int | None = Field(
        None, ge=1, description="sentences per step, over all workers; default: 1 for sgd, 128 for adagrad"
    )
    optimizer: Literal["sgd", "adagrad"] = Field(
        "sgd",
        description="sgd: as in the paper, for steps of a sentence or so: the gradients of a word that occurs often in "
        "a step are summed; adagrad: each word has a learning rate of its own, so steps may be large",
    )
    learning_rate: float | None = Field(
        None,
        gt=0,
        description="learning rate at the start; default: for sgd 0.025, or 0.08 in the preset published; for adagrad "
        "0.05",
    )
    decay: Literal["none", "linear"] = Field(
        "linear", description="how the learning rate decays: not at all, or to 0 at the last step"
    )
    clip_gradient: float | None = Field(
        5.0, gt=0, description="sgd: maximum norm of the gradient of a step; null: no limit"
    )
    epochs: int = Field(1, ge=1, description="number of passes over the text")
    seed: int = Field(0, description="seed of the map, the order of sentences and negatives; default: `seed` above")

    checkpoint_steps: int | None = Field(
        None, ge=1, description="steps between checkpoints; default: those of about a million sentences"
    )
    cache: str | None = Field(
        None, description="folder on each node's local disk for a copy of the data; default: ~/.cache/wicdistil"
    )
    max_failures: int = Field(
        3, ge=0, description="how many times a training restarts by itself after a worker has died"
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.min_tokens > self.max_tokens:
            raise ValueError(f"min_tokens: {self.min_tokens} is more than max_tokens: {self.max_tokens}")
        return self

    def completed(self, preset: str, seed: int = 0) -> SkipgramSettings:
        """Return the settings with the values of a preset, and this seed, where none are given."""
        is_published, is_sgd = preset == "published", self.optimizer == "sgd"
        defaults = {
            "centre": "published" if is_published else "exclude",
            "attention": "pairs" if is_published else "window",
            "negatives_per": "pair" if is_published else "centre",
            "bias": is_published,
            "rare_words": "drop" if is_published else "keep",
            "batch_lines": 1 if is_sgd else 128,
            "checkpoint_steps": max(1, _CHECKPOINT_LINES // (self.batch_lines or (1 if is_sgd else 128))),
            "learning_rate": (0.08 if is_published else 0.025) if is_sgd else 0.05,
        }
        missing: dict[str, Any] = {name: value for name, value in defaults.items() if getattr(self, name) is None}
        return self.model_copy(update=missing | ({} if "seed" in self.model_fields_set else {"seed": seed}))


class AseSettings(Section):
    """How ASE (Bommasani et al. 2020) makes its vectors: the mean over the contexts in which a word occurs."""

    contexts_per_word: int | None = Field(
        100,
        ge=0,
        description="contexts of a word, drawn at random; null: all; 0: none, and the model reads each word alone",
    )
    layers: Literal["mean"] | list[int] = Field(
        "mean",
        description="mean: one table, the mean over layers `backbone.first_layer` to `last_layer`, by default the "
        "embeddings and the lower half, since the lower layers know most about words (Vulić et al. 2020); a list, such "
        "as [0, 4, 8]: one table for each of these layers",
    )
    pieces: Literal["mean", "max", "min", "last"] = Field(
        "mean", description="how a vector of a word comes from those of its pieces; special tokens never count"
    )
    of: Literal["frozen", "meaning", "context"] = Field(
        "frozen",
        description="whose vectors: those of the frozen model's layers, or the meaning or context vectors of `model`",
    )
    model: str | None = Field(
        None,
        description="for meaning and context: a trained word model, whose frozen model is `backbone`; a folder, "
        "s3://…, a hub id or embedded:minilm-wic",
    )
    unit_paragraphs: int = Field(
        1000, ge=1, description="paragraphs per unit of work; each unit writes a vector for each word it has seen"
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.of == "frozen" and self.model is not None:
            raise ValueError("model: only for `of: meaning` or `of: context`; leave it out, or choose one of these")
        if self.of != "frozen":
            if self.model is None:
                raise ValueError(f"of: {self.of}, but `model` is not set; name the trained word model")
            if self.layers != "mean" or self.pieces != "mean":
                raise ValueError(f"of: {self.of}: layers and pieces are those of the model; leave both out")
        if isinstance(self.layers, list) and (not self.layers or len(set(self.layers)) < len(self.layers)):
            raise ValueError("layers: name at least one, and each only once")
        return self


class StaticSettings(Section):
    """Everything `distiller static` needs. The sections of other kinds have no effect."""

    corpus: str = Field(description="root of a corpus of the recipe paragraphs: a folder or s3://bucket/prefix")
    output: str = Field(description="folder or s3://bucket/prefix of the result: vectors, a card and the work so far")
    kind: Literal["ase", "x2static", "skipgram"] = Field(
        description="the method: ase, x2static or skipgram (docs/static_vectors.md)"
    )
    preset: Literal["paper", "published"] = Field(
        "paper",
        description="for x2static and skipgram: what the paper says, or what its published code does; ase has one way "
        "only",
    )
    backbone: BackboneSettings = Field(description="the frozen model that reads the contexts")
    seed: int = Field(0, description="seed of everything drawn at random")
    words: int | None = Field(
        None, ge=1, description="at most this many words, the most frequent ones; null: the whole vocabulary"
    )
    min_count: int | None = Field(
        None, ge=1, description="only words that occur this often; null: the whole vocabulary"
    )
    workers: int | None = Field(
        None, ge=1, description="number of processes that do the work; null: as many as there is room for"
    )
    device: str = Field(
        "auto",
        description="where the model runs: cpu, cuda or cuda:N; auto: on a GPU if there is one, else on the CPU",
    )
    ase: AseSettings = Field(default_factory=AseSettings)
    x2static: X2StaticSettings = Field(default_factory=X2StaticSettings)
    skipgram: SkipgramSettings = Field(default_factory=SkipgramSettings)

    @model_validator(mode="after")
    def _fits_the_kind(self) -> Self:
        if self.kind != "ase":
            own: X2StaticSettings | SkipgramSettings = getattr(self, self.kind)
            object.__setattr__(self, self.kind, own.completed(self.preset, self.seed))
            if self.backbone.first_layer not in (None, self.backbone.last_layer):
                raise ValueError(
                    f"backbone.first_layer: {self.backbone.first_layer}, but {self.kind} uses a single layer; leave it "
                    "out, and set backbone.last_layer for another layer than the top one"
                )
            return self
        if self.preset != "paper":
            raise ValueError(f"preset: {self.preset} is only for x2static and skipgram; leave it out")
        limits = (self.backbone.first_layer, self.backbone.last_layer)
        if limits != (None, None) and (self.ase.layers != "mean" or self.ase.of != "frozen"):
            raise ValueError(
                "backbone: first_layer and last_layer only limit `ase.layers: mean` of the frozen model; leave both out"
            )
        return self
