import pytest

from corpusgen.engine.cluster import ray_cluster
from tests.corpusgen.engine.helpers import run_demo


@pytest.fixture(scope="module")
def ray_here():
    """A Ray of our own on this machine, shared by the tests of a module. It reports metrics every second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_metrics_report_interval_ms", "1000")
        with ray_cluster("local"):
            yield


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory):
    """The demonstration pass as a plain loop leaves it: what every other run must equal."""
    root = tmp_path_factory.mktemp("undisturbed") / "store"
    run_demo(root)
    return root
