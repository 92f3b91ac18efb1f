"""Odometry of consecutive sweeps: an initial guess by a library, then scan-to-map registration in continuous time.

Sweep after sweep is registered to the map of those before it. Every point is transformed by the lidar's pose at the
instant of its own column, so no sweep is deskewed beforehand.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from rover_pipeline.kinematics.rotation import exp, log
from rover_pipeline.numerics import linear
from rover_pipeline.odometry.observations import Sweep
from rover_pipeline.odometry.options import OdometrySection
from rover_pipeline.odometry.registration.batch import build_map, normal_equations, on_others, one_pass
from rover_pipeline.odometry.registration.convergence import MAX_REMAINING
from rover_pipeline.odometry.registration.cross_validation import (
    BLOCKS,
    SIGNIFICANT,
    TwoMaps,
    cross_validate,
    is_worse,
    mean_cost,
    world_rays,
)
from rover_pipeline.odometry.registration.first_guess import register_in_turn
from rover_pipeline.odometry.registration.speeds import open_direction, with_other_speeds
from rover_pipeline.odometry.registration.spline_equations import register_sweep, widest_gate
from rover_pipeline.odometry.spline import ORDER, SplineTrajectory, fit_spline
from rover_pipeline.odometry.surfels import SurfelMap

#: Number of sweeps that a segment's map begins with. Tuned: by hand.
FIRST_SWEEPS = 20
#: Smallest fraction of inliers of a sweep that fits the map, and largest correction of its initial guess, metres.
#: Tuned: by hand.
_MIN_INLIERS, _MAX_CORRECTION = 0.3, 0.5
#: One sweep in so many is cross-validated to find the better one of two trajectories. Tuned: by hand.
_VALIDATED = 3
#: Batch passes after which trajectories are compared: about what it takes to undo errors of a guess of centimetres.
#: Tuned: by hand.
_COMPARED_AFTER = 5
#: Largest number of batch passes, and the root mean square distance of the poses from where passes lead, metres, below
#: which no further one is of use: planes settle at once, leaves after several passes. Tuned: by hand.
_MAX_BATCH_PASSES, _SETTLED_METRES = 30, 0.002


def register(
    sweeps: Iterable[Sweep | None], ends: np.ndarray, options: OdometrySection, sizes: tuple[float, ...] = ()
) -> tuple[SplineTrajectory, SurfelMap]:
    """The lidar's trajectory over some sweeps, in a world of their own, and their map.

    Args:
        sweeps: None for those that must not be used.
        ends: f8 (frame,), instants that the poses refer to, of all the sweeps, seconds.
        sizes: of the voxels of the map, m, finest first.
    """
    used = [sweep for sweep in sweeps if sweep]
    begin = min([ends[0], *(sweep.times[0] for sweep in used)])
    # A microsecond more, so that rounding cannot cut off the last instant.
    last = max([ends[-1], *(sweep.times[-1] for sweep in used)]) + 1e-6
    # The knots of all segments of a recording are on one grid, so that segments can be joined.
    begin = np.floor(begin / options.knots) * options.knots
    if not used:
        return SplineTrajectory.at_rest(begin, last, options.knots), SurfelMap(sizes)
    matrices, instants = register_in_turn(used, options.spacing, options.voxel), np.array([each.end for each in used])
    rot, pos = matrices[:, :3, :3], matrices[:, :3, 3]
    guess = fit_spline(instants, pos, rot, begin, last, options.knots, options.jerk)
    if options.passes != 1:
        # Near things must not outvote far ones: people who walk along give most of the points, but have less surface
        # than the walls of a hall. The batch passes use all points; the trajectory is right to some millimetres then.
        even = [sweep.changed(lambda each: each.one_a_voxel(options.voxels[0])) for sweep in used]
        refined, fits = _register_sweeps(even, guess, options)
        return refined, build_map(itertools.compress(used, fits), refined, sizes)
    return guess, build_map(used, guess, sizes)


def batch_passes(options: OdometrySection) -> int:
    """How often the whole trajectory is refined in batch at most."""
    return _MAX_BATCH_PASSES if options.passes is None else max(0, options.passes - 2)


def has_settled(
    options: OdometrySection, before: SplineTrajectory, after: SplineTrajectory, ts: np.ndarray, left: float
) -> bool:
    """Whether further batch passes are of no use, as far as the options leave this to the recording.

    Args:
        before, after: between which a pass moves the trajectory.
        ts: f8 (frame,), instants of the poses, seconds.
        left: how many times this move all further passes make at most; see `convergence.remaining_moves`.
    """
    moved = after.at(ts).pos - before.at(ts).pos
    return options.passes is None and left * float(np.sqrt((moved**2).sum(1).mean())) < _SETTLED_METRES


def _register_sweeps(
    sweeps: Sequence[Sweep], guess: SplineTrajectory, options: OdometrySection
) -> tuple[SplineTrajectory, list[bool]]:
    """The trajectory of sweeps, and which of them fit it.

    Whoever registers one sweep after the other depends on the first ones. A rig that begins to move among leaves, or
    with beams that are not where its sidecar says, seems to stand for a while: sweeps that are measured from the same
    place agree in their errors. From its end to its beginning the same motion has no such start. And where a fast rig
    leaves its map behind, nothing after that fits. So where sweeps do not lie on the map of the others, as they do
    among walls, the trajectories of both directions and the guess itself are refined in batch, and the one that the
    points that were left out fit best is taken. Where hardly any surface faces a direction, trajectories that begin
    with other speeds along it are tried, too. One of these is taken only if the points fit it significantly better.
    """
    some = sweeps[::_VALIDATED]
    # Sweeps agree where their errors, which add up over two seconds, are half of the largest one of a valid pose.
    forth, fits = _register_to_map(sweeps, guess, options)
    quality = cross_validate(some, forth, options)
    if all(fits) and all(BLOCKS * fit.shift < options.max_error for fit in quality):
        return forth, fits
    turned, turned_fits = _register_to_map(
        [sweep.backwards() for sweep in reversed(sweeps)], guess.backwards(), options
    )
    found = [(forth, fits), (turned.backwards(), turned_fits[::-1]), (guess, [True] * len(fits))]
    refined = [(_refined(sweeps, trajectory, options), used) for trajectory, used in found]
    best, quality = min(
        ((each, cross_validate(some, each[0], options)) for each in refined), key=lambda pair: mean_cost(pair[1])
    )
    _, information, _ = normal_equations(on_others(some, forth, TwoMaps(options, len(some))), forth, options)
    if (axes := open_direction(np.sum(information, axis=0))) is not None:
        for other in with_other_speeds(sweeps, guess, axes):
            trajectory, used = _register_to_map(sweeps, other, options)
            trajectory = _refined(sweeps, trajectory, options)
            fits_of_other = cross_validate(some, trajectory, options)
            # Among leaves one of several fits a little better at random.
            if is_worse(fits_of_other, quality):
                best, quality = (trajectory, used), fits_of_other
    return best


def _refined(sweeps: Sequence[Sweep], trajectory: SplineTrajectory, options: OdometrySection) -> SplineTrajectory:
    """The trajectory after some batch passes, so that it can be compared with others."""
    maps = TwoMaps(options, len(sweeps))
    for _ in range(_COMPARED_AFTER):
        trajectory = one_pass(sweeps, trajectory, maps)
    return trajectory


def _register_to_map(
    sweeps: Sequence[Sweep], guess: SplineTrajectory, options: OdometrySection
) -> tuple[SplineTrajectory, list[bool]]:
    """The trajectory of sweeps, and which of them fit it.

    The first sweeps are refined in batch until they agree with one another. All later sweeps are registered to them,
    so the motion of the first ones has to be right before anything else. Where they do not fit one another, as a single
    sweep of a few beams has next to no planes, the first half of them is the map that the others begin with.

    Args:
        guess: a trajectory that is roughly right over the length of a sweep; its drift does not matter.
    """
    first = sweeps[:FIRST_SWEEPS]
    ends, trajectory, maps = np.array([sweep.end for sweep in first]), guess.copy(), TwoMaps(options, len(first))
    for _ in range(2):
        trajectory, fits = _register_in_order(first, trajectory, options)
        # A sweep that does not fit the map of those before it has not moved: only batch passes take it along, slowly.
        known = [] if all(fits) else first[: len(first) // 2]
        for _ in range(_MAX_BATCH_PASSES if known else 2):
            before, trajectory = trajectory, one_pass(first, trajectory, maps)
            if known and has_settled(options, before, trajectory, ends, MAX_REMAINING):
                break
    middle = len(first) // 2
    guess = _continued(trajectory, guess, first[-1].end)
    trajectory, fits = _register_in_order(sweeps[middle:], guess, options, known)
    return trajectory, [True] * middle + fits


def _register_in_order(
    sweeps: Sequence[Sweep], guess: SplineTrajectory, options: OdometrySection, known: Sequence[Sweep] = ()
) -> tuple[SplineTrajectory, list[bool]]:
    """The trajectory of sweeps, each registered to the map of those before it, and which of them fit this map.

    Each sweep moves the control points that act on it. What is known about them from the sweeps before is kept as an
    information matrix, from which control points that no later sweep depends on are marginalised. The map begins with
    the `known` sweeps, for which the guess is right.

    Where the guesses of the sweeps before it were far off, a sweep is searched for as far away, two deviations (as the
    adaptive threshold of I. Vizzo et al., KISS-ICP, RA-L 2023): with 5 sweeps a second, a rig that turns to and fro
    moves walls by a metre. It is searched for nearby, too, and the pose that more points fit is taken, because far away
    the next one of equal pilasters may be.
    """
    estimate, surfels = guess.copy(), SurfelMap(options.voxels)
    for sweep in (*known, sweeps[0]):
        surfels.insert(world_rays(sweep, estimate))
    low, reached = estimate.locate(sweeps[0].times).control_range()
    information = 1e8 * np.eye(6 * (reached - low))  # holds the first sweep in its place
    all_fit, squares = [True], [0.0]
    for number, sweep in enumerate(sweeps[1:]):
        before = sweeps[number]
        instants = estimate.locate(sweep.times)
        first, end = instants.control_range()
        start, stop = min(first, reached - ORDER + 1), max(end, reached)
        prior = _marginalise(information, 6 * (start - low))
        far = max(_MAX_CORRECTION, SIGNIFICANT * float(np.sqrt(np.mean(squares))))
        for pos, rot in _continuations(estimate, guess, before.times[-1], slice(reached, stop)):
            estimate.pos[reached:stop], estimate.rot[reached:stop] = pos, rot
            guessed, found = estimate.part(start, stop), []
            for gate in sorted({widest_gate(_MAX_CORRECTION), widest_gate(far)}):
                moved = guessed.copy()
                information, statistics = register_sweep(
                    sweep,
                    instants.relative_to(start),
                    instants.weights(),
                    moved,
                    prior,
                    surfels.tables,
                    options.range_noise,
                    options.jerk,
                    gate,
                )
                found.append((moved, information, statistics))
            moved, information, statistics = max(found, key=lambda each: each[2].inliers)
            correction = np.abs(moved.pos - estimate.pos[start:stop]).max()
            fits = not (statistics.inliers < _MIN_INLIERS * statistics.points or correction > _MAX_CORRECTION)
            if fits:
                squares.append(_square_move(sweep, guessed, moved))
                estimate.pos[start:stop], estimate.rot[start:stop] = moved.pos, moved.rot
                break
        else:
            # The sweep does not fit the map. Keep its initial guess and leave it out of the map, so that a wrong pose
            # cannot attract the sweeps after it.
            information = np.eye(6 * (stop - start)) * _MAX_CORRECTION**-2
            information[: len(prior), : len(prior)] += prior
        low, reached = start, stop
        # A sweep enters the map one sweep later: the next sweep still moves some of its control points.
        if all_fit[-1] and number:
            surfels.insert(world_rays(before, estimate))
        all_fit.append(fits)
    return estimate, all_fit


def _square_move(sweep: Sweep, before: SplineTrajectory, after: SplineTrajectory) -> float:
    """How far the points of a sweep move from one trajectory to another at its end, mean square, m2."""
    there, here = (each.at(np.array([sweep.end])) for each in (before, after))
    turn = (log(linear.matmul(np.swapaxes(there.rot, 1, 2), here.rot)) ** 2).sum()
    return float(((here.pos - there.pos) ** 2).sum() + turn * (sweep.points**2).sum(axis=1).mean())


def _continuations(
    estimate: SplineTrajectory, guess: SplineTrajectory, end: float, new: slice
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """First values of control points that no sweep before has moved, positions (M, 3) and rotations (M, 3, 3).

    The lidar keeps its velocity at the instant `end`. If the sweep does not fit then, the lidar moves as the guess does
    from there on, which knows of jolts, but is easily lost among leaves.
    """
    here = estimate.at(np.array([end]))
    since = (estimate.start + (np.arange(new.start, new.stop) - 1) * estimate.step - end)[:, None]
    yield here.pos + since * here.vel, linear.matmul(here.rot, exp(since * here.avel))
    there = guess.at(np.array([end]))
    rotation = linear.matmul(here.rot[0], there.rot[0].T)
    yield here.pos + linear.matmul(guess.pos[new] - there.pos, rotation.T), linear.matmul(rotation, guess.rot[new])


def _continued(first: SplineTrajectory, then: SplineTrajectory, when: float) -> SplineTrajectory:
    """`first` until the instant `when`, then the motion of `then` from there on."""
    here, there = first.at(np.array([when])), then.at(np.array([when]))
    rotation = linear.matmul(here.rot[0], there.rot[0].T)
    joined = then.transformed(rotation, here.pos[0] - linear.matmul(rotation, there.pos[0]))
    known = int(first.locate(np.array([when])).first[0]) + 2
    joined.pos[:known], joined.rot[:known] = first.pos[:known], first.rot[:known]
    return joined


def _marginalise(information: np.ndarray, drop: int) -> np.ndarray:
    """Information matrix of the other unknowns after the first `drop` are marginalised (Schur complement)."""
    if drop == 0:
        return information
    a, b, c = information[:drop, :drop], information[:drop, drop:], information[drop:, drop:]
    return c - linear.matmul(b.T, linear.solve(a + 1e-6 * np.eye(drop), b))
