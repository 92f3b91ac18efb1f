"""The factor graph of radar-inertial odometry: states at the instants of frames, solved for at once.

Unknown at each frame: rotation, velocity, position and both biases of the IMU. Factors: the IMU between frames
(`preintegration`), the velocities of radars at their frames, slowly changing biases, and gravity, which is known. The
normal equations are block tridiagonal, so that a solution and all covariances take a time in proportion to the frames.
A velocity that contradicts the others counts less (Cauchy's loss).

**Common errors** are the same in all frames of a radar: its time offset, its scale, which the accelerometer shows, of
each of several radars how it is turned, and, where its mount is wanted, its lever arm. They are unknowns too, which
border the matrix; what velocities do not say of them stays at its prior.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.constants import g as GRAVITY  # noqa: N812
from scipy.special import chdtrc, chdtri

from rover_pipeline.kinematics.preintegration import ACC_BIAS, AT_ONCE, Preintegrated, sampled
from rover_pipeline.kinematics.rotation import exp, log, skew
from rover_pipeline.numerics.blocks import Memory, blocks, release
from rover_pipeline.numerics.linear import eigh, inv, matmul
from rover_pipeline.radar.ego_motion import OUTLIER
from rover_pipeline.radar.tuning import TUNING

#: Random walk of the bias of an accelerometer, standard deviation after a second, m/s2.
#: Noise: the ADIS16448 of EuRoC (`imu0/sensor.yaml`).
_ACC_WALK = 3e-3
#: Maximum number of iterations, and the change, in the units of the unknowns, after which there are no more: what is
#: known so well is taken for known. Schedule.
ITERATIONS, _SMALL_STEP = 12, 1e-5


class RadarVelocities(NamedTuple):
    """Velocities of a radar over ground in its own frame, of M frames."""

    at: np.ndarray  #: i8 (M,), the state of each frame, of each another one.
    vel: np.ndarray  #: f8 (M, 3), m/s.
    information: np.ndarray  #: f8 (M, 3, 3), s2/m2, zero where there is none.
    rotation: np.ndarray  #: f8 (3, 3), body-from-radar.
    arm: np.ndarray  #: f8 (3,), from the IMU to the radar in the body frame, m.
    #: f8 (3, M, 3), angular velocity by the gyroscope in the body frame, rad/s, at the frames, and `time_sigma` before
    #: and after them.
    avel: np.ndarray
    #: f8 (3, M, 3, 3), rotation from the frames to these instants, by the IMU, in the body frame at the frames; and
    #: f8 (3, M, 3), the change of velocity without gravity, m/s.
    turn: np.ndarray
    gain: np.ndarray
    components: float  #: number of components of velocities that it measured in all frames.
    #: f8 (8,), prior standard deviations of the errors that are the same in all frames, in the order of
    #: `Common.errors`; 0 = it is no unknown. Scale and time always are.
    sigma: np.ndarray
    added: np.ndarray  #: f8 (8,), what has been added of them already.

    @property
    def unknown(self) -> np.ndarray:
        """Which common errors are unknowns, bool (8,)."""
        return np.asarray(self.sigma > 0)

    @property
    def time_sigma(self) -> float:
        """Prior standard deviation of what is to be added to its instants, s."""
        return float(self.sigma[7])

    @property
    def known(self) -> np.ndarray:
        """Which frames have a velocity, bool (M,)."""
        return np.asarray(np.trace(self.information, axis1=1, axis2=2) > 0)


class Common(NamedTuple):
    """Errors of K radars that are the same in all of their frames."""

    #: f8 (K, 8), of the scale, rotation vectors, from the true to the stated frame of the radar, rad, what is to be
    #: added to its lever arm in the body frame, m, and to its instants, s. Those that are no unknowns are 0.
    errors: np.ndarray
    sigma: np.ndarray  #: f8 (K, 8), standard deviations of their estimates if the errors are of the size assumed.
    is_wrong: np.ndarray  #: bool (K,), which radars have larger errors than radars that are mounted as `rig` says.
    birge: float  #: the errors over what was assumed, squared, of the kind that has most of them (Birge's ratio).
    settled: bool  #: whether the last step of the solution was smaller than what it leaves open.
    information: np.ndarray  #: f8 (B, B), of velocities on the errors that are unknowns.
    prior: np.ndarray  #: f8 (B,), what was known of them before.


class Smoothed(NamedTuple):
    """The motion at N frames."""

    rot: np.ndarray  #: f8 (N, 3, 3), world-from-body.
    vel: np.ndarray  #: f8 (N, 3), of the IMU in the world, m/s.
    pos: np.ndarray  #: f8 (N, 3), of the IMU in the world, m.
    gyro_bias: np.ndarray  #: f8 (N, 3), rad/s.
    acc_bias: np.ndarray  #: f8 (N, 3), m/s2.
    cov: np.ndarray  #: f8 (N, 15, 15), of rotation (in the body frame, rad), velocity, position, and both biases.
    weight: np.ndarray  #: f8 (N,), of the velocity of the first radar, 0 to 1; 0 where there is none.

    def move(self, step: np.ndarray) -> None:
        """Change the states by a step of the unknowns, f8 (N, 15), in the order of `cov`."""
        for part in blocks(len(step), AT_ONCE):
            self.rot[part] = matmul(self.rot[part], exp(step[part, :3]))
            for number, values in enumerate(self[1:5], 1):
                values[part] += step[part, 3 * number : 3 * number + 3]


def without_prior(
    cov: np.ndarray, vel: np.ndarray, vertical: np.ndarray, least_error: float
) -> tuple[np.ndarray, np.ndarray]:
    """The velocities and their information, f8 (N, 3), (N, 3, 3), without the prior of no vertical velocity.

    Each frame's estimate holds that prior. To take it in every frame for a measurement would hold the rig level.

    Args:
        cov: f8 (N, 3, 3), m2/s2, NaN where there is no estimate.
        vertical: f8 (N,), standard deviation of the prior, m/s.
        least_error: minimum standard deviation of a velocity, m/s. It is known no better than the Doppler of a point
            can be: what limits that is the same in all points and frames.
    """
    known = np.isfinite(cov).all(axis=(1, 2)) & np.isfinite(vel).all(axis=1)
    measured, information = np.zeros((len(vel), 3)), np.zeros((len(vel), 3, 3))
    whole = inv(cov[known])
    own = (whole + np.swapaxes(whole, 1, 2)) / 2
    own[:, 2, 2] -= 1 / vertical[known] ** 2
    values, vectors = eigh(own)
    # What is known worse than to a kilometre per second is not known.
    values = np.maximum(values, 1e-6)
    measured[known] = np.einsum("nij,nj,nkj,nkl,nl->ni", vectors, 1 / values, vectors, whole, vel[known])
    information[known] = np.einsum("nij,nj,nkj->nik", vectors, 1 / (1 / values + least_error**2), vectors)
    return measured, information


def smooth(
    rot: np.ndarray, imu: Preintegrated, radars: Sequence[RadarVelocities], vertical: float, memory: Memory
) -> tuple[Smoothed, list[np.ndarray], Common]:
    """The motion that fits all measurements best.

    Args:
        rot: f8 (3, 3), first guess of the first rotation, world-from-body.
        imu: of the N - 1 intervals between the states.
        vertical: standard deviation of the vertical velocity of the first state, m/s.
        memory: for the equations and the covariances.

    Returns:
        The states; weights of the velocities of each radar, f8 (M,), 0 to 1; common errors.
    """
    release()
    state, common = _first_guess(rot, imu, radars, memory), np.zeros((len(radars), int(radars[0].unknown.sum())))
    count, size = len(state.rot), common.size
    bordered = (count, 15, size), (size, size), (count, 15), (size,), (count, 15, 1 + size)
    shapes = (count, 15, 15), (count - 1, 15, 15), *bordered
    arrays = (memory.zeros(*shape) for shape in shapes)
    # Of a mount that is wanted all of it; otherwise how a radar is turned is no more than what others explain.
    widened = np.tile((np.arange(8) == 7) | radars[0].unknown[4], len(radars))[np.tile(radars[0].unknown, len(radars))]
    scales = np.tile(np.arange(common.shape[1]) == 0, len(radars))
    found = _Equations._make([*arrays, widened, scales, *np.zeros((2, len(radars))), *np.zeros((2, size))])
    for number in range(ITERATIONS):
        # Several radars that contradict one another would all be doubted at the first guess.
        robust = number > 1 or not radars[0].unknown[1]
        weights = _fill(found, state, imu, radars, common, rot, vertical, robust=robust)
        step, change = _solved(found)[:2]
        # Errors of half a radian are no errors of this kind: without a bound, what fits nothing would run away.
        common = np.clip(common + change.reshape(common.shape), -0.5, 0.5)
        # A parabola is no better than where it was taken.
        common[:, -1] = np.clip(common[:, -1], -radars[0].time_sigma, radars[0].time_sigma)
        state.move(step)
        if robust and np.abs(step).max() < _SMALL_STEP:
            break
    weights = _fill(found, state, imu, radars, common, rot, vertical)
    _, _, cov, spread, own = _solved(found)
    # Diagonal blocks of the inverse, in the memory of the inverses of its pivots.
    for part in blocks(len(cov) - 1, AT_ONCE, -1):
        for n in range(part.stop - 1, part.start - 1, -1):
            gain = matmul(cov[n], found.above[n])
            cov[n] += matmul(gain, cov[n + 1], gain.T)
    (errors, sigma, precision), unknown = np.zeros((3, len(radars), 8)), radars[0].unknown
    errors[:, unknown], sigma[:, unknown] = common, np.sqrt(np.diag(own)).reshape(common.shape)
    precision[:, unknown] = _precision(radars, common)[0]
    # What errors of one kind are over what they may be (Birge's ratio): where radars contradict each other, which of
    # them is wrong is as uncertain. A rig that stands still shows none.
    squares, freedoms = (errors**2 * precision).sum(axis=0)[:4], (1 - sigma**2 * precision).sum(axis=0)[:4]
    birge = squares / np.maximum(freedoms, 1.0)
    wider = np.tile(np.sqrt(np.maximum(np.append(birge, np.ones(4)), 1.0))[unknown], len(radars))
    information, own, settled = inv(own) - np.diag(found.known), own * np.outer(wider, wider), True
    for part in blocks(len(cov), AT_ONCE):
        cov[part] += matmul(spread[part], own, np.swapaxes(spread[part], 1, 2))
        settled &= bool((np.square(step[part]) <= cov[part, range(15), range(15)]).all())
    # The larger one of several is an outlier as rarely as one alone.
    limit = np.sqrt(chdtri(1, chdtrc(1, OUTLIER**2) / 4))
    is_wrong = (np.abs(errors[:, :4]) > limit * np.array([[each.sigma[0] or np.inf] for each in radars])).any(axis=1)
    result = Common(errors, sigma, is_wrong, float(birge.max()), settled, information, found.known)
    return state._replace(cov=cov), weights, result


def _first_guess(rot: np.ndarray, imu: Preintegrated, radars: Sequence[RadarVelocities], memory: Memory) -> Smoothed:
    count = len(imu.seconds) + 1
    rots, *biases = (memory.zeros(count, *shape) for shape in ((3, 3), (3,), (3,)))
    rots[0] = rot
    for n in range(count - 1):
        rots[n + 1] = matmul(rots[n], imu.rot[n])
    vel = np.zeros((count, 3))
    at = np.concatenate([each.at[each.known] for each in radars])
    if len(at):
        # Of the first radar, from which the others are some metres away.
        moved = (each.vel - matmul(np.cross(each.avel[0], each.arm - radars[0].arm), each.rotation) for each in radars)
        guesses = zip(moved, radars, strict=True)
        own = np.concatenate(
            [np.einsum("nij,jk,nk->ni", rots[each.at], each.rotation, guess)[each.known] for guess, each in guesses]
        )
        # The direction that a radar does not see is not in its first guess.
        own[:, 2] = 0
        order = np.argsort(at, kind="stable")
        vel = sampled(np.arange(count), at[order], own[order])
    pos = np.concatenate([np.zeros((1, 3)), np.cumsum(vel[:-1] * imu.seconds[:, None], axis=0)])
    return Smoothed._make([rots, memory.hold(vel), memory.hold(pos), *biases, np.zeros((0, 15, 15)), np.zeros(count)])


class _Equations(NamedTuple):
    """The normal equations: blocks of the matrix on and above the diagonal, its border and corner, and right sides."""

    diagonal: np.ndarray  #: f8 (N, 15, 15).
    above: np.ndarray  #: f8 (N - 1, 15, 15).
    border: np.ndarray  #: f8 (N, 15, B).
    corner: np.ndarray  #: f8 (B, B), of common errors.
    right: np.ndarray  #: f8 (N, 15).
    below: np.ndarray  #: f8 (B,).
    sides: np.ndarray  #: f8 (N, 15, 1 + B), `right` and `border`, in whose place they are solved.
    widened: np.ndarray  #: bool (B,), common errors that are known less well where velocities err more than stated.
    scales: np.ndarray  #: bool (B,), which common errors are those of a scale.
    bend: np.ndarray  #: f8 (K,), of each radar, how much more information on its time there is than its slopes say.
    excess: np.ndarray  #: f8 (K,), what the errors of each cost over what errors of the stated size do.
    known: np.ndarray  #: f8 (B,), information on common errors beforehand.
    pull: np.ndarray  #: f8 (B,), its right side.


def _fill(
    found: _Equations,
    state: Smoothed,
    imu: Preintegrated,
    radars: Sequence[RadarVelocities],
    common: np.ndarray,
    first: np.ndarray,
    vertical: float,
    *,
    robust: bool = True,
) -> list[np.ndarray]:
    """Write the equations. Returns the weights of the velocities of each radar, f8 (M,)."""
    diagonal, above, border, corner, right, below, _, _, _, bend, _, known, pull = found
    diagonal[0] = right[0] = border[0] = corner[:] = below[:] = bend[:] = 0
    for part in blocks(len(above), AT_ONCE):
        later, around = slice(part.start + 1, part.stop + 1), slice(part.start, part.stop + 1)
        own_state = Smoothed(*(each[around] for each in state))
        residual, before, after, information = _between(own_state, Preintegrated(*(each[part] for each in imu)))
        diagonal[later] = right[later] = border[later] = 0
        by_before, by_after = (matmul(np.swapaxes(each, 1, 2), information) for each in (before, after))
        above[part] = matmul(by_before, after)
        for at, jacobian, weighted in ((part, before, by_before), (later, after, by_after)):
            diagonal[at] += matmul(weighted, jacobian)
            right[at] -= np.einsum("nij,nj->ni", weighted, residual)
    weights = [_add_velocities(found, state, radar, n, common[n], robust=robust) for n, radar in enumerate(radars)]
    precision, off = _precision(radars, common * robust)
    known[:] = precision.ravel()
    pull[:] = -(precision * off).ravel()
    # What is known of the first state: a tilt below half a turn, a speed below 1 km/s, and position and heading, which
    # are the world's origin.
    known_first = np.diag(np.repeat([np.pi, 1e3, _SMALL_STEP, TUNING.gyro_bias, ACC_BIAS], 3) ** -2.0)
    known_first[5, 5] = vertical**-2.0
    up = state.rot[0, 2]
    known_first[:3, :3] += np.outer(up, up) / _SMALL_STEP**2
    turned = log(matmul(first.T, state.rot[0])[None])[0]
    diagonal[0] += known_first
    right[0] -= matmul(known_first, np.concatenate([turned, *(each[0] for each in state[1:5])]))
    return weights


def _precision(radars: Sequence[RadarVelocities], common: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Inverse variances of the common errors beforehand, f8 (K, C), and how far they are from what is expected.

    A radar whose errors are large is believed less.
    """
    precision, off = np.zeros((2, *common.shape))
    for n, radar in enumerate(radars):
        off[n] = common[n] + radar.added[radar.unknown]
        precision[n] = radar.sigma[radar.unknown] ** -2.0
        of_kind = (np.flatnonzero(radar.unknown) == 7).astype(int)
        squares = np.bincount(of_kind, precision[n] * off[n] ** 2, 2)[of_kind]
        precision[n] /= 1 + squares / OUTLIER**2
    return precision, off


