"""What an accelerometer that was carried along a trajectory says of it: where up is, and where it is contradicted.

An accelerometer measures R'(a + u) + b, with its rotation R, its acceleration a in the world, up u, which has the size
of gravity, and its bias b. Integrated twice over two neighbouring intervals of duration T, it has a second difference
that needs no velocity. Divided by T^2 this is a mean acceleration:

    (p0 - 2 p1 + p2) / T^2 = mean of (R f) - u - (mean of R) b,

where the accelerometer's position p is that of the lidar plus R times the lever arm. Up, bias and arm are unknown. What
no turn of the rig separates is left to what is known of bias and arm before, and the covariance says so.

A trajectory that slips along a corridor, follows bodies that set off, or jumps from one map to another has other
accelerations over some tenths of a second than are measured, however well its sweeps fit. Until it slips back, its
velocity is wrong, which no acceleration shows. Accelerations are second differences, because a single sweep that is off
by 4 mm makes the velocity of the spline wrong by 0.1 m/s.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import ndimage
from scipy.constants import g as GRAVITY  # noqa: N812

from rover_pipeline.kinematics.mount import Mount
from rover_pipeline.kinematics.preintegration import ACC_BIAS, MAX_SILENCE, preintegrate
from rover_pipeline.kinematics.trajectory import Trajectory
from rover_pipeline.numerics.blocks import blocks
from rover_pipeline.numerics.linear import eigh, eigvalsh, inv, matmul, solve
from rover_pipeline.numerics.robust import huber

#: Standard deviations known before: of gravity, m/s2, as it varies on the Earth with the scale of an accelerometer; and
#: of a lever arm, m. Tuned: by hand.
_GRAVITY_SIGMA, _ARM_SIGMA = 0.05, 0.3
#: Covariance of a lever arm that is not known, m2. Layout.
ARM_PRIOR = _ARM_SIGMA**2 * np.eye(3)
#: Preintegrated intervals, s, and how many of them a second difference spans, an even number. A sweep that is off by
#: 4 mm then changes an acceleration by 0.09 m/s2. Tuned: by hand.
STEP, SPAN = 0.1, 6
#: Largest standard deviation of a tilt that can be used, rad, and of the accelerations, relative to gravity.
#: Tuned: by hand.
_MAX_TILT, _MAX_RESIDUAL = np.radians(5.0), 0.15
#: Iterations of the weights. Schedule.
_ITERATIONS = 6
#: How many times smaller the residuals must be for a device that gives gravity, which points down. Tuned: by hand.
_DOWNWARD = 2.0
#: An acceleration is contradicted where it is off by more than so many deviations of the recording's windows, and by
#: more than this, m/s2: two seconds that are called right may be off by 5 cm over half a second. And largest error of
#: its scale: three deviations of 3 %, which data sheets of consumer devices allow (MPU-9250). Tuned: by hand.
_DEVIATIONS, _MIN_DIFFERENCE, _SCALE = 6.0, 0.3, 0.1
#: Speed above which a rig does not stand, m/s, and mean angular rate above which it does not only slide, rad/s: an IMU
#: that feels nothing then is broken. Tuned: by hand.
_MOVES, _TURNS = 0.1, np.radians(2.0)


class Level(NamedTuple):
    """Up, as an accelerometer measures it."""

    up: np.ndarray  #: f8 (3,), unit vector in the world.
    tilt_sigma: float  #: standard deviation of its direction, rad.
    bias: np.ndarray  #: f8 (3,), m/s2, of the specific force in the IMU frame.
    bias_sigma: np.ndarray  #: f8 (3,).
    arm: np.ndarray  #: f8 (3,), m, of the IMU in the lidar frame.
    #: whether the device gives gravity, which points down, instead of the specific force, or the trajectory is in a
    #: mirror, where the device feels the opposite of its accelerations.
    downward: bool
    arm_cov: np.ndarray = ARM_PRIOR  #: f8 (3, 3), m2, of the arm, `ARM_PRIOR` included, which is around zero.
    certain: bool = True  #: whether the motion shows which.

    def summary(self) -> dict[str, Any]:
        """What provenance says about it."""
        return {
            "tilt_sigma_deg": round(float(np.degrees(self.tilt_sigma)), 3),
            "acc_bias_m_s2": self.bias.round(4).tolist(),
            "acc_bias_sigma_m_s2": self.bias_sigma.round(4).tolist(),
        }


class Accelerations(NamedTuple):
    """Mean accelerations over K windows, m/s2, world frame, from second differences."""

    begin: np.ndarray  #: f8 (K,), s, of the middle half of each window, which contributes most.
    end: np.ndarray  #: f8 (K,), s, of this half.
    moved: np.ndarray  #: f8 (K, 3), of the lidar, by the trajectory.
    force: np.ndarray  #: f8 (K, 3), the specific force that was measured.
    design: np.ndarray  #: f8 (K, 3, 9), derivatives of the force by up times gravity, the bias and the lever arm.
    vibration: np.ndarray  #: f8 (K,), root mean square deviation of the force over 0.1 s from that of the recording.
    rate: np.ndarray  #: f8 (K,), mean angular rate, rad/s.

    @classmethod
    def of(cls, trajectory: Trajectory, times: np.ndarray, acc: np.ndarray, rotation: np.ndarray) -> Accelerations:
        """Those of all windows in which the motion and the accelerations are known.

        Args:
            times: f8 (N,), rising, by the clock of the trajectory, s; acc: f8 (N, 3), m/s2, IMU frame, NaN where not
                valid.
            rotation: f8 (3, 3), lidar-from-imu.
        """
        mount, rates = Mount(np.zeros(3), rotation), np.empty_like(acc)
        for part in blocks(len(times)):
            rates[part] = trajectory.at(times[part], mount)[0].avel
        # Where the motion is not known there are no samples either, which `longest` shows.
        good = np.isfinite(acc).all(axis=1) & np.isfinite(rates).all(axis=1)
        times, acc, rates = times[good], acc[good], rates[good]
        nodes = np.unique(np.floor(times / STEP)) * STEP
        if len(nodes) <= SPAN:
            return cls(*(np.zeros((0, *shape)) for shape in ((), (), (3,), (3,), (3, 9), (), ())))
        state, known = trajectory.at(nodes, mount)
        imu = preintegrate(nodes, times, acc, rates)
        whole = known[1:] & known[:-1] & (imu.longest <= MAX_SILENCE)
        # Columns of the specific force, and of its derivatives by the bias.
        rot = np.where(known[:, None, None], state.rot, 0.0)
        vel, pos = (
            matmul(rot[:-1], np.concatenate([integral[..., None], -jacobian], axis=2)) * whole[:, None, None]
            for integral, jacobian in ((imu.vel, imu.jacobian[:, 3:6, 3:]), (imu.pos, imu.jacobian[:, 6:, 3:]))
        )
        path = _sums(_sums(vel)[:-1] * (imu.seconds * whole)[:, None, None] + pos)
        lost = _sums(~whole)
        chosen = lost[:-SPAN] == lost[SPAN:]
        integrals = _second_difference(path)[chosen]
        arm = _second_difference(matmul(rot, rotation.T))[chosen]
        usual = np.median(integrals[..., 0], axis=0) if len(integrals) else 0.0
        unusual = vel[..., 0] / STEP - usual
        squares, turning = _sums((unusual**2).sum(axis=1)), _sums(np.linalg.norm(state.avel[:-1], axis=1) * whole)
        return cls(
            begin=nodes[:-SPAN][chosen] + STEP * SPAN / 4,
            end=nodes[SPAN:][chosen] - STEP * SPAN / 4,
            moved=_second_difference(state.pos)[chosen],
            force=integrals[..., 0],
            design=np.concatenate([np.tile(np.eye(3), (len(arm), 1, 1)), integrals[..., 1:], arm], axis=2),
            vibration=np.sqrt((squares[SPAN:] - squares[:-SPAN]) / SPAN)[chosen],
            rate=((turning[SPAN:] - turning[:-SPAN]) / SPAN)[chosen],
        )

    def residual(self, unknowns: np.ndarray, sign: float = 1.0) -> np.ndarray:
        """Measured less expected specific force, f8 (K, 3), m/s2.

        Args:
            unknowns: f8 (9,), up times gravity, bias and lever arm; sign: -1 for a device that gives gravity.
        """
        return sign * self.force - self.moved - matmul(self.design, unknowns)


def _sums(values: np.ndarray) -> np.ndarray:
    """Sums of the first 0, 1, ... N of values (N, ...), (N + 1, ...)."""
    return np.concatenate([np.zeros((1, *values.shape[1:])), np.cumsum(values, axis=0)])


def _second_difference(path: np.ndarray) -> np.ndarray:
    """Mean accelerations (N - span, ...) of paths (N, ...)."""
    middle = path[SPAN // 2 : -SPAN // 2]
    return np.asarray((path[:-SPAN] - 2 * middle + path[SPAN:]) / (STEP * SPAN / 2) ** 2)


def find_level(trajectory: Trajectory, times: np.ndarray, acc: np.ndarray, mount: Mount, mount_sigma: float) -> Level:
    """Up in the world of a trajectory.

    Args:
        times: f8 (N,), rising, by the clock of the trajectory, s.
        acc: f8 (N, 3), m/s2, IMU frame, gravity included; NaN where not valid.
        mount: of the IMU; its translation is not used.
        mount_sigma: standard deviation of its rotation, rad.

    Raises:
        ValueError: the accelerometer does not determine it, and why.
    """
    found = Accelerations.of(trajectory, times, acc, mount.rotation)
    # Two independent windows of three numbers each: biases and lever arms have priors, gravity's direction has none.
    needed = 2 * SPAN
    if len(found.moved) < needed:
        raise ValueError(f"there are less than {(needed + SPAN) * STEP:.0f} s with valid poses and accelerations")
    fits = _fit(found, 1.0), _fit(found, -1.0)
    # Nearly all devices give the specific force, which points up at rest. The motion shows which ones give gravity.
    upward = fits[1][2] * _DOWNWARD > fits[0][2]
    unknowns, covariance, residual = fits[0] if upward else fits[1]
    certain = not upward or fits[0][2] * _DOWNWARD <= fits[1][2]
    if residual > _MAX_RESIDUAL * GRAVITY:
        raise ValueError(f"the acceleration of the trajectory differs by {residual:.1f} m/s2 from the measured one")
    size = float(np.linalg.norm(unknowns[:3], axis=0))
    up = unknowns[:3] / size
    level = eigh(np.outer(up, up))[1][:, :2].T
    tilt = np.sqrt(eigvalsh(matmul(level, covariance[:3, :3], level.T))[-1]) / size
    tilt = float(np.hypot(tilt, mount_sigma))
    if tilt > _MAX_TILT:
        raise ValueError(f"up is known to {np.degrees(tilt):.1f} degrees only")
    bias_sigma = np.sqrt(np.diag(covariance)[3:6])
    return Level(up, tilt, unknowns[3:6], bias_sigma, unknowns[6:], not upward, covariance[6:, 6:], certain)


def _fit(found: Accelerations, sign: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Up, bias and arm, f8 (9,), their covariance, and the root mean square residual of agreeing windows, m/s2."""
    prior = np.diag([0.0] * 3 + [ACC_BIAS**-2.0] * 3 + [_ARM_SIGMA**-2.0] * 3)
    # Windows overlap, and are no independent measurements.
    weight = np.full(len(found.moved), 1 / SPAN)
    unknowns, variance, right = np.zeros(9), 1.0, found.residual(np.zeros(9), sign)
    for _ in range(_ITERATIONS):
        normal = np.einsum("k,kai,kaj->ij", weight, found.design, found.design) / variance + prior
        gradient = np.einsum("k,kai,ka->i", weight, found.design, right) / variance
        up = unknowns[:3]
        if up.any():
            # The size of gravity is known, which determines the bias along it.
            row = up / np.linalg.norm(up, axis=0)
            normal[:3, :3] += np.outer(row, row) / _GRAVITY_SIGMA**2
            gradient[:3] += row * GRAVITY / _GRAVITY_SIGMA**2
        unknowns = solve(normal, gradient)
        residual = np.linalg.norm(found.residual(unknowns, sign), axis=1)
        # The median of the sum of three squares of deviations is 2.366.
        usual = float(np.median(residual))
        variance, weight = max(usual**2 / 2.366, 1e-8), huber(residual, usual) / SPAN
    return unknowns, inv(normal), float(np.sqrt(3 * variance))


