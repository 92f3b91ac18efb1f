"""All sweeps of a recording at once: their map, and the trajectory that lies best on it.

Both are sums over sweeps, so that parts of a recording contribute on their own, anywhere and in any order, to one map
and to one system of equations: the result has no seams.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from scipy.linalg import solveh_banded

from rover_pipeline.kinematics.rotation import exp
from rover_pipeline.odometry.observations import NO_GYRO, Fit, Gyro, Refinement, Sweep
from rover_pipeline.odometry.solve_kernels import add_jerks, add_rates, equations, lift
from rover_pipeline.odometry.surfel_kernels import place_points
from rover_pipeline.odometry.surfels import SurfelMap
from rover_pipeline.odometry.trajectory import ORDER, Trajectory, basis


class Normal(NamedTuple):
    """Normal equations of some neighbouring control points, from some sweeps.

    Attributes:
        first: number of the first control point.
        blocks: f8 (M, 4, 6, 6), block [m, k] is that of control points m and m - k; displacement, then rotation.
        sides: f8 (M, 6).
    """

    first: int
    blocks: np.ndarray
    sides: np.ndarray


def normal_equations(
    sweeps: Iterable[Sweep], trajectory: Trajectory, surfels: SurfelMap, how: Refinement, gyro: Gyro = NO_GYRO
) -> tuple[Normal, list[Fit]]:
    """What sweeps, and angular velocities, say about the trajectory, and how well each sweep lies on the map."""
    count = len(trajectory.pos)
    low, high = count, 0
    blocks, sides = np.zeros((count, ORDER, 6, 6)), np.zeros((count, 6))
    fits = []
    for sweep in sweeps:
        first, place = trajectory.locate(sweep.times)
        pos, rot = poses_of(trajectory, first, place)
        matrix, right, told = equations(
            sweep.points, sweep.column, pos, rot, surfels.tables, how.gates[-1], how.noise, how.scale, 1
        )
        lift(matrix, right, first, basis(place), blocks, sides)
        low, high = min(low, int(first.min())), max(high, int(first.max()) + ORDER)
        looked, inside, squares = told
        fits.append(Fit(inside / max(looked, 1), float(np.sqrt(squares / max(inside, 1))), matrix.sum(0)))
    if len(gyro.times):
        first, place = trajectory.locate(gyro.times)
        known = how.rate_noise**-2
        add_rates(trajectory.pos, trajectory.rot, trajectory.step, first, place, gyro.rates, known, blocks, sides)
        low, high = min(low, int(first.min())), max(high, int(first.max()) + ORDER)
    part = slice(min(low, high), high)
    return Normal(part.start, blocks[part].copy(), sides[part].copy()), fits


def solve(trajectory: Trajectory, parts: Iterable[Normal], how: Refinement) -> Trajectory:
    """The trajectory moved to where all normal equations and its smoothness want it."""
    count = len(trajectory.pos)
    band, sides = _smoothness(trajectory, how)
    for part in parts:
        here = slice(part.first, part.first + len(part.sides))
        band[:, here] += _banded(part.blocks)
        sides[here] += part.sides
        del part  # not held while the next one is made
    flat = band.reshape(len(band), -1)
    step = solveh_banded(flat, sides.ravel(), lower=True, overwrite_ab=True, overwrite_b=True).reshape(count, 6)
    return Trajectory(
        trajectory.start, trajectory.step, trajectory.pos + step[:, :3], trajectory.rot @ exp(step[:, 3:])
    )


def _smoothness(trajectory: Trajectory, how: Refinement) -> tuple[np.ndarray, np.ndarray]:
    """Equations of a motion without jerk: the matrix as a band, f8 (24, M, 6), and f8 (M, 6)."""
    count = len(trajectory.pos)
    blocks, sides = np.zeros((count, ORDER, 6, 6)), np.zeros((count, 6))
    add_jerks(trajectory.pos, trajectory.rot, 1 / (how.jerk * trajectory.step**3) ** 2, 0, blocks, sides)
    blocks[:, 0] += 1e-6 * np.eye(6)
    return _banded(blocks), sides


def refine_together(
    sweeps: Iterable[Sweep], guess: Trajectory, surfels: SurfelMap, how: Refinement, gyro: Gyro = NO_GYRO
) -> tuple[Trajectory, list[Fit]]:
    """The trajectory that lies best on a map of all the sweeps, and how well each of them did before."""
    part, fits = normal_equations(sweeps, guess, surfels, how, gyro)
    return solve(guess, [part], how), fits


def map_of(sweeps: Iterable[Sweep], trajectory: Trajectory, how: Refinement) -> SurfelMap:
    """The map of sweeps whose trajectory is known."""
    surfels = SurfelMap(how.voxels)
    for sweep in sweeps:
        surfels.insert(placed(sweep, trajectory))
    return surfels


def placed(sweep: Sweep, trajectory: Trajectory) -> np.ndarray:
    """The sweep's points in the world, f8 (N, 3), each from where the lidar was at its instant."""
    return place_points(sweep.points, sweep.column, *poses_of(trajectory, *trajectory.locate(sweep.times)))


def poses_of(trajectory: Trajectory, first: np.ndarray, place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions (C, 3) and rotations (C, 3, 3) at instants as `Trajectory.locate` gives them."""
    low, high = int(first.min()), int(first.max()) + ORDER
    window = Trajectory(0.0, trajectory.step, trajectory.pos[low:high], trajectory.rot[low:high])
    state = window.evaluate(first - low, place)
    return state.pos, state.rot


def _banded(blocks: np.ndarray) -> np.ndarray:
    """The symmetric matrix of blocks (count, 4, 6, 6) in the lower banded form of LAPACK, (24, count, 6).

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
    return band
