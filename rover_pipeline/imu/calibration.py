"""An IMU calibrated against the trajectory of the lidar before it is believed.

From the gyroscope's samples and any estimate of the lidar's angular velocities it finds how the IMU is turned, how late
its clock is, its bias, the scale of its axes and its unit, each with a standard deviation, and says whether the IMU can
be used. What the motion does not determine has a large standard deviation.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rover_pipeline.imu.alignment import (
    MAX_OFFSET,
    MOUNT_SIGMA,
    PRIOR_SIGMA,
    Fit,
    GyroMeans,
    Model,
    align,
    correlate,
    decisive,
    half_turn,
)
from rover_pipeline.imu.blocks import INTERVAL, Damage, Means, find_damage, white_noise
from rover_pipeline.imu.stationary import INSTABILITY
from rover_pipeline.imu.units import RATE_RATIO, RATES
from rover_pipeline.kinematics.rotation import log
from rover_pipeline.numerics.linear import eigh, matmul, solve

#: Smallest number of intervals that are compared: 5 s. Tuned: by hand.
_MIN_INTERVALS = 50
#: Standard deviation of the lidar's rates over an interval, rad/s: lidar odometry of a single pass where it is worst.
#: Tuned: by hand.
_REFERENCE_SIGMA = 0.1
#: Squared difference, normalised by its covariance, that three numbers exceed once in a hundred times at random.
#: Noise: chi square.
_CHI_SQUARE = 11.3
#: Largest standard deviations of an IMU that can be used: rotation, rad; time offset, s; bias, rad/s. Tuned: by hand.
_MAX_SIGMA = {"rotation": np.radians(3.0), "offset": 0.02, "bias": 0.02}


class Calibration(NamedTuple):
    """How a gyroscope relates to the lidar. Angular velocities in the lidar frame: `apply`."""

    fit: Fit  #: how it is turned, late and scaled, and its bias, in rad/s; see `Model` and `Fit`.
    reason: str  #: a sentence that says why its rates cannot be believed; empty if they can.
    #: whether the reason is that it contradicts the lidar. Otherwise the motion determines too little.
    contradicts: bool
    notes: list[str]  #: sentences about what is unusual.
    unit: str  #: of the samples, "rad/s" or "deg/s".
    damage: Damage  #: samples that measure nothing.
    #: whether nothing contradicts the rotation that somebody gave, and the scale of data sheets.
    as_stated: bool = True
    #: f8 (3, 3), by which it differs from the rotation that somebody gave; None = nothing shows one.
    half_turn: np.ndarray | None = None

    @property
    def usable(self) -> bool:
        """Whether its rates can be believed."""
        return not self.reason

    @property
    def model(self) -> Model:
        """Its offset, s, is added to the IMU's time stamps; it is negative if they are late."""
        return self.fit.model

    @property
    def sigma(self) -> np.ndarray:
        """Standard deviations of the model, f8 (11,), in the order of its steps. Before, 0.03 of scale is known."""
        sigma = np.sqrt(np.diag(self.fit.cov))
        # A bias in motion changes by what no averaging removes.
        sigma[4:7] = np.hypot(sigma[4:7], INSTABILITY)
        return sigma

    @property
    def saturated_at(self) -> float:
        """Value at which it saturates, rad/s; NaN if it does not."""
        return RATES[self.unit] * self.damage.limit

    def apply(self, times: np.ndarray, rates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Times by the lidar's clock, f8 (N,), and angular velocities of the lidar in its frame, f8 (N, 3), rad/s.

        Args:
            times, rates: f8 (N,), s, and (N, 3), as they were recorded.
        """
        return times + self.model.offset, self.model.predict(rates * RATES[self.unit])

    def summary(self) -> dict[str, Any]:
        """What provenance says about it: numbers with their standard deviations, degrees and milliseconds."""
        model, sigma = self.model, self.sigma
        return {
            "usable": self.usable,
            "reason": self.reason,
            "unit": self.unit,
            "rotation_lidar_from_imu": model.rotation.round(5).tolist(),
            "rotation_sigma_deg": np.degrees(sigma[:3]).round(3).tolist(),
            "offset_ms": round(1000 * float(model.offset), 2),
            "offset_sigma_ms": round(1000 * float(sigma[3]), 2),
            "gyro_bias_rad_s": model.bias.round(5).tolist(),
            "gyro_bias_sigma_rad_s": sigma[4:7].round(5).tolist(),
            "scale": model.scale.round(4).tolist(),
            "scale_sigma": (model.scale * sigma[7:10]).round(4).tolist(),
            "residual_rad_s": self.fit.residual.round(4).tolist() if self.fit.compared.any() else None,
            "agreeing": round(self.fit.agreeing, 3),
            "saturated_at_rad_s": None if np.isnan(self.saturated_at) else round(self.saturated_at, 3),
            "notes": self.notes,
        }


def calibrate(
    times: np.ndarray,
    rates: np.ndarray,
    reference_times: np.ndarray,
    reference: np.ndarray,
    *,
    mount: np.ndarray | None = None,
) -> Calibration:
    """Calibrates a gyroscope.

    Args:
        times: f8 (N,), s, rising, without the jitter of arrival; offsets of up to 0.5 s are found.
        rates: f8 (N, 3), IMU frame, rad/s or degrees per second. NaN where not valid.
        reference_times: f8 (M,), s, rising, at least every 0.1 s.
        reference: f8 (M, 3), rad/s, angular velocity of the lidar in its own frame, as it was estimated without the
            gyroscope. NaN where the lidar was lost; other outliers are found.
        mount: f8 (3, 3), lidar-from-imu as somebody gave it: it helps where the motion does not determine the rotation.

    Returns:
        A calibration in any case; see `usable` and `reason`.
    """
    rates = np.asarray(rates, "f8")
    damage = find_damage(times, rates)
    notes: list[str] = []
    turn: np.ndarray | None = None
    if not np.isnan(damage.limit):
        share = f"{100 * damage.saturated.mean():.3g} % of its samples are flat and left out"
        notes.append(f"it saturates at {damage.limit:.4g} in its unit: {share}")

    def refused(reason: str, *, contradicts: bool = True) -> Calibration:
        model, nothing = Model(np.eye(3), 0.0, np.zeros(3), np.ones(3)), np.zeros(0, bool)
        fit = Fit(model, np.diag(PRIOR_SIGMA**2), nothing, nothing, np.full(3, np.nan))
        return Calibration(fit, reason, contradicts, notes, "rad/s", damage, half_turn=turn)

    if len(rates) and damage.frozen.mean() > 0.5:
        return refused(f"it is dead: {100 * damage.frozen.mean():.0f} % of its samples repeat the one before")
    # What both sensors measure, smoothed alike.
    own = Means(times, rates, damage.good).smoothed(INTERVAL)
    lidar = Means(reference_times, reference, np.isfinite(reference).all(axis=1)).smoothed(INTERVAL)
    begin = np.zeros(0)
    if len(times) > 1 and len(reference_times):
        begin = reference_times[0] + INTERVAL * np.arange(int((reference_times[-1] - reference_times[0]) / INTERVAL))
    reference, known = lidar.over(begin, INTERVAL)
    moments = correlate(begin, own, lidar)
    turn = None if mount is None else half_turn(moments, mount)
    near = moments.near()
    if not len(near.number) or near.number.max() < _MIN_INTERVALS:
        return refused("there are less than 5 s in which both were measured", contradicts=False)
    rotations = near.rotation()
    costs, elsewhere = near.unexplained(rotations), moments.unexplained(moments.rotation())
    at = int(costs.argmin())
    number = int(near.number[at])
    turns, rotation, factor = near.lidar[at], rotations[at], max(float(near.factor(rotations)[at]), 1e-9)
    if decisive(near.unexplained(near.reflection()).min(), min(costs[at], turns), number):
        return refused(
            "its axes are mirrored: a reflection fits the lidar's turns, and no rotation does (determinant -1); two "
            "axes are exchanged, or the sign of one is wrong"
        )
    if decisive(elsewhere.min(), costs[at], number):
        late = abs(moments.offset[elsewhere.argmin()])
        return refused(f"its clock differs from the lidar's by {late:.1f} s or more")
    unit = min(RATES, key=lambda name: abs(np.log(factor / RATES[name])))
    known_unit = 1 / RATE_RATIO < factor / RATES[unit] < RATE_RATIO
    if not known_unit and costs[at] < turns / 2:
        ratio = f"its rates are {1 / factor:.3g} times those of the lidar in rad/s"
        late = f"unless its clock differs by more than {MAX_OFFSET} s"
        return refused(f"it is neither in rad/s nor in degrees per second: {ratio}, {late}")
    follows = known_unit and decisive(costs[at], turns, number)
    unit = unit if follows else "rad/s"
    if unit != "rad/s":
        notes.append(f"the gyroscope is in {unit}: its rates are {1 / factor:.1f} times those of the lidar in rad/s")
    value = RATES[unit]

    def gyro(offset: float) -> tuple[np.ndarray, np.ndarray]:
        means, measured = own.over(begin - offset, INTERVAL)
        return value * means, measured

    noise = _noise_like(times, value * rates[damage.good])
    bias = value * near.gyro_mean[at] - matmul(near.lidar_mean[at], rotation)
    fit = align(reference, known, gyro, noise, Model(rotation, float(near.offset[at]), bias, np.ones(3)))
    sigma, as_stated = PRIOR_SIGMA[:4], True
    if mount is not None:
        off = log(matmul(mount[None], fit.model.rotation.T))[0]
        if matmul(off, solve(fit.cov[:3, :3] + MOUNT_SIGMA**2 * np.eye(3), off)) < _CHI_SQUARE:
            fit = align(reference, known, gyro, noise, fit.model._replace(rotation=mount), mount)
            sigma = np.append(np.full(3, MOUNT_SIGMA), sigma[3])
        else:
            degrees, as_stated = np.degrees(np.linalg.norm(off, axis=0)), False
            notes.append(
                f"the given rotation to the lidar is wrong by {degrees:.1f} degrees, and the measured one is used"
            )
    if not follows:
        # Where nothing shows that both measure the same turns, the fit is one of many.
        fit.cov[:4, :4] += np.diag(sigma**2)
    predicted = fit.model.predict(gyro(fit.model.offset)[0])[fit.compared]
    contradiction = _contradiction(fit, predicted, reference[fit.compared])
    scaled = np.log(fit.model.scale) ** 2 / (PRIOR_SIGMA[7:10] ** 2 + np.diag(fit.cov)[7:10])
    as_stated &= bool(scaled.sum() < _CHI_SQUARE)
    reason = contradiction or _unknown(fit)
    return Calibration(fit, reason, bool(contradiction), notes, unit, damage, as_stated, turn)


def _noise_like(times: np.ndarray, rates: np.ndarray) -> GyroMeans:
    """Means of white noise that is as large as that of rates, f8 (N, 3), rad/s, with the samples' period."""
    instants = np.arange(0, 200.0, max(float(np.median(np.diff(times))), 1e-4))
    noise = np.random.default_rng(0).normal(0, white_noise(rates), (len(instants), 3))
    means = Means(instants, noise, np.ones(len(instants), bool)).smoothed(INTERVAL)
    return lambda offset: means.over(np.arange(2.0, 198.0, INTERVAL) - offset, INTERVAL)


def _contradiction(fit: Fit, predicted: np.ndarray, reference: np.ndarray) -> str:
    """How the gyroscope contradicts the lidar; empty if it does not.

    Args:
        predicted, reference: f8 (K, 3), rad/s, rates of the lidar by the gyroscope and its own.
    """
    worst = float(fit.residual.max())
    if fit.agreeing < 0.6:
        return f"it contradicts the lidar: only {100 * fit.agreeing:.3g} % of the time they agree"
    moves = max(float(np.sqrt(rates.var(axis=0).sum())) for rates in (predicted, reference))
    if worst > max(_REFERENCE_SIGMA, moves / 2):
        error = f"more than the lidar's error of {_REFERENCE_SIGMA:.3f}"
        return f"it contradicts the lidar: they differ by {worst:.3f} rad/s, {error}"
    return ""


def _unknown(fit: Fit) -> str:
    """What the motion does not determine of the gyroscope, so that it cannot be used; empty if it can."""
    variance, axes = eigh(fit.cov[:3, :3])
    offset, bias = np.sqrt(fit.cov[3, 3]), np.sqrt(np.diag(fit.cov)[4:7].max())
    if variance[2] > _MAX_SIGMA["rotation"] ** 2:
        axis, degrees = " ".join(f"{value:.2f}" for value in axes[:, 2]), np.degrees(np.sqrt(variance[2]))
        known = "nothing of it is known" if degrees > 90 else f"it is known to {degrees:.1f} degrees"
        return f"not enough rotation about two axes: of its rotation to the lidar about [{axis}] {known}"
    if offset > _MAX_SIGMA["offset"]:
        return f"not enough changes of the rotation: its time offset is known to {1000 * offset:.0f} ms only"
    return f"its bias is known to {bias:.3f} rad/s only" if bias > _MAX_SIGMA["bias"] else ""
