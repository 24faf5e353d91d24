"""The commands that make static vectors out of others: `postprocess`, `combine` and `align-vectors`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from corpusgen.errors import ConfigError
from corpusgen.extras import require
from corpusgen.io.command_line import say
from distiller.cli.show import show

if TYPE_CHECKING:
    from distiller.static.align import Pairs, Precision
    from distiller.static.vectors import StaticVectors

_FORMATS = (
    "word2vec's text or binary format, GloVe's text, a model of fastText, .npy with its words, or a folder of model2vec"
)
_WRITTEN = (
    ".txt or .vec for word2vec's text, .bin for its binary format, .npy, or no ending for a folder that model2vec loads"
)
Output = Annotated[str, typer.Argument(help=f"Where to write: {_WRITTEN}.", metavar="OUT")]


def _vectors(name: str) -> Any:
    return typer.Argument(help=f"Static vectors: {_FORMATS}.", metavar=name)


def postprocess(
    source: Annotated[str, _vectors("IN")],
    target: Output,
    order: Annotated[
        float | None,
        typer.Option(
            help="Change the order of similarity, from -1 to 1: 0 only rotates, 0.5 is second order, negative values "
            "make weak directions count more. Meant for vectors as they were trained."
        ),
    ] = None,
    all_but_the_top: Annotated[
        bool,
        typer.Option(
            "--all-but-the-top",
            help="Remove the mean and the strongest components. Often helps similarity, and often hurts other uses.",
        ),
    ] = False,
    components: Annotated[
        int | None, typer.Option(help="How many components to remove; default: one per hundred dimensions.")
    ] = None,
    pca: Annotated[
        int | None,
        typer.Option(
            help="Keep this many dimensions; two thirds lose little. With --all-but-the-top, components are removed "
            "before and after."
        ),
    ] = None,
    normalize: Annotated[bool, typer.Option("--normalize", help="Scale vectors to unit length.")] = False,
    data: Annotated[
        str | None,
        typer.Option(help="Folder of benchmarks with wordsim/: print scores before and after, with intervals."),
    ] = None,
) -> None:
    """Change static vectors as a whole: order of similarity, all-but-the-top, fewer dimensions, unit length.

    The steps are done in the order of the options above. Example: distiller postprocess vectors.txt small.txt --pca 200
    """
    if data is not None:
        require("distiller postprocess --data", extra="evaluate")
    from distiller.static.card import Card
    from distiller.static.postprocess import Steps
    from distiller.static.postprocess import postprocess as run

    steps = Steps(order, all_but_the_top, components, pca, normalize)
    _check_target(target, source)
    before = _load(source)
    after, notes = run(before, steps)
    for note in notes:
        say(note)
    scores = ""
    if data is not None:
        scores = _show_before_and_after(before, after, source, data)
    elif all_but_the_top or pca is not None or order is not None:
        say("Nothing says yet whether this helps: give --data, or try it on your own task.")
    made_by = [*notes, "unit length"] if normalize else notes
    _save(
        after,
        target,
        Card("post-processed word vectors", {"made from": _name(source), "by": "; ".join(made_by)}, scores),
    )


def _show_before_and_after(before: StaticVectors, after: StaticVectors, source: str, data: str) -> str:
    from distiller.evaluation.report import to_markdown
    from distiller.static.scores import before_and_after, harm

    evaluation = before_and_after(before, after, source, data)
    show(evaluation)
    if hurt := harm(evaluation):
        say(hurt)
    return to_markdown(evaluation)


def combine(
    first: Annotated[str, _vectors("A")],
    second: Annotated[str, _vectors("B")],
    target: Output,
    how: Annotated[
        Literal["geometric", "geometric-mean", "concat", "mean"],
        typer.Option(
            help="geometric: map both into one space, then put one vector after the other; geometric-mean: then take "
            "the mean. concat and mean do the same without the maps."
        ),
    ] = "geometric",
    c: Annotated[float, typer.Option("--c", help="How much the geometric maps prefer directions strong in both.")] = 50,
) -> None:
    """Combine two tables of static vectors over the words that both have.

    Example: distiller combine glove.txt fasttext.bin both.npy
    """
    from distiller.static.card import Card
    from distiller.static.combine import combine as run

    _check_target(target, first, second)
    tables = _load(first), _load(second)
    made = run(*tables, how, c)
    say(f"{len(made):,} words in common, {made.dimension} dimensions")
    sizes = sorted(table.dimension for table in tables)
    if how.startswith("geometric") and sizes[0] < sizes[1]:
        say(f"the common space has the {sizes[0]} dimensions of the smaller table, not {sizes[1]}; concat keeps all")
    settings: dict[str, Any] = {"made from": f"{_name(first)} and {_name(second)}", "how": how}
    if how.startswith("geometric"):
        settings["c"] = f"{c:g}"
    _save(made, target, Card("combined word vectors", settings))


def align_vectors(
    source: Annotated[str, _vectors("SOURCE")],
    target: Annotated[str, _vectors("TARGET")],
    output: Output,
    dictionary: Annotated[
        str | None,
        typer.Option(
            help="File of word pairs, source, tab, target; default: start from words that both write alike.",
            metavar="FILE",
        ),
    ] = None,
    target_first: Annotated[
        bool, typer.Option("--target-first", help="The first column of the dictionary is of TARGET.")
    ] = False,
    held_out: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            help="Share of the dictionary's source words kept for the test; 1: all, and the fit starts from words that "
            "both write alike.",
        ),
    ] = 0.2,
    refine: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Rounds of fitting again to pairs that the map finds itself; default: 0, or 5 without a dictionary "
            "to fit to.",
        ),
    ] = None,
) -> None:
    """Rotate the vectors of one language into the space of another's, and say how well words are translated then.

    Example: distiller align-vectors fr.vec en.vec fr-in-en.vec --dictionary fr-en.tsv
    """
    from distiller.static.align import align, precision_at_1
    from distiller.static.card import Card

    _check_target(output, source, target, *filter(None, [dictionary]))
    tables = _load(source), _load(target)
    pairs = _read_pairs(dictionary, target_first, held_out, *tables) if dictionary else None
    made = align(*tables, pairs, refine)
    start = "pairs of the dictionary" if pairs and len(pairs.fit) else "words written alike"
    say(f"fitted to {made.seeds:,} {start}" + (f", in the end to {made.pairs:,}" if made.pairs != made.seeds else ""))
    if made.pairs < made.vectors.dimension:
        say(f"fewer pairs than the {made.vectors.dimension} dimensions: the map is only a guess in the others")
    settings = {"made from": _name(source), "in the space of": _name(target), "fitted to": f"{made.pairs:,} pairs"}
    scores = ""
    if pairs and len(pairs.held_out):
        scores = _said(precision_at_1(made.vectors, tables[1], pairs.held_out))
        say(scores)
    else:
        say("no dictionary entries were held out, so nothing says how good the map is")
    _save(made.vectors, output, Card("aligned word vectors", settings, scores))


def _read_pairs(path: str, target_first: bool, held_out: float, source: StaticVectors, target: StaticVectors) -> Pairs:
    from distiller.static.align import known_pairs, read_dictionary, split_pairs

    dictionary = read_dictionary(path, target_first)
    known = known_pairs(dictionary, source, target)
    swapped = known_pairs([(second, first) for first, second in dictionary], source, target)
    if len(swapped) > 2 * len(known):
        remedy = "leave out --target-first" if target_first else "add --target-first"
        raise ConfigError(
            f"{path}: {len(known):,} of {len(dictionary):,} pairs are known in this order, and {len(swapped):,} in the "
            f"other; {remedy}"
        )
    if not len(known):
        raise ConfigError(
            f"{path}: none of its {len(dictionary):,} pairs has a word that SOURCE knows and one that TARGET knows; "
            "give the dictionary of these two languages"
        )
    pairs = split_pairs(known, source, held_out)
    say(
        f"{path}: {len(dictionary):,} pairs, {len(known):,} of them with both words known, "
        f"{len(pairs.held_out):,} held out"
    )
    return pairs


def _said(precision: Precision) -> str:
    nearest, csls = (
        f"{100 * score.value:.1f} % [{100 * score.low:.1f}, {100 * score.high:.1f}]"
        for score in (precision.nearest, precision.csls)
    )
    return f"Precision@1 on {precision.words:,} held-out words: nearest neighbour {nearest}, CSLS {csls}."


# ------------------------------------------------------------------------- files


def _check_target(target: str, *sources: str) -> None:
    from distiller.static.files import check_target

    check_target(target, sources)


def _load(path: str) -> StaticVectors:
    from corpusgen.models.vectors.tables import Table
    from distiller import StaticVectors

    vectors = StaticVectors.load(path)
    lost = "" if isinstance(vectors.source, Table) else "; vectors from sub-words are not kept"
    say(f"{path}: {len(vectors):,} words, {vectors.dimension} dimensions{lost}")
    return vectors


def _save(vectors: StaticVectors, target: str, card: Any) -> None:
    kept, left_out = vectors.writable()
    if left_out:
        say(
            f"left out: {len(left_out):,} words that files cannot hold, because they contain white space or occur "
            f"twice, such as {left_out[0]!r}",
            err=True,
        )
    kept.save(target, card=card)
    say(f"{len(kept):,} words: {target}")


def _name(path: str) -> str:
    """Return the name of a file for a card: the folders above it mean nothing elsewhere."""
    return os.path.basename(path.rstrip("/"))
