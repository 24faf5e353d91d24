"""Static word vectors: any common file, looked up by the thousand, the same to the bit in any order."""

from corpusgen.vectors.formats import open_vectors
from corpusgen.vectors.lookup import WordVectors

__all__ = ["WordVectors", "open_vectors"]
