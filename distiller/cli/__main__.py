"""Run `python -m distiller.cli`."""

from distiller.cli.app import main

main()
