"""Virtual sensor `_odom`: the trajectory of the lidar over a recording, from beginning to end."""

from __future__ import annotations

from typing import Any

import numpy as np

from rover_pipeline.engine.recording import Recording
from rover_pipeline.engine.step import Inspection
from rover_pipeline.kinematics.clock import clock
from rover_pipeline.kinematics.mount import find_mount
from rover_pipeline.lidar.geometry import sensor_info, sweep_span
from rover_pipeline.lookup import load
from rover_pipeline.numerics.jumps import jumps, without_jumps
from rover_pipeline.odometry.gaps import gaps
from rover_pipeline.odometry.observations import NO_GYRO, Gyro
from rover_pipeline.odometry.options import OdometryOptions
from rover_pipeline.odometry.quality import (
    Quality,
    companion_warnings,
    implausible,
    jump_warnings,
    largest_part,
    largest_stretch,
    largest_world,
    seam_summary,
    unbridged,
    warnings_of,
    widened,
)
from rover_pipeline.odometry.refinement import refine_in_batch
from rover_pipeline.odometry.registration.covariance import relative_to
from rover_pipeline.odometry.segments import SweepReader, merge, split, without_overlap
from rover_pipeline.odometry.spline import SplineTrajectory

#: Largest angular rate that can be true, rad/s. Larger ones, and NaN, are damage: no gyroscope of a rig measures them.
_MAX_RATE = 100.0
#: Knots of the longest trajectory, which take 400 MB: 400,000 are 10 h.
_MAX_KNOTS = 4_000_000


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
    """The lidar's trajectory over a whole recording, with its quality.

    Args:
        recording: of `rng`, u2 (frame, beam, column), mm, destaggered.
        metadata: `lidar.json`; config: `config.yaml`, which may hold the extrinsics.
        imu_ts, imu_avel, imu_valid: f8 (sample,), s; (sample, 3), rad/s, IMU frame; u1 (sample,).

    Raises:
        MissingExtraError: loops are asked for, but GTSAM is not installed.
        ValueError: the recording has no sweep.
    """
    if recording.count == 0:
        raise ValueError("there is no sweep")
    if options.loops:
        load("rover_pipeline.odometry.loops.pose_graph:load_gtsam")()  # an error now, not after the registration
    recorded = clock("lidar", recording.ts, options.times).smooth
    # The knots of the trajectory are uniform: over the years that a clock skipped they would fill the memory.
    times = without_jumps(recorded, recorded)
    # Seconds since the first sweep. Those since 1970 have too few digits left for a fraction of a microsecond.
    times, origin = times - times[0], times[0]
    if times[-1] > _MAX_KNOTS * options.knots:
        hours = f"{recording.count} sweeps span {times[-1] / 3600:.1f} h"
        raise ValueError(f"{hours}, more than any recording; split it where lidar/ts has gaps")
    gyro, gyro_used = _gyro(imu_ts, imu_avel, imu_valid, options, config)
    gyro = _placed(gyro, recorded, origin)
    begin, period = sweep_span(sensor_info(metadata), options.lidar.ts_reference)
    reader = SweepReader(recording, times, begin, period, options, metadata, gyro)
    # Compiles kernels here once. Processes are forked from this one, and each of them would have to compile them.
    SplineTrajectory.at_rest(0.0, 1.0, options.knots).at(times[:1])

    # Segments are registered in parallel, sweep after sweep, and then merged.
    segments = split(times, options.segment, options.overlap, gaps(times, recording.valid != 0))
    registered = recording.map(reader.register, segments, "register", processes=True)
    trajectory, seams = merge(registered, times, gyro)

    # The whole trajectory is refined against the map of all its sweeps, which leaves no seams.
    batch = refine_in_batch(reader, trajectory, without_overlap(segments))
    state, cov = batch.trajectory.at(times), batch.covariances(times)
    quality = Quality.of(batch, cov)
    summaries = [seam_summary(seam) for seam in seams]
    measured: dict[str, Any] = {
        "segments": len(segments),
        "gyroscope": gyro_used,
        "seams": summaries,
        "noise": round(batch.noise, 3),
    }
    if options.loops:
        # Its imports, such as OpenCV, would make every start half a second slower.
        close_loops = load("rover_pipeline.odometry.loops.closure:close_loops")
        usable = quality.usable_for_loops(options) & (recording.valid != 0)
        usable &= largest_world(seams, np.isfinite(quality.inliers))
        errors = np.full(len(usable), np.inf)
        errors[usable] = quality.information[usable] ** -0.5
        state, measured["loops"] = close_loops(
            state, times, usable, errors, options, sweeps=reader.select, map_ranges=recording.map
        )

    # Poses are valid where the sweep fits the map, in the largest of the worlds of segments that are not connected.
    companions = quality.among_companions(options, state, times)
    valid = quality.valid(options, state, times) & (recording.valid != 0)
    valid &= largest_world(seams, valid)
    lost = widened(companions | implausible(state, times) | quality.torn(options, times), times)
    lost |= unbridged(np.isfinite(quality.inliers), times, {seam.frame for seam in seams})
    valid &= largest_stretch(lost, valid)
    after = jumps(recorded)
    valid &= largest_part(after, valid)
    first = int(np.argmax(valid)) if valid.any() else 0
    result = {
        **state._replace(pos=state.pos - state.pos[first]).rotated(state.rot[first].T)._asdict(),
        "inliers": quality.inliers.astype("f4"),
        "residual": quality.residual.astype("f4"),
        "information": quality.information,
        "cov": relative_to(cov, state, first).astype("f4"),
        "valid": valid,
    }
    warnings = [
        *jump_warnings(recorded, after),
        *companion_warnings(companions),
        *warnings_of(seams, valid, recording.valid),
    ]
    return result, Inspection(measured, warnings)


def _placed(gyro: Gyro, sweeps: np.ndarray, origin: float) -> Gyro:
    """Rates at seconds after the first sweep, without those in a jump of the clock, whose instant is not known.

    Args:
        sweeps: f8 (frame,), times of the sweeps, seconds, which tell of the jumps; origin: time of the first one.
    """
    times = without_jumps(gyro.times, sweeps) - origin
    known = np.isfinite(times)
    return Gyro(times[known], gyro.rates[known])


def _gyro(
    ts: np.ndarray | None,
    avel: np.ndarray | None,
    valid: np.ndarray | None,
    options: OdometryOptions,
    config: str | None,
) -> tuple[Gyro, str]:
    """Angular rates in the lidar frame, and whether and why they are used; arguments as in `odom`."""
    if not options.imu:
        return NO_GYRO, "not asked for"
    if ts is None or avel is None or len(ts) < 2:
        return NO_GYRO, "none recorded"
    mount = find_mount("imu", options.rig, config)
    if not mount.known:
        return NO_GYRO, "not used: section rig does not say how the IMU is turned"
    good = (np.abs(avel) <= _MAX_RATE).all(axis=1)
    if valid is not None:
        good &= valid != 0
    return Gyro(clock("imu", ts, options.times).smooth[good], avel[good].astype("f8") @ mount.rotation.T), "used"
