"""Identify the models that a corpus was made with by id, revision and a hash of their files, for its corpus.json."""

from __future__ import annotations

import importlib.util
import os
import socket
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from corpusgen.errors import StageError
from corpusgen.io.hashing import content_hash
from corpusgen.models import embedded
from corpusgen.models.files import S3, content_hash_of, is_on_s3, local_path

_LETTERS_OF_A_HASH = 12


class NamedModel(NamedTuple):
    """A model that the settings name: files on every machine that uses it, a folder or hub id, or a package."""

    role: str
    kind: Literal["files", "hub", "package"]
    id: str
    revision: str | None = None

    def describe(self) -> dict[str, Any]:
        """Return what the model is now, for corpus.json."""
        match self.kind:
            case "files":
                return describe(self.id)
            case "hub":
                return describe_hub_model(self.id, self.revision)
            case "package":
                return _describe_package(self.id)

    @property
    def path(self) -> str | None:
        """Return the model's path on disk; None if it comes from a hub, a package or S3."""
        path = os.path.expanduser(self.id)
        if self.kind == "package" or path.startswith((embedded.PREFIX, S3)):
            return None
        return path if self.kind == "files" or os.path.exists(path) or can_only_be_a_path(path) else None

    def is_absent(self) -> bool:
        """Return whether a worker on this machine would not find the model."""
        if self.path is not None:
            return not os.path.exists(self.path)
        if self.id.startswith(S3):
            return not is_on_s3(self.id)
        if self.id.startswith(embedded.PREFIX):
            return importlib.util.find_spec(embedded.BASE_PACKAGE.replace("-", "_")) is None
        return self.describe()["revision"] is None


def describe(name: str) -> dict[str, Any]:
    """Describe a file or folder, here or on S3, by the hash of its content; null if it is not on this machine."""
    path = Path(local_path(name))
    return {"id": name, "sha256": _hash_of(path) if path.exists() else None}


def describe_hub_model(model: str, revision: str | None) -> dict[str, Any]:
    """Describe a folder or an embedded model by its hash, or a hub id by its current commit."""
    if model.startswith(embedded.PREFIX):
        return {"id": model, "sha256": embedded.content_hash(model)}
    if os.path.exists(local_path(model)):
        return describe(model)
    return {"id": model, "revision": _commit_on_hub(model, revision) or revision}


def confirmed(name: str, revision: str | None, recorded: Mapping[str, Any] | None) -> tuple[str, str | None]:
    """Return a model's path on this machine or its hub id, and the revision to load; StageError if it is another one.

    `recorded` is what the driver saw and corpus.json holds. For a hub model it is a commit, and exactly that one is
    loaded. For all others it is a hash of their content, which must be the same here.
    """
    recorded = recorded or {}
    if name.startswith(embedded.PREFIX):
        compare_identity(name, embedded.content_hash(name), recorded.get("sha256"))
        return name, revision
    path = local_path(name)
    if recorded.get("sha256"):
        if not os.path.exists(path):  # the name might pass for a hub id
            raise StageError(f"{name} is missing on the node {socket.gethostname()}; put it on every node, or on S3")
        compare_identity(name, _hash_of(Path(path)), recorded["sha256"])
    elif recorded.get("revision") and os.path.exists(path):
        compare_identity(name, "a folder", recorded["revision"])
    return path, recorded.get("revision") or revision


def _hash_of(path: Path) -> str:
    """Return the hash of a model's files and of those read with them."""
    beside = _beside(path)
    own = content_hash_of(path)
    return content_hash([own, *((file.name, content_hash_of(file)) for file in beside)]) if beside else own


def _beside(path: Path) -> list[Path]:
    """Return files next to a model that belong to it: a matrix's words, a translator's sub-words and dictionaries."""
    folder = path.absolute().parent
    if path.suffix == ".npy":
        return [file for file in (path.with_suffix(".txt"), path.with_suffix(".words")) if file.is_file()][:1]
    if path.suffix == ".pt":
        return [*sorted(folder.glob("dict.*.txt")), *sorted(_subword_files(folder))]
    if (path / "model.bin").is_file():  # a CTranslate2 model
        return sorted(file for file in _subword_files(path) if file.parent == folder)
    return []


def _subword_files(folder: Path) -> Iterable[Path]:
    from corpusgen.models.translate.subwords import find_subword_files  # encoders need none of it

    return find_subword_files(folder).values()


def compare_identity(name: str, found: str | None, expected: str | None) -> None:
    """Raise StageError if a model on this node is not the one that the corpus was started with."""
    if found and expected and found != expected:
        raise StageError(
            f"{name} differs on the node {socket.gethostname()} from the one that the corpus was begun with: {found} "
            f"here, {expected} in corpus.json; it would make other rows. Give all nodes the same files and versions"
        )


def can_only_be_a_path(model: str) -> bool:
    """Return whether a name cannot be a hub id, which is `name` or `owner/name`."""
    return model.startswith((".", "/", "~")) or model.count("/") > 1


def short_name(model: str) -> str:
    """Return a model's short name: that of its file or folder, or its hub id."""
    return model.rstrip("/").rpartition("/")[2] if can_only_be_a_path(model) else model


def version_text(described: Mapping[str, Any]) -> str:
    """Name the version of a described model in a few words."""
    if described.get("sha256"):
        return f"sha256 {described['sha256'][:_LETTERS_OF_A_HASH]}…"
    revision = described.get("revision")
    if not revision:
        return "version unknown"
    is_commit = len(revision) == 40
    return f"revision {revision[:_LETTERS_OF_A_HASH]}…" if is_commit else f"version {revision}"


def _describe_package(name: str) -> dict[str, Any]:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return {"id": name, "revision": version(name)}
    except PackageNotFoundError:
        return {"id": name, "revision": None}


@cache
def _commit_on_hub(model: str, revision: str | None) -> str | None:
    """Return a model's commit, from the hub or, without a connection, from its cache on this machine."""
    from huggingface_hub import HfApi, try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        return HfApi().model_info(model, revision=revision, timeout=5).sha
    except HFValidationError:  # the path of a missing folder
        return None
    except Exception:  # from whichever HTTP library the hub's client uses; a build can do without the answer
        cached = try_to_load_from_cache(model, "config.json", revision=revision)
        return Path(cached).parent.name if isinstance(cached, str) else None
