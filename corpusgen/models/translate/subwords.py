"""Split texts into the sub-words that a model was trained on, and join them again.

These are SentencePiece, byte pairs or plain words. A model's vocabulary shows which it needs; their files are in the
model's folder or next to it.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from corpusgen.config.translator import TranslatorSettings
from corpusgen.errors import StageError
from corpusgen.extras import require

SENTENCEPIECE_PAIR = ("source.spm", "target.spm")
SENTENCEPIECE_SHARED = ("sentencepiece.bpe.model", "sentencepiece.model", "spm.model")
BYTE_PAIR_CODES = ("bpecodes", "bpe.codes", "codes", "code")
SUBWORD_FILES = (*SENTENCEPIECE_PAIR, *SENTENCEPIECE_SHARED, *BYTE_PAIR_CODES)

_WORD_START = "▁"
_WORD_GOES_ON = "@@"
_WORD_END = "</w>"
_WORDS_REMEMBERED = 1 << 16


class Subwords(Protocol):
    """A codec that splits texts of the source language and joins sub-words of the target language."""

    def encode(self, text: str) -> list[str]:
        """Split a text into sub-words."""

    def decode(self, pieces: Sequence[str]) -> str:
        """Join sub-words into a text."""

    def encode_output(self, text: str) -> list[str]:
        """Split a text of the target language, as the model would write it."""


def open_subwords(folder: Path, vocabulary: Collection[str], settings: TranslatorSettings) -> Subwords:
    """Open the codec that splits texts into the pieces of this vocabulary."""
    files = find_subword_files(folder)
    subwords: Subwords
    if _is_frequent(piece.startswith(_WORD_START) for piece in vocabulary):
        shared = next((files[name] for name in SENTENCEPIECE_SHARED if name in files), None)
        source, target = (files.get(name, shared) for name in SENTENCEPIECE_PAIR)
        if source is None or target is None:
            raise _missing("SentencePiece", (" and ".join(SENTENCEPIECE_PAIR), *SENTENCEPIECE_SHARED), folder)
        subwords = SentencePieces(source, target)
    elif _is_frequent(piece.endswith(_WORD_GOES_ON) for piece in vocabulary):
        codes = next((files[name] for name in BYTE_PAIR_CODES if name in files), None)
        if codes is None:
            raise _missing("byte pairs (@@)", BYTE_PAIR_CODES, folder)
        subwords = BytePairs(codes)
    else:
        subwords = Words()
    if settings.tokenizer == "moses":
        assert settings.source
        assert settings.target
        return MosesWords(subwords, settings.source, settings.target)
    return subwords


def find_subword_files(folder: Path) -> dict[str, Path]:
    """Return the sub-word files in a model's folder or, if there are none, next to it."""
    for near in (folder, folder.absolute().parent):
        if found := {name: near / name for name in SUBWORD_FILES if (near / name).is_file()}:
            return found
    return {}


def _is_frequent(signs: Iterable[bool]) -> bool:
    """Return whether a sign is common in a vocabulary, not a stray symbol."""
    found = list(signs)
    return sum(found) > len(found) / 20


def _missing(kind: str, names: Sequence[str], folder: Path) -> StageError:
    return StageError(
        f"{folder}: the model's vocabulary uses {kind}, but the file is missing; "
        f"put {', or '.join(names)} into the folder or next to it"
    )


class SentencePieces:
    """SentencePiece models, one for each language or the same for both."""

    def __init__(self, source: Path, target: Path) -> None:
        require("a translator with SentencePiece", "sentencepiece", extra="corpus")
        import sentencepiece

        try:
            self._source: Any = sentencepiece.SentencePieceProcessor(model_file=str(source))
            self._target: Any = sentencepiece.SentencePieceProcessor(model_file=str(target))
        except (OSError, RuntimeError) as error:
            raise StageError(f"cannot read {source} and {target} as SentencePiece models: {error}") from error

    def encode(self, text: str) -> list[str]:
        """Split a text into pieces."""
        return list(self._source.encode(text, out_type=str))

    def encode_output(self, text: str) -> list[str]:
        """Split a text of the target language into pieces."""
        return list(self._target.encode(text, out_type=str))

    def decode(self, pieces: Sequence[str]) -> str:
        """Join pieces into a text, including pieces that only the source language's model has."""
        return str(self._target.decode(list(pieces))).replace(_WORD_START, " ").strip()