def contradicted(ts: np.ndarray, found: Accelerations, level: Level) -> np.ndarray:
    """Where an accelerometer contradicts a trajectory, bool (frame,), for each of its states at `ts`, f8 (frame,), s.

    Args:
        found: as by `measured`.
        level: up and the bias, as the accelerometer measures them over the whole trajectory.
    """
    result = np.zeros(len(ts), bool)
    if not len(found.begin):
        return result
    sign = -1.0 if level.downward else 1.0
    off = found.residual(np.concatenate([GRAVITY * level.up, level.bias, level.arm]), sign)
    size = np.linalg.norm(off, axis=1)
    usual = float(np.median(size))
    if len(off) > SPAN:
        # Windows that do not overlap differ by the noise. What a wrong trajectory leaves in most of a recording, as
        # the acceleration of a car among others that accelerate alike, stays for several windows, and is no noise
        # (J. von Neumann, Annals of Mathematical Statistics 12, 1941).
        usual = min(usual, float(np.median(np.linalg.norm(off[SPAN:] - off[:-SPAN], axis=1)) / np.sqrt(2)))
    wrong = size > max(_MIN_DIFFERENCE, _DEVIATIONS * usual) + _SCALE * np.linalg.norm(found.moved, axis=1)
    # An accelerometer that feels nothing contradicts a change of velocity, in however many windows it is. Where bodies
    # set off in most of a recording, its level is wrong by their mean acceleration, and the median force is right.
    unfelt = np.linalg.norm(off - np.median(off + found.moved, axis=0), axis=1)
    wrong |= (np.minimum(size, unfelt) > _MIN_DIFFERENCE + found.vibration) & (found.rate < _TURNS)
    first, last = np.searchsorted(ts, found.begin), np.searchsorted(ts, found.end)
    for start, stop in zip(first[wrong], last[wrong], strict=True):
        result[max(start - 1, 0) : stop + 1] = True
    for run in np.split(np.arange(len(size)), np.flatnonzero(np.diff(found.begin) > 1.5 * STEP) + 1):
        # All windows that overlap one of these have a part of the change of velocity.
        changes = ndimage.binary_dilation(wrong[run], np.ones(SPAN, bool))
        for (event,) in ndimage.find_objects(ndimage.label(changes)[0]):
            # A jump contradicts two accelerations that cancel out. Of one at an end, only one of these may be measured.
            cut = event.start == 0 or event.stop == len(run)
            changes[event] &= not (cut and event.stop - event.start < 2 * SPAN)
        velocity, moved = (
            np.linalg.norm(np.cumsum(changes[:, None] * each[run], axis=0), axis=1) * STEP
            for each in (off, found.moved)
        )
        doubtful = velocity > _MOVES + _SCALE * moved + usual * STEP * np.cumsum(changes)
        # Where the trajectory does not come back to the velocity that it had, nobody knows which of both is wrong.
        doubtful |= doubtful[-1]
        for start, stop in zip(first[run][doubtful], last[run][doubtful], strict=True):
            result[max(start - 1, 0) : stop + 1] = True
    return result


