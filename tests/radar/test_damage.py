"""Frames that were not measured as a whole are found by the noise of the receiver, which never repeats itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.format.sensor import VALID, Sensor
from rover_pipeline.options import DaskOptions
from rover_pipeline.radar.damage import damaged, has_zeros
from rover_pipeline.table import find_step
from tests.kit import small_trace

SHAPE = (16, 2, 4, 256)


def noise(frames: int, deviation: float = 20.0) -> np.ndarray:
    """Frames of nothing but noise, i2 (frame, *SHAPE)."""
    return np.rint(np.random.default_rng(0).normal(0, deviation, (frames, *SHAPE))).astype("i2")


@pytest.mark.parametrize("deviation", [0.5, 1.0, 20.0])
def test_frames_with_noise_are_whole(deviation: float) -> None:
    assert not damaged(noise(50, deviation), noise(0, deviation)).any()


@pytest.mark.parametrize("deviation", [0.5, 20.0])
def test_a_packet_that_is_repeated_from_one_of_the_two_frames_before_is_found(deviation: float) -> None:
    frames = noise(8, deviation)
    words = frames.reshape(8, -1)
    words[3, 900 : 900 + 728] = words[2, 900 : 900 + 728]
    words[6, -728:] = words[4, -728:]
    assert damaged(frames, frames[:0]).tolist() == [each in (3, 6) for each in range(8)]


def test_the_first_of_equal_frames_is_whole_and_only_the_new_ones_are_asked_for() -> None:
    frames = noise(6)
    frames[2:5] = frames[2]
    assert damaged(frames, frames[:0]).tolist() == [False, False, False, True, True, False]
    assert damaged(frames[4:], frames[2:4]).tolist() == [True, False]


def test_frames_of_one_chirp_that_repeat_are_found() -> None:
    frames = noise(4)[:, :1]
    frames[2] = frames[1]
    assert damaged(frames, frames[:0]).tolist() == [False, False, True, False]


def test_a_simulation_without_noise_stands_still_undamaged() -> None:
    scene = np.rint(300 * np.cos(np.arange(SHAPE[-1]) / 5)).astype("i2")
    frames = np.broadcast_to(scene, (4, *SHAPE)).copy()
    assert not damaged(frames, frames[:0]).any()
    frames[2, 5:, 0, 0, 7] += 1  # something far away moves: most pieces of most antennas stay equal
    assert not damaged(frames, frames[:0]).any()


def test_a_receiver_that_is_off_damages_no_frame() -> None:
    frames = noise(4)
    frames[:, :, :, 1] = 0
    frames[:, :, :, 2] = -3
    assert not damaged(frames, frames[:0]).any() and not has_zeros(frames).any()


def test_a_channel_of_that_name_with_other_axes_is_whole() -> None:
    assert not damaged(np.zeros((4, 8), "i2"), np.zeros((2, 8), "i2")).any()


def test_zeros_in_the_place_of_a_packet_and_frames_without_any_signal_are_found() -> None:
    frames = noise(4, 1.0)
    frames[1].reshape(-1)[300 : 300 + 728] = 0
    frames[3] = 0
    assert has_zeros(frames).tolist() == damaged(frames, frames[:0]).tolist() == [False, True, False, True]


@pytest.mark.parametrize("sensor", ["_radar_points", "_radar_range_doppler", "_radar_quality"])
def test_nothing_that_is_made_from_a_frame_that_repeats_is_valid_whatever_the_chunks(
    sensor: str, tmp_path: Path
) -> None:
    for name, chunk in (("one", 1), ("all", 1 << 30)):
        trace = small_trace(tmp_path / name, frames=8)
        path = trace / "radar/iq"
        frames = np.fromfile(path, "<i2").reshape(8, -1)
        frames[4:6] = frames[3]
        frames.tofile(path)
        given = np.fromfile(trace / "radar/valid", "u1")
        made = run_step(find_step(sensor), trace, sensor, Request(), dask=DaskOptions(chunk=chunk))
        wanted = given * [each not in (4, 5) for each in range(8)]
        assert Sensor(trace / sensor).channel(VALID).read().tolist() == wanted.tolist()
        assert made.invalid == (wanted == 0).sum()
