"""Odometry of a part of a recording: a first pass by a library, then in continuous time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeGuard

import numpy as np

from rover_pipeline.kinematics.rotation import exp, log
from rover_pipeline.kinematics.state import State
from rover_pipeline.odometry.backends import make_backend
from rover_pipeline.odometry.observations import NO_GYRO, Fit, Gyro, Refinement, Sweep
from rover_pipeline.odometry.options import OdometrySection
from rover_pipeline.odometry.refine import refine
from rover_pipeline.odometry.segments import Segment
from rover_pipeline.odometry.surfels import SurfelMap
from rover_pipeline.odometry.sweeps import cloud_sweep
from rover_pipeline.odometry.together import map_of, normal_equations, solve
from rover_pipeline.odometry.trajectory import Trajectory, fit

#: Distance of the points of a cloud that are looked at, metres: a voxel of a quarter of a metre holds a plane of them.
_SPACING = 0.2
#: Jerk that the poses of the first pass are interpolated with, against errors of a millimetre, m/s3.
_FIRST_JERK = 30.0


def register(
    sweeps: Iterable[tuple[Sweep | None, np.ndarray | None]],
    ends: np.ndarray,
    options: OdometrySection,
    *,
    metadata: str | None = None,
    gyro: Gyro = NO_GYRO,
    start: int = 0,
) -> Segment:
    """The lidar's trajectory over some sweeps, each registered to those before it.

    Args:
        sweeps: with the images of ranges they are from, if any; None for those that are not to be used.
        ends: f8 (frame,), instants that the poses refer to, of all the sweeps, seconds.
        metadata: `lidar.json`; None for points that are from no Ouster lidar.
        gyro: angular velocities.
        start: number of the first frame.
    """
    backend = make_backend(options.backend, metadata, spacing=options.spacing, voxel=options.voxel)
    used: list[Sweep] = []
    poses: list[np.ndarray] = []
    for sweep, ranges in sweeps:
        if not is_of_use(sweep, options):
            continue
        turn = _turn(gyro, used[-1].end, sweep.end) if used else None
        poses.append(backend.register(sweep, ranges if backend.whole else None, turn))
        used.append(sweep)
    stop = start + len(ends)
    if not used:
        return Segment(start, stop, _at_rest(ends, options), SurfelMap(options.voxels))
    trajectory = _fitted(used, np.stack(poses), ends, options)
    how = refinement(options)
    if options.passes > 1:
        trajectory, surfels = refine(used, trajectory, how, without_bias(gyro, trajectory))
    else:
        surfels = map_of(used, trajectory, how)
    return Segment(start, stop, trajectory, surfels.thin())


def is_of_use(sweep: Sweep | None, options: OdometrySection) -> TypeGuard[Sweep]:
    """Whether a sweep has points enough."""
    return sweep is not None and len(sweep.points) >= options.min_points


def refinement(options: OdometrySection) -> Refinement:
    """How the options want points to be weighed."""
    return Refinement(
        voxels=options.voxels, noise=options.range_noise, jerk=options.jerk, rate_noise=options.gyro_noise
    )


def rounds(options: OdometrySection) -> int:
    """How often the whole trajectory is moved against the map of all sweeps."""
    return max(0, options.passes - 2)


def register_at_once(
    sweeps: Sequence[Sweep], ts: np.ndarray, options: OdometrySection, *, metadata: str | None = None
) -> tuple[State, list[Fit]]:
    """The lidar's trajectory over sweeps that are in memory, as one part, and how well each of them lies on the map.

    Args:
        ts: f8 (frame,), instants that the poses refer to, seconds.
        metadata: `lidar.json`; None for points that are from no Ouster lidar.
    """
    segment = register(((sweep, None) for sweep in sweeps), ts, options, metadata=metadata)
    trajectory, how = segment.trajectory, refinement(options)
    used = [sweep for sweep in sweeps if is_of_use(sweep, options)]
    fits: list[Fit] = []
    for _ in range(max(1, rounds(options))):
        found, fits = normal_equations(used, trajectory, map_of(used, trajectory, how), how)
        if rounds(options):
            trajectory = solve(trajectory, [found], how)
    return trajectory.at(ts), fits


def register_clouds(clouds: Iterable[np.ndarray], ts: np.ndarray, options: OdometrySection) -> State:
    """The lidar's trajectory over clouds of points without columns or instants, such as motion-compensated ones.

    Args:
        clouds: (N, 3) each, metres, lidar frame.
        ts: f8 (frame,), instants of the clouds, seconds.
    """
    near, far = options.min_range, options.max_range
    inside = (cloud[(np.square(cloud).sum(1) >= near**2) & (np.square(cloud).sum(1) <= far**2)] for cloud in clouds)
    sweeps = [cloud_sweep(cloud, stamp, spacing=_SPACING) for cloud, stamp in zip(inside, ts.tolist(), strict=True)]
    return register_at_once(sweeps, ts, options)[0]


def _at_rest(ends: np.ndarray, options: OdometrySection) -> Trajectory:
    """Where no sweep is of use."""
    begin = np.floor(ends[0] / options.knots) * options.knots
    return Trajectory.at_rest(begin, ends[-1] + 1e-6, options.knots)


def _fitted(sweeps: list[Sweep], poses: np.ndarray, ends: np.ndarray, options: OdometrySection) -> Trajectory:
    begin = min(ends[0], *(sweep.times[0] for sweep in sweeps))
    last = max(ends[-1], *(sweep.times[-1] for sweep in sweeps))
    instants = np.array([sweep.end for sweep in sweeps])
    # The knots of all parts of a recording lie on one grid.
    begin = np.floor(begin / options.knots) * options.knots
    return fit(instants, poses[:, :3, 3], poses[:, :3, :3], begin, last + 1e-6, options.knots, _FIRST_JERK)


def _turn(gyro: Gyro, begin: float, end: float) -> np.ndarray | None:
    """Rotation vector from one instant to another; None where the gyroscope says too little."""
    part = gyro.between(begin, end)
    if len(part.times) < 2 or part.times[0] - begin > 0.05 or end - part.times[-1] > 0.05:
        return None
    edges = np.concatenate([[begin], (part.times[1:] + part.times[:-1]) / 2, [end]])
    turn = np.eye(3)
    for step in exp(part.rates * np.diff(edges)[:, None]):
        turn = turn @ step
    return log(turn[None])[0]


def without_bias(gyro: Gyro, trajectory: Trajectory) -> Gyro:
    """Rates within the trajectory, less what they differ from its own on the whole."""
    part = gyro.between(trajectory.start, trajectory.stop)
    if len(part.times) < 10:
        return NO_GYRO
    bias = np.median(part.rates - trajectory.at(part.times).avel, axis=0)
    return Gyro(part.times, part.rates - bias)
