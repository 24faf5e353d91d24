"""The `corpusgen` command, one module per group of commands."""

from corpusgen.cli.app import main

__all__ = ["main"]
