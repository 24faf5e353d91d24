"""Corpora: their recipes, and how a build follows one."""
