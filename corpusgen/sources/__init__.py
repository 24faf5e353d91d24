"""Readers of raw text, each able to split its input into units without reading it."""