def _add_velocities(
    found: _Equations, state: Smoothed, radar: RadarVelocities, number: int, common: np.ndarray, *, robust: bool
) -> np.ndarray:
    """Add what a radar measured, in its own frame. Returns the weights of its velocities."""
    weights, columns = radar.known.astype("f8"), slice(len(common) * number, len(common) * (number + 1))
    turned, moved = radar.unknown[[1, 4]]
    if moved:
        radar = radar._replace(arm=radar.arm + common[4:7])
    for part in blocks(len(weights), AT_ONCE):
        at, information, changed = radar.at[part], radar.information[part], radar.rotation.T
        into = np.swapaxes(state.rot[at], 1, 2)
        own = np.einsum("nij,nj->ni", into, state.vel[at])
        predicted, before, after = (_at_radar(state, radar, part, own, n) for n in range(3))
        # The velocity of the radar in its own frame along a parabola, through where it may be instead.
        bend = (before + after - 2 * predicted) / radar.time_sigma**2
        slope = (after - before) / (2 * radar.time_sigma) + common[-1] * bend
        error = predicted - radar.vel[part] + common[-1] * (slope - 0.5 * common[-1] * bend)
        change = common[0] * np.eye(3) + (skew(common[None, 1:4])[0] if turned else 0.0)
        error, changed = error + matmul(predicted, change.T), changed + matmul(change, changed)
        if robust:
            weights[part] /= 1 + np.einsum("ni,nij,nj->n", error, information, error) / OUTLIER**2
        jacobian, information = np.zeros((len(at), 3, 15)), information * weights[part, None, None]
        jacobian[..., :3], jacobian[..., 3:6] = matmul(changed, skew(own)), matmul(changed, into)
        jacobian[..., 9:12] = matmul(changed, skew(radar.arm))
        weighted = matmul(np.swapaxes(jacobian, 1, 2), information)
        found.diagonal[at] += matmul(weighted, jacobian)
        found.right[at] -= np.einsum("nij,nj->ni", weighted, error)
        of_mount = [predicted[..., None], *([-skew(predicted)] if turned else [])]
        if moved:
            of_mount.append(matmul(changed, skew(radar.avel[0, part] - state.gyro_bias[at])))
        slopes = np.concatenate([*of_mount, slope[..., None]], axis=2)
        found.border[at, :, columns] += matmul(weighted, slopes)
        weighted = matmul(np.swapaxes(slopes, 1, 2), information)
        found.corner[columns, columns] += matmul(weighted, slopes).sum(axis=0)
        found.below[columns] -= np.einsum("nij,nj->i", weighted, error)
        # How the slope changes; and a velocity that is doubted says less than its weight.
        found.bend[number] += np.einsum("ni,nij,nj->", error, information, bend)
        found.bend[number] -= 2 * (np.einsum("ni,nij,nj->n", error, information, slope) ** 2).sum() / OUTLIER**2
    found.excess[number] = max(1.0, -(OUTLIER**2) * np.log(weights[radar.known]).sum() / max(radar.components, 1.0))
    return weights


