"""The IMU of a recording: calibrated against the trajectory that the lidar measures without it, and then used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rover_pipeline.clocks.clock import clock
from rover_pipeline.errors import ConfigError, naming
from rover_pipeline.imu.alignment import MOUNT_SIGMA
from rover_pipeline.imu.blocks import INTERVAL, Means, white_noise
from rover_pipeline.imu.calibration import Calibration, calibrate
from rover_pipeline.imu.saturation import MAX_RATE
from rover_pipeline.imu.units import units_of
from rover_pipeline.kinematics.mount import Mount
from rover_pipeline.kinematics.mounts import TOLERANCE
from rover_pipeline.kinematics.trajectory import Trajectory
from rover_pipeline.numerics.blocks import IN_MEMORY, Memory
from rover_pipeline.numerics.jumps import without_jumps
from rover_pipeline.numerics.linear import eigvalsh, matmul
from rover_pipeline.numerics.robust import MAD_TO_SD
from rover_pipeline.odometry.accelerometer import Level, contradicted, felt_at_rest, find_level, measured
from rover_pipeline.odometry.observations import NO_GYRO, Gyro
from rover_pipeline.odometry.options import OdometryOptions
from rover_pipeline.odometry.vibration import NO_VIBRATION, Vibration, split_rates, worth_while

#: What the user reads where the lidar may see a mirrored world.
_REVERSED = "the lidar's columns or beams may be stored in reverse, so that it sees a mirrored world"
_NOTHING = "no pose is trusted"
#: What the user reads where `odometry.world: gravity` is asked for in vain.
_NO_LEVEL, _FIRST_POSE = "odometry.world is gravity, which the accelerometer does not show", "set it to first_pose"


class Samples(NamedTuple):
    """What an IMU measured."""

    times: np.ndarray  #: f8 (N,), rising, without the jitter of arrival, seconds after the first sweep.
    rates: np.ndarray  #: f8 (N, 3), IMU frame, as recorded; NaN where they are not valid.
    acc: np.ndarray  #: f8 (N, 3), m/s2, IMU frame, gravity included; NaN where not valid, or all if it is unusable.
    acc_unit: str  #: of `acc` as it was recorded: "m/s2", "g", or why it cannot be used.

    @classmethod
    def of(
        cls,
        recorded: tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None],
        options: OdometryOptions,
        sweeps: np.ndarray,
        origin: float,
        memory: Memory = IN_MEMORY,
    ) -> Samples:
        """The samples of a recording.

        Args:
            recorded: f8 (N,), time stamps, s; (N, 3), angular velocities; (N, 3), accelerations, None = none recorded;
                u1 (N,), whether they are valid, None = all.
            sweeps: f8 (frame,), times of the sweeps, s, which show jumps of the clock; origin: time of the first.
        """
        ts, avel, acc, valid = recorded
        times = without_jumps(clock("imu", ts, options.times).best, sweeps) - origin
        known = np.isfinite(times)
        bad = np.zeros(len(ts), bool) if valid is None else valid == 0
        rates = avel.astype("f8")
        with np.errstate(invalid="ignore"):
            # The unit is not known yet, and degrees per second are the larger one.
            rates[bad | ~(np.abs(rates) <= np.degrees(MAX_RATE)).all(axis=1)] = np.nan
        force, unit = np.full((len(ts), 3), np.nan), "none recorded"
        if acc is not None:
            force = np.where(bad[:, None], np.nan, acc.astype("f8"))
            factor, unit, _, _ = units_of(times[known], force[known], rates[known])
            force *= factor
        times, rates, force = (memory.hold(each[known]) for each in (times, rates, force))
        return cls(times, rates, force, unit)


class Imu(NamedTuple):
    """What the IMU says, by the lidar's clock and in the lidar's frame."""

    used: str  #: "used", or why the gyroscope is not.
    gyro: Gyro = NO_GYRO  #: rates that the trajectory's spline can follow.
    vibration: Vibration = NO_VIBRATION  #: the rest.
    summary: dict[str, Any] | None = None  #: for the provenance.
    notes: Sequence[str] = ()  #: what the user is warned of.
    calibration: Calibration | None = None  #: None where nothing was calibrated.
    #: root mean square difference of its rates from the lidar's, rad/s; infinite where it is not used.
    error: float = np.inf

    @property
    def doubtful(self) -> bool:
        """Whether it is not known to be what is stated of it."""
        return self.calibration is None or not (self.calibration.usable and self.calibration.as_stated)

    def without(self, reason: str, name: str) -> Imu:
        """The same with its gyroscope left out; `name`: by which the user knows it."""
        notes = [*self.notes, f"{name}: its angular rates are not used for the trajectory: {reason}"]
        return self._replace(used=f"not used: {reason}", gyro=NO_GYRO, vibration=NO_VIBRATION, notes=notes)


def calibrated(
    samples: Samples,
    reference: tuple[np.ndarray, np.ndarray],
    mount: Mount,
    options: OdometryOptions,
    name: str = "imu",
) -> Imu:
    """An IMU that is calibrated against the lidar, or why it is not used.

    Args:
        reference: instants and rates of the lidar, see `SweepReader.rates`.
        mount: of the IMU, as somebody gave it; name: by which the user knows it.
    """
    # Short gaps are interpolated, but a sample that is not valid makes all means around it unknown.
    finite = np.isfinite(samples.rates).all(axis=1)
    times, rates = samples.times[finite], samples.rates[finite]
    found = calibrate(times, rates, *reference, mount=mount.rotation if mount.known else None)
    summary = found.summary()
    if not found.usable:
        notes = [f"{name}: not used for the trajectory: {found.reason}"] if found.contradicts else []
        return Imu(f"not used: {found.reason}", summary=summary, notes=notes, calibration=found)
    times, rates = found.apply(times, rates)
    good = found.damage.good & (np.abs(rates) <= MAX_RATE).all(axis=1)
    times, rates = times[good], rates[good]
    noise = white_noise(rates)
    gyro = Gyro(times, rates, max(_noise(times, rates, reference), noise))
    error = _error(times, rates, reference)
    summary["noise_rad_s"] = [round(noise, 5), round(gyro.noise, 5)]
    slow, vibration = split_rates(times, rates, options.knots)
    if worth_while(vibration, noise, options.knots):
        summary["vibration_deg"] = round(float(np.degrees(np.sqrt((vibration.angle**2).sum(axis=1).mean()))), 4)
        gyro = gyro._replace(rates=slow)
    else:
        vibration = NO_VIBRATION
    return Imu("used", gyro, vibration, summary, [f"{name}: {note}" for note in found.notes], found, error)


def nearest_to_lidar(imus: Mapping[str, Imu]) -> tuple[str, str]:
    """The IMU, of those that can be used, whose rates differ from the lidar's the least; the first one of equals.

    One that is not what is stated of it comes after those that are: constant errors can be calibrated, but nothing says
    that they are constant. Differences from the lidar have its errors and those of the gyroscope. The former are the
    same for all, so that the one that differs less is the better one, however good the lidar is (J. E. Gray and D. W.
    Allan, 28th Symposium on Frequency Control, 1974).

    Args:
        imus: calibrated ones; the first is the one that is taken otherwise.

    Returns:
        Its name, and a line on why it is not the first; "" = it is.
    """
    name, first = min(imus, key=lambda each: (imus[each].doubtful, imus[each].error)), next(iter(imus))
    here, there = imus[first].error, imus[name].error
    why = f"its rates differ from the lidar's by {here:.2g} rad/s, those of {name} by {there:.2g}"
    if imus[first].doubtful:
        why = imus[first].used if np.isinf(here) else "it is not turned or scaled as stated"
    return name, f"{first}: {why}; {name} is used for the trajectory instead" if name != first else ""


def _noise(times: np.ndarray, rates: np.ndarray, reference: tuple[np.ndarray, np.ndarray]) -> float:
    """Standard deviation of a rate as if errors were independent, rad/s, from differences between gyroscope and lidar.

    The lidar's angles have errors of bounded size, so those of its mean rates become small over some tenths of a
    second. What a calibration leaves in the gyroscope's rates, and what is wrong with them besides, stays.
    """
    differences, measured = _differences(times, rates, reference, times)
    differences = differences[measured]
    if not len(differences):
        return np.inf
    deviation = MAD_TO_SD * np.median(np.abs(differences - np.median(differences, axis=0)), axis=0).max()
    return float(deviation * np.sqrt(3 * INTERVAL / np.median(np.diff(times))))


def _error(times: np.ndarray, rates: np.ndarray, reference: tuple[np.ndarray, np.ndarray]) -> float:
    """See `Imu`. Where the gyroscope has no samples, its rates are taken to be on the line between those around."""
    differences, _ = _differences(times, rates, reference, reference[0])
    return float(np.sqrt((differences**2).sum(axis=1).mean()))


def _differences(
    times: np.ndarray, rates: np.ndarray, reference: tuple[np.ndarray, np.ndarray], span: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Differences of the mean rates of gyroscope and lidar, f8 (K, 3), rad/s, over the time of `span` where the lidar's
    are known, and whether the gyroscope's are, bool (K,)."""
    long = 3 * INTERVAL
    begin, known = np.arange(span[0], span[-1] - long, long), np.isfinite(reference[1]).all(axis=1)
    own, measured = Means(times, rates, np.ones(len(times), bool)).over(begin, long)
    lidar, seen = Means(*reference, known).over(begin, long)
    return (own - lidar)[seen], measured[seen]


