"""Virtual sensor `_odom`: the trajectory of the lidar over a recording, from beginning to end."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from rover_pipeline.clocks.clock import clock
from rover_pipeline.engine.recording import Recording
from rover_pipeline.engine.step import Inspection
from rover_pipeline.kinematics.mount import find_mount, mount_entry
from rover_pipeline.kinematics.rotation import remove_tilt
from rover_pipeline.kinematics.stated import find_own
from rover_pipeline.kinematics.trajectory import Trajectory
from rover_pipeline.lookup import load
from rover_pipeline.numerics.blocks import release
from rover_pipeline.numerics.jumps import jumps, without_jumps
from rover_pipeline.numerics.linear import matmul
from rover_pipeline.numerics.prepare import prepare
from rover_pipeline.odometry.clouds import ScanReader
from rover_pipeline.odometry.degeneracy import degeneracy_warnings, open_directions
from rover_pipeline.odometry.distortion import distortion, rate_remarks
from rover_pipeline.odometry.inertial import (
    Imu,
    Samples,
    calibrated,
    contradicted_by,
    level_of,
    mirrored,
    nearest_to_lidar,
    with_accelerometer,
)
from rover_pipeline.odometry.options import OdometryOptions
from rover_pipeline.odometry.other_lidars import other_lidars
from rover_pipeline.odometry.quality import (
    Quality,
    Refusal,
    as_measured,
    largest_part,
    trusted,
    unconnected,
    without_tilt,
)
from rover_pipeline.odometry.refinement import refine_in_batch
from rover_pipeline.odometry.registration.covariance import relative_to
from rover_pipeline.odometry.remarks import (
    TOO_DEEP,
    beam_warnings,
    doubt_warnings,
    jump_warnings,
    seam_summary,
    warnings_of,
)
from rover_pipeline.odometry.segments import (
    MAX_BRIDGED,
    SweepReader,
    gaps,
    merge,
    register_segments,
    split,
    with_maps,
    without_overlap,
)

#: Knots of the longest trajectory, which take 400 MB: 400,000 are 10 h. Schedule.
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
    if options.loops:
        load("rover_pipeline.odometry.loops.closure:load_gtsam")()  # an error now, not after the registration
    lidar_clock = clock("lidar", recording.ts, options.times)
    recorded = lidar_clock.best
    # The knots of the trajectory are uniform: over the years that a clock skipped they would fill the memory.
    times = without_jumps(recorded, recorded)
    # Seconds since the first sweep. Those since 1970 have too few digits left for a fraction of a microsecond.
    times, origin = times - times[0], times[0]
    if times[-1] > _MAX_KNOTS * options.knots:
        hours = f"{recording.count} sweeps span {times[-1] / 3600:.1f} h"
        raise ValueError(f"{hours}, more than any recording; split it where lidar/ts has gaps")
    remarks = rate_remarks(ScanReader(recording, options, metadata))
    given: dict[str, Mapping[str, Any]] = {
        "imu": {"imu_ts": imu_ts, "imu_avel": imu_avel, "imu_acc": imu_acc, "imu_valid": imu_valid}
    }
    if options.imu is True:  # a name means that one alone
        given |= {name: each.whole for name, each in recording.others.items()}
    arguments = options, recorded, origin, recording.memory()
    imus = {
        name: (Samples.of((ts, avel, acc, good), *arguments), find_mount(name, options.rig, config))
        for name, each in given.items()
        for ts, avel, acc, good in [map(each.get, ("imu_ts", "imu_avel", "imu_acc", "imu_valid"))]
        if ts is not None and avel is not None and len(ts) > 1
    }
    samples, mount = next(iter(imus.values()), (None, find_mount("imu", options.rig, config)))
    if options.world == "gravity":
        with_accelerometer(samples)  # an error now, not after the registration
    segments = split(times, options.segment, options.overlap, gaps(times, recording.valid != 0))
    ranges = without_overlap(segments)
    reader = SweepReader(recording, options, metadata, declared or (), times=times, ranges=ranges)
    lidar = reader.lidar
    if recording.forks:
        # Each of the processes that are forked from this one would have to compile the kernels.
        prepare(["odometry"])

    # Segments are registered in parallel, sweep after sweep, and then merged. The IMU is calibrated in between.
    with recording.exchange() as store:
        trajectories = register_segments(reader, segments, store)
        imu, chosen, instead = Imu("not asked for" if not options.imu else "none recorded"), "", ""
        if options.imu and imus:
            rates = reader.rates(trajectories)
            found = {name: calibrated(each, rates, mount, options, name) for name, (each, mount) in imus.items()}
            chosen, instead = nearest_to_lidar(found)
            imu, (samples, mount) = found[chosen], imus[chosen]
        trajectory, seams = merge(with_maps(segments, trajectories, store), times, imu.gyro)

    # The whole trajectory is refined against the map of all its sweeps, which leaves no seams.
    apart = {number for number, seam in enumerate(seams, 1) if not seam.connected}
    reader = replace(reader, apart=apart)
    beside, left_out = other_lidars(recording, reader, config, origin)
    refined = refine_in_batch(reader, trajectory, imu, beside)
    del trajectories, trajectory  # each is as long as the recording
    batch, sweeps, left_out = refined.batch, refined.sweeps, {**left_out, **refined.left_out}
    if refined.dropped:
        imu = imu.without(refined.dropped, chosen)
    state = batch.states(times)
    # What each of these frees is returned to the system, so that the next one does not add to it.
    cov = batch.covariances(times)
    release()
    cov = without_tilt(cov, sweeps, batch.fits, state.rot, times)
    release()
    quality = Quality.of(batch, sweeps, cov, state, times)
    release()
    cov = as_measured(cov, sweeps.motion, batch.fits, batch.noise, times)
    used = np.isfinite(quality.inliers)
    measured: dict[str, Any] = {
        "segments": len(segments),
        "gyroscope": imu.used,
        **({"imu": imu.summary} if imu.summary else {}),
        "seams": [seam_summary(seam) for seam in seams],
        "noise": round(batch.noise, 3),
        "range_noise": round(min(batch.errors.noise, options.range_noise), 5),
        "depth": batch.errors.depth.round(2).tolist(),
        "beams": batch.beams(),
        "correlation": np.round(batch.errors.common, 3).tolist(),
        "missing_information": round(batch.missing_information, 3),
    }
    if chosen and {*imus} != {"imu"}:
        off = {name: round(each.error, 6) if np.isfinite(each.error) else None for name, each in found.items()}
        measured["imus"] = {"used": chosen, "error_rad_s": off}
    if refined.used or left_out:
        mounts = {name: mount.summary() for name, mount in refined.mounts.items()}
        measured["lidars"] = {"used": [each.name for each in refined.used], "left_out": left_out, "mounts": mounts}
    held = None if lidar.duration else distortion(reader, batch.trajectory, lidar.period)
    if held is not None:
        measured["motion_in_sweeps"] = held.summary()
    if options.loops:
        # Its imports, such as OpenCV, would make every start half a second slower.
        close_loops = load("rover_pipeline.odometry.loops.closure:close_loops")
        # Drift makes residuals large, which therefore do not decide.
        usable = (quality.inliers >= options.min_inliers) & (quality.information > 0) & (recording.valid != 0)
        usable &= largest_part(unconnected(seams), used)
        errors = np.full(len(usable), np.inf)
        errors[usable] = quality.information[usable] ** -0.5
        state, measured["loops"] = close_loops(
            state, times, usable, errors, options, sweeps=reader.select, map_ranges=recording.map
        )

    refusals = quality.refused(options, state, times)
    by_rule = {refusal.rule: refusal.frames for refusal in refusals}
    against, mirror, felt = np.zeros(len(times), bool), "", None
    if options.imu and samples is not None:
        # The accelerometer is compared with what the ranges show, and not with the guess across a gap.
        known = trusted(refusals, times, recording.valid != 0, used, seams, np.zeros(0, int))
        motion = Trajectory(times, state, known, max_gap=MAX_BRIDGED)
        against, felt = contradicted_by(samples, imu, mount, motion)
        mirror = mirrored(samples, imu, mount, motion)
    refusals += [
        Refusal("accelerometer", against, parts=True),
        Refusal("mirrored", np.full(len(times), bool(mirror))),
        Refusal("too_deep", np.full(len(times), batch.system.is_too_deep)),
    ]
    after = jumps(recorded)
    valid = trusted(refusals, times, recording.valid != 0, used, seams, after)
    measured["refused"] = {refusal.rule: int(refusal.frames.sum()) for refusal in refusals if refusal.frames.any()}
    doubted = by_rule["companions"] | by_rule["one_side"] | by_rule["traffic"] | by_rule["uncertain"]
    first = int(np.argmax(valid)) if valid.any() else 0
    world = state.rot[first].T
    if options.world == "gravity" and valid.any():
        level = level_of(samples, imu, mount, Trajectory(times, state, valid, max_gap=MAX_BRIDGED))
        measured["gravity"] = level.summary()
        world = matmul(remove_tilt(state.rot[first, None], level.up)[0], world)
    degenerate, unknown = open_directions(sweeps.large, batch.noise, state, doubted, options, world)
    if degenerate:
        measured["degenerate"] = degenerate
    result = {
        **state._replace(pos=state.pos - state.pos[first]).rotated(world)._asdict(),
        "inliers": quality.inliers.astype("f4"),
        "residual": quality.residual.astype("f4"),
        "information": quality.information,
        "cov": relative_to(cov + unknown, state, first).astype("f4"),
        "valid": valid,
    }
    warnings = [
        *lidar.notes,
        *remarks,
        *(held.warnings() if held is not None else []),
        *jump_warnings(recorded, after),
        *([instead] if instead else []),
        *imu.notes,
        *(f"{name} is left out: {why}" for name, why in left_out.items()),
        *([mirror] if mirror else []),
        *doubt_warnings(by_rule | {"accelerometer": against}),
        *([TOO_DEEP] if batch.system.is_too_deep else []),
        *lidar_clock.remarks("lidar"),
        *beam_warnings(**measured["beams"]),
        *degeneracy_warnings(degenerate),
        *warnings_of(seams, valid, recording.valid, measured["refused"]),
    ]
    used_mounts = {each.name: mount_entry(each.mount) for each in refined.used}
    files = {"lidars.json": json.dumps(used_mounts, indent=1)} if used_mounts else {}
    if felt is not None:
        files["up.json"] = json.dumps({"up": matmul(world, felt.up).round(6).tolist()})
    return result, Inspection(measured, warnings, files)
