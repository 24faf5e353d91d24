"""HTML pages: layout, styles, charts."""
