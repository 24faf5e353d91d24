"""Static word vectors from any common file format, looked up in bulk, the same to the bit in any order."""

from corpusgen.models.vectors.formats import open_source, open_vectors
from corpusgen.models.vectors.lookup import Source, WordVectors

__all__ = ["Source", "WordVectors", "open_source", "open_vectors"]
