"""How far a trajectory is from a reference, and where they contradict one another beyond both deviations.

Absolute and relative errors are those of Sturm et al., "A benchmark for the evaluation of RGB-D SLAM systems" (IROS
2012); the alignment is that of S. Umeyama, "Least-squares estimation of transformation parameters between two point
patterns" (PAMI 13, 1991), without the scale. The error of a motion, normalised by both covariances (NEES), has a
chi-square distribution (Bar-Shalom et al., Estimation with Applications to Tracking and Navigation, 2001, 5.4). Errors
of the two poses of a motion count as independent, which makes its covariance too large rather than too small.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.interpolate import CubicHermiteSpline
from scipy.spatial.transform import Slerp
from scipy.special import chdtrc, chdtri, fdtrc

from rover_pipeline.kinematics.mounts import UNKNOWN_SIGMA
from rover_pipeline.kinematics.rotation import from_matrix, log, nearest, obliqueness, skew
from rover_pipeline.kinematics.state import Poses
from rover_pipeline.numerics.linear import eigh, matmul, solve
from rover_pipeline.numerics.nearest import nearest_samples
from rover_pipeline.validation.tuning import TUNING

#: Minimum number of poses to align: three points determine a rigid motion. Physics: Umeyama.
MIN_ALIGNED = 3
#: Relative errors are over pairs of poses this far apart, s and m, as the names of the figures say. Layout.
RELATIVE_S, RELATIVE_M = 1.0, 10.0
#: Lengths of path over which two trajectories are compared, m: rows of a table. Layout.
WAYS_M = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)
#: Maximum difference from the time or length that the two poses of a pair should be apart, as a share of it. A valid
#: pose is wrong and sure if it moved further from the truth than this over so many seconds: m, share of the distance
#: between the two poses, and s. Physics: definitions of the figures, as "Comparing with a reference" in the manual has.
_PAIR_TOLERANCE, WRONG_M, WRONG_SHARE, WRONG_S = 0.2, 0.05, 0.03, 2.0
#: Square of the eccentricity. Physics: WGS 84.
_FLAT = 6.69437999014e-3
#: Time stamps are rounded, and so are lengths: s, m. Noise: half of a last digit of milliseconds, or millimetres.
ROUNDING = 0.5e-3


class Alignment(NamedTuple):
    """The rigid motion that takes one world to another: `rot`, f8 (3, 3), and `pos`, f8 (3,), m."""

    rot: np.ndarray
    pos: np.ndarray

    def of(self, pos: np.ndarray) -> np.ndarray:
        """Positions, f8 (N, 3), m, in the other world."""
        return np.asarray(matmul(pos, self.rot.T) + self.pos)


class Relative(NamedTuple):
    """Root mean square errors of the motion between two poses, over so many `pairs`."""

    pairs: int
    translation_m: float
    rotation_deg: float


class Errors(NamedTuple):
    """Errors of each pose after an alignment: `apart`, f8 (N,), m, and `turned`, f8 (N,), degrees."""

    alignment: Alignment
    apart: np.ndarray
    turned: np.ndarray


class Accuracy(NamedTuple):
    """Errors of a trajectory. Those for which there are too few poses are None."""

    samples: int  #: poses.
    valid: int  #: those with `valid` = 1.
    compared: int  #: valid ones at whose instant the reference is known.
    #: valid poses that are wrong and sure: the motion to them, from the valid pose before or from that of two seconds
    #: before, is off by more than 0.05 m and 3 % of its length.
    wrong: int
    way_m: float  #: length of the path of the reference over the poses compared.
    ate_m: float | None  #: root mean square distance of positions after the rigid motion that fits best.
    ate_max_m: float | None  #: the largest.
    rotation_deg: float | None  #: root mean square angle, in the world that fits the rotations best.
    second: Relative | None
    ten_metres: Relative | None
    nees: float | None


def align(pos: np.ndarray, wanted: np.ndarray) -> Alignment:
    """The rigid motion that takes positions nearest to those wanted, f8 (N, 3) each, m."""
    centre, goal = pos.mean(0), wanted.mean(0)
    rot = nearest(matmul((wanted - goal).T, pos - centre))
    return Alignment(rot, goal - matmul(rot, centre))


def covered(ts: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Whether instants `times`, f8 (N,), s, lie on one of the times `ts`, f8 (M,), s, increasing, or between two with
    at most `RELATIVE_S` between them."""
    if not len(ts):
        return np.zeros(len(times), bool)
    right = np.clip(np.searchsorted(ts, times), 0, len(ts) - 1)
    inside = (times > ts[0]) & (times < ts[-1]) & (ts[right] - ts[np.maximum(right - 1, 0)] <= RELATIVE_S)
    return np.asarray(inside | (ts[right] == times))


