"""`WordDistiller`, the public class of the library, which makes vectors of words in context."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from hashlib import sha256
from typing import Any, Literal, TypedDict, Unpack, overload

import numpy as np
import numpy.typing as npt
import torch

from corpusgen.errors import ConfigError
from distiller.errors import ItemError
from distiller.inference.spans import (
    Span,
    Vectors,
    find_word,
    finished,
    item_error,
    items_of,
    normalized,
    problem_of,
    shaped,
    with_progress,
)
from distiller.inference.vectors import Kind, Output, VectorMaker, answer
from distiller.settings import BackboneSettings
from distiller.words.backbone import Backbone
from distiller.words.model import Distillers
from distiller.words.saved import SavedModel, load_saved, push_saved, write_saved


class _WordOptions(TypedDict, total=False):
    """Options that do not change the type of the result."""

    batch_size: int | None
    normalize: bool
    show_progress: bool


class WordDistiller:
    """A frozen encoder and its two distillers, which give meaning and context vectors of words in context.

    `from_pretrained` loads a trained model, `baseline` a frozen model alone, with the same methods:

    >>> model = WordDistiller.from_pretrained("embedded:minilm-wic")
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

    def __init__(self, backbone: Backbone, model: Distillers | None, saved: SavedModel | None = None) -> None:
        if model is not None and model.dimension != backbone.dimension:
            raise ConfigError(
                f"{backbone.settings.model} has {backbone.dimension} dimensions, but the distillers expect "
                f"{model.dimension}; give the frozen model that they were trained on"
            )
        self.backbone = backbone
        self._model = None if model is None else model.to(backbone.device).eval().requires_grad_(False)
        self._saved = saved
        self._vectors = VectorMaker(backbone, self._model)

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
            name: The folder of a model or of a run, `s3://bucket/prefix`, a hub id, or `embedded:minilm-wic`.
            backbone: Where its frozen model is, if not where it was in training.
            revision: The revision of a hub id.
            device: "cpu", "cuda" or "cuda:N"; "auto" picks a GPU if there is one.
            dtype: The precision of the frozen model; "auto" is float16 on a GPU and float32 on a CPU.
            batch_tokens: The most tokens in a batch, padding included; by default it depends on the device.
            threads: The number of CPU threads of torch.

        Returns:
            The model, ready to encode.

        Raises:
            ConfigError: If this is not a word model, or the frozen model is not the one of its training.
            StoreError: If its files are damaged or incomplete.
            StageError: If the frozen model cannot be loaded, or the device does not support `dtype`.
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
        """Load a frozen model without distillers; its "meaning" is the mean of its layers, and it has no context.

        Args:
            backbone: A folder, a hub id or `embedded:NAME`.
            revision: The revision of a hub id.
            first_layer: The lowest layer of the mean; by default that of the top half.
            last_layer: The highest layer of the mean; by default the last one.
            device, dtype, batch_tokens, threads: As in `from_pretrained`.

        Returns:
            The frozen model, with the methods of a trained one.

        Raises:
            ConfigError: If the model is not an encoder like BERT, or lacks one of the layers.
            StageError: If the model cannot be loaded, or the device does not support `dtype`.

        >>> WordDistiller.baseline("embedded:minilm").outputs
        ('baseline',)
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
        """Upload the model, but not its frozen model, to the hub.

        Args:
            repository: Its name there, `owner/name`; created if it does not exist.
            private: Whether a new repository is private.
            token: The token to log in with; by default the one that the environment or an earlier login gives.

        Returns:
            The address of the repository.

        Raises:
            ValueError: If this is a baseline, which has nothing to upload.
            huggingface_hub.errors.HfHubHTTPError: If the hub refuses the upload.
        """
        return push_saved(repository, self._trained, private, token)

    @property
    def _trained(self) -> SavedModel:
        if self._saved is None:
            raise ValueError("a baseline has nothing to save: it is just the frozen model")
        return self._saved

    @property
    def config(self) -> dict[str, Any]:
        """Return the model's backbone, layers, training and validation; empty for a baseline."""
        return {} if self._saved is None else dict(self._saved.config)

    @property
    def model(self) -> Distillers | None:
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

        >>> model = WordDistiller.from_pretrained("embedded:minilm-wic")
        >>> model.encode("The bank raised its rates.", [(4, 8), (20, 25)]).shape  # both from one forward
        (2, 384)
        >>> meaning, context = model.encode("The bank raised its rates.", (4, 8), output="both")
        >>> model.encode("Bank.", (0, 9))
        Traceback (most recent call last):
        ...
        distiller.errors.SpanError: item 0: span is empty or outside the text: (0, 9) of 'Bank.', which has 5 characters
        """
        items, counts = items_of(texts, spans)
        kinds = self._vectors.kinds(output)
        parts = with_progress(self._vectors.words(items, kinds, batch_size), len(items), show_progress)
        vectors = [finished(part, normalize, convert_to) for part in self._vectors.collected(parts, kinds)]
        return answer([shaped(part, counts, isinstance(texts, str)) for part in vectors])

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

        Args:
            items: Pairs of a text and a span, (start, end) in characters; they may be endless.
            output, batch_size, normalize: As in `encode`.

        Returns:
            An iterator over the vectors (D,), in the order of the items; for "both", over pairs of them.

        Raises:
            ItemError: If an item cannot be encoded; it follows the vectors of all items before it.
            ValueError: If an option has no such value.

        >>> import itertools
        >>> model = WordDistiller.from_pretrained("embedded:minilm-wic")
        >>> endless = itertools.repeat(("The bank raised its rates.", (4, 8)))
        >>> next(model.encode_stream(endless)).shape
        (384,)
        """
        for parts in self._vectors.words(items, self._vectors.kinds(output), batch_size):
            for vectors in zip(*(finished(part, normalize, "numpy") for part in parts), strict=True):
                yield answer(list(vectors))

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
        """Encode words, each found in its text in upper or lower case.

        Args:
            words: One word or several.
            texts: The text of each word, which contains it exactly once.
            **options: As in `encode`.

        Returns:
            (D,) for one word, (N, D) for several; a pair of these for "both".

        Raises:
            WordNotFoundError: If a text does not contain its word.
            AmbiguousWordError: If a text contains its word more than once.
            ItemError: If a word cannot be encoded for another reason; the two above are kinds of it.
            ValueError: If words and texts differ in number, or an option has no such value.
        """
        if isinstance(words, str) != isinstance(texts, str):
            raise ValueError("give one word and one text, or lists of both")
        if isinstance(words, str):
            return self.encode(texts, find_word(str(texts), words), **options)
        if len(words) != len(texts):
            raise ValueError(f"{len(texts)} texts, but {len(words)} words")
        spans = [find_word(text, word, index) for index, (text, word) in enumerate(zip(texts, words, strict=True))]
        return self.encode(texts, spans, **options)

    def problems(self, items: Sequence[tuple[str, Span]]) -> list[ItemError | None]:
        """Return why each pair of text and span cannot be encoded, or None if it can, without running the frozen model.

        >>> model = WordDistiller.from_pretrained("embedded:minilm-wic")
        >>> [type(problem).__name__ for problem in model.problems([("The bank.", (4, 8)), ("The bank.", (8, 4))])]
        ['NoneType', 'SpanError']
        """
        problems = [problem_of(index, item) for index, item in enumerate(items)]
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
        """Encode whole texts: each vector is the mean of those of all word pieces of a text.

        Models of the objective `contrast` correct these pieces in their own way, so that the vector of a text is not
        the mean of the meaning vectors of its words.

        Args:
            texts: One text or several.
            output, normalize, convert_to, show_progress: As in `encode`.

        Returns:
            (D,) for one text, (N, D) for several; a pair of these for "both".

        Raises:
            EmptyTextError: If a text has no word pieces.
            ItemError: If a text is not a string.
            ValueError: If an option has no such value.

        >>> model = WordDistiller.from_pretrained("embedded:minilm-wic")
        >>> model.encode_sentences(["The bank raised its rates.", "They sat on the bank."]).shape
        (2, 384)
        """
        many = [texts] if isinstance(texts, str) else list(texts)
        kinds = self._vectors.kinds(output)
        parts = with_progress(self._vectors.sentences(many, kinds), len(many), show_progress)
        vectors = [finished(part, normalize, convert_to) for part in self._vectors.collected(parts, kinds)]
        return answer([shaped(part, None, isinstance(texts, str)) for part in vectors])

    @staticmethod
    def similarity(a: npt.ArrayLike | torch.Tensor, b: npt.ArrayLike | torch.Tensor) -> Vectors:
        """Compare vectors by their cosines.

        Args:
            a: N vectors (N, D), or one (D,).
            b: M vectors (M, D), or one (D,).

        Returns:
            The cosines (N, M) of all rows of `a` with all rows of `b`; (1, 1) for two vectors.

        Raises:
            ValueError: If the vectors have different dimensions.
        """
        first, second = (normalized(np.atleast_2d(np.asarray(vectors, np.float32))) for vectors in (a, b))
        cosines: Vectors = first @ second.T
        return cosines

    @classmethod
    def nearest(
        cls, query: npt.ArrayLike | torch.Tensor, candidates: npt.ArrayLike | torch.Tensor, k: int = 10
    ) -> tuple[npt.NDArray[np.int64], Vectors]:
        """Find the candidates most similar to each query, by their cosines.

        Args:
            query: N vectors (N, D), or one (D,).
            candidates: M vectors (M, D).
            k: How many candidates to find for each query; if there are fewer, all of them.

        Returns:
            Their row numbers (N, k) and cosines (N, k), the best first; those of equal cosine keep their order.

        Raises:
            ValueError: If `k` is negative, or the vectors have different dimensions.

        >>> rows, cosines = WordDistiller.nearest([1, 0], [[0, 1], [2, 0], [1, 1]], k=2)
        >>> rows.tolist(), cosines.round(2).tolist()
        ([[1, 2]], [[1.0, 0.7099999785423279]])
        """
        if k < 0:
            raise ValueError(f"k must be at least 0, not {k}")
        cosines = cls.similarity(query, candidates)
        best = np.argsort(-cosines, axis=1, kind="stable")[:, :k]
        return best, np.take_along_axis(cosines, best, 1)

    def distil(
        self, states: npt.NDArray[np.float32], kinds: Sequence[str], in_sentence: bool = False
    ) -> tuple[Vectors, ...]:
        """Turn layer states (N, L, D) into vectors (N, D) of each of the kinds; see `outputs`.

        Those of pieces `in_sentence` are to be averaged: their mean is the vector of a whole text.
        """
        return self._vectors.distil(states, kinds, in_sentence)

    def sentence_vectors(self, texts: Sequence[str]) -> tuple[dict[str, Vectors], list[int]]:
        """Return all kinds of vectors of whole texts from one run, and which texts have zeros for lack of pieces."""
        unread: list[int] = []
        made = self._vectors.collected(self._vectors.sentences(texts, self.outputs, unread), self.outputs)
        return dict(zip(self.outputs, made, strict=True)), unread
