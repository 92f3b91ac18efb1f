"""Virtual sensor `_radar_odom`: the radar's trajectory from its velocities and an IMU.

It is for smoke, dust, tunnels and rigs without a lidar. The motion of the rig is a factor graph over all frames, solved
at once: see `factor_graph`. Where a rig has several radars, all measure the same motion, each at its own times and in
its own directions, so that together they give the velocity in three dimensions.

The body frame is that of the rig, with its origin at the IMU. The world is level: z is up. Its origin and its heading
are those of the first frame.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.constants import g as GRAVITY  # noqa: N812
from scipy.special import chdtri

from rover_pipeline.clocks.clock import clock
from rover_pipeline.engine.recording import Recording
from rover_pipeline.engine.step import Inspection
from rover_pipeline.kinematics.mount import Mount, find_mount, mount_warnings
from rover_pipeline.kinematics.mounts import PRIOR_SIGMA, TOLERANCE
from rover_pipeline.kinematics.preintegration import AT_ONCE, MAX_SILENCE, ImuNoise, preintegrate, sampled
from rover_pipeline.kinematics.rotation import exp, remove_tilt, rotated, skew
from rover_pipeline.kinematics.stated import mount_notes
from rover_pipeline.numerics.blocks import IN_MEMORY, Memory, blocks, release
from rover_pipeline.numerics.linear import eigvalsh, matmul
from rover_pipeline.numerics.robust import FALSE_ALARM
from rover_pipeline.radar.factor_graph import ITERATIONS, Common, Smoothed, smooth
from rover_pipeline.radar.options import RadarOdometryOptions
from rover_pipeline.radar.timing import frame_duration
from rover_pipeline.radar.tuning import TUNING
from rover_pipeline.radar.velocity_factors import Measured, Recorded, as_factor, instants, likely_time_offset, swing_of


def radar_odom(
    recording: Recording,
    *,
    options: RadarOdometryOptions,
    imu_ts: np.ndarray,
    imu_acc: np.ndarray,
    imu_avel: np.ndarray,
    imu_valid: np.ndarray,
    config: str | None = None,
    sidecar: str | None = None,
    radar: str | None = None,
    several: bool = False,
) -> Iterator[dict[str, np.ndarray] | Inspection]:
    """States of the radar at its times.

    Args:
        recording: of `vel` and `vel_cov`, and the same of each further radar of the rig (`Recording.others`).
        imu_ts: f8 (M,), s; imu_acc, imu_avel: f4 (M, 3), m/s2 with gravity and rad/s without the bias at rest;
            imu_valid: u1 (M,).
        config: `config.yaml`, which may hold the extrinsics and the timing of chirps.
        sidecar, radar: `radar.json` and the radar's `meta.json`, which say how long a frame lasts.
        several: whether the rig has further radars.

    Yields:
        The channels of the table, and where there are several radars `vel_cov`; then an inspection. `valid` = 0 where
        velocity or tilt are not known well enough, and before and after the measurements of the IMU.
    """
    mount, imu_mount = find_mount("radar", options.rig, config), find_mount("imu", options.rig, config)
    times = clock("imu", imu_ts, options.times).best if options.smoothed else imu_ts
    times = times + (imu_mount.time_offset - mount.time_offset)  # by the main radar's clock
    memory, (recorded, in_g) = recording.memory(), measured_motion(times, imu_acc, imu_avel, imu_valid, imu_mount)
    recorded = recorded._replace(acc=memory.hold(recorded.acc), avel=memory.hold(recorded.avel))
    release()
    given = {"radar": recording, **recording.others}
    stated = {name: options.others.get(name, options) for name in given}
    texts = "config", "sidecar", "radar"
    frames = {name: frame_duration(each.ts, *map(each.texts.get, texts)) for name, each in given.items()}
    radars = {name: _measured(given[name], frames[name].middle, stated[name], mount.time_offset) for name in given}
    frame, outside = frames["radar"], _contradicting(radars, recorded) if len(radars) > 1 else []
    radars |= {name: radars[name].without() for name in outside}  # the others give the motion without them
    result = estimate([*radars.values()], recorded, memory)
    believed = [int((weight > 0.5).sum()) for weight in result.weights]
    known = [int(each.known.sum()) for each in radars.values()]
    counts = {name: (used, all - used) for name, used, all in zip(radars, believed, known, strict=True)}
    used, doubts = map(sum, zip(*counts.values(), strict=True))
    contradicted, valid = doubts > TUNING.contradicted * max(used + doubts, 1), np.zeros(recording.count, "u1")
    for part, channels in _channels(result, (mount, imu_mount), -frame.middle):
        valid[part] = result.valid[part] & np.isfinite(channels["pos"]).all(axis=1) & (not contradicted)
        if several:  # of which none may have velocities
            channels.setdefault("vel_cov", np.full((len(channels["pos"]), 3, 3), np.nan, "f4"))
        yield {**channels, "valid": valid[part]}
    measured: dict[str, Any] = {
        "velocities_used": counts["radar"][0],
        "velocities_doubted": counts["radar"][1],
        "gyro_bias_rad_s": result.motion.gyro_bias[-1].round(5).tolist(),
        "acc_bias_m_s2": result.motion.acc_bias[-1].round(4).tolist(),
        "extrinsics": mount.source,
        **frame.describe(),
    }
    warnings = [*mount_warnings("radar", options.rig, mount), *mount_warnings("imu", options.rig, imu_mount)]
    warnings += frame.warnings
    if in_g:
        warnings.append(f"imu/acc has a median of {in_g:.2f}: taken to be in g, not in m/s2")
    if contradicted:
        warnings.append(
            f"radar odometry: {doubts} of {used + doubts} velocities of the radar contradict the IMU, so no state is "
            "valid; are rig.radar and rig.imu right, and imu/avel in rad/s?"
        )
    elif not valid.any() and np.isfinite(result.time_offsets).all():
        warnings.append(_why_none(result, used + doubts, options))
    notes = mount_notes("radar", "imu", rig=options.rig, recorded=config)
    for name, other in recording.others.items():
        warnings += [f"{name}: {line}" for line in frames[name].warnings]
        of_other = mount_notes("radar", rig=stated[name].rig, recorded=other.texts.get("config"))
        notes += [f"{name}: {line}" for line in of_other]
    if result.common is not None:
        measured |= _of_each(counts, result.common, result.time_offsets)
        warnings += _time_offsets(result, [*radars], options.max_time_offset)
        warnings += _contradictions(outside, [*radars], result.common)
    yield Inspection(measured, warnings, notes=notes)


def measured_motion(
    times: np.ndarray, acc: np.ndarray, avel: np.ndarray, valid: np.ndarray, mount: Mount
) -> tuple[Recorded, float]:
    """What an IMU measured, where it did; and the median of the specific force where it is in g, else 0."""
    good = (valid != 0) & np.isfinite(acc).all(axis=1) & np.isfinite(avel).all(axis=1)
    good &= np.append(True, np.diff(times) > 0)
    acc, avel = (matmul(values[good].astype("f8"), mount.rotation.T) for values in (acc, avel))
    unit = float(np.median(np.linalg.norm(acc, axis=1))) if len(acc) else GRAVITY
    in_g = unit < np.sqrt(GRAVITY)  # The ratio to 1 is smaller than that to 9.8.
    return Recorded(times[good], acc * GRAVITY if in_g else acc, avel, mount), unit * in_g


def _measured(radar: Recording, middle: float, options: RadarOdometryOptions, main_offset: float) -> Measured:
    """The velocities of a radar as `_radar_velocity` has them, NaN where they are not valid, at their instants.

    Args:
        main_offset: time offset of the main radar, by whose clock the instants are, s.
    """
    times = clock("radar", radar.ts, options.times).best if options.smoothed else radar.ts
    vel, cov = (radar.read(name, 0, radar.count).astype("f8") for name in ("vel", "vel_cov"))
    vel[(radar.valid == 0) | ~np.isfinite(vel).all(axis=1)] = np.nan
    mount = find_mount("radar", options.rig, radar.texts.get("config"))
    return Measured(times + middle + mount.time_offset - main_offset, vel, cov, mount, options)


def _contradicting(radars: Mapping[str, Measured], recorded: Recorded) -> list[str]:
    """Radars of which more velocities contradict the IMU than may, each alone."""
    found = []
    for name, each in radars.items():
        alone = estimate([each], recorded)
        doubted = (alone.motion.weight[each.known] <= 0.5).sum()
        if np.isinf(alone.time_offsets[1]).any() or doubted > TUNING.contradicted * each.known.sum():
            found.append(name)
    return found


def _of_each(counts: Mapping[str, tuple[int, int]], common: Common, time_offsets: np.ndarray) -> dict[str, Any]:
    """Figures of each radar for provenance."""
    figures: dict[str, dict[str, Any]] = {}
    for number, name in enumerate(counts):
        known = np.isfinite(time_offsets[1, number])
        seconds, deviation = time_offsets[:, number].round(5).tolist() if known else (None, None)
        figures[name] = {"time_offset_s": seconds, "time_offset_sd": deviation}
        errors, sigma = common.errors[number, :4], common.sigma[number, :4]
        figures[name]["scale_error"] = round(float(errors[0]), 4)
        if len(counts) == 1:
            figures[name]["scale_error_sd"] = round(float(sigma[0]), 4)
        else:
            figures[name] |= {
                "velocities_used": counts[name][0],
                "velocities_doubted": counts[name][1],
                "turned_deg": np.degrees(-errors[1:]).round(2).tolist(),  # from its pose in `rig`
                "error_sd": sigma.round(4).tolist(),
            }
    own = figures.pop("radar")
    return {**own, "others": figures, "errors_over_assumed": round(common.birge, 3)} if figures else own


def _time_offsets(result: Estimate, names: list[str], reach: float) -> list[str]:
    """What a user should know of times that contradict the IMU's."""
    found = []
    for name, (seconds, sigma) in zip(names, result.time_offsets.T, strict=True):
        if np.isinf(sigma):
            found.append(
                f"{name}: no time offset up to {reach:g} s (radar_odometry.max_time_offset) fits its velocities to the "
                f"IMU better than others, so no state is valid; are rig.{name} and rig.imu right, imu/avel in rad/s, "
                "and both times of one clock?"
            )
        elif seconds**2 > chdtri(1, FALSE_ALARM) * (sigma**2 + TOLERANCE[6] ** 2):
            found.append(
                f"{name}: its velocities fit the IMU best if {1e3 * seconds:+.0f} \u00b1 {1e3 * sigma:.0f} ms are "
                f"added to its times, as was done here; for other sensors add it to `time_offset` of rig.{name}"
            )
    return found


