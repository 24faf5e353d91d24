"""fairseq's own command line, made to run on today's Python.

`python -m tests.corpusgen.models.translate.fairseq_tool train …`
"""

import importlib
import sys

from corpusgen.models.translate.fairseq_compat import import_fairseq

if __name__ == "__main__":
    import_fairseq()
    importlib.import_module(f"fairseq_cli.{sys.argv.pop(1)}").cli_main()