def _at_radar(state: Smoothed, radar: RadarVelocities, part: slice, own: np.ndarray, number: int) -> np.ndarray:
    """Velocities in the frame of the radar, at the frames or `time_sigma` before or after (number 0, 1, 2), f8 (N, 3).

    Args:
        own: f8 (N, 3), of the IMU in the body frame, at the frames.
    """
    at, seconds = radar.at[part], (0.0, -radar.time_sigma, radar.time_sigma)[number]
    gain = radar.gain[number, part] - seconds * (state.acc_bias[at] + GRAVITY * state.rot[at, 2])
    moved = np.einsum("nji,nj->ni", radar.turn[number, part], own + gain)
    swing = np.cross(radar.avel[number, part] - state.gyro_bias[at], radar.arm)
    return np.asarray(matmul(moved + swing, radar.rotation))


def _between(state: Smoothed, imu: Preintegrated) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Errors of the intervals, f8 (N - 1, 15), derivatives by the frames before and after, and information."""
    rot, vel, pos, gyro, acc = state[:5]
    count, seconds, gravity = len(imu.seconds), imu.seconds[:, None], np.array([0.0, 0.0, -GRAVITY])
    into = np.swapaxes(rot[:-1], 1, 2)
    turn, gain, move = imu.corrected(gyro[:-1], acc[:-1])
    turned = log(matmul(np.swapaxes(turn, 1, 2), into, rot[1:]))
    gained = np.einsum("nij,nj->ni", into, vel[1:] - vel[:-1] - gravity * seconds)
    moved = np.einsum("nij,nj->ni", into, pos[1:] - pos[:-1] - vel[:-1] * seconds - 0.5 * gravity * seconds**2)
    residual = np.hstack([turned, gained - gain, moved - move, np.diff(gyro, axis=0), np.diff(acc, axis=0)])
    # The inverse right Jacobian of a small rotation vector is the identity plus half of its cross product.
    small = np.eye(3) + 0.5 * skew(turned)
    before, after = np.zeros((2, count, 15, 15))
    before[:, :3, :3], after[:, :3, :3] = matmul(-small, np.swapaxes(rot[1:], 1, 2), rot[:-1]), small
    before[:, :3, 9:] = matmul(-small, np.swapaxes(exp(turned), 1, 2), imu.jacobian[:, :3])
    before[:, 3:6, :3], before[:, 6:9, :3] = skew(gained), skew(moved)
    for rows in (slice(3, 6), slice(6, 9)):
        before[:, rows, rows], after[:, rows, rows] = -into, into
    before[:, 6:9, 3:6] = -into * seconds[..., None]
    before[:, 3:9, 9:] = -imu.jacobian[:, 3:]
    before[:, 9:, 9:], after[:, 9:, 9:] = -np.eye(6), np.eye(6)
    cov = np.zeros((count, 15, 15))
    cov[:, :9, :9] = imu.cov
    cov[:, range(9, 15), range(9, 15)] = np.repeat(np.square((TUNING.gyro_walk, _ACC_WALK)) * seconds, 3, axis=1)
    return residual, before, after, inv(cov)


def _solved(found: _Equations) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The solution of the equations.

    Returns:
        The states, f8 (N, 15), and the common errors, f8 (B,); inverses of the pivots, in place of the diagonal; how
        the states follow the common errors, f8 (N, 15, B), and the covariance of these, f8 (B, B).
    """
    inverses, above = found.diagonal, found.above
    inverses[0] = inv(inverses[0])
    for part in blocks(len(above), AT_ONCE):
        for n in range(part.start, part.stop):
            gain = matmul(above[n].T, inverses[n])
            inverses[n + 1] = inv(inverses[n + 1] - matmul(gain, above[n]))
    for part in blocks(len(found.sides), AT_ONCE):
        found.sides[part, :, 0], found.sides[part, :, 1:] = found.right[part], found.border[part]
    solved = _substituted(inverses, above, found.sides)
    size = len(found.known)
    # Rows are added one after another, so that the sums are the same whatever the blocks.
    sums = np.zeros((size, 1 + size))
    for part in blocks(len(solved), AT_ONCE):
        rows, theirs = found.border[part].reshape(-1, size, 1), solved[part].reshape(-1, 1, 1 + size)
        sums = np.concatenate([sums[None], rows * theirs]).sum(axis=0)
    # Errors may be larger than they are stated to be (Birge's ratio).
    own, excess = found.corner - sums[:, 1:], np.ones(size)
    of_time = np.arange(1, len(found.bend) + 1) * (len(excess) // len(found.bend)) - 1
    excess[found.widened] = np.repeat(found.excess, len(excess) // len(found.excess))[found.widened]
    own /= np.sqrt(np.outer(excess, excess))
    gradient = (found.below - sums[:, 0]) / excess
    # Where velocities bend the way that their errors go, the time is known less well than their slopes say.
    curves = 1 + found.bend / np.maximum((own * excess)[of_time, of_time], _SMALL_STEP)
    # A scale that contradicts the IMU may be that of the IMU, which is as uncertain.
    shared = own[:, found.scales].sum(axis=1)
    whole = shared[found.scales].sum() + TUNING.scale_error**-2
    gradient -= shared * gradient[found.scales].sum() / whole
    own = own - np.outer(shared, shared) / whole
    common = matmul(inv(own + np.diag(found.known)), gradient + found.pull)
    scale = np.ones(len(excess))
    scale[of_time] = np.sqrt(np.clip(curves, 0, 1))
    cov = inv(own * np.outer(scale, scale) + np.diag(found.known))
    step = np.empty(found.right.shape)
    for part in blocks(len(solved), AT_ONCE):
        step[part] = solved[part, :, 0] - np.einsum("nij,j->ni", solved[part, :, 1:], common)
    return step, common, inverses, solved[..., 1:], cov


def _substituted(inverses: np.ndarray, above: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The solution of a block tridiagonal system, of the inverses of its pivots, in place of one or several sides."""
    for part in blocks(len(above), AT_ONCE):
        for n in range(part.start, part.stop):
            right[n + 1] -= matmul(matmul(above[n].T, inverses[n]), right[n])
    right[-1] = matmul(inverses[-1], right[-1])
    for part in blocks(len(above), AT_ONCE, -1):
        for n in range(part.stop - 1, part.start - 1, -1):
            right[n] = matmul(inverses[n], right[n] - matmul(above[n], right[n + 1]))
    return right
