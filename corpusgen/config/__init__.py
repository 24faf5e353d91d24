"""Typed settings, and how YAML and `--set` become them."""
