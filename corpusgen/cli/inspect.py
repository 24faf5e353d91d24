"""Commands that look into a store, and commands that turn it into something else."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from corpusgen.extras import require
from corpusgen.io.command_line import AsJson, Root, TableOption, say
from corpusgen.io.command_line import as_json as to_json

if TYPE_CHECKING:
    from corpusgen.store import Store

Id = Annotated[str | None, typer.Argument(help="Id of a row, or sentence id of a reject.", metavar="ID")]
Target = Annotated[str | None, typer.Option(help="Which target, if the sentence has several.", metavar="WORD")]
Seed = Annotated[int, typer.Option(help="Seed of the random choice.")]


def add_to(app: typer.Typer) -> None:
    """Add these commands to a command line."""
    for command in (sample, stats, explain, replay, export, merge):
        app.command()(command)


def sample(
    root: Root,
    number: Annotated[int, typer.Option("--number", "-n", help="Number of rows.", min=1)] = 20,
    word: Annotated[str | None, typer.Option(help="Only rows with this target.", metavar="WORD")] = None,
    seed: Seed = 0,
    table: TableOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per row, with all columns.")] = False,
) -> None:
    """Print random triples or pairs with their words in brackets, or paragraphs with spaces between tokens.

    Example: corpusgen sample corpora/quickstart -n 5 --word bank
    """
    require("corpusgen sample", extra="corpus")
    from corpusgen.ops.inspect.sample import row_lines, sample_rows

    product, rows = sample_rows(root, number, seed, word, table)
    for row in rows:
        say(to_json(row) if as_json else "\n".join(row_lines(product, row)) + "\n")


def stats(root: Root, table: TableOption = None, as_json: AsJson = False) -> None:
    """Print statistics of a store: rows, rejects by reason, the funnel, and distributions of cosines and lengths.

    Example: corpusgen stats corpora/quickstart
    """
    require("corpusgen stats", extra="corpus")
    from corpusgen.ops.inspect.stats import lines
    from corpusgen.ops.inspect.stats import stats as figures_of

    found = figures_of(root, table)
    say(to_json(dataclasses.asdict(found)) if as_json else "\n".join(lines(found)))


def explain(
    root: Root,
    id_: Id = None,
    target: Target = None,
    word: Annotated[
        str | None, typer.Option(help="Explain a row with this target, instead of ID.", metavar="WORD")
    ] = None,
    table: TableOption = None,
    as_json: AsJson = False,
) -> None:
    """Explain why a triple or pair was chosen, or why there is none: every candidate and what happened to it.

    Triples need the models that the store names; the command stops if one is missing or has changed.
    Example: corpusgen explain corpora/quickstart --word bank
    """
    if (id_ is None) == (word is None):
        raise typer.BadParameter("give either ID or --word")
    require("corpusgen explain", extra="corpus")
    from corpusgen.corpus.stored_settings import open_store
    from corpusgen.ops.inspect.stored import Origins, find_stored, product_to_explain, stored_of_word
    from corpusgen.store.products import DISCOURSE, WORDS

    store = open_store(root)
    if product_to_explain(store, id_, table, (WORDS, DISCOURSE)) == DISCOURSE:
        _explain_pair(store, id_, word, as_json)
        return
    stored = Origins().of(stored_of_word(store, word) if word is not None else find_stored(store, str(id_), target))
    # Imported only once there is something to explain: these modules take seconds to load.
    from corpusgen.ops.inspect.explain import explain as explain_stored
    from corpusgen.ops.inspect.remake import Workshop
    from corpusgen.ops.inspect.render import lines

    found = explain_stored(stored, Workshop(stored.store))
    say(to_json(dataclasses.asdict(found)) if as_json else "\n".join(lines(found)))


def _explain_pair(store: Store, id_: str | None, word: str | None, as_json: bool) -> None:
    from corpusgen.ops.inspect.explain_pairs import explain_no_pair, explain_pair, find_pair, pair_of_word
    from corpusgen.ops.inspect.render_pairs import no_pair_lines, pair_lines

    stored = find_pair(store, id_) if id_ is not None else pair_of_word(store, str(word))
    if stored is None:
        why = explain_no_pair(store, str(word))
        say(to_json(dataclasses.asdict(why)) if as_json else "\n".join(no_pair_lines(why)))
        return
    found = explain_pair(stored)
    same = {"same": found.same}
    say(to_json(dataclasses.asdict(found) | same) if as_json else "\n".join(pair_lines(found)))


def replay(
    root: Root,
    id_: Id = None,
    target: Target = None,
    number: Annotated[
        int | None, typer.Option("--sample", help="Replay N random triples, instead of ID.", metavar="N", min=1)
    ] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Make triples again from their sentences with the models that the store names, and show the differences.

    Exits with 1 if there are any. Example: corpusgen replay corpora/quickstart --sample 20
    """
    if (id_ is None) == (number is None):
        raise typer.BadParameter("give either ID or --sample")
    require("corpusgen replay", extra="corpus")
    from corpusgen.corpus.stored_settings import open_store
    from corpusgen.ops.inspect.stored import find_stored, random_triples
    from corpusgen.store.products import check_holds_triples

    store = open_store(root)
    check_holds_triples(store)
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
        str,
        typer.Option(
            "--output",
            "-o",
            help="File for jsonl and txt (- for standard output), folder for tsv and hf.",
            metavar="PATH",
        ),
    ] = "-",
    kind: Annotated[
        Literal["jsonl", "txt", "tsv", "hf"],
        typer.Option(
            "--format", help="JSON lines, paragraphs as plain tokens, one file per member, or Hugging Face `datasets`."
        ),
    ] = "jsonl",
    table: TableOption = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing export.")] = False,
) -> None:
    """Write all triples, pairs or paragraphs in another format.

    Example: corpusgen export corpora/quickstart -o triples.jsonl --format jsonl
    """
    require("corpusgen export", extra="corpus")
    from corpusgen.corpus.stored_settings import open_store
    from corpusgen.ops.export import STANDARD_OUTPUT
    from corpusgen.ops.export import export as write
    from corpusgen.store.products import product_of

    table = product_of(open_store(root), table).table
    rows = write(root, output, kind, overwrite, table)
    if output != STANDARD_OUTPUT:
        say(f"{output}: {rows:,} {table}")


def merge(
    output: Annotated[str, typer.Argument(help="Store to create: a folder or s3://bucket/prefix.", metavar="OUTPUT")],
    roots: Annotated[list[str], typer.Argument(help="Roots of the stores to merge.", metavar="ROOT...")],
    table: TableOption = None,
    as_json: AsJson = False,
) -> None:
    """Merge the triples, pairs or paragraphs of several stores, dropping duplicates. Run it again to resume.

    Example: corpusgen merge corpora/both corpora/quickstart s3://bucket/corpus
    """
    require("corpusgen merge", extra="corpus")
    from corpusgen.ops.merge import duplicates
    from corpusgen.ops.merge import merge as merge_stores

    merged = merge_stores(output, roots, lambda line: say(line, err=True), table)
    rows = {name: count for totals in merged.values() for name, count in totals.rows.items()}
    twice = {name: duplicates(totals) for name, totals in merged.items()}
    if as_json:
        units = sum(totals.units for totals in merged.values())
        say(to_json({"units": units, "rows": rows, "duplicates": sum(twice.values())}))
    else:
        units = sum(totals.committed for totals in merged.values())
        said = ", ".join(f"{count:,} {name}" for name, count in rows.items())
        again = " and ".join(f"{count:,} {name}" for name, count in twice.items())
        say(f"{output}: {units:,} units, {said}; duplicates dropped: {again}")
