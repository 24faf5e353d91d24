"""What is freed is given back."""

import platform
import subprocess
import sys

import pytest

FRAGMENTED = """
import numpy, psutil
from corpusgen.engine.memory import FreedMemory

def held():
    return psutil.Process().memory_info().rss

at_first = held()
pieces = [numpy.ones(2_000) for _ in range(20_000)]  # 16 kB each
pieces = pieces[::100]  # the rest is freed, but not at the end of the heap
grown = held() - at_first
FreedMemory(seconds=60).give_back()
assert held() - at_first > 0.9 * grown, "a moment ago"
FreedMemory(seconds=0).give_back()
assert grown > 250e6 > 10 * (held() - at_first), (grown, held() - at_first)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no malloc_trim")
def test_freed_memory_goes_back_to_the_system():
    subprocess.run([sys.executable, "-c", FRAGMENTED], check=True)
