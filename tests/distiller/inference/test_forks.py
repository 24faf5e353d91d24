"""Models in processes that were forked after they were loaded, as data loaders and web servers do it."""

import contextlib
import json
import os
import signal
import subprocess
import sys

import pytest
import torch

from corpusgen.errors import StageError
from distiller.inference.word_distiller import WordDistiller
from tests.testing import PROJECT
from tests.testing.word_models import RIVER, TEXT

# In a process of its own: its threads are as a user's are, and what hangs is killed with it.
SCRIPT = """
import json, multiprocessing, sys, threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from distiller.inference.word_distiller import WordDistiller
from tests.testing.frozen_models import some_items

PATIENCE = 60
torch.set_num_threads(2)
fork = multiprocessing.get_context("fork")
texts, spans = some_items(9)
model = WordDistiller.from_pretrained(sys.argv[1], device="cpu")


def encode(*_):
    return model.encode(texts, spans)


def in_child(act):
    # What a forked child makes; nothing, if it hangs.
    mine, its = fork.Pipe()
    child = fork.Process(target=lambda: its.send(act()))
    child.start()
    made = mine.recv() if mine.poll(PATIENCE) else []
    child.kill()
    return made


def in_threads():
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(encode, range(8)))


def by_thread():
    made = []
    thread = threading.Thread(target=lambda: made.extend([encode(), *in_child(lambda: [encode()])]))
    thread.start()
    thread.join()
    return made[1:]


def by_pool():
    with fork.Pool(2) as pool:
        return pool.map_async(encode, range(4)).get(PATIENCE)


class Encoded(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, _):
        return encode()


def by_loader():
    return list(DataLoader(Encoded(), None, num_workers=2, multiprocessing_context="fork", timeout=PATIENCE))


torch.ones(1 << 22).sum()  # as loading a larger model would, it starts torch's threads
made = {
    "before its first use": in_child(lambda: [encode()]),
    "after it was used": [encode(), *in_child(lambda: [encode()])][1:],
    "used by the parent again": [encode()],
    "with threads in the child": in_child(in_threads),
    "and forked again": in_child(lambda: in_child(lambda: [encode()])),
}
for way, act in {"by a thread": by_thread, "by a pool": by_pool, "by a data loader": by_loader}.items():
    try:
        made[way] = act()
    except Exception:
        made[way] = []
expected = encode()
good = {way: bool(len(of)) and all(np.allclose(one, expected, atol=1e-5) for one in of) for way, of in made.items()}
print(json.dumps(good))
"""
WAYS = [
    *("before its first use", "after it was used", "used by the parent again", "with threads in the child"),
    *("and forked again", "by a thread", "by a pool", "by a data loader"),
]


@pytest.fixture(scope="module")
def found(folder, tmp_path_factory):
    """Of each way to use a model in a fork, whether it works."""
    output = tmp_path_factory.mktemp("forks") / "output"
    with output.open("w") as file:
        started = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, folder], cwd=PROJECT, stdout=file, stderr=file, start_new_session=True
        )
    try:
        started.wait(500)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)  # and forks of forks that hang
        started.wait()
    assert started.returncode == 0, output.read_text()
    return json.loads(output.read_text().splitlines()[-1])


@pytest.mark.parametrize("way", WAYS)
def test_a_forked_process_encodes_what_its_parent_would(found, way):
    assert found[way]


def test_a_fork_cannot_use_a_gpu_and_says_what_to_do(folder, monkeypatch):
    model = WordDistiller.from_pretrained(folder, device="cpu")
    monkeypatch.setattr(model.backbone, "_device", torch.device("cuda"))
    monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: True)
    with pytest.raises(StageError, match=r"CUDA does not work after a fork; load the model in the new process"):
        model.encode(TEXT, RIVER)
    with pytest.raises(StageError, match="CUDA does not work after a fork"):
        model.encode_sentences(TEXT)


def test_a_torch_that_cannot_tell_a_fork_is_taken_at_its_word(folder, monkeypatch):
    model = WordDistiller.from_pretrained(folder, device="cpu")
    monkeypatch.setattr(model.backbone, "_device", torch.device("cuda"))
    monkeypatch.delattr(torch.cuda, "_is_in_bad_fork")
    assert model.backbone.device.type == "cuda"
