"""Static word vectors from any common file format, looked up in bulk, the same to the bit in any order."""

from corpusgen.models.vectors.formats import open_vectors
from corpusgen.models.vectors.lookup import WordVectors

__all__ = ["WordVectors", "open_vectors"]
