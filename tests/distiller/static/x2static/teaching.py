"""A small corpus of paragraphs, a tiny frozen model that knows its letters, and its vectors the plain way."""

import numpy as np
import torch
import transformers

from corpusgen.engine import LocalExecutor, RunSettings
from corpusgen.store.products import open_product, read_vocabulary
from distiller.settings import BackboneSettings
from distiller.static.settings import X2StaticSettings
from distiller.static.x2static.teacher import Teacher, make_sentences, open_sentences
from tests.testing import paragraph_builds

LAYERS, DIMENSION, LONGEST = 3, 16, 64
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
WORDS = ["the", "river", "bank", "fell", "again", "grew", "percent", "money", "they", "it", "mill", "##s", "##ed"]


def save_frozen(folder):
    """A BERT of random weights whose pieces are marks, letters and a few words."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *".,!?'-“”", *LETTERS]
    pieces += [f"##{letter}" for letter in LETTERS] + WORDS
    tokenizer = transformers.BertTokenizer(vocab={piece: n for n, piece in enumerate(dict.fromkeys(pieces))})
    tokenizer.model_max_length = LONGEST
    torch.manual_seed(3)
    config = transformers.BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=DIMENSION,
        num_hidden_layers=LAYERS,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=LONGEST,
    )
    transformers.BertModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def save_corpus(folder, texts=None, **others):
    """The root of a corpus of paragraphs; by default of the shared ones."""
    if texts is not None:
        import json

        folder.mkdir(exist_ok=True)
        (folder / "articles.jsonl").write_text(
            "".join(json.dumps({"id": str(n), "title": "T", "text": text}) + "\n" for n, text in enumerate(texts))
        )
    return paragraph_builds.make(folder, **others).url


def teacher(corpus, model, backbone=None, preset="paper", **given):
    settings = X2StaticSettings(**given).completed(preset)
    return Teacher(corpus, BackboneSettings(model=model, **(backbone or {})), settings)


def taught(asked, executor=None):
    """The store of sentences, its rows and its rejects by sentence."""
    from corpusgen.store import CommittedTable

    store, _ = make_sentences(asked, executor or LocalExecutor(), RunSettings())
    rows = open_sentences(store).to_table().to_pylist()
    rejects = CommittedTable(store, "sentences", "rejects").to_table().to_pylist()
    found = {(row["id"], row["sentence"]): (np.frombuffer(row["context"], np.float16), row["words"]) for row in rows}
    return store, found, {(row["id"], row["sentence"]): row["reason"] for row in rejects}


def by_the_book(corpus, model, contexts, weights, special_tokens, layer=LAYERS):
    """The same from plain transformers, one text at a time: {(paragraph, sentence): (vector, words)}."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    encoder = transformers.AutoModel.from_pretrained(model, dtype=torch.float32).eval()
    words, _ = read_vocabulary(corpus)
    found = {}
    for row in open_product(corpus, "paragraphs").to_table().to_pylist():
        tokens = list(zip(row["token_starts"], row["token_ends"], strict=True))
        for number, span in enumerate(zip(row["sentence_starts"], row["sentence_ends"], strict=True)):
            own = [(a, b) for a, b in tokens if span[0] <= a and b <= span[1]]
            text, moved = (row["text"], 0) if contexts == "paragraph" else (row["text"][slice(*span)], span[0])
            read = tokenizer(text.lower(), return_offsets_mapping=True)
            with torch.no_grad():
                hidden = encoder(torch.tensor([read["input_ids"]]), output_hidden_states=True).hidden_states
            states = hidden[layer][0].numpy()
            spans = [(a + moved, b + moved) if a < b else None for a, b in read["offset_mapping"]]
            special = [states[i] for i, at in enumerate(spans) if at is None]
            groups = [[at is not None and a <= at[0] < b for at in spans] for a, b in own]
            if weights == "word":
                parts = [states[group].mean(0) for group in map(np.array, groups)]
            else:
                parts = list(states[np.any(groups, axis=0)])
            vector = np.mean(parts + (special if special_tokens else []), axis=0)
            named = [row["text"][a:b].lower() for a, b in own]
            found[row["id"], number] = vector, [words.index(word) for word in named if word in words]
    return found
