"""The `distiller` command."""

from distiller.cli.app import main

__all__ = ["main"]
