"""Models of fairseq, small enough to be trained within a test."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from corpusgen.models.translate.fairseq_compat import import_fairseq
from tests.testing.tiny_translators import PAIRS

KNOWN = dict(list(PAIRS.items())[:3])
_SMALL = {"embed_dim": 64, "ffn_embed_dim": 128, "layers": 1, "attention_heads": 4}


def make_fairseq(
    folder: Path, subwords, updates: int = 0, old: bool = False, known=KNOWN, size=_SMALL, rate=5e-3, **entries
) -> None:
    """A checkpoint as fairseq saves it, or did for years, of a small transformer that knows its sentences by heart."""
    fairseq = import_fairseq()
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf
    from omegaconf import OmegaConf

    folder.mkdir()
    pairs = [(subwords.encode(english), subwords.encode(french)) for english, french in known.items()]
    pieces = sorted({piece for pair in pairs for side in pair for piece in side})
    for language in ("en", "fr"):
        (folder / f"dict.{language}.txt").write_text("".join(f"{piece} 1\n" for piece in pieces))
    sides = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in size.items()}
    args = argparse.Namespace(
        arch="transformer",
        task="translation",
        data=str(folder),
        source_lang="en",
        target_lang="fr",
        dropout=0.0,
        **sides,
    )
    fairseq.models.transformer.base_architecture(args)
    torch.manual_seed(0)
    task = fairseq.tasks.setup_task(args)
    model = task.build_model(args)
    _learn(model, task.source_dictionary, pairs, updates, rate)
    history = [{"optimizer_name": "FairseqAdam", "lr_scheduler_state": {}, "num_updates": updates}]
    state = {"model": model.state_dict(), "optimizer_history": history, "extra_state": {}, **entries}
    settings = (
        {"args": args} if old else {"args": None, "cfg": OmegaConf.to_container(convert_namespace_to_omegaconf(args))}
    )
    torch.save({**settings, **state}, folder / "checkpoint_best.pt")


def _learn(model, dictionary, pairs, updates: int, rate: float) -> None:
    from fairseq.data.data_utils import collate_tokens

    def batch(sentences, **options):
        ids = [torch.tensor([*map(dictionary.index, sentence), dictionary.eos()]) for sentence in sentences]
        return collate_tokens(ids, dictionary.pad(), dictionary.eos(), **options)

    source, target = batch([pair[0] for pair in pairs], left_pad=True), batch([pair[1] for pair in pairs])
    shifted = batch([pair[1] for pair in pairs], move_eos_to_beginning=True)
    lengths = source.ne(dictionary.pad()).sum(1)
    torch.set_num_threads(1)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    for _ in range(updates):
        logits, _ = model(source, lengths, shifted)
        loss = torch.nn.functional.cross_entropy(logits.transpose(1, 2), target, ignore_index=dictionary.pad())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
