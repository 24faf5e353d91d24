"""Checks before any hour is paid for: cheap ones, which start every build, and the thorough ones of `corpusgen doctor`.

A check is a function that yields lines: a colour, what was checked, what was found, what to do.
"""
