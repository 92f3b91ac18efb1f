"""When samples are taken and when they arrive at the host: start offsets, latency, jitter, lost samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

#: Host time at the start of the simulation, seconds since 1970; fixed, so that a seed always gives the same bytes.
#: Layout.
EPOCH = 1_700_000_000.0


class Tick(NamedTuple):
    """One sample of a sensor."""

    number: int  #: of the sample; lost ones count.
    time: float  #: true instant of the sample, seconds since the start.
    stamp: float  #: the host's arrival time, seconds since 1970.


@dataclass(frozen=True)
class Clock:
    """A free-running sensor and the transfer of its samples to the host."""

    start: float  #: true instant of the first sample, seconds.
    period: float  #: seconds.
    delay: float  #: the minimum latency, seconds.
    jitter: float  #: mean of the additional exponential latency, seconds. No sample overtakes the one before it.
    lost_every: int = 0  #: one sample of every block of this many is lost; 0 = none.

    def count(self, duration: float) -> int:
        """Number of samples, lost ones included."""
        return max(0, int(np.floor((duration - self.start) / self.period + 1e-9)) + 1)

    def ticks(self, duration: float, key: tuple[int, ...]) -> Iterator[Tick]:
        """The samples that arrive. `key` seeds this sensor's random numbers."""
        for number in range(self.count(duration)):
            if is_lost(number, self.lost_every, (*key, 1)):
                continue
            jitter = np.random.default_rng([*key, 0, number]).exponential(self.jitter)
            latency = self.delay + min(jitter, 0.7 * self.period)
            time = self.start + number * self.period
            yield Tick(number, time, EPOCH + time + latency)


def is_lost(number: int, every: int, key: tuple[int, ...]) -> bool:
    """Whether `number` is the one that `key` draws from its block of `every`. The first of a block is never drawn."""
    if every == 0:
        return False
    block, index = divmod(number, every)
    return index == np.random.default_rng([*key, block]).integers(1, every)
