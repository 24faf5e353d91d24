"""Which triples are held out, the order of the others, and their states from a file shared by a node's workers."""

import hashlib
import json
import multiprocessing
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count, islice

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusgen.errors import StageError
from corpusgen.io.node_cache import local_copy
from distiller.training.data import (
    EpochOrder,
    FeatureChunk,
    MappedFeatures,
    is_held_out,
    prefetched,
    rank_batches,
    rank_range,
    rank_slice,
    split,
    without_sentences_of,
)
from distiller.words.row_facts import distinct_words

IDS = st.lists(st.integers(0, 300).map(lambda number: f"sentence-{number}"), max_size=120)


# --- held-out rows ---


@given(ids=IDS, more=IDS, share=st.floats(0, 1))
def test_a_growing_corpus_moves_no_triple_between_the_sides(ids, more, share):
    before, after = is_held_out(ids, share, "s"), is_held_out(ids + more, share, "s")
    assert before.tolist() == after[: len(ids)].tolist()


@given(ids=IDS, shares=st.tuples(st.floats(0, 1), st.floats(0, 1)))
def test_a_larger_share_holds_out_the_same_and_more(ids, shares):
    smaller, larger = (is_held_out(ids, share, "s") for share in sorted(shares))
    assert not (smaller & ~larger).any()
    assert is_held_out(ids, 1.0, "s").all()
    assert not is_held_out(ids, 0.0, "s").any()


def test_the_share_is_kept_and_depends_on_the_salt():
    ids = [f"{number:016x}" for number in range(20000)]
    chosen, other = is_held_out(ids, 0.1, "a"), is_held_out(ids, 0.1, "b")
    assert chosen.mean() == pytest.approx(0.1, abs=0.01)
    assert (chosen & other).mean() == pytest.approx(0.01, abs=0.005)


def test_the_choice_is_the_same_for_text_and_bytes_and_will_always_be():
    ids = ["a", "é", "c", "d", "e", "f"]
    chosen = is_held_out(ids, 0.5, "salt").tolist()
    assert chosen == is_held_out(np.array([text.encode() for text in ids]), 0.5, "salt").tolist()
    assert chosen == [True, True, True, False, False, False]


@given(ids=IDS, more=IDS, at_most=st.integers(0, 40))
def test_a_growing_corpus_only_replaces_validation_triples(ids, more, at_most):
    small, large = split(ids, 0.5, at_most, "s"), split(ids + more, 0.5, at_most, "s")
    assert len(large.validation) <= at_most
    assert set(small.training) <= set(large.training)
    assert not set(large.training) & set(small.validation)
    old = {row for row in large.validation if row < len(ids)}
    assert old <= set(small.validation)


@given(ids=IDS, at_most=st.integers(0, 40))
def test_validation_takes_whole_sentences_in_the_order_of_their_hash(ids, at_most):
    training, validation = split(ids, 0.5, at_most, "s")
    hashes = [hashlib.blake2b(f"s\0{ids[i]}".encode(), digest_size=8).digest()[::-1] for i in validation]
    once = [found for found in hashes if hashes.count(found) == 1]
    assert once == sorted(once)
    for sentence in set(ids):
        of_sentence = [i for i in validation if ids[i] == sentence]
        assert of_sentence == sorted(of_sentence)
    everything = split(ids, 0.5, len(ids), "s")
    chosen, passed_over = {ids[i] for i in validation}, {ids[i] for i in set(everything.validation) - set(validation)}
    assert not chosen & passed_over
    assert not chosen & {ids[i] for i in training}
    assert sorted([*everything.training, *everything.validation]) == list(range(len(ids)))
    # As many sentences as there is room for: the next one would be too much, whichever it is.
    if passed_over:
        assert len(validation) + max(ids.count(sentence) for sentence in passed_over) > at_most


def test_neighbours_in_validation_are_of_different_documents():
    sizes = np.random.default_rng(0).integers(1, 9, size=60)
    ids = [f"document {number}" for number, size in enumerate(sizes) for _ in range(size)]
    held_out = [ids[row] for row in split(ids, 0.5, len(ids), "s").validation]
    assert len(held_out) > 2 * len(set(held_out))
    assert all(one != before for one, before in zip(held_out, [held_out[-1], *held_out], strict=False))


# --- the order of training ---


