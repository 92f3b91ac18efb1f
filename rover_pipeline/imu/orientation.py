"""Orientation of the IMU from angular velocity and the direction of gravity, both corrected for their biases."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import vqf
from scipy.spatial.transform import Rotation

from rover_pipeline.imu.bias import acc_bias, gyro_bias
from rover_pipeline.imu.motion_bias import MotionBias, motion_bias
from rover_pipeline.imu.options import ImuSection
from rover_pipeline.imu.rests import Rest, agree, find_rests
from rover_pipeline.kinematics.preintegration import sampled
from rover_pipeline.numerics.blocks import blocks

#: Maximum duration over which the gyroscope's bias is averaged, s, because it drifts.
_AVERAGING_S = 10.0
#: More equally spaced samples than this for each measured one are no recording with losses, but damaged times.
_MAX_STRETCH, _FREE_SAMPLES = 10, 100_000
#: No IMU samples faster than this, s: the fastest of data sheets gives 32,000 a second. VQF would end the process.
_SHORTEST_S = 1e-5


class Filtered(NamedTuple):
    """Orientation and biases of N samples.

    Attributes:
        avel: f8 (N, 3), rad/s, without bias; NaN where the sample is not trusted.
        quat: f8 (N, 4), world-from-imu as x y z w. z of the world is up; its x is ahead of the first sample.
        rests: first and last time of each rest, s.
        turns: those of the intervals that look like a rest but contradict the others: steady turns.
        doubt: bias about the vertical that only one rest shows, rad/s, which may be a steady turn; 0 without a doubt.
        motion: biases that the motion tells; None where they are not needed or the recording is too short.
        gaps: durations of the gaps that were not interpolated, s.
        gyro_bias: f8 (3,), rad/s, mean over the recording.
        acc_bias: f8 (3,), m/s2.
    """

    avel: np.ndarray
    quat: np.ndarray
    rests: list[tuple[float, float]]
    turns: list[tuple[float, float]]
    doubt: float
    motion: MotionBias | None
    gaps: list[float]
    gyro_bias: np.ndarray
    acc_bias: np.ndarray


class _Segment(NamedTuple):
    """Samples between two gaps, interpolated to equally spaced `times` (M,): `acc` and `avel`, f8 (M, 3), and rests."""

    times: np.ndarray
    acc: np.ndarray
    avel: np.ndarray
    rests: list[slice]


def orient(
    times: np.ndarray,
    acc: np.ndarray,
    avel: np.ndarray,
    period: float,
    options: ImuSection,
    trusted: np.ndarray | None = None,
) -> Filtered:
    """Biases and orientation of a recording.

    The filter is VQF without a magnetometer (D. Laidig and T. Seel, VQF: Highly accurate IMU orientation estimation
    with bias estimation and magnetic disturbance rejection, Information Fusion 91, 2023). Its offline form uses past
    and future samples. It needs equally spaced samples, so measurements are interpolated linearly to such times, and
    orientations back. If the recording has no rest, VQF estimates the gyroscope's bias from the motion, after a large
    one was removed, and the bias of the accelerometer is assumed to be 0.

    Args:
        times: f8 (N,), s, increasing, without the jitter of arrival.
        acc, avel: f4 or f8 (N, 3), m/s2 and rad/s. Samples that are not finite are replaced by interpolation.
        period: of the equally spaced samples, s.
        trusted: bool (N,), samples that may be used; None = all.

    Raises:
        ValueError: no sample is finite, or times are none of an IMU.
    """
    usable = np.isfinite(acc).all(axis=1) & np.isfinite(avel).all(axis=1)
    if trusted is not None:
        usable &= trusted
    if not usable.any():
        raise ValueError("no sample of acc and avel is finite and valid; leave imu_filtered out of `outputs`")
    if not period > _SHORTEST_S:
        raise ValueError(f"imu/ts: samples come every {period:.3g} s, as no IMU's do; correct ts")
    steps = np.diff(times[usable])
    cuts = np.flatnonzero(steps > options.max_gap) + 1
    pieces = np.split(np.flatnonzero(usable), cuts)
    segments = [_segment(times[piece], acc[piece], avel[piece], period, options) for piece in pieces]

    at_rest = [(segment, part) for segment in segments for part in segment.rests]
    found = [_rest(segment, part) for segment, part in at_rest]
    agreement = agree(found)
    rests = [rest for rest, chosen in zip(found, agreement.chosen, strict=True) if chosen]
    turns = [(rest.start, rest.stop) for rest, chosen in zip(found, agreement.chosen, strict=True) if not chosen]
    acc_offset = acc_bias(np.array([rest.acc for rest in rests]), options)
    chosen = [at_rest[number] for number in np.flatnonzero(agreement.chosen)]
    gyro_bias_at = gyro_bias([part for each in chosen for part in _parts(*each, period)]) if rests else None
    # A bias beyond VQF's limit of 2 degrees per second is removed first, from the longest segment.
    longest = max(segments, key=lambda segment: len(segment.times))
    motion = None if rests else motion_bias(longest.times, longest.acc, longest.avel)
    coarse = np.zeros(3) if motion is None else motion.large()
    quat, without_bias = np.empty((len(times), 4)), np.empty((len(times), 3))
    bounds = [0, *(piece[0] for piece in pieces[1:]), len(times)]
    gaps = steps[cuts - 1].tolist()
    del steps, pieces, at_rest, chosen, longest
    last: np.ndarray | None = None
    for first, stop in pairwise(bounds):
        segment = segments.pop(0)
        grid = segment.times
        if gyro_bias_at:
            for part in blocks(len(grid)):
                segment.avel[part] -= gyro_bias_at(grid[part])
            settings = {"tauAcc": options.settle, "motionBiasEstEnabled": False}
            orientation, _ = _filter(segment, acc_offset, period, settings)
            bias = gyro_bias_at(grid)
        else:
            np.subtract(segment.avel, coarse, out=segment.avel)
            orientation, bias = _filter(segment, np.zeros(3), period, {"tauAcc": options.settle / 2})
            bias += coarse
        del segment
        _continue_heading(orientation, last)
        for part in blocks(stop - first):
            its = slice(first + part.start, first + part.stop)
            quat[its] = _interpolate(orientation, (times[its] - grid[0]) / period)
        without_bias[first:stop] = sampled(times[first:stop], grid, bias)
        last = orientation[-1].copy()
    spans = [(rest.start, rest.stop) for rest in rests]
    bias = without_bias.mean(axis=0)
    np.subtract(avel, without_bias, out=without_bias)
    if trusted is not None:
        without_bias[~trusted] = np.nan
    return Filtered(without_bias, quat, spans, turns, agreement.doubt, motion, gaps, bias, acc_offset)


def _rest(segment: _Segment, part: slice) -> Rest:
    return Rest.of(segment.times[part], segment.acc[part], segment.avel[part])


def _parts(segment: _Segment, rest: slice, period: float) -> list[Rest]:
    """A rest as parts over which the bias hardly drifts."""
    count = -(-(rest.stop - rest.start) // max(1, round(_AVERAGING_S / period)))
    edges = np.linspace(rest.start, rest.stop, count + 1).round().astype(int)
    return [_rest(segment, slice(start, stop)) for start, stop in pairwise(edges.tolist())]


def _segment(times: np.ndarray, acc: np.ndarray, avel: np.ndarray, period: float, options: ImuSection) -> _Segment:
    count = int(np.ceil((times[-1] - times[0]) / period - 1e-6)) + 1
    if count > _MAX_STRETCH * len(times) + _FREE_SAMPLES:
        raise ValueError(
            f"imu/ts: {len(times):,} samples span {count:,} periods: its times are no steady rate; correct ts"
        )
    grid = times[0] + np.arange(count) * period
    acc, avel = sampled(grid, times, acc), sampled(grid, times, avel)
    return _Segment(grid, acc, avel, find_rests(acc, avel, period, options))


def _filter(
    segment: _Segment, acc_offset: np.ndarray, period: float, settings: dict[str, Any]
) -> tuple[np.ndarray, np.ndarray]:
    """Orientations of a segment, f8 (M, 4) as w x y z, and the biases that VQF has found, f8 (M, 3), rad/s.

    Args:
        acc_offset: f8 (3,), bias of the accelerometer, m/s2, which is taken away from the segment's own samples.
    """
    np.subtract(segment.acc, acc_offset, out=segment.acc)
    # VQF takes 230 bytes for each sample, so that nothing else should be held here. It would take slow turns for rests.
    result = vqf.offlineVQF(segment.avel, segment.acc, None, period, {"restBiasEstEnabled": False, **settings})
    return result["quat6D"], result["bias"]


def _continue_heading(quat: np.ndarray, last: np.ndarray | None) -> None:
    """Rotate orientations about the vertical until the first one has the heading of `last`, or heading 0 without it.

    The signs of the quaternions are continuous.

    Args:
        quat: f8 (M, 4), as w x y z; afterwards as x y z w.
    """
    heading = np.zeros(1) if last is None else _heading(last)
    turn = Rotation.from_euler("z", heading - _heading(quat[0, [1, 2, 3, 0]]))
    before, sign = None, 1.0
    for part in blocks(len(quat)):
        rotated = (turn * Rotation.from_quat(quat[part][:, [1, 2, 3, 0]])).as_quat()
        steps = np.concatenate([rotated[:1] if before is None else before, rotated])
        signs = sign * np.cumprod(np.where((steps[1:] * steps[:-1]).sum(axis=1) < 0, -1.0, 1.0))
        quat[part] = rotated * signs[:, None]
        before, sign = rotated[-1:], signs[-1]


def _heading(quat: np.ndarray) -> np.ndarray:
    """Angle of the sensor's x axis about the vertical, rad, (1,)."""
    ahead = Rotation.from_quat(quat).as_matrix()[..., 0]
    return np.arctan2(ahead[1:2], ahead[:1])


def _interpolate(quat: np.ndarray, position: np.ndarray) -> np.ndarray:
    """Orientations at fractional sample numbers, constant before the first and after the last one.

    Neighbouring orientations are so close that linear and spherical interpolation agree.
    """
    position = np.clip(position, 0, len(quat) - 1)
    first = np.minimum(position.astype(int), max(0, len(quat) - 2))
    fraction = (position - first)[:, None]
    mixed = (1 - fraction) * quat[first] + fraction * quat[np.minimum(first + 1, len(quat) - 1)]
    return mixed / np.linalg.norm(mixed, axis=1, keepdims=True)
