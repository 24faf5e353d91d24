"""Printing an evaluation, which several commands do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from corpusgen.io.command_line import say

if TYPE_CHECKING:
    from distiller.evaluation.report import Evaluation


def show(evaluation: Evaluation, verbose: bool = False) -> None:
    """Print the verdict, the differences and the scores of an evaluation, then its notes."""
    from rich.console import Console

    from distiller.evaluation.report import notes, terminal

    console = Console(width=None if Console().is_terminal else 120)
    for part in terminal(evaluation, verbose):
        console.print(part)
    for line in notes(evaluation):
        say(line)
