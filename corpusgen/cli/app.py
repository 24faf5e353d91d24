"""The command line. Each command imports what it needs itself, so that `--help` answers at once."""

from __future__ import annotations

import time
from contextlib import ExitStack
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Literal

import typer

from corpusgen.cli import inspect as inspecting
from corpusgen.cli.doctor import doctor
from corpusgen.cli.estimate import estimate
from corpusgen.errors import CorpusgenError
from corpusgen.extras import require
from corpusgen.io.command_line import (
    Address,
    AsJson,
    Config,
    Overrides,
    Root,
    ShowConfig,
    TableOption,
    new_app,
    run,
    say,
)
from corpusgen.io.command_line import as_json as to_json

app = new_app("Turn raw text into a store of triples or pairs of words in context, or of whole paragraphs.")


def main() -> None:
    """Run the command line."""
    run(app, "corpusgen")


@app.command()
def build(
    config: Config,
    executor: Annotated[
        Literal["ray", "local"], typer.Option(help="Run on Ray, or in a plain loop in this process.")
    ] = "ray",
    address: Address = None,
    until: Annotated[str | None, typer.Option(help="Stop after this pass.", metavar="PASS")] = None,
    reuse: Annotated[
        str | None,
        typer.Option(
            help="Reuse units and translations of this store that would come out the same.", metavar="OLD_ROOT"
        ),
    ] = None,
    overrides: Overrides = None,
    show_config: ShowConfig = False,
) -> None:
    """Build a corpus. Run the same command again to resume.

    Example: corpusgen build configs/quickstart.yaml --set store=corpora/mine
    With other negatives: corpusgen build my.yaml --set store=corpora/new --reuse corpora/mine
    """
    from corpusgen.config.build import load_config

    settings = load_config(config, overrides or [])
    if show_config:
        say(settings.to_yaml().rstrip())
        return
    require("corpusgen build", *(["ray"] if executor == "ray" else []), extra="corpus")
    from corpusgen.corpus.build import build as run_build
    from corpusgen.corpus.recipes import recipe_of
    from corpusgen.engine.local import LocalExecutor
    from corpusgen.engine.passes import Executor
    from corpusgen.engine.progress import terminal_progress
    from corpusgen.ops.doctor.before_build import before_build
    from corpusgen.ops.summary import summary
    from corpusgen.store.products import WORDS

    recipe = recipe_of(settings)
    if until is not None and until not in recipe.passes:
        raise CorpusgenError(f"--until {until}: no such pass; choose from {', '.join(recipe.passes)}")
    progress = terminal_progress()
    with ExitStack() as stack:
        runner: Executor
        if executor == "local":
            before_build(settings, until, on_ray=False, here=True)
            runner = LocalExecutor(settings.run, progress)
        else:
            from corpusgen.engine.cluster import is_this_machine
            from corpusgen.engine.ray_executor import RayExecutor

            stages = before_build(settings, until, on_ray=True, here=is_this_machine(address))
            runner = stack.enter_context(RayExecutor(settings.run, progress, address, stages))
        store = run_build(settings, runner, until, lambda name, totals: say(summary(name, totals)), reuse, say)
    for product in recipe.products:
        if store.pass_store(product.pass_name).started():
            from corpusgen.ops.funnels import funnel_lines, funnel_of

            if found := funnel_of(store, product):
                say("\n".join(funnel_lines(found)))
        elif product == WORDS and until is None:
            say("building targets only; to make triples, set vectors, masked and translation (docs/triples.md)")
    say(f"store: {store.url}")


@app.command()
def submit(
    config: Config,
    address: Annotated[str, typer.Option(help="The dashboard of a Ray cluster, for example http://127.0.0.1:8265.")],
    train: Annotated[bool, typer.Option("--train", help="Train a model; CONFIG is for `distiller train`.")] = False,
    overrides: Overrides = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            "--env", help="Pass this environment variable to the job. No secrets: Ray logs it.", metavar="NAME"
        ),
    ] = None,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Return at once instead of following the job.")] = False,
) -> None:
    """Run a build as a job on a Ray cluster: upload the current folder and follow the log.

    The exit code is the job's, 0 only if it succeeded. Ctrl-C stops the job; submit it again to resume.
    Example: corpusgen submit configs/wikipedia_en.yaml --address http://127.0.0.1:8265 --set store=s3://bucket/corpus
    """
    require("corpusgen submit", "ray", "aiohttp", extra="corpus")
    from corpusgen.ops.submit import submit as submit_job

    code = submit_job(config, address, train=train, overrides=overrides or [], env=env or [], wait=not no_wait, say=say)
    raise typer.Exit(code)


