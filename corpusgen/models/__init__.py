"""Models made by others: encoders, translators, word vectors, lexicons. Where they are and how to run them."""
