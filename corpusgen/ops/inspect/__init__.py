"""Looking into a store: rows at random, figures, why a triple is what it is, and whether it comes out the same."""