@given(rows=st.integers(1, 200), size=st.integers(1, 50), workers=st.integers(1, 9), seed=st.integers(0, 2**32))
def test_every_triple_comes_once_per_epoch_for_any_number_of_workers(rows, size, workers, seed):
    order = EpochOrder(rows, size, seed)
    for epoch in range(2):
        steps = range(epoch * order.steps_per_epoch, (epoch + 1) * order.steps_per_epoch)
        batches = [order.batch(step) for step in steps]
        assert sorted(np.concatenate(batches)) == list(range(rows))
        assert all(len(batch) == size for batch in batches[:-1])
        for batch in batches:
            parts = [rank_slice(batch, rank, workers) for rank in range(workers)]
            assert np.concatenate(parts).tolist() == batch.tolist()
            lengths = [len(part) for part in parts]
            assert max(lengths) - min(lengths) <= 1
            assert [len(rank_range(len(batch), rank, workers)) for rank in range(workers)] == lengths


@given(rows=st.integers(1, 100), size=st.integers(1, 20), step=st.integers(0, 60))
def test_the_order_of_a_step_needs_no_history(rows, size, step):
    through = EpochOrder(rows, size, 5)
    for earlier in range(step):
        through.batch(earlier)
    assert through.batch(step).tolist() == EpochOrder(rows, size, 5).batch(step).tolist()


def test_epochs_and_seeds_have_orders_of_their_own():
    order = EpochOrder(50, 50, 0)
    assert order.batch(0).tolist() != order.batch(1).tolist() != EpochOrder(50, 50, 1).batch(1).tolist()
    assert order.batch(1).tolist() != EpochOrder(50, 50, 1).batch(0).tolist()


@pytest.mark.parametrize(("rows", "size"), [(0, 4), (4, 0)])
def test_an_order_of_nothing_is_refused(rows, size):
    with pytest.raises(ValueError, match="rows and batch size must be positive"):
        EpochOrder(rows, size, 0)


# --- states from the local disk ---

STATES = np.random.default_rng(0).standard_normal((10, 3, 2, 4)).astype(np.float16)
SENTENCES = [f"id{i}" for i in range(9)] + ["a-longer-id-é"]


def chunks():
    for start, stop in ((0, 4), (4, 7), (7, 7), (7, 10)):
        yield FeatureChunk(SENTENCES[start:stop], STATES[start:stop])


def forbidden():
    raise AssertionError("the copy should have been used")


def all_rows(features):
    return features.batch(np.arange(len(features)), torch.float16).numpy().swapaxes(0, 1)


def test_the_copy_has_all_rows_and_ids_in_order(tmp_path):
    features = MappedFeatures.open(tmp_path / "new" / "folder", "abc", chunks)
    assert (len(features), features.layers, features.dimension) == (10, 2, 4)
    assert np.array_equal(all_rows(features), STATES)
    assert [sentence.decode() for sentence in features.ids] == SENTENCES


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_a_batch_has_the_wanted_rows_by_member(tmp_path, dtype):
    features = MappedFeatures.open(tmp_path, "abc", chunks)
    batch = features.batch(np.array([7, 0, 7]), dtype)
    assert batch.dtype == dtype
    assert batch.is_contiguous()
    assert torch.equal(batch, torch.from_numpy(STATES[[7, 0, 7]].swapaxes(0, 1).copy()).to(dtype))
    assert features.batch(np.empty(0, np.int64)).shape == (3, 0, 2, 4)


def test_a_finished_copy_is_used_again_and_other_features_get_their_own(tmp_path):
    MappedFeatures.open(tmp_path, "abc", chunks)
    assert np.array_equal(all_rows(MappedFeatures.open(tmp_path, "abc", forbidden)), STATES)
    other = MappedFeatures.open(tmp_path, "abd", lambda: [FeatureChunk(SENTENCES, -STATES)])
    assert np.array_equal(all_rows(other), -STATES)
    assert np.array_equal(all_rows(MappedFeatures.open(tmp_path, "abc", forbidden)), STATES)


def flip_bit(path, index=-3):
    data = bytearray(path.read_bytes())
    data[index] ^= 1
    path.write_bytes(data)


def without_hashes(path):
    """As an earlier version wrote it."""
    described = json.loads(path.read_text())
    del described["sha256"]
    path.write_text(json.dumps(described))


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("states.f16", lambda path: os.truncate(path, 100)),
        ("states.f16", lambda path: path.unlink()),
        ("ids.npy", lambda path: path.unlink()),
        ("complete.json", lambda path: path.unlink()),
        ("complete.json", lambda path: path.write_text('{"of')),
        ("complete.json", lambda path: path.write_text(path.read_text().replace("abc", "abx"))),
        ("facts.npy", lambda path: path.unlink()),
        *((file, flip_bit) for file in ("ids.npy", "facts.npy", "shape.json", "checksums.npy", "complete.json")),
        ("complete.json", lambda path: path.write_text("[]")),
        ("complete.json", without_hashes),
    ],
)
def test_a_damaged_copy_is_made_again(tmp_path, file, damage):
    MappedFeatures.open(tmp_path, "abc", lambda: [FeatureChunk(SENTENCES, -STATES)])
    damage(next(tmp_path.glob(f"*/{file}")))
    assert np.array_equal(all_rows(MappedFeatures.open(tmp_path, "abc", chunks)), STATES)


