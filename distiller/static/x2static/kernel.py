"""The loops of X2Static, compiled by numba.

All of them are in this file, because numba's cache only notices changes of the file that a function is in. None holds
the GIL, so threads can run them side by side.

Shapes: V words, R rows of a shard, D dimensions, B sentences of a batch, T candidates in them, N targets, K negatives
per target, E entries of a shard.

A *shard* of `workers` has the words `rank`, `rank + workers`, `rank + 2·workers`, … as its rows 0, 1, 2, … A row's
*state* (3, D) is its vector and Adam's two moments, side by side in memory. An *entry* is one use of a row in a batch,
`row << 32 | place`: place p of a batch is column p % (1 + K) of target p // (1 + K), where column 0 is the target
itself and the others are its negatives.

Results do not depend on the number of shards. What is computed for a row depends on the row and on the batch alone,
its entries come in the order of their places, and the same machine code does it whichever shard has the row. That holds
for the dot product too, the only function in which the compiler may reorder a sum: it does so once, for all rows.
Without that it would take a fifth longer. All else is element by element, and vectorises with strict arithmetic. So
results may differ in the last bit between kinds of processors, but not between numbers of workers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from corpusgen.io.hashing import seeded_hashes

LOSS_UNIT = 2.0**-32
"""Losses are summed as whole multiples of this, so that the order of a sum does not matter."""

CLAMP = 20.0
"""Dot products are clamped to ± this; beyond it there is no gradient."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_LOW = np.uint64(0xFFFFFFFF)
_ROW_BITS = np.uint64(32)
_DIGIT_BITS = 11  # of a radix sort: a table of 2,048 counts stays in the first cache
_LINE = 16  # numbers in a cache line
_FEISTEL_ROUNDS = 8

Function = TypeVar("Function", bound=Callable[..., Any])


def _compiled(function: Function, **more: Any) -> Function:
    """Compile a function; keep the result for other processes if there is a folder to keep it in."""
    # Divisions by zero give infinity as in numpy: a check for them would keep loops from being vectorised.
    options = {"nogil": True, "error_model": "numpy", **more}
    try:
        compiled: Function = njit(cache=True, **options)(function)
    except RuntimeError:  # neither this folder nor the user's cache can be written to
        compiled = njit(**options)(function)
    return compiled


def _compiled_sum(function: Function) -> Function:
    """Compile a function whose sum may be made of several partial sums, and of products that are not rounded."""
    return _compiled(function, fastmath={"reassoc", "contract"})


# ------------------------------------------------------------- random numbers


def stream_key(seed: int, purpose: bytes, epoch: int = 0) -> np.uint64:
    """Return the key of a stream of random numbers, the same on every machine and in every process."""
    key: np.uint64 = seeded_hashes([epoch], seed, purpose)[0]
    return key


@_compiled
def _hash(key: np.uint64, counter: int) -> np.uint64:
    """Return number `counter` of the stream `key`: SplitMix64, which can begin anywhere."""
    x = key + _GOLDEN * np.uint64(counter)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@_compiled
def _uniform(key: np.uint64, counter: int) -> float:
    """Return a number from 0 to below 1."""
    return np.float64(_hash(key, counter) >> np.uint64(11)) * 2.0**-53


@_compiled
def _signed(number: np.uint64) -> int:
    """Return a number below 2⁶³ as numba's usual integer: it would turn sums of both kinds into floats."""
    return np.int64(number)  # type: ignore[return-value]


@_compiled
def permuted(start: int, stop: int, size: int, key: np.uint64) -> NDArray[np.int64]:
    """Return places start … stop of a random permutation of `size` numbers, of which nothing else is computed.

    A Feistel network permutes the numbers of the next even count of bits. Those not below `size` are permuted again.
    """
    half = 1
    while 1 << (2 * half) < size:
        half += 1
    mask = (1 << half) - 1
    found = np.empty(stop - start, np.int64)
    for index in range(stop - start):
        number = size
        place = start + index
        while number >= size:
            left, right = place >> half, place & mask
            for turn in range(_FEISTEL_ROUNDS):
                left, right = right, left ^ (_signed(_hash(key, turn << 40 | right) >> np.uint64(1)) & mask)
            number = place = left << half | right
        found[index] = number
    return found


@_compiled
def set_initial(state: NDArray[np.float32], rank: int, workers: int, key: np.uint64) -> None:
    """Set the vectors of a shard's state (R, 3, D) to uniform(−1/D, 1/D), and Adam's moments to zero."""
    rows, _, dimension = state.shape
    for row in range(rows):
        first = (rank + row * workers) * dimension
        for d in range(dimension):
            state[row, 0, d] = (2.0 * _uniform(key, first + d) - 1.0) / dimension
            state[row, 1, d] = 0.0
            state[row, 2, d] = 0.0


