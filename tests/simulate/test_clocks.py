"""Clocks: arrival times and lost samples."""

from __future__ import annotations

import numpy as np

from rover_pipeline.simulate.rig import EPOCH, Clock, is_lost

CLOCK = Clock(start=0.3, period=0.1, delay=0.002, jitter=0.001, lost_every=20)


def test_stamps_have_a_varying_latency_and_stay_in_order() -> None:
    ticks = list(CLOCK.ticks(60.0, (1, 2)))
    latency = np.array([tick.stamp - EPOCH - tick.time for tick in ticks])
    assert latency.min() >= CLOCK.delay - 1e-6
    assert 0.0005 < latency.std() < 0.002
    assert (np.diff([tick.stamp for tick in ticks]) > 0).all()


def test_one_sample_of_every_block_is_lost_and_never_the_first() -> None:
    numbers = [tick.number for tick in CLOCK.ticks(60.0, (1, 2))]
    assert numbers[0] == 0
    lost = sorted(set(range(CLOCK.count(60.0))) - set(numbers))
    assert [number // 20 for number in lost] == list(range(len(lost)))
    assert len(lost) >= 28


def test_a_longer_recording_begins_with_the_shorter_one() -> None:
    shorter = list(CLOCK.ticks(30.0, (5,)))
    assert list(CLOCK.ticks(60.0, (5,)))[: len(shorter)] == shorter


def test_a_clock_without_losses_loses_nothing() -> None:
    assert not any(is_lost(number, 0, (1,)) for number in range(100))