def felt_at_rest(trajectory: Trajectory, found: Accelerations) -> np.ndarray:
    """Where a trajectory stands while an accelerometer usually feels a motion, bool (frame,), for each of its states.

    Neither a clock nor a mount that is wrong explains that, and no calibration is needed: at rest the force is one
    vector, and what a rig moves in its place is felt as strongly at another time and in another direction.

    Args:
        found: as by `measured`.
    """
    ts, pos, result = trajectory.ts, trajectory.states.pos, np.zeros(len(trajectory.ts), bool)
    before, after = (np.searchsorted(ts, ts + half).clip(0, len(ts) - 1) for half in (-0.5, 0.5))
    stands = np.linalg.norm(pos[after] - pos[before], axis=1) < _MOVES * np.maximum(ts[after] - ts[before], 1e-3)
    for stretch in np.split(np.arange(len(ts)), np.flatnonzero(np.diff(stands)) + 1):
        within = (found.begin >= ts[stretch[0]]) & (found.end <= ts[stretch[-1]])
        if stands[stretch[0]] and within.sum() >= 2 * SPAN:
            felt, moved = (
                np.median(np.linalg.norm(each - np.median(each, axis=0), axis=1))
                for each in (found.force[within], found.moved[within])
            )
            result[stretch] = felt > moved + _MIN_DIFFERENCE
    return result


def measured(trajectory: Trajectory, times: np.ndarray, acc: np.ndarray, rotation: np.ndarray) -> Accelerations:
    """As `Accelerations.of`, but an accelerometer that repeats a sample is frozen, and measures nothing."""
    repeats = np.concatenate([[False], (np.diff(acc, axis=0) == 0).all(axis=1)])
    return Accelerations.of(trajectory, times, np.where(repeats[:, None], np.nan, acc), rotation)
