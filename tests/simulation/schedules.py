"""One schedule: what is started when, what goes wrong, and what must hold at each moment and in the end."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack, nullcontext, suppress
from typing import Any
from unittest.mock import patch

from corpusgen.errors import CorpusgenError, StoreError
from corpusgen.store import Store
from corpusgen.store.check import verify
from corpusgen.store.repair import gc, repair
from tests.simulation import corpus
from tests.simulation.corpus import READS, build, expected, found
from tests.simulation.world import Faults, SimulatedFiles, World


class InThisThread(nullcontext):
    """In the place of a pool of threads, which could not take turns."""

    map = staticmethod(map)

    @staticmethod
    def submit(work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(work(*arguments))
        except CorpusgenError as error:
            done.set_exception(error)
        return done


class BrokenPromiseError(AssertionError):
    """Something that must always hold did not."""


def run_schedule(seed: int) -> World:
    """Do all that a seed says; BrokenPromiseError with the story if a promise was broken."""
    dice = random.Random(seed)
    faults = Faults(
        crash=dice.choice((0, 0, 0.01, 0.04)),
        lost_answer=dice.choice((0, 0, 0.02, 0.1)),
        lag=dice.choice((0, 0, 0.3, 1)),
        flip=dice.choice((0, 0, 0, 0.01, 0.05)),
    )
    world = World(seed, faults)
    number = dice.randrange(corpus._TEXTS)
    with ExitStack() as stack:
        stack.enter_context(patch("corpusgen.store.store.time.sleep", world.sleep))
        stack.enter_context(patch("corpusgen.store.store.time.monotonic", lambda: world.clock))
        stack.enter_context(patch("corpusgen.store.repair.held", world.held))
        for module in ("check", "parts"):
            pool = f"corpusgen.store.{module}.ThreadPoolExecutor"
            stack.enter_context(patch(pool, lambda _: InThisThread(InThisThread)))
        try:
            _Schedule(world, number, dice).run()
        except BrokenPromiseError as error:
            story = "\n".join(world.trace[-400:])
            raise BrokenPromiseError(f"{error}\nseed {seed}, {faults}\n{story}") from error
    return world


class _Schedule:
    def __init__(self, world: World, number: int, dice: random.Random) -> None:
        self.world, self.number, self.dice = world, number, dice
        self.store = Store(SimulatedFiles(world))

    def run(self) -> None:
        for _ in range(self.dice.randint(1, 3)):
            self._some_builds()
            if self.dice.random() < 0.3:  # while no build runs
                self._alone("repair", self._repair)
        self._end_well()

    def _some_builds(self) -> None:
        """One or two drivers at once, and others that look and clean up meanwhile."""
        world = self.world
        drivers = [self._driver(f"driver{n}") for n in range(self.dice.choice((1, 1, 2)))]
        if self.dice.random() < 0.4:
            world.start("gc", self._gc)
        if self.dice.random() < 0.3:
            world.start("verify", self._verify)
        world.run()
        for driver in drivers:
            if driver.error and not isinstance(driver.error, CorpusgenError):
                raise BrokenPromiseError(f"{driver.name} raised {driver.error!r}") from driver.error
            if driver.error and not self._may_fail():
                raise BrokenPromiseError(f"{driver.name} failed without a reason: {driver.error}") from driver.error

    def _driver(self, name: str):
        workers = self.dice.randint(1, 3)

        def code() -> None:
            build(self.world, self.number, workers)
            self._check_rows(f"{name} says that all is done")

        return self.world.start(name, code)

    def _may_fail(self) -> bool:
        faults = self.world.faults
        return bool(self.world.flips or faults.crash or faults.lost_answer)

    def _alone(self, name: str, code) -> None:
        process = self.world.start(name, code)
        self.world.run()
        if process.error and not isinstance(process.error, CorpusgenError):
            raise BrokenPromiseError(f"{name} raised {process.error!r}") from process.error

    # ------------------------------------------------------------ processes

    def _gc(self) -> None:
        with suppress(StoreError):  # there is no corpus yet, or what says what it is, is damaged
            gc(self.store)

    def _verify(self) -> None:
        try:
            checks = list(verify(self.store, READS))
        except StoreError:
            return
        if all(check.ok for check in checks) and len(self.store.passes()) == len(corpus.PASSES):
            self._check_rows("verify says ok")

    def _repair(self) -> None:
        with suppress(StoreError):
            repair(self.store, list(verify(self.store, READS, corpus.PASSES)))

    def _check_rows(self, when: str) -> None:
        """Readers get the right rows or an error, whatever has happened to the bytes."""
        flips = len(self.world.flips)
        try:
            rows = found(self.store)
        except StoreError as error:
            if self.world.flips or self.world.faults.lag:
                return
            raise BrokenPromiseError(f"{when}, but a reader gets: {error}") from error
        if len(self.world.flips) == flips and rows != expected(self.number):
            raise BrokenPromiseError(f"{when}, but a reader gets {_difference(rows, expected(self.number))}")

    # ------------------------------------------------------------------ end

    def _end_well(self) -> None:
        """When nothing goes wrong any more, a build, perhaps after a repair, ends with the rows of a sequential run."""
        world = self.world
        world.faults = Faults()
        world.clock += 1000  # whatever was hidden shows by now
        for _ in range(4):
            try:
                self._build_alone()
                rows, checks = found(self.store), list(verify(self.store, READS))
                problems = [problem for check in checks for problem in check.problems]
                if not problems:
                    break
            except CorpusgenError as error:
                problems = [str(error)]
            if not world.flips:
                raise BrokenPromiseError(f"nothing is damaged, but: {problems}")
            world.note(f"refused: {problems}")
            self._alone("repair", self._repair)
        else:
            raise BrokenPromiseError(f"three repairs do not help: {problems}")
        if rows != expected(self.number):
            raise BrokenPromiseError(f"in the end, a reader gets {_difference(rows, expected(self.number))}")
        for check in checks:
            if not check.ok or sum(check.totals.rows.values()) != len(rows[check.name]):
                raise BrokenPromiseError(f"in the end, verify says {check}")
        self._alone("gc", self._gc)
        if found(self.store) != expected(self.number):
            raise BrokenPromiseError("gc has removed what was needed")

    def _build_alone(self) -> None:
        process = self.world.start("the last driver", lambda: build(self.world, self.number, 2))
        self.world.run()
        if process.error:
            raise process.error


def _difference(rows: dict[str, list[dict]], right: dict[str, list[dict]]) -> str:
    for name in right:
        if rows[name] != right[name]:
            lost = [row for row in right[name] if row not in rows[name]]
            return f"{len(rows[name])} rows of {name} instead of {len(right[name])}; missing {lost[:3]}"
    return "the right rows"
