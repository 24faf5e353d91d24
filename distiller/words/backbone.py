"""The frozen model, which gives the states of its layers for a word in a text.

Shapes: N words, P pieces (sub-words), L layers, D dimensions, M means over pieces of an input, B inputs of a batch.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Literal, NamedTuple, TypeVar

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
from corpusgen.models.spans import ReadText, reasons_for, special_ends, stretches, window
from distiller.settings import BackboneSettings

_REASONS = reasons_for("word", blank_is_outside=False)
OUTSIDE, NO_PIECE, TOO_LONG = _REASONS.outside, _REASONS.no_piece, _REASONS.too_long

_TEXTS_AT_ONCE = 1000  # encodings are large objects: keep only a few
_WHOLE_TEXTS_AT_ONCE = 128  # the states of all pieces of a text are larger still

States = npt.NDArray[np.float32]
Pieces = tuple[int, ...]
Weights = npt.NDArray[np.float32]
Wanted = TypeVar("Wanted")
Pooling = Literal["mean", "max", "min", "last"]


class Shape(NamedTuple):
    """The shape of a word's states: `dimension` numbers for each of these layers."""

    layers: range
    dimension: int


@cache
def _use_one_thread_in_forks() -> None:
    """Keep torch working in processes forked from this one, such as those of data loaders and web servers.

    Its OpenMP threads do not exist there, and code that waits for them hangs. With one thread nothing waits.
    """
    os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))


def shape_of(settings: BackboneSettings) -> Shape:
    """Return the shape of a word's states from the model's configuration, without loading its weights."""
    return _shape(_config(settings), settings)


def _config(settings: BackboneSettings) -> Any:
    from transformers import AutoConfig

    path = model_path(settings.model, "backbone")
    with explained_loading(settings.model, "backbone"):
        return AutoConfig.from_pretrained(path, revision=settings.revision)


def confirmed_backbone(settings: BackboneSettings, recorded: Mapping[str, Any]) -> BackboneSettings:
    """Return the settings with the model's local path; raise StageError if it is not the recorded model."""
    model, revision = confirmed(settings.model, settings.revision, recorded)
    return settings.model_copy(update={"model": model, "revision": revision})


