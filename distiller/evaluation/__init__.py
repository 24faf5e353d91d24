"""Evaluation of word vectors: the field's benchmarks in their original formats, with intervals."""
