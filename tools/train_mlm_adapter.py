"""Train the adapter that turns the packaged MiniLM encoder into a masked language model.

    corpusgen build benchmarks/configs/dev_real.yaml --set store=corpora/adapter --set sample.size=1
    python tools/train_mlm_adapter.py corpora/adapter corpusgen/models/embedded/minilm-mlm.safetensors

Low-rank updates of all linear layers, biases, layer norms and a prediction head are learnt from the sentences of a
store's harvest, each twentieth of which is held out; word embeddings stay as they are and serve as output weights.
Whole words are chosen; as in BERT's training four fifths of them are masked, a tenth become random pieces, and a tenth
stay. The same seed gives the same batches and masks; the state lies beside the output, and running the command again
goes on from there.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional
from transformers import AutoTokenizer, BertForMaskedLM

from corpusgen.models.embedded import BASE_PACKAGE, base_folder
from corpusgen.store.reader import CommittedTable

HELD_OUT_EVERY = 20
VOCABULARY = 30522  # real pieces begin at 1000
POOL = 4096  # sentences sorted by length together, so that batches have little padding


class LowRank(nn.Module):
    """A frozen linear layer with a learnt low-rank update; its bias is learnt too."""

    def __init__(self, linear: nn.Linear, rank: int) -> None:
        super().__init__()
        self.linear = linear
        linear.weight.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, linear.in_features) / math.sqrt(linear.in_features))
        self.up = nn.Parameter(torch.zeros(linear.out_features, rank))

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        update = functional.linear(functional.linear(states, self.down), self.up)
        return functional.linear(states, self.linear.weight, self.linear.bias) + update


def adapted(rank: int, seed: int) -> BertForMaskedLM:
    """The encoder with a new head and low-rank updates; only what an adapter holds requires gradients."""
    torch.manual_seed(seed)
    model = BertForMaskedLM.from_pretrained(base_folder(), dtype=torch.float32)
    for dropout in (module for module in model.modules() if isinstance(module, nn.Dropout)):
        dropout.p = 0.0
    model.config.attention_probs_dropout_prob = 0.0
    for layer in model.bert.encoder.layer:
        for parent in list(layer.modules()):
            for name, child in list(parent.named_children()):
                if isinstance(child, nn.Linear) and not isinstance(parent, LowRank):
                    setattr(parent, name, LowRank(child, rank))
    for name, parameter in model.bert.embeddings.named_parameters():
        parameter.requires_grad_(name.startswith("LayerNorm"))
    model.cls.predictions.decoder.weight.requires_grad_(False)
    return model


class Sentences:
    """The sentences of a harvest as word pieces."""

    def __init__(self, root: str, tokenizer: Any) -> None:
        texts = CommittedTable(root, "harvest", "sentences").to_table(["text"])["text"].to_pylist()
        self.ids: list[np.ndarray] = []
        self.words: list[np.ndarray] = []  # which word a piece belongs to; -1 for [CLS] and [SEP]
        for start in range(0, len(texts), 1000):
            for encoding in tokenizer.backend_tokenizer.encode_batch(texts[start : start + 1000]):
                self.ids.append(np.array(encoding.ids, np.int64)[:128])
                words = [-1 if word is None else word for word in encoding.word_ids]
                self.words.append(np.array(words, np.int64)[:128])
        self.held_out = np.arange(0, len(self.ids), HELD_OUT_EVERY)
        self.training = np.setdiff1d(np.arange(len(self.ids)), self.held_out)

    def batches(self, chosen: np.ndarray, tokens: int, random: np.random.Generator) -> Iterator[np.ndarray]:
        """All the chosen sentences in random order, in batches of like length."""
        shuffled = random.permutation(chosen)
        for start in range(0, len(shuffled), POOL):
            pool = sorted(shuffled[start : start + POOL], key=lambda index: len(self.ids[index]))
            batches, batch = [], []
            for index in pool:
                if batch and (len(batch) + 1) * len(self.ids[index]) > tokens:
                    batches.append(np.array(batch))
                    batch = []
                batch.append(index)
            batches.append(np.array(batch))
            for number in random.permutation(len(batches)):
                yield batches[number]

    def masked(
        self, batch: np.ndarray, share: float, mask: int, random: np.random.Generator, all_masked: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Input ids, which are present, which are to be predicted, and what stood there."""
        width = max(len(self.ids[index]) for index in batch)
        ids = np.zeros((len(batch), width), np.int64)
        present = np.zeros((len(batch), width), bool)
        chosen = np.zeros((len(batch), width), bool)
        fate = np.zeros((len(batch), width))
        for row, index in enumerate(batch):
            pieces, words = self.ids[index], self.words[index]
            ids[row, : len(pieces)] = pieces
            present[row, : len(pieces)] = True
            count = words.max() + 1
            masked_words = random.choice(count, max(1, round(share * count)), replace=False)
            chosen[row, : len(pieces)] = np.isin(words, masked_words)
            fate[row, : len(pieces)] = random.random(count)[words]  # one for all pieces of a word
        labels = ids[chosen]
        ids[chosen & (all_masked | (fate < 0.8))] = mask
        if not all_masked:
            others = chosen & (fate >= 0.9)
            ids[others] = random.integers(1000, VOCABULARY, int(others.sum()))
        return tuple(torch.from_numpy(array) for array in (ids, present, chosen, labels))  # type: ignore[return-value]


