"""The odometry of a recording from beginning to end."""

from __future__ import annotations

from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from rover_pipeline.engine.recording import Recording
from rover_pipeline.engine.step import Inspection
from rover_pipeline.kinematics.clock import clock
from rover_pipeline.kinematics.mount import find_mount
from rover_pipeline.kinematics.state import State
from rover_pipeline.lidar.geometry import sensor_info, sweep_span
from rover_pipeline.odometry.observations import NO_GYRO, Gyro
from rover_pipeline.odometry.options import OdometryOptions
from rover_pipeline.odometry.quality import Quality, largest_world, seam_summary, warnings_of
from rover_pipeline.odometry.segments.merge import merge
from rover_pipeline.odometry.segments.parallel import SegmentRegistration, SweepReader, refine_in_batch
from rover_pipeline.odometry.segments.split import split, without_overlap
from rover_pipeline.odometry.spline.bspline import SplineTrajectory

#: Largest angular rate that can be true, rad/s. Larger ones, and NaN, are damage: no gyroscope of a rig measures them.
_MAX_RATE = 100.0


class Imu(NamedTuple):
    """Raw channels of the IMU; None where they are missing.

    Attributes:
        ts: f8 (N,), s.
        avel: (N, 3), rad/s, IMU frame.
        valid: u1 (N,).
    """

    ts: np.ndarray | None
    avel: np.ndarray | None
    valid: np.ndarray | None


def estimate(
    recording: Recording, options: OdometryOptions, metadata: str, config: str | None, imu: Imu
) -> tuple[dict[str, np.ndarray], Inspection]:
    """The lidar's trajectory over a whole recording, with its quality: the channels of `_odom`.

    Args:
        recording: of `rng`, u2 (frame, beam, column), mm, destaggered.
        metadata: `lidar.json`; config: `config.yaml`, which may hold the extrinsics.

    Raises:
        MissingExtraError: loops are asked for, but GTSAM is not installed.
        ValueError: the recording has no sweep.
    """
    if recording.count == 0:
        raise ValueError("there is no sweep")
    if options.loops:
        _load_loops()  # an error now, not after the registration
    reader, gyro_used = _open(recording, options, metadata, config, imu)

    # Segments are registered in parallel, sweep after sweep, and then merged.
    segments = split(reader.times, options.segment, options.overlap)
    registered = recording.map(SegmentRegistration(reader), segments, "register", processes=True)
    trajectory, seams = merge(registered, reader.times)

    # The whole trajectory is refined against the map of all its sweeps, which leaves no seams.
    trajectory, fits = refine_in_batch(reader, trajectory, without_overlap(segments))
    state, quality = trajectory.at(reader.times), Quality.of(fits)
    measured: dict[str, Any] = {
        "segments": len(segments),
        "gyroscope": gyro_used,
        "seams": [seam_summary(seam) for seam in seams],
    }
    if options.loops:
        usable = quality.known() & largest_world(seams, quality.known())
        state, measured["loops"] = _close_loops(reader, state, quality, usable)

    # Poses are valid where the sweep fits the map, in the largest of the worlds of segments that are not connected.
    valid = quality.valid(options) & (recording.valid != 0)
    valid &= largest_world(seams, valid)
    first = int(np.argmax(valid)) if valid.any() else 0
    result = {
        **state._replace(pos=state.pos - state.pos[first]).rotated(state.rot[first].T)._asdict(),
        "inliers": quality.inliers.astype("f4"),
        "residual": quality.residual.astype("f4"),
        "information": quality.information,
        "valid": valid,
    }
    return result, Inspection(measured, warnings_of(seams, valid, recording.valid))


def _load_loops() -> ModuleType:
    """The module of the extra `loops`. Its imports, such as OpenCV, would make every start half a second slower."""
    from rover_pipeline.odometry.loops import closure, pose_graph

    pose_graph.load_gtsam()
    return closure


def _open(
    recording: Recording, options: OdometryOptions, metadata: str, config: str | None, imu: Imu
) -> tuple[SweepReader, str]:
    """The reader of sweeps and angular rates, and whether and why the gyroscope is used."""
    times = clock("lidar", recording.ts, options.times).smooth
    # Seconds since the first sweep. Those since 1970 have too few digits left for a fraction of a microsecond.
    times, origin = times - times[0], times[0]
    gyro, used = _gyro(imu, origin, options, config)
    begin, period = sweep_span(sensor_info(metadata), options.lidar.ts_reference)
    # Compiles kernels here once. Processes are forked from this one, and each of them would have to compile them.
    SplineTrajectory.at_rest(0.0, 1.0, options.knots).at(times[:1])
    return SweepReader(recording, times, begin, period, options, metadata, gyro), used


def _gyro(imu: Imu, origin: float, options: OdometryOptions, config: str | None) -> tuple[Gyro, str]:
    """Angular rates in the lidar frame, at seconds since `origin`, and whether and why they are used."""
    if not options.imu:
        return NO_GYRO, "not asked for"
    if imu.ts is None or imu.avel is None or len(imu.ts) < 2:
        return NO_GYRO, "none recorded"
    mount = find_mount("imu", options.rig, config)
    if not mount.known:
        return NO_GYRO, "not used: section rig does not say how the IMU is turned"
    good = (np.abs(imu.avel) <= _MAX_RATE).all(axis=1)
    if imu.valid is not None:
        good &= imu.valid != 0
    rates = imu.avel[good].astype("f8") @ mount.rotation.T
    return Gyro((clock("imu", imu.ts, options.times).smooth - origin)[good], rates), "used"


def _close_loops(
    reader: SweepReader, state: State, quality: Quality, usable: np.ndarray
) -> tuple[State, dict[str, Any]]:
    """The trajectory without the drift that loops reveal, and a summary for the provenance."""
    recording, options = reader.recording, reader.options
    usable = usable & (recording.valid != 0) & quality.usable_for_loops(options)
    errors = np.full(len(usable), np.inf)
    errors[usable] = quality.information[usable] ** -0.5
    closed: tuple[State, dict[str, Any]] = _load_loops().close_loops(
        state, reader.times, usable, errors, options, sweeps=reader.select, map_ranges=recording.map
    )
    return closed
