"""An IMU calibrated against the trajectory of the lidar before it is believed.

From the gyroscope's samples and any estimate of the lidar's angular velocities it finds how the IMU is turned, how late
its clock is, its bias, the scale of its axes and its unit, each with a standard deviation, and says whether the IMU can
be used. What the motion does not tell has a large standard deviation.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rover_pipeline.imu.alignment import BIAS, OFFSET, PRIOR_SIGMA, ROTATION, SCALE, Fit, GyroMeans, Model, Prior, align
from rover_pipeline.imu.blocks import Damage, Means, find_damage, white_noise
from rover_pipeline.imu.coarse import find_coarse
from rover_pipeline.imu.options import ImuSection
from rover_pipeline.imu.rests import Rest, agree, find_rests
from rover_pipeline.imu.verdict import MAX_OFFSET, contradiction_of, unknown_of
from rover_pipeline.kinematics.rotation import log
from rover_pipeline.numerics.linear import matmul, solve

#: Duration of the blocks, s, fewest of them, and the number that first values are found from.
_BLOCK, _MIN_BLOCKS, _COARSE_BLOCKS = 0.1, 50, 2000
#: Longest trajectory, s: 100 hours are no recording, and would fill the memory.
_MAX_SPAN = 3.6e5
#: Units by their value in rad/s, and how far the measured factor may be from one, as a ratio.
_UNITS, _UNIT_RATIO = {"rad/s": 1.0, "deg/s": np.pi / 180}, 1.35
#: Explained over unexplained variance, times the number of blocks, from which the gyroscope is seen to follow the
#: lidar.
_FOLLOWS = 200.0
#: Least share of the lidar's variance that a gyroscope in an unknown unit explains.
_EXPLAINED = 0.5
#: Standard deviation of the reference, rad/s, where it states none: lidar odometry of a single pass.
_REFERENCE_SIGMA = 0.1
#: Standard deviation of a rotation that somebody gave, rad: extrinsics are measured to some degrees.
_MOUNT_SIGMA = np.radians(3.0)
#: Error of a measured rotation, rad, that its covariance does not contain, because the lidar smooths the motion.
_ROTATION_ERROR = np.radians(1.0)
#: Squared difference over its variance, of three numbers, that is a contradiction; and how much a bias may differ
#: between rest and motion, rad/s, because gyroscopes feel accelerations.
_CONTRADICTS, _BIAS_MARGIN = 30.0, 0.002
#: Share of samples that only repeat the one before, from which a gyroscope is dead.
_DEAD = 0.5
#: Drift of a bias after a rest that it was measured in, rad/s in a second, growing with the root of time.
_WALK = 1e-4


class Calibration(NamedTuple):
    """How a gyroscope relates to the lidar. Angular velocities in the lidar frame: `apply`.

    Attributes:
        usable: whether its rates can be believed; reason: a sentence that says why not, else empty.
        contradicts: whether the reason is that it contradicts the lidar. Otherwise the motion tells too little.
        notes: sentences about what is unusual.
        rotation: f8 (3, 3), lidar-from-imu; rotation_cov: f8 (3, 3), of a rotation vector in the lidar frame, rad^2.
        offset: s, to be added to the IMU's time stamps; negative if they are late. offset_sigma: s.
        bias, bias_sigma: f8 (3,), rad/s, IMU frame.
        scale, scale_sigma: f8 (3,), measured over true rate of each axis. 0.03 is what data sheets say before.
        unit: of the samples, "rad/s" or "deg/s".
        residual: f8 (3,), rad/s, standard deviation of the differences over 0.1 s, lidar axes.
        agreeing: share of the compared blocks that agree; blocks: number of compared ones.
        good: bool (N,), samples that are finite, not saturated and not frozen.
        saturated_at: value at which it saturates, rad/s; NaN if it does not.
    """

    usable: bool
    reason: str
    contradicts: bool
    notes: list[str]
    rotation: np.ndarray
    rotation_cov: np.ndarray
    offset: float
    offset_sigma: float
    bias: np.ndarray
    bias_sigma: np.ndarray
    scale: np.ndarray
    scale_sigma: np.ndarray
    unit: str
    residual: np.ndarray
    agreeing: float
    blocks: int
    good: np.ndarray
    saturated_at: float

    def apply(self, times: np.ndarray, rates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Times by the lidar's clock, f8 (N,), and angular velocities of the lidar in its frame, f8 (N, 3), rad/s.

        Args:
            times, rates: f8 (N,), s, and (N, 3), as they were recorded.
        """
        model = Model(self.rotation, self.offset, self.bias, self.scale)
        return times + self.offset, model.predict(rates * _UNITS[self.unit])

    def summary(self) -> dict[str, Any]:
        """What provenance says about it: numbers with their standard deviations, degrees and milliseconds."""
        return {
            "usable": self.usable,
            "reason": self.reason,
            "unit": self.unit,
            "rotation_lidar_from_imu": self.rotation.round(5).tolist(),
            "rotation_sigma_deg": np.degrees(np.sqrt(np.diag(self.rotation_cov))).round(3).tolist(),
            "offset_ms": round(1000 * self.offset, 2),
            "offset_sigma_ms": round(1000 * self.offset_sigma, 2),
            "gyro_bias_rad_s": self.bias.round(5).tolist(),
            "gyro_bias_sigma_rad_s": self.bias_sigma.round(5).tolist(),
            "scale": self.scale.round(4).tolist(),
            "scale_sigma": self.scale_sigma.round(4).tolist(),
            "residual_rad_s": self.residual.round(4).tolist() if self.blocks else None,
            "agreeing": round(self.agreeing, 3),
            "saturated_at_rad_s": None if np.isnan(self.saturated_at) else round(self.saturated_at, 3),
            "notes": self.notes,
        }


