"""Opponents of the benchmarks: the method done plainly, and the same models with nothing around them."""
