"""Virtual sensors made from the IMU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rover_pipeline.clocks.clock import clock
from rover_pipeline.engine.recording import Recording
from rover_pipeline.engine.step import Inspection
from rover_pipeline.errors import counted
from rover_pipeline.imu.motion_bias import MotionBias
from rover_pipeline.imu.options import ImuOptions
from rover_pipeline.imu.orientation import orient
from rover_pipeline.imu.saturation import at_limit, contradicted, damaged
from rover_pipeline.imu.units import RATES, units_of
from rover_pipeline.numerics.blocks import blocks
from rover_pipeline.numerics.linear import eigvalsh


def filtered(recording: Recording, *, options: ImuOptions) -> Iterator[dict[str, np.ndarray] | Inspection]:
    """Samples of the IMU without bias, and the orientation that they show.

    Yields:
        `acc`, `avel` f4 (frame, 3), m/s2 and rad/s, `quat` f4 (frame, 4) as x y z w, world-from-imu; and where the
        biases are from. Samples that are not finite, that a frozen sensor repeats, that are larger than any IMU
        measures, or at the limit of the sensor's range, are not valid.
    """
    memory = recording.memory()
    acc, avel = (memory.hold(recording.read(name, 0, recording.count)) for name in ("acc", "avel"))
    if acc.shape[1:] != (3,) or avel.shape[1:] != (3,):
        raise ValueError(f"acc and avel must be of three axes, are {acc.shape[1:]} and {avel.shape[1:]}")
    trusted, warnings = recording.valid != 0, []
    times = clock("imu", recording.ts, options.times)
    period = times.period if np.isfinite(times.period) else 0.01  # s; the recording is too short to show it
    units = units_of(times.best[trusted], acc[trusted], avel[trusted])
    if units.acc == "g":
        acc = (acc * units.factor).astype("f4")
        warnings.append("imu: acc is in g, as the size of gravity shows; it is written in m/s2, as meta.json says")
    if units.avel != "rad/s":
        avel = (avel * RATES[units.avel]).astype("f4")
        warnings.append(
            f"imu: avel is in {units.avel}: only so do accelerations that are turned back have gravity as their mean; "
            "it is written in rad/s, as meta.json says"
        )
    known = np.full(len(acc), np.isfinite(units.factor) and not units.mirrored)
    if not np.isfinite(units.factor):
        warnings.append(f"imu: acc: {units.acc}: no sample is valid")
    if units.mirrored:
        warnings.append(
            "imu: gravity turns the other way about than avel says: two axes are exchanged, or one has the wrong sign: "
            "no sample is valid"
        )
    if (bad := trusted & damaged(acc, avel, period, options)).any():
        trusted &= ~bad
        known &= ~bad
        warnings.append(
            f"imu: {counted(bad.sum(), 'sample')} larger than any IMU measures, or repeated by a frozen sensor; the "
            f"first is {np.argmax(bad)}"
        )
    result = orient(times.best, acc, avel, period, options, trusted, memory)
    if (bad := contradicted(times.best, np.where(trusted[:, None], acc, np.nan), result.quat)).any():
        known &= ~bad
        warnings.append(
            f"imu: from sample {np.argmax(bad)} on, the gyroscope and the accelerometer contradict each other, by more "
            f"than a motion explains: {counted(bad.sum(), 'sample')} not valid; axes may be exchanged, or a bias jumped"
        )
    measured: dict[str, Any] = {
        "rate_hz": round(1 / period, 3),
        "still_s": [[round(time - times.best[0], 3) for time in each] for each in result.stationary],
        "turning_s": [[round(time - times.best[0], 3) for time in turn] for turn in result.turns],
        "gyro_bias_from": "rest" if result.stationary else "motion",
        "gyro_bias_rad_s": result.gyro_bias.round(6).tolist(),
        "acc_bias_from": "rest" if result.stationary and options.acc_bias_sigma else "none",
        "acc_bias_m_s2": result.acc_bias.round(5).tolist(),
    }
    if not result.stationary:
        warnings.append(
            "imu: was never at rest: the gyro's bias is estimated from the motion, which is less certain "
            f"({_uncertainty(result.motion)}), and the accelerometer's is taken for 0"
        )
    if result.doubt:
        warnings.append(
            f"imu: a bias of {result.doubt:.3f} rad/s about the vertical is what its only rest shows; a steady turn "
            "looks the same, so the heading may drift by that: record a second rest"
        )
    if result.turns:
        seconds = sum(stop - start for start, stop in result.turns)
        warnings.append(
            f"imu: stationary by its looks, but in contradiction to the rest, and taken for steady turns: "
            f"{counted(len(result.turns), 'interval')} of {seconds:.1f} s"
        )
    if gaps := result.gaps:
        warnings.append(f"imu: {counted(len(gaps), 'gap')} of up to {max(gaps):.1f} s: how far it turned is unknown")
    for name, values, unit in (("acc", acc, "m/s2"), ("avel", avel, "rad/s")):
        known &= np.isfinite(values).all(axis=1)
        if (limited := at_limit(np.where(trusted[:, None], values, np.nan))).any():
            known &= ~limited.any(axis=1)
            largest = np.abs(np.where(limited, values, 0)).max()
            warnings.append(
                f"imu: {counted(limited.any(axis=1).sum(), 'sample')} of {name}, of {len(values)}, at the limit of the "
                f"sensor's range, {largest:.4g} {unit}: what it did there is not known; set it to a larger range"
            )
    warnings += times.remarks("imu")
    for part in blocks(len(acc)):
        unbiased = (acc[part].astype("f8") - result.acc_bias).astype("f4")
        turning = {"avel": result.avel[part].astype("f4"), "quat": result.quat[part].astype("f4")}
        yield {"acc": unbiased, **turning, "valid": known[part].astype("u1")}
    yield Inspection(measured, warnings)


def _uncertainty(motion: MotionBias | None) -> str:
    if motion is None:
        return "the recording is too short to say by how much"
    best, _, worst = np.sqrt(eigvalsh(motion.gyro_cov))
    return f"standard deviation {best:.4f} to {worst:.4f} rad/s by axis; about the vertical the heading drifts by it"
