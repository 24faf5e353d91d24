"""`WordDistiller`, the public class of the library, which makes vectors of words in context."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from hashlib import sha256
from typing import Any, Literal, TypedDict, Unpack, overload

import numpy as np
import numpy.typing as npt
import torch

from corpusgen.errors import ConfigError
from corpusgen.models.encoders import on_device
from distiller.errors import EmptyTextError, ItemError
from distiller.inference.spans import (
    Span,
    Vectors,
    check_item,
    check_text,
    find_word,
    finished,
    item_error,
    items_of,
    means,
    normalized,
    shaped,
    with_progress,
)
from distiller.settings import BackboneSettings
from distiller.words.backbone import Backbone
from distiller.words.model import Distilled, WordModel, own_vectors
from distiller.words.saved import SavedModel, load_saved, push_saved, write_saved

Kind = Literal["meaning", "context", "baseline"]
Output = Literal["meaning", "context", "baseline", "both"]

NOTHING_READ = "the text has no word piece"

_TEXTS_AT_ONCE = 2048  # texts that are sorted by length together, and that a stream holds in memory
_SENTENCES_AT_ONCE = 256  # texts whose states of every piece are in memory at the same time
_WORDS_AT_ONCE = 512  # words at a time for the distillers, whose inner states are many times larger than their input


class _WordOptions(TypedDict, total=False):
    """Options that do not change the type of the result."""

    batch_size: int | None
    normalize: bool
    show_progress: bool


class WordDistiller:
    """A frozen encoder and its two distillers, which give meaning and context vectors of words in context.

    `from_pretrained` loads a trained model. A frozen model alone has the same methods:

    >>> model = WordDistiller.baseline("embedded:minilm-mlm")
    >>> model.encode("The bank raised its rates.", (4, 8)).shape
    (384,)
    >>> texts = ["The bank raised its rates.", "The bank lends money.", "They sat on the bank of the river."]
    >>> vectors = model.encode_words(["bank"] * 3, texts)
    >>> cosines = model.similarity(vectors[0], vectors)
    >>> bool(cosines[0, 1] > cosines[0, 2])
    True
    >>> rows, _ = model.nearest(vectors[0], vectors, k=2)
    >>> [texts[row] for row in rows[0]]
    ['The bank raised its rates.', 'The bank lends money.']

    Encoding is thread-safe. Other texts in the same call change only the last digits of a vector.
    Shapes: N words or texts, M candidates, S spans of one text, L layers, D dimensions.
    """

    def __init__(self, backbone: Backbone, model: WordModel | None, saved: SavedModel | None = None) -> None:
        if model is not None and model.meaning.expand.in_features != backbone.dimension:
            raise ConfigError(
                f"{backbone.settings.model} has {backbone.dimension} dimensions, but the distillers are for "
                f"{model.meaning.expand.in_features}: it is not the frozen model that they were trained on"
            )
        self.backbone = backbone
        self._model = None if model is None else model.to(backbone.device).eval().requires_grad_(False)
        self._saved = saved

    @classmethod
    def from_pretrained(
        cls,
        name: str,
        *,
        backbone: str | None = None,
        revision: str | None = None,
        device: str = "auto",
        dtype: Literal["auto", "float32", "float16", "bfloat16"] = "auto",
        batch_tokens: int | None = None,
        threads: int | None = None,
    ) -> WordDistiller:
        """Load and return a trained model.

        Args:
            name: The folder of a model or of a run, `s3://bucket/prefix`, or a hub id.
            backbone: The place of its frozen model, if not where it was in training.
            revision: The revision of a hub id.
            device: "cpu", "cuda" or "cuda:N"; "auto" picks a GPU if there is one.
            dtype: The precision of the frozen model; "auto" is float16 on a GPU and float32 on a CPU.
            batch_tokens: The most tokens in a batch, padding included; by default it depends on the device.
            threads: The number of CPU threads of torch.

        Raises:
            ConfigError: If this is not a word model, or the frozen model is not the one of its training.
            StoreError: If its files are damaged.
        """
        saved = load_saved(name, revision)
        settings = saved.check_backbone(saved.backbone_settings(backbone, dtype, batch_tokens))
        return cls(Backbone(settings, device, threads), saved.word_model(), saved)

    @classmethod
    def baseline(
        cls,
        backbone: str,
        *,
        revision: str | None = None,
        first_layer: int | None = None,
        last_layer: int | None = None,
        device: str = "auto",
        dtype: Literal["auto", "float32", "float16", "bfloat16"] = "auto",
        batch_tokens: int | None = None,
        threads: int | None = None,
    ) -> WordDistiller:
        """Return a frozen model without distillers; its "meaning" is the mean of its layers, and it has no context.

        Args:
            backbone: A folder, a hub id or `embedded:NAME`; other arguments are as in `from_pretrained`.
            first_layer, last_layer: The layers of the mean; by default the top half.

        Raises:
            ConfigError: If the model is not an encoder like BERT, or lacks one of the layers.
        """
        settings = BackboneSettings(
            model=backbone,
            revision=revision,
            first_layer=first_layer,
            last_layer=last_layer,
            dtype=dtype,
            batch_tokens=batch_tokens,
        )
        return cls(Backbone(settings, device, threads), None)

    def save_pretrained(self, path: str) -> None:
        """Write the model, but not its frozen model, to a folder or `s3://bucket/prefix`; ValueError for a baseline."""
        write_saved(path, self._trained)

    def push_to_hub(self, repository: str, *, private: bool = False, token: str | None = None) -> str:
        """Upload the model to the hub as `owner/name` and return its address; ValueError for a baseline."""
        return push_saved(repository, self._trained, private, token)

    @property
    def _trained(self) -> SavedModel:
        if self._saved is None:
            raise ValueError("a baseline has nothing to save: it is the frozen model as it is")
        return self._saved

    @property
    def config(self) -> dict[str, Any]:
        """Return the model's backbone, layers, training and validation; empty for a baseline."""
        return {} if self._saved is None else dict(self._saved.config)

    @property
    def model(self) -> WordModel | None:
        """Return the two distillers; None for a baseline."""
        return self._model

    @property
    def dimension(self) -> int:
        """Return the dimension D of a vector."""
        return self.backbone.dimension

    @property
    def outputs(self) -> tuple[Kind, ...]:
        """Return the kinds of vectors that the model gives."""
        return ("baseline",) if self._model is None else ("meaning", "context", "baseline")

    @cached_property
    def identity(self) -> str:
        """Return a hash of the distillers, the frozen model and its layers; other models have other hashes."""
        settings, trained_on = self.backbone.settings, self.config.get("backbone", {})
        frozen = trained_on.get("sha256") or [settings.model, settings.revision]
        digest = sha256(json.dumps([frozen, list(self.backbone.layers)]).encode())
        for name, weight in ({} if self._model is None else self._model.state_dict()).items():
            digest.update(name.encode() + weight.cpu().numpy().tobytes())
        return digest.hexdigest()

    @overload
    def encode(
        self,
        texts: str | Sequence[str],
        spans: Span | Sequence[Span],
        *,
        output: Kind = ...,
        convert_to: Literal["numpy"] = ...,
        **options: Unpack[_WordOptions],
    ) -> Vectors: ...

    @overload
    def encode(
        self,
        texts: str | Sequence[str],
        spans: Any,
        *,
        output: Output = ...,
        convert_to: Literal["numpy", "torch"] = ...,
        **options: Unpack[_WordOptions],
    ) -> Any: ...

    def encode(
        self,
        texts: str | Sequence[str],
        spans: Any,
        *,
        output: Output = "meaning",
        batch_size: int | None = None,
        normalize: bool = False,
        convert_to: Literal["numpy", "torch"] = "numpy",
        show_progress: bool = False,
    ) -> Any:
        """Encode words, each given by its span in a text.

        Args:
            texts: One text or several.
            spans: For each text a span, (start, end) in characters, or a list of spans.
            output: The kind of vectors; "both" gives a pair of meaning and context.
            batch_size: The most texts in a batch; items are sorted by length and batched to suit the device.
            normalize: Whether to scale vectors to unit length.
            convert_to: The type of the result, "numpy" or "torch".
            show_progress: Whether to show a bar on standard error.

        Returns:
            (D,) for one span, (N, D) for one span per text, (S, D) for a list of S spans; of several texts, a list.

        Raises:
            ItemError: If an item cannot be encoded; it says which item and why.
            ValueError: If texts and spans differ in number, or an option has no such value.

        >>> model = WordDistiller.baseline("embedded:minilm-mlm")
        >>> model.encode("The bank raised its rates.", [(4, 8), (20, 25)]).shape  # both from one forward
        (2, 384)
        >>> model.encode("Bank.", (0, 9))
        Traceback (most recent call last):
        ...
        distiller.errors.SpanError: item 0: span is empty or outside the text: (0, 9) of 'Bank.', which has 5 characters
        """
        items, counts = items_of(texts, spans)
        kinds = self._kinds(output)
        parts = with_progress(self._words(items, kinds, batch_size), len(items), show_progress)
        vectors = [finished(part, normalize, convert_to) for part in self._collected(parts, kinds)]
        return _answer([shaped(part, counts, isinstance(texts, str)) for part in vectors])

    @overload
    def encode_stream(
        self,
        items: Iterable[tuple[str, Span]],
        *,
        output: Kind = ...,
        batch_size: int | None = ...,
        normalize: bool = ...,
    ) -> Iterator[Vectors]: ...

    @overload
    def encode_stream(
        self,
        items: Iterable[tuple[str, Span]],
        *,
        output: Output = ...,
        batch_size: int | None = ...,
        normalize: bool = ...,
    ) -> Iterator[Any]: ...

    def encode_stream(
        self,
        items: Iterable[tuple[str, Span]],
        *,
        output: Output = "meaning",
        batch_size: int | None = None,
        normalize: bool = False,
    ) -> Iterator[Any]:
        """Yield the vector of each pair of text and span; memory does not grow with their number.

        The options are those of `encode`. If an item cannot be encoded, ItemError follows the vectors before it.

        >>> model = WordDistiller.baseline("embedded:minilm-mlm")
        >>> endless = itertools.repeat(("The bank raised its rates.", (4, 8)))
        >>> next(model.encode_stream(endless)).shape
        (384,)
        """
        for parts in self._words(items, self._kinds(output), batch_size):
            for vectors in zip(*(finished(part, normalize, "numpy") for part in parts), strict=True):
                yield _answer(list(vectors))

    @overload
    def encode_words(
        self,
        words: str | Sequence[str],
        texts: str | Sequence[str],
        *,
        output: Kind = ...,
        convert_to: Literal["numpy"] = ...,
        **options: Unpack[_WordOptions],
    ) -> Vectors: ...

    @overload
    def encode_words(self, words: str | Sequence[str], texts: str | Sequence[str], **options: Any) -> Any: ...

    def encode_words(self, words: str | Sequence[str], texts: str | Sequence[str], **options: Any) -> Any:
        """Encode words, each found in its text in any case; options and result are those of `encode`.

        Raises:
            ItemError: WordNotFoundError or AmbiguousWordError unless a word occurs exactly once, or as in `encode`.
        """
        if isinstance(words, str) != isinstance(texts, str):
            raise ValueError("words and texts must both be one or both be many")
        if isinstance(words, str):
            return self.encode(texts, find_word(str(texts), words), **options)
        if len(words) != len(texts):
            raise ValueError(f"{len(texts)} texts, but {len(words)} words")
        spans = [find_word(text, word, index) for index, (text, word) in enumerate(zip(texts, words, strict=True))]
        return self.encode(texts, spans, **options)

    def problems(self, items: Sequence[tuple[str, Span]]) -> list[ItemError | None]:
        """Return why each pair of text and span cannot be encoded, or None if it can, without running the frozen model.

        >>> model = WordDistiller.baseline("embedded:minilm-mlm")
        >>> [type(problem).__name__ for problem in model.problems([("The bank.", (4, 8)), ("The bank.", (8, 4))])]
        ['NoneType', 'SpanError']
        """
        problems = [_problem(index, item) for index, item in enumerate(items)]
        fine = [index for index, problem in enumerate(problems) if problem is None]
        reasons = self.backbone.reasons([items[index][0] for index in fine], [items[index][1] for index in fine])
        for index, reason in zip(fine, reasons, strict=True):
            problems[index] = None if reason is None else item_error(index, *items[index], reason)
        return problems

    @overload
    def encode_sentences(
        self,
        texts: str | Sequence[str],
        *,
        output: Kind = ...,
        normalize: bool = ...,
        convert_to: Literal["numpy"] = ...,
        show_progress: bool = ...,
    ) -> Vectors: ...

    @overload
    def encode_sentences(
        self,
        texts: str | Sequence[str],
        *,
        output: Output = ...,
        normalize: bool = ...,
        convert_to: Literal["numpy", "torch"] = ...,
        show_progress: bool = ...,
    ) -> Any: ...

    def encode_sentences(
        self,
        texts: str | Sequence[str],
        *,
        output: Output = "meaning",
        normalize: bool = False,
        convert_to: Literal["numpy", "torch"] = "numpy",
        show_progress: bool = False,
    ) -> Any:
        """Encode whole texts: return the means of the vectors of all their word pieces, (D,) or (N, D).

        The options are those of `encode`. Raises EmptyTextError for a text without word pieces.

        >>> model = WordDistiller.baseline("embedded:minilm-mlm")
        >>> model.encode_sentences(["The bank raised its rates.", "They sat on the bank."]).shape
        (2, 384)
        """
        many = [texts] if isinstance(texts, str) else list(texts)
        kinds = self._kinds(output)
        parts = with_progress(self._sentences(many, kinds), len(many), show_progress)
        vectors = [finished(part, normalize, convert_to) for part in self._collected(parts, kinds)]
        return _answer([shaped(part, None, isinstance(texts, str)) for part in vectors])

    @staticmethod
    def similarity(a: npt.ArrayLike | torch.Tensor, b: npt.ArrayLike | torch.Tensor) -> Vectors:
        """Return the cosines (N, M) of all rows of `a` (N, D) with all rows of `b` (M, D); (1, 1) for two vectors."""
        first, second = (normalized(np.atleast_2d(np.asarray(vectors, np.float32))) for vectors in (a, b))
        cosines: Vectors = first @ second.T
        return cosines

    @classmethod
    def nearest(
        cls, query: npt.ArrayLike | torch.Tensor, candidates: npt.ArrayLike | torch.Tensor, k: int = 10
    ) -> tuple[npt.NDArray[np.int64], Vectors]:
        """Return the rows (N, k) and cosines (N, k) of the `k` candidates most similar to each query, best first.

        Candidates of equal cosine keep their order. Raises ValueError if `k` is negative.

        >>> rows, cosines = WordDistiller.nearest([1, 0], [[0, 1], [2, 0], [1, 1]], k=2)
        >>> rows.tolist(), cosines.round(2).tolist()
        ([[1, 2]], [[1.0, 0.7099999785423279]])
        """
        if k < 0:
            raise ValueError(f"k must be at least 0, not {k}")
        cosines = cls.similarity(query, candidates)
        best = np.argsort(-cosines, axis=1, kind="stable")[:, :k]
        return best, np.take_along_axis(cosines, best, 1)

    def distil(self, states: npt.NDArray[np.float32], kinds: Sequence[str]) -> tuple[Vectors, ...]:
        """Turn layer states (N, L, D) into vectors (N, D) of each of the kinds; see `outputs`."""
        parts = []
        with torch.inference_mode():
            for start in range(0, max(1, len(states)), _WORDS_AT_ONCE):
                layers = on_device(states[start : start + _WORDS_AT_ONCE], self.backbone.device)
                parts.append(torch.stack([self._of_kind(layers, kind).float() for kind in kinds]).cpu().numpy())
        return tuple(np.concatenate(parts, axis=1))

    def _of_kind(self, layers: torch.Tensor, kind: str) -> torch.Tensor:
        if self._model is None or kind == "baseline":
            return own_vectors(layers)
        distiller = self._model.meaning if kind == "meaning" else self._model.context
        vectors: torch.Tensor = distiller(self._model.layers(layers), None)
        return vectors

    def _words(
        self, items: Iterable[tuple[str, Span]], kinds: Sequence[str], batch_size: int | None
    ) -> Iterator[tuple[Vectors, ...]]:
        if batch_size is not None and batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, not {batch_size}")
        remaining, done = iter(items), 0
        while some := list(itertools.islice(remaining, _TEXTS_AT_ONCE)):
            problem = next(filter(None, map(_problem, itertools.count(done), some)), None)
            good = some[: problem.index - done] if problem else some
            texts, spans = [text for text, _ in good], [span for _, span in good]
            states, reasons = self.backbone.states(texts, spans, batch_size)
            numbered = enumerate(reasons)
            unread = (item_error(done + n, *good[n], reason) for n, reason in numbered if reason is not None)
            problem = next(unread, problem)
            before = states[: problem.index - done] if problem else states
            if len(before):
                yield self.distil(before, kinds)
            if problem:
                raise problem
            done += len(some)

    def _sentences(
        self, texts: Iterable[str], kinds: Sequence[str], unread: list[int] | None = None
    ) -> Iterator[tuple[Vectors, ...]]:
        """Yield vectors of texts; one without word pieces is an error or, given `unread`, gets zeros and is listed."""
        remaining, done = iter(texts), 0
        while some := list(itertools.islice(remaining, _SENTENCES_AT_ONCE)):
            for index, text in enumerate(some, done):
                check_text(index, text)
            of_texts = list(self.backbone.piece_states(some))
            counts = np.array([len(states) for states in of_texts])
            without = [done + int(number) for number in np.flatnonzero(counts == 0)]
            if without and unread is None:
                raise EmptyTextError(without[0], NOTHING_READ)
            yield tuple(means(part, counts) for part in self.distil(np.concatenate(of_texts), kinds))
            if unread is not None:
                unread += without
            done += len(some)

    def sentence_vectors(self, texts: Sequence[str]) -> tuple[dict[str, Vectors], list[int]]:
        """Return all kinds of vectors of whole texts from one run, and which texts have zeros for lack of pieces."""
        unread: list[int] = []
        made = self._collected(self._sentences(texts, self.outputs, unread), self.outputs)
        return dict(zip(self.outputs, made, strict=True)), unread

    def _kinds(self, output: Output) -> tuple[str, ...]:
        if output not in ("meaning", "context", "baseline", "both"):
            raise ValueError(f"output {output!r} is none of meaning, context, baseline, both")
        if self._model is None and output in ("context", "both"):
            raise ValueError(f"output {output!r}: a baseline has no context vectors")
        return ("meaning", "context") if output == "both" else (output,)

    def _collected(self, parts: Iterable[tuple[Vectors, ...]], kinds: Sequence[str]) -> list[Vectors]:
        made = list(parts)  # not in the call below: CPython 3.11 leaks memory if an unpacked iterator raises there
        collected = list(zip(*made, strict=True))
        nothing = np.zeros((0, self.dimension), np.float32)
        return [np.concatenate(part) for part in collected] or [nothing] * len(kinds)


def _problem(index: int, item: Any) -> ItemError | None:
    """Return what is wrong with an item for any model; None if nothing is."""
    try:
        check_item(index, item)
    except ItemError as error:
        return error
    return None


def _answer(kinds: list[Any]) -> Any:
    """Return the vectors of one kind, or a pair of meaning and context."""
    return kinds[0] if len(kinds) == 1 else Distilled(*kinds)