def _contradictions(outside: list[str], names: list[str], common: Common) -> list[str]:
    """What a user should know of radars that contradict the others."""
    found = [f"{name}: is left out: its velocities contradict the IMU" for name in outside]
    for name, errors, is_wrong in zip(names, common.errors, common.is_wrong, strict=True):
        if is_wrong and len(names) == 1:
            found.append(
                f"{name}: its speeds contradict the IMU, and are taken to be {errors[0]:+.1%} off; are the frequency "
                "and the times of its chirps right?"
            )
        elif is_wrong and name not in outside:
            turn = ", ".join(f"{each:.1f}" for each in np.degrees(-errors[1:4]))
            found.append(
                f"{name}: contradicts the other radars and the IMU, as if it were turned from its pose in `rig` by "
                f"({turn}) degrees about its front, left and up, and its speeds {errors[0]:+.1%} off, which is taken "
                "for its own error"
            )
    return found if len(names) == 1 else [f"{line}; are its pose and the IMU's right?" for line in found]


def _why_none(result: Estimate, count: int, options: RadarOdometryOptions) -> str:
    """Why no state is valid, of `count` velocities."""
    best = np.nanmin(result.sigma, initial=np.inf)
    if not count or best <= options.max_error:
        return "radar odometry: no frame has a velocity and measurements of an IMU around it"
    return (
        f"radar odometry: the velocity is known to {best:.2g} m/s at best and must be to {options.max_error:g} "
        f"(radar_odometry.max_error), so no state is valid: of {count} velocities; an array without rows in elevation "
        "sees no vertical one"
    )


