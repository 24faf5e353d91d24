"""Processes really killed, at exact points; after resuming nothing is lost and nothing is there twice."""

import signal
import time

import pytest

from corpusgen.engine import LocalExecutor
from corpusgen.engine.progress import Silent
from corpusgen.engine.ray_executor import RayExecutor
from corpusgen.errors import InterruptedRunError
from corpusgen.store import Store
from tests.corpusgen.engine.helpers import assert_untouched_by_the_fault, assert_whole, committed_files, drive, run_demo
from tests.testing.faults import POINTS, POINTS_MOSTLY_SLOW, faulty_store


@pytest.mark.parametrize("point", POINTS)
def test_an_actor_killed(ray_here, undisturbed, tmp_path, point):
    run_demo(faulty_store(tmp_path / "store", point, victim=None), RayExecutor())
    assert_untouched_by_the_fault(tmp_path / "store", undisturbed)


@pytest.mark.parametrize("point", POINTS)
def test_the_driver_of_a_loop_killed(undisturbed, tmp_path, point):
    kill_the_driver_and_resume(tmp_path / "store", "local", point, undisturbed)


@pytest.mark.parametrize("point", POINTS_MOSTLY_SLOW)
def test_the_driver_of_a_ray_run_killed(undisturbed, tmp_path, point):
    kill_the_driver_and_resume(tmp_path / "store", "ray", point, undisturbed)


def kill_the_driver_and_resume(root, executor, point, undisturbed):
    first = drive(root, executor, "--point", point)
    output, _ = first.communicate(timeout=120)
    assert first.returncode == -signal.SIGKILL, output
    assert len(Store.at(str(root)).pass_store("demo").committed()) < 12
    run_demo(root)
    assert_untouched_by_the_fault(root, undisturbed)


@pytest.mark.parametrize("executor", ["local", pytest.param("ray", marks=pytest.mark.slow)])
def test_drivers_at_once_on_one_store_commit_each_unit_once(undisturbed, tmp_path, executor):
    root = tmp_path / "store"
    drivers = [drive(root, executor) for _ in range(2)]
    for driver in drivers:
        output, _ = driver.communicate(timeout=180)
        assert driver.returncode == 0, output
    assert_whole(root)
    assert committed_files(root) == committed_files(undisturbed)


@pytest.mark.parametrize("executor", ["local", "ray"])
def test_ctrl_c_stops_cleanly_and_the_run_can_be_resumed(tmp_path, executor):
    root = tmp_path / "store"
    driver = drive(root, executor, units=40, seconds=0.2)
    store = Store.at(str(root)).pass_store("demo")
    while len(store.committed()) < 3 and driver.poll() is None:
        time.sleep(0.05)
    driver.send_signal(signal.SIGINT)
    output, _ = driver.communicate(timeout=60)
    assert driver.returncode == 128 + signal.SIGINT, output
    assert "run the same command again" in output
    done = len(store.committed())
    assert 3 <= done < 40
    run_demo(root, units=40, seconds=0)  # the same content: how slow a stage is does not count
    assert_whole(root)


class InterruptedBySomebody(Silent):
    """Somebody presses Ctrl-C when the last unit is on its way, or just done; or when all is over but the summary."""

    def __init__(self, at_the_end):
        self.at_the_end = at_the_end
        self.pressed = False

    def update(self, tally, final=False):
        begun = tally.units_in_flight or tally.units_done
        if final == self.at_the_end and begun and not self.pressed:
            self.pressed = True
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("at_the_end", [False, True])
@pytest.mark.parametrize("executor", [LocalExecutor, RayExecutor])
def test_ctrl_c_in_the_last_unit_stops_what_comes_after_the_pass_too(ray_here, tmp_path, executor, at_the_end):
    with pytest.raises(InterruptedRunError):
        run_demo(tmp_path / "store", executor(progress=InterruptedBySomebody(at_the_end)), units=1, seconds=0.5)
    assert len(Store.at(str(tmp_path / "store")).pass_store("demo").committed()) == 1
    assert_whole(tmp_path / "store")


@pytest.mark.slow
def test_exit_codes_tell_whether_the_failure_limit_was_passed(tmp_path):
    for limit, code in ((0.01, 0), (0.002, 1)):
        root = tmp_path / f"limit-{limit}"
        driver = drive(root, "ray", run={"failure_limit": limit}, raises=[33], kills=[51], units=80, numbers_each=8)
        output, _ = driver.communicate(timeout=120)
        assert driver.returncode == code, output
        assert_whole(root)
