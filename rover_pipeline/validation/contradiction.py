"""Where a trajectory and a reference contradict one another beyond both deviations, and which of them is to blame.

The error of a motion, normalised by both covariances (NEES), has a chi-square distribution (Bar-Shalom et al.,
Estimation with Applications to Tracking and Navigation, 2001, 5.4). Errors of the two poses of a motion count as
independent, which makes its covariance too large rather than too small.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import chdtrc, chdtri, fdtrc

from rover_pipeline.kinematics.mounts import UNKNOWN_SIGMA
from rover_pipeline.kinematics.rotation import skew
from rover_pipeline.kinematics.state import Poses
from rover_pipeline.numerics.linear import matmul, solve
from rover_pipeline.validation import accuracy
from rover_pipeline.validation.tuning import TUNING

#: Variance of what is rounded, m2, rad2. Noise: that of `accuracy.ROUNDING`.
_ROUNDING = accuracy.ROUNDING**2
#: Time over which a witness compares motions, s: two of them are one of a relative error. Layout.
_HALF_S = accuracy.RELATIVE_S / 2

Imu = tuple[np.ndarray, np.ndarray]


class Contradiction(NamedTuple):
    """From `begin` to `end`, s, motions differ by more than 5 cm and than both deviations."""

    begin: float
    end: float
    ours: float  #: length of the motion that differs most, m.
    theirs: float
    excess: float  #: its error over the largest one by noise.
    witness: str  #: who decides; empty = it is open which of the two is wrong.
    wrong: bool  #: whether the trajectory is wrong and sure: by a witness, or an exact reference that none calls wrong.


def contradictions(
    ts: np.ndarray,
    poses: Poses,
    cov: np.ndarray,
    wanted: Poses,
    stated: np.ndarray | None,
    imu: Imu | None = None,
    *,
    exact: bool = False,
    placed: bool = True,
) -> Iterator[Contradiction]:
    """Contradictions of motions over a second; where there are none, that of the poses relative to the first one.

    Args:
        ts: f8 (N,), s, increasing; poses: f8; cov: f8 (N, 6, 6), as that of `_odom`.
        wanted: f8, of the reference; stated: the same of it, NaN of rotations without one; None = it states none, and
            is taken to be off by 5 cm and 3 %.
        exact: whether it is a truth; placed: whether its place on the rig is known.
        imu: times, f8 (M,), s, and specific force in the frame of the poses, f8 (M, 3), m/s2; None = there is none.
    """
    first, last = accuracy.pairs_apart(ts, accuracy.RELATIVE_S)
    count, since = len(first), np.arange(len(ts))
    first, last = pairs = np.append(first, 0 * since), np.append(last, since)
    lengths = [np.linalg.norm(each.pos[last] - each.pos[first], axis=1) for each in (poses, wanted)]
    spread = _spread(poses, cov, pairs)
    more = _ROUNDING + (not placed) * UNKNOWN_SIGMA[3] ** 2 * np.sum(
        (poses.rot[last] - poses.rot[first]) ** 2, axis=(1, 2)
    )
    if stated is None:
        more += (accuracy.WRONG_M + accuracy.WRONG_SHARE * lengths[1]) ** 2
    else:
        spread += _spread(wanted, np.nan_to_num(stated), pairs)
    spread += more[:, None, None] * np.eye(6)
    size = 6 if stated is not None and np.isfinite(stated).all() else 3
    error = accuracy.motion_errors(poses, wanted, pairs)[:, :size]
    squares = np.sum(error * solve(spread[:, :size, :size], error[:, :, None])[:, :, 0], axis=1)
    excess = np.sqrt(np.maximum(squares, 0) / chdtri(size, TUNING.false_alarm / len(squares)))
    bad = np.flatnonzero((excess > 1) & (np.linalg.norm(error[:, :3], axis=1) > accuracy.WRONG_M))
    local = bad[bad < count]
    # A motion that begins after all earlier ones have ended belongs to another contradiction.
    new = np.flatnonzero(first[local[1:]] > np.maximum.accumulate(last[local])[:-1]) + 1
    left = _unexplained_changes(ts, (poses, wanted), imu) if len(local) else []
    for part in np.split(local, new) if len(local) else [bad] * bool(len(bad)):
        worst, begin, end = part[np.argmax(excess[part])], float(ts[first[part]].min()), float(ts[last[part]].max())
        noise = None if stated is None else float(np.trace(spread[worst, :3, :3]))
        witness, is_ours = _ask_witness(left, noise, imu is not None, begin, end) if left else ("", False)
        ours, theirs, largest = (float(each[worst]) for each in (*lengths, excess))
        yield Contradiction(begin, end, ours, theirs, largest, witness, is_ours if witness else exact)


def _spread(poses: Poses, cov: np.ndarray, pairs: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Covariances of motions between poses with independent errors, f8 (pair, 6, 6), in the frame of the second."""
    (first, last), back = pairs, np.swapaxes(poses.rot, 1, 2)
    move, turn = np.zeros((len(first), 6, 6)), matmul(back[last], poses.rot[first])
    move[:, :3, :3] = move[:, 3:, 3:] = turn
    move[:, :3, 3:] = matmul(-turn, skew(np.einsum("nij,nj->ni", back[first], poses.pos[last] - poses.pos[first])))
    return np.asarray(cov[last] + matmul(move, cov[first], np.swapaxes(move, 1, 2)))


