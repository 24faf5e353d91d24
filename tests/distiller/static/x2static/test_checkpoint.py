"""A training resumes to the bit, with any number of workers, from the last checkpoint that is whole."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from corpusgen.errors import ConfigError, DamagedPartError, StoreError
from corpusgen.io.files import open_files
from distiller.static.x2static import checkpoint
from distiller.static.x2static.checkpoint import FOLDER, Checkpoint, commit, latest, restore, rows_of, write_shard
from distiller.static.x2static.sentences import batches
from distiller.static.x2static.trainer import ShardTrainer
from tests.distiller.static.x2static.support import VOCABULARY, settings, text, trained, whole

GIVEN = settings(bias_correction="row")
SENTENCES, COUNTS = text()


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(checkpoint, "_PIECE_BYTES", 7 * 12 * 50)  # seven rows


def new(workers):
    return [ShardTrainer(GIVEN, COUNTS, 50, rank, workers) for rank in range(workers)]


def advance(shards, until):
    for batch in batches(SENTENCES, GIVEN, shards[0].steps):
        if batch.step == until:
            break
        for shard in shards:
            shard.step(batch)
    return shards


def described(shards, pieces, **history):
    return Checkpoint(shards[0].steps, VOCABULARY, 50, pieces, history)


def save(files, shards, **history):
    pieces = [piece for shard in shards for piece in write_shard(files, shard)]
    commit(files, described(shards, pieces, **history))


def resumed(files, workers, say=pytest.fail):
    found = latest(files, say)
    shards = new(workers)
    for shard in shards:
        restore(files, found, shard)
    return shards


def same(left, right):
    (state, touches), (other_state, other_touches) = whole(left), whole(right)
    return state.tobytes() == other_state.tobytes() and touches.tobytes() == other_touches.tobytes()


def names(files):
    return [info.path.removeprefix(f"{FOLDER}/") for info in files.list(FOLDER)]


def damage(files, name):
    path = Path(files.url) / FOLDER / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(("before", "after"), [(1, 1), (1, 2), (2, 3), (3, 2), (2, 4), (5, 1)])
def test_a_training_resumes_to_the_bit_with_another_number_of_workers(root, before, after):
    files = open_files(root)
    save(files, advance(new(before), 4), losses=[1.5, 0.25])
    assert latest(files, pytest.fail).history == {"losses": [1.5, 0.25]}
    shards = resumed(files, after)
    assert {shard.steps for shard in shards} == {4}
    assert same(shards, advance(new(1), 4))
    wanted, _ = trained(SENTENCES, COUNTS, GIVEN)
    assert same(advance(shards, None), wanted)


def test_a_worker_reads_only_pieces_that_hold_its_rows(tmp_path):
    files = open_files(tmp_path)
    save(files, advance(new(2), 1))
    found = latest(files, pytest.fail)
    for name in names(files):
        if ".1-of-2." in name:
            files.delete(f"{FOLDER}/{name}")
    own, other = ShardTrainer(GIVEN, COUNTS, 50, 2, 4), ShardTrainer(GIVEN, COUNTS, 50, 1, 4)
    restore(files, found, own)
    with pytest.raises(DamagedPartError, match="is missing; run the same command again"):
        restore(files, found, other)


def test_before_the_first_checkpoint_there_is_none(tmp_path):
    assert latest(open_files(tmp_path / "nothing"), pytest.fail) is None


KILLED = """
import os, signal, sys
from corpusgen.io.files import open_files
from tests.distiller.static.x2static.test_checkpoint import *
files = open_files(sys.argv[1])
shards = advance(new(2), 2)
save(files, shards)
advance(shards, 4)
for shard in shards[:int(sys.argv[2])]:
    write_shard(files, shard)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("written", [1, 2])
def test_a_kill_before_the_manifest_leaves_the_previous_checkpoint(tmp_path, written):
    ended = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), str(written)], capture_output=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    files = open_files(tmp_path)
    assert any(name.startswith("000000000004.") for name in names(files))
    shards = resumed(files, 3)
    assert same(shards, advance(new(1), 2))
    save(files, advance(shards, 4))
    assert not [name for name in names(files) if "of-2" in name and not name.startswith("000000000002.")]
    assert same(resumed(files, 1), advance(new(1), 4))


