"""Where a trajectory and a reference contradict one another beyond both deviations, and which of them is to blame.

The error of a motion, normalised by the covariances of both (NEES), has a chi-square distribution where these are right
(Bar-Shalom et al., Estimation with Applications to Tracking and Navigation, 2001, 5.4). Errors of the two poses of a
motion are taken as independent, which makes its covariance too large rather than too small.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.integrate import cumulative_trapezoid
from scipy.special import chdtri, fdtrc

from rover_pipeline.kinematics.accuracy import (
    RELATIVE_S,
    WRONG_M,
    WRONG_SHARE,
    covered,
    motion_errors,
    pairs_apart,
    positions_at,
    rotations_at,
)  # fmt: skip
from rover_pipeline.kinematics.rotation import skew
from rover_pipeline.kinematics.state import Poses
from rover_pipeline.numerics.linear import matmul, solve

#: Probability that chance alone makes a contradiction, or a witness speak.
_CHANCE = 1e-6
#: Variance of rounded times and lengths, m2 and rad2.
_ROUNDING = 0.5e-3**2
#: No rig on wheels or legs accelerates like this for a second, m/s2.
_IMPOSSIBLE_MPS2 = 20.0

Imu = tuple[np.ndarray, np.ndarray]


class Reference(NamedTuple):
    """A reference at N instants.

    Attributes:
        poses: f8; cov: f8 (N, 6, 6), as that of `_odom`, NaN where it states none of rotations; None = it states none.
        driven: f8 (N, 3), m: the integral of its velocity in its world; None = it has none.
        arm: deviation of the place of its body on the rig, m; 0 = it is known.
    """

    poses: Poses
    cov: np.ndarray | None = None
    driven: np.ndarray | None = None
    arm: float = 0.0


class Contradiction(NamedTuple):
    """A time in which motions differ by more than both deviations.

    Attributes:
        begin, end: s; ours, theirs: length of the motion that differs most, by the trajectory and the reference, m.
        excess: its error over the largest one that chance allows.
        witness: who decides, as a subject; empty = nobody can tell.
        wrong: whether the trajectory is wrong and sure: a witness says so, or none does and both deviations are known.
    """

    begin: float
    end: float
    ours: float
    theirs: float
    excess: float
    witness: str
    wrong: bool


def contradictions(
    ts: np.ndarray, poses: Poses, cov: np.ndarray, reference: Reference, imu: Imu | None
) -> Iterator[Contradiction]:
    """Contradictions of motions over a second; where there are none, that of the poses relative to the first one.

    Args:
        ts: f8 (N,), s, increasing; poses: f8; cov: f8 (N, 6, 6), as that of `_odom`.
        imu: times, f8 (M,), s, and specific force in the frame of the poses, f8 (M, 3), m/s2; None = there is none.
    """
    theirs, stated = reference.poses, reference.cov
    near = pairs_apart(ts, RELATIVE_S)
    pairs = first, last = np.append(near[0], np.zeros(len(ts), int)), np.append(near[1], np.arange(len(ts)))
    ways = [np.linalg.norm(each.pos[last] - each.pos[first], axis=1) for each in (poses, theirs)]
    # A body at an unknown place moves where the rig turns; one that states no deviation is taken to have this.
    more = reference.arm**2 * np.sum((poses.rot[last] - poses.rot[first]) ** 2, axis=(1, 2)) + _ROUNDING
    more += (WRONG_M + WRONG_SHARE * ways[1]) ** 2 if stated is None else 0.0
    spread = _spread(poses, cov, pairs) + more[:, None, None] * np.eye(6)
    spread += 0.0 if stated is None else _spread(theirs, np.nan_to_num(stated), pairs)
    size = 6 if stated is not None and np.isfinite(stated).all() else 3
    error = motion_errors(poses, theirs, pairs)[:, :size]
    squares = np.sum(error * solve(spread[:, :size, :size], error[:, :, None])[:, :, 0], axis=1)
    excess = np.sqrt(squares / chdtri(size, _CHANCE / len(squares)))
    variance = np.trace(spread[: len(near[0]), :3, :3], axis1=1, axis2=2)
    bad = np.flatnonzero(excess > 1)
    local = bad[bad < len(near[0])]
    # A motion that begins after all earlier ones have ended belongs to another contradiction.
    new = np.flatnonzero(first[local[1:]] > np.maximum.accumulate(last[local])[:-1]) + 1
    for part in np.split(local, new) if len(local) else [bad] * bool(len(bad)):
        worst, span = part[np.argmax(excess[part])], (float(ts[first[part].min()]), float(ts[last[part].max()]))
        witness, liar = _decide(ts, poses, reference, imu, variance, span) if len(local) else ("", None)
        apart = np.linalg.norm(error[part, :3], axis=1).max()
        wrong = apart > WRONG_M and (stated is not None if liar is None else liar is poses)
        yield Contradiction(*span, *(float(each[worst]) for each in (*ways, excess)), witness, bool(wrong))


def _spread(poses: Poses, cov: np.ndarray, pairs: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Covariances of motions between poses with independent errors, f8 (pair, 6, 6), in the frame of the second."""
    (first, last), back = pairs, np.swapaxes(poses.rot, 1, 2)
    move, turn = np.zeros((len(first), 6, 6)), matmul(back[last], poses.rot[first])
    between = np.einsum("nij,nj->ni", back[first], poses.pos[last] - poses.pos[first])
    move[:, :3, :3] = move[:, 3:, 3:] = turn
    move[:, :3, 3:] = matmul(-turn, skew(between))
    return np.asarray(cov[last] + matmul(move, cov[first], np.swapaxes(move, 1, 2)))


