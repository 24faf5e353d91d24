"""Paraphrases of sentences, made by translating them to another language and back."""
