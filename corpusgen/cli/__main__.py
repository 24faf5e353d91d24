"""The entry point of `python -m corpusgen.cli`."""

from corpusgen.cli.app import main

main()