def scores(model: BertForMaskedLM, ids: torch.Tensor, present: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
    """The scores of all pieces at the masked positions only."""
    states = model.bert(input_ids=ids, attention_mask=present.long()).last_hidden_state
    result: torch.Tensor = model.cls.predictions(states[chosen])
    return result


@torch.inference_mode()
def evaluate(model: BertForMaskedLM, sentences: Sentences, mask: int, count: int, all_masked: bool) -> dict[str, float]:
    """How often the held-out piece is the first, or among the first ten, and the loss; always the same masks.

    Of 15 % of the words, all masked, or as in training: then a tenth of them is there to be seen.
    """
    random = np.random.default_rng(0)
    hits = np.zeros(2)
    loss, pieces = 0.0, 0
    for batch in sentences.batches(sentences.held_out[:count], 4096, random):
        ids, present, chosen, labels = sentences.masked(batch, 0.15, mask, random, all_masked)
        logits = scores(model, ids, present, chosen)
        best = logits.topk(10).indices == labels[:, None]
        hits += [int(best[:, 0].sum()), int(best.any(1).sum())]
        loss += float(functional.cross_entropy(logits, labels, reduction="sum"))
        pieces += len(labels)
    return {"top1": hits[0] / pieces, "top10": hits[1] / pieces, "loss": loss / pieces, "pieces": pieces}


def adapter_of(model: BertForMaskedLM) -> dict[str, torch.Tensor]:
    """What was learnt, in half precision, under the names of the model that it is merged into."""
    tensors: dict[str, torch.Tensor] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            name = name.replace(".linear.bias", ".bias")
            for part in ("down", "up"):
                name = name.replace(f".{part}", f".weight.{part}") if name.endswith(f".{part}") else name
            tensors[name] = parameter.detach().half().contiguous()
    return tensors


def optimizer_of(model: BertForMaskedLM, rate: float) -> torch.optim.Optimizer:
    """AdamW; the updates learn faster than what was there before and the new head."""
    low_rank = [p for n, p in model.named_parameters() if p.requires_grad and n.endswith((".down", ".up"))]
    others = [p for n, p in model.named_parameters() if p.requires_grad and not n.endswith((".down", ".up"))]
    groups = [{"params": low_rank, "rate": rate}, {"params": others, "rate": rate / 2}]
    return torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.98), weight_decay=0.01, fused=True)