class Estimate(NamedTuple):
    """The smoothed motion of N frames."""

    motion: Smoothed  #: of the IMU.
    #: f8 (N, 3), m/s2 and rad/s, specific force and angular velocity that the IMU measured, rig frame.
    force: np.ndarray
    avel: np.ndarray
    valid: np.ndarray  #: bool (N,), which frames can be trusted.
    sigma: np.ndarray  #: f8 (N,), largest standard deviation of the velocity, m/s.
    weights: list[np.ndarray]  #: of the velocities of each radar, 0 to 1.
    common: Common | None = None  #: errors of the radars that are the same in all of their frames.
    #: f8 (3, 3), covariance of the velocity of the radar relative to the IMU, by the noise of the gyroscope, m2/s2, rig
    #: frame; None = there is one radar only.
    swing: np.ndarray | None = None
    #: f8 (2, K), what is to be added to the times of each radar, and its standard deviation, s, which is infinite where
    #: several time offsets fit as well; then no state is valid.
    time_offsets: np.ndarray = np.zeros((2, 0))


def estimate(radars: Sequence[Measured], recorded: Recorded, memory: Memory = IN_MEMORY) -> Estimate:
    """The motion at the instants of the first radar's velocities, by its options.

    Args:
        memory: for what is kept of each state, and its covariances.
    """
    options = radars[0].options
    likely = [likely_time_offset(each, recorded, options.max_time_offset) for each in radars]
    certain = np.array([alone for _, alone in likely])
    offsets = np.array([[offset for offset, _ in likely], [PRIOR_SIGMA[6]] * len(radars)])
    for _ in range(ITERATIONS):
        moved = [each.moved(offset) for each, offset in zip(radars, offsets[0].tolist(), strict=True)]
        found = at_instants(moved, recorded, memory)
        if found.common is None:
            break
        step = found.common.errors[:, 7]
        offsets = np.array([offsets[0] + step, found.common.sigma[:, 7]])
        if (np.abs(step) < np.maximum(offsets[1], options.least_error / GRAVITY)).all():
            break  # it is smaller than what it leaves open
    offsets[1, ~certain] = np.inf
    return found._replace(valid=found.valid & certain.all(), time_offsets=offsets)


