"""Orientation of the IMU from angular velocity and the direction of gravity, both corrected for their biases."""

from __future__ import annotations

from itertools import compress, pairwise
from typing import NamedTuple

import numpy as np
import vqf
from scipy.spatial.transform import Rotation, Slerp

from rover_pipeline.imu.motion_bias import MotionBias, motion_bias
from rover_pipeline.imu.options import ImuSection
from rover_pipeline.imu.stationary import STEADY_S, StationaryInterval, acc_bias, agree, find_stationary, gyro_bias
from rover_pipeline.kinematics.preintegration import sampled
from rover_pipeline.numerics.blocks import IN_MEMORY, Memory, blocks, release

#: More equally spaced samples than this for each measured one would take too much memory, 230 bytes each: times are
#: damaged. Schedule.
_MAX_STRETCH, _FREE_SAMPLES = 10, 100_000
#: No IMU samples faster than this, s: VQF would end the process.
#: Noise: data sheets of MEMS IMUs, of which the fastest gives 32,000 a second.
_SHORTEST_S = 1e-5


class Filtered(NamedTuple):
    """Orientation and biases of N samples."""

    avel: np.ndarray  #: f8 (N, 3), rad/s, without bias; NaN where the sample is not trusted.
    quat: np.ndarray  #: f8 (N, 4), world-from-imu as x y z w. z of the world is up; its x is ahead of the first sample.
    stationary: list[tuple[float, float]]  #: first and last time of each stationary interval, s.
    #: those of the intervals that look stationary but contradict the others: steady turns.
    turns: list[tuple[float, float]]
    #: bias about the vertical that only one interval shows, rad/s: it may be a steady turn; 0 without a doubt.
    doubt: float
    #: biases that the motion shows; None where they are not needed or the recording is too short.
    motion: MotionBias | None
    gaps: list[float]  #: durations of the gaps that were not interpolated, s.
    gyro_bias: np.ndarray  #: f8 (3,), rad/s, mean over the recording.
    acc_bias: np.ndarray  #: f8 (3,), m/s2.


class _Segment(NamedTuple):
    """Samples between two gaps, interpolated to equally spaced times."""

    times: np.ndarray  #: f8 (M,), s.
    acc: np.ndarray  #: f8 (M, 3), m/s2.
    avel: np.ndarray  #: f8 (M, 3), rad/s.
    stationary: list[slice]  #: intervals that may be stationary.


