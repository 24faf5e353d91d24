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
import time
from collections.abc import Callable
from functools import partial
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")

import numpy as np
import torch

from benchmarks.harvest import read_texts
from corpusgen.masked import Candidates, MaskedPredictor
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
        ids, place = mask(tokenizer, text, span)
        with torch.no_grad():
            padding = max(0, width - len(ids))
            present = torch.tensor([[1] * len(ids) + [0] * padding])
            logits = model(torch.tensor([ids + [0] * padding]), attention_mask=present).logits
            probabilities = torch.softmax(logits, -1)[0, place]
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


def padded_batches(ids: list[list[int]], batch_tokens: int) -> list[dict[str, torch.Tensor]]:
    batches: list[list[list[int]]] = [[]]
    for one in sorted(ids, key=len):
        if (len(batches[-1]) + 1) * len(one) > batch_tokens:
            batches.append([])
        batches[-1].append(one)
    inputs = []
    for batch in batches:
        width = len(batch[-1])
        rows = [(one + [0] * (width - len(one)), [1] * len(one) + [0] * (width - len(one))) for one in batch]
        inputs.append(
            {
                "input_ids": torch.tensor([row for row, _ in rows]),
                "attention_mask": torch.tensor([mask for _, mask in rows]),
            }
        )
    return inputs


@torch.inference_mode()
def call_on_all(model: Any, batches: list[dict[str, torch.Tensor]]) -> None:
    for batch in batches:
        model(**batch)


def seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def best_of(rounds: int, contestants: dict[str, Callable[[], object]]) -> dict[str, float]:
    best = dict.fromkeys(contestants, float("inf"))
    for _ in range(rounds):
        for name, work in contestants.items():
            best[name] = min(best[name], seconds(work))
    return best


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="folder of a masked language model of BERT's kind")
    parser.add_argument("--text", required=True, help="glob of WikiExtractor files, gzipped")
    parser.add_argument("--sentences", type=int, default=400)
    parser.add_argument("--top-k", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--budgets", type=int, nargs="*", default=[], help="try batches of so many tokens")
    arguments = parser.parse_args()
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    torch.set_num_threads(1)
    texts, spans = targets(arguments.text, arguments.sentences)
    tokenizer = AutoTokenizer.from_pretrained(arguments.model)
    model = AutoModelForMaskedLM.from_pretrained(arguments.model, dtype=torch.float32).eval()
    predictor = MaskedPredictor(arguments.model, top_k=arguments.top_k, device="cpu")
    ids = [mask(tokenizer, text, span)[0] for text, span in zip(texts, spans, strict=True)]
    batches = padded_batches(ids, 1024)
    contestants: dict[str, Callable[[], object]] = {
        "predict": lambda: predictor.predict(texts, spans).columns(),
        "plain loop": lambda: plain_loop(model, tokenizer, texts, spans, arguments.top_k),
        "loop padded to 200": lambda: plain_loop(model, tokenizer, texts[:50], spans[:50], arguments.top_k, 200),
        "bare model": lambda: call_on_all(model, batches),
        "bare encoder": lambda: call_on_all(model.base_model, batches),
        "tokenizing and masking alone": lambda: predictor._mask_all(texts, spans),
    }
    for budget in arguments.budgets:
        other = MaskedPredictor(arguments.model, top_k=arguments.top_k, device="cpu", batch_tokens=budget)
        contestants[f"predict, batches of {budget} tokens"] = partial(other.predict, texts, spans)
    found = agreement(
        list(predictor.predict(texts, spans)), plain_loop(model, tokenizer, texts, spans, arguments.top_k)
    )
    best = best_of(arguments.rounds, contestants)
    best["loop padded to 200"] *= len(texts) / len(texts[:50])  # of some sentences only: it takes its time
    result = {
        "tokens per sentence": sum(map(len, ids)) / len(ids),
        "milliseconds per sentence": {name: 1000 * value / len(texts) for name, value in best.items()},
        "ratios": {
            "plain loop / predict": best["plain loop"] / best["predict"],
            "loop padded to 200 / predict": best["loop padded to 200"] / best["predict"],
            "predict / bare model": best["predict"] / best["bare model"],
            "predict / bare encoder": best["predict"] / best["bare encoder"],
        },
        "agreement with the plain loop": found,
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
