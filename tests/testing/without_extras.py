"""Processes in which packages are absent that are installed here: as if the package had come without its extras."""

import subprocess
import sys

from corpusgen.extras import ALWAYS_IMPORTED

IN_EXTRAS = sorted(
    {module for modules in ALWAYS_IMPORTED.values() for module in modules}
    | {"aiohttp", "boto3", "ctranslate2", "fasttext", "nupunkt", "sentencepiece", "sklearn"}
)
_PREAMBLE = """
import sys
from importlib.machinery import PathFinder

class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in {absent} else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Without
"""


def run_without_extras(code, *arguments, folder=None):
    """Run Python without any package of an extra; what it printed, and its exit code."""
    return run_without(IN_EXTRAS, code, *arguments, folder=folder)


def run_without(modules, code, *arguments, folder=None):
    """The same without these modules."""
    preamble = _PREAMBLE.format(absent=sorted(modules))
    command = [sys.executable, "-c", preamble + code, *map(str, arguments)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)
