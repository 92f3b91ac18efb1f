"""Registration in continuous time: the control points of a trajectory from the distances of points to planes.

Every point is placed with the lidar's pose at the instant of its own column, so that nothing need be undistorted
beforehand. Sweep after sweep is added to a map that holds the earlier ones; `together` then moves all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rover_pipeline.kinematics.rotation import exp
from rover_pipeline.odometry.observations import NO_GYRO, Gyro, Refinement, Sweep
from rover_pipeline.odometry.solve_kernels import equations, solve_sweep
from rover_pipeline.odometry.surfels import SurfelMap
from rover_pipeline.odometry.together import map_of, placed, poses_of, refine_together
from rover_pipeline.odometry.trajectory import ORDER, Trajectory, basis


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
        at = poses_of(found, *found.locate(sweep.times))
        *_, told = equations(sweep.points, sweep.column, *at, surfels.tables, _NEAR, 0.1, 1.0, 8)
        scores.append(told[1] - told[2] / _NEAR**2)
    found.pos[new], found.rot[new] = choices[int(np.argmax(scores))]


#: Distance from planes that tells a good first value from a bad one, metres.
_NEAR = 0.2


def refine(
    sweeps: Sequence[Sweep], guess: Trajectory, how: Refinement, gyro: Gyro = NO_GYRO
) -> tuple[Trajectory, SurfelMap]:
    """The trajectory of sweeps and their map: in order, but the first ones until they agree with one another.

    Args:
        guess: a trajectory that is roughly right over the length of a sweep.
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
    return refine_in_order(sweeps[middle:], _continued(found, guess, start[-1].end), how, gyro)


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