@app.command()
def status(
    root: Root,
    watch: Annotated[bool, typer.Option("--watch", help="Refresh every few seconds until the build is done.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the progress of a build, from any machine.

    Example: corpusgen status s3://bucket/corpus --watch
    """
    require("corpusgen status", extra="corpus")
    from corpusgen.ops.status import BuildStatus
    from corpusgen.ops.status import watch as watch_build
    from corpusgen.store import Store

    store = Store.at(root)
    if watch:
        watch_build(store, say, as_json)
        return
    status = BuildStatus(store)
    status.look()
    now = time.time()
    say(to_json(status.as_dict(now)) if as_json else "\n".join(status.lines(now)))


@app.command()
def report(
    root: Root,
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write.", metavar="FILE")] = Path(
        "report.html"
    ),
    watch: Annotated[bool, typer.Option("--watch", help="Rewrite it every 15 s until the build is done.")] = False,
    table: TableOption = None,
) -> None:
    """Write an HTML page about a build: where its rows ended up, triples or pairs to browse, histograms, speeds.

    The page works offline. Example: corpusgen report corpora/quickstart -o report.html
    """
    require("corpusgen report", extra="corpus")
    from corpusgen.ops.report import watch_report, write_report

    def tell(size: int) -> None:
        say(f"{output}: {size / 1e6:,.1f} MB")

    if watch:
        watch_report(root, output, tell, table=table)
    else:
        tell(write_report(root, output, table))


@app.command()
def verify(
    root: Root,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair", help="Remove what is damaged, so that the next build makes it again. Stop all builds first."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check a whole store: every unit committed once, every part present and unchanged, all counts adding up.

    Also checks that each pass was planned from what is committed now. Exits with 1 if anything is wrong.
    Example: corpusgen verify corpora/quickstart
    """
    require("corpusgen verify", extra="corpus")
    from corpusgen.corpus.recipes import recipe_of_store
    from corpusgen.ops.summary import as_dict, summary
    from corpusgen.store import Store
    from corpusgen.store.check import verify as verify_store
    from corpusgen.store.repair import repair as repair_store

    store = Store.at(root)
    recipe = recipe_of_store(store)
    checks = list(verify_store(store, recipe.reads, recipe.passes))
    if not checks:
        raise CorpusgenError(f"{root}: no pass has been started")
    removed = repair_store(store, checks) if repair else 0
    if as_json:
        report = {
            c.name: {
                **as_dict(c.totals),
                **{"ok": c.ok, "missing": c.missing, "problems": c.problems, "removed": len(c.damaged) * repair},
            }
            for c in checks
        }
        say(to_json(report))
    else:
        for check in checks:
            say(summary(check.name, check.totals))
            for problem in check.problems:
                say(f"    PROBLEM {problem}")
            if check.missing:
                say(f"    PROBLEM {check.missing:,} units are not committed; run the build again to finish them")
            if check.left_over:
                say(f"    {check.left_over:,} units are left over from an earlier plan; `corpusgen gc` removes them")
        say("ok" if all(check.ok for check in checks) else "NOT ok")
        if removed:
            say(f"removed {removed:,} commits and plans; run the build again to restore them")
    if not all(check.ok for check in checks):
        raise typer.Exit(1)


@app.command()
def gc(
    root: Root,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count the files without removing them.")] = False,
) -> None:
    """Remove files that no commit names, left behind by crashes or duplicate attempts. Safe while a build runs.

    Example: corpusgen gc corpora/quickstart --dry-run
    """
    require("corpusgen gc", extra="corpus")
    from corpusgen.store import Store
    from corpusgen.store.repair import gc as collect

    files, size = collect(Store.at(root), dry_run)
    say(f"{'would remove' if dry_run else 'removed'} {files:,} files, {size / 1e6:,.1f} MB")


@app.command("convert-translator")
def convert_translator(
    source: Annotated[
        str, typer.Argument(help="Folder of a fairseq, Marian or NLLB model, or a hub id.", metavar="SOURCE")
    ],
    output: Annotated[str, typer.Argument(help="Folder to create.", metavar="OUTPUT")],
    quantization: Annotated[
        str | None, typer.Option(help="int8, int16, float16, bfloat16, …; default: the precision of SOURCE.")
    ] = None,
    source_language: Annotated[str | None, typer.Option(help="For fairseq, if SOURCE does not name it.")] = None,
    target_language: Annotated[str | None, typer.Option(help="For fairseq, if SOURCE does not name it.")] = None,
    revision: Annotated[str | None, typer.Option(help="Commit, tag or branch of a hub id.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the folder if it exists.")] = False,
) -> None:
    """Convert a translation model to CTranslate2, which is faster and needs no fairseq on the workers.

    WARNING: a fairseq checkpoint is a pickle. Convert only files that you would run as a program (docs/security.md).
    Example: corpusgen convert-translator models/wmt19.en-de models/wmt19.en-de.ct2 --quantization int8
    """
    require("corpusgen convert-translator", "ctranslate2", extra="corpus")
    from corpusgen.models.translate.convert import convert_translator as convert

    languages = {"source_language": source_language, "target_language": target_language}
    convert(source, output, quantization, revision=revision, **languages, overwrite=overwrite)
    say(f"{output}: converted; use it as the `model` of a translator with `backend: ctranslate2`")


@app.command()
def calibrate(
    vectors: Annotated[str, typer.Argument(help="File of word vectors.", metavar="VECTORS")],
    words: Annotated[str | None, typer.Option(help="File with the words of an .npy matrix.")] = None,
    sample: Annotated[int, typer.Option(help="Number of words to look up neighbours for.", min=10)] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of the random sample.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Show how similar words are in a file of vectors, and suggest thresholds for `rules`.

    Example: corpusgen calibrate models/cc.en.300.bin
    """
    require("corpusgen calibrate", extra="corpus")
    import dataclasses

    from corpusgen.models.vectors import open_vectors
    from corpusgen.ops.calibrate import calibrate as run_calibrate
    from corpusgen.ops.calibrate import report

    calibration = run_calibrate(open_vectors(vectors, words), sample, seed)
    say(to_json(dataclasses.asdict(calibration)) if as_json else report(calibration).rstrip())


app.command()(estimate)
app.command()(doctor)
inspecting.add_to(app)
for _entry in entry_points(group="corpusgen.commands"):  # commands of packages that build on this one
    app.command(_entry.name)(_entry.load())


if __name__ == "__main__":
    main()
