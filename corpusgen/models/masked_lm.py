"""Predict in bulk which whole words a masked language model would put in a target's place.

Nearly all the time should go to the matrix products of the encoder. So texts of similar length share a batch, the head
sees only the masks, and only the best candidates leave the device.

Shapes: N texts, B of them in a batch, T tokens, V pieces in the vocabulary, K best pieces of a mask, D dimensions.
"""

from __future__ import annotations

import contextlib
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch

from corpusgen.errors import StageError
from corpusgen.models.batches import ENCODER_TOKENS, padded_batches, run_or_halve, tokens_in_a_batch
from corpusgen.models.encoders import choose_device, choose_dtype, load_encoder, longest_input, on_device, padded
from corpusgen.models.spans import ReadText, reasons_for, window

SHARED_PIECE = "target shares a word piece with its neighbours"
INSIDE_WORD = "target begins inside a word"
_REASONS = reasons_for("target", blank_is_outside=True)
OUTSIDE, NO_PIECE, TOO_LONG = _REASONS.outside, _REASONS.no_piece, _REASONS.too_long

_TEXTS_AT_ONCE = 1000  # encodings are large objects: keep few of them
_EQUALS = 28  # extra words to look at, as they may tie with the last of the best


class Candidates(NamedTuple):
    """The words for one mask, the most probable first; equally probable ones are in the vocabulary's order."""

    words: list[str]
    probabilities: npt.NDArray[np.float32]
    reason: str | None
    """Why there are no words; one of the constants of this module."""


@dataclass(frozen=True)
class Predictions:
    """The candidates of many masks, flat: those of mask i are at `offsets[i]:offsets[i + 1]`.

    `words` are indices into `vocabulary`, all words the model can predict, so that what belongs to a word, such as its
    vector, has to be looked up only once.
    """

    vocabulary: list[str]
    offsets: npt.NDArray[np.int32]
    words: npt.NDArray[np.int32]
    probabilities: npt.NDArray[np.float32]
    reasons: list[str | None]

    def __len__(self) -> int:
        return len(self.reasons)

    def __getitem__(self, index: int) -> Candidates:
        index = range(len(self))[index]  # allows negative indices, and raises IndexError beyond the end
        start, end = self.offsets[index : index + 2]
        words = [self.vocabulary[word] for word in self.words[start:end].tolist()]
        return Candidates(words, self.probabilities[start:end], self.reasons[index])

    def __iter__(self) -> Iterator[Candidates]:
        return (self[index] for index in range(len(self)))

    def columns(self) -> tuple[pa.ListArray, pa.ListArray]:
        """Return words and probabilities as Arrow columns, with a list for each mask."""
        words = pa.array(self.vocabulary, pa.string()).take(pa.array(self.words))
        probabilities = pa.array(self.probabilities)
        offsets = pa.array(self.offsets)
        return pa.ListArray.from_arrays(offsets, words), pa.ListArray.from_arrays(offsets, probabilities)


