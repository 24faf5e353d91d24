"""Paraphrase sentences by translating them and back."""
