"""Helpers that several tests and benchmarks use: an S3 server, faults, tiny models, pages in a browser."""

from pathlib import Path

PROJECT = Path(__file__).parents[2]
