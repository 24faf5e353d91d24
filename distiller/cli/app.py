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
from distiller.cli import static as static_commands
from distiller.cli.show import show
from distiller.cli.static_job import static

if TYPE_CHECKING:
    from distiller.evaluation.report import Evaluation
    from distiller.evaluation.results import TaskResult
    from distiller.inference.word_distiller import WordDistiller

app = new_app("Train word models on a corpus of triples or pairs, and use them.")

Model = Annotated[
    str,
    typer.Argument(help="Folder of a model or of a run, s3://…, a hub id, or embedded:minilm-wic.", metavar="MODEL"),
]
Backbone = Annotated[
    str | None, typer.Option(help="Folder or hub id of its frozen model, if it has moved since training.")
]
Device = Annotated[str, typer.Option(help="cpu, cuda or cuda:N; auto: a GPU if there is one.")]
Span = Annotated[
    str | None,
    typer.Option(
        help="Position of the word in characters, instead of the word: for one that occurs twice.", metavar="START:END"
    ),
]
Kind = Annotated[
    Literal["meaning", "context", "baseline"],
    typer.Option("--output", help="Which vectors to use; baseline: the frozen model's."),
]
_NAMED_LINES = 5  # the number of skipped lines to name


@app.callback()
def _root() -> None:
    """Train word models on a corpus of triples or pairs, and use them."""


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
        bool, typer.Option("--find-lr", help="Only search for a learning rate: raise it until the loss explodes.")
    ] = False,
    overrides: Overrides = None,
    show_config: ShowConfig = False,
) -> None:
    """Train a word model on a corpus of triples or pairs. Run the same command again to resume.

    Example: distiller train configs/distill_contrast.yaml --set output=runs/mine
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
def info(
    model: Model, as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False
) -> None:
    """Describe a model: its frozen model, layers, training and validation.

    Example: distiller info runs/mine
    """
    from distiller.words.saved import load_saved, ordered_text

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
        "nearer to positive": ordered_text(validation, bool(saved.config.get("residual"))),
    }
    for name, value in rows.items():
        say(f"{name:20}{value}")


@app.command()
def report(
    run_folder: Annotated[str, typer.Argument(help="Folder of a run, local or s3://….", metavar="RUN")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="HTML file to write; default: report.html in the run.", metavar="FILE"),
    ] = None,
) -> None:
    """Write an HTML page about a training: losses and their terms, positives against negatives, speed, scores.

    The page works offline; training writes it, too. Example: distiller report runs/mine -o training.html
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
    normalize: Annotated[bool, typer.Option("--normalize", help="Scale vectors to unit length.")] = False,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Skip lines that cannot be encoded, and name the first of them.")
    ] = False,
    backbone: Backbone = None,
    device: Device = "auto",
) -> None:
    """Write the vectors of words in context. Lines have `text`, and `word`, `span` or `start` and `end`.

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
            say(f"skipped: {source}, line {bad.number}: {bad.reason}", err=True)

    check_target(target)
    loaded = _load(model, backbone, device)
    with _counting("words") as so_far:
        count = encode_file(loaded, source, target, output, normalize, name if skip_bad else None, so_far)
    if left_out:
        say(f"skipped: {left_out:,} lines in total", err=True)
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
        yield lambda count: line.update(f"{count:,} {what}, {count / (time.monotonic() - started):,.0f} per second")


@app.command()
def similarity(
    model: Model,
    first: Annotated[str, typer.Argument(help="A text.")],
    second: Annotated[str, typer.Argument(help="Another.")],
    word: Annotated[str | None, typer.Option(help="The word in the first text.")] = None,
    other_word: Annotated[str | None, typer.Option(help="The word in the second text, if it differs.")] = None,
    span: Span = None,
    other_span: Annotated[
        str | None, typer.Option(help="Position of the word in the second text.", metavar="START:END")
    ] = None,
    backbone: Backbone = None,
    device: Device = "auto",
) -> None:
    """Print how similar two words are in their contexts.

    Example: distiller similarity runs/mine "The bank raised its rates." "They sat on the bank." --word bank
    """
    spans = [
        _word_span(first, word, span),
        _word_span(second, other_word or (None if other_span else word), other_span),
    ]
    loaded = _load(model, backbone, device)
    for kind in loaded.outputs:
        vectors = loaded.encode([first, second], spans, output=kind)
        say(f"{kind:10}{loaded.similarity(vectors[0], vectors[1]).item():.3f}")


def _word_span(text: str, word: str | None, span: str | None) -> tuple[int, int]:
    """Return the span of the word in a text: where it is found, or where the user says."""
    from distiller.inference.spans import find_word

    if (word is None) == (span is None):
        raise ConfigError(f"which word of {text!r}? Give the word, or its span as START:END")
    if span is None:
        assert word is not None
        return find_word(text, word)
    start, _, end = span.partition(":")
    if not (start.isdecimal() and end.isdecimal()):
        raise ConfigError(f"{span!r} is not a span: expected START:END in characters, such as 4:8")
    return int(start), int(end)


@app.command()
def nearest(
    model: Model,
    candidates: Annotated[str, typer.Argument(help="Parquet file written by `distiller encode`.")],
    text: Annotated[str, typer.Option(help="A text.")],
    word: Annotated[str | None, typer.Option(help="The word in it.")] = None,
    span: Span = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Number of words to print.")] = 10,
    kind: Kind = "meaning",
    backbone: Backbone = None,
    device: Device = "auto",
) -> None:
    """Print the words of a file that are nearest to a word in a text.

    Example: distiller nearest runs/mine words.parquet --text "The bank raised its rates." --word bank
    """
    require("distiller nearest", extra="parquet")
    from corpusgen.io.terminal import marked
    from distiller.inference.encode_file import nearest_in_file

    found = _word_span(text, word, span)
    loaded = _load(model, backbone, device)
    for neighbour in nearest_in_file(loaded.encode(text, found, output=kind), loaded, candidates, kind, k):
        say(f"{neighbour.cosine:.3f}  {visible(marked(neighbour.text, *neighbour.span))}")


@app.command()
def evaluate(
    model: Annotated[str | None, typer.Argument(help="A trained model.", metavar="[MODEL]")] = None,
    data: Annotated[str, typer.Option(help="Folder with one subfolder per benchmark.")] = "eval",
    baseline: Annotated[str | None, typer.Option(help="Evaluate a plain encoder instead of MODEL.")] = None,
    static: Annotated[str | None, typer.Option(help="Evaluate a file of static vectors instead of MODEL.")] = None,
    compare: Annotated[
        str | None,
        typer.Option(help="Trained model to compare with on the same items; with --static, another file."),
    ] = None,
    compare_backbone: Annotated[
        str | None, typer.Option(help="Folder or hub id of the frozen model of --compare.")
    ] = None,
    tasks: Annotated[str | None, typer.Option(help="Only these benchmarks, for example wic,scws,stsb.")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Also show scores of sub-corpora.")] = False,
    json_file: Annotated[str | None, typer.Option("--json", help="Write the scores to this file.")] = None,
    markdown_file: Annotated[str | None, typer.Option("--markdown", help="Write a table for a model card.")] = None,
    report_file: Annotated[str | None, typer.Option("--report", help="Write an HTML page with plots.")] = None,
    card: Annotated[bool, typer.Option("--card", help="Add the table to the model card.")] = False,
    backbone: Backbone = None,
    device: Device = "auto",
) -> None:
    """Score vectors on standard benchmarks, with confidence intervals, next to the frozen model's own vectors.

    Example: distiller evaluate runs/mine --data eval --report report.html
    """
    require("distiller evaluate", extra="evaluate")
    from distiller.evaluation.page import to_html
    from distiller.evaluation.report import to_markdown
    from distiller.inference.output_files import check_target, write_text
    from distiller.words.saved import card_location, put_in_card

    if [model, baseline, static].count(None) != 2:
        raise ConfigError("give exactly one of MODEL, --baseline and --static")
    if backbone and not model:
        raise ConfigError("--backbone: only for a trained model (MODEL)")
    if compare_backbone and (static or not compare):
        raise ConfigError("--compare-backbone: only together with --compare and a trained model")
    if card and not model:
        raise ConfigError("--card: only for a trained model (MODEL)")
    if card and model:
        card_location(model)
    for target in filter(None, (json_file, markdown_file, report_file)):
        check_target(target)
    chosen = tasks.split(",") if tasks else None
    if static:
        evaluation = _static_evaluation(static, compare, data, chosen)
    else:
        loaded = _load(model, backbone, device) if model else _load_frozen(baseline or "", device)
        other = _load(compare, compare_backbone, device) if compare else None
        evaluation = _evaluation(loaded, model or baseline or "", other, compare or "", data, chosen)
    show(evaluation, verbose)
    for path, written in ((json_file, _json), (markdown_file, to_markdown), (report_file, to_html)):
        if path:
            write_text(path, written(evaluation))
            say(path)
    if card and model:
        put_in_card(model, to_markdown(evaluation))


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
    say(f"{result.label}: {scores}", err=True)


@app.command()
def analyze(
    model: Model,
    data: Annotated[str, typer.Option(help="Folder of benchmarks that contains paws_wiki/ or stsb/.")] = "eval",
    text_file: Annotated[
        str | None,
        typer.Option(
            "--texts", help="File with one sentence per line for the probes; default: those of the benchmark."
        ),
    ] = None,
    json_file: Annotated[str | None, typer.Option("--json", help="Write the figures to this file.")] = None,
    backbone: Backbone = None,
    device: Device = "auto",
) -> None:
    """Analyse meaning and context vectors: layers, similarities in paraphrases, and what probes can read from them.

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


for command in (static, static_commands.postprocess, static_commands.combine, static_commands.align_vectors):
    app.command()(command)


def main() -> None:
    """Run the command line."""
    run(app, "distiller")


if __name__ == "__main__":
    main()
