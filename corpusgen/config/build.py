"""The settings of a build."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, Self

import yaml
from pydantic import Field, field_validator, model_validator

from corpusgen.config.loading import load_settings
from corpusgen.config.plugins import check_name
from corpusgen.config.rules import RuleSettings
from corpusgen.config.run import RunSettings
from corpusgen.config.section import Section
from corpusgen.config.translator import TranslatorSettings
from corpusgen.io.terminal import visible_lines

SOURCE_KINDS = ("mediawiki", "wikiextractor", "text", "jsonl", "parquet")


class SourceSettings(Section):
    """Where the text comes from."""

    kind: str = Field(
        description="mediawiki: XML dump; wikiextractor: <doc> files; text: UTF-8, one paragraph a line; jsonl; "
        "parquet; or one of your own, as package.module:NAME (docs/extending.md)"
    )
    paths: list[str] = Field(min_length=1, description="files or globs, local or s3://; .gz, .bz2, .xz, .zst too")
    unit_bytes: int = Field(
        8 << 20, ge=1, le=256 << 20, description="about how much text makes one unit of work, which memory must hold"
    )
    text_field: str = Field("text", description="of jsonl and parquet: the field with the text")

    @field_validator("kind")
    @classmethod
    def _is_a_kind(cls, kind: str) -> str:
        return check_name(kind, SOURCE_KINDS)


class LanguageSettings(Section):
    """Which language is wanted."""

    code: str = Field("en", description="ISO code of the language of the corpus")
    identify: bool = Field(True, description="drop texts in other languages")
    threshold: float = Field(0.5, ge=0, le=1, description="least probability of the language")
    model: str | None = Field(
        None, description="file of fastText's lid.176, local or s3://; by default the one in this package"
    )


class SegmenterSettings(Section):
    """How paragraphs are split into sentences and words."""

    kind: Literal["rules", "stanza"] = Field("rules", description="rules: fast, on CPUs; stanza: as in the paper")
    model_dir: str | None = Field(
        None, description="folder of Stanza's models, local or s3://; no others are downloaded"
    )
    use_gpu: bool = Field(False, description="run Stanza on a GPU")


class FilterSettings(Section):
    """Which sentences are kept; null or false switches a filter off."""

    min_words: int | None = Field(15, description="least number of words")
    max_words: int | None = Field(50, description="largest number of words")
    capital_first: bool = Field(True, description="the first character is an upper-case letter")
    max_hyphens: int | None = Field(1, description="most hyphens")
    max_numbers: int | None = Field(1, description="most numbers")
    max_commas: int | None = Field(2, description="most commas")
    no_repeated_characters: bool = Field(True, description="no character four times in a row")
    no_wide_characters: bool = Field(True, description="no East-Asian wide characters in a non-CJK language")
    no_debris: bool = Field(True, description="no left-overs of mark-up or of its removal")
    ends_as_sentence: bool = Field(True, description="the last character ends a sentence")
    balanced: bool = Field(True, description="quotes and brackets come in pairs")


class SampleSettings(Section):
    """Which words become targets, and how many sentences are taken."""

    size: int = Field(1_000_000, ge=1, description="targets to sample, balanced over the words of the vocabulary")
    vocabulary: int = Field(50_000, ge=1, description="most frequent words that may become targets")
    drop_top_share: float = Field(
        0.001, ge=0, lt=1, description="share of the word types left out at the top: mostly function words"
    )


class TranslationSettings(Section):
    """The round trip that makes paraphrases."""

    pivot: str = Field(description="ISO code of the language in between")
    forward: TranslatorSettings = Field(description="the translator into the pivot language")
    back: TranslatorSettings = Field(description="the translator out of it")
    identify: bool = Field(True, description="reject translations that are in another language")
    threshold: float = Field(0.7, ge=0, le=1, description="probability of another language that is enough to reject")


class VectorSettings(Section):
    """Static word vectors of the language of the corpus, of words in lower case."""

    path: str = Field(description="fastText .bin, .vec, .vec.gz, GloVe text, or .npy; local or s3://")
    words: str | None = Field(
        None, description="of .npy: the file with its words, if it does not lie beside it on a disk"
    )
    max_words: int | None = Field(None, ge=1, description="take only so many of the first words as known")


class MaskedSettings(Section):
    """The masked language model that proposes words."""

    model: str = Field(description="folder, s3://bucket/prefix or hub id")
    revision: str | None = Field(None, description="of a hub id: commit, tag or branch")
    top_k: int = Field(100, ge=1, description="most probable words looked at")
    masks: Literal["word", "piece"] = Field(
        "word", description="what one mask stands for: the whole target, or each of its pieces as in the paper"
    )
    batch_tokens: int | None = Field(
        None, ge=1, description="tokens in a batch, padding included; by default what suits the device"
    )
    dtype: Literal["auto", "float32", "float16", "bfloat16"] = Field(
        "auto", description="auto: float16 on a GPU, float32 on a CPU"
    )


class GenerateSettings(Section):
    """How targets become triples."""

    positives: Literal["round_trip", "substitution"] = Field(
        "round_trip", description="round_trip: by translation and back; substitution: by the masked LM alone"
    )
    unit_targets: int = Field(1000, ge=1, description="targets that make one unit of work")
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="where models run; auto: on a GPU if there is one"
    )


class BuildConfig(Section):
    """Everything `corpusgen build` needs. `store` and `run` say where and how; all else determines the content."""

    store: str = Field(description="root of the corpus: a folder or s3://bucket/prefix")
    recipe: str = Field(
        "words",
        description="what is made: words (triples of a word in context, a paraphrase and a negative); or one of your "
        "own, as package.module:NAME (docs/extending.md)",
    )
    seed: int = Field(0, description="of everything that is drawn at random")
    source: SourceSettings
    language: LanguageSettings = Field(default_factory=LanguageSettings)
    segmenter: SegmenterSettings = Field(default_factory=SegmenterSettings)
    filters: FilterSettings = Field(default_factory=FilterSettings)
    sample: SampleSettings = Field(default_factory=SampleSettings)
    generate: GenerateSettings = Field(default_factory=GenerateSettings)
    translation: TranslationSettings | None = Field(None, description="the round trip that makes paraphrases")
    vectors: VectorSettings | None = Field(None, description="static word vectors, to compare words by")
    masked: MaskedSettings | None = Field(None, description="the masked language model that proposes words")
    rules: RuleSettings = Field(default_factory=RuleSettings)
    run: RunSettings = Field(default_factory=RunSettings)

    @model_validator(mode="after")
    def _models_fit_the_device(self) -> Self:
        sides = [self.translation.forward, self.translation.back] if self.translation else []
        if self.generate.device == "cuda" and any(side.backend == "bergamot" for side in sides):
            raise ValueError("generate.device: cuda: bergamot runs on CPUs only: set it to cpu or auto")
        if self.generate.device == "cpu" and self.masked and self.masked.dtype == "bfloat16":
            raise ValueError("masked.dtype: bfloat16 is many times slower than float32 on a CPU: use auto or float32")
        return self

    def content(self) -> dict[str, Any]:
        """Return the settings that determine what is in the corpus."""
        return self.model_dump(
            mode="json",
            exclude={"store": True, "recipe": True, "run": True, "segmenter": {"use_gpu"}, "generate": {"device"}},
        )

    def to_yaml(self) -> str:
        """Return all settings, including defaults, as YAML; invisible characters are escaped."""
        settings = self.model_dump(mode="json")
        text = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)
        return text if visible_lines(text) == text else yaml.safe_dump(settings, sort_keys=False)


def load_config(path: str | Path, overrides: Iterable[str] = ()) -> BuildConfig:
    """Load the settings of a build from a YAML file and overrides."""
    return load_settings(BuildConfig, path, overrides)
