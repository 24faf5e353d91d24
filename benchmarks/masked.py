"""Masked-token prediction: speed on one core against a plain loop and against the bare model.

    python -m benchmarks.masked --model FOLDER --text 'PATH/wiki_*.gz'

The model must be of BERT's kind (WordPiece). All contestants do the same sentences in turn, in several rounds; a figure
is the best round, in seconds of processor time. What comes out is compared too. The bare model computes all scores of
all positions and chooses none; the bare encoder stops before the head. Both get ready-made batches.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")

import numpy as np
import torch

from benchmarks.baselines.bare import call_on_all, padded_batches
from benchmarks.harvest import read_texts
from benchmarks.rows import Row, fastest, seconds
from corpusgen.models.masked_lm import Candidates, MaskedPredictor
from corpusgen.text.segment import RuleSegmenter

Span = tuple[int, int]


def targets(pattern: str, count: int) -> tuple[list[str], list[Span]]:
    """Sentences of 15 to 50 words, each with a word of four or more letters."""
    paragraphs = read_texts(pattern, count * 1000)
    segmented = RuleSegmenter().segment(paragraphs)
    ends = np.cumsum(segmented.tokens.counts)
    chance = random.Random(0)
    texts, spans = [], []
    for paragraph, (start, end), words, last in zip(
        segmented.paragraphs, segmented.spans, segmented.tokens.counts, ends, strict=True
    ):
        text = paragraphs[paragraph][start:end]
        tokens = slice(last - words, last)
        here = list(zip(segmented.tokens.starts[tokens].tolist(), segmented.tokens.ends[tokens].tolist(), strict=True))
        long = [(a, b) for a, b in here if b - a > 3 and text[a:b].isalpha()]
        if 15 <= words <= 50 and long:
            texts.append(text)
            spans.append(chance.choice(long))
    chosen = chance.sample(range(len(texts)), min(count, len(texts)))
    return [texts[index] for index in chosen], [spans[index] for index in chosen]


def mask(tokenizer: Any, text: str, span: Span) -> tuple[list[int], int]:
    """The pieces of a text, those of the target masked, and where the first of them is."""
    encoded = tokenizer(text, return_offsets_mapping=True)
    target = [index for index, (a, b) in enumerate(encoded["offset_mapping"]) if a < span[1] and b > span[0]]
    ids = [tokenizer.mask_token_id if index in target else piece for index, piece in enumerate(encoded["input_ids"])]
    return ids, target[0]


def plain_loop(
    model: Any, tokenizer: Any, texts: list[str], spans: list[Span], top_k: int, width: int = 0
) -> list[Candidates]:
    """One sentence per call, probabilities of all words at all positions, then down the sorted list in Python.

    The code published with the method also pads every sentence to a fixed `width`.
    """
    results = []
    for text, span in zip(texts, spans, strict=True):
        ids, position = mask(tokenizer, text, span)
        with torch.no_grad():
            padding = max(0, width - len(ids))
            present = torch.tensor([[1] * len(ids) + [0] * padding])
            logits = model(torch.tensor([ids + [0] * padding]), attention_mask=present).logits
            probabilities = torch.softmax(logits, -1)[0, position]
        values, order = probabilities.sort(descending=True)
        words: list[str] = []
        kept: list[float] = []
        for index, probability in zip(order.tolist(), values.tolist(), strict=True):
            word = tokenizer.convert_ids_to_tokens(index)
            if not word.startswith("##") and word.isalpha() and len(word) > 1:
                words.append(word)
                kept.append(probability)
                if len(words) == top_k:
                    break
        results.append(Candidates(words, np.array(kept, np.float32), None))
    return results


def agreement(ours: list[Candidates], theirs: list[Candidates]) -> dict[str, float]:
    """Both must have found the same words, but for rounding. Targets that share a piece are only the loop's."""
    pairs = [(a, b) for a, b in zip(ours, theirs, strict=True) if a.reason is None]
    difference = max(float(np.abs(a.probabilities / b.probabilities - 1).max()) for a, b in pairs)
    if difference > 1e-3:
        raise SystemExit(f"the candidates are not those of the plain loop: probabilities differ by {difference:.1e}")
    return {
        "sentences": len(ours),
        "targets that cannot be masked": len(ours) - len(pairs),
        "same words in the same order": sum(a.words == b.words for a, b in pairs),
        "same words": sum(set(a.words) == set(b.words) for a, b in pairs),
        "largest relative difference of probabilities": difference,
    }


