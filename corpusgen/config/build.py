"""The settings of a build."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, get_args

import yaml
from pydantic import Field, field_validator, model_validator

from corpusgen.config.loading import load_settings
from corpusgen.config.plugins import check_name
from corpusgen.config.rules import RuleSettings
from corpusgen.config.run import RunSettings
from corpusgen.config.section import Section
from corpusgen.config.translator import (
    PivotSettings,
    TranslatorSettings,
    roles_of_sides,
    translators_by_role,
    trips_by_role,
)
from corpusgen.io.terminal import visible_lines

SOURCE_KINDS = ("mediawiki", "wikiextractor", "text", "jsonl", "parquet")


class SourceSettings(Section):
    """Where the text comes from."""

    kind: str = Field(
        description="mediawiki: XML dumps; wikiextractor: <doc> files; text: UTF-8, one paragraph per line; jsonl; "
        "parquet; or your own kind, as package.module:NAME (docs/extending.md)"
    )
    paths: list[str] = Field(
        min_length=1, description="files or globs, local or on s3://, plain or compressed (.gz, .bz2, .xz, .zst)"
    )
    unit_bytes: int = Field(
        8 << 20,
        ge=1,
        le=256 << 20,
        description="approximate amount of text in a unit of work; a unit must fit in memory",
    )
    text_field: str = Field("text", description="jsonl and parquet: the field that holds the text")

    @field_validator("kind")
    @classmethod
    def _is_a_kind(cls, kind: str) -> str:
        return check_name(kind, SOURCE_KINDS)


class LanguageSettings(Section):
    """Which language is wanted."""

    code: str = Field("en", description="ISO code of the language of the corpus")
    identify: bool = Field(True, description="drop texts in other languages")
    threshold: float = Field(0.5, ge=0, le=1, description="minimum probability that a text is in this language")
    model: str | None = Field(
        None, description="fastText lid.176 model, local or on s3://; default: the copy in this package"
    )


class SegmenterSettings(Section):
    """How paragraphs are split into sentences and words."""

    kind: Literal["rules", "stanza"] = Field("rules", description="rules: fast, on the CPU; stanza: as in the paper")
    model_dir: str | None = Field(
        None, description="folder of Stanza's models, local or on s3://; nothing is downloaded"
    )
    use_gpu: bool = Field(False, description="run Stanza on a GPU")


class FilterSettings(Section):
    """Which sentences are kept; null or false switches a filter off."""

    min_words: int | None = Field(15, description="minimum number of words")
    max_words: int | None = Field(50, description="maximum number of words")
    capital_first: bool = Field(True, description="require an upper-case letter at the start")
    max_hyphens: int | None = Field(1, description="maximum number of hyphens")
    max_numbers: int | None = Field(1, description="maximum number of numbers")
    max_commas: int | None = Field(2, description="maximum number of commas")
    no_repeated_characters: bool = Field(True, description="reject a character repeated four times in a row")
    no_wide_characters: bool = Field(
        True, description="reject East Asian wide characters in languages other than Chinese, Japanese and Korean"
    )
    no_debris: bool = Field(True, description="reject remains of markup or of its removal")
    ends_as_sentence: bool = Field(True, description="require sentence-final punctuation at the end")
    balanced: bool = Field(True, description="require quotes and brackets to be balanced")


class SampleSettings(Section):
    """Which words become targets, and how many sentences are taken."""

    size: int = Field(1_000_000, ge=1, description="number of targets to sample, balanced across the vocabulary")
    vocabulary: int = Field(50_000, ge=1, description="number of most frequent words that may become targets")
    drop_top_share: float = Field(
        0.001, ge=0, lt=1, description="fraction of the most frequent word types to exclude, mostly function words"
    )
    sentences_per_word: int = Field(
        1,
        ge=1,
        description="sample at least this many sentences of each word, if it has that many; takes fewer words in "
        "return",
    )
    max_capital_share: float | None = Field(
        None,
        ge=0,
        le=1,
        description="skip words that are capitalised more often than this, because they are names; null: names may be "
        "targets",
    )

    added_later: ClassVar[frozenset[str]] = frozenset({"sentences_per_word", "max_capital_share"})


class DiscourseSettings(Section):
    """Which pairs of one word in one document are made."""

    size: int = Field(100_000, ge=1, description="number of pairs to make, balanced across the vocabulary")
    per_document: int = Field(1, ge=1, le=100, description="maximum number of pairs per word and document")
    document_bytes: int | None = Field(
        None,
        ge=1,
        description="for source.kind text: lines that start within the same block of this many bytes form one "
        "document; null: every line is a document",
    )
    max_capital_share: float | None = Field(
        None,
        ge=0,
        le=1,
        description="skip words that are capitalised more often than this, because they are names; null: 0.9, or 1 in "
        "languages that capitalise all nouns",
    )
    max_overlap: float = Field(
        0.5, gt=0, le=1, description="skip two sentences that share more than this fraction of their words"
    )
    boilerplate_documents: int | None = Field(
        3,
        ge=2,
        description="skip sentences that occur in this many documents of a unit, apart from names and numbers; null: "
        "keep them",
    )
    unit_pairs: int = Field(
        10_000, ge=1, description="number of pairs in a unit of work; larger if there would be more than 100 units"
    )


class ParagraphSettings(Section):
    """Which paragraphs are kept whole, and which of their tokens form the vocabulary."""

    min_sentences: int = Field(3, ge=1, description="minimum number of sentences of a paragraph")
    min_characters: int = Field(140, ge=1, description="minimum number of characters of a paragraph")
    min_count: int = Field(10, ge=1, description="minimum number of occurrences of a token in the vocabulary")
    vocabulary: int = Field(750_000, ge=1, description="number of most frequent tokens in the vocabulary")


class TranslationSettings(PivotSettings):
    """The round trip that makes paraphrases."""

    identify: bool = Field(True, description="reject translations in the wrong language")
    threshold: float = Field(
        0.7, ge=0, le=1, description="probability of another language from which a translation is rejected"
    )
    hypotheses: int = Field(
        1,
        ge=1,
        description="number of translations back to choose a paraphrase from, at most the beam; prefers one in which "
        "another word stands for the target",
    )
    avoid_target: bool = Field(
        False,
        description="also translate back without the target word, so that another word stands for it; only with "
        "ctranslate2",
    )
    avoid_max_loss: float | None = Field(
        None,
        ge=0,
        description="avoid_target: look at as many translations without the target word as hypotheses, but only at "
        "those whose log-probability is at most this much below that of the best translation; null: at one, however "
        "improbable",
    )
    others: list[PivotSettings] = Field(
        default_factory=list, description="more round trips to choose from, each with its pivot, forward and back"
    )

    added_later: ClassVar[frozenset[str]] = frozenset({"hypotheses", "avoid_target", "avoid_max_loss", "others"})

    @property
    def translators(self) -> dict[str, TranslatorSettings]:
        """Return all translators by their roles."""
        return translators_by_role(self, self.others)

    def with_translators(self, found: Mapping[str, TranslatorSettings]) -> Self:
        """Return a copy that has these translators in the given roles."""
        first, *others = (
            {side: found[name] for side, name in roles_of_sides(role).items() if name in found}
            for role in trips_by_role(self, self.others)
        )
        changed = [trip.model_copy(update=sides) for trip, sides in zip(self.others, others, strict=True)]
        return self.model_copy(update={**first, "others": changed})

    @model_validator(mode="after")
    def _can_give_hypotheses(self) -> Self:
        if self.avoid_max_loss is not None and not self.avoid_target:
            raise ValueError("avoid_max_loss: has no effect without avoid_target; set avoid_target to true")
        for role, side in self.translators.items():
            if not role.endswith(".back"):
                continue
            if self.avoid_target and side.backend != "ctranslate2":
                raise ValueError(f"avoid_target: {role}: {side.backend} cannot avoid a word; use ctranslate2")
            if self.hypotheses == 1:
                continue
            if side.backend == "bergamot":
                raise ValueError(f"hypotheses: {role}: bergamot gives one translation of a text; use another backend")
            if side.beam < self.hypotheses:
                raise ValueError(
                    f"hypotheses: {role}: a beam of {side.beam} gives fewer than {self.hypotheses} translations; set "
                    f"{role}.beam to {self.hypotheses}"
                )
        return self


class VectorSettings(Section):
    """Static word vectors of the language of the corpus, of words in lower case."""

    path: str = Field(
        description="fastText .bin, .vec, .vec.gz, word2vec .bin, GloVe text, .npy file, or a folder of model2vec with "
        "one vector per word, local or on s3://"
    )
    words: str | None = Field(
        None, description=".npy only: the file with its words, if it is not beside the matrix on disk"
    )
    max_words: int | None = Field(
        None, ge=1, description="use only this many words from the start of the file; default: all"
    )


class MaskedSettings(Section):
    """The masked language model that proposes words."""

    model: str = Field(description="folder, s3://bucket/prefix or hub id")
    revision: str | None = Field(None, description="commit, tag or branch of a hub id")
    top_k: int = Field(100, ge=1, description="number of most probable words to consider")
    masks: Literal["word", "piece"] = Field(
        "word", description="what one mask replaces: the whole target word, or each of its word pieces as in the paper"
    )
    batch_tokens: int | None = Field(
        None, ge=1, description="tokens per batch, including padding; default: chosen for the device"
    )
    dtype: Literal["auto", "float32", "float16", "bfloat16"] = Field(
        "auto", description="auto: float16 on a GPU, float32 on a CPU"
    )


class GenerateSettings(Section):
    """How targets become triples."""

    positives: Literal["round_trip", "substitution"] = Field(
        "round_trip", description="round_trip: by translating there and back; substitution: by the masked LM alone"
    )
    unit_targets: int = Field(1000, ge=1, description="number of targets in a unit of work")
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="where models run; auto: on a GPU if there is one, else on the CPU"
    )


class BuildConfig(Section):
    """Everything `corpusgen build` needs. `store` and `run` say where and how; all else determines the content."""

    store: str = Field(description="root of the store: a folder or s3://bucket/prefix")
    recipe: str = Field(
        "words",
        description="what to make: words (triples of a word in context, a paraphrase and a negative), discourse (pairs "
        "of one word in two sentences of a document), paragraphs (whole paragraphs and a vocabulary, for static "
        "vectors), several joined by + (words+discourse), or your own recipe, as package.module:NAME "
        "(docs/extending.md)",
    )
    seed: int = Field(0, description="seed of every random choice")
    source: SourceSettings
    language: LanguageSettings = Field(default_factory=LanguageSettings)
    segmenter: SegmenterSettings = Field(default_factory=SegmenterSettings)
    filters: FilterSettings = Field(default_factory=FilterSettings)
    sample: SampleSettings = Field(default_factory=SampleSettings)
    discourse: DiscourseSettings = Field(default_factory=DiscourseSettings)
    paragraphs: ParagraphSettings = Field(default_factory=ParagraphSettings)
    generate: GenerateSettings = Field(default_factory=GenerateSettings)
    translation: TranslationSettings | None = Field(None, description="the translators that make paraphrases")
    vectors: VectorSettings | None = Field(None, description="static word vectors, for comparing words")
    masked: MaskedSettings | None = Field(None, description="the masked language model that proposes words")
    rules: RuleSettings = Field(default_factory=RuleSettings)
    run: RunSettings = Field(default_factory=RunSettings)

    @model_validator(mode="after")
    def _models_fit_the_device(self) -> Self:
        sides = self.translation.translators.values() if self.translation else ()
        if self.generate.device == "cuda" and any(side.backend == "bergamot" for side in sides):
            raise ValueError("generate.device: cuda: bergamot runs only on CPUs; use cpu or auto")
        if self.generate.device == "cpu" and self.masked and self.masked.dtype == "bfloat16":
            raise ValueError("masked.dtype: bfloat16 is many times slower than float32 on a CPU; use auto or float32")
        return self

    def content(self) -> dict[str, Any]:
        """Return the settings that determine what is in the corpus."""
        content = super().content()
        for name in ("store", "recipe", "run"):
            del content[name]
        del content["segmenter"]["use_gpu"], content["generate"]["device"]
        for name, default in (("discourse", DiscourseSettings()), ("paragraphs", ParagraphSettings())):
            if content[name] == default.model_dump(mode="json") and name not in self.recipe:
                del content[name]  # as in corpora made before these settings existed
        return content

    def to_yaml(self) -> str:
        """Return all settings, including defaults, as YAML; invisible characters are escaped."""
        settings = self.model_dump(mode="json")
        text = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)
        return text if visible_lines(text) == text else yaml.safe_dump(settings, sort_keys=False)


def _is_section(annotation: Any) -> bool:
    kinds = get_args(annotation) or (annotation,)
    return any(isinstance(kind, type) and issubclass(kind, Section) for kind in kinds)


SECTIONS = frozenset(name for name, field in BuildConfig.model_fields.items() if _is_section(field.annotation))
"""The names of the settings that have settings of their own."""


def load_config(path: str | Path, overrides: Iterable[str] = ()) -> BuildConfig:
    """Load the settings of a build from a YAML file and overrides."""
    return load_settings(BuildConfig, path, overrides)
