"""Clocks: what arrives, when, and what does not."""

from __future__ import annotations

import numpy as np

from rover_pipeline.simulate.clocks import EPOCH, Clock, is_struck

CLOCK = Clock(start=0.3, period=0.1, delay=0.002, jitter=0.001, lost_every=20)


def test_stamps_come_late_by_a_varying_delay_and_never_overtake() -> None:
    ticks = list(CLOCK.ticks(60.0, (1, 2)))
    late = np.array([tick.stamp - EPOCH - tick.time for tick in ticks])
    assert late.min() >= CLOCK.delay - 1e-6
    assert 0.0005 < late.std() < 0.002
    assert (np.diff([tick.stamp for tick in ticks]) > 0).all()


def test_one_sample_of_every_block_is_lost_and_never_the_first() -> None:
    numbers = [tick.number for tick in CLOCK.ticks(60.0, (1, 2))]
    assert numbers[0] == 0
    lost = sorted(set(range(CLOCK.count(60.0))) - set(numbers))
    assert [number // 20 for number in lost] == list(range(len(lost)))
    assert len(lost) >= 28


def test_a_longer_recording_begins_with_the_shorter_one() -> None:
    assert list(CLOCK.ticks(30.0, (5,))) == list(CLOCK.ticks(60.0, (5,)))[: len(list(CLOCK.ticks(30.0, (5,))))]


def test_nothing_is_lost_when_nothing_is_to_be() -> None:
    assert not any(is_struck(number, 0, (1,)) for number in range(100))
