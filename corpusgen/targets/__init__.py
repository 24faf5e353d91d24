"""Which words become targets, and in which sentences: counting, the vocabulary, the balanced sample."""