def test_a_kill_while_a_piece_is_written_leaves_nothing_behind(tmp_path):
    files = open_files(tmp_path)
    save(files, advance(new(1), 1))
    (tmp_path / FOLDER / ".tmp-0123456789abcdef").write_bytes(b"half")
    latest(files, pytest.fail)
    assert not [name for name in os.listdir(tmp_path / FOLDER) if name.startswith(".tmp-")]


def committed_at(files, *steps):
    shards = new(2)
    for step in steps:
        save(files, advance(shards, step))
    return shards


@pytest.mark.parametrize("kind", ["safetensors", "json"])
def test_a_damaged_checkpoint_is_replaced_by_the_one_before_it(tmp_path, kind):
    files = open_files(tmp_path)
    committed_at(files, 2, 4)
    name = next(name for name in names(files) if name.startswith("000000000004.") and name.endswith(kind))
    damage(files, name)
    said = []
    shards = resumed(files, 2, said.append)
    assert said == [
        f"{tmp_path}/checkpoints/{name} is damaged: its content no longer matches its hash; resuming from the previous "
        "checkpoint, at step 2"
    ]
    assert same(shards, advance(new(1), 2))
    save(files, advance(shards, 6))  # the damaged one must not take the place of the good one
    damage(files, next(name for name in names(files) if name.startswith("000000000006.0")))
    assert same(resumed(files, 1, said.append), advance(new(1), 2))


def test_a_missing_piece_is_damage(tmp_path):
    files = open_files(tmp_path)
    committed_at(files, 2, 4)
    files.delete(f"{FOLDER}/000000000004.1-of-2.00001.safetensors")
    said = []
    assert resumed(files, 1, said.append)[0].steps == 2
    assert "000000000004.1-of-2.00001.safetensors is missing; resuming from the previous" in said[0]


def test_without_any_good_checkpoint_the_remedy_is_named(tmp_path):
    files = open_files(tmp_path)
    committed_at(files, 2, 4)
    for name in names(files):
        damage(files, name)
    with pytest.raises(StoreError, match=f"no other checkpoint to resume from; remove {tmp_path}/checkpoints"):
        latest(files, pytest.fail)
    assert len([name for name in names(files) if name.endswith(".json")]) == 2


def test_two_checkpoints_are_kept(tmp_path):
    files = open_files(tmp_path)
    committed_at(files, 1, 2, 3, 4)
    assert {name.partition(".")[0] for name in names(files)} == {"000000000003", "000000000004"}
    assert len(names(files)) == 2 * (1 + 2 * 5)


def test_pieces_that_faster_workers_are_writing_stay(tmp_path):
    files = open_files(tmp_path)
    shards = advance(new(2), 2)
    pieces = [piece for shard in shards for piece in write_shard(files, shard)]
    at_two = described(shards, pieces)
    advance(shards, 3)
    early = write_shard(files, shards[0])
    commit(files, at_two)
    commit(files, described(shards, early + write_shard(files, shards[1])))
    assert same(resumed(files, 1), advance(new(1), 3))


def test_a_checkpoint_without_all_rows_is_refused(tmp_path):
    files = open_files(tmp_path)
    shards = advance(new(2), 1)
    half = described(shards, write_shard(files, shards[0]))
    with pytest.raises(ValueError, match="word 1 is not in exactly one piece of step 1"):
        commit(files, half)
    with pytest.raises(ValueError, match="word 0 is not in exactly one piece of step 1"):
        commit(files, replace(half, pieces=half.pieces * 2))
    assert latest(files, pytest.fail) is None


def test_a_checkpoint_of_another_vocabulary_is_refused(tmp_path):
    files = open_files(tmp_path)
    save(files, advance(new(1), 1))
    other = ShardTrainer(GIVEN, COUNTS[:-1], 50)
    with pytest.raises(ConfigError, match="has 60 words of 50 dimensions, but this training has 59 words of 50"):
        restore(files, latest(files, pytest.fail), other)


def test_all_vectors_can_be_read_piece_by_piece(tmp_path):
    files = open_files(tmp_path)
    shards = advance(new(3), 2)
    save(files, shards)
    state, _ = whole(shards)
    seen = np.zeros(VOCABULARY, bool)
    for words, rows, touches in rows_of(files, latest(files, pytest.fail).pieces):
        assert len(words) == len(touches) <= 7
        assert (rows == state[words]).all()
        seen[words] = True
    assert seen.all()
