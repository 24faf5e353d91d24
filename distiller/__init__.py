"""Word models from triples: distil meaning in context out of a frozen masked language model."""

__version__ = "0.1.0"
