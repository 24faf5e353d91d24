"""Where torch runs a translator, and in which precision."""

from __future__ import annotations

import torch

from corpusgen.errors import StageError


def use_torch(device: str, threads: int) -> torch.device:
    """The device that is asked for, the CPU with so many threads."""
    torch.set_num_threads(threads)
    if device == "cuda" and not torch.cuda.is_available():
        raise StageError(
            "device: cuda: torch finds no GPU; set it to cpu or auto, or install a build of torch for CUDA"
        )
    return torch.device("cuda" if device != "cpu" and torch.cuda.is_available() else "cpu")


def precision(compute_type: str, device: torch.device) -> torch.dtype:
    """The type of the weights; by default the one that is fast and safe on the device."""
    if compute_type == "default":
        compute_type = "float16" if device.type == "cuda" else "float32"
    return {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}[compute_type]
