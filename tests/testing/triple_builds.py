"""Everything a build of triples needs, tiny: text, vectors, and a masked LM with random weights."""

import numpy as np
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

NOUNS = ("river", "water", "stream", "flood", "wind", "storm", "garden", "forest", "village", "farmer", "teacher")
VERBS = ("took", "moved", "carried", "dropped", "lifted", "crossed", "watched", "painted", "followed", "covered")
PLACES = ("valley", "meadow", "harbour", "market", "station", "castle", "bridge", "island")
FRAME = "The {} near the old {} {} some of the {} away and laid it down again where the tall willows grow today."
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def sentences(number, seed=0):
    random = np.random.default_rng(seed)
    texts = []
    for _ in range(number):
        a, b = random.choice(NOUNS, 2, replace=False)
        place, verb = random.choice(PLACES), random.choice(VERBS)
        texts.append(FRAME.format(a, place, verb, b))
    return texts


def vocabulary():
    return sorted({word for text in sentences(300) for word in text.lower().replace(".", "").split()})


def write_vectors(path, dimension=12):
    """Random vectors, similar enough that some cosines are high and some are low."""
    random = np.random.default_rng(1)
    words = vocabulary()
    matrix = random.normal(size=(len(words), dimension)) + 0.7
    lines = [f"{len(words)} {dimension}"]
    lines += [f"{word} {' '.join(f'{x:.4f}' for x in row)}" for word, row in zip(words, matrix, strict=True)]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def write_masked_lm(folder, cased=False):
    """One that knows all words; a cased one each of them with a capital too."""
    capitals = [word.capitalize() for word in vocabulary()] if cased else []
    words = [*SPECIAL, *vocabulary(), *capitals, ".", ",", "##s"]
    tokenizer = Tokenizer(models.WordPiece({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=not cased)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL, strict=True))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=16,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
        initializer_range=0.4,  # predictions that differ from place to place
    )
    BertForMaskedLM(config).save_pretrained(folder)
    return str(folder)


def settings(folder, **others):
    """The settings of a build in a folder that then has all it needs."""
    text = folder / "text.txt"
    if not text.exists():
        text.write_text("\n".join(sentences(120, seed=2)) + "\n")
        write_vectors(folder / "vectors.vec")
        write_masked_lm(folder / "masked")
    return {
        "store": str(folder / "store"),
        "source": {"kind": "text", "paths": [str(text)], "unit_bytes": 4000},
        "language": {"identify": False},
        "sample": {"size": 60, "vocabulary": 60},
        "generate": {"unit_targets": 20, "positives": "substitution"},
        "vectors": {"path": str(folder / "vectors.vec")},
        "masked": {"model": str(folder / "masked")},
        "rules": {"preset": "paper", "enrich_min_cosine": 0.3, "negative_max_cosine": 0.3},
        **others,
    }


AND_PAIRS = {
    "recipe": "words+discourse",
    "discourse": {"size": 30, "document_bytes": 2000, "max_overlap": 0.9},
}
ROUND_TRIP = {
    "generate": {"unit_targets": 20},
    "translation": {
        "pivot": "pt",
        "forward": {"backend": "bergamot", "source": "en", "target": "pt"},
        "back": {"backend": "bergamot", "source": "pt", "target": "en"},
    },
    "rules": {"preset": "paper", "align_min_cosine": 0.3, "enrich_min_cosine": 0.2, "negative_max_cosine": 0.3},
}
