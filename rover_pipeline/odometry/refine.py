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

from rover_pipeline.odometry.solve_kernels import add_jerks, add_rates, equations, lift, solve_sweep
from rover_pipeline.odometry.surfel_kernels import place_points
from rover_pipeline.odometry.surfels import SurfelMap
from rover_pipeline.odometry.trajectory import ORDER, Trajectory, basis, exp


class Sweep(NamedTuple):
    """Points of a sweep in the lidar frame, each seen at the instant of its column.

    Attributes:
        points: f4 (N, 3), metres.
        column: i4 (N,), rising, into `times`.
        times: f8 (C,), rising, seconds.
        end: the instant that the sweep's pose refers to, seconds.
    """

    points: np.ndarray
    column: np.ndarray
    times: np.ndarray
    end: float


class Gyro(NamedTuple):
    """Measured angular velocities.

    Attributes:
        times: f8 (G,), rising, seconds.
        rates: f8 (G, 3), rad/s, in the lidar frame.
    """

    times: np.ndarray
    rates: np.ndarray

    def between(self, start: float, stop: float) -> Gyro:
        part = slice(*np.searchsorted(self.times, (start, stop)))
        return Gyro(self.times[part], self.rates[part])


NO_GYRO = Gyro(np.zeros(0), np.zeros((0, 3)))


@dataclass(frozen=True)
class Refinement:
    """How points are weighed.

    Attributes:
        voxels: edges of the voxels of the map, metres, finest first.
        noise: standard deviation of a range, metres.
        scale: distance from a plane, in standard deviations, from where on points count less.
        jerk: expected of the motion, m/s3 and rad/s3.
        rate_noise: standard deviation of a measured angular velocity, rad/s.
        gates: greatest distance from a plane, metres, iteration by iteration.
        strides: one point in so many is looked at, iteration by iteration.
        least_inliers: share of points within the last gate, below which a sweep is left where it was guessed.
        furthest: from where it was guessed, metres, beyond which too.
    """

    voxels: tuple[float, ...] = (0.25, 0.5, 1.0)
    noise: float = 0.01
    scale: float = 2.0
    jerk: float = 30.0
    rate_noise: float = 0.02
    gates: tuple[float, ...] = (0.4, 0.2, 0.1, 0.05, 0.05)
    strides: tuple[int, ...] = (4, 4, 4, 1, 1)
    least_inliers: float = 0.3
    furthest: float = 0.5


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


def refine_in_order(
    sweeps: Sequence[Sweep], guess: Trajectory, how: Refinement, gyro: Gyro = NO_GYRO
) -> tuple[Trajectory, SurfelMap]:
    """The trajectory of sweeps, each registered to the map of those before it, and the map.

    Args:
        guess: a trajectory that is roughly right over the length of a sweep; its drift does not matter.
    """
    found = guess.copy()
    surfels = SurfelMap(how.voxels)
    surfels.insert(placed(sweeps[0], found))
    first, _ = found.locate(sweeps[0].times)
    low, reached = int(first.min()), int(first.max()) + ORDER
    # The first sweep holds still.
    information = 1e8 * np.eye(6 * (reached - low))
    before, before_lost = sweeps[0], True
    for sweep in sweeps[1:]:
        first, place = found.locate(sweep.times)
        start, stop = min(int(first.min()), reached - ORDER + 1), max(int(first.max()) + ORDER, reached)
        if stop > reached:
            _extend(found, guess, before.times[-1], slice(reached, stop), sweep, surfels)
        prior = _marginal(information, 6 * (start - low))
        span = (found.start + (start + ORDER - 1) * found.step, found.start + (stop - ORDER + 1) * found.step)
        turned = gyro.between(*span)
        turned_first, turned_place = found.locate(turned.times)
        pos, rot = found.pos[start:stop].copy(), found.rot[start:stop].copy()
        information, told = solve_sweep(
            sweep.points, sweep.column, first - start, place, basis(place), pos, rot, found.step, prior,
            surfels.tables, np.array(how.gates), np.array(how.strides), how.noise, how.scale, how.jerk,
            turned.rates, turned_first - start, turned_place, how.rate_noise**-2,
        )  # fmt: skip
        if told[1] < how.least_inliers * told[0] or np.abs(pos - found.pos[start:stop]).max() > how.furthest:
            # Not where the map says it should be: it goes on as the guess does, and is no part of the map.
            information = np.eye(6 * (stop - start)) * how.furthest**-2
            information[: len(prior), : len(prior)] += prior
            lost = True
        else:
            found.pos[start:stop], found.rot[start:stop] = pos, rot
            lost = False
        low, reached = start, stop
        if not before_lost:
            surfels.insert(placed(before, found))
        before, before_lost = sweep, lost
    if not before_lost:
        surfels.insert(placed(before, found))
    return found, surfels


def _extend(found: Trajectory, guess: Trajectory, end: float, new: slice, sweep: Sweep, surfels: SurfelMap) -> None:
    """First values of the control points that a sweep is the first to act on.

    They go on as the lidar did at the instant `end`, or as the guess does from there on: whichever suits the sweep.
    """
    here, there = found.at(np.array([end])), guess.at(np.array([end]))
    turn = here.rot[0] @ there.rot[0].T
    since = (found.start + (np.arange(new.start, new.stop) - 1) * found.step - end)[:, None]
    choices = (
        (here.pos + since * here.vel, here.rot @ exp(since * here.avel)),
        (here.pos + (guess.pos[new] - there.pos) @ turn.T, turn @ guess.rot[new]),
    )
    scores = []
    for pos, rot in choices:
        found.pos[new], found.rot[new] = pos, rot
        at = _poses(found, *found.locate(sweep.times))
        *_, told = equations(sweep.points, sweep.column, *at, surfels.tables, _NEAR, 0.1, 1.0, 8)
        scores.append(told[1] - told[2] / _NEAR**2)
    found.pos[new], found.rot[new] = choices[int(np.argmax(scores))]


