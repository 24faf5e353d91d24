"""The benchmark of estimates: against a real run, and red when most of them miss."""

import json

import pytest

from benchmarks import estimate as benchmark
from corpusgen.config.build import load_config
from corpusgen.ops.estimate.uncertain import Interval
from corpusgen.store import Store
from tests.testing import triple_builds as support


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The real run and three estimates of it, tiny."""
    folder = tmp_path_factory.mktemp("benchmark")
    config = folder / "my.yaml"
    config.write_text(json.dumps(support.settings(folder)))
    arguments = [str(config), "--store", str(folder / "here")]
    benchmark.main([*arguments, "build"])
    for seed in range(3):
        benchmark.main([*arguments, "estimate", "--targets", "20", "--seed", str(seed)])
    return arguments, folder / "here"


def test_the_real_run_is_that_of_a_real_executor(made):
    arguments, folder = made
    store = Store.at(str(folder / "store"))
    assert all(list(store.files.list(f"{pass_store.name}/events")) for pass_store in store.passes())
    config = load_config(arguments[0], [f"store={folder / 'store'}"])
    missed = benchmark.compare(config, folder / "estimates.jsonl")
    assert not [name for name in missed if not name.endswith(("seconds", "bytes"))]


@pytest.mark.parametrize(("wrong", "is_red"), [(0, False), (1, False), (2, True), (3, True)])
@pytest.mark.parametrize("what", ["generate mask rows", "generate/triples rows"])
def test_it_ends_with_1_if_most_estimates_miss_a_stage_or_a_table(made, monkeypatch, wrong, is_red, what):
    arguments, folder = made
    truth = benchmark.truth_of(Store.at(str(folder / "store")))
    right = {name: Interval(real, real, real) for name, real in truth.items()}
    found = iter([{**right, what: Interval(1e9, 9e8, 2e9)}] * wrong + [right] * (3 - wrong))
    monkeypatch.setattr(benchmark, "estimates_of", lambda run: next(found))
    if not is_red:
        benchmark.main([*arguments, "compare"])
        return
    with pytest.raises(SystemExit) as ended:
        benchmark.main([*arguments, "compare"])
    assert ended.value.code == f"most estimates miss: {what}", "a message, and so 1"
