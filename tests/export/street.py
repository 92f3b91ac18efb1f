"""A recording of a drive along a curve past a few moving objects, all of which are known as functions of time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

from rover_pipeline.format.sensor import TS, TS_SPEC, VALID, VALID_SPEC, SensorWriter
from rover_pipeline.format.trace import CONFIG
from rover_pipeline.objects.options import CLASSES
from tests.kit import START_S, spec_of

#: The lidar's times are not those of frames, which lie at tenths of a second.
OFFSET_S = 0.037
SPEED, TURN = 4.0, 0.2
_MAX_OBJECTS = 8


def times(seconds: float, rate: float = 10.0) -> np.ndarray:
    """Times of the lidar, f8, s."""
    return START_S + OFFSET_S + np.arange(round(seconds * rate)) / rate


def rig_state(ts: np.ndarray) -> dict[str, np.ndarray]:
    """The rig at instants, f8 s: it drives along a circle to the left, at 4 m/s and 0.2 rad/s, and rolls a little."""
    at = ts - START_S
    heading, radius = TURN * at, SPEED / TURN
    zero = 0 * at
    cos, sin = np.cos(heading), np.sin(heading)
    return {
        "pos": np.stack([radius * sin, radius * (1 - cos), 0.1 * at], 1),
        "vel": np.stack([SPEED * cos, SPEED * sin, 0.1 + zero], 1),
        "acc": np.stack([-SPEED * TURN * sin, SPEED * TURN * cos, zero], 1),
        "rot": Rotation.from_euler("zyx", np.stack([heading, zero, zero], 1)).as_matrix(),
        "avel": np.stack([zero, zero, TURN + zero], 1),
    }


def car(ts: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Position, f8 (N, 3) m, velocity, f8 (N, 3) m/s, and yaw, rad, of a car that drives ahead and to the left."""
    vel = 5.0 * np.array([np.cos(0.5), np.sin(0.5), 0.0])
    return np.array([8.0, 3.0, 0.8]) + np.outer(ts - START_S, vel), np.tile(vel, (len(ts), 1)), 0.5


def walker(ts: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """The same of a person who walks to the right."""
    vel = np.array([0.0, -1.3, 0.0])
    return np.array([12.0, 6.0, 0.9]) + np.outer(ts - START_S, vel), np.tile(vel, (len(ts), 1)), -np.pi / 2


def street(path: Path, seconds: float = 8.0, *, lost: tuple[int, ...] = (), objects: bool = True) -> Path:
    """A recording with `_odom` and `_objects` only.

    The objects are a car whose box is described in another of its four ways now and then, a person who is not seen for
    0.3 and later for 1 s, something that is no road user, and a car that is too far away.

    Args:
        lost: samples whose pose is not valid.
    """
    (path).mkdir(parents=True)
    (path / CONFIG).write_text("lidar: {type: lidar}\n")
    ts = times(seconds)
    valid = np.ones(len(ts), "u1")
    valid[list(lost)] = 0
    write_sensor(path / "_odom", ts, valid, rig_state(ts))
    if objects:
        write_sensor(path / "_objects", ts, np.ones(len(ts), "u1"), object_channels(ts))
    return path


def object_channels(ts: np.ndarray) -> dict[str, np.ndarray]:
    """The channels of `_objects`."""
    count = len(ts)
    channels = {
        "centre": np.full((count, _MAX_OBJECTS, 3), np.nan, "f4"),
        "extent": np.full((count, _MAX_OBJECTS, 3), np.nan, "f4"),
        "yaw": np.full((count, _MAX_OBJECTS), np.nan, "f4"),
        "vel": np.full((count, _MAX_OBJECTS, 3), np.nan, "f4"),
        "track": np.full((count, _MAX_OBJECTS), -1, "i4"),
        "probability": np.full((count, _MAX_OBJECTS, len(CLASSES)), np.nan, "f4"),
        "count": np.zeros(count, "u2"),
    }

    def add(at: int, pos: np.ndarray, vel: np.ndarray, yaw: float, extent: object, track: int, name: str) -> None:
        slot = int(channels["count"][at])
        channels["centre"][at, slot], channels["vel"][at, slot], channels["yaw"][at, slot] = pos, vel, yaw
        channels["extent"][at, slot], channels["track"][at, slot] = extent, track
        channels["probability"][at, slot] = np.where(np.array(CLASSES) == name, 0.85, 0.05)
        channels["count"][at] += 1

    car_pos, car_vel, car_yaw = car(ts)
    person_pos, person_vel, person_yaw = walker(ts)
    for at in range(count):
        length, width, turned = 4.4 + 0.05 * (at % 3), 1.8, car_yaw
        if at % 7 == 3:  # the same box, a quarter turn further
            length, width, turned = width, length, turned + np.pi / 2
        if at % 5 == 2:  # and from its other end
            turned -= np.pi
        add(at, car_pos[at], car_vel[at], turned, (length, width, 1.6), 41, "car")
        if not (20 <= at < 22 or 40 <= at < 50):
            add(at, person_pos[at], person_vel[at], person_yaw, (0.7, 0.5, 1.75), 7, "pedestrian")
        add(at, np.array([5, -5, 1.0]), np.zeros(3), 0.0, (2.0, 2.0, 2.0), 8, "other")
        add(at, np.array([-80, 0, 1.0]), np.zeros(3), 0.0, (4.0, 2.0, 1.6), 9, "car")
    return channels


def write_sensor(folder: Path, ts: np.ndarray, valid: np.ndarray, channels: dict[str, np.ndarray]) -> None:
    """Write a sensor with `ts` and `valid`."""
    specs = {TS: TS_SPEC, VALID: VALID_SPEC, **{name: spec_of(values) for name, values in channels.items()}}
    if "probability" in specs:
        desc = f"Probability of each class by rules: {', '.join(CLASSES)}. [object, class]"
        specs["probability"] = specs["probability"].model_copy(update={"desc": desc})
    with SensorWriter(folder, specs) as writer:
        writer.append(ts=ts, valid=valid, **channels)
