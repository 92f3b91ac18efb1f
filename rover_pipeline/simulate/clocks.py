"""When samples are taken and when the host hears of them: start offsets, arrival jitter, lost samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

#: The host's clock when the simulation starts, seconds since 1970: fixed, so that the same seed gives the same bytes.
EPOCH = 1_700_000_000.0


class Tick(NamedTuple):
    """One sample of a sensor.

    Attributes:
        number: of the frame the sensor took, lost ones counted.
        time: true instant it refers to, seconds since the start.
        stamp: the host's arrival time, seconds since 1970.
    """

    number: int
    time: float
    stamp: float


@dataclass(frozen=True)
class Clock:
    """A free-running sensor and the way to its host.

    Attributes:
        start: true instant of the first sample, seconds.
        period: seconds.
        delay: the least time to the host, seconds.
        jitter: mean of the exponential delay on top, seconds; it never reaches the next sample.
        lost_every: one sample in every block of this many does not arrive; 0 = none.
    """

    start: float
    period: float
    delay: float
    jitter: float
    lost_every: int = 0

    def count(self, duration: float) -> int:
        """Samples taken, lost ones included."""
        return max(0, int(np.floor((duration - self.start) / self.period + 1e-9)) + 1)

    def ticks(self, duration: float, key: tuple[int, ...]) -> Iterator[Tick]:
        """The samples that arrive. `key` seeds this sensor's random numbers."""
        for number in range(self.count(duration)):
            if is_struck(number, self.lost_every, (*key, 1)):
                continue
            wait = np.random.default_rng([*key, 0, number]).exponential(self.jitter)
            late = self.delay + min(wait, 0.7 * self.period)
            time = self.start + number * self.period
            yield Tick(number, time, EPOCH + time + late)


def is_struck(number: int, every: int, key: tuple[int, ...]) -> bool:
    """Whether `number` is the one unlucky among its block of `every`; never the first of all."""
    if every == 0:
        return False
    block, place = divmod(number, every)
    return place == np.random.default_rng([*key, block]).integers(1, every)
