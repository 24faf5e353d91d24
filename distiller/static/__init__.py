"""Static word vectors, one per word: `StaticVectors`, their files, what can be made of them, and how they are made."""