class Backbone:
    """A frozen `AutoModel` encoder, from the hub or a folder.

    By default it uses the top half of the layers: k…ℓ with k = ℓ/2 + 1. `batch_tokens` limits the tokens of a batch,
    padding included. `device` "auto" picks a GPU if there is one. The same texts give the same bits in any order.
    Together with other texts they are batched differently, and states may differ in the last digits.
    """

    def __init__(self, settings: BackboneSettings, device: str = "auto", threads: int | None = None) -> None:
        if threads:
            torch.set_num_threads(threads)
        _use_one_thread_in_forks()
        self.settings = settings
        self._name = settings.model
        self._device = choose_device(device)
        self.layers, self.dimension = shape_of(settings)
        self._tokenizer, self._model = _load(settings, choose_dtype(settings.dtype, self.device), self.layers[-1])
        self._model.requires_grad_(False).to(self.device).eval()
        self._depth: int = self._model.config.num_hidden_layers
        self._backend = self._tokenizer.backend_tokenizer
        self._backend.no_truncation()  # a tokenizer file may hold settings from its training: we choose the window
        self._backend.no_padding()
        self._longest = longest_input(self._tokenizer, self._model)
        self._batch_tokens = tokens_in_a_batch(settings.batch_tokens, ENCODER_TOKENS, self.device.type)

    @property
    def device(self) -> torch.device:
        """Return the model's device; raise StageError in a fork if it is a GPU, because CUDA does not work in forks."""
        if self._device.type == "cuda" and getattr(torch.cuda, "_is_in_bad_fork", lambda: False)():  # private
            raise StageError(
                f"{self._name} was on a GPU before this process was forked, and CUDA does not work after a fork; load "
                'the model in the new process, start it with "spawn" instead of "fork", or use device="cpu"'
            )
        return self._device

    @property
    def encoder(self) -> torch.nn.Module:
        """Return the frozen model itself."""
        encoder: torch.nn.Module = self._model
        return encoder

    def states(
        self,
        texts: Sequence[str],
        spans: Sequence[tuple[int, int]],
        batch_size: int | None = None,
        pooling: Pooling = "mean",
    ) -> tuple[npt.NDArray[np.float32], list[str | None]]:
        """Return the states (N, L, D) of the word at each text's span of characters: by default means over its pieces.

        Its pieces are those that share a character with the span. A word without states gets zeros and a reason, one
        of the constants of this module. A text too long for the model is cut to a window around the word.
        """
        reasons: list[str | None] = [None] * len(texts)
        words: dict[Pieces, list[tuple[int, int, int]]] = {}  # for each input: item, first and last piece
        for item, word in self._words(texts, spans):
            if isinstance(word, str):
                reasons[item] = word
            else:
                ids, first, last = word
                words.setdefault(ids, []).append((item, first, last))
        states = np.zeros((len(texts), len(self.layers), self.dimension), np.float32)
        wanted: dict[Pieces, Sequence[int]] = {
            ids: [p for _, first, last in of for p in range(first, last + 1)] for ids, of in words.items()
        }
        for ids, of_pieces in self._run(wanted, self._hidden, batch_size):
            items, firsts, lasts = np.array(words[ids]).T
            states[items] = _pooled(of_pieces, lasts + 1 - firsts, pooling)
        return states, reasons

    def reasons(self, texts: Sequence[str], spans: Sequence[tuple[int, int]]) -> list[str | None]:
        """Return the reasons that `states` would return, without running the model; None for a word with states."""
        reasons: list[str | None] = [None] * len(texts)
        for item, word in self._words(texts, spans):
            reasons[item] = word if isinstance(word, str) else None
        return reasons

    def piece_states(self, texts: Sequence[str]) -> Iterator[States]:
        """Yield the states (P, L, D) of all pieces of each text, without special tokens.

        A text too long for the model is read in separate stretches.
        """
        for start in range(0, len(texts), _WHOLE_TEXTS_AT_ONCE):
            some = texts[start : start + _WHOLE_TEXTS_AT_ONCE]
            inputs = [
                list(stretches(tuple(encoding.ids), special_ends(encoding), self._longest))
                for encoding in self.encoded(some)
            ]
            wanted: dict[Pieces, Sequence[int]] = {ids: positions for text in inputs for ids, positions in text}
            states = dict(self._run(wanted, self._hidden))
            nothing = np.zeros((0, len(self.layers), self.dimension), np.float32)
            for text in inputs:
                yield np.concatenate([nothing, *(states[ids] for ids, _ in text)])

    def means(self, weights: Mapping[Pieces, Weights]) -> Iterator[tuple[Pieces, States]]:
        """Yield weighted sums (M, D) over the pieces of each input, in the highest of the used layers.

        The weights (M, P) are for all pieces of an input as the model gets it, special tokens included. Sums are made
        on the device: only they leave it, and no other layer is kept.
        """
        return self._run(weights, self._sums)

    # ------------------------------------------------------- from text to pieces

    @property
    def longest(self) -> int:
        """Return how many pieces the model takes, special tokens included."""
        return self._longest

    def encoded(self, texts: Sequence[str]) -> Iterator[Any]:
        """Yield what the tokenizer makes of each text: ids, offsets and a mask of special tokens, of any length."""
        for start in range(0, len(texts), _TEXTS_AT_ONCE):
            yield from self._backend.encode_batch(list(texts[start : start + _TEXTS_AT_ONCE]))

    def _words(
        self, texts: Sequence[str], spans: Sequence[tuple[int, int]]
    ) -> Iterator[tuple[int, tuple[Pieces, int, int] | str]]:
        """Yield each item's number and what `_find` returns for it, text by text. Each text is tokenised once."""
        if len(spans) != len(texts):
            raise ValueError(f"{len(texts)} texts, but {len(spans)} spans")
        items_of: dict[str, list[int]] = {}
        for item, text in enumerate(texts):
            items_of.setdefault(text, []).append(item)
        for (text, items), encoding in zip(items_of.items(), self.encoded(list(items_of)), strict=True):
            read = ReadText(text, encoding)
            yield from ((item, self._find(read, spans[item])) for item in items)

    def _find(self, read: ReadText, span: tuple[int, int]) -> tuple[Pieces, int, int] | str:
        """Return the model's input and the word's first and last piece in it, or the reason why there are none."""
        word = read.find(span, _REASONS)
        if isinstance(word, str):
            return word
        cut = window(read.ids, word.first, word.last, read.special_ends, self._longest)
        if cut is None:
            return TOO_LONG
        ids, moved = cut
        return ids, word.first - moved, word.last - moved

    # ----------------------------------------------------- from pieces to states

    def _run(
        self,
        wanted: Mapping[Pieces, Wanted],
        run: Callable[[list[tuple[Pieces, Wanted]]], list[States]],
        batch_size: int | None = None,
    ) -> Iterator[tuple[Pieces, States]]:
        """Yield what `run` returns for each input and what is wanted of it, with inputs sorted by length."""
        # Sort by content too, so that batches, and thus the last bits, do not depend on the order of the texts.
        order = sorted(wanted, key=lambda ids: (len(ids), ids))
        for some in padded_batches([len(pieces) for pieces in order], self._batch_tokens, batch_size):
            batch = [(order[index], wanted[order[index]]) for index in some]
            yield from zip((ids for ids, _ in batch), run_or_halve(run, batch, self._name), strict=True)

    def _hidden(self, batch: list[tuple[Pieces, Sequence[int]]]) -> list[States]:
        inputs = self._inputs(batch)
        counts = [len(positions) for _, positions in batch]
        rows = on_device(np.repeat(np.arange(len(batch)), counts), self.device)
        columns = on_device(np.concatenate([positions for _, positions in batch]), self.device)
        states = self._states_at(inputs, rows, columns).cpu().numpy()  # the first wait for the device
        self._check_finite(states)
        return np.split(states, np.cumsum(counts)[:-1])

    def _sums(self, batch: list[tuple[Pieces, Weights]]) -> list[States]:
        inputs = self._inputs(batch)
        shape = (len(batch), max(len(weights) for _, weights in batch), inputs["input_ids"].shape[1])
        together = np.zeros(shape, np.float32)  # (B, M, P)
        for row, (ids, weights) in enumerate(batch):
            together[row, : len(weights), : len(ids)] = weights
        sums = self._weighted(inputs, on_device(together, self.device)).cpu().numpy()
        self._check_finite(sums)
        return [of_input[: len(weights)] for of_input, (_, weights) in zip(sums, batch, strict=True)]

    def _inputs(self, batch: list[tuple[Pieces, Wanted]]) -> dict[str, torch.Tensor]:
        return padded([ids for ids, _ in batch], self._tokenizer.pad_token_id or 0, self.device)

    def _check_finite(self, states: States) -> None:
        if not np.isfinite(states).all():
            raise StageError(
                f"{self._name} gives NaN or infinite states in {self._model.dtype}; use dtype float32, or bfloat16 on "
                "a GPU. If you use that already, the weights are damaged"
            )

    @torch.inference_mode()
    def _states_at(self, inputs: dict[str, torch.Tensor], rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
        """Return the states (P, L, D) at some positions of a batch, on the device."""
        hidden = self._layer_states(inputs)
        return torch.stack([hidden[layer][rows, columns].float() for layer in self.layers], dim=1)

    @torch.inference_mode()
    def _weighted(self, inputs: dict[str, torch.Tensor], weights: torch.Tensor) -> torch.Tensor:
        """Return weighted sums (B, M, D) of the states of a batch, on the device."""
        layer = self.layers[-1]
        if layer == self._depth:  # so that the model need not keep the others
            states: torch.Tensor = self._model(**inputs).last_hidden_state
        else:
            states = self._layer_states(inputs)[layer]
        return torch.bmm(weights, states.float())

    def _layer_states(self, inputs: dict[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """Return the states of all layers, the embeddings first."""
        hidden: tuple[torch.Tensor, ...] | None = self._model(**inputs, output_hidden_states=True).hidden_states
        if hidden is None or len(hidden) != self._depth + 1:
            raise StageError(
                f"{self._name}: {type(self._model).__name__} does not return the states of its {self._depth} layers; "
                "use an encoder of the BERT family"
            )
        return hidden


def _pooled(of_pieces: States, counts: npt.NDArray[np.int64], pooling: Pooling) -> States:
    """Return the states of words, given those of their pieces and how many pieces each has."""
    ends = np.cumsum(counts)
    if pooling == "last":
        return of_pieces[ends - 1]
    reduce = {"mean": np.add, "max": np.maximum, "min": np.minimum}[pooling].reduceat
    pooled: States = reduce(of_pieces, ends - counts, axis=0)
    if pooling == "mean":
        pooled /= counts[:, None, None].astype(np.float32)
    return pooled


def _shape(config: Any, settings: BackboneSettings) -> Shape:
    depth, dimension = (getattr(config, name, None) for name in ("num_hidden_layers", "hidden_size"))
    if not depth or not dimension or getattr(config, "is_encoder_decoder", False):
        raise ConfigError(
            f"backbone.model: {settings.model} ({config.model_type}) is not an encoder; use one like BERT"
        )
    first = depth // 2 + 1 if settings.first_layer is None else settings.first_layer
    last = depth if settings.last_layer is None else settings.last_layer
    if not first <= last <= depth:
        raise ConfigError(
            f"backbone: layers {first} to {last} of {settings.model}, which has {depth}: "
            f"choose 0 <= first_layer <= last_layer <= {depth}"
        )
    return Shape(range(first, last + 1), dimension)


def _load(settings: BackboneSettings, dtype: torch.dtype, last: int) -> tuple[Any, Any]:
    """Load the tokenizer and the model; raise an error that explains what is wrong with them.

    Layers above the one after `last` are left out. One more is needed, because some models normalise their top layer.
    """
    from transformers import AutoModel

    depth = _config(settings).num_hidden_layers
    changed = {"num_hidden_layers": last + 1} if last + 1 < depth else {}
    tokenizer, model, missing = load_encoder(AutoModel, settings.model, settings.revision, dtype, "backbone", **changed)
    if missing:
        raise StageError(
            f"backbone {settings.model}: {len(missing)} weights are missing, such as {missing[0]}; they would be "
            "random. Download or save the model again"
        )
    return tokenizer, model