def at_instants(radars: Sequence[Measured], recorded: Recorded, memory: Memory) -> Estimate:
    """The motion at the instants of velocities if these are nearly right; see `estimate`."""
    ts, options, others = radars[0].ts, radars[0].options, radars[1:]
    imu_ts, acc, avel, _ = recorded
    count = len(ts)
    if count < 2 or len(imu_ts) < 2:
        unknown, weights = np.full((count, 3), np.nan), [np.zeros(len(each.ts)) for each in radars]
        rows = [np.full((count, *shape), np.nan) for shape in ((3, 3), (3,), (3,), (3,), (3,), (15, 15))]
        motion = Smoothed._make([*rows, np.zeros(count)])
        return Estimate(motion, unknown, unknown, np.zeros(count, bool), unknown[:, 0], weights)
    nodes = instants(radars)
    imu = preintegrate(nodes, imu_ts, acc, avel, ImuNoise(options.gyro_noise, options.acc_noise), memory)
    force, rates = sampled(nodes, imu_ts, acc), sampled(nodes, imu_ts, avel)
    # While the IMU is silent, the rig turns and accelerates as it does at other times.
    silent = imu.seconds[:, None] * (imu.longest > MAX_SILENCE)[:, None]
    turning, speeding = (avel**2).mean(axis=0), acc.var(axis=0)
    # The mean force over the first interval is a first guess of the direction of up, which the iterations mend.
    up = imu.vel[0]
    first = remove_tilt(np.eye(3)[None], up / max(float(np.linalg.norm(up, axis=0)), 1e-9))[0]
    # White noise moves the rig within a step of the IMU too: where an interval is one step, by nothing but this.
    white = options.acc_noise**2 * imu.seconds * np.minimum(imu.longest, imu.seconds) ** 2 / 12
    for part in blocks(len(white), AT_ONCE):
        widened = turning * silent[part] ** 2, speeding * silent[part] ** 2, speeding * silent[part] ** 4
        imu.cov[part, range(9), range(9)] += np.hstack(widened)
        imu.cov[part, range(6, 9), range(6, 9)] += white[part, None]
    factors = [as_factor(each, nodes, recorded, memory, several=bool(others)) for each in radars]
    # Flat arrays see no vertical velocity. Then what is known of it beforehand is taken, once and not in each frame.
    beforehand = radars[0].vertical_sigma
    prior = float(beforehand.max(initial=options.vertical, where=np.isfinite(beforehand)))
    sees = max(float(each.information[:, 2, 2].max(initial=0.0)) for each in factors) * prior**2 > 1
    motion, weights, common = smooth(first, imu, factors, 1e3 if sees else prior, memory)
    at, longest = factors[0].at, imu.longest
    if others:
        motion = Smoothed._make([*(each[at] for each in motion[:-1]), weights[0]])
        force, rates = force[at], rates[at]
        longest = np.maximum.reduceat(longest[: at[-1]], at[:-1])
    motion = motion._replace(weight=weights[0])
    # The heading drifts, and with it the velocity in the world. The radar measures the velocity in its own frame.
    sigma, tilt = np.empty(count), np.empty(count)
    for part in blocks(count, AT_ONCE):
        into, cov = np.swapaxes(motion.rot[part], 1, 2), motion.cov[part, :6, :6]
        change = np.concatenate([skew(np.einsum("nij,nj->ni", into, motion.vel[part])), into], axis=2)
        own = matmul(change, cov, np.swapaxes(change, 1, 2))
        sigma[part] = np.sqrt(np.maximum(eigvalsh(own)[:, -1], 0))
        # The variance of the tilt is that of the rotation but for the part about the vertical.
        vertical, turns = motion.rot[part, 2], cov[:, :3, :3]
        tilt[part] = np.trace(turns, axis1=1, axis2=2) - np.einsum("ni,nij,nj->n", vertical, turns, vertical)
    valid = np.full(count, not others or common.settled)
    speed = np.sqrt((motion.vel**2).sum(axis=1))
    valid &= sigma <= np.maximum(options.max_error, options.max_share * speed)
    valid &= tilt <= np.radians(options.max_tilt_error) ** 2
    valid &= (ts >= imu_ts[0] - MAX_SILENCE) & (ts <= imu_ts[-1] + MAX_SILENCE)
    # Positions on both sides of a long silence of the IMU are not joined: the earlier part is kept.
    broken = np.flatnonzero((longest > options.max_silence) & (ts[:-1] > imu_ts[0]) & (ts[1:] < imu_ts[-1]))
    if len(broken):
        valid[broken[0] + 1 :] = False
    swing = swing_of(avel, factors[0].arm) if others else None
    return Estimate(motion, force, rates, valid, sigma, weights, common, swing)


