"""Frozen models of several families, tiny, the states of their words the plain way, and texts for them."""

import functools
import random

import torch
import transformers

from tests.testing.tiny_masked_models import FAMILIES as ALL_FAMILIES
from tests.testing.tiny_masked_models import sentence

FAMILIES = {
    family: ALL_FAMILIES[family] for family in ("bert", "distilbert", "roberta", "modernbert", "xlm-roberta", "albert")
}
LONGEST = 128
LAYERS = 4


def save(family, folder, layers=LAYERS):
    kind, tokenizer_for, sizes = FAMILIES[family]
    tokenizer = tokenizer_for()
    tokenizer.model_max_length = LONGEST
    depth = {"n_layers" if family == "distilbert" else "num_hidden_layers": layers}
    # RoBERTa's family loses as many positions as the padding token's id, and one more.
    positions = {"max_position_embeddings": LONGEST + (2 if "roberta" in family else 0)}
    ids = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("pad", "bos", "eos", "cls", "sep")}
    config = {**sizes, **depth, **positions, **ids, "vocab_size": len(tokenizer) + 3}
    torch.manual_seed(7)
    config = getattr(transformers, f"{kind}Config")(**config)
    getattr(transformers, f"{kind}ForMaskedLM")(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@functools.cache
def reference(folder):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    return tokenizer, transformers.AutoModel.from_pretrained(folder, dtype=torch.float32).eval()


def plain(folder, text, span, layers):
    """One text, nothing shared, padded, sorted or cut."""
    offsets = reference(folder)[0](text, return_offsets_mapping=True)["offset_mapping"]
    pieces = [i for i, (a, b) in enumerate(offsets) if set(range(a, b)) & set(range(*span))]
    return plain_pieces(folder, reference(folder)[0](text)["input_ids"], pieces, layers)


def plain_pieces(folder, ids, pieces, layers):
    with torch.no_grad():
        hidden = reference(folder)[1](input_ids=torch.tensor([ids]), output_hidden_states=True).hidden_states
    return torch.stack([hidden[layer][0, pieces].mean(0) for layer in layers]).numpy()


def words_of(text):
    """The spans of the words between spaces, without the full stop."""
    spans, start = [], 0
    for word in text.removesuffix(".").split(" "):
        spans.append((start, start + len(word)))
        start += len(word) + 1
    return spans


def some_items(count, seed=0):
    chance = random.Random(seed)
    texts = [sentence(chance, chance.randrange(3, 14)) for _ in range(count)]
    return texts, [chance.choice(words_of(text)) for text in texts]


def seen_by(backbone):
    """All inputs that the model gets from now on: their shapes."""
    shapes = []
    backbone._model.register_forward_pre_hook(
        lambda _, args, kwargs: shapes.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
    )
    return shapes
