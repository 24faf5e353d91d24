"""What a machine has: versions, cores, memory, GPUs, disks. Runs here, and as a task on other nodes."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from corpusgen.engine.cluster import available_cores, available_memory
from corpusgen.ops.doctor.findings import Finding, amount
from corpusgen.ops.doctor.packages import PACKAGE, version_of

# Packages that can change what a model says, or that are incompatible with other versions of themselves.
_COMPARED = (PACKAGE, "ray", "torch", "transformers", "tokenizers", "ctranslate2", "pyarrow", "numpy")
_FULL = 0.05  # share of free disk space below which Ray fails tasks


@dataclass(frozen=True)
class Gpu:
    """A GPU and its memory in bytes."""

    name: str
    total: int
    free: int


@dataclass(frozen=True)
class Machine:
    """What a machine has, and which of the given paths it lacks."""

    host: str
    versions: Mapping[str, str]
    cores: int
    memory: int
    gpus: Sequence[Gpu]
    clock: float
    absent: Sequence[str]


def look_around(paths: Sequence[str] = (), on_a_node: bool = False) -> Machine:
    """Examine this machine; with `on_a_node`, show a Ray task all GPUs even though it asked for none."""
    if on_a_node:
        os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    return Machine(
        host=socket.gethostname(),
        versions={"Python": platform.python_version(), **{name: version_of(name) or "missing" for name in _COMPARED}},
        cores=available_cores(),
        memory=available_memory(),
        gpus=_gpus(),
        clock=time.time(),
        absent=[path for path in paths if not os.path.exists(path)],
    )


def _gpus() -> list[Gpu]:
    import torch

    found = []
    for number in range(torch.cuda.device_count()):
        free, total = torch.cuda.mem_get_info(number)
        found.append(Gpu(torch.cuda.get_device_name(number), total, free))
    return found


def machine_lines(machine: Machine) -> Iterator[Finding]:
    """Describe this machine, whatever the build."""
    yield Finding("green", "versions", ", ".join(f"{name} {version}" for name, version in machine.versions.items()))
    yield Finding("green", "machine", f"{machine.cores} cores, {amount(machine.memory)} of memory")
    for gpu in machine.gpus:
        yield Finding("green", "GPU", f"{gpu.name}, {amount(gpu.free)} of {amount(gpu.total)} free")
    if not machine.gpus:
        yield Finding("grey", "GPU", "torch finds no GPU on this machine: models run on CPUs")
    for what, folder in (("disk", os.getcwd()), ("disk for Ray", tempfile.gettempdir())):
        usage = shutil.disk_usage(folder)
        finding = f"{amount(usage.free)} of {amount(usage.total)} free in {folder}"
        if usage.free < _FULL * usage.total:
            yield Finding("yellow", what, finding, "free some space: Ray fails tasks when the disk is nearly full")
        else:
            yield Finding("green", what, finding)
