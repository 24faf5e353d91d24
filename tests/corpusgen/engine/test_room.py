"""Too few CPUs for all stages at once."""

import pytest
import ray

from corpusgen.engine import Resources
from corpusgen.engine.ray_executor import RayExecutor
from tests.corpusgen.engine.helpers import assert_whole, committed_files, run_demo


@pytest.mark.slow
def test_stages_that_do_not_fit_at_once_take_turns(tmp_path):
    """One CPU for three stages of one CPU each: idle workers make room for those that have work."""
    run_demo(tmp_path / "loop", units=3)
    with ray.init(num_cpus=1, address="local", include_dashboard=False, log_to_driver=False):
        run_demo(tmp_path / "store", RayExecutor(), resources=Resources(), units=3)
    assert_whole(tmp_path / "store")
    assert committed_files(tmp_path / "store") == committed_files(tmp_path / "loop")