# ------------------------------------------------------ targets and negatives


@_compiled
def alias_table(weights: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Return shares (V,) and other words (V,) from which one number draws a word in proportion to its weight (V,).

    Walker's alias method, as Vose builds the table: a place has the word of that number and at most one other.
    """
    size = len(weights)
    share = weights * (size / weights.sum())
    other = np.arange(size).astype(np.int32)
    small, large = np.empty(size, np.int64), np.empty(size, np.int64)
    smalls = larges = 0
    for word in range(size):
        if share[word] < 1.0:
            small[smalls] = word
            smalls += 1
        else:
            large[larges] = word
            larges += 1
    while smalls and larges:
        smalls -= 1
        poor, rich = small[smalls], large[larges - 1]
        other[poor] = rich
        share[rich] -= 1.0 - share[poor]
        if share[rich] < 1.0:
            larges -= 1
            small[smalls] = rich
            smalls += 1
    for index in range(smalls):  # what is left of either kind would have a share of 1 but for rounding
        share[small[index]] = 1.0
    for index in range(larges):
        share[large[index]] = 1.0
    return share, other


@_compiled
def kept_candidates(
    tokens: NDArray[np.int32], places: NDArray[np.int64], probability: NDArray[np.float64], key: np.uint64
) -> NDArray[np.int64]:
    """Return which candidates (T,) are targets, (N,): each is with the probability (V,) of its word."""
    kept = np.empty(len(tokens), np.int64)
    count = 0
    for index in range(len(tokens)):
        if _uniform(key, places[index]) < probability[tokens[index]]:
            kept[count] = index
            count += 1
    return kept[:count].copy()


@_compiled
def with_negatives(
    targets: NDArray[np.int32],
    places: NDArray[np.int64],
    share: NDArray[np.float64],
    other: NDArray[np.int32],
    negatives: int,
    key: np.uint64,
) -> NDArray[np.int32]:
    """Return targets (N,) with K negatives each, (N, 1 + K), drawn from an alias table (V,), (V,)."""
    size = len(share)
    words = np.empty((len(targets), 1 + negatives), np.int32)
    for index in range(len(targets)):
        words[index, 0] = targets[index]
        first = places[index] * negatives
        for k in range(negatives):
            where = _uniform(key, first + k) * size  # it cannot be rounded up to `size`
            word = int(where)
            words[index, 1 + k] = word if where - word < share[word] else other[word]
    return words


@_compiled
def sorted_entries(words: NDArray[np.int32], rank: int, workers: int, rows: int) -> NDArray[np.uint64]:
    """Return a shard's entries (E,) among the words (N, 1 + K), by row and then by place."""
    entries = np.empty(words.size, np.uint64)
    flat = words.ravel()
    count = 0
    for place in range(len(flat)):
        word = flat[place]
        if word % workers == rank:
            entries[count] = np.uint64(word // workers) << _ROW_BITS | np.uint64(place)
            count += 1
    entries = entries[:count]
    # A radix sort by row, from the lowest digit; each pass keeps the order of equal digits.
    moved = np.empty_like(entries)
    shift = 0
    while max(rows - 1, 0) >> shift:
        starts = np.zeros((1 << _DIGIT_BITS) + 1, np.int64)
        for entry in entries:
            starts[_digit(entry, shift) + 1] += 1
        starts = np.cumsum(starts)
        for entry in entries:
            digit = _digit(entry, shift)
            moved[starts[digit]] = entry
            starts[digit] += 1
        entries, moved = moved, entries
        shift += _DIGIT_BITS
    return entries


@_compiled
def _digit(entry: np.uint64, shift: int) -> int:
    return _signed(entry >> (_ROW_BITS + np.uint64(shift))) & ((1 << _DIGIT_BITS) - 1)


# ----------------------------------------------------------------------- step


def _prefetch_code(typing_context: Any, state: Any, row: Any, number: Any) -> Any:
    """Ask the processor for the cache line of one of a row's 3·D numbers, without waiting for it."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        indices = [arguments[1], arguments[1].type(0), arguments[2]]
        item = cgutils.get_item_pointer(context, builder, signature.args[0], array, indices)
        pointer, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, flag, flag, flag])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
        # To the second cache, for reading. Asked for writing, it goes to the first, and a step takes a fifth longer.
        builder.call(prefetch, [builder.bitcast(item, pointer), flag(0), flag(2), flag(1)])
        return context.get_dummy_value()

    return types.void(state, row, number), code


_prefetch: Any = intrinsic(_prefetch_code)


@_compiled_sum
def _dot(a: NDArray[np.float32], b: NDArray[np.float32]) -> np.float32:
    """Return a · b of (D,) and (D,)."""
    total = np.float32(0)
    for d in range(len(a)):
        total += a[d] * b[d]
    return total


@_compiled
def _adam(
    state: NDArray[np.float32],
    row: int,
    next_row: int,
    gradient: NDArray[np.float32],
    size: np.float32,
    rest1: np.float32,
    rest2: np.float32,
    epsilon: np.float32,
) -> None:
    """Let a row's gradient (D,) move its state (3, D), and fetch the state of the next row meanwhile.

    `rest1` and `rest2` are 1 − β₁ and 1 − β₂, `size` is the learning rate with the bias correction.
    """
    own = state[row]
    whole = len(gradient) // _LINE * _LINE
    for first in range(0, whole, _LINE):
        for line in range(3):  # all of the next vector before its moments: it is needed first
            _prefetch(state, next_row, 3 * first + line * _LINE)
        for j in range(_LINE):  # a constant number of turns: they become vector instructions
            _move(own[0], own[1], own[2], gradient, first + j, size, rest1, rest2, epsilon)
    for d in range(whole, len(gradient)):
        _move(own[0], own[1], own[2], gradient, d, size, rest1, rest2, epsilon)


@_compiled
def _move(
    vector: NDArray[np.float32],
    mean: NDArray[np.float32],
    square: NDArray[np.float32],
    gradient: NDArray[np.float32],
    d: int,
    size: np.float32,
    rest1: np.float32,
    rest2: np.float32,
    epsilon: np.float32,
) -> None:
    """Make an Adam step in one dimension; operations and their order are those of torch's SparseAdam."""
    mean[d] += (gradient[d] - mean[d]) * rest1
    square[d] += (gradient[d] * gradient[d] - square[d]) * rest2
    vector[d] -= size * (mean[d] / (np.sqrt(square[d]) + epsilon))


@_compiled
def step_size(step: int, learning_rate: float, beta1: float, beta2: float) -> np.float32:
    """Return Adam's learning rate with the bias correction of a step, counted from one."""
    return np.float32(learning_rate * math.sqrt(1.0 - beta2**step) / (1.0 - beta1**step))


@_compiled
def train_rows(
    entries: NDArray[np.uint64],
    sentence: NDArray[np.int32],
    contexts: NDArray[np.float32],
    state: NDArray[np.float32],
    touches: NDArray[np.int32],
    per_target: int,
    step: int,
    by_row: bool,
    learning_rate: float,
    beta1: float,
    beta2: float,
    epsilon: float,
) -> tuple[int, int]:
    """Train the rows of sorted entries (E,); return the losses of targets and of negatives in LOSS_UNIT.

    `sentence` (N,) has the context of each target among `contexts` (B, D). `state` (R, 3, D) and `touches` (R,), the
    number of steps that touched each row, are the shard's. `per_target` is 1 + K; `step` counts from one. A row is in
    cache while its dot products, its gradient and its Adam step are computed.
    """
    dimension = contexts.shape[1]
    gradient = np.empty(dimension, np.float32)
    rest1, rest2, added = np.float32(1.0 - beta1), np.float32(1.0 - beta2), np.float32(epsilon)
    size = step_size(step, learning_rate, beta1, beta2)
    loss_of_targets = loss_of_negatives = 0
    index = 0
    while index < len(entries):
        row = _signed(entries[index] >> _ROW_BITS)
        vector = state[row, 0]
        first = index
        while index < len(entries) and _signed(entries[index] >> _ROW_BITS) == row:
            place = _signed(entries[index] & _LOW)
            context = contexts[sentence[place // per_target]]
            is_target = place % per_target == 0
            # ℓ(x) of a target, ℓ(−x) of a negative; both ℓ and its derivative −σ(−x) from e^−|x|, which is at most 1
            x = np.float64(_dot(vector, context))
            x = x if is_target else -x
            clamped = min(max(x, -CLAMP), CLAMP)
            power = math.exp(-abs(clamped))
            loss = int((math.log(1.0 + power) + max(-clamped, 0.0)) / LOSS_UNIT + 0.5)
            if is_target:
                loss_of_targets += loss
            else:
                loss_of_negatives += loss
            slope = (power if x > 0.0 else 1.0) / (1.0 + power) / len(sentence) if clamped == x else 0.0
            weight = np.float32(-slope if is_target else slope)
            if index == first:
                for d in range(dimension):
                    gradient[d] = weight * context[d]
            else:
                for d in range(dimension):
                    gradient[d] += weight * context[d]
            index += 1
        touches[row] += 1
        if by_row:
            size = step_size(touches[row], learning_rate, beta1, beta2)
        next_row = _signed(entries[index] >> _ROW_BITS) if index < len(entries) else row
        _adam(state, row, next_row, gradient, size, rest1, rest2, added)
    return loss_of_targets, loss_of_negatives
