"""Run `python -m corpusgen.cli`."""

from corpusgen.cli.app import main

main()
