"""Pairs of sweeps and pictures of a recording, for the mount of a camera."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np

from rover_pipeline.calibrate.camera_mount import Pair, estimate_camera
from rover_pipeline.clocks.clock import corrected
from rover_pipeline.format.rig import Rig
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.format.texts import read_text
from rover_pipeline.format.trace import Trace
from rover_pipeline.kinematics.mount import Mount
from rover_pipeline.kinematics.mounts import MountEstimate
from rover_pipeline.kinematics.rotation import log
from rover_pipeline.kinematics.state import State
from rover_pipeline.lidar.geometry import destagger, sensor_info
from rover_pipeline.lidar.ranges import CLIPPED
from rover_pipeline.lidar.sweeps import lidar_reader
from rover_pipeline.numerics.linear import matmul
from rover_pipeline.validation.rig import camera_lens, clock_options, whole_sensor

#: Pictures of a recording that are looked at, and those of which they are chosen. Schedule.
_PICTURES, _LOOKED = 24, 1000
#: How far the lidar moves, m, or turns, rad, until a camera sees other outlines. Tuned: by hand.
_APART, _TURN = 2.0, 0.3


def camera_pairs(trace: Path, camera: str, declared: Mount, pictures: int = _PICTURES) -> list[Pair]:
    """Pictures of different places, each with the nearest sweep as the lidar would see it at that instant.

    Raises:
        RoverError: a sensor is damaged, or the camera has no intrinsics.
    """
    rig = Rig(trace)
    name = rig.main("lidar") or "lidar"
    options, lidar, metadata = clock_options(trace), Sensor(trace / name), read_text(trace / name / rig.sidecar(name))
    reader = lidar_reader(metadata, options.ts_reference)
    motion = reader.motion(whole_sensor(trace / "_odom", *State._fields), options.times)
    channels: tuple[str, ...] = tuple(each for each in ("rng", "xyz", "count", "time") if each in lidar.specs)
    stamps = lidar.times(lidar.length(truncate=True, channels=channels))
    lens, video = camera_lens(trace, camera), Trace(trace).source(camera, "video.avi").channel("video.avi")
    source = Trace(trace).sensor(camera)
    ts = source.times(min(len(video), source.length(truncate=True, channels=())))
    times = corrected("camera", ts, ts, options.times) + declared.time_offset
    states, known = motion.trajectory.at(times)
    numbers = np.flatnonzero(known)
    usable = _different(numbers[:: 1 + len(numbers) // _LOOKED], states)
    pairs = []
    for number in usable[np.unique(((np.arange(pictures) + 0.5) / pictures * len(usable)).astype("i8"))]:
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
        xyz = matmul(columns.rot[None], places.xyz.astype("f8")[..., None])[..., 0] + columns.pos
        returned = (places.rng > 0) & (places.rng != CLIPPED)
        picture = video.read(int(number), int(number) + 1)[0]
        twist = np.append(states.avel[number], matmul(states.rot[number].T, states.vel[number]))
        pairs.append(Pair(xyz[returned], cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY), lens, twist))
    return pairs


def _different(numbers: np.ndarray, states: State) -> np.ndarray:
    """The pictures, of those that are numbered, from which the lidar moved or turned away since the one before."""
    chosen: list[int] = []
    for number in numbers.tolist():
        turn = log(matmul(states.rot[chosen[-1]].T, states.rot[number])[None])[0] if chosen else np.zeros(3)
        way = states.pos[number] - states.pos[chosen[-1]] if chosen else np.zeros(3)
        if not chosen or np.hypot.reduce(way) > _APART or np.hypot.reduce(turn) > _TURN:
            chosen.append(number)
    return np.array(chosen, "i8")


def camera_mount(trace: Path, camera: str, declared: Mount) -> MountEstimate:
    """What the pictures of a recording show of the mount of their camera. Errors as of `camera_pairs`."""
    return estimate_camera(camera_pairs(trace, camera, declared) if declared.known else [], declared)
