"""Virtual sensor `_odom`: where the lidar was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rover_pipeline.engine.recording import Recording
from rover_pipeline.engine.step import Inspection
from rover_pipeline.kinematics.mount import find_mount
from rover_pipeline.odometry.options import OdometryOptions

# Numba and SciPy take long to import, and the Snakefile, which reads this module, needs none of them.
if TYPE_CHECKING:
    from rover_pipeline.kinematics.state import State
    from rover_pipeline.odometry.observations import Fit, Gyro
    from rover_pipeline.odometry.parts import Reader
    from rover_pipeline.odometry.segments import Seam

#: Differences of the two sides of a seam above which the user is told, metres and degrees.
_WIDE_SEAM = 0.05, 0.5
#: Angular rates beyond the range of any gyroscope of a rig are damage, as NaN is; rad/s.
_FASTEST = 100.0


def odom(
    recording: Recording,
    *,
    options: OdometryOptions,
    metadata: str,
    config: str | None = None,
    imu_ts: np.ndarray | None = None,
    imu_avel: np.ndarray | None = None,
    imu_valid: np.ndarray | None = None,
) -> tuple[dict[str, np.ndarray], Inspection]:
    """The lidar's trajectory over a whole recording.

    Args:
        recording: of `rng`, u2 (frame, beam, column), mm, destaggered.
        metadata: `lidar.json`; config: `config.yaml`, which may hold the extrinsics.
        imu_ts, imu_avel, imu_valid: f8 (sample,), s; (sample, 3), rad/s, IMU frame; u1 (sample,).
    """
    from rover_pipeline.kinematics.timestamps import smooth_times
    from rover_pipeline.lidar.geometry import sensor_info, sweep_span
    from rover_pipeline.odometry.parts import Reader, Registration, refined
    from rover_pipeline.odometry.segments import join, split, without_overlap
    from rover_pipeline.odometry.trajectory import Trajectory

    if recording.count == 0:
        raise ValueError("there is no sweep")
    if options.loops:
        from rover_pipeline.odometry.pose_graph import library

        library()  # missed now, not after the registration
    times = smooth_times(recording.ts).smooth
    # Since the first sweep: since 1970 they have no digits to spare.
    times, origin = times - times[0], times[0]
    gyro, told = _gyro(imu_ts, imu_avel, imu_valid, origin, options, config)
    begin, period = sweep_span(sensor_info(metadata), options.lidar.ts_reference)
    reader = Reader(recording, times, begin, period, options, metadata, gyro)
    parts = split(times, options.segment, options.overlap)
    # Readies compiled code here, once: processes are forked from this one, and each would need as long.
    Trajectory.at_rest(0.0, 1.0, options.knots).at(times[:1])
    trajectory, seams = join(recording.map(Registration(reader), parts, "register", processes=True), times)
    trajectory, fits = refined(recording, reader, trajectory, without_overlap(parts))

    state = trajectory.at(times)
    quality = np.array([_quality(each) for each in fits])
    known = ~np.isnan(quality).any(axis=1)
    measured: dict[str, Any] = {"segments": len(parts), "gyroscope": told, "seams": [_seam(each) for each in seams]}
    if options.loops:
        state, measured["loops"] = _closed(reader, state, quality, known & _connected(seams, known))
    valid = known & (recording.valid != 0)
    valid[known] &= quality[known, 0] >= options.min_inliers
    valid[known] &= quality[known, 1] <= options.max_residual
    valid[known] &= quality[known, 2] >= options.max_error**-2
    valid &= _connected(seams, valid)
    first = int(np.argmax(valid)) if valid.any() else 0
    turn = state.rot[first].T
    result = {
        "pos": (state.pos - state.pos[first]) @ turn.T,
        "rot": turn @ state.rot,
        "vel": state.vel @ turn.T,
        "acc": state.acc @ turn.T,
        "avel": state.avel,
        "inliers": quality[:, 0].astype("f4"),
        "residual": quality[:, 1].astype("f4"),
        "information": quality[:, 2],
        "valid": valid,
    }
    return result, Inspection(measured, _warnings(seams, valid, recording.valid))


def _closed(reader: Reader, state: State, quality: np.ndarray, known: np.ndarray) -> tuple[State, dict[str, Any]]:
    """The trajectory without the drift that loops tell of, and figures about them.

    Args:
        known: bool (frame,), frames whose quality is known.
    """
    from rover_pipeline.odometry.loops import close_loops

    options, recording = reader.options, reader.recording
    good = known & (recording.valid != 0)
    good[known] &= (quality[known, 0] >= options.min_inliers) & (quality[known, 2] > 0)
    errors = np.full(len(good), np.inf)
    errors[good] = quality[good, 2] ** -0.5
    return close_loops(state, reader.times, good, errors, options, sweeps=reader.some, spread=recording.map)


def _gyro(
    ts: np.ndarray | None,
    avel: np.ndarray | None,
    valid: np.ndarray | None,
    origin: float,
    options: OdometryOptions,
    config: str | None,
) -> tuple[Gyro, str]:
    """Angular velocities in the lidar frame, by seconds since `origin`, and whether and why they are used."""
    from rover_pipeline.kinematics.timestamps import smooth_times
    from rover_pipeline.odometry.observations import NO_GYRO, Gyro

    if not options.imu:
        return NO_GYRO, "not asked for"
    if ts is None or avel is None or len(ts) < 2:
        return NO_GYRO, "none recorded"
    mount = find_mount("imu", options.rig, config)
    if not mount.known:
        return NO_GYRO, "not used: section rig does not say how the IMU is turned"
    good = (np.abs(avel) <= _FASTEST).all(axis=1) & (np.ones(len(ts), bool) if valid is None else valid != 0)
    rates = avel[good].astype("f8") @ mount.rotation.T
    return Gyro((smooth_times(ts).smooth - origin)[good], rates), "used"


def _quality(fit: Fit | None) -> tuple[float, float, float]:
    """Inlier ratio, residual, smallest eigenvalue of the information."""
    if fit is None or not np.isfinite(fit.matrix).all():
        return np.nan, np.nan, np.nan
    matrix = fit.matrix.copy()
    # A rotation by an angle moves a point by its distance times the angle.
    spread = np.sqrt(max(np.trace(matrix[3:, 3:]), 1e-12) / max(np.trace(matrix[:3, :3]), 1e-12))
    matrix[3:] /= spread
    matrix[:, 3:] /= spread
    return fit.inliers, fit.residual, float(max(np.linalg.eigvalsh(matrix)[0], 0.0))


def _seam(seam: Seam) -> dict[str, Any]:
    return {
        "frame": seam.frame,
        "metres": float(f"{seam.metres:.3g}"),
        "degrees": float(f"{seam.degrees:.3g}"),
        "planes": seam.planes,
    }


def _connected(seams: list[Seam], valid: np.ndarray) -> np.ndarray:
    """Which frames are in the same world, bool (frame,): of the parts that hold together, those with the most frames.

    Args:
        valid: bool (frame,), frames that count.
    """
    group = np.zeros(len(valid), int)
    for seam in seams:
        group[seam.frame :] += not seam.holds
    return group == np.argmax(np.bincount(group, valid))


def _warnings(seams: list[Seam], valid: np.ndarray, raw: np.ndarray) -> list[str]:
    warnings = []
    for seam in seams:
        if not seam.holds:
            warnings.append(
                f"frame {seam.frame}: the parts that meet here have seen nothing in common; only those on one side are "
                "trusted"
            )
        elif not (seam.metres <= _WIDE_SEAM[0] and seam.degrees <= _WIDE_SEAM[1]):
            warnings.append(
                f"frame {seam.frame}: the parts that meet here differ by {seam.metres:.3f} m and {seam.degrees:.2f} "
                "degrees; a longer odometry.overlap may help"
            )
    lost = int((~valid & (raw != 0)).sum())
    if lost:
        warnings.append(f"{lost} of {len(valid)} sweeps are not to be trusted: see inliers, residual and information")
    return warnings