def orient(
    times: np.ndarray,
    acc: np.ndarray,
    avel: np.ndarray,
    period: float,
    options: ImuSection,
    trusted: np.ndarray | None = None,
    memory: Memory = IN_MEMORY,
) -> Filtered:
    """Biases and orientation of a recording.

    The filter is VQF without a magnetometer (D. Laidig and T. Seel, VQF: Highly accurate IMU orientation estimation
    with bias estimation and magnetic disturbance rejection, Information Fusion 91, 2023). Its offline form uses past
    and future samples. It needs equally spaced samples, so measurements are interpolated linearly to such times, and
    orientations back. If the recording has no rest, VQF estimates the gyroscope's bias from the motion, after what is
    known of it was removed, and the bias of the accelerometer is assumed to be 0.

    Args:
        times: f8 (N,), s, increasing, without the jitter of arrival.
        acc, avel: f4 or f8 (N, 3), m/s2 and rad/s. Samples that are not finite are replaced by interpolation.
        period: of the equally spaced samples, s.
        trusted: bool (N,), samples that may be used; None = all.
        memory: holds what is returned of each sample.

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

    at_rest = [(segment, part) for segment in segments for part in segment.stationary]
    found = [_interval(*each) for each in at_rest]
    chosen, doubt = agree(found)
    stationary = list(compress(found, chosen))
    turns = [(each.start, each.stop) for each in compress(found, ~chosen)]
    acc_offset = acc_bias(np.array([each.acc for each in stationary]), options)
    settings = {"restBiasEstEnabled": False, "motionBiasEstEnabled": not stationary, "tauAcc": options.settle}
    motion = None
    if stationary:
        knots = gyro_bias([part for each in compress(at_rest, chosen) for part in _parts(*each, period)])
    else:
        # VQF takes minutes to find a bias, and limits it to 2 degrees per second. So what the longest segment shows of
        # it is removed first.
        longest = max(segments, key=lambda segment: len(segment.times))
        motion = motion_bias(longest.times, longest.acc, longest.avel)
        coarse = np.zeros(3) if motion is None else motion.known()
        knots = longest.times[:1], coarse[None]
        settings["tauAcc"] /= 2
        del longest
    quat, without_bias = memory.zeros(len(times), 4), memory.zeros(len(times), 3)
    bounds = [0, *(piece[0] for piece in pieces[1:]), len(times)]
    gaps = steps[cuts - 1].tolist()
    del steps, pieces, at_rest
    heading = 0.0
    for first, stop in pairwise(bounds):
        grid, acc_at, avel_at, _ = segments.pop(0)
        # The bias is linear between stationary intervals, and constant before the first and after the last one.
        avel_at -= sampled(grid, *knots)
        acc_at -= acc_offset
        release()
        # VQF takes 230 bytes for each sample, so that little else should be held here.
        result = vqf.offlineVQF(avel_at, acc_at, None, period, settings)
        bias = sampled(grid, *knots) + result["bias"]
        rotations = Rotation.from_quat(result["quat6D"][:, [1, 2, 3, 0]])
        del acc_at, avel_at, result
        release()
        # The heading after a gap is that before it.
        rotations = Rotation.from_euler("z", heading - _heading(rotations[0])) * rotations
        heading = _heading(rotations[-1])
        for part in blocks(stop - first):
            at = times[first:stop][part]
            quat[first:stop][part] = _interpolate(rotations, grid, at).as_quat()
            without_bias[first:stop][part] = sampled(at, grid, bias)
    # Signs are continuous.
    quat[1:] *= np.cumprod(np.where((quat[1:] * quat[:-1]).sum(axis=1) < 0, -1.0, 1.0))[:, None]
    spans = [(each.start, each.stop) for each in stationary]
    bias = without_bias.mean(axis=0)
    np.subtract(avel, without_bias, out=without_bias)
    if trusted is not None:
        without_bias[~trusted] = np.nan
    return Filtered(without_bias, quat, spans, turns, doubt, motion, gaps, bias, acc_offset)


def _interval(segment: _Segment, part: slice) -> StationaryInterval:
    return StationaryInterval.of(segment.times[part], segment.acc[part], segment.avel[part])


def _parts(segment: _Segment, interval: slice, period: float) -> list[StationaryInterval]:
    """A stationary interval as parts over which the bias hardly drifts."""
    count = -(-(interval.stop - interval.start) // max(1, round(STEADY_S / period)))
    edges = np.linspace(interval.start, interval.stop, count + 1).round().astype(int)
    return [_interval(segment, slice(start, stop)) for start, stop in pairwise(edges.tolist())]


def _segment(times: np.ndarray, acc: np.ndarray, avel: np.ndarray, period: float, options: ImuSection) -> _Segment:
    count = int(np.ceil((times[-1] - times[0]) / period - 1e-6)) + 1
    if count > _MAX_STRETCH * len(times) + _FREE_SAMPLES:
        raise ValueError(
            f"imu/ts: {len(times):,} samples span {count:,} periods: its times are no steady rate; correct ts"
        )
    grid = times[0] + np.arange(count) * period
    acc, avel = sampled(grid, times, acc), sampled(grid, times, avel)
    return _Segment(grid, acc, avel, find_stationary(acc, avel, period, options))


def _heading(rotation: Rotation) -> float:
    """Angle of the sensor's x axis about the vertical, rad."""
    ahead = rotation.as_matrix()[:, 0]
    return float(np.arctan2(ahead[1], ahead[0]))


def _interpolate(rotations: Rotation, grid: np.ndarray, times: np.ndarray) -> Rotation:
    """Orientations at `times`, f8 (N,), s, of those at `grid`, f8 (M,); constant before and after them."""
    if len(grid) == 1:
        return rotations[np.zeros(len(times), int)]
    at = np.clip(times, grid[0], grid[-1])
    near = slice(max(np.searchsorted(grid, at[0]) - 1, 0), np.searchsorted(grid, at[-1]) + 2)
    return Slerp(grid[near], rotations[near])(at)
