"""Typed settings, and the code that loads them from YAML and `--set`."""