def train(arguments: argparse.Namespace) -> None:
    torch.set_num_threads(arguments.threads)
    tokenizer = AutoTokenizer.from_pretrained(base_folder())
    sentences = Sentences(arguments.store, tokenizer)
    mask = tokenizer.mask_token_id
    model = adapted(arguments.rank, arguments.seed)
    counts = np.bincount(np.concatenate([sentences.ids[index] for index in sentences.training]), minlength=VOCABULARY)
    with torch.no_grad():  # how common a piece is need not be learnt
        model.cls.predictions.bias.copy_(torch.from_numpy(np.log((counts + 0.1) / counts.sum())))
    optimizer = optimizer_of(model, arguments.learning_rate)
    state_path = Path(f"{arguments.output}.state")
    done = {"tokens": 0, "step": 0}
    if state_path.exists():
        state = torch.load(state_path, weights_only=True)
        model.load_state_dict(state["model"], strict=False)
        rates = [group["rate"] for group in optimizer.param_groups]
        optimizer.load_state_dict(state["optimizer"])
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["rate"] = rate  # as it is asked for now: the state has that of the run before
        done = state["done"]
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    model.train()
    started, since, losses = time.perf_counter(), done["tokens"], []

    def checkpoint() -> None:
        learnt = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}
        torch.save({"model": learnt, "optimizer": optimizer.state_dict(), "done": done}, f"{state_path}.new")
        os.replace(f"{state_path}.new", state_path)

    step = 0
    epoch = 0
    while done["tokens"] < arguments.tokens:
        for batch in sentences.batches(sentences.training, 2048, np.random.default_rng((arguments.seed, epoch))):
            step += 1
            if step <= done["step"]:
                continue
            ids, present, chosen, labels = sentences.masked(
                batch, arguments.masked, mask, np.random.default_rng((arguments.seed, 1, step))
            )
            progress = done["tokens"] / arguments.tokens
            factor = min(1.0, step / 100) * 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
            for group in optimizer.param_groups:
                group["lr"] = group["rate"] * factor
            loss = functional.cross_entropy(scores(model, ids, present, chosen), labels)
            loss.backward()
            nn.utils.clip_grad_norm_(trained, 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            losses.append(loss.item())
            done = {"tokens": done["tokens"] + int(present.sum()), "step": step}
            if step % arguments.report == 0:
                rate = (done["tokens"] - since) / (time.perf_counter() - started)
                found = evaluate(model, sentences, mask, 1000, all_masked=True)
                print(
                    f"step {step}, {done['tokens']:,} tokens, {rate:.0f}/s, loss {np.mean(losses):.3f}; held out: "
                    f"top-1 {found['top1']:.1%}, top-10 {found['top10']:.1%}, loss {found['loss']:.3f}",
                    flush=True,
                )
                losses.clear()
                checkpoint()
            if done["tokens"] >= arguments.tokens:
                break
        epoch += 1
    checkpoint()
    metadata = {"base": BASE_PACKAGE, "tokens": str(done["tokens"]), "sentences": str(len(sentences.training))}
    for name, all_masked in (("all masked", True), ("as in training", False)):
        found = evaluate(model, sentences, mask, len(sentences.held_out), all_masked)
        metadata[name] = f"{found['pieces']} pieces: top-1 {found['top1']:.1%}, top-10 {found['top10']:.1%}"
        print(f"held out, {name}, {metadata[name]}")
    save_file(adapter_of(model), arguments.output, metadata)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", help="a store with a harvest, local or s3://")
    parser.add_argument("output", help="the safetensors file to write")
    parser.add_argument("--rank", type=int, default=28)
    parser.add_argument("--tokens", type=int, default=4_500_000, help="how many to learn from, repetitions counted")
    parser.add_argument("--learning-rate", type=float, default=1.4e-3)
    parser.add_argument("--masked", type=float, default=0.2, help="share of words to predict; 0.15 in the test")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--report", type=int, default=100, help="steps between two reports, with a saved state each")
    train(parser.parse_args())


if __name__ == "__main__":
    main()
