"""Turn raw text into a store of aligned triples for word meaning in context."""

__version__ = "0.1.0"