def calibrate(
    times: np.ndarray,
    rates: np.ndarray,
    reference_times: np.ndarray,
    reference: np.ndarray,
    *,
    reference_sigma: float | None = None,
    acc: np.ndarray | None = None,
    mount: np.ndarray | None = None,
) -> Calibration:
    """Calibrates a gyroscope.

    Args:
        times: f8 (N,), s, rising, without the jitter of arrival; offsets of up to 0.5 s are found.
        rates: f8 (N, 3), IMU frame, rad/s or degrees per second. NaN where not valid.
        reference_times: f8 (M,), s, rising, at least every 0.1 s.
        reference: f8 (M, 3), rad/s, angular velocity of the lidar in its own frame, as it was estimated without the
            gyroscope. NaN where the lidar was lost; other outliers are found.
        reference_sigma: standard deviation of its means over 0.1 s, rad/s, if it is known.
        acc: f8 (N, 3), m/s2: with it, rests tell the bias too.
        mount: f8 (3, 3), lidar-from-imu as somebody gave it: it helps where the motion does not tell the rotation.

    Returns:
        A calibration in any case; see `usable` and `reason`.
    """
    rates = np.asarray(rates, "f8")
    good = np.isfinite(rates).all(axis=1)
    damage = find_damage(times[good], rates[good]) if good.sum() > 2 else Damage(good[good], good[good], np.nan)
    notes = [] if np.isnan(damage.limit) else [_saturation(damage)]
    if len(damage.frozen) and damage.frozen.mean() > _DEAD:
        reason = f"it is dead: {100 * damage.frozen.mean():.0f} % of its samples repeat the one before"
        return _refused(reason, good, notes, contradicts=True)
    good[good] = ~(damage.saturated | damage.frozen)
    span = float(reference_times[-1] - reference_times[0]) if len(reference_times) else 0.0
    if min(span / _BLOCK, int(good.sum())) < _MIN_BLOCKS:
        return _refused("there are less than 5 s in which both were measured", good, notes)
    if span > _MAX_SPAN:
        return _refused(f"the trajectory spans {span / 3600:.0f} h: its clock was set", good, notes)
    begin = reference_times[0] + _BLOCK * np.arange(int(span / _BLOCK))
    # Vibration that only the gyroscope measures must not reach the blocks, where it would look like slow motion.
    own = Means(times, rates, good).smoothed(_BLOCK).smoothed(_BLOCK)
    lidar = Means(reference_times, reference, np.isfinite(reference).all(axis=1)).smoothed(_BLOCK).smoothed(_BLOCK)
    reference, known = lidar.over(begin, _BLOCK)
    # Some thousand blocks are enough for first values.
    some = slice(None, None, max(1, len(begin) // _COARSE_BLOCKS))
    first = find_coarse(reference[some], known[some], lambda offset: own.over(begin[some] - offset, _BLOCK))
    compared = int((known & own.over(begin - first.offset, _BLOCK)[1]).sum())
    if compared < _MIN_BLOCKS:
        return _refused("there are less than 5 s in which both were measured", good, notes)
    stated = _REFERENCE_SIGMA if reference_sigma is None else reference_sigma
    follows = first.explained * compared > _FOLLOWS * (1 - first.explained)
    unit = _unit(first.factor) if follows else "rad/s"
    if unit is None and first.explained < _EXPLAINED:
        reason = f"it does not follow the lidar's turns at any time offset up to {MAX_OFFSET} s"
        return _refused(reason, good, notes, contradicts=_turns(reference[known], stated))
    if unit is None:
        ratio = f"its rates are {1 / max(first.factor, 1e-9):.3g} times those of the lidar in rad/s"
        late = f"unless its clock differs by more than {MAX_OFFSET} s"
        reason = f"it is neither in rad/s nor in degrees per second: {ratio}, {late}"
        return _refused(reason, good, notes, contradicts=True)
    value = _UNITS[unit]
    if unit != "rad/s":
        notes.append(
            f"the gyroscope is in {unit}: its rates are {1 / first.factor:.1f} times those of the lidar in rad/s"
        )

    def gyro(offset: float) -> tuple[np.ndarray, np.ndarray]:
        means, measured = own.over(begin - offset, _BLOCK)
        return value * means, measured

    instants = np.arange(0, _COARSE_BLOCKS * _BLOCK, float(np.median(np.diff(times))))
    noise = np.random.default_rng(0).normal(0, white_noise(value * rates[good]), (len(instants), 3))
    alike = Means(instants, noise, np.ones(len(instants), bool)).smoothed(_BLOCK).smoothed(_BLOCK)

    def noise_alone(offset: float) -> tuple[np.ndarray, np.ndarray]:
        return alike.over(2.0 + _BLOCK * np.arange(_COARSE_BLOCKS - 40) - offset, _BLOCK)

    start = Model(first.rotation, first.offset, value / max(first.factor, 1e-9) * first.bias, np.ones(3))
    fit = align(reference, known, gyro, noise_alone, start._replace(bias=_bias(reference, known, gyro, start)))
    prior, more = _prior(fit, mount, None if acc is None else _rest_bias(times, value * rates, acc, good))
    notes += more
    if prior is not None:
        start = fit.model if prior.rotation_sigma == np.inf else fit.model._replace(rotation=prior.rotation)
        fit = align(reference, known, gyro, noise_alone, start, prior)
    if not follows and (prior is None or np.isinf(prior.rotation_sigma)):
        fit.covariance[:4, :4] += np.diag(PRIOR_SIGMA[:4] ** 2)  # rotation and offset
    predicted = fit.model.predict(gyro(fit.model.offset)[0])[fit.compared]
    contradiction = contradiction_of(fit, first.mirrored if follows else 0.0, predicted, stated)
    reason = contradiction or unknown_of(fit)
    return _calibration(fit, reason, notes, unit, good, value * damage.limit, contradicts=bool(contradiction))


def _unit(factor: float) -> str | None:
    """The unit of a gyroscope whose rates times `factor` are rad/s; None if it is none of the known ones."""
    for name, value in _UNITS.items():
        if value / _UNIT_RATIO < factor < value * _UNIT_RATIO:
            return name
    return None


def _bias(reference: np.ndarray, known: np.ndarray, gyro: GyroMeans, model: Model) -> np.ndarray:
    """Robust bias of a gyroscope of known rotation and offset, f8 (3,), rad/s."""
    means, measured = gyro(model.offset)
    used = known & measured
    return np.asarray(np.median(means[used] - matmul(reference[used], model.rotation), axis=0))


def _rest_bias(
    times: np.ndarray, rates: np.ndarray, acc: np.ndarray, good: np.ndarray
) -> tuple[np.ndarray, float] | None:
    """Bias in the rests, f8 (3,), rad/s, and its standard deviation as that of the whole recording; None without."""
    used = good & np.isfinite(acc).all(axis=1)
    if used.sum() < _MIN_BLOCKS:
        return None
    times, rates, acc = times[used], rates[used], acc[used]
    parts = find_rests(acc, rates, float(np.median(np.diff(times))), ImuSection())
    rests = [Rest.of(times[part], acc[part], rates[part]) for part in parts]
    rests = [rest for rest, chosen in zip(rests, agree(rests).chosen, strict=True) if chosen]
    if not rests:
        return None
    weights = np.array([rest.sigma**-2.0 for rest in rests])
    mean = (weights[:, None] * [rest.rate for rest in rests]).sum(axis=0) / weights.sum()
    seconds = float(times[-1] - times[0])
    return mean, float(np.sqrt(1 / weights.sum() + _WALK**2 * seconds / (2 * len(rests))))


def _prior(fit: Fit, mount: np.ndarray | None, rest: tuple[np.ndarray, float] | None) -> tuple[Prior | None, list[str]]:
    """What is known besides, as far as the fit does not contradict it, and sentences about contradictions."""
    notes, prior = [], Prior(fit.model.rotation, np.inf, fit.model.bias, np.inf)
    if rest is not None:
        covariance = fit.covariance[BIAS, BIAS] + np.eye(3) * (rest[1] ** 2 + _BIAS_MARGIN**2)
        difference = rest[0] - fit.model.bias
        if matmul(difference, solve(covariance, difference)) < _CONTRADICTS:
            prior = prior._replace(bias=rest[0], bias_sigma=rest[1])
        else:
            size = np.linalg.norm(difference, axis=0)
            notes.append(
                f"its bias at rest and in motion differ by {size:.3f} rad/s: it turned in what looks like a rest"
            )
    if mount is not None:
        turn = log(matmul(mount[None], fit.model.rotation.T))[0]
        covariance = fit.covariance[ROTATION, ROTATION] + np.eye(3) * _ROTATION_ERROR**2
        if matmul(turn, solve(covariance, turn)) < _CONTRADICTS:
            prior = prior._replace(rotation=mount, rotation_sigma=_MOUNT_SIGMA)
        else:
            degrees = np.degrees(np.linalg.norm(turn, axis=0))
            notes.append(
                f"the given rotation to the lidar is wrong by {degrees:.1f} degrees, and the measured one is used"
            )
    known = np.isfinite(prior.rotation_sigma) or np.isfinite(prior.bias_sigma)
    return (prior if known else None), notes


def _calibration(
    fit: Fit, reason: str, notes: list[str], unit: str, good: np.ndarray, limit: float, *, contradicts: bool
) -> Calibration:
    sigma, model = np.sqrt(np.diag(fit.covariance)), fit.model
    return Calibration(
        usable=not reason,
        reason=reason,
        contradicts=contradicts,
        notes=notes,
        rotation=model.rotation,
        rotation_cov=fit.covariance[ROTATION, ROTATION],
        offset=float(model.offset),
        offset_sigma=float(sigma[OFFSET]),
        bias=model.bias,
        bias_sigma=sigma[BIAS],
        scale=model.scale,
        scale_sigma=model.scale * sigma[SCALE],
        unit=unit,
        residual=fit.residual,
        agreeing=float(fit.used.sum() / max(fit.compared.sum(), 1)),
        blocks=int(fit.compared.sum()),
        good=good,
        saturated_at=limit,
    )


def _turns(reference: np.ndarray, stated: float) -> bool:
    """Whether the lidar turns, so that a gyroscope must see it, from its angular velocities, f8 (K, 3)."""
    return bool(len(reference)) and bool(reference.std(axis=0).max() > stated)


def _refused(reason: str, good: np.ndarray, notes: list[str], *, contradicts: bool = False) -> Calibration:
    """A calibration that knows nothing: standard deviations are those before any measurement."""
    model = Model(np.eye(3), 0.0, np.zeros(3), np.ones(3))
    nothing = np.zeros(0, bool)
    fit = Fit(model, np.diag(PRIOR_SIGMA**2), nothing, nothing, np.full(3, np.nan))
    return _calibration(fit, reason, notes, "rad/s", good, np.nan, contradicts=contradicts)


def _saturation(damage: Damage) -> str:
    share = 100 * damage.saturated.mean()
    return f"it saturates at {damage.limit:.4g} in its unit: {share:.2f} % of its samples are flat and left out"