def level_of(samples: Samples | None, imu: Imu, mount: Mount, trajectory: Trajectory) -> Level:
    """Up in the world of a trajectory, for `odometry.world: gravity`.

    Raises:
        ConfigError: the accelerometer does not determine it, and why.
    """
    samples = with_accelerometer(samples)
    with naming(_NO_LEVEL, ValueError, made=ConfigError, remedy=f"; {_FIRST_POSE}"):
        mount, sigma, offset = _placed(imu, mount)
        return find_level(trajectory, samples.times + offset, samples.acc, mount, sigma)


def contradicted_by(
    samples: Samples | None, imu: Imu, mount: Mount, trajectory: Trajectory
) -> tuple[np.ndarray, Level | None]:
    """Where the accelerometer contradicts a trajectory, bool (frame,), nowhere if there is none that can be trusted.
    And up in the world of the trajectory, None where it does not show it."""
    nowhere = np.zeros(len(trajectory.ts), bool)
    if samples is None or not np.isfinite(samples.acc).any():
        return nowhere, None
    felt = nowhere
    try:
        mount, sigma, offset = _placed(imu, mount)
        times = samples.times + offset
        found = measured(trajectory, times, samples.acc, mount.rotation)
        felt = felt_at_rest(trajectory, found)
        level = find_level(trajectory, times, samples.acc, mount, sigma)
    except ValueError:
        return felt, None
    return felt | contradicted(trajectory.ts, found, level), level


