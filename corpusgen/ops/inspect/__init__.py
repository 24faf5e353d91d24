"""Tools that look into a store: random rows, figures, why a triple is what it is, and whether it comes out the same."""