@dataclass(frozen=True)
class _Pieces:
    """What the pieces of a model's vocabulary stand for."""

    vocabulary: list[str]
    word: npt.NDArray[np.int32]
    """(2, V): the word that a piece stands for, or -1; row 0 is for inside a word, row 1 for its beginning.

    Byte-level BPE and SentencePiece mark pieces that follow a space. At the beginning of a text or after a bracket
    pieces have no mark; there the words are the unmarked pieces that also exist with a mark.
    """
    opens: npt.NDArray[np.bool_]
    """(V,): whether a piece opens a word."""
    lone_marker: int | None
    """The mark as a piece of its own; it belongs to the word that follows."""
    marked: bool
    """Whether the pieces that open a word are marked; WordPiece marks those that do not."""

    @classmethod
    def of(cls, tokenizer: Any, size: int) -> _Pieces:
        """Sort the pieces of a fast tokenizer; the model's vocabulary may be larger."""
        import tokenizers

        pieces: dict[str, int] = tokenizer.get_vocab()
        model = tokenizer.backend_tokenizer.model
        if isinstance(model, tokenizers.models.WordPiece):
            marker = ""
            opening = {piece for piece in pieces if not piece.startswith(model.continuing_subword_prefix)}
            texts = {piece: piece for piece in opening}
        else:
            marker = max("▁Ġ", key=lambda mark: sum(piece.startswith(mark) for piece in pieces))
            opening = {piece for piece in pieces if piece.startswith(marker)}
            texts = {piece: piece.removeprefix(marker) for piece in pieces}
            if marker == "Ġ":
                decode = tokenizers.decoders.ByteLevel().decode
                texts = {piece: text if text.isascii() else decode([text]) for piece, text in texts.items()}
        added = tokenizer.get_added_vocab()
        words = {piece: text for piece, text in texts.items() if piece not in added and _is_word(text)}
        vocabulary = sorted({text for piece, text in words.items() if piece in opening})
        index = {text: number for number, text in enumerate(vocabulary)}
        word = np.full((2, size), -1, np.int32)
        for piece, text in words.items():
            word[int(piece in opening), pieces[piece]] = index.get(text, -1)
        opens = np.isin(np.arange(size), [pieces[piece] for piece in opening])
        return cls(vocabulary, word, opens, pieces.get(marker), marked=bool(marker))


class _Masked(NamedTuple):
    """A text as the model gets it, and the position of its first mask."""

    ids: list[int]
    position: int
    opens: bool
    """Whether the target's first piece opens a word, as it always does in the middle of a plain sentence."""
    piece: int
    """The target's first piece."""


class _Word(NamedTuple):
    """A text as the model gets it, and the first and last piece of a word in it."""

    ids: tuple[int, ...]
    first: int
    last: int


class _Best(NamedTuple):
    """Each mask's best scores with their pieces (B, K), and the log-sum-exp (B,) of all its scores, on the device."""

    values: torch.Tensor
    pieces: torch.Tensor
    normalizer: torch.Tensor