def mirrored(samples: Samples, imu: Imu, mount: Mount, trajectory: Trajectory) -> str:
    """Why the lidar may see a mirrored world, its columns or beams stored in reverse; empty if nothing says so.

    Such a world agrees with itself, so that ranges alone do not show it. Beside it, a gyroscope turns half a turn away
    from its mount. Where the mount is wrong instead, the accelerometer feels the accelerations of the trajectory once
    the IMU is turned as its gyroscope says; in a mirrored world it feels their opposites.

    Args:
        mount: of the IMU, as somebody gave it.
    """
    found = imu.calibration
    turn = None if found is None else found.half_turn
    if found is None or (turn is None and (mount.known or not found.usable)):
        return ""
    rotation, offset = found.model.rotation, found.model.offset
    if not found.usable and turn is not None:
        rotation, offset = matmul(turn, mount.rotation), 0.0
    try:
        level = find_level(trajectory, samples.times + offset, samples.acc, Mount(mount.translation, rotation), 0.0)
        hand = 0 if not level.certain else -1 if level.downward else 1
    except ValueError:
        hand = 0
    if turn is None:
        if hand >= 0:
            return ""
        said = "the accelerometer feels the opposite of the trajectory's accelerations"
        return f"{said}: {_REVERSED}, or the accelerometer gives gravity; {_NOTHING}; rig.imu would show which"
    if hand > 0:
        return ""
    said = "the gyroscope turns half a turn away from the lidar"
    if hand < 0:
        return f"{said}, and the accelerometer feels the opposite of its accelerations: {_REVERSED}; {_NOTHING}"
    return f"{said}: {_REVERSED}, or rig.imu is wrong by half a turn; {_NOTHING}"


def _placed(imu: Imu, mount: Mount) -> tuple[Mount, float, float]:
    """Mount of the IMU, the standard deviation of its rotation, rad, and the offset of its times, s.

    Raises:
        ValueError: it is not known, and why.
    """
    found = imu.calibration
    if found is not None and found.contradicts:
        raise ValueError(f"the IMU cannot be trusted, as its gyroscope shows: {found.reason}")
    if found is not None and found.usable:
        # Axes of gyroscope and accelerometer differ by as much as those of a good mount.
        sigma = float(np.sqrt(eigvalsh(found.fit.cov[:3, :3])[-1]))
        return Mount(mount.translation, found.model.rotation), max(sigma, TOLERANCE[0]), found.model.offset
    if not mount.known:
        reason = "odometry.imu is false" if found is None else found.reason
        raise ValueError(f"how the IMU is turned is not known: section rig does not say, and {reason}")
    return mount, MOUNT_SIGMA, mount.time_offset


def with_accelerometer(samples: Samples | None) -> Samples:
    """The samples, if their accelerometer can show what is up.

    Raises:
        ConfigError: it cannot.
    """
    if samples is None or not np.isfinite(samples.acc).any():
        reason = "there is none" if samples is None else samples.acc_unit
        raise ConfigError(f"{_NO_LEVEL}: imu/acc: {reason}; {_FIRST_POSE}")
    return samples
