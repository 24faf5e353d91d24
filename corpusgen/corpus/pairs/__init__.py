"""Stages and rules that find one word in two sentences of a document: repeats, guards, balanced choice."""