def _decide(
    ts: np.ndarray, poses: Poses, reference: Reference, imu: Imu | None, variance: np.ndarray, span: tuple[float, float]
) -> tuple[str, Poses | None]:
    """Who decides a contradiction between two instants, and whom it contradicts.

    Args:
        variance: f8 (pair,), m2, of the difference of motions over a second.
    """
    first, last = pairs_apart(ts, RELATIVE_S)
    if reference.driven is not None:
        moved, driven = (each[last] - each[first] for each in (reference.poses.pos, reference.driven))
        own = np.sum((moved - driven) ** 2, axis=1) / variance
        if (own[(ts[first] >= span[0]) & (ts[last] <= span[1])] > chdtri(3, _CHANCE / len(own))).any():
            return "its own velocity", reference.poses
    # Changes of velocity from one second to the next, less what the IMU measures: gravity, which is left, stays.
    _, after, before = np.intersect1d(first, last, return_indices=True)
    times, force = imu or (ts, np.zeros((len(ts), 3)))
    inside = (times >= ts[0]) & (times <= ts[-1])
    times, force = times[inside], force[inside]
    whole = covered(times, ts[first[before]]) & covered(times, ts[last[after]])
    touched = (ts[first[before]] < span[1]) & (ts[last[after]] > span[0]) & whole
    if not touched.any():
        return "", None
    left = []
    for each in (poses, reference.poses):
        felt = np.einsum("nij,nj->ni", rotations_at(ts, each.rot, times), force)
        speed = cumulative_trapezoid(felt, times, axis=0, initial=0)
        free = each.pos - positions_at(times, cumulative_trapezoid(speed, times, axis=0, initial=0), ts)
        mean = (free[last] - free[first]) / (ts[last] - ts[first])[:, None]
        change = 2 * RELATIVE_S * (mean[after] - mean[before]) / (ts[last[after]] - ts[first[before]])[:, None]
        left.append(np.sum((change - np.median(change[whole], axis=0)) ** 2, axis=1))
    if imu is None:
        fast = np.sqrt(left[1][touched].max()) > _IMPOSSIBLE_MPS2 * RELATIVE_S
        return ("its acceleration", reference.poses) if fast else ("", None)
    variances = [np.full(len(each), np.median(each[whole])) for each in left]
    if reference.cov is not None:
        variances = [3 * variance[before]] * 2
    freedom = 3 * int((span[1] - span[0]) / (2 * RELATIVE_S) + 2)  # changes that do not overlap, those at its ends too
    for who, mine, other, usual in ((poses, *left, variances[0]), (reference.poses, *left[::-1], variances[1])):
        if fdtrc(freedom, freedom, mine[touched].sum() / (other + usual)[touched].sum()) < _CHANCE:
            return "the IMU", who
    return "", None
