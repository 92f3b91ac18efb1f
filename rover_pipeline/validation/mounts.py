"""What a recording shows of the mounts of its sensors, from its results: seconds of work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np

from rover_pipeline.calibrate import inertial_mount
from rover_pipeline.calibrate.camera_mount import estimate_camera
from rover_pipeline.calibrate.camera_time import Tracks, time_offset, track
from rover_pipeline.calibrate.imu_mount import imu_mount
from rover_pipeline.calibrate.outlines import PIXEL, Pair, at_size_of, smaller_lens
from rover_pipeline.calibrate.radar_mount import Echoes, calibrate
from rover_pipeline.camera.lens import Lens
from rover_pipeline.clocks.clock import clock, corrected
from rover_pipeline.engine.parallel import Processes
from rover_pipeline.errors import FormatError, as_damage
from rover_pipeline.format.channels import Channel
from rover_pipeline.format.channels.jpeg import FACTORS, PictureChannel
from rover_pipeline.format.meta import META, read_meta
from rover_pipeline.format.provenance import read_provenance
from rover_pipeline.format.rig import Rig
from rover_pipeline.format.sensor import TS, VALID, Sensor
from rover_pipeline.format.texts import read_text
from rover_pipeline.format.trace import Trace
from rover_pipeline.imu.blocks import INTERVAL
from rover_pipeline.kinematics.mount import Mount
from rover_pipeline.kinematics.mounts import MountEstimate, changed, prior_covariance
from rover_pipeline.kinematics.state import State
from rover_pipeline.kinematics.trajectory import Trajectory
from rover_pipeline.lidar.geometry import destagger, sensor_info
from rover_pipeline.lidar.ranges import CLIPPED
from rover_pipeline.lidar.sweeps import lidar_reader
from rover_pipeline.numerics.linear import matmul
from rover_pipeline.odometry.accelerometer import find_level
from rover_pipeline.odometry.inertial import Samples, calibrated
from rover_pipeline.odometry.options import OdometryOptions
from rover_pipeline.poses.options import PosesSection
from rover_pipeline.radar.axes import doppler_bin
from rover_pipeline.radar.inertial_odometry import measured_motion
from rover_pipeline.radar.options import RadarOdometryOptions, VelocitySection
from rover_pipeline.radar.timing import frame_duration
from rover_pipeline.radar.velocity_factors import Measured
from rover_pipeline.validation import rig as results


class Shown(NamedTuple):
    """What a recording shows of a mount, which the rig that its results were made with declares, and of the device."""

    sensor: str
    type: str
    declared: Mount
    estimate: MountEstimate
    device: dict[str, object]


def shown_mounts(trace: Path, cores: int = 1) -> Iterator[Shown]:
    """What a recording shows of each sensor of which it has the results that are needed.

    `cores` of them are estimated at once. Raises FormatError where a result is damaged, or `_odom` has no valid pose.
    """
    if not (trace / "_odom" / META).is_file():
        yield from shown_beside_imu(trace, brief=True)
        return
    with as_damage(trace / "_odom"):
        trajectory, rig = results.read_trajectory(trace, PosesSection().max_gap), Rig(trace)
    sensors = [(sensor, type) for type in ESTIMATES for sensor in rig.of(type)]
    with closing(Processes(min(cores, len(sensors)))) as processes:
        for found in [processes.begin(partial(_shown, trace, trajectory), each) for each in sensors]:
            if (shown := found()) is not None:
                yield shown


def shown_beside_imu(trace: Path, *, brief: bool = False) -> Iterator[Shown]:
    """What a recording without a lidar shows of each radar beside its IMU, in a quarter of its length of work; `brief`:
    in seconds, which show whether one is wrong (`inertial_mount.calibrate`). Raises FormatError for damaged results."""
    if (trace / "_radar_odom" / META).is_file():
        for radar in Rig(trace).of("radar"):
            with as_damage(trace / radar):
                found = _beside_imu(trace, radar, brief)
            if found:
                yield found


def _shown(trace: Path, trajectory: Trajectory, of: tuple[str, str]) -> Shown | None:
    """The same of one sensor, which has a name and a type."""
    declared = results.sensor_mount(trace, of[0])
    with as_damage(trace / of[0]):
        found = ESTIMATES[of[1]](trace, of[0], declared, trajectory)
    return None if found is None else Shown(*of, declared, *found)


_Found = tuple[MountEstimate, dict[str, object]] | None


def _radar(trace: Path, sensor: str, declared: Mount, trajectory: Trajectory) -> _Found:
    echoes = radar_echoes(trace, sensor)
    return None if echoes is None else (calibrate(echoes, trajectory, declared), {})


def radar_echoes(trace: Path, sensor: str) -> Echoes | None:
    """What shows the mount of a radar beside a lidar; None where a result is missing, or has one frame or none."""
    points, result = f"_{sensor}_points", f"_{sensor}_velocity"
    if not all((trace / each / META).is_file() for each in (points, result)):
        return None
    read = results.whole_sensor(trace / points, "xyz", "doppler", "count", "certain", "deviation", "spread")
    if len(read[TS]) < 2:
        return None
    options = _velocity_options(trace, sensor)
    texts = [results.read_optional(trace / sensor / name) for name in (Rig(trace).sidecar(sensor), META)]
    frame = frame_duration(read[TS], results.config_of(trace, sensor), *texts)
    times = clock("radar", read[TS], results.clock_options(trace).times).best + frame.middle
    # Of a radar that is too fast for its spans, those points alone are certain whose directions err to one side.
    enough = (read[VALID] != 0) & (read["certain"].sum(axis=1) >= options.min_share * read["count"])
    # `check` names what is not finite, as a step of the user may have written it.
    finite = np.isfinite(read["doppler"]) & np.isfinite(read["xyz"]).all(axis=2)
    chosen = enough[:, None] & (read["certain"] != 0) & finite
    xyz, error = read["xyz"][chosen].astype("f8"), _angle_errors(options, read["deviation"][chosen])
    direction = xyz / np.hypot.reduce(xyz, axis=1)[:, None]
    # Where the array knows no elevation, all directions are level: nothing is said of them that could be off.
    error[:, 1] *= direction[:, 2] != 0
    sigma = options.doppler_sigma(doppler_bin(texts[0] or "") or 0.0)
    doppler = read["doppler"][chosen].astype("f8")
    spread = np.nan_to_num(read["spread"][chosen].astype("f8"))  # 0 where the array does not measure it
    return Echoes(times[np.nonzero(chosen)[0]], direction, doppler, error, spread, np.full(len(xyz), sigma))


def _angle_errors(options: VelocitySection, deviation: np.ndarray) -> np.ndarray:
    """Errors of azimuth and elevation of points, f8 (N, 2), rad; the usual ones where the points state none."""
    return np.where(np.isfinite(deviation), deviation.astype("f8"), (options.azimuth_error, options.elevation_error))


def _velocity_options(trace: Path, sensor: str) -> VelocitySection:
    """What velocities of a radar were made with."""
    options = results.made_with(trace, f"_{sensor}_velocity")
    chosen = {key: options[key] for key in VelocitySection.model_fields if key in options}
    return VelocitySection.parse(chosen, "radar.velocity")


def _beside_imu(trace: Path, sensor: str, brief: bool) -> Shown | None:
    """What velocities of a radar show of its mount beside the IMU that `_radar_odom` was made with."""
    if not all((trace / f"_{sensor}_{each}" / META).is_file() for each in ("points", "velocity")):
        return None
    made = RadarOdometryOptions.parse(results.made_with(trace, "_radar_odom"), "radar_odometry")
    imu = str(results.section(read_provenance(trace / "_radar_odom"), "sensors").get("imu", "imu"))
    options, rig = made.others.get(sensor, made), Rig(trace)
    if imu not in rig.of("imu"):  # a name in a file is no path
        return None
    declared, mount = (results.sensor_mount(trace, each, "_radar_odom") for each in (sensor, imu))
    read, filtered = results.whole_sensor(trace / f"_{sensor}_velocity", "vel", "cov"), f"_{imu}_filtered"
    raw, turns = results.whole_sensor(trace / imu, "acc"), results.whole_sensor(trace / filtered, "avel")
    texts = [results.read_optional(trace / sensor / name) for name in (rig.sidecar(sensor), META)]
    middle = frame_duration(read[TS], results.config_of(trace, sensor), *texts).middle
    times, ts = raw[TS], read[TS]
    if options.smoothed:
        times, ts = clock("imu", times, options.times).best, clock("radar", ts, options.times).best
    late = mount.time_offset - declared.time_offset
    recorded, _ = measured_motion(times + late, raw["acc"], turns["avel"], turns[VALID], mount)
    vel, cov = read["vel"].astype("f8"), read["cov"].astype("f8")
    vel[(read[VALID] == 0) | ~np.isfinite(vel).all(axis=1) | ~np.isfinite(cov).all(axis=(1, 2))] = np.nan
    radar = Measured(ts + middle, vel, cov, declared, options)
    points = results.whole_sensor(trace / f"_{sensor}_points", "certain", "deviation")
    error = _angle_errors(_velocity_options(trace, sensor), points["deviation"][points["certain"] != 0])
    typical = np.median(error, axis=0) if len(error) else np.zeros(2)
    estimate = inertial_mount.calibrate(radar, recorded, typical, brief=brief)
    return Shown(sensor, "radar", declared, estimate, {})


def _imu(trace: Path, sensor: str, declared: Mount, trajectory: Trajectory) -> _Found:
    provenance = read_provenance(trace / "_odom")
    used = results.section(provenance, "measured", "imus").get("used", "imu")
    used = (results.section(provenance, "sensors").get("imu", "imu") if used == "imu" else used) == sensor
    if not {"acc", "avel"} <= {*read_meta(trace / sensor)}:
        return None
    read = results.whole_sensor(trace / sensor, "acc", "avel")
    if len(read[TS]) < 2:
        return None
    recorded = (read[TS], read["avel"], read["acc"], read[VALID])
    options = OdometryOptions.parse({"times": results.clock_options(trace).times.model_dump()})
    origin = trajectory.ts[0]
    samples = Samples.of(recorded, options, trajectory.stamps, origin)
    # The gyroscope that the trajectory was made with was calibrated before that, as its provenance says.
    found: Any = results.section(provenance, "measured", "imu") if used else None
    if not found:
        instants = np.arange(trajectory.ts[0], trajectory.ts[-1], INTERVAL / 5)
        state, _ = trajectory.at(instants)
        found = calibrated(samples, (instants - origin, state.avel), declared, options).summary
    try:
        level = None
        if found["usable"]:
            turned = Mount(np.zeros(3), np.array(found["rotation_lidar_from_imu"]))
            with suppress(ValueError):  # the accelerometer does not show what is up
                times = samples.times + origin + found["offset_ms"] / 1e3
                level = find_level(trajectory, times, samples.acc, turned, 0.0)
        device = {key: found[key] for key in ("gyro_bias_rad_s", "gyro_bias_sigma_rad_s", "scale", "scale_sigma")}
        return imu_mount(found, level, declared), device
    except (LookupError, TypeError, ValueError) as error:
        raise FormatError(f"{trace / '_odom'}/provenance.json: does not say how the IMU was calibrated") from error


def _lidar(trace: Path, sensor: str, declared: Mount, trajectory: Trajectory) -> _Found:
    """Of a lidar beside the main one: `_odom` has estimated it."""
    found = results.section(read_provenance(trace / "_odom"), "measured", "lidars", "mounts", sensor)
    if not found:
        return None
    try:
        error, covariance = np.array(found["error"], "f8").reshape(7), np.array(found["covariance"], "f8").reshape(7, 7)
    except (LookupError, TypeError, ValueError) as problem:
        raise FormatError(f"{trace / '_odom'}/provenance.json: does not say where {sensor} was found") from problem
    return MountEstimate(changed(declared, error), covariance, prior_covariance(declared)), {}


def _camera(trace: Path, sensor: str, declared: Mount, trajectory: Trajectory) -> _Found:
    has_picture = (trace / sensor / Rig(trace).sidecar(sensor)).is_file() and "video.avi" in (
        Trace(trace).source(sensor, "video.avi").specs
    )
    return (camera_mount(trace, sensor, declared, trajectory), {}) if has_picture else None


#: What estimates the mount of a sensor, by its type. Layout.
ESTIMATES: dict[str, Callable[[Path, str, Mount, Trajectory], _Found]] = {
    "lidar": _lidar,
    "radar": _radar,
    "imu": _imu,
    "camera": _camera,
}


#: Pictures of a recording that are looked at, and those of which they are chosen. Schedule.
_PICTURES, _LOOKED = 16, 1000
#: How far the lidar moves, m, or turns, rad, until a camera sees other outlines. Tuned: by hand.
_APART, _TURN = 2.0, 0.3
#: Pairs of pictures of which points are tracked, and the size of their pixels, degrees. Schedule.
_TRACKS, _TRACKED = 30, 0.15


def camera_pairs(trace: Path, camera: str, declared: Mount, pictures: int = _PICTURES) -> list[Pair]:
    """Pictures of different places, each with the nearest sweep as the lidar would see it at that instant. Raises
    RoverError where a sensor is damaged, or the camera has no intrinsics."""
    rig = Rig(trace)
    name = rig.main("lidar") or "lidar"
    options, folder = results.clock_options(trace), trace / name
    lidar, metadata = Sensor(folder), read_text(folder / rig.sidecar(name))
    reader = lidar_reader(metadata, options.ts_reference)
    motion = reader.motion(results.read_states(trace), options.times)
    channels: tuple[str, ...] = tuple(each for each in ("rng", "xyz", "count", "time") if each in lidar.specs)
    stamps = lidar.times(lidar.length(truncate=True, channels=channels))
    lens, video, times = _recorded(trace, camera, PIXEL)
    times = times + declared.time_offset
    states, known = motion.trajectory.at(times)
    numbers = np.flatnonzero(known)
    usable = _different(numbers[:: 1 + len(numbers) // _LOOKED], states)
    middles = ((np.arange(pictures) + 0.5) / pictures * len(usable)).astype("i8")
    pairs = []
    for number in usable[np.unique(middles)] if len(usable) else usable:
        middle = stamps + reader.begin + reader.duration / 2
        sweep = int(np.abs(middle - times[number]).argmin())
        index = motion.trajectory.index(stamps[sweep])
        if index is None or abs(middle[sweep] - times[number]) > reader.period:
            continue
        stored: dict[str, np.ndarray] = {each: lidar.channel(each).read(sweep, sweep + 1)[0] for each in channels}
        if "rng" in stored:
            stored["rng"] = destagger(stored["rng"][None], sensor_info(metadata))[0]
        places = reader.sweep(stored)
        columns = motion.columns_seen_from(index, reader.columns, states.rot[number], states.pos[number])
        is_return = (places.rng != 0) & (places.rng != CLIPPED)
        of = np.nonzero(is_return)[1]
        xyz = matmul(columns.rot[of], places.xyz[is_return][:, :, None])[:, :, 0] + columns.pos[of]
        twist = np.append(states.avel[number], matmul(states.rot[number].T, states.vel[number]))
        pairs.append(Pair(xyz, _grey(video, int(number)), lens, twist))
    return pairs


def _different(numbers: np.ndarray, states: State) -> np.ndarray:
    """The pictures, of those that are numbered, from which the lidar moved or turned away since the one before."""
    chosen: list[int] = []
    for number in numbers.tolist():
        way = states.pos[number] - states.pos[chosen[-1]] if chosen else np.zeros(3)
        # The trace of a rotation is one more than twice the cosine of its angle.
        trace = (states.rot[chosen[-1]] * states.rot[number]).sum() if chosen else 3.0
        if not chosen or np.hypot.reduce(way) > _APART or trace < 1 + 2 * np.cos(_TURN):
            chosen.append(number)
    return np.array(chosen, "i8")


def camera_mount(trace: Path, camera: str, declared: Mount, trajectory: Trajectory) -> MountEstimate:
    """What the pictures of a recording show of the mount of their camera. Errors as of `camera_pairs`."""
    if not declared.known:
        return estimate_camera([], declared)
    late, sigma = time_offset(camera_tracks(trace, camera, declared, trajectory), trajectory, declared)
    start = declared._replace(time_offset=declared.time_offset + late)
    return estimate_camera(camera_pairs(trace, camera, start), start, sigma)


def camera_tracks(trace: Path, camera: str, declared: Mount, trajectory: Trajectory) -> list[Tracks]:
    """Tracks of points between two pictures each, where in a part of the recording the turn rate changes most."""
    lens, video, times = _recorded(trace, camera, _TRACKED)
    states, known = trajectory.at(times, declared)
    change = np.hypot.reduce(np.diff(states.avel, axis=0), axis=1)
    change[~(np.diff(times) < 2 * np.median(np.diff(times))) | ~(known[1:] & known[:-1])] = 0.0
    found = []
    for part in np.array_split(np.arange(len(change)), _TRACKS):
        first = int(part[change[part].argmax()]) if len(part) else 0
        if len(part) and change[first] > 0:
            small = smaller_lens(lens, _TRACKED)
            before, after = (at_size_of(small, _grey(video, first + k)) for k in (0, 1))
            found.append(track(times[first : first + 2], before, after, _rays(small)))
    return found


@cache
def _rays(lens: Lens) -> np.ndarray:
    return lens.rays().astype("f4")


def _recorded(trace: Path, camera: str, degrees: float) -> tuple[Lens, Channel, np.ndarray]:
    """A lens, its pictures, whose pixels are no smaller than needed, and when they were taken, f8 (N,), s."""
    video, source = Trace(trace).source(camera, "video.avi").channel("video.avi"), Trace(trace).sensor(camera)
    ts = source.times(min(len(video), source.length(truncate=True, channels=())))
    if not len(ts):
        raise FormatError(f"{source.path}: has no whole picture with a time; look at `rover-pipeline check {trace}`")
    lens = results.camera_lens(trace, camera)
    if isinstance(video, PictureChannel):  # raw pictures are read whole in any case
        factor = max(factor for factor in FACTORS if factor <= max(1.0, np.radians(degrees) * lens.fx))
        video = video.reduced(factor, colours=1)
    height, width = video.spec.shape[:2]
    return lens.resized(width, height), video, corrected("camera", ts, ts, results.clock_options(trace).times)


def _grey(video: Channel, number: int) -> np.ndarray:
    picture = video.read(number, number + 1)[0]
    return picture[..., 0] if picture.shape[2] == 1 else np.asarray(cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY))
