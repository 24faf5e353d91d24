"""Choose which words become targets, and in which sentences: counts, vocabulary, balanced sample."""