def _channels(
    result: Estimate, mounts: tuple[Mount, Mount], early: float
) -> Iterator[tuple[slice, dict[str, np.ndarray]]]:
    """Ranges of states, and the channels of the table, of the radar, at instants `early` seconds after theirs.

    Args:
        mounts: of the radar and the IMU.
    """
    (radar, imu), origin, into = mounts, None, mounts[0].rotation.T
    arm = radar.translation - imu.translation
    for part in blocks(len(result.sigma), AT_ONCE):
        motion = Smoothed._make([each[part] for each in result.motion])
        turn = result.avel[part] - motion.gyro_bias
        swing = np.cross(turn, arm)
        force = result.force[part] - motion.acc_bias + np.cross(turn, swing)
        acc = rotated(motion.rot, force) - [0.0, 0.0, GRAVITY]
        vel = motion.vel + rotated(motion.rot, swing)
        # The stamp is some hundredths of a second before the middle of the chirps, over which the motion is steady.
        pos = motion.pos + rotated(motion.rot, np.broadcast_to(arm, turn.shape)) + vel * early + 0.5 * acc * early**2
        rot = np.full_like(motion.rot, np.nan)
        known = np.isfinite(turn).all(axis=1) & np.isfinite(motion.rot).all(axis=(1, 2))
        rot[known] = matmul(motion.rot[known], exp(turn[known] * early), radar.rotation)
        if origin is None and known.any():  # nothing is known of states before
            origin = pos[known][0]
        change = np.zeros((len(pos), 6, 15))
        # A turn of the rig moves the radar, which is at the end of an arm.
        change[:, :3, :3] = matmul(-into, skew(arm))
        change[:, :3, 6:9] = matmul(into, np.swapaxes(motion.rot, 1, 2))
        change[:, 3:, :3] = into
        channels = {
            "pos": pos - (0.0 if origin is None else origin),
            "rot": rot,
            "vel": vel + acc * early,
            "acc": acc,
            "avel": matmul(turn, radar.rotation),
            "inliers": motion.weight.astype("f4"),
            "cov": matmul(change, motion.cov, np.swapaxes(change, 1, 2)).astype("f4"),
        }
        if result.common is not None and result.swing is not None:
            swing = matmul(radar.rotation.T, result.swing, radar.rotation)
            channels["vel_cov"] = (_velocity_cov(motion, radar, arm, result.common) + swing).astype("f4")
        yield part, channels


def _velocity_cov(motion: Smoothed, radar: Mount, arm: np.ndarray, common: Common) -> np.ndarray:
    """Covariance of the radar's velocity in its own frame, f8 (N, 3, 3), m2/s2.

    States are those of a radar that is mounted as `rig` says. Where this seems to be wrong, the velocity in the frame
    of the real radar is off by as much.
    """
    turn, into = common.errors[0, 1:4] * common.is_wrong[0], np.swapaxes(motion.rot, 1, 2)
    own, swing = np.einsum("nij,nj->ni", into, motion.vel), np.broadcast_to(skew(arm[None]), motion.rot.shape)
    change = matmul(radar.rotation.T, np.concatenate([skew(own), into, swing], axis=2))
    chosen, off = np.r_[0:6, 9:12], np.cross(turn, matmul(own, radar.rotation))
    found = matmul(change, motion.cov[:, chosen][:, :, chosen], np.swapaxes(change, 1, 2))
    return np.asarray(found + np.einsum("ni,nj->nij", off, off))
