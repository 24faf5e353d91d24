"""Find and run models made by others: encoders, translators, word vectors, lexicons."""
