"""A folder in which the documentation's commands find what they name: tiny stand-ins for a user's texts and models."""

import bz2
import json
import os
import random
import shutil
from itertools import pairwise
from pathlib import Path

import yaml

from corpusgen.config.build import load_config
from corpusgen.corpus.build import build
from corpusgen.engine import LocalExecutor
from corpusgen.models.identity import describe_hub_model
from distiller.settings import TrainSettings
from distiller.words.model import WordModel
from distiller.words.saved import SavedModel, write_saved
from tests.docs.blocks import PROJECT
from tests.testing import pair_builds, paragraph_builds
from tests.testing import triple_builds as support

VALIDATION = {"step": 10, "epoch": 1.0, "loss": 0.1, "ordered": 0.9}
VALIDATION |= {"cosine_positive": 0.9, "cosine_negative": 0.5, "cosine_unrelated": 0.3}
WORD = "willows"  # in every sentence


def make_sandbox(folder: Path) -> None:
    """Fill a folder; it becomes the current one."""
    os.chdir(folder)
    shutil.copytree(PROJECT / "configs", "configs")
    _write_texts(support.sentences(120, seed=2))
    _write_benchmarks(support.sentences(80, seed=6))
    settings = {**support.settings(Path()), "store": "corpora/mine"}
    for name in ("bert-base-cased", "bert-large-cased", "models/mlm"):
        shutil.copytree("masked", name)
    words = [*support.vocabulary(), *(a + b for a in support.NOUNS for b in support.PLACES)]
    rows = [" ".join(f"{random.gauss(0.3):.3f}" for _ in range(12)) for _ in words]
    for name in ("vectors.bin", "models/cc.en.300.bin", "models/cc.de.300.bin"):
        Path(name).write_text("".join(f"{word} {row}\n" for word, row in zip(words, rows, strict=True)))
    Path("de-en.tsv").write_text("".join(f"{word}\t{word}\n" for word in support.vocabulary()))
    training = {"corpus": "corpora/mine", "output": "runs/mine", "backbone": {"model": "models/mlm"}, "heads": 4}
    few = {"validation_share": 0.3, "validate_every": 1.0, "max_epochs": 3, "warmup_steps": 1, "batch_size": 8}
    training |= few
    large = "configs/distill_bert_large.yaml"
    shortened = {**yaml.safe_load(Path(large).read_text()), **few, "heads": 4}
    for name, content in (("my.yaml", settings), ("train.yaml", training), (large, shortened)):
        Path(name).write_text(yaml.safe_dump(content))
    build(load_config("my.yaml"), LocalExecutor())
    pairs = pair_builds.config(Path(), name="stories.jsonl", store="corpora/pairs")
    build(pairs, LocalExecutor())
    build(paragraph_builds.config(Path(), name="essays.jsonl", store="corpora/paragraphs"), LocalExecutor())
    backbone = describe_hub_model("models/mlm", None)
    trained = TrainSettings.model_validate(training)
    write_saved("runs/mine/model", SavedModel.of(WordModel(16, 4, seed=3), trained, [2, 3], backbone, VALIDATION))


def _write_texts(texts: list[str]) -> None:
    """The same sentences in every form in which they can be given."""
    for name in ("texts", "extracted/AA", "dumps", "models"):
        Path(name).mkdir(parents=True)
    Path("texts/rivers.txt").write_text("\n".join(texts) + "\n")
    Path("articles.jsonl").write_text("".join(json.dumps({"id": n, "body": t}) + "\n" for n, t in enumerate(texts)))
    docs = (f'<doc id="{n}" title="{n}">\n{n}\n{text}\n</doc>\n' for n, text in enumerate(texts))
    Path("extracted/AA/wiki_00").write_text("".join(docs))
    page = (
        "  <page>\n<title>{0}</title><ns>0</ns><id>{0}</id><revision><id>1</id><text>{1}</text></revision>\n  </page>\n"
    )
    pages = "".join(page.format(n, text) for n, text in enumerate(texts))
    dump = bz2.compress(f"<mediawiki>\n{pages}</mediawiki>\n".encode())
    Path("dumps/enwiki-latest-pages-articles.xml.bz2").write_bytes(dump)
    words = [{"text": texts[0], "word": WORD}, {"text": texts[1], "start": 4, "end": 9}]
    Path("words.jsonl").write_text("".join(json.dumps(word) + "\n" for word in words))


def _write_benchmarks(texts: list[str]) -> None:
    chosen = random.Random(0)
    pairs = list(zip(texts[::2], texts[1::2], strict=True))
    for split, some in (("train", pairs[::2]), ("dev", pairs[1::2])):
        Path(f"eval/wic/{split}").mkdir(parents=True)
        rows = [f"{WORD}\tN\t{a.split().index(WORD)}-{b.split().index(WORD)}\t{a}\t{b}\n" for a, b in some]
        Path(f"eval/wic/{split}/{split}.data.txt").write_text("".join(rows))
        Path(f"eval/wic/{split}/{split}.gold.txt").write_text("".join(chosen.choice(["T\n", "F\n"]) for _ in rows))
    Path("eval/stsb").mkdir()
    scored = [f"g\tf\t2017\t{n}\t{chosen.choice([0, 1, 2, 4, 5])}\t{a}\t{b}\n" for n, (a, b) in enumerate(pairs)]
    Path("eval/stsb/sts-dev.csv").write_text("".join(scored))
    Path("eval/scws").mkdir()
    marked = [text.replace(WORD, f"<b> {WORD} </b>") for text in texts]
    rated = [f"{WORD}\tn\t{WORD}\tn\t{a}\t{b}\t{chosen.uniform(0, 10):.1f}\n" for a, b in pairwise(marked)]
    Path("eval/scws/ratings.txt").write_text("".join(f"{n}\t{row}" for n, row in enumerate(rated)))
    Path("eval/wordsim").mkdir()
    similar = [f"{a}\t{b}\t{chosen.uniform(0, 4):.2f}\n" for a, b in pairwise(support.vocabulary())]
    Path("eval/wordsim/EN-RG-65.txt").write_text("".join(similar))
