"""Pairs of sweeps and pictures of a recording, for the mount of a camera."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import cv2
import numpy as np

from rover_pipeline.calibrate.camera_mount import estimate_camera
from rover_pipeline.calibrate.camera_time import Tracks, time_offset, track
from rover_pipeline.calibrate.outlines import PIXEL, Pair, at_size_of, smaller_lens
from rover_pipeline.camera.lens import Lens
from rover_pipeline.clocks.clock import corrected
from rover_pipeline.errors import FormatError
from rover_pipeline.format.channels import Channel
from rover_pipeline.format.channels.jpeg import FACTORS, PictureChannel
from rover_pipeline.format.rig import Rig
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.format.texts import read_text
from rover_pipeline.format.trace import Trace
from rover_pipeline.kinematics.mount import Mount
from rover_pipeline.kinematics.mounts import MountEstimate
from rover_pipeline.kinematics.state import State
from rover_pipeline.kinematics.trajectory import Trajectory
from rover_pipeline.lidar.geometry import destagger, sensor_info
from rover_pipeline.lidar.ranges import CLIPPED
from rover_pipeline.lidar.sweeps import lidar_reader
from rover_pipeline.numerics.linear import matmul
from rover_pipeline.validation.rig import camera_lens, clock_options, read_states

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
    options, lidar, metadata = clock_options(trace), Sensor(trace / name), read_text(trace / name / rig.sidecar(name))
    reader = lidar_reader(metadata, options.ts_reference)
    motion = reader.motion(read_states(trace), options.times)
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
    lens = camera_lens(trace, camera)
    if isinstance(video, PictureChannel):  # raw pictures are read whole in any case
        factor = max(factor for factor in FACTORS if factor <= max(1.0, np.radians(degrees) * lens.fx))
        video = video.reduced(factor, colours=1)
    height, width = video.spec.shape[:2]
    return lens.resized(width, height), video, corrected("camera", ts, ts, clock_options(trace).times)


def _grey(video: Channel, number: int) -> np.ndarray:
    picture = video.read(number, number + 1)[0]
    return picture[..., 0] if picture.shape[2] == 1 else np.asarray(cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY))