def positions_at(ts: np.ndarray, pos: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Positions at instants between others, f8 (N, 3), m: cubic polynomials with slopes from the neighbours. `ts`: f8
    (M,), s, increasing; `pos`: f8 (M, 3), m; `times`: f8 (N,), s, each of which `covered` by `ts`."""
    ts, first = np.unique(ts, return_index=True)  # a damaged recording can have a time twice
    pos = pos[first]
    if len(ts) < 2:
        return np.broadcast_to(pos, (len(times), 3))
    since = ts - ts[0]
    return np.asarray(CubicHermiteSpline(since, pos, np.gradient(pos, since, axis=0))(times - ts[0]))


def rotations_at(ts: np.ndarray, rot: np.ndarray, times: np.ndarray) -> np.ndarray:
    """The same of rotations, f8 (M, 3, 3) to (N, 3, 3), of constant angular velocity between neighbours."""
    if len(ts) < 2:
        return np.broadcast_to(rot, (len(times), 3, 3))
    return np.asarray(Slerp(ts - ts[0], from_matrix(rot))(times - ts[0]).as_matrix())


def east_north_up(llh: np.ndarray, origin: int) -> np.ndarray:
    """Positions from one of N places, f8 (N, 3), m, by WGS 84 latitudes and longitudes, degrees, and heights, m."""
    lat, lon = np.radians(llh[:, :2].T)
    up = np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=-1)
    pos = up * (6378137.0 / np.sqrt(1 - _FLAT * np.sin(lat) ** 2)[:, None] * [1, 1, 1 - _FLAT] + llh[:, 2:])
    east = np.array([-np.sin(lon[origin]), np.cos(lon[origin]), 0])
    return np.asarray(matmul(pos - pos[origin], np.stack([east, np.cross(up[origin], east), up[origin]], axis=1)))


def are_rotations(rot: np.ndarray) -> np.ndarray:
    """Which matrices, f (N, 3, 3), are rotations, rounded: products of rows of length one are off by both roundings."""
    return np.asarray(obliqueness(rot) < 2 * np.sqrt(3) * ROUNDING)


def heading(ts: np.ndarray, pos: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The rotation that turns motions into those wanted, f8 (3, 3), by the half of them whose lengths agree best, so
    that a jump of one of them turns nothing. Motions are those over a quarter of the time `ts`, f8 (N,), s, increasing,
    of positions `pos` and `wanted`, f8 (N, 3), m; where no two are that far apart, nothing is turned."""
    first, last = pairs_apart(ts, (ts[-1] - ts[0]) / 4)
    if not len(first):
        return np.eye(3)
    moved, truly = pos[last] - pos[first], wanted[last] - wanted[first]
    apart = np.abs(np.linalg.norm(moved, axis=1) - np.linalg.norm(truly, axis=1))
    good = apart <= np.median(apart)
    return nearest(matmul(truly[good].T, moved[good]))


def way(ts: np.ndarray, pos: np.ndarray) -> np.ndarray:
    """Length of the path from the first of some positions `pos`, f8 (N, 3), m, at increasing times `ts`, f8 (N,), s, to
    each, f8 (N,), m. It is summed over vertices with 0.3 s between them: steps between all poses would count noise."""
    if not len(ts):
        return np.zeros(0)
    _, first = np.unique(np.floor((ts - ts[0]) / TUNING.vertex_s).astype(int), return_index=True)
    vertices = np.unique(np.append(first, len(ts) - 1))
    lengths = np.append(0.0, np.cumsum(np.linalg.norm(np.diff(pos[vertices], axis=0), axis=1)))
    return np.interp(ts, ts[vertices], lengths)


def errors(poses: Poses, wanted: Poses) -> Errors:
    """How far poses are from those wanted at the same instants, both f8, after the alignment that fits best."""
    alignment = align(poses.pos, wanted.pos)
    world = nearest(matmul(wanted.rot, np.swapaxes(poses.rot, 1, 2)).sum(axis=0))
    turned = matmul(np.swapaxes(wanted.rot, 1, 2), world, poses.rot)
    apart = np.linalg.norm(alignment.of(poses.pos) - wanted.pos, axis=1)
    return Errors(alignment, apart, np.degrees(np.linalg.norm(log(turned), axis=1)))


def relative_by_way(ts: np.ndarray, poses: Poses, wanted: Poses) -> dict[float, Relative]:
    """Errors of the motion over several lengths of path, m, as far as the path has them. Poses and those wanted, both
    f8, are at instants `ts`, f8 (N,), s, increasing."""
    lengths = way(ts, wanted.pos)
    found = {metres: _relative(poses, wanted, pairs_apart(lengths, metres)) for metres in WAYS_M}
    return {metres: each for metres, each in found.items() if each}


def compare(
    ts: np.ndarray,  # f8 (N,), s, increasing.
    poses: Poses,  # f8, in a world of their own.
    valid: np.ndarray,  # bool (N,).
    wanted: Poses,  # of the reference at the same instants, in its own world.
    known: np.ndarray,  # bool (N,), where it is.
    # f8 (N, 6, 6), of a displacement and a rotation vector in the frame of the sensor, relative to the first valid
    # pose, m2 and rad2; None = not known. It is tested where the reference knows that pose too.
    cov: np.ndarray | None = None,
    places: bool = False,  # whether the reference knows no rotations.
) -> Accuracy:
    """Errors of poses at N instants."""
    chosen = np.flatnonzero(valid & known)
    from_first = len(chosen) > 0 and chosen[0] == np.argmax(valid)
    ts, poses, wanted = ts[chosen], poses.select(chosen), wanted.select(chosen)
    lengths, wrong = way(ts, wanted.pos), int(_wrong(ts, poses, wanted).sum())
    ate = largest = angle = None
    if len(chosen) >= MIN_ALIGNED:
        _, apart, angles = errors(poses, wanted)
        ate, largest, angle = _rms(apart), float(apart.max()), _rms(angles)
    second, ten = (_relative(poses, wanted, pairs_apart(*each)) for each in ((ts, RELATIVE_S), (lengths, RELATIVE_M)))
    nees = _nees(poses, wanted, cov[chosen], 3 if places else 6) if cov is not None and from_first else None
    counts, metres = (len(valid), int(valid.sum()), len(chosen), wrong), float(lengths.max(initial=0.0))
    return Accuracy(*counts, metres, ate, largest, angle, second, ten, nees)


_Pairs = tuple[np.ndarray, np.ndarray]


def _motion(poses: Poses, pairs: _Pairs) -> tuple[np.ndarray, np.ndarray]:
    """Displacement, in the frame of the first pose, f8 (pair, 3), and rotation, f8 (pair, 3, 3), between two poses."""
    first, second = pairs
    into = np.swapaxes(poses.rot[first], 1, 2)
    return np.einsum("nij,nj->ni", into, poses.pos[second] - poses.pos[first]), matmul(into, poses.rot[second])


def pairs_apart(along: np.ndarray, distance: float) -> _Pairs:
    """Each pose and the later one that is nearest to a distance from it, by times or lengths that do not decrease."""
    if len(along) < 2:
        return np.zeros(0, int), np.zeros(0, int)
    first = np.arange(len(along))
    second = nearest_samples(along, along + distance)
    good = (second > first) & (np.abs(along[second] - along - distance) <= _PAIR_TOLERANCE * distance)
    good &= along + distance <= along[-1] + ROUNDING  # or pairs at the end would all be too near
    return first[good], second[good]


def motion_errors(poses: Poses, wanted: Poses, pairs: _Pairs) -> np.ndarray:
    """Errors of the motion between poses, f8 (pair, 6): displacement and rotation, in the frame of the second."""
    (moved, turned), (truly, truly_turned) = _motion(poses, pairs), _motion(wanted, pairs)
    back = np.swapaxes(turned, 1, 2)
    return np.concatenate([np.einsum("nij,nj->ni", back, truly - moved), log(matmul(back, truly_turned))], axis=1)


def _relative(poses: Poses, wanted: Poses, pairs: _Pairs) -> Relative | None:
    if not len(pairs[0]):
        return None
    apart, angles = np.linalg.norm(motion_errors(poses, wanted, pairs).reshape(-1, 2, 3), axis=2).T
    return Relative(len(apart), _rms(apart), float(np.degrees(_rms(angles))))


def _wrong(ts: np.ndarray, poses: Poses, wanted: Poses) -> np.ndarray:
    """Which poses are wrong and sure, bool (N,)."""
    here = np.arange(len(ts))
    bad = np.zeros(len(ts), bool)
    for first in (np.maximum(here - 1, 0), np.searchsorted(ts, ts - WRONG_S - ROUNDING)):
        moved, truly = _motion(poses, (first, here))[0], _motion(wanted, (first, here))[0]
        allowed = WRONG_M + WRONG_SHARE * np.linalg.norm(truly, axis=1)
        bad |= np.linalg.norm(moved - truly, axis=1) > allowed
    return bad


def _nees(poses: Poses, wanted: Poses, cov: np.ndarray, freedoms: int) -> float | None:
    """Mean normalised error squared relative to the first pose, for each degree of freedom."""
    if len(poses.pos) < 2:
        return None
    error = motion_errors(poses, wanted, (np.zeros(len(poses.pos) - 1, int), np.arange(1, len(poses.pos))))
    usable = np.isfinite(cov[1:]).all((1, 2))
    if not usable.all():
        return float("inf")
    values, vectors = eigh(cov[1:].astype("f8"))
    known = values > 1e-15 * np.abs(values).max(axis=1, keepdims=True)
    squares = np.divide(np.einsum("nij,ni->nj", vectors, error) ** 2, values, out=np.zeros_like(values), where=known)
    return float(squares.sum(axis=1).mean() / freedoms)


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


#: Time over which a witness compares motions, s: two of them are one of a relative error. Layout.
_HALF_S = RELATIVE_S / 2

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
    ts: np.ndarray,  # f8 (N,), s, increasing.
    poses: Poses,  # f8.
    cov: np.ndarray,  # f8 (N, 6, 6), as that of `_odom`.
    wanted: Poses,  # f8, of the reference.
    # the same of it, NaN of rotations without one; None = it states none, and is taken to be off by 5 cm and 3 %.
    stated: np.ndarray | None,
    # times, f8 (M,), s, and specific force in the frame of the poses, f8 (M, 3), m/s2; None = there is none.
    imu: Imu | None = None,
    *,
    exact: bool = False,  # whether it is a truth.
    placed: bool = True,  # whether its place on the rig is known.
) -> Iterator[Contradiction]:
    """Contradictions of motions over a second; where there are none, that of the poses relative to the first one."""
    first, last = pairs_apart(ts, RELATIVE_S)
    count, since = len(first), np.arange(len(ts))
    first, last = pairs = np.append(first, 0 * since), np.append(last, since)
    lengths = [np.linalg.norm(each.pos[last] - each.pos[first], axis=1) for each in (poses, wanted)]
    spread = _spread(poses, cov, pairs)
    more = ROUNDING**2 + (not placed) * UNKNOWN_SIGMA[3] ** 2 * np.sum(
        (poses.rot[last] - poses.rot[first]) ** 2, axis=(1, 2)
    )
    if stated is None:
        more += (WRONG_M + WRONG_SHARE * lengths[1]) ** 2
    else:
        spread += _spread(wanted, np.nan_to_num(stated), pairs)
    spread += more[:, None, None] * np.eye(6)
    size = 6 if stated is not None and np.isfinite(stated).all() else 3
    error = motion_errors(poses, wanted, pairs)[:, :size]
    squares = np.sum(error * solve(spread[:, :size, :size], error[:, :, None])[:, :, 0], axis=1)
    excess = np.sqrt(np.maximum(squares, 0) / chdtri(size, TUNING.false_alarm / len(squares)))
    bad = np.flatnonzero((excess > 1) & (np.linalg.norm(error[:, :3], axis=1) > WRONG_M))
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
    first, last = pairs_apart(ts, _HALF_S)
    _, after, before = np.intersect1d(first, last, return_indices=True)
    times, force = imu or (ts, np.zeros((len(ts), 3)))
    inside = (times >= ts[0]) & (times <= ts[-1])
    times, force = times[inside], force[inside]
    known = covered(times, ts[first[before]]) & covered(times, ts[last[after]])
    after, before = after[known], before[known]
    found = [ts[first[before]], ts[last[after]]]
    for each in both if len(before) else ():
        felt = np.einsum("nij,nj->ni", rotations_at(ts, each.rot, times), force)
        period = np.gradient(times)[:, None]
        felt_way = np.cumsum(np.cumsum(felt * period, axis=0) * period, axis=0)
        free = each.pos - positions_at(times, felt_way, ts)
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
    usual = [ROUNDING**2 + (float(np.median(each)) if noise is None else 3 * noise) for each in changes[2:]]
    if not felt:
        limit = (TUNING.impossible * _HALF_S**2) ** 2 + usual[1] / 3 * chdtri(3, TUNING.false_alarm)
        return ("its acceleration", False) if left[1].max() > limit else ("", False)
    apart = 1 + int((changes[1][-1] - changes[0][0]) / (2 * _HALF_S))  # number of changes that do not overlap
    for ours, (mine, other) in ((True, left), (False, left[::-1])):
        ratio = float(np.max(mine / (other + usual[not ours])))
        if apart * (fdtrc(3, 3 * apart, ratio) if noise is None else chdtrc(3, 3 * ratio)) < TUNING.false_alarm:
            return "the IMU", ours
    return "", False