class MaskedPredictor:
    """A predictor of words for masked targets, with any `AutoModelForMaskedLM` from the hub or a folder.

    Candidates are whole words: single pieces that can stand for a word, of two or more letters and nothing else.
    Their probabilities are those of the full vocabulary. With `masks="piece"` each piece of the target becomes a mask
    and the first is predicted; with `masks="word"` the target becomes one mask.

    `batch_tokens` bounds a batch, padding included; by default it suits the device. `device` "auto" is a GPU if there
    is one; `dtype` "auto" is float16 there and float32 on a CPU. The same texts give the same bits in any order. Among
    other texts they are batched differently, and probabilities may differ in the last digits.
    """

    def __init__(
        self,
        model: str,
        revision: str | None = None,
        top_k: int = 100,
        masks: Literal["piece", "word"] = "piece",
        batch_tokens: int | None = None,
        device: str = "auto",
        dtype: str = "auto",
        threads: int | None = None,
    ) -> None:
        if threads:
            torch.set_num_threads(threads)
        self._name = model
        self._device = choose_device(device)
        self._tokenizer, self._model = _load(model, revision, choose_dtype(dtype, self._device))
        self._model.to(self._device).eval()
        self._backend = self._tokenizer.backend_tokenizer
        self._backend.no_truncation()  # a tokenizer file may hold training settings; we cut texts ourselves
        self._backend.no_padding()
        self._pieces = _Pieces.of(self._tokenizer, self._model.config.vocab_size)
        if not self._pieces.vocabulary:
            raise StageError(
                f"{model}: its vocabulary has no whole words; check that the folder holds the model's own tokenizer"
            )
        self._longest = longest_input(self._tokenizer, self._model)
        self._whole_target = masks == "word"
        self._batch_tokens = tokens_in_a_batch(batch_tokens, ENCODER_TOKENS, self._device.type)
        self._forbidden = torch.from_numpy(self._pieces.word < 0).to(self._device)
        self._top_k = min(top_k, self._forbidden.shape[1])
        self._looked_at = min(top_k + _EQUALS, self._forbidden.shape[1])
        self._positions = torch.empty(0, dtype=torch.long)
        self._keep_only_masks()

    @property
    def vocabulary(self) -> list[str]:
        """Return all words that can be predicted."""
        return self._pieces.vocabulary

    def predict(self, texts: Sequence[str], spans: Sequence[tuple[int, int]]) -> Predictions:
        """Return candidates for the word at each text's span of characters.

        Every item gets an answer: where the target cannot be masked exactly, it is a reason instead of candidates.
        """
        masked, reasons = self._mask_all(texts, spans)
        order = _by_content(masked)
        words = np.full((len(reasons), self._top_k), -1, np.int32)
        probabilities = np.zeros((len(reasons), self._top_k), np.float32)
        for batch in _batches(order, masked, self._batch_tokens):
            found = run_or_halve(self._candidates, [masked[index] for index in batch], self._name)
            for index, (of_mask, how_probable) in zip(batch, found, strict=True):
                words[index, : len(of_mask)] = of_mask
                probabilities[index, : len(of_mask)] = how_probable
        present = words >= 0
        offsets = np.concatenate(([0], np.cumsum(present.sum(axis=1)))).astype(np.int32)
        return Predictions(self.vocabulary, offsets, words[present], probabilities[present], reasons)

    def probabilities(self, texts: Sequence[str], spans: Sequence[tuple[int, int]]) -> npt.NDArray[np.float32]:
        """Return how probable the word at each span is when it is masked: (N,); NaN where it cannot be masked.

        It is the probability of the word's first piece: a word of several pieces is at most as probable as that.
        """
        masked, _ = self._mask_all(texts, spans)
        found = np.full(len(texts), np.nan, np.float32)
        for batch in _batches(_by_content(masked), masked, self._batch_tokens):
            found[batch] = run_or_halve(self._probabilities_of, [masked[index] for index in batch], self._name)
        return found

    def states(self, texts: Sequence[str], spans: Sequence[tuple[int, int]]) -> npt.NDArray[np.float32]:
        """Return a vector of unit length for the word at each span, which is not masked: (N, D).

        It is the mean of the word's piece states two thirds up the model, where word meaning is clearest. A word that
        cannot be found, or does not fit the model's input, has a zero vector.
        """
        words: dict[int, _Word] = {}
        for index, (text, span) in enumerate(zip(self._read(texts), spans, strict=True)):
            pieces = self._pieces_of(text, span)
            if not isinstance(pieces, str) and len(text.ids) <= self._longest:
                words[index] = _Word(text.ids, *pieces)
        order = sorted(words, key=lambda index: (len(words[index].ids), words[index]))
        states = np.zeros((len(texts), self._model.config.hidden_size), np.float32)
        for batch in _batches(order, words, self._batch_tokens):
            states[batch] = run_or_halve(self._states_of, [words[index] for index in batch], self._name)
        return states

    @torch.inference_mode()
    def _states_of(self, batch: list[_Word]) -> npt.NDArray[np.float32]:
        # The last layer is not looked at, so any position will do.
        self._positions = torch.zeros(len(batch), dtype=torch.long, device=self._device)
        layers = self._model.base_model(**self._inputs(batch), output_hidden_states=True)
        depth = len(layers.hidden_states) - 1
        states = layers.hidden_states[min(round(depth * 2 / 3), depth - 1)].float()
        index = torch.arange(states.shape[1], device=self._device)
        first, last = torch.tensor([(word.first, word.last) for word in batch], device=self._device).T
        inside = (index >= first[:, None]) & (index <= last[:, None])
        mean = (states * inside[:, :, None]).sum(1) / inside.sum(1, keepdim=True)
        unit: npt.NDArray[np.float32] = torch.nn.functional.normalize(mean, dim=-1).cpu().numpy()
        return unit

    @torch.inference_mode()
    def _probabilities_of(self, batch: list[_Masked]) -> npt.NDArray[np.float32]:
        positions, pieces = np.array([(item.position, item.piece) for item in batch]).T
        logits = self._logits(self._inputs(batch), on_device(positions, self._device))
        of_pieces = logits.gather(1, on_device(pieces, self._device)[:, None])[:, 0] - logits.logsumexp(-1)
        probabilities: npt.NDArray[np.float32] = self._finite(of_pieces.cpu().numpy())
        return np.exp(probabilities)

    def _inputs(self, batch: Sequence[_Masked | _Word]) -> dict[str, torch.Tensor]:
        return padded([item.ids for item in batch], self._tokenizer.pad_token_id or 0, self._device)

    def _mask_all(
        self, texts: Sequence[str], spans: Sequence[tuple[int, int]]
    ) -> tuple[dict[int, _Masked], list[str | None]]:
        """Mask the texts that can be masked; return them by index, and the reasons why others cannot."""
        if len(spans) != len(texts):
            raise ValueError(f"{len(texts)} texts, but {len(spans)} spans")
        masked: dict[int, _Masked] = {}
        reasons: list[str | None] = []
        for text, span in zip(self._read(texts), spans, strict=True):
            result = self._mask(text, span)
            if isinstance(result, _Masked):
                masked[len(reasons)] = result
            reasons.append(None if isinstance(result, _Masked) else result)
        return masked, reasons

    def _read(self, texts: Sequence[str]) -> Iterator[ReadText]:
        for start in range(0, len(texts), _TEXTS_AT_ONCE):
            some = list(texts[start : start + _TEXTS_AT_ONCE])
            yield from map(ReadText, some, self._backend.encode_batch(some))

    def _mask(self, text: ReadText, span: tuple[int, int]) -> _Masked | str:
        """Return the text with its target masked, cut if it is too long for the model; or the reason why not."""
        found = self._pieces_of(text, span)
        if isinstance(found, str):
            return found
        first, last = found
        opens = bool(self._pieces.opens[text.ids[first]])
        if not opens and not self._pieces.marked:
            return INSIDE_WORD
        masks = [self._tokenizer.mask_token_id] * (1 if self._whole_target else last + 1 - first)
        ids = [*text.ids[:first], *masks, *text.ids[last + 1 :]]
        cut = window(ids, first, first + len(masks) - 1, text.special_ends, self._longest)
        if cut is None:
            return TOO_LONG
        ids, moved = cut
        return _Masked(ids, first - moved, opens, text.ids[first])

    def _pieces_of(self, text: ReadText, span: tuple[int, int]) -> tuple[int, int] | str:
        """Find the first and the last piece of the target, or return the reason why there are none."""
        word = text.find(span, _REASONS)
        if isinstance(word, str):
            return word
        if text.shares_piece(word):
            return SHARED_PIECE
        first = word.first
        if first and not self._pieces.opens[text.ids[first]] and text.ids[first - 1] == self._pieces.lone_marker:
            first -= 1
        return first, word.last

    def _candidates(self, batch: list[_Masked]) -> list[tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]]:
        """Return the words of each mask and their probabilities, the best first."""
        positions = on_device(np.array([item.position for item in batch]), self._device)
        opens = np.array([int(item.opens) for item in batch])
        best = self._best(self._inputs(batch), positions, on_device(opens, self._device))
        # Copy all results of a batch at once: until here nothing has waited for the device.
        values, pieces, normalizer = (column.cpu().numpy() for column in best)
        self._finite(normalizer)
        order = np.lexsort((pieces, -values))[:, : self._top_k]  # ties in the vocabulary's order
        values, pieces = np.take_along_axis(values, order, 1), np.take_along_axis(pieces, order, 1)
        words = self._pieces.word[opens[:, None], pieces]
        probabilities = np.exp(values - normalizer[:, None])
        counts = np.isfinite(values).sum(1).tolist()
        return [(words[row, :count], probabilities[row, :count]) for row, count in enumerate(counts)]

    def _finite(self, scores: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return these scores; raise StageError if one is NaN or infinite, as sums are as soon as one logit is."""
        if not np.isfinite(scores).all():
            raise StageError(
                f"{self._name} gives NaN or infinite scores in {self._model.dtype}; use dtype float32, or bfloat16 on "
                "a GPU. If you use that already, the weights are damaged"
            )
        return scores

    def _logits(self, inputs: dict[str, torch.Tensor], positions: torch.Tensor) -> torch.Tensor:
        """Return the scores of all pieces at one position of each text: (B, V)."""
        self._positions = positions
        logits: torch.Tensor = self._model(**inputs).logits[:, 0].float()
        return logits

    @torch.inference_mode()
    def _best(self, inputs: dict[str, torch.Tensor], positions: torch.Tensor, opens: torch.Tensor) -> _Best:
        """Return each mask's best scores and pieces, and what turns scores into probabilities; all on the device."""
        logits = self._logits(inputs, positions)
        normalizer = logits.logsumexp(-1)
        # Take some more than asked for: ties with the last one are broken by the vocabulary's order.
        scores = logits.masked_fill_(self._forbidden[opens], -torch.inf).topk(self._looked_at)
        return _Best(scores.values, scores.indices, normalizer)

    def _keep_only_masks(self) -> None:
        """Drop all hidden states but those of the masks as early as the model permits: the head is half the work."""

        def take(hidden: torch.Tensor) -> torch.Tensor:
            return hidden[torch.arange(len(hidden), device=hidden.device), self._positions].unsqueeze(1)

        def after_attention(_: Any, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
            return tuple(take(states) for states in inputs)

        def after_encoder(_: Any, inputs: Any, output: Any) -> Any:
            if output.last_hidden_state.shape[1] > 1:
                output.last_hidden_state = take(output.last_hidden_state)
            return output

        encoder = self._model.base_model
        if encoder is self._model:
            raise StageError(
                f"{self._name}: {type(self._model).__name__} has no encoder separate from its head; use another model"
            )
        encoder.register_forward_hook(after_encoder)
        with contextlib.suppress(AttributeError):  # BERT's family also skips the last layer after its attention
            encoder.encoder.layer[-1].attention.output.register_forward_pre_hook(after_attention)


def _is_word(text: str) -> bool:
    """Return whether a text is two or more letters; many scripts write vowels and accents as marks after a letter."""
    return len(text) > 1 and (
        text.isalpha() or (text[0].isalpha() and all(unicodedata.category(character)[0] in "LM" for character in text))
    )


def _load(name: str, revision: str | None, dtype: torch.dtype) -> tuple[Any, Any]:
    """Load tokenizer and model, or raise an error that says what is wrong with them."""
    from transformers import AutoModelForMaskedLM

    tokenizer, model, missing = load_encoder(AutoModelForMaskedLM, name, revision, dtype, "masked language model")
    if missing:
        raise StageError(
            f"{name} has no head for masked-token prediction: {len(missing)} weights are missing, such as "
            f"{missing[0]}; use the full pre-trained model, not just its encoder"
        )
    if tokenizer.mask_token_id is None:
        raise StageError(f"{name}: its tokenizer has no mask token; use a model pre-trained with one")
    return tokenizer, model


def _by_content(masked: Mapping[int, _Masked]) -> list[int]:
    """Return the indices of texts, sorted by length."""
    # Sort by content too: then batches, and with them the last bits, do not depend on the order of the texts.
    return sorted(masked, key=lambda index: (len(masked[index].ids), masked[index].ids, masked[index].position))


def _batches(order: list[int], inputs: Mapping[int, _Masked | _Word], most: int) -> Iterator[list[int]]:
    """Cut the indices of inputs, sorted by length, into batches of at most `most` tokens."""
    for batch in padded_batches([len(inputs[index].ids) for index in order], most):
        yield [order[rank] for rank in batch]