class BytePairs:
    """Byte pairs, with the codes of subword-nmt (versions 0.1 and 0.2) or fastBPE, on words between spaces."""

    def __init__(self, codes: Path) -> None:
        lines = codes.read_text(encoding="utf-8").split("\n")
        has_version = lines[0].startswith("#version")
        merges = [line.strip(" \r").split(" ") for line in lines[has_version:] if line.strip()]
        if not all(len(merge) in (2, 3) for merge in merges):
            raise StageError(f"{codes}: not a file of BPE codes from subword-nmt or fastBPE")
        self._ranks: dict[tuple[str, str], int] = {}
        for rank, (left, right, *_count) in enumerate(merges):
            self._ranks.setdefault((left, right), rank)
        # The first version of subword-nmt, which names no version, makes the end of a word a symbol of its own. fastBPE
        # names no version either, but counts the pairs.
        self._end_is_apart = not has_version and all(len(merge) == 2 for merge in merges)
        self._pieces = functools.lru_cache(_WORDS_REMEMBERED)(self._split)

    def encode(self, text: str) -> list[str]:
        """Split a text into pieces; all but the last piece of a word end in @@."""
        return [piece for word in text.split() for piece in self._pieces(word)]

    def encode_output(self, text: str) -> list[str]:
        """Split a text of either language in the same way."""
        return self.encode(text)

    def decode(self, pieces: Sequence[str]) -> str:
        """Join pieces into a text."""
        return f"{' '.join(pieces)} ".replace(f"{_WORD_GOES_ON} ", "").strip()

    def _split(self, word: str) -> list[str]:
        parts = [*word, _WORD_END] if self._end_is_apart else [*word[:-1], word[-1] + _WORD_END]
        while pairs := [pair for pair in itertools.pairwise(parts) if pair in self._ranks]:
            parts = list(_merged(parts, min(pairs, key=self._ranks.__getitem__)))
        parts[-1] = parts[-1].removesuffix(_WORD_END)
        whole = [part for part in parts if part]
        return [part + _WORD_GOES_ON for part in whole[:-1]] + whole[-1:]


def _merged(parts: Sequence[str], pair: tuple[str, str]) -> Iterator[str]:
    """Yield the parts, with every occurrence of the pair joined."""
    index = 0
    while index < len(parts):
        joined = tuple(parts[index : index + 2]) == pair
        yield "".join(pair) if joined else parts[index]
        index += 2 if joined else 1


class Words:
    """Plain words between spaces, without sub-words."""

    def encode(self, text: str) -> list[str]:
        """Split a text into words."""
        return text.split()

    def encode_output(self, text: str) -> list[str]:
        """Split a text of either language in the same way."""
        return self.encode(text)

    def decode(self, pieces: Sequence[str]) -> str:
        """Join words with spaces."""
        return " ".join(pieces)


class MosesWords:
    """Moses' tokenizer around the sub-words, with the options that fairseq uses."""

    def __init__(self, subwords: Subwords, source: str, target: str) -> None:
        try:
            import sacremoses
        except ImportError as missing:
            raise StageError("tokenizer: moses needs sacremoses: pip install sacremoses") from missing
        self._subwords = subwords
        self._split: Any = sacremoses.MosesTokenizer(source)
        self._join: Any = sacremoses.MosesDetokenizer(target)

    def encode(self, text: str) -> list[str]:
        """Split a text into words and marks, and these into sub-words."""
        return self._subwords.encode(self._split.tokenize(text, aggressive_dash_splits=True, return_str=True))

    def encode_output(self, text: str) -> list[str]:
        """Split a word of the target language into sub-words."""
        return self._subwords.encode_output(text)

    def decode(self, pieces: Sequence[str]) -> str:
        """Join sub-words into a text with its marks where they belong."""
        return str(self._join.detokenize(self._subwords.decode(pieces).split()))
