"""The command line of the word models. Each command imports what it needs, so that `--help` answers at once."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from corpusgen.errors import ConfigError
from corpusgen.extras import require
from corpusgen.io.command_line import Address, Config, Overrides, ShowConfig, new_app, run, say
from corpusgen.io.command_line import as_json as json_to_print
from corpusgen.io.terminal import visible
from distiller import __version__

if TYPE_CHECKING:
    from distiller.evaluation.report import Evaluation
    from distiller.evaluation.results import TaskResult
    from distiller.inference.word_distiller import WordDistiller

app = new_app("Train and use word models made from a store of triples.")

Model = Annotated[str, typer.Argument(help="Folder of a model or of a run, s3://…, or a hub id.", metavar="MODEL")]
Backbone = Annotated[str | None, typer.Option(help="Where its frozen model is, if not where it was in training.")]
Device = Annotated[str, typer.Option(help="cpu, cuda or cuda:N; auto: a GPU if there is one.")]
Span = Annotated[
    str | None,
    typer.Option(
        help="Instead of the word, where it is in characters: for one that is there twice.", metavar="START:END"
    ),
]
Kind = Annotated[
    Literal["meaning", "context", "baseline"],
    typer.Option("--output", help="Which vectors; baseline: the frozen model's."),
]
_NAMED_LINES = 5  # the number of skipped lines to name


@app.callback()
def _root() -> None:
    """Train and use word models made from a store of triples."""


@app.command()
def version() -> None:
    """Print the version.

    Example: distiller version
    """
    say(__version__)


@app.command()
def train(
    config: Config,
    address: Address = None,
    find_lr: Annotated[
        bool, typer.Option("--find-lr", help="Only look for a good learning rate: raise it until the loss soars.")
    ] = False,
    overrides: Overrides = None,
    show_config: ShowConfig = False,
) -> None:
    """Train a word model on a corpus of triples, or go on with it: the same command resumes.

    Example: distiller train configs/distill_dev_real.yaml --set output=runs/mine
    """
    import yaml

    from corpusgen.config.loading import load_settings
    from distiller.settings import TrainSettings

    settings = load_settings(TrainSettings, config, overrides or [])
    if show_config:
        say(yaml.safe_dump(settings.model_dump(mode="json"), sort_keys=False).rstrip())
        return
    require("distiller train", extra="train")
    from distiller.training.job import find_learning_rate
    from distiller.training.job import train as run_training

    (find_learning_rate if find_lr else run_training)(settings, address, say)


@app.command()
def info(model: Model, as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """What a model is: its frozen model, layers, training and validation.

    Example: distiller info runs/mine
    """
    from distiller.words.saved import load_saved

    saved = load_saved(model)
    if as_json:
        say(json_to_print(saved.config, indent=1))
        return
    first, last = saved.config["layers"]
    validation = saved.config["validation"]
    rows = {
        "frozen model": saved.config["backbone"]["model"],
        "layers": f"{first} to {last}",
        "dimension": saved.config["dimension"],
        "size": f"{len(saved.weights) / 1e6:.1f} MB",
        "trained on": saved.config["training"]["corpus"],
        "best after": f"{validation['step']:,} steps, {validation['epoch']:.1f} epochs",
        "held-out loss": f"{validation['loss']:.4f}",
        "nearer to positive": f"{validation['ordered']:.1%} of held-out triples",
    }
    for name, value in rows.items():
        say(f"{name:20}{value}")


@app.command()
def report(
    run_folder: Annotated[str, typer.Argument(help="Folder of a run, or s3://….", metavar="RUN")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The page to write; by default report.html in the run.", metavar="FILE"),
    ] = None,
) -> None:
    """A training as a page for a browser: losses, their terms, how positives and negatives part, speed, scores.

    It needs nothing from the network; a training writes it too. Example: distiller report runs/mine -o training.html
    """
    require("distiller report", extra="train")
    from distiller.training.report import write_report

    say(write_report(run_folder, output))


@app.command()
def encode(
    model: Model,
    source: Annotated[str, typer.Argument(help="JSONL file, - for standard input.", metavar="INPUT")],
    target: Annotated[str, typer.Option("--out", "-o", help="Parquet file to write.")],
    output: Annotated[
        Literal["meaning", "context", "both", "baseline"], typer.Option(help="Which vectors to write.")
    ] = "meaning",
    normalize: Annotated[bool, typer.Option("--normalize", help="Vectors of unit length.")] = False,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out lines that cannot be encoded; the first are named.")
    ] = False,
    backbone: Backbone = None,
    device: Device = "auto",
) -> None:
    """Write the vectors of words in context. Lines have `text` and `word`, or `span`, or `start` and `end`.

    Example: distiller encode runs/mine words.jsonl -o words.parquet
    """
    require("distiller encode", extra="parquet")
    from distiller.inference.encode_file import BadLine, encode_file
    from distiller.inference.output_files import check_target

    left_out = 0

    def name(bad: BadLine) -> None:
        nonlocal left_out
        left_out += 1
        if left_out <= _NAMED_LINES:
            say(f"left out: {source}, line {bad.number}: {bad.reason}", err=True)

    check_target(target)
    loaded = _load(model, backbone, device)
    with _counting("words") as so_far:
        count = encode_file(loaded, source, target, output, normalize, name if skip_bad else None, so_far)
    if left_out:
        say(f"left out: {left_out:,} lines in all", err=True)
    say(f"{count:,} words: {target}")


@contextlib.contextmanager
def _counting(what: str) -> Iterator[Callable[[int], None]]:
    """Show a count and a rate on a terminal, and remove them at the end; show nothing in a pipe."""
    from rich.console import Console

    console, started = Console(file=sys.stderr), time.monotonic()
    if not console.is_terminal:
        yield lambda count: None
        return
    with console.status("") as line:
        yield lambda count: line.update(f"{count:,} {what}, {count / (time.monotonic() - started):,.0f} a second")


@app.command()
def similarity(
    model: Model,
    first: Annotated[str, typer.Argument(help="A text.")],
    second: Annotated[str, typer.Argument(help="Another.")],
    word: Annotated[str | None, typer.Option(help="The word in the first text.")] = None,
    other_word: Annotated[str | None, typer.Option(help="The word in the second, if it is another.")] = None,
    span: Span = None,
    other_span: Annotated[str | None, typer.Option(help="The same for the second text.", metavar="START:END")] = None,
    backbone: Backbone = None,
    device: Device = "auto",
) -> None:
    """How similar two words are where they stand.

    Example: distiller similarity runs/mine "The bank raised its rates." "They sat on the bank." --word bank
    """
    spans = [_place(first, word, span), _place(second, other_word or (None if other_span else word), other_span)]
    loaded = _load(model, backbone, device)
    for kind in loaded.outputs:
        vectors = loaded.encode([first, second], spans, output=kind)
        say(f"{kind:10}{loaded.similarity(vectors[0], vectors[1]).item():.3f}")


def _place(text: str, word: str | None, span: str | None) -> tuple[int, int]:
    """Return the place of the word in a text: where it is found, or where the user says."""
    from distiller.inference.spans import find_word

    if (word is None) == (span is None):
        raise ConfigError(f"say which word of {text!r} is meant: by the word, or by its span, START:END")
    if span is None:
        assert word is not None
        return find_word(text, word)
    start, _, end = span.partition(":")
    if not (start.isdecimal() and end.isdecimal()):
        raise ConfigError(f"{span!r} is no span: expected START:END, such as 4:8, counted in characters")
    return int(start), int(end)


@app.command()
def nearest(
    model: Model,
    candidates: Annotated[str, typer.Argument(help="Parquet file written by `distiller encode`.")],
    text: Annotated[str, typer.Option(help="A text.")],
    word: Annotated[str | None, typer.Option(help="The word in it.")] = None,
    span: Span = None,
    k: Annotated[int, typer.Option("-k", min=1, help="How many to print.")] = 10,
    kind: Kind = "meaning",
    backbone: Backbone = None,
    device: Device = "auto",
) -> None:
    """The words of a file that are nearest to a word in a text.

    Example: distiller nearest runs/mine words.parquet --text "The bank raised its rates." --word bank
    """
    require("distiller nearest", extra="parquet")
    from corpusgen.io.terminal import marked
    from distiller.inference.encode_file import nearest_in_file

    place = _place(text, word, span)
    loaded = _load(model, backbone, device)
    for neighbour in nearest_in_file(loaded.encode(text, place, output=kind), loaded, candidates, kind, k):
        say(f"{neighbour.cosine:.3f}  {visible(marked(neighbour.text, *neighbour.span))}")


@app.command()
def evaluate(
    model: Annotated[str | None, typer.Argument(help="A trained model.", metavar="[MODEL]")] = None,
    data: Annotated[str, typer.Option(help="Folder with a folder for each benchmark.")] = "eval",
    baseline: Annotated[str | None, typer.Option(help="Instead of a model: an encoder as it is.")] = None,
    static: Annotated[str | None, typer.Option(help="Instead of a model: a file of static vectors.")] = None,
    compare: Annotated[
        str | None,
        typer.Option(help="Another trained model, with --static another file, compared on the same items."),
    ] = None,
    compare_backbone: Annotated[str | None, typer.Option(help="Where the frozen model of that one is.")] = None,
    tasks: Annotated[str | None, typer.Option(help="Only these, for example wic,scws,stsb.")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Scores of sub-corpora too.")] = False,
    json_file: Annotated[str | None, typer.Option("--json", help="Write the scores to this file.")] = None,
    markdown_file: Annotated[str | None, typer.Option("--markdown", help="Write a table for a model card.")] = None,
    report_file: Annotated[str | None, typer.Option("--report", help="Write a page with plots.")] = None,
    card: Annotated[bool, typer.Option("--card", help="Put the table into the model's card.")] = False,
    backbone: Backbone = None,
    device: Device = "auto",
) -> None:
    """Score vectors on the field's benchmarks, with intervals, beside the frozen model's own vectors.

    Example: distiller evaluate runs/mine --data eval --report report.html
    """
    require("distiller evaluate", extra="evaluate")
    from distiller.evaluation.page import to_html
    from distiller.evaluation.report import to_markdown
    from distiller.inference.output_files import check_target, write_text
    from distiller.words.saved import card_place, put_in_card

    if [model, baseline, static].count(None) != 2:
        raise ConfigError("give one of MODEL, --baseline and --static")
    if backbone and not model:
        raise ConfigError("--backbone: only a trained model is on a frozen one")
    if compare_backbone and (static or not compare):
        raise ConfigError("--compare-backbone: there is no other trained model to compare with")
    if card and not model:
        raise ConfigError("--card: only a trained model has a card")
    if card and model:
        card_place(model)
    for target in filter(None, (json_file, markdown_file, report_file)):
        check_target(target)
    chosen = tasks.split(",") if tasks else None
    if static:
        evaluation = _static_evaluation(static, compare, data, chosen)
    else:
        loaded = _load(model, backbone, device) if model else _load_frozen(baseline or "", device)
        other = _load(compare, compare_backbone, device) if compare else None
        evaluation = _evaluation(loaded, model or baseline or "", other, compare or "", data, chosen)
    _show(evaluation, verbose)
    for path, written in ((json_file, _json), (markdown_file, to_markdown), (report_file, to_html)):
        if path:
            write_text(path, written(evaluation))
            say(path)
    if card and model:
        put_in_card(model, to_markdown(evaluation))


def _show(evaluation: Evaluation, verbose: bool) -> None:
    from rich.console import Console

    from distiller.evaluation.report import comparison_table, notes, table

    console = Console(width=None if Console().is_terminal else 120)
    console.print(table(evaluation, verbose))
    if evaluation.compared:
        console.print(comparison_table(evaluation.compared))
    for line in notes(evaluation):
        say(line)


def _json(evaluation: Evaluation) -> str:
    from distiller.evaluation.report import to_json

    return json.dumps(to_json(evaluation), indent=1, allow_nan=False)


def _static_evaluation(static: str, compare: str | None, data: str, tasks: list[str] | None) -> Evaluation:
    from corpusgen.models.vectors import open_vectors
    from distiller.evaluation import evaluate as running

    files = [running.VectorFile(open_vectors(path)) for path in (static, compare) if path]
    evaluation = running.evaluate_static(files[0], static, data, tasks)
    if compare:
        theirs = running.evaluate_static(files[1], compare, data, tasks).results
        evaluation.compared = running.compare(evaluation.results, theirs, compare, "static")
    return evaluation


def _evaluation(
    model: WordDistiller, name: str, other: WordDistiller | None, other_name: str, data: str, tasks: list[str] | None
) -> Evaluation:
    """Evaluate a model or a baseline, and compare its vectors with the meaning vectors of the other model, if any."""
    from distiller.evaluation import evaluate as running

    evaluation = running.evaluate(model, name, data, tasks, _say_done)
    if other is not None:
        theirs, kind = running.evaluate(other, other_name, data, tasks, _say_done).results, model.outputs[0]
        title = other_name if kind == "meaning" else f"the meaning vectors of {other_name}"
        evaluation.compared = running.compare(evaluation.results, theirs, title, kind, "meaning")
    return evaluation


def _say_done(result: TaskResult) -> None:
    """Print the scores of a task as soon as it is done, because some tasks take minutes."""
    scores = ", ".join(f"{kind} {100 * score.value:.1f}" for kind, score in result.scores.items())
    say(f"{result.task}: {scores}", err=True)


@app.command()
def analyze(
    model: Model,
    data: Annotated[str, typer.Option(help="Folder of benchmarks that has paws_wiki/ or stsb/.")] = "eval",
    text_file: Annotated[
        str | None,
        typer.Option("--texts", help="File with a sentence a line for the probes, if not the benchmark's."),
    ] = None,
    json_file: Annotated[str | None, typer.Option("--json", help="Write the figures to this file.")] = None,
    backbone: Backbone = None,
    device: Device = "auto",
) -> None:
    """What meaning and context vectors hold: layers, similarities in paraphrases, and what probes read from them.

    Example: distiller analyze runs/mine --data eval --texts sentences.txt
    """
    require("distiller analyze", extra="evaluate")
    from rich.console import Console

    from distiller.evaluation.analysis import analyse, tables, to_json
    from distiller.evaluation.word_samples import read_sentence_pairs
    from distiller.inference.output_files import check_target, write_text

    if json_file:
        check_target(json_file)
    pairs = read_sentence_pairs(data, say)
    texts = _read_texts(text_file) if text_file else [pair.texts[0] for pair in pairs]
    analysis = analyse(_load(model, backbone, device), pairs, texts, say)
    console = Console(width=None if Console().is_terminal else 120)
    for table in tables(analysis):
        console.print(table)
    if json_file:
        write_text(json_file, json.dumps(to_json(analysis), indent=1))
        say(json_file)


def _read_texts(path: str) -> list[str]:
    try:
        return [line for line in Path(path).read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None


@app.command()
def export(
    model: Model,
    target: Annotated[str, typer.Option("--out", "-o", help="ONNX file to write.")],
    backbone: Backbone = None,
) -> None:
    """Write the frozen model and its distillers as one ONNX graph.

    Example: distiller export runs/mine -o mine.onnx
    """
    require("distiller export", extra="onnx")
    from distiller.inference.onnx import export_onnx

    export_onnx(_load(model, backbone, "cpu"), target)
    say(target)


def _load(model: str, backbone: str | None, device: str) -> WordDistiller:
    from distiller.inference.word_distiller import WordDistiller

    return WordDistiller.from_pretrained(model, backbone=backbone, device=device)


def _load_frozen(backbone: str, device: str) -> WordDistiller:
    from distiller.inference.word_distiller import WordDistiller

    return WordDistiller.baseline(backbone, device=device)


def main() -> None:
    """Run the command line."""
    run(app, "distiller")


if __name__ == "__main__":
    main()
