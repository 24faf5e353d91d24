"""The default model for language identification; README.md gives its source and licence."""
