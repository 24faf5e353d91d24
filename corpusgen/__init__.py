"""Turn raw text into a store of aligned triples for word meaning in context."""

import os

__version__ = "0.1.0"

# Libraries report to nobody, unless the user wants them to. They read this when they are imported.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
