"""Masked language models of every family, tiny and with small vocabularies, and texts of their words."""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

WORDS = ["the", "a", "small", "old", "river", "town", "castle", "garden", "people", "many", "often", "walked", "stood"]
WORDS += ["built", "café", "naïve", "Zürich", "Paris", "London", "France", "king", "queen", "wrote", "letter", "famous"]
WORDS += ["music", "played", "quickly", "beautiful", "mountain", "winter", "summer"]
TOKENS = [*WORDS, "river's", "e-mail", "42", "1999", "The"]
LETTERS = sorted({*"".join(TOKENS), *"().,", "T"})
COMPOUND = "gardenwinter"  # of several pieces in every vocabulary
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]


def numbered(pieces: list[str]) -> dict[str, int]:
    return {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}


def wordpiece(lower: bool) -> Any:
    def plain(text: str) -> str:
        return unicodedata.normalize("NFD", text.lower()).encode("ascii", "ignore").decode() if lower else text

    letters = [plain(letter) for letter in LETTERS]
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused1]", "1999", *letters]
    pieces += [f"##{letter}" for letter in letters] + ["##ing", *map(plain, WORDS)]
    return transformers.BertTokenizer(vocab=numbered(pieces), do_lower_case=lower)


def byte_level_pieces() -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Pieces and merges that build each word letter by letter, with a space before it and without."""
    split = pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str
    merges = []
    for text in [*(f" {word}" for word in WORDS), *WORDS]:
        ((piece, _),) = split(text)
        merges += [(piece[:end], piece[end]) for end in range(1, len(piece))]
    merges = list(dict.fromkeys(merges))
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    return numbered([*SPECIAL, "<mask>", *alphabet, *(a + b for a, b in merges)]), merges


def byte_level() -> Any:
    vocabulary, merges = byte_level_pieces()
    return transformers.RobertaTokenizer(vocab=vocabulary, merges=merges)


def byte_level_untrimmed() -> Any:
    """Offsets that take in the space before a word."""
    vocabulary, merges = byte_level_pieces()
    tokenizer = Tokenizer(models.BPE(vocabulary, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    ends = [(name, vocabulary[name]) for name in ("<s>", "</s>")]
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=ends)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, mask_token="<mask>", pad_token="<pad>", unk_token="<unk>"
    )


def sentencepiece() -> Any:
    scores = dict.fromkeys(SPECIAL, 0.0) | dict.fromkeys(LETTERS, -9.0) | {"▁": -8.0}
    scores |= {f"▁{word}": -5.0 for word in WORDS} | dict.fromkeys(WORDS[5:20], -6.0)
    return transformers.XLMRobertaTokenizer(vocab=list(scores.items()))


def sentence(chance: random.Random, count: int) -> str:
    return " ".join(chance.choices(TOKENS, k=count)) + "."


SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 128,
    "initializer_range": 0.5,  # else all words are nearly as probable
}
DISTILBERT = {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24, "max_position_embeddings": 128}
FAMILIES: dict[str, tuple[str, Callable[[], Any], dict[str, Any]]] = {
    "bert": ("Bert", lambda: wordpiece(True), SIZES),
    "bert-cased": ("Bert", lambda: wordpiece(False), SIZES),
    "distilbert": ("DistilBert", lambda: wordpiece(False), {**DISTILBERT, "initializer_range": 0.5}),
    "electra": ("Electra", lambda: wordpiece(True), {**SIZES, "embedding_size": 16}),
    "roberta": ("Roberta", byte_level, SIZES),
    "modernbert": ("ModernBert", byte_level_untrimmed, {**SIZES, "global_attn_every_n_layers": 2}),
    "xlm-roberta": ("XLMRoberta", sentencepiece, SIZES),
    "albert": ("Albert", sentencepiece, {**SIZES, "embedding_size": 16}),
    "deberta": ("DebertaV2", sentencepiece, SIZES),
}


def save(family: str, folder: Path) -> Path:
    kind, tokenizer_for, sizes = FAMILIES[family]
    tokenizer = tokenizer_for()
    ids = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("pad", "bos", "eos", "cls", "sep")}
    # ModernBERT's vocabulary is larger than its tokenizer's; so are all of ours.
    config = getattr(transformers, f"{kind}Config")(vocab_size=len(tokenizer) + 3, **sizes, **ids)
    torch.manual_seed(7)
    getattr(transformers, f"{kind}ForMaskedLM")(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


TEXTS = [
    "The small town (Paris) stood.",
    "Paris often played beautiful music.",
    "Many people walked the old garden in 1999.",
    "Zürich naïve café.",
    "The queen wrote a letter, the king walked quickly and the people of the old town built a castle.",
]
TARGETS = ["Paris", "Paris", "garden", "café", "castle"]
SPANS = [(text.index(word), text.index(word) + len(word)) for text, word in zip(TEXTS, TARGETS, strict=True)]


def masked_by_hand(tokenizer: Any, text: str, span: tuple[int, int]) -> tuple[list[int], int, list[str]]:
    """Piece by piece: ids with masks, the first mask's position, and the target's pieces."""
    encoded = tokenizer(text, return_offsets_mapping=True)
    pieces = tokenizer.convert_ids_to_tokens(encoded["input_ids"])
    letters = [set(range(a, b)) - {i for i, c in enumerate(text) if c == " "} for a, b in encoded["offset_mapping"]]
    target = [index for index, some in enumerate(letters) if some & set(range(*span))]
    ids = [tokenizer.mask_token_id if index in target else id_ for index, id_ in enumerate(encoded["input_ids"])]
    return ids, target[0], [pieces[index] for index in target]
