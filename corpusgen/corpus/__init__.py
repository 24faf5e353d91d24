"""What a corpus is: its tables, its recipes, and how one is built."""
