"""How good word vectors are: the field's benchmarks in their original formats, with intervals."""