@pytest.mark.parametrize("row", [0, 4, 9])
def test_no_damaged_row_is_ever_given_and_the_copy_is_made_again(tmp_path, row):
    features = MappedFeatures.open(tmp_path, "abc", chunks)
    others = np.array([other for other in range(10) if other != row])
    flip_bit(next(tmp_path.glob("*/states.f16")), row * STATES[0].nbytes + 17)
    assert torch.equal(features.batch(others, torch.float16)[0], torch.from_numpy(STATES[others, 0]))
    with pytest.raises(StageError) as refused:
        all_rows(features)
    message = str(refused.value)
    assert f"copy of the layer states is damaged, for example in row {row}" in message
    assert str(next(tmp_path.glob("*/states.f16")).parent) in message
    assert "setting `cache`" in message
    assert np.array_equal(all_rows(MappedFeatures.open(tmp_path, "abc", chunks)), STATES)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_features_that_are_no_numbers_are_refused_with_their_sentence(tmp_path, value):
    states = STATES.copy()
    states[6, 1, 0, 3] = value
    with pytest.raises(StageError, match=r"sentence or document 'id6' are NaN or infinite.*run this again"):
        MappedFeatures.open(tmp_path, "abc", lambda: [FeatureChunk(SENTENCES, states)])
    assert not list(tmp_path.glob("*/complete.json"))


def test_workers_of_a_node_wait_for_the_one_that_copies(tmp_path):
    calls = count()

    def slow_chunks():
        next(calls)
        for chunk in chunks():
            time.sleep(0.02)
            yield chunk

    with ThreadPoolExecutor(6) as pool:  # locks hold between openings of a file, be they in one process or in many
        opened = list(pool.map(lambda _: MappedFeatures.open(tmp_path, "abc", slow_chunks), range(6)))
    assert next(calls) == 1
    assert all(np.array_equal(all_rows(features), STATES) for features in opened)


def test_a_killed_copier_leaves_nothing_that_is_taken_for_real(tmp_path):
    def killed_on_the_way():
        yield from islice(chunks(), 2)
        os.kill(os.getpid(), signal.SIGKILL)

    process = multiprocessing.get_context("fork").Process(
        target=MappedFeatures.open, args=(tmp_path, "abc", killed_on_the_way)
    )
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert list(tmp_path.glob("*/states.f16"))  # it really died in the middle
    assert not list(tmp_path.glob("*/complete.json"))
    assert np.array_equal(all_rows(MappedFeatures.open(tmp_path, "abc", chunks)), STATES)


