"""Registration in continuous time: the control points of a trajectory from the distances of points to planes.

Every point is placed with the lidar's pose at the instant of its own column, so that nothing need be undistorted
beforehand. `refine_in_order` adds sweep after sweep to a map that holds the earlier ones; `refine_together` moves the
whole trajectory against one map of all sweeps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import solveh_banded

from rover_pipeline.odometry.surfel_kernels import equations, lift, look_up, place_points
from rover_pipeline.odometry.surfels import SurfelMap
from rover_pipeline.odometry.trajectory import ORDER, THIRD, Trajectory, basis, exp, log


class Sweep(NamedTuple):
    """Points of a sweep in the lidar frame, each seen at the instant of its column.

    Attributes:
        points: f4 (N, 3), metres.
        column: i4 (N,), rising, into `times`.
        times: f8 (C,), seconds.
        end: the instant that the sweep's pose refers to, seconds.
    """

    points: np.ndarray
    column: np.ndarray
    times: np.ndarray
    end: float


@dataclass(frozen=True)
class Refinement:
    """How points are weighed.

    Attributes:
        voxels: edges of the voxels of the map, metres.
        noise: standard deviation of a range, metres.
        scale: distance from a plane, in standard deviations, from where on points count less.
        jerk: expected of the motion, m/s3 and rad/s3.
        gates: greatest distance from a plane, metres, iteration by iteration.
    """

    voxels: tuple[float, ...] = (0.25, 0.5, 1.0)
    noise: float = 0.01
    scale: float = 3.0
    jerk: float = 100.0
    gates: tuple[float, ...] = (0.4, 0.2, 0.1, 0.05, 0.05)


class Fit(NamedTuple):
    """How well a sweep lies on the map.

    Attributes:
        inliers: share of the points within the last gate of a plane.
        residual: root mean square of their distances, metres.
        matrix: f8 (6, 6), information of a displacement (1/m2) and a rotation (1/rad2) of the whole sweep.
    """

    inliers: float
    residual: float
    matrix: np.ndarray


def refine_in_order(sweeps: Sequence[Sweep], guess: Trajectory, how: Refinement) -> tuple[Trajectory, SurfelMap]:
    """The trajectory of sweeps, each registered to the map of those before it.

    Args:
        guess: a trajectory that is roughly right over the length of a sweep; its drift does not matter.
    """
    found = guess.copy()
    surfels = SurfelMap(how.voxels)
    surfels.insert(_placed(sweeps[0], found))
    information, low = _anchored(found, sweeps[0])
    before = sweeps[0]
    reached = int(found.locate(sweeps[0].times)[0].max()) + ORDER
    for sweep in sweeps[1:]:
        first, place = found.locate(sweep.times)
        start, stop = int(first.min()), int(first.max()) + ORDER
        # What lies beyond what has been solved for moves on as the guess does.
        if stop > reached:
            here, there = found.at(before.times[-1:]), guess.at(before.times[-1:])
            turn = here.rot[0] @ there.rot[0].T
            found.rot[reached:stop] = turn @ guess.rot[reached:stop]
            found.pos[reached:stop] = here.pos + (guess.pos[reached:stop] - there.pos) @ turn.T
        low_new = min(start, reached - 3)
        prior, prior_low = _marginal(information, low, low_new), low_new
        reached = max(reached, stop)
        information, low = _solve_window(sweep, first, place, found, surfels, prior, prior_low, reached, how)
        surfels.insert(_placed(before, found))
        before = sweep
    surfels.insert(_placed(before, found))
    return found, surfels


def _anchored(found: Trajectory, sweep: Sweep) -> tuple[np.ndarray, int]:
    """Information that holds the first sweep where it is."""
    first, _ = found.locate(sweep.times)
    return np.eye(6 * (int(first.max()) + ORDER - int(first.min()))) * 1e8, int(first.min())


def _marginal(information: np.ndarray, low: int, new_low: int) -> np.ndarray:
    """What is known of the control points from `new_low` on, when those before are not asked about again."""
    drop = 6 * (new_low - low)
    if drop <= 0:
        return information
    a, b, c = information[:drop, :drop], information[:drop, drop:], information[drop:, drop:]
    return c - b.T @ np.linalg.solve(a + 1e-9 * np.eye(drop), b)


def _solve_window(
    sweep: Sweep,
    first: np.ndarray,
    place: np.ndarray,
    found: Trajectory,
    surfels: SurfelMap,
    prior: np.ndarray,
    low: int,
    high: int,
    how: Refinement,
) -> tuple[np.ndarray, int]:
    """Moves the control points `low:high` of `found`; returns their information."""
    size = high - low
    known = len(prior) // 6
    was = (found.pos[low : low + known].copy(), found.rot[low : low + known].copy())
    weights = basis(place)
    information = np.zeros((6 * size, 6 * size))
    for gate in how.gates:
        window = Trajectory(0.0, found.step, found.pos[low:high], found.rot[low:high])
        pos, rot = _poses(window, first - low, place)
        planes = look_up(place_points(sweep.points, sweep.column, pos, rot), *surfels.tables, gate)
        matrix, right, _ = equations(sweep.points, sweep.column, pos, rot, planes, max(how.noise, gate / 5), how.scale)
        blocks, sides = lift(matrix, right, first - low, weights, size)
        information = _dense(blocks)
        side = sides.ravel()
        away = np.concatenate(
            [window.pos[:known] - was[0], log(np.swapaxes(was[1], 1, 2) @ window.rot[:known])], axis=1
        ).ravel()
        information[: len(prior), : len(prior)] += prior
        side[: len(prior)] -= prior @ away
        fresh = max(0, known - ORDER + 1)
        smooth, pull = _jerks(window, how.jerk, fresh)
        information += _dense(smooth)
        side += pull.ravel()
        step = np.linalg.solve(information + 1e-6 * np.eye(len(side)), side).reshape(size, 6)
        found.pos[low:high] += step[:, :3]
        found.rot[low:high] = found.rot[low:high] @ exp(step[:, 3:])
    return information, low


def refine_together(
    sweeps: Sequence[Sweep], guess: Trajectory, surfels: SurfelMap, how: Refinement
) -> tuple[Trajectory, list[Fit]]:
    """The trajectory that lies best on a map of all the sweeps, and how well each of them does."""
    found = guess.copy()
    count = len(found.pos)
    fits: list[Fit] = []
    for gate in how.gates[-2:]:
        blocks, sides = np.zeros((count, ORDER, 6, 6)), np.zeros((count, 6))
        fits = []
        for sweep in sweeps:
            first, place = found.locate(sweep.times)
            pos, rot = _poses(found, first, place)
            planes = look_up(place_points(sweep.points, sweep.column, pos, rot), *surfels.tables, gate)
            matrix, right, off = equations(sweep.points, sweep.column, pos, rot, planes, max(how.noise, gate / 5), how.scale)
            low, high = int(first.min()), int(first.max()) + ORDER
            more, side = lift(matrix, right, first - low, basis(place), high - low)
            blocks[low:high] += more
            sides[low:high] += side
            inside = off[~np.isnan(off)]
            residual = float(np.sqrt(np.mean(inside**2))) if len(inside) else np.nan
            fits.append(Fit(len(inside) / max(1, len(off)), residual, matrix.sum(0)))
        smooth, pull = _jerks(found, how.jerk, 0)
        blocks += smooth
        # The world stays where the first sweep is.
        first, _ = found.locate(sweeps[0].times)
        blocks[: int(first.max()) + ORDER, 0] += 1e8 * np.eye(6)
        blocks[:, 0] += 1e-6 * np.eye(6)
        step = solveh_banded(_banded(blocks), (sides + pull).ravel(), lower=True).reshape(count, 6)
        found.pos += step[:, :3]
        found.rot = found.rot @ exp(step[:, 3:])
    return found, fits


def map_of(sweeps: Sequence[Sweep], trajectory: Trajectory, how: Refinement) -> SurfelMap:
    surfels = SurfelMap(how.voxels)
    for sweep in sweeps:
        surfels.insert(_placed(sweep, trajectory))
    return surfels


def _poses(trajectory: Trajectory, first: np.ndarray, place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    from rover_pipeline.odometry.kernels import evaluate_spline

    low, high = int(first.min()), int(first.max()) + ORDER
    pos, rot, *_ = evaluate_spline(
        trajectory.pos[low:high], trajectory.rot[low:high], trajectory.step, first - low, place
    )
    return pos, rot


def _placed(sweep: Sweep, trajectory: Trajectory) -> np.ndarray:
    pos, rot = _poses(trajectory, *trajectory.locate(sweep.times))
    return place_points(sweep.points, sweep.column, pos, rot)


def _jerks(trajectory: Trajectory, jerk: float, start: int) -> tuple[np.ndarray, np.ndarray]:
    """Blocks and sides of the expectation that the jerk from control point `start` on is near zero."""
    count = len(trajectory.pos)
    blocks, sides = np.zeros((count, ORDER, 6, 6)), np.zeros((count, 6))
    known = 1 / (jerk * trajectory.step**3) ** 2
    turns = log(np.swapaxes(trajectory.rot[:-1], 1, 2) @ trajectory.rot[1:])
    error = np.concatenate(
        [
            np.diff(trajectory.pos, n=3, axis=0),
            turns[2:] - 2 * turns[1:-1] + turns[:-2],
        ],
        axis=1,
    )[start:]
    for i in range(ORDER):
        sides[start + i : start + i + len(error)] -= known * THIRD[i] * error
        for j in range(i + 1):
            blocks[start + i : start + i + len(error), i - j] += known * THIRD[i] * THIRD[j] * np.eye(6)
    return blocks, sides


def _dense(blocks: np.ndarray) -> np.ndarray:
    """The symmetric matrix of blocks (count, 4, 6, 6): block [m, k] is that of control points m and m - k."""
    count = len(blocks)
    out = np.zeros((count, 6, count, 6))
    for k in range(ORDER):
        for m in range(k, count):
            out[m, :, m - k, :] = blocks[m, k]
            if k:
                out[m - k, :, m, :] = blocks[m, k].T
    return out.reshape(6 * count, 6 * count)


def _banded(blocks: np.ndarray) -> np.ndarray:
    """The same in the lower banded form of LAPACK, (24, 6 count)."""
    count = len(blocks)
    band = np.zeros((6 * ORDER, count, 6))
    for k in range(ORDER):
        for a in range(6):
            for b in range(6):
                below = 6 * k + a - b
                if below >= 0:
                    band[below, : count - k, b] += blocks[k:, k, a, b]
    return band.reshape(6 * ORDER, 6 * count)
