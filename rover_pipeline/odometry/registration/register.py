"""Odometry of consecutive sweeps: an initial guess by a library, then registration in continuous time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeGuard

import numpy as np

from rover_pipeline.kinematics.state import State
from rover_pipeline.odometry.observations import NO_GYRO, Gyro, Sweep
from rover_pipeline.odometry.options import OdometrySection
from rover_pipeline.odometry.registration.backends import make_backend
from rover_pipeline.odometry.registration.batch import SweepFit, build_map, normal_equations, solve
from rover_pipeline.odometry.registration.point_selection import sweep_of_cloud
from rover_pipeline.odometry.registration.scan_to_map import register_sweeps
from rover_pipeline.odometry.spline.bspline import SplineTrajectory, fit_spline
from rover_pipeline.odometry.surfels.surfel_map import SurfelMap

#: Spacing of the points of a cloud that are used, metres: several of them lie in the smallest voxel, of 0.25 m.
_CLOUD_SPACING = 0.2
#: Jerk of the spline through the poses of the backend, m/s3 and rad/s3.
_GUESS_JERK = 30.0
#: What a trajectory goes on after the last instant that it is needed at, seconds, so that rounding cannot cut it off.
_MARGIN = 1e-6


def register(
    sweeps: Iterable[tuple[Sweep | None, np.ndarray | None]],
    ends: np.ndarray,
    options: OdometrySection,
    *,
    metadata: str | None = None,
    gyro: Gyro = NO_GYRO,
) -> tuple[SplineTrajectory, SurfelMap]:
    """The lidar's trajectory over some sweeps, in a world of their own, and their map.

    Args:
        sweeps: with the range images they are from, if any; None for those that must not be used.
        ends: f8 (frame,), instants that the poses refer to, of all the sweeps, seconds.
        metadata: `lidar.json`; None for points that are not from an Ouster lidar.
    """
    backend = make_backend(options, metadata)
    used: list[Sweep] = []
    poses: list[np.ndarray] = []
    for sweep, ranges in sweeps:
        if not is_usable(sweep, options):
            continue
        rotation = gyro.rotation(used[-1].end, sweep.end) if used else None
        poses.append(backend.register(sweep, ranges if backend.needs_image else None, rotation))
        used.append(sweep)
    if not used:
        return _at_rest(ends, options), SurfelMap(options.voxels)
    guess = _through_poses(used, np.stack(poses), ends, options)
    if options.passes > 1:
        return register_sweeps(used, guess, options, gyro.without_bias(guess))
    return guess, build_map(used, guess, options)


def is_usable(sweep: Sweep | None, options: OdometrySection) -> TypeGuard[Sweep]:
    """Whether a sweep has enough points."""
    return sweep is not None and len(sweep.points) >= options.min_points


def batch_passes(options: OdometrySection) -> int:
    """How often the whole trajectory is refined in batch."""
    return max(0, options.passes - 2)


def register_at_once(
    sweeps: Sequence[Sweep], ts: np.ndarray, options: OdometrySection, *, metadata: str | None = None
) -> tuple[State, list[SweepFit]]:
    """The lidar's trajectory over sweeps that are in memory, as one segment, and how well each of them fits the map.

    Args:
        ts: f8 (frame,), instants that the poses refer to, seconds.
        metadata: `lidar.json`; None for points that are not from an Ouster lidar.
    """
    trajectory, _ = register(((sweep, None) for sweep in sweeps), ts, options, metadata=metadata)
    used = [sweep for sweep in sweeps if is_usable(sweep, options)]
    fits: list[SweepFit] = []
    for _ in range(max(1, batch_passes(options))):
        equations, fits = normal_equations(used, trajectory, build_map(used, trajectory, options), options)
        if batch_passes(options):
            trajectory = solve(trajectory, [equations], options)
    return trajectory.at(ts), fits


def register_clouds(clouds: Iterable[np.ndarray], ts: np.ndarray, options: OdometrySection) -> State:
    """The lidar's trajectory over clouds of points without columns or instants, such as deskewed ones.

    Args:
        clouds: (N, 3) each, metres, lidar frame.
        ts: f8 (frame,), instants of the clouds, seconds.
    """
    near, far = options.min_range, options.max_range
    inside = (cloud[(np.square(cloud).sum(1) >= near**2) & (np.square(cloud).sum(1) <= far**2)] for cloud in clouds)
    sweeps = [
        sweep_of_cloud(cloud, stamp, spacing=_CLOUD_SPACING) for cloud, stamp in zip(inside, ts.tolist(), strict=True)
    ]
    return register_at_once(sweeps, ts, options)[0]


def _at_rest(ends: np.ndarray, options: OdometrySection) -> SplineTrajectory:
    """The trajectory where no sweep is usable."""
    begin = np.floor(ends[0] / options.knots) * options.knots
    return SplineTrajectory.at_rest(begin, ends[-1] + _MARGIN, options.knots)


def _through_poses(
    sweeps: list[Sweep], poses: np.ndarray, ends: np.ndarray, options: OdometrySection
) -> SplineTrajectory:
    """The trajectory through the backend's poses, f8 (sweep, 4, 4), from the first column to the last end."""
    begin = min(ends[0], *(sweep.times[0] for sweep in sweeps))
    last = max(ends[-1], *(sweep.times[-1] for sweep in sweeps))
    instants = np.array([sweep.end for sweep in sweeps])
    # The knots of all segments of a recording are on one grid, so that segments can be joined.
    begin = np.floor(begin / options.knots) * options.knots
    return fit_spline(instants, poses[:, :3, 3], poses[:, :3, :3], begin, last + _MARGIN, options.knots, _GUESS_JERK)
