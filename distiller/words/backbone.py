"""The frozen model: what its layers say of a word where it stands.

Shapes: P pieces (sub-words), L layers, d the model's dimension.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from corpusgen.errors import ConfigError, StageError
from corpusgen.models.batches import ENCODER_TOKENS, padded_batches, run_or_halve, tokens_in_a_batch
from corpusgen.models.encoders import (
    choose_device,
    choose_dtype,
    explained_loading,
    load_encoder,
    longest_input,
    model_path,
    on_device,
    padded,
)
from corpusgen.models.identity import confirmed
from distiller.settings import BackboneSettings

OUTSIDE = "span is empty or outside the text"
NO_PIECE = "word has no word piece"
TOO_LONG = "word is longer than the model's input"

_TEXTS_AT_ONCE = 1000  # encodings are large objects: keep few of them
_WHOLE_TEXTS_AT_ONCE = 128  # and the states of all pieces of a text larger ones still

States = npt.NDArray[np.float32]
Pieces = tuple[int, ...]


class Shape(NamedTuple):
    """What a backbone says of a word: so many numbers for each of these layers."""

    layers: range
    dimension: int


@cache
def _use_one_thread_in_forks() -> None:
    """Have torch work on in processes that are forked from this one, as those of data loaders and web servers are.

    Its OpenMP threads do not live on there, and what would wait for them waits forever. Nobody waits for a single one.
    """
    os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))


def shape_of(settings: BackboneSettings) -> Shape:
    """The shape of a word's states, from the model's configuration: its weights are not loaded."""
    from transformers import AutoConfig

    path = model_path(settings.model, "backbone")
    with explained_loading(settings.model, "backbone"):
        config = AutoConfig.from_pretrained(path, revision=settings.revision)
    return _shape(config, settings)


def confirmed_backbone(settings: BackboneSettings, recorded: Mapping[str, Any]) -> BackboneSettings:
    """The settings with the place of the model on this machine; StageError if it is not the one recorded."""
    model, revision = confirmed(settings.model, settings.revision, recorded)
    return settings.model_copy(update={"model": model, "revision": revision})


class Backbone:
    """Any `AutoModel` encoder, from the hub or a folder, frozen.

    By default it gives the top half of the layers: k…ℓ with k = ℓ/2 + 1. `batch_tokens` bounds a batch, padding
    counted. `device` "auto" is a GPU if there is one. The same texts give the same bits in any order; in other company
    they are batched otherwise, and states may differ in the last digits.
    """

    def __init__(self, settings: BackboneSettings, device: str = "auto", threads: int | None = None) -> None:
        if threads:
            torch.set_num_threads(threads)
        _use_one_thread_in_forks()
        self.settings = settings
        self._name = settings.model
        self._device = choose_device(device)
        self._tokenizer, self._model = _load(settings, choose_dtype(settings.dtype, self.device))
        self._model.requires_grad_(False).to(self.device).eval()
        self.layers, self.dimension = _shape(self._model.config, settings)
        self._depth: int = self._model.config.num_hidden_layers
        self._backend = self._tokenizer.backend_tokenizer
        self._backend.no_truncation()  # a tokenizer file may hold settings of the training: the window is ours
        self._backend.no_padding()
        self._longest = longest_input(self._tokenizer, self._model)
        self._batch_tokens = tokens_in_a_batch(settings.batch_tokens, ENCODER_TOKENS, self.device.type)

    @property
    def device(self) -> torch.device:
        """Where it runs; StageError in a fork of the process that put it on a GPU, where no fork can use it."""
        if self._device.type == "cuda" and torch.cuda._is_in_bad_fork():
            raise StageError(
                f"{self._name} was put on a GPU before this process was forked, and CUDA does not work in forks: load "
                'the model in the new process, start that by "spawn" instead of "fork", or load it with device="cpu"'
            )
        return self._device

    @property
    def encoder(self) -> torch.nn.Module:
        """The frozen model itself."""
        encoder: torch.nn.Module = self._model
        return encoder

    def states(
        self, texts: Sequence[str], spans: Sequence[tuple[int, int]], batch_size: int | None = None
    ) -> tuple[npt.NDArray[np.float32], list[str | None]]:
        """The states (n, L, d) of the word at each text's span of characters: the mean of its pieces'.

        Its pieces are those that share a character with the span. An item that has no states is zero and has a reason,
        one of the constants of this module. A text too long for the model is cut to a window around the word.
        """
        reasons: list[str | None] = [None] * len(texts)
        words: dict[Pieces, list[tuple[int, int, int]]] = {}  # of each input: item, first and last piece
        for item, word in self._words(texts, spans):
            if isinstance(word, str):
                reasons[item] = word
            else:
                ids, first, last = word
                words.setdefault(ids, []).append((item, first, last))
        states = np.zeros((len(texts), len(self.layers), self.dimension), np.float32)
        wanted = {ids: [p for _, first, last in of for p in range(first, last + 1)] for ids, of in words.items()}
        for ids, of_pieces in self._run(wanted, batch_size):
            items, firsts, lasts = np.array(words[ids]).T
            counts = lasts + 1 - firsts
            sums = np.add.reduceat(of_pieces, np.cumsum(counts) - counts, axis=0)
            states[items] = sums / counts[:, None, None].astype(np.float32)
        return states, reasons

    def reasons(self, texts: Sequence[str], spans: Sequence[tuple[int, int]]) -> list[str | None]:
        """Why each word has no states, None if it has: what `states` says of it, without running the model."""
        reasons: list[str | None] = [None] * len(texts)
        for item, word in self._words(texts, spans):
            reasons[item] = word if isinstance(word, str) else None
        return reasons

    def piece_states(self, texts: Sequence[str]) -> Iterator[States]:
        """For each text the states (P, L, d) of all its pieces, special tokens left out.

        A text too long for the model is read in stretches, each by itself.
        """
        for start in range(0, len(texts), _WHOLE_TEXTS_AT_ONCE):
            some = texts[start : start + _WHOLE_TEXTS_AT_ONCE]
            stretches = [list(self._stretches(encoding)) for encoding in self._encoded(some)]
            states = dict(self._run({ids: places for text in stretches for ids, places in text}))
            nothing = np.zeros((0, len(self.layers), self.dimension), np.float32)
            for text in stretches:
                yield np.concatenate([nothing, *(states[ids] for ids, _ in text)])

    # ------------------------------------------------------- from text to pieces

    def _encoded(self, texts: Sequence[str]) -> Iterator[Any]:
        for start in range(0, len(texts), _TEXTS_AT_ONCE):
            yield from self._backend.encode_batch(list(texts[start : start + _TEXTS_AT_ONCE]))

    def _words(
        self, texts: Sequence[str], spans: Sequence[tuple[int, int]]
    ) -> Iterator[tuple[int, tuple[Pieces, int, int] | str]]:
        """Of each item, text by text, its number and what `_find` says of it. A text is tokenised once."""
        if len(spans) != len(texts):
            raise ValueError(f"{len(texts)} texts, but {len(spans)} spans")
        items_of: dict[str, list[int]] = {}
        for item, text in enumerate(texts):
            items_of.setdefault(text, []).append(item)
        for (text, items), encoding in zip(items_of.items(), self._encoded(list(items_of)), strict=True):
            read = _ReadText(text, encoding)
            yield from ((item, self._find(read, spans[item])) for item in items)

    def _find(self, read: _ReadText, span: tuple[int, int]) -> tuple[Pieces, int, int] | str:
        """What the model is to read, and in it the first and the last piece of the word; or the reason why not."""
        if not 0 <= span[0] < span[1] <= len(read.text):
            return OUTSIDE
        found = read.pieces_at(*span)
        if found is None:
            return NO_PIECE
        first, last = found
        ids = read.ids
        if len(ids) <= self._longest:
            return ids, first, last
        head, tail = read.ends
        room = self._longest - head - tail
        if last + 1 - first > room:
            return TOO_LONG
        middle = (first + last + 1) // 2 - head
        begin = min(max(middle - room // 2, 0), len(ids) - head - tail - room)
        window = (*ids[:head], *ids[head + begin : head + begin + room], *ids[len(ids) - tail :])
        return window, first - begin, last - begin

    def _stretches(self, encoding: Any) -> Iterator[tuple[Pieces, range]]:
        """All of a text in inputs that the model takes, and the places of the text's pieces in them."""
        ids = encoding.ids
        head, tail = _ends(encoding)
        room = self._longest - head - tail
        for begin in range(head, len(ids) - tail, room):
            body = ids[begin : min(begin + room, len(ids) - tail)]
            yield (*ids[:head], *body, *ids[len(ids) - tail :]), range(head, head + len(body))

    # ----------------------------------------------------- from pieces to states

    def _run(
        self, wanted: Mapping[Pieces, Sequence[int]], batch_size: int | None = None
    ) -> Iterator[tuple[Pieces, States]]:
        """The states (P, L, d) at the wanted places of each input, in an order of our own."""
        # By content too: then the batches, and with them the last bits, do not depend on the order of the texts.
        order = sorted(wanted, key=lambda ids: (len(ids), ids))
        for some in padded_batches([len(pieces) for pieces in order], self._batch_tokens, batch_size):
            batch = [(order[index], wanted[order[index]]) for index in some]
            yield from zip((ids for ids, _ in batch), run_or_halve(self._hidden, batch, self._name), strict=True)

    def _hidden(self, batch: list[tuple[Pieces, Sequence[int]]]) -> list[States]:
        inputs = padded([ids for ids, _ in batch], self._tokenizer.pad_token_id or 0, self.device)
        counts = [len(places) for _, places in batch]
        rows = on_device(np.repeat(np.arange(len(batch)), counts), self.device)
        columns = on_device(np.concatenate([places for _, places in batch]), self.device)
        states = self._states_at(inputs, rows, columns).cpu().numpy()  # until here nothing has waited for the device
        if not np.isfinite(states).all():
            raise StageError(
                f"{self._name} gives NaN or infinite states in {self._model.dtype}: use dtype float32, or bfloat16 on "
                "a GPU; if that is what you use, the weights are damaged"
            )
        return np.split(states, np.cumsum(counts)[:-1])

    @torch.inference_mode()
    def _states_at(self, inputs: dict[str, torch.Tensor], rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
        """The states (P, L, d) at some places of a batch, on the device."""
        hidden = self._model(**inputs, output_hidden_states=True).hidden_states
        if hidden is None or len(hidden) != self._depth + 1:
            raise StageError(
                f"{self._name}: {type(self._model).__name__} does not give the states of its {self._depth} layers; "
                "take an encoder of the family of BERT"
            )
        return torch.stack([hidden[layer][rows, columns].float() for layer in self.layers], dim=1)


class _ReadText:
    """A text as its tokenizer reads it, ready to be asked for the pieces of many words."""

    def __init__(self, text: str, encoding: Any) -> None:
        self.text = text
        self.ids: Pieces = tuple(encoding.ids)
        self.ends = _ends(encoding)
        # Pieces without a character, such as special tokens at (0, 0), are not to be found: they begin last, end first.
        places = [(start, end) if start < end else (len(text), 0) for start, end in encoding.offsets]
        self._ends_so_far = list(accumulate((end for _, end in places), max))
        self._starts_from_here = list(accumulate((start for start, _ in reversed(places)), min))[::-1]

    def pieces_at(self, start: int, end: int) -> tuple[int, int] | None:
        """The first and the last piece that share a character with a span; None if none does."""
        surface = self.text[start:end].strip()  # the offsets of many tokenizers give a space to the word that follows
        start = self.text.index(surface, start)
        first = bisect_right(self._ends_so_far, start)
        last = bisect_left(self._starts_from_here, start + len(surface)) - 1
        return (first, last) if surface and first <= last else None


def _ends(encoding: Any) -> tuple[int, int]:
    """How many special tokens the tokenizer puts before and after a text."""
    special = encoding.special_tokens_mask
    if all(special):
        return len(special), 0
    return special.index(0), special[::-1].index(0)


def _shape(config: Any, settings: BackboneSettings) -> Shape:
    depth, dimension = (getattr(config, name, None) for name in ("num_hidden_layers", "hidden_size"))
    if not depth or not dimension or getattr(config, "is_encoder_decoder", False):
        raise ConfigError(f"backbone.model: {settings.model} ({config.model_type}) is not an encoder like BERT")
    first = depth // 2 + 1 if settings.first_layer is None else settings.first_layer
    last = depth if settings.last_layer is None else settings.last_layer
    if not first <= last <= depth:
        raise ConfigError(
            f"backbone: layers {first} to {last} of {settings.model}, which has {depth}: "
            f"choose 0 <= first_layer <= last_layer <= {depth}"
        )
    return Shape(range(first, last + 1), dimension)


def _load(settings: BackboneSettings, dtype: torch.dtype) -> tuple[Any, Any]:
    """Tokenizer and model, or an error that says what is wrong with them."""
    from transformers import AutoModel

    tokenizer, model, missing = load_encoder(AutoModel, settings.model, settings.revision, dtype, "backbone")
    if missing:
        raise StageError(
            f"backbone {settings.model}: {len(missing)} weights are missing, {missing[0]} for one; they would be "
            "random. Fetch or save the model again"
        )
    return tokenizer, model
