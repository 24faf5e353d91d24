"""Commands that look into a store, and commands that turn it into something else."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Literal

import typer

from corpusgen.extras import require
from corpusgen.io.command_line import AsJson, Root, say
from corpusgen.io.command_line import as_json as to_json

Id = Annotated[str | None, typer.Argument(help="Id of the sentence of a triple or reject.", metavar="ID")]
Target = Annotated[str | None, typer.Option(help="Of a sentence with several targets: which one.", metavar="WORD")]
Seed = Annotated[int, typer.Option(help="Of the choice: the same seed, the same triples.")]


def add_to(app: typer.Typer) -> None:
    """Add these commands to a command line."""
    for command in (sample, stats, explain, replay, export, merge):
        app.command()(command)


def sample(
    root: Root,
    number: Annotated[int, typer.Option("--number", "-n", help="How many.", min=1)] = 20,
    word: Annotated[str | None, typer.Option(help="Only triples with this target.", metavar="WORD")] = None,
    seed: Seed = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, a triple a line, with all columns.")] = False,
) -> None:
    """Some triples at random, their words in brackets.

    Example: corpusgen sample corpora/quickstart -n 5 --word bank
    """
    require("corpusgen sample", extra="corpus")
    from corpusgen.ops.inspect.sample import sample_triples, triple_lines

    for row in sample_triples(root, number, seed, word):
        say(to_json(row) if as_json else "\n".join(triple_lines(row)) + "\n")


def stats(root: Root, as_json: AsJson = False) -> None:
    """A store in figures: rows, rejects by reason, the funnel, how cosines, probabilities and lengths are spread.

    Example: corpusgen stats corpora/quickstart
    """
    require("corpusgen stats", extra="corpus")
    from corpusgen.ops.inspect.stats import lines
    from corpusgen.ops.inspect.stats import stats as figures_of

    found = figures_of(root)
    say(to_json(dataclasses.asdict(found)) if as_json else "\n".join(lines(found)))


def explain(
    root: Root,
    id_: Id = None,
    target: Target = None,
    word: Annotated[str | None, typer.Option(help="One with this target, instead of ID.", metavar="WORD")] = None,
    as_json: AsJson = False,
) -> None:
    """Why a triple is what it is, or why there is none: every word that came into question, and what became of it.

    Computed again with the models that the store names; where they are absent or others, it says so and stops.
    Example: corpusgen explain corpora/quickstart --word bank
    """
    if (id_ is None) == (word is None):
        raise typer.BadParameter("give either ID or --word")
    require("corpusgen explain", extra="corpus")
    from corpusgen.corpus.stored_settings import open_store
    from corpusgen.ops.inspect.stored import Origins, find_stored, stored_of_word

    store = open_store(root)
    stored = Origins().of(stored_of_word(store, word) if word is not None else find_stored(store, str(id_), target))
    # Imported only once there is something to explain: these modules take seconds to load.
    from corpusgen.ops.inspect.explain import explain as explain_stored
    from corpusgen.ops.inspect.remake import Workshop
    from corpusgen.ops.inspect.render import lines

    found = explain_stored(stored, Workshop(stored.store))
    say(to_json(dataclasses.asdict(found)) if as_json else "\n".join(lines(found)))


def replay(
    root: Root,
    id_: Id = None,
    target: Target = None,
    number: Annotated[
        int | None, typer.Option("--sample", help="So many random triples, instead of ID.", metavar="N", min=1)
    ] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Make triples again from their sentences, with the models that the store names, and show what differs.

    Exits with 1 if anything does. Example: corpusgen replay corpora/quickstart --sample 20
    """
    if (id_ is None) == (number is None):
        raise typer.BadParameter("give either ID or --sample")
    require("corpusgen replay", extra="corpus")
    from corpusgen.corpus.stored_settings import open_store
    from corpusgen.ops.inspect.stored import find_stored, random_triples

    store = open_store(root)
    chosen = random_triples(store, number, seed) if number is not None else [find_stored(store, str(id_), target)]
    from corpusgen.ops.inspect.render import replay_lines
    from corpusgen.ops.inspect.replay import replay as replay_stored

    found = list(replay_stored(chosen))
    same = sum(one.same for one in found)
    if as_json:
        rows = [{**vars(one), "differences": [d._asdict() for d in one.differences]} for one in found]
        same_code = all(one.same_code for one in found)
        say(to_json({"replayed": len(found), "same": same, "same_code": same_code, "rows": rows}))
    else:
        say("\n".join(replay_lines(found)))
    if same < len(found):
        raise typer.Exit(1)


def export(
    root: Root,
    output: Annotated[
        str, typer.Option("--output", "-o", help="File (jsonl; - for standard output) or folder.", metavar="PATH")
    ] = "-",
    kind: Annotated[
        Literal["jsonl", "tsv", "hf"],
        typer.Option("--format", help="JSON lines; three files as of the published code; for `datasets`."),
    ] = "jsonl",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an export that is there.")] = False,
) -> None:
    """All triples in another format.

    Example: corpusgen export corpora/quickstart -o triples.jsonl --format jsonl
    """
    require("corpusgen export", extra="corpus")
    from corpusgen.ops.export import STANDARD_OUTPUT
    from corpusgen.ops.export import export as write

    rows = write(root, output, kind, overwrite)
    if output != STANDARD_OUTPUT:
        say(f"{output}: {rows:,} triples")


def merge(
    output: Annotated[str, typer.Argument(help="The store to make: a folder or s3://bucket/prefix.", metavar="OUTPUT")],
    roots: Annotated[list[str], typer.Argument(help="Roots of the stores to take triples from.", metavar="ROOT...")],
    as_json: AsJson = False,
) -> None:
    """One store with the triples of several; a sentence with the same target is kept once. The same command resumes.

    Example: corpusgen merge corpora/both corpora/quickstart s3://bucket/corpus
    """
    require("corpusgen merge", extra="corpus")
    from corpusgen.ops.merge import DUPLICATE
    from corpusgen.ops.merge import merge as merge_stores

    totals = merge_stores(output, roots, lambda line: say(line, err=True))
    twice = sum(stage.rejected.get(DUPLICATE, 0) for stage in totals.stages.values())
    if as_json:
        say(to_json({"units": totals.units, "rows": totals.rows, "duplicates": twice}))
    else:
        rows = ", ".join(f"{count:,} {table}" for table, count in totals.rows.items())
        say(f"{output}: {totals.committed:,} units, {rows}; {twice:,} triples were there twice")
