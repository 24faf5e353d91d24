"""`StaticVectors`, the public class of static word vectors: one vector per word, the same in every text."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from corpusgen.errors import StageError
from corpusgen.models.vectors import Source, open_source
from corpusgen.models.vectors.tables import Table
from corpusgen.models.vectors.vocabulary import Rows, Vocabulary
from distiller.errors import EmptyTextError, UnknownWordError
from distiller.inference.texts import check_text, quoted
from distiller.static.card import Card
from distiller.static.files import Counts, Format, format_of, is_writable, read_counts, write_vectors
from distiller.static.maps import Floats, Matrix, Picked, units

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_ROWS_AT_ONCE = 8192
_TEXTS_AT_ONCE = 2048


class Neighbour(NamedTuple):
    """A word and its cosine with what was asked for."""

    word: str
    cosine: float


class StaticVectors:
    """Words and their vectors.

    `load` reads a file, `of` takes arrays:

    >>> vectors = StaticVectors.of(["king", "queen", "man", "woman"], [[2, 0, 1], [2, 2, 1], [1, 0, 2], [1, 2, 2]])
    >>> len(vectors), vectors.dimension, "king" in vectors, vectors["king"].tolist()
    (4, 3, True, [2.0, 0.0, 1.0])
    >>> [word for word, _ in vectors.nearest("king", k=2)]
    ['man', 'queen']
    >>> [word for word, _ in vectors.analogy("man", "woman", "king", k=1)]
    ['queen']
    >>> vectors.encode("The king, the queen").tolist()
    [2.0, 1.0, 1.0]

    Words are looked up as they are written. A source may know more words than its vocabulary has: a model of fastText
    has a vector for any word, from its sub-words. Shapes: N words or texts, D dimensions.
    """

    def __init__(self, source: Source, counts: Counts | None = None) -> None:
        if counts is not None and len(counts) != len(source.vocabulary):
            raise ValueError(f"{len(source.vocabulary)} words, but {len(counts)} counts")
        self.source = source
        self.counts = counts

    @classmethod
    def of(
        cls, words: Sequence[str], vectors: npt.ArrayLike, counts: Sequence[int] | Counts | None = None
    ) -> StaticVectors:
        """Make a table of arrays.

        Args:
            words: The words, by convention the most frequent first; of equal ones the first counts.
            vectors: Their vectors (N, D).
            counts: How often each word occurs in the texts that the vectors were made of, if known.

        Returns:
            The table.

        Raises:
            ValueError: If the numbers of words, vectors and counts differ.
        """
        matrix = np.asarray(vectors)
        if matrix.ndim != 2 or len(matrix) != len(words):
            raise ValueError(f"{len(words)} words, but vectors of shape {matrix.shape}; expected (words, dimensions)")
        floats = matrix if matrix.dtype.kind == "f" else matrix.astype(np.float32)
        return cls(Table(Vocabulary.of(words), floats), None if counts is None else np.asarray(counts, np.int64))

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, words: str | None = None, max_words: int | None = None
    ) -> StaticVectors:
        """Load vectors from a file or folder, on a disk or on S3.

        Args:
            path: word2vec's text or binary format, GloVe's or fastText's text (these also gzipped), a model of fastText
                (.bin, .ftz), a numpy matrix, or a folder of model2vec with one vector per word. Matrices, folders and
                models of fastText are mapped: they take memory only as they are used.
            words: The file of words of a numpy matrix, if it is not next to it.
            max_words: Load only the first words, by convention the most frequent.

        Returns:
            The vectors.

        Raises:
            StageError: If there are no vectors there, or the file is damaged or of an unknown format.
        """
        name = os.fspath(path)
        source = open_source(name, words, max_words)
        return cls(source, read_counts(name, source.vocabulary))

    def save(self, path: str | os.PathLike[str], format: Format | None = None, card: Card | None = None) -> None:  # noqa: A002 (its plain name)
        """Write the vectors to a file or folder, on a disk or on S3, with a card beside them.

        Args:
            path: The file; for "model2vec", the folder.
            format: "text" and "binary" (word2vec's), "npy" (a matrix X.npy and its words, X.words.txt) or "model2vec",
                which the package of that name loads. By default the ending says it: .txt and .vec, .bin, .npy, none.
            card: What the card says: how the vectors were made, and how good they are.

        Raises:
            ConfigError: If a word cannot be written (see `writable`), the folder holds something else, or the ending
                says nothing.
            StoreError: If there is no permission or no space to write.
        """
        text = (card or Card()).text(len(self), self.dimension)
        name = os.fspath(path)
        form = format or format_of(name)
        write_vectors(name, form, list(self.words), self.dimension, self.blocks(), self.counts, text)

    def writable(self) -> tuple[StaticVectors, list[str]]:
        """Return the table without the words that files cannot hold, and these words.

        They are empty, or contain white space or control characters, or occur a second time.
        """
        encoded = self._vocabulary.encoded(range(len(self)))
        own = self._vocabulary.rows(encoded) == np.arange(len(self))  # the first of equal words
        kept = own & np.fromiter(map(is_writable, self.words), np.bool_, len(self))
        if kept.all():
            return self, []
        rows = np.flatnonzero(kept)
        counts = None if self.counts is None else self.counts[rows]
        left_out = [self.words[row] for row in np.flatnonzero(~kept).tolist()]
        return StaticVectors(Picked.of(self.source, rows), counts), left_out

    # ------------------------------------------------------------------- words

    @property
    def words(self) -> Sequence[str]:
        """Return the words, in the order of `vectors`."""
        return self._vocabulary

    @property
    def dimension(self) -> int:
        """Return the dimension D of a vector."""
        return self.source.dimension

    @cached_property
    def vectors(self) -> npt.NDArray[np.floating[Any]]:
        """Return the vectors of all words, (N, D), as the file has them; it may be mapped and not writable."""
        if isinstance(self.source, Table):
            return self.source.matrix[: len(self)]
        return np.concatenate([np.zeros((0, self.dimension), np.float32), *self.blocks()])

    def blocks(self) -> Iterator[Floats]:
        """Yield the vectors of all words, some at a time, so that they need not be in memory together."""
        for start in range(0, len(self), _ROWS_AT_ONCE):
            yield self.at(np.arange(start, min(start + _ROWS_AT_ONCE, len(self))))

    def at(self, rows: Rows) -> Floats:
        """Return the vectors of some rows of the table."""
        if isinstance(self.source, Table):  # which does not need the words, and to find them takes longer
            return self._checked(self.source.vectors([b""] * len(rows), rows), lambda row: self.words[int(rows[row])])
        return self._vectors(self._vocabulary.encoded(rows.tolist()), rows)

    def __len__(self) -> int:
        return len(self._vocabulary)

    def __contains__(self, word: object) -> bool:
        """Return whether a word is in the vocabulary itself; sub-words do not count."""
        return isinstance(word, str) and bool(self._rows([word])[0] >= 0)

    def __getitem__(self, word: str) -> Floats:
        """Return the vector (D,) of a word; raise UnknownWordError, a KeyError, if it has none."""
        vectors, found = self.lookup([word])
        if not found[0]:
            lower = f", but {quoted(word.lower())} has one" if word.lower() in self else ""
            raise UnknownWordError(f"{quoted(word)} has no vector{lower}")
        vector: Floats = vectors[0]
        return vector

    def lookup(self, words: Sequence[str]) -> tuple[Floats, npt.NDArray[np.bool_]]:
        """Return the vectors (N, D) of any words, and which of them have one; the others are zero."""
        rows = self._rows(words)
        vectors = self._vectors([_encoded(word) for word in words], rows)
        return vectors, (rows >= 0) | vectors.any(axis=1)

    def knows(self, words: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Return which words are in the vocabulary itself; others may have vectors from their sub-words."""
        return self._rows(words) >= 0

    # ------------------------------------------------------------- comparisons

    def similarity(self, first: str, second: str) -> float:
        """Return the cosine of two words; raise UnknownWordError if one has no vector."""
        return float(units(self[first]) @ units(self[second]))

    def nearest(self, query: str | npt.ArrayLike, k: int = 10) -> list[Neighbour]:
        """Return the words most similar to a word, which is not one of them, or to a vector (D,).

        Args:
            query: A word or a vector.
            k: How many; if there are fewer, all.

        Returns:
            The words with their cosines, the best first; those of equal cosine in the order of the table.

        Raises:
            UnknownWordError: If the word has no vector.
            ValueError: If `k` is negative, or the vector has another dimension.
        """
        if isinstance(query, str):
            return self._nearest(self[query], k, [query])
        vector = np.asarray(query, np.float64)
        if vector.shape != (self.dimension,):
            raise ValueError(
                f"expected one vector of {self.dimension} dimensions, got an array of shape {vector.shape}"
            )
        return self._nearest(vector, k, [])

    def analogy(self, a: str, b: str, c: str, k: int = 10) -> list[Neighbour]:
        """Return what is to `c` as `b` is to `a`: the words nearest to b − a + c (3CosAdd), without these three.

        Args:
            a, b, c: Three words.
            k: How many words to return.

        Returns:
            The words with their cosines, the best first.

        Raises:
            UnknownWordError: If one of the words has no vector.
            ValueError: If `k` is negative.
        """
        first, second, third = (units(self[word]) for word in (a, b, c))
        return self._nearest(second - first + third, k, [a, b, c])

    def _nearest(self, query: npt.NDArray[np.floating[Any]], k: int, without: Sequence[str]) -> list[Neighbour]:
        if k < 0:
            raise ValueError(f"k must be at least 0, not {k}")
        unit = units(query).astype(np.float32)
        cosines = np.concatenate([np.zeros(0, np.float32), *(block @ unit for block in self.blocks())]) / self._lengths
        rows = self._rows(without)
        cosines[rows[rows >= 0]] = -np.inf
        best = np.argsort(-cosines, kind="stable")[: min(k, len(self) - len(set(rows[rows >= 0].tolist())))]
        return [Neighbour(self.words[row], float(cosines[row])) for row in best]

    @cached_property
    def _lengths(self) -> Floats:
        lengths = np.concatenate([np.zeros(0), *(np.linalg.norm(block, axis=1) for block in self.blocks())])
        return np.where(lengths == 0, np.inf, lengths).astype(np.float32)

    # -------------------------------------------------------------------- texts

    def split(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the words of each text, those without a vector included, in lower case if all words here are."""
        unknown = self._tokenizer.token_to_id(self._tokenizer.model.unk_token)
        lower = self._tokenizer.normalizer is not None
        of_texts = []
        for text, read in zip(texts, self._tokenizer.encode_batch(list(texts), add_special_tokens=False), strict=True):
            parts = zip(read.ids, read.tokens, read.offsets, strict=True)
            words = [text[slice(*span)] if number == unknown else token for number, token, span in parts]
            of_texts.append([word.lower() for word in words] if lower else words)
        return of_texts

    def encode(
        self, texts: str | Sequence[str], *, sif: float | None = None, normalize: bool = False, zeros: bool = False
    ) -> Floats:
        """Encode whole texts: each vector is the weighted mean of those of its words; words without one do not count.

        Args:
            texts: One text or several.
            sif: The constant a of smooth inverse frequency, such as 1e-3: a word weighs a / (a + p), where p is its
                share of all words by `counts`. By default all weigh alike.
            normalize: Whether to scale vectors to unit length.
            zeros: Whether a text without any word that has a vector gets zeros, instead of being an error.

        Returns:
            (D,) for one text, (N, D) for several.

        Raises:
            EmptyTextError: If a text has no word with a vector.
            ItemError: If a text is not a string.
            ValueError: If `sif` is given, but there are no counts, or it is not above zero.
        """
        many = [texts] if isinstance(texts, str) else list(texts)
        if sif is not None and (self.counts is None or sif <= 0):
            raise ValueError("sif needs the counts of the words" if sif > 0 else f"sif must be above 0, not {sif}")
        made = np.zeros((len(many), self.dimension), np.float32)
        for start in range(0, len(many), _TEXTS_AT_ONCE):
            some = [
                self._readable(start + n, text, zeros) for n, text in enumerate(many[start : start + _TEXTS_AT_ONCE])
            ]
            means, without = self._means(some, sif)
            if without and not zeros:
                raise EmptyTextError(start + without[0], f"no word of {quoted(some[without[0]])} has a vector")
            made[start : start + len(some)] = units(means) if normalize else means
        return made[0] if isinstance(texts, str) else made

    @staticmethod
    def _readable(index: int, text: Any, zeros: bool) -> str:
        try:
            check_text(index, text)
        except EmptyTextError:
            if not zeros:
                raise
        return str(text)

    def _means(self, texts: Sequence[str], sif: float | None) -> tuple[Matrix, list[int]]:
        """Return the weighted means, and which texts have nothing to take a mean of."""
        of_texts = self.split(texts)
        words = list(dict.fromkeys(word for of_text in of_texts for word in of_text))
        vectors, found = self.lookup(words)
        weights = found * (1.0 if sif is None else self._sif_weights(words, sif))
        number_of = {word: number for number, word in enumerate(words)}
        made, without = np.zeros((len(texts), self.dimension)), []
        for index, of_text in enumerate(of_texts):
            numbers = [number_of[word] for word in of_text]
            total = weights[numbers].sum()
            if total:
                made[index] = weights[numbers] @ vectors[numbers] / total
            else:
                without.append(index)
        return made, without

    def _sif_weights(self, words: Sequence[str], a: float) -> Matrix:
        assert self.counts is not None
        rows = self._rows(words)
        shares = np.where(rows >= 0, self.counts[rows], 0) / max(1, self.counts.sum())
        return np.asarray(a / (a + shares))

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        from distiller.static.tokens import make_tokenizer

        return make_tokenizer(list(self.words))

    # ------------------------------------------------------------------ look-up

    @property
    def _vocabulary(self) -> Vocabulary:
        return self.source.vocabulary

    def _rows(self, words: Sequence[str]) -> Rows:
        return self._vocabulary.rows([_encoded(word) for word in words])

    def _vectors(self, words: Sequence[bytes], rows: Rows) -> Floats:
        if not len(words):
            return np.zeros((0, self.dimension), np.float32)
        return self._checked(self.source.vectors(words, rows), lambda row: words[row].decode(errors="replace"))

    @staticmethod
    def _checked(vectors: Floats, word_of: Callable[[int], str]) -> Floats:
        finite = np.isfinite(vectors).all(axis=1)
        if not finite.all():
            word = word_of(int(np.argmin(finite)))
            raise StageError(
                f"the vector of {word!r} is not a number, or beyond the range of float32: the file is damaged; make or "
                "download it again"
            )
        return vectors


def _encoded(word: str) -> bytes:
    return word.encode("utf-8", "surrogatepass")
