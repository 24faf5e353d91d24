"""Numbers that are not known exactly: a value, and many draws of what it might be instead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

DRAWS = 4000
_TAIL = 0.05  # on either side of a 90 % interval
_NINE_IN_TEN = 1.6449  # standard deviations on either side

Floats = npt.NDArray[np.float64]


class Interval(NamedTuple):
    """An estimate, and the values between which the truth lies with a probability of 90 %."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Uncertain:
    """A number with its draws. The n-th draws of two numbers belong together, so what they share cancels out."""

    value: float
    draws: Floats

    @classmethod
    def exactly(cls, value: float) -> Uncertain:
        """Return a number that is known exactly."""
        return cls(value, np.full(DRAWS, float(value)))

    def interval(self) -> Interval:
        """Return the 90 % interval; it always includes the value."""
        low, high = np.quantile(self.draws, [_TAIL, 1 - _TAIL]).tolist()
        return Interval(self.value, min(low, self.value), max(high, self.value))

    def __add__(self, other: Uncertain) -> Uncertain:
        return Uncertain(self.value + other.value, self.draws + other.draws)

    def __sub__(self, other: Uncertain) -> Uncertain:
        return Uncertain(self.value - other.value, self.draws - other.draws)

    def __mul__(self, other: Uncertain | float) -> Uncertain:
        if isinstance(other, Uncertain):
            return Uncertain(self.value * other.value, self.draws * other.draws)
        return Uncertain(self.value * other, self.draws * other)

    def __truediv__(self, other: Uncertain) -> Uncertain:
        """Divide, with 0 for division by 0."""
        draws = np.divide(self.draws, other.draws, out=np.zeros(DRAWS), where=other.draws != 0)
        return Uncertain(self.value / other.value if other.value else 0.0, draws)

    def at_most(self, limit: float) -> Uncertain:
        """Return the smaller of this and a known number."""
        return Uncertain(min(self.value, limit), np.minimum(self.draws, limit))

    def spread(self, factor: float, chance: np.random.Generator) -> Uncertain:
        """Return the number with this uncertainty: nine times in ten it is at most `factor` times larger or smaller."""
        if factor <= 1:
            return self
        return Uncertain(self.value, self.draws * np.exp(chance.normal(0, np.log(factor) / _NINE_IN_TEN, DRAWS)))


def largest(numbers: list[Uncertain]) -> Uncertain:
    """Return the largest number, draw by draw."""
    return Uncertain(max(n.value for n in numbers), np.max([n.draws for n in numbers], axis=0))


def total(numbers: list[Uncertain]) -> Uncertain:
    """Return the sum of the numbers, draw by draw."""
    return Uncertain(sum(n.value for n in numbers), np.sum([n.draws for n in numbers], axis=0) + np.zeros(DRAWS))
