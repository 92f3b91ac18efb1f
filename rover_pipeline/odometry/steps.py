"""Virtual sensor `_odom`: the trajectory of the lidar over a recording, from beginning to end."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from rover_pipeline.clocks.clock import clock
from rover_pipeline.engine.recording import Recording
from rover_pipeline.engine.step import Inspection
from rover_pipeline.kinematics.gravity import remove_tilt
from rover_pipeline.kinematics.mount import find_mount
from rover_pipeline.kinematics.options import OwnRegion
from rover_pipeline.kinematics.state import Poses
from rover_pipeline.kinematics.stated import find_own
from rover_pipeline.kinematics.trajectory import Trajectory
from rover_pipeline.lidar.sweeps import lidar_reader
from rover_pipeline.lookup import load
from rover_pipeline.numerics.jumps import jumps, without_jumps
from rover_pipeline.numerics.linear import matmul
from rover_pipeline.numerics.prepare import prepare
from rover_pipeline.odometry.clouds import ScanReader
from rover_pipeline.odometry.degeneracy import Degeneracy, degeneracy_warnings
from rover_pipeline.odometry.distortion import distortion, rate_remarks
from rover_pipeline.odometry.gaps import LONGEST, gaps
from rover_pipeline.odometry.inertial import Imu, Samples, calibrated, contradicted_by, level_of, with_accelerometer
from rover_pipeline.odometry.mirror import mirrored
from rover_pipeline.odometry.options import OdometryOptions
from rover_pipeline.odometry.quality import (
    Quality,
    as_measured,
    brief,
    implausible,
    largest_part,
    largest_stretch,
    largest_world,
    unbridged,
    widened,
)
from rover_pipeline.odometry.refinement import refine_in_batch
from rover_pipeline.odometry.registration.covariance import relative_to
from rover_pipeline.odometry.remarks import (
    TOO_DEEP,
    beam_warnings,
    companion_warnings,
    contradiction_warnings,
    jump_warnings,
    seam_summary,
    traffic_warnings,
    warnings_of,
)
from rover_pipeline.odometry.segments import Registration, SweepReader, merge, split, without_overlap
from rover_pipeline.odometry.self_returns import disagreement, warnings_of_candidates

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
    imu_acc: np.ndarray | None = None,
    imu_valid: np.ndarray | None = None,
) -> tuple[dict[str, np.ndarray], Inspection]:
    """The lidar's trajectory over a whole recording, with its quality.

    Args:
        recording: of `rng`, u2 (frame, beam, column), mm, destaggered, or of points, as `ScanReader` takes them.
        metadata: `lidar.json`; config: `config.yaml`, which may hold the extrinsics.
        imu_ts, imu_avel, imu_acc, imu_valid: f8 (sample,), s; (sample, 3), rad/s, IMU frame; (sample, 3), m/s2; u1
            (sample,).

    Raises:
        MissingExtraError: loops are asked for, but GTSAM is not installed.
        ValueError: the recording has no sweep, or sweeps of another length than `lidar.json` says.
    """
    if recording.count == 0:
        raise ValueError("there is no sweep")
    declared = find_own(options.rig, config)
    seen = ScanReader(recording, options, metadata).may_be_own() if declared is None else ()
    estimate = functools.partial(
        _estimate, recording, options=options, metadata=metadata, config=config,
        imu_ts=imu_ts, imu_avel=imu_avel, imu_acc=imu_acc, imu_valid=imu_valid,
    )  # fmt: skip
    if not seen:
        return estimate(own=declared or ())
    rival = estimate(own=seen)[0]
    return estimate(own=(), seen=seen, rival=Poses(rival["rot"], rival["pos"]))


def _estimate(
    recording: Recording,
    *,
    own: tuple[OwnRegion, ...],
    seen: tuple[OwnRegion, ...] = (),
    rival: Poses | None = None,
    options: OdometryOptions,
    metadata: str,
    config: str | None,
    imu_ts: np.ndarray | None,
    imu_avel: np.ndarray | None,
    imu_acc: np.ndarray | None,
    imu_valid: np.ndarray | None,
) -> tuple[dict[str, np.ndarray], Inspection]:
    """The same, where it is settled what belongs to the rig.

    Args:
        own: where the rig itself is seen, which is left out.
        seen: where it may be seen, which is not left out; rival: the poses where it is.
    """
    if options.loops:
        load("rover_pipeline.odometry.loops.pose_graph:load_gtsam")()  # an error now, not after the registration
    lidar_clock = clock("lidar", recording.ts, options.times)
    recorded = lidar_clock.smooth
    # The knots of the trajectory are uniform: over the years that a clock skipped they would fill the memory.
    times = without_jumps(recorded, recorded)
    # Seconds since the first sweep. Those since 1970 have too few digits left for a fraction of a microsecond.
    times, origin = times - times[0], times[0]
    if times[-1] > _MAX_KNOTS * options.knots:
        hours = f"{recording.count} sweeps span {times[-1] / 3600:.1f} h"
        raise ValueError(f"{hours}, more than any recording; split it where lidar/ts has gaps")
    remarks = rate_remarks(ScanReader(recording, options, metadata))
    mount = find_mount("imu", options.rig, config)
    samples = None
    if imu_ts is not None and imu_avel is not None and len(imu_ts) > 1:
        samples = Samples.of((imu_ts, imu_avel, imu_acc, imu_valid), options, recorded, origin)
    if options.world == "gravity":
        with_accelerometer(samples)  # an error now, not after the registration
    lidar = lidar_reader(metadata, options.lidar.ts_reference)
    reader = SweepReader(recording, times, *lidar.span, options, metadata, own)
    if recording.forks:
        # Each of the processes that are forked from this one would have to compile the kernels.
        prepare(["odometry"])

    # Segments are registered in parallel, sweep after sweep, and then merged. The IMU is calibrated in between.
    segments = split(times, options.segment, options.overlap, gaps(times, recording.valid != 0))
    ranges = without_overlap(segments)
    with recording.exchange() as store:
        registration = Registration(reader, segments, store)
        trajectories = registration.trajectories()
        imu = Imu("not asked for" if not options.imu else "none recorded")
        if options.imu and samples is not None:
            rates = reader.rates(trajectories, ranges)
            imu = calibrated(samples, rates, mount, options)
        trajectory, seams = merge(registration.segments(trajectories), times, imu.gyro)

    # The whole trajectory is refined against the map of all its sweeps, which leaves no seams.
    batch, dropped = refine_in_batch(reader, trajectory, ranges, imu)
    if dropped:
        imu = imu.without(dropped)
    state, cov = batch.states(times), batch.covariances(times)
    quality = Quality.of(batch, cov)
    cov = as_measured(cov, batch.fits, batch.noise, times)
    summaries = [seam_summary(seam) for seam in seams]
    measured: dict[str, Any] = {
        "segments": len(segments),
        "gyroscope": imu.used,
        **({"imu": imu.summary} if imu.summary else {}),
        "seams": summaries,
        "noise": round(batch.noise, 3),
        "depth": batch.errors.depth.round(2).tolist(),
        "beams": batch.beams(),
        "correlation": np.round(batch.errors.common, 3).tolist(),
        "follows": round(batch.follows, 3),
    }
    held = None if lidar.duration else distortion(reader, batch.trajectory, lidar.period)
    if held is not None:
        measured["motion_in_sweeps"] = held.summary()
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
    traffic = quality.among_traffic(state, times)
    valid &= ~traffic & largest_world(seams, valid)
    unsure = companions | traffic | ~(quality.information >= options.max_error**-2)
    degeneracy = Degeneracy.of(batch.fits, batch.noise, state, unsure, options.max_error)
    against, mirror = np.zeros(len(times), bool), ""
    if options.imu and samples is not None:
        # Between the sweeps at both sides of a gap the motion is a guess, which the accelerometer may well contradict.
        trusted = Trajectory(times, state, valid, max_gap=LONGEST)
        against, mirror = contradicted_by(samples, imu, mount, trusted), mirrored(samples, imu, mount, rates, trusted)
    lost = widened(companions | traffic | implausible(state, times) | quality.torn(options, times) | against, times)
    differ = np.zeros(len(times), bool) if rival is None else disagreement(state, rival, times, options.max_error)
    lost |= differ | unbridged(np.isfinite(quality.inliers), times, {seam.frame for seam in seams})
    valid &= largest_stretch(lost, valid)
    after = jumps(recorded)
    valid &= largest_part(after, valid) & (not mirror)
    valid &= not batch.system.too_deep
    valid &= ~brief(valid, np.isfinite(quality.inliers), times)
    first = int(np.argmax(valid)) if valid.any() else 0
    world = state.rot[first].T
    if options.world == "gravity" and valid.any():
        level = level_of(samples, imu, mount, Trajectory(times, state, valid, max_gap=LONGEST))
        measured["gravity"] = level.summary()
        world = matmul(remove_tilt(state.rot[first, None], level.up)[0], world)
    degenerate = degeneracy.summary(world)
    if degenerate:
        measured["degenerate"] = degenerate
    result = {
        **state._replace(pos=state.pos - state.pos[first]).rotated(world)._asdict(),
        "inliers": quality.inliers.astype("f4"),
        "residual": quality.residual.astype("f4"),
        "information": quality.information,
        "cov": relative_to(cov + degeneracy.cov, state, first).astype("f4"),
        "valid": valid,
    }
    warnings = [
        *lidar.notes,
        *remarks,
        *(held.warnings() if held is not None else []),
        *warnings_of_candidates(seen, differ),
        *jump_warnings(recorded, after),
        *imu.notes,
        *([mirror] if mirror else []),
        *contradiction_warnings(against),
        *([TOO_DEEP] if batch.system.too_deep else []),
        *lidar_clock.remarks("lidar"),
        *companion_warnings(companions),
        *traffic_warnings(traffic),
        *beam_warnings(**measured["beams"]),
        *degeneracy_warnings(degenerate),
        *warnings_of(seams, valid, recording.valid),
    ]
    return result, Inspection(measured, warnings)
