"""Translators small enough to be trained within a test: they learn a few sentences by heart."""

from __future__ import annotations

import json
from pathlib import Path

import sentencepiece
import torch
import transformers

PAIRS = {
    "Is it OK if I open a can?": "Puis-je ouvrir une boîte ?",
    "Add five to three and you have eight.": "Cinq plus trois égalent huit.",
    "I have a job I have to do.": "J'ai un boulot à effectuer.",
    "Tom is not as fat as I am.": "Tom n'est pas aussi gros que moi.",
    "How do I get a hold of you?": "Comment puis-je te joindre ?",
    "He did not say a word to us.": "Il ne nous a pas dit un mot.",
}
UNSEEN = ["A job is OK.", "He did open eight cans for Tom and me.", "Żubr 日本!"]
_UPDATES = 70


def train_sentencepiece(texts, file: Path, size: int = 90) -> sentencepiece.SentencePieceProcessor:
    """A SentencePiece model of byte pairs."""
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_prefix=str(file),
        vocab_size=size,
        model_type="bpe",
        hard_vocab_limit=False,
        minloglevel=2,
    )
    Path(f"{file}.model").rename(file)
    Path(f"{file}.vocab").unlink()
    return sentencepiece.SentencePieceProcessor(model_file=str(file))


def make_marian(
    folder: Path, *target_tokens: str, pairs=PAIRS, pieces: int = 90, size=None, updates: int = _UPDATES, rate=5e-3
) -> None:
    """A model like OPUS-MT's: two SentencePiece models, a vocabulary of both, decoding from an embedding of zeros."""
    folder.mkdir()
    source = train_sentencepiece(pairs, folder / "source.spm", pieces)
    target = train_sentencepiece(pairs.values(), folder / "target.spm", pieces)
    known = [model.id_to_piece(index) for model in (source, target) for index in range(model.get_piece_size())]
    tokens = list(dict.fromkeys(["</s>", "<unk>", *known, *target_tokens, "<pad>"]))
    (folder / "vocab.json").write_text(json.dumps({token: index for index, token in enumerate(tokens)}))
    tokenizer = transformers.MarianTokenizer(*(str(folder / f) for f in ("source.spm", "target.spm", "vocab.json")))
    pad = tokenizer.pad_token_id
    torch.manual_seed(0)
    model = transformers.MarianMTModel(
        transformers.MarianConfig(
            vocab_size=len(tokens),
            pad_token_id=pad,
            eos_token_id=0,
            forced_eos_token_id=0,
            decoder_start_token_id=pad,
            scale_embedding=True,
            activation_function="swish",
            **(size or model_size()),
        )
    )
    prefix = target_tokens[0] if target_tokens else ""
    batch = tokenizer(
        [prefix + text for text in pairs], text_target=list(pairs.values()), padding=True, return_tensors="pt"
    )
    _learn(model, batch, pad, updates, rate)
    model.generation_config.bad_words_ids = [[pad]]
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def make_m2m100(folder: Path) -> None:
    """A model like M2M100, with its codes of languages: en, fr, de."""
    spm = _sentencepiece_of_three(folder)
    pieces = [spm.id_to_piece(index) for index in range(spm.get_piece_size())]
    tokens = list(dict.fromkeys(["<s>", "<pad>", "</s>", "<unk>", *pieces]))
    (folder / "vocab.json").write_text(json.dumps({token: index for index, token in enumerate(tokens)}))
    files = (str(folder / "vocab.json"), str(folder / "sentencepiece.bpe.model"))
    codes = transformers.M2M100Tokenizer(*files).lang_code_to_token.values()
    tokenizer = transformers.M2M100Tokenizer(*files, additional_special_tokens=list(codes))
    _make_multilingual(folder, tokenizer, ("en", "fr", "__de__"), len(tokenizer) + tokenizer.num_madeup_words)


def make_nllb(folder: Path) -> None:
    """A model like NLLB, with its codes of languages: eng_Latn, fra_Latn, deu_Latn."""
    _sentencepiece_of_three(folder)
    codes = ("eng_Latn", "fra_Latn", "deu_Latn")
    tokenizer = transformers.NllbTokenizer.from_pretrained(folder, src_lang=codes[0], extra_special_tokens=list(codes))
    _make_multilingual(folder, tokenizer, codes, len(tokenizer))


def _sentencepiece_of_three(folder: Path) -> sentencepiece.SentencePieceProcessor:
    folder.mkdir()
    texts = [*PAIRS, *PAIRS.values(), *map(str.upper, PAIRS)]
    return train_sentencepiece(texts, folder / "sentencepiece.bpe.model", 150)


def _make_multilingual(folder: Path, tokenizer, codes: tuple[str, str, str], size: int) -> None:
    """From English into French, or into "German", which is English in capitals here."""
    english, french, german = codes
    torch.manual_seed(0)
    model = transformers.M2M100ForConditionalGeneration(
        transformers.M2M100Config(
            vocab_size=size,
            pad_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=2,
            encoder_layerdrop=0.0,
            decoder_layerdrop=0.0,
            **model_size(),
        )
    )
    tokenizer.src_lang, tokenizer.tgt_lang = english, french
    texts, translations = [*PAIRS, *PAIRS], [*PAIRS.values(), *map(str.upper, PAIRS)]
    batch = tokenizer(texts, text_target=translations, padding=True, return_tensors="pt")
    batch["labels"][len(PAIRS) :, 0] = tokenizer.convert_tokens_to_ids(german)
    _learn(model, batch, tokenizer.pad_token_id)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def model_size(layers: int = 1, d_model: int = 64, ffn_dim: int = 128):
    side = {"layers": layers, "attention_heads": 4, "ffn_dim": ffn_dim}
    sides = {f"{which}_{name}": value for which in ("encoder", "decoder") for name, value in side.items()}
    return {"d_model": d_model, "max_position_embeddings": 128, "dropout": 0.0, **sides}


def _learn(model, batch, pad: int, updates: int = _UPDATES, rate: float = 5e-3) -> None:
    torch.set_num_threads(1)  # with more, models this small wait for threads most of the time
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    batch["labels"][batch["labels"] == pad] = -100
    for _ in range(updates):
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        model.get_input_embeddings().weight.data[pad] = 0  # as in all models that are published
