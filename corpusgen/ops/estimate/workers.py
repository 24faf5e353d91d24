"""Workers and prices: how long a build takes with given workers, which stage is the bottleneck, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from corpusgen.errors import ConfigError, did_you_mean
from corpusgen.ops.estimate.project import ProjectedStage
from corpusgen.ops.estimate.uncertain import Interval, Uncertain, largest, total

HOUR = 3600.0
KINDS = ("cpu", "gpu")


def kind_of(stage: ProjectedStage) -> str:
    """Return the kind of device that a worker of the stage is paid for."""
    return "gpu" if stage.resources.gpus else "cpu"


def devices_of(stage: ProjectedStage) -> float:
    """Return how many devices a worker occupies: a GPU or a part of one, or at least one CPU while it works."""
    return stage.resources.gpus or max(1.0, stage.resources.cpus)


def parse_prices(given: Sequence[str]) -> dict[str, float]:
    """Parse `gpu=2.50/h,cpu=0.04/h` into the price of an hour of each kind."""
    prices: dict[str, float] = {}
    for item in _items(given):
        name, _, text = item.partition("=")
        try:
            price = float(text.strip().removesuffix("/h"))
        except ValueError:
            price = -1.0
        if name not in KINDS or not 0 <= price < float("inf"):
            raise ConfigError(f"--price {item}: expected cpu or gpu and a price per hour, for example gpu=2.50/h")
        prices[name] = price
    return prices


def parse_workers(given: Sequence[str], known: Sequence[str]) -> dict[str, int]:
    """Parse `translate=8,mask=4` into the number of workers of each stage."""
    workers: dict[str, int] = {}
    for item in _items(given):
        name, _, text = item.partition("=")
        if name not in known:
            raise ConfigError(f"--workers {item}: no such stage in this build; {did_you_mean(name, known)}")
        if not text.isdecimal() or not int(text):
            raise ConfigError(f"--workers {item}: expected a stage and a number, for example translate=8,mask=4")
        workers[name] = int(text)
    return workers


def _items(given: Sequence[str]) -> list[str]:
    return [item.strip() for text in given for item in text.split(",") if item.strip()]


def cost_of(stages: Sequence[ProjectedStage], prices: Mapping[str, float]) -> Uncertain:
    """Return the cost of the hours of all stages whose kind has a price."""
    return total([stage.seconds * (devices_of(stage) / HOUR * prices.get(kind_of(stage), 0.0)) for stage in stages])


class PassTime(NamedTuple):
    """A pass with given workers, including loading: stages work at the same time, and the slowest sets the pace."""

    name: str
    hours: Interval
    bottleneck: str
    busy: Mapping[str, float]
    """Share of the time in which the workers of each stage have work."""


class Split(NamedTuple):
    """The best use of the same devices by those stages of a pass that were given workers."""

    pass_name: str
    kind: str
    devices: float
    workers: Mapping[str, int]
    hours: Interval
    hours_as_given: Interval


class Schedule(NamedTuple):
    """A build with given workers; stages that are not named have one."""

    workers: Mapping[str, int]
    passes: Sequence[PassTime]
    hours: Interval
    splits: Sequence[Split]
    cost: Interval | None
    """Cost of the workers from the start of their pass to its end, idle or not; None without prices."""


def schedule(
    stages: Sequence[ProjectedStage], workers: Mapping[str, int], prices: Mapping[str, float] | None = None
) -> Schedule:
    """Return how long each pass takes with these workers, what they cost, and whether they could be spread better."""
    by_pass: dict[str, list[ProjectedStage]] = {}
    for stage in stages:
        by_pass.setdefault(stage.pass_name, []).append(stage)
    walls = {name: _wall(group, workers) for name, group in by_pass.items()}
    passes = []
    for name, group in by_pass.items():
        times = {stage.name: stage.seconds.value / workers.get(stage.name, 1) for stage in group}
        slowest = max(times, key=lambda stage: times[stage])
        busy = {stage: seconds / times[slowest] if times[slowest] else 0.0 for stage, seconds in times.items()}
        passes.append(PassTime(name, (walls[name] * (1 / HOUR)).interval(), slowest, busy))
    splits = [split for name, group in by_pass.items() for split in _splits(name, group, workers)]
    hours = (total([*walls.values()]) * (1 / HOUR)).interval()
    paid = [_paid(stage, walls[stage.pass_name], workers.get(stage.name, 1)) for stage in stages]
    costs = [
        held * (prices.get(kind_of(stage), 0.0) / HOUR) for stage, held in zip(stages, paid, strict=True) if prices
    ]
    return Schedule(dict(workers), passes, hours, splits, total(costs).interval() if prices else None)


def _wall(stages: Sequence[ProjectedStage], workers: Mapping[str, int]) -> Uncertain:
    """Return the time of a pass: all stages load at the same time, then the slowest sets the pace."""
    loading = Uncertain.exactly(max(stage.loading for stage in stages))
    return loading + largest([stage.seconds * (1 / workers.get(stage.name, 1)) for stage in stages])


def _paid(stage: ProjectedStage, wall: Uncertain, workers: int) -> Uncertain:
    """Return the device seconds of a stage: what its workers hold during the pass, but at least what they work with."""
    held = wall * (workers * (stage.resources.gpus or stage.resources.cpus))
    worked = (stage.seconds + Uncertain.exactly(workers * stage.loading)) * devices_of(stage)
    return largest([held, worked])


def _splits(name: str, group: Sequence[ProjectedStage], workers: Mapping[str, int]) -> list[Split]:
    found = []
    for kind in KINDS:
        rivals = [stage for stage in group if stage.name in workers and kind_of(stage) == kind]
        if len(rivals) < 2:
            continue
        budget = sum(workers[stage.name] * devices_of(stage) for stage in rivals)
        numbers = best_split([stage.seconds.value for stage in rivals], [devices_of(stage) for stage in rivals], budget)
        best = dict(zip((stage.name for stage in rivals), numbers, strict=True))
        hours = [(_wall(rivals, some) * (1 / HOUR)).interval() for some in (best, workers)]
        found.append(Split(name, kind, budget, best, *hours))
    return found


def best_split(seconds: Sequence[float], devices: Sequence[float], budget: float) -> list[int]:
    """Return the number of workers for each stage that makes the slowest as fast as the devices allow.

    Each stage gets one; then, as long as there is room, the slowest gets one more: nothing else could help.
    """
    workers = [1] * len(seconds)
    left = budget - sum(devices)
    while True:
        slowest = max(range(len(seconds)), key=lambda index: seconds[index] / workers[index])
        if devices[slowest] > left + 1e-9 or not seconds[slowest]:
            return workers
        workers[slowest] += 1
        left -= devices[slowest]