def _unexplained_changes(ts: np.ndarray, both: tuple[Poses, Poses], imu: Imu | None) -> list[np.ndarray]:
    """Changes of motions from half a second to the next, less what the IMU measures and what gravity always leaves:
    when they begin and end, f8 (M,), s, and their squares, f8 (M,), m2, by the trajectory and by the reference."""
    first, last = accuracy.pairs_apart(ts, _HALF_S)
    _, after, before = np.intersect1d(first, last, return_indices=True)
    times, force = imu or (ts, np.zeros((len(ts), 3)))
    inside = (times >= ts[0]) & (times <= ts[-1])
    times, force = times[inside], force[inside]
    known = accuracy.covered(times, ts[first[before]]) & accuracy.covered(times, ts[last[after]])
    after, before = after[known], before[known]
    found = [ts[first[before]], ts[last[after]]]
    for each in both if len(before) else ():
        felt = np.einsum("nij,nj->ni", accuracy.rotations_at(ts, each.rot, times), force)
        period = np.gradient(times)[:, None]
        felt_way = np.cumsum(np.cumsum(felt * period, axis=0) * period, axis=0)
        free = each.pos - accuracy.positions_at(times, felt_way, ts)
        mean = (free[last] - free[first]) / (ts[last] - ts[first])[:, None]
        change = 2 * _HALF_S**2 * (mean[after] - mean[before]) / (found[1] - found[0])[:, None]
        found.append(np.sum((change - np.median(change, axis=0)) ** 2, axis=1))
    return found


def _ask_witness(
    changes: list[np.ndarray], noise: float | None, felt: bool, begin: float, end: float
) -> tuple[str, bool]:
    """Who decides between two instants, and whether it contradicts the trajectory.

    The largest change of the one that is wrong is larger than by noise beside that of the other one: by the F
    distribution where its deviation is not known, else by the chi-square distribution. `noise`: variance of the
    difference of motions, m2, if both deviations are known; `felt`: whether there is an IMU.
    """
    touched = (changes[0] < end) & (changes[1] > begin)
    if not touched.any():
        return "", False
    left = [each[touched] for each in changes[2:]]
    usual = [_ROUNDING + (float(np.median(each)) if noise is None else 3 * noise) for each in changes[2:]]
    if not felt:
        limit = (TUNING.impossible * _HALF_S**2) ** 2 + usual[1] / 3 * chdtri(3, TUNING.false_alarm)
        return ("its acceleration", False) if left[1].max() > limit else ("", False)
    apart = 1 + int((changes[1][-1] - changes[0][0]) / (2 * _HALF_S))  # number of changes that do not overlap
    for ours, (mine, other) in ((True, left), (False, left[::-1])):
        ratio = float(np.max(mine / (other + usual[not ours])))
        if apart * (fdtrc(3, 3 * apart, ratio) if noise is None else chdtrc(3, 3 * ratio)) < TUNING.false_alarm:
            return "the IMU", ours
    return "", False