def test_an_error_of_the_source_leaves_no_copy(tmp_path):
    def failing():
        yield from islice(chunks(), 1)
        raise OSError("the network is gone")

    with pytest.raises(OSError, match="network"):
        MappedFeatures.open(tmp_path, "abc", failing)
    assert [path.suffix for path in tmp_path.iterdir()] == [".lock"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs the device that is always full")
def test_a_full_disk_is_named_with_a_remedy(tmp_path):
    def full(folder):
        with open("/dev/full", "wb") as file:
            file.write(STATES.data)

    with pytest.raises(StageError, match=r"no room in .*larger local disk"):
        local_copy(tmp_path, "abc", full)
    assert np.array_equal(all_rows(MappedFeatures.open(tmp_path, "abc", chunks)), STATES)


def test_copies_that_nobody_uses_make_way_for_a_new_one(tmp_path):
    def elsewhere(name):
        process = multiprocessing.get_context("fork").Process(target=MappedFeatures.open, args=(tmp_path, name, chunks))
        process.start()
        process.join()
        assert process.exitcode == 0

    used = MappedFeatures.open(tmp_path, "used", chunks)
    elsewhere("unused")
    assert len(list(tmp_path.glob("*/complete.json"))) == 2
    elsewhere("new")
    assert len(list(tmp_path.glob("*/complete.json"))) == 2
    assert np.array_equal(all_rows(MappedFeatures.open(tmp_path, "used", forbidden)), all_rows(used))


def test_what_else_lies_in_the_folder_is_never_touched(tmp_path):
    others = [tmp_path / name for name in ("thesis", "0123456789abcdef")]
    for folder in others:
        folder.mkdir()
        (folder / "complete.json").write_text("{}")
    (tmp_path / "thesis.lock").touch()
    (tmp_path / "thesis.used").touch()
    MappedFeatures.open(tmp_path, "abc", chunks)
    assert all((folder / "complete.json").exists() for folder in others)


def test_features_without_rows_are_refused(tmp_path):
    with pytest.raises(StageError, match="no rows"):
        MappedFeatures.open(tmp_path, "abc", lambda: [FeatureChunk([], STATES[:0])])


@pytest.mark.parametrize(
    "wrong",
    [
        FeatureChunk(SENTENCES[:3], STATES[:2]),
        FeatureChunk(SENTENCES[:2], STATES[:2].astype(np.float32)),
        FeatureChunk(SENTENCES[:2], STATES[:2, :, :1]),
    ],
)
def test_chunks_that_do_not_fit_together_are_refused(tmp_path, wrong):
    with pytest.raises(ValueError, match="must be float16"):
        MappedFeatures.open(tmp_path, "abc", lambda: [FeatureChunk(SENTENCES[:1], STATES[:1]), wrong])
    assert not list(tmp_path.glob("*/*.json"))


# --- what a worker gets ---


@settings(deadline=None, max_examples=30)
@given(workers=st.integers(1, 4), first_step=st.integers(0, 9), size=st.integers(1, 8))
def test_workers_together_get_the_batches_of_one_from_any_step_on(tmp_path_factory, workers, first_step, size):
    features = MappedFeatures.open(tmp_path_factory.getbasetemp() / "shared", "abc", chunks)
    rows = np.array([9, 1, 2, 5, 7, 8])
    order = EpochOrder(len(rows), size, 3)
    streams = [
        rank_batches(features, rows, order, first_step=first_step, rank=rank, workers=workers)
        for rank in range(workers)
    ]
    for step, parts in zip(range(first_step, first_step + 6), zip(*streams, strict=True), strict=False):
        wanted = rows[order.batch(step)]
        assert torch.equal(torch.cat([part.states for part in parts], 1), features.batch(wanted))
        assert {(part.step, part.size) for part in parts} == {(step, len(wanted))}
        ends = np.cumsum([part.states.shape[1] for part in parts])
        assert [part.first_row for part in parts] == [0, *ends[:-1]]


def prefetch_threads():
    return [thread for thread in threading.enumerate() if thread.name == "prefetch"]


@given(items=st.lists(st.integers(), max_size=20), depth=st.integers(1, 5))
def test_prefetching_changes_nothing(items, depth):
    assert list(prefetched(items, depth)) == items
    assert not prefetch_threads()


@pytest.mark.parametrize("taken", [1, 3])
@pytest.mark.parametrize("depth", [1, 4])
def test_prefetching_stays_within_its_depth_and_ends_with_its_consumer(depth, taken):
    made = []

    def endless():
        for number in count():
            made.append(number)
            yield number

    stream = prefetched(endless(), depth)
    assert list(islice(stream, taken)) == list(range(taken))
    deadline = time.monotonic() + 10
    while len(made) < taken + depth and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(0.02)  # time in which it could go too far
    assert len(made) == taken + depth
    stream.close()
    assert not prefetch_threads()


def test_prefetching_stops_when_the_consumer_breaks_off():
    for number in prefetched(count()):
        if number == 5:
            break
    assert not prefetch_threads()


def test_an_error_while_prefetching_reaches_the_consumer_after_the_items_before_it():
    def failing():
        yield 1
        raise StageError("disk gone")

    stream = prefetched(failing())
    assert next(stream) == 1
    with pytest.raises(StageError, match="disk gone"):
        next(stream)
    assert not prefetch_threads()


@given(
    sentences=st.lists(st.lists(st.integers(0, 12), min_size=3, max_size=3), min_size=1, max_size=20),
    held_out=st.sets(st.integers(0, 19)),
)
def test_no_sentence_of_a_held_out_row_is_trained_on(sentences, held_out):
    facts = distinct_words(len(sentences))
    facts["sentences"] = 0
    facts["sentences"][:, :3] = sentences
    chosen = np.array(sorted(row for row in held_out if row < len(sentences)), np.int64)
    others = np.setdiff1d(np.arange(len(sentences)), chosen)
    rows, cleared = without_sentences_of(chosen, others, facts, [False, False, True])
    forbidden = {key for row in chosen for key in sentences[row]} - {0}
    for row, keys in enumerate(sentences):
        free = not forbidden & set(keys[:2])
        assert (row in rows) == (row in others and free)
        if row in others:
            assert bool(cleared["present"][row] & 0b100) == (keys[2] not in forbidden)
    assert (cleared["present"] | 0b100 == facts["present"]).all()
    assert np.array_equal(cleared[chosen]["present"], facts[chosen]["present"])
    assert (facts["present"] == 255).all()  # the source keeps its own
