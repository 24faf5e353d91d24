"""Load transformers encoders with errors that explain, and prepare their input on a device.

Shapes: B texts in a batch, T tokens of the longest.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from corpusgen.errors import StageError
from corpusgen.models import embedded
from corpusgen.models.files import local_path
from corpusgen.models.identity import can_only_be_a_path

_DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def choose_device(name: str) -> torch.device:
    """Return a device by name; "auto" is a GPU if there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise StageError(f"torch does not know the device {name!r}; use auto, cpu or cuda") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise StageError(
            f"device {name!r}: torch finds no GPU on this machine; use auto or cpu, or install a CUDA build of torch"
        )
    return device


def choose_dtype(name: str, device: torch.device) -> torch.dtype:
    """Return a number type by name; "auto" is the one that is fast and safe on the device."""
    if name == "auto":
        name = "float16" if device.type == "cuda" else "float32"
    if name not in _DTYPES:
        raise StageError(f"unknown dtype {name!r}; choose from auto, {', '.join(_DTYPES)}")
    if name == "bfloat16" and device.type == "cpu" and not cpu_has_bfloat16():
        raise StageError("dtype bfloat16 is many times slower than float32 on this CPU; use auto or float32")
    return _DTYPES[name]


def cpu_has_bfloat16() -> bool:
    """Return whether this CPU has instructions for bfloat16, by which a model is twice as fast as in float32."""
    capabilities: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()  # older versions of torch cannot tell
    return any(capabilities.get(name) for name in ("avx512_bf16", "amx_bf16"))


def padded(batch: Sequence[Sequence[int]], padding: int, device: torch.device) -> dict[str, torch.Tensor]:
    """Pad token ids of different lengths to the input of a model: (B, T) each."""
    lengths = np.array([len(ids) for ids in batch])
    present = np.arange(lengths.max()) < lengths[:, None]
    ids = np.full(present.shape, padding, np.int64)
    ids[present] = np.concatenate(batch)
    inputs = {"input_ids": ids, "attention_mask": present.astype(np.int64)}
    return {name: on_device(values, device) for name, values in inputs.items()}


def on_device(values: npt.NDArray[Any], device: torch.device) -> torch.Tensor:
    """Return an array as a tensor on a device. A GPU copies it asynchronously, from pinned memory."""
    tensor = torch.from_numpy(values)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


def longest_input(tokenizer: Any, model: Any) -> int:
    """Return how many tokens the model takes. RoBERTa's family counts positions from after its padding token's id."""
    limits = [tokenizer.model_max_length, getattr(model.config, "max_position_embeddings", None) or 2**31]
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, torch.nn.Embedding):
            limits.append(module.num_embeddings - (0 if module.padding_idx is None else module.padding_idx + 1))
    return int(min(limits))


def model_path(name: str, role: str) -> str:
    """Return a folder's path or a hub id; raise StageError for what can only be a path but does not exist."""
    if name.startswith(embedded.PREFIX):
        return embedded.model_folder(name)
    path = local_path(name)
    if not os.path.isdir(path) and can_only_be_a_path(path):
        raise StageError(f"{role} {name}: no such folder")
    return path


def load_encoder(
    auto_class: Any, name: str, revision: str | None, dtype: torch.dtype, role: str, **changed: Any
) -> tuple[Any, Any, list[str]]:
    """Return tokenizer, model and the names of weights missing from its files, except those of the unused pooler.

    `changed` are values of the model's configuration to be used instead of its own.
    """
    from transformers import AutoTokenizer

    path = model_path(name, role)
    with explained_loading(name, role):
        tokenizer = AutoTokenizer.from_pretrained(path, revision=revision)
        options = {"revision": revision, "dtype": dtype, "output_loading_info": True, **changed}
        model, loaded = auto_class.from_pretrained(path, **options)
    if not tokenizer.is_fast:
        raise StageError(f"{name}: its tokenizer gives no offsets; use a model with a fast tokenizer (tokenizer.json)")
    if max(tokenizer.get_vocab().values()) >= model.config.vocab_size:
        raise StageError(
            f"{name}: its tokenizer has word pieces that the model does not know; use the model's own tokenizer"
        )
    return tokenizer, model, sorted(weight for weight in loaded["missing_keys"] if "pooler" not in weight)


@contextlib.contextmanager
def explained_loading(name: str, role: str) -> Iterator[None]:
    """Silence progress bars and reports while a model loads, and raise StageError with what matters if it fails."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    except Exception as error:
        raise StageError(
            f"cannot load {role} {name}: {' '.join(str(error).split())}; give a folder with a model and its "
            "tokenizer, or the hub id of a model that is cached or can be downloaded"
        ) from error
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