#: Distance from planes that tells a good first value from a bad one, metres.
_NEAR = 0.2


def refine(
    sweeps: Sequence[Sweep], guess: Trajectory, how: Refinement, gyro: Gyro = NO_GYRO, rounds: int = 1
) -> tuple[Trajectory, SurfelMap, list[Fit]]:
    """The trajectory of sweeps, their map, and how well each of them lies on it.

    Args:
        guess: a trajectory that is roughly right over the length of a sweep.
        rounds: of moving the whole trajectory against the map of all the sweeps.
    """
    # All later sweeps are registered to the first ones: their own motion has to be right before anything else.
    start = sweeps[:_START]
    found = guess.copy()
    for _ in range(2):
        found, surfels = refine_in_order(start, found, how, gyro)
        for _ in range(2):
            found, _ = refine_together(start, found, surfels, how, gyro)
            surfels = map_of(start, found, how)
    middle = len(start) // 2
    found, surfels = refine_in_order(sweeps[middle:], _continued(found, guess, start[-1].end), how, gyro)
    for _ in range(rounds):
        found, fits = refine_together(sweeps, found, surfels, how, gyro)
        surfels = map_of(sweeps, found, how)
    if rounds == 0:
        _, fits = refine_together(sweeps, found, surfels, how, gyro)
    return found, surfels, fits


#: Sweeps that a segment's map begins with.
_START = 20


def _continued(first: Trajectory, then: Trajectory, when: float) -> Trajectory:
    """`first` until an instant, thereafter `then` moved to where that was."""
    here, there = first.at(np.array([when])), then.at(np.array([when]))
    turn = here.rot[0] @ there.rot[0].T
    found = then.moved(turn, here.pos[0] - turn @ there.pos[0])
    known = int(first.locate(np.array([when]))[0][0]) + 2
    found.pos[:known], found.rot[:known] = first.pos[:known], first.rot[:known]
    return found


def _marginal(information: np.ndarray, drop: int) -> np.ndarray:
    """What is known of the other unknowns when the first ones, `drop` of them, are not asked about again."""
    if drop == 0:
        return information
    a, b, c = information[:drop, :drop], information[:drop, drop:], information[drop:, drop:]
    return c - b.T @ np.linalg.solve(a + 1e-6 * np.eye(drop), b)


def refine_together(
    sweeps: Sequence[Sweep], guess: Trajectory, surfels: SurfelMap, how: Refinement, gyro: Gyro = NO_GYRO
) -> tuple[Trajectory, list[Fit]]:
    """The trajectory that lies best on a map of all the sweeps, and how well each of them did before."""
    found = guess.copy()
    count = len(found.pos)
    blocks, sides = np.zeros((count, ORDER, 6, 6)), np.zeros((count, 6))
    fits = []
    for sweep in sweeps:
        first, place = found.locate(sweep.times)
        pos, rot = _poses(found, first, place)
        matrix, right, told = equations(
            sweep.points, sweep.column, pos, rot, surfels.tables, how.gates[-1], how.noise, how.scale, 1
        )
        lift(matrix, right, first, basis(place), blocks, sides)
        looked, inside, squares = told
        fits.append(Fit(inside / max(looked, 1), float(np.sqrt(squares / max(inside, 1))), matrix.sum(0)))
    add_jerks(found.pos, found.rot, 1 / (how.jerk * found.step**3) ** 2, 0, blocks, sides)
    add_rates(
        found.pos, found.rot, found.step, *found.locate(gyro.times), gyro.rates, how.rate_noise**-2, blocks, sides
    )
    blocks[:, 0] += 1e-6 * np.eye(6)
    step = solveh_banded(_banded(blocks), sides.ravel(), lower=True).reshape(count, 6)
    found.pos += step[:, :3]
    found.rot = found.rot @ exp(step[:, 3:])
    return found, fits


def map_of(sweeps: Sequence[Sweep], trajectory: Trajectory, how: Refinement) -> SurfelMap:
    """The map of sweeps whose trajectory is known."""
    surfels = SurfelMap(how.voxels)
    for sweep in sweeps:
        surfels.insert(placed(sweep, trajectory))
    return surfels


def placed(sweep: Sweep, trajectory: Trajectory) -> np.ndarray:
    """The sweep's points in the world, f8 (N, 3), each from where the lidar was at its instant."""
    return place_points(sweep.points, sweep.column, *_poses(trajectory, *trajectory.locate(sweep.times)))


def _poses(trajectory: Trajectory, first: np.ndarray, place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    low, high = int(first.min()), int(first.max()) + ORDER
    window = Trajectory(0.0, trajectory.step, trajectory.pos[low:high], trajectory.rot[low:high])
    state = window.evaluate(first - low, place)
    return state.pos, state.rot


def _banded(blocks: np.ndarray) -> np.ndarray:
    """The symmetric matrix of blocks (count, 4, 6, 6) in the lower banded form of LAPACK, (24, 6 count).

    Block [m, k] is that of control points m and m - k.
    """
    count = len(blocks)
    band = np.zeros((6 * ORDER, count, 6))
    for k in range(ORDER):
        for a in range(6):
            for b in range(6):
                below = 6 * k + a - b
                if below >= 0:
                    band[below, : count - k, b] += blocks[k:, k, a, b]
    return band.reshape(6 * ORDER, 6 * count)