def compare(
    folder: str, texts: list[str], spans: list[Span], top_k: int = 100, rounds: int = 3, budgets: Sequence[int] = ()
) -> dict[str, Any]:
    """Milliseconds a sentence of all contestants, their ratios, and whether they say the same."""
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForMaskedLM.from_pretrained(folder, dtype=torch.float32).eval()
    predictor = MaskedPredictor(folder, top_k=top_k, device="cpu")
    ids = [mask(tokenizer, text, span)[0] for text, span in zip(texts, spans, strict=True)]
    batches = padded_batches(ids, 1024)
    some = len(texts) // 8  # padded, it takes its time
    contestants: dict[str, Callable[[], object]] = {
        "predict": lambda: predictor.predict(texts, spans).columns(),
        "plain loop": lambda: plain_loop(model, tokenizer, texts, spans, top_k),
        "loop padded to 200": lambda: plain_loop(model, tokenizer, texts[:some], spans[:some], top_k, 200),
        "bare model": lambda: call_on_all(model, batches),
        "bare encoder": lambda: call_on_all(model.base_model, batches),
        "tokenizing and masking alone": lambda: predictor._mask_all(texts, spans),
    }
    for budget in budgets:
        other = MaskedPredictor(folder, top_k=top_k, device="cpu", batch_tokens=budget)
        contestants[f"predict, batches of {budget} tokens"] = partial(other.predict, texts, spans)
    found = agreement(list(predictor.predict(texts, spans)), plain_loop(model, tokenizer, texts, spans, top_k))
    best = fastest(rounds, contestants, time.process_time)
    best["loop padded to 200"] *= len(texts) / some
    best["products alone"] = sum(map(len, ids)) * products_of_a_token(model.config) / products_per_second()
    return {
        "tokens per sentence": sum(map(len, ids)) / len(ids),
        "milliseconds per sentence": {name: 1000 * value / len(texts) for name, value in best.items()},
        "ratios": {
            "plain loop / predict": best["plain loop"] / best["predict"],
            "loop padded to 200 / predict": best["loop padded to 200"] / best["predict"],
            "plain loop / products alone": best["plain loop"] / best["products alone"],
            "predict / bare model": best["predict"] / best["bare model"],
            "predict / bare encoder": best["predict"] / best["bare encoder"],
        },
        "agreement with the plain loop": found,
    }


def products_of_a_token(config: Any) -> float:
    """Multiplications of a token on its way through the encoder; of the last layer only those that all tokens need."""
    d, inner, layers = config.hidden_size, config.intermediate_size, config.num_hidden_layers
    return float((layers - 1) * (4 * d * d + 2 * d * inner) + 2 * d * d)


def products_per_second(size: int = 1024) -> float:
    """What this core does at best, on square matrices."""
    a, b = torch.rand(size, size), torch.rand(size, size)
    return size**3 / min(seconds(lambda: a @ b, time.process_time) for _ in range(5))


def run(sentences: int, rounds: int) -> list[Row]:
    """On the text and the masked LM of the quickstart."""
    from benchmarks.parts import prepare

    with tempfile.TemporaryDirectory() as folder:
        parts = prepare(folder, sentences)
        found = compare(parts.model, parts.texts, parts.spans, rounds=rounds)
    ratios, speed = found["ratios"], f"{1000 / found['milliseconds per sentence']['predict']:.0f} sentences/s"
    same = found["agreement with the plain loop"]
    note = f"the same candidates in the same order for {same['same words in the same order']} of {same['sentences']}"
    limit = f"{note}; were all time matrix products at this core's peak, {ratios['plain loop / products alone']:.1f}"
    published = "the same, each padded to 200 as published"
    return [
        Row("masked prediction", "one sentence per forward", ratios["plain loop / predict"], 8.0, speed, limit),
        Row("masked prediction, padded", published, ratios["loop padded to 200 / predict"], None, speed),
        Row("masked prediction, bare", "the bare model", 1 / ratios["predict / bare model"], 0.9, speed),
        Row("masked prediction, encoder", "its encoder alone", 1 / ratios["predict / bare encoder"], None, speed),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="folder of a masked language model of BERT's kind")
    parser.add_argument("--text", required=True, help="glob of WikiExtractor files, gzipped")
    parser.add_argument("--sentences", type=int, default=400)
    parser.add_argument("--top-k", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--budgets", type=int, nargs="*", default=[], help="try batches of so many tokens")
    arguments = parser.parse_args()
    texts, spans = targets(arguments.text, arguments.sentences)
    found = compare(arguments.model, texts, spans, arguments.top_k, arguments.rounds, arguments.budgets)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
