"""Estimates of what a build will take: run a sample of the source through every stage here, and compute the whole."""
