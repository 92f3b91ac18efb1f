"""Where the rover went and how fast: figures and curves from `_odom`, `_radar_pose` and `_radar_velocity`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rover_pipeline.errors import FormatError
from rover_pipeline.format.sensor import TS, VALID, Sensor
from rover_pipeline.report.recorded import Recorded
from rover_pipeline.report.summary import Motion, RadarSpeed
from rover_pipeline.report.times import drawable, thin

#: Channels of `_odom` that are its result, not what it says of its quality.
_RESULT = {TS, VALID, "pos", "rot", "vel", "acc", "avel"}
#: Positions and speeds beyond these are damage.
_FARTHEST_M, _FASTEST_MPS = 1e6, 1e3
#: Points of the path that `summary.json` holds.
_PATH_POINTS = 200


@dataclass(frozen=True)
class Quality:
    """A quality channel of `_odom`: f8 (frame,), and what it is."""

    name: str
    description: str
    values: np.ndarray


@dataclass(frozen=True)
class Track:
    """The lidar's trajectory in the world frame.

    Attributes:
        ts: f8, (frame,), s; pos: f8, (frame, 3), m; speed: f8, (frame,), m/s. NaN where `valid` is 0.
        valid: bool, (frame,).
    """

    ts: np.ndarray
    pos: np.ndarray
    speed: np.ndarray
    valid: np.ndarray
    quality: list[Quality] = field(default_factory=list)


@dataclass(frozen=True)
class Speed:
    """A speed over time: f8 (frame,) each, s and m/s; NaN where it is not valid."""

    ts: np.ndarray
    speed: np.ndarray


def read_track(odom: Recorded | None) -> Track | None:
    """The trajectory; None when there is none that can be read, or it has no valid pose."""
    if odom is None or odom.sensor is None or len(odom.ts) < 2:
        return None
    pos, count = _vectors(odom.sensor, "pos"), len(odom.ts)
    if pos is None or len(pos) != count:
        return None
    valid = (odom.valid != 0) & (np.abs(np.where(np.isfinite(pos), pos, np.inf)) < _FARTHEST_M).all(axis=1)
    if valid.sum() < 2:
        return None
    vel = _vectors(odom.sensor, "vel")
    if vel is None or len(vel) != count:
        vel = np.gradient(pos, odom.ts, axis=0)
    speed = np.where(valid, _norm(vel), np.nan)
    return Track(odom.ts, np.where(valid[:, None], pos, np.nan), speed, valid, _quality(odom.sensor, count, valid))


def _quality(sensor: Sensor, count: int, valid: np.ndarray) -> list[Quality]:
    """Every scalar channel beside the result: what the odometry says of itself."""
    found = []
    for name, spec in sensor.specs.items():
        if name in _RESULT or spec.shape or spec.format != "raw":
            continue
        try:
            values = sensor.channel(name).read()
        except FormatError:
            continue
        if len(values) == count and values.dtype.kind in "fiub":
            found.append(Quality(name, spec.desc or spec.description or "", drawable(values)))
    return found


def describe(track: Track, truth: Track | None = None) -> Motion:
    """The figures of a trajectory; `truth` is where a simulator says that the lidar was."""
    pos = track.pos[track.valid]
    speed = track.speed[np.isfinite(track.speed)]
    keep = np.unique(np.linspace(0, len(pos) - 1, min(len(pos), _PATH_POINTS)).round().astype(int))
    quality = {}
    for channel in track.quality:
        values = channel.values[np.isfinite(channel.values)]
        if len(values):
            quality[channel.name] = (float(values.min()), float(np.median(values)), float(values.max()))
    return Motion(
        distance_m=_length(track),
        extent_m=tuple(np.ptp(pos, axis=0).tolist()),
        end_to_start_m=float(np.linalg.norm(pos[-1] - pos[0])),
        max_speed_mps=float(speed.max(initial=0.0)),
        median_speed_mps=float(np.median(speed)) if len(speed) else 0.0,
        invalid=int((~track.valid).sum()),
        samples=len(track.ts),
        quality=quality,
        truth_rms_m=_difference(track, truth) if truth else None,
        path_m=tuple((round(float(x), 3), round(float(y), 3)) for x, y in pos[keep, :2]),
    )


def _length(track: Track) -> float:
    """Length of the path, without the shaking of single poses: a vertex about every third of a second.

    Summing the steps between all poses would count the noise of each as distance.
    """
    ts, pos = track.ts[track.valid], track.pos[track.valid]
    bins = np.floor((ts - ts[0]) / 0.3).astype(int)
    _, first = np.unique(bins, return_index=True)
    vertices = pos[np.append(first, len(pos) - 1)]
    return float(np.linalg.norm(np.diff(vertices, axis=0), axis=1).sum())


def _difference(track: Track, truth: Track) -> float | None:
    """RMS distance of the poses from those of the truth at the same times, m. Both begin in the same frame."""
    _, ours, theirs = np.intersect1d(track.ts, truth.ts, return_indices=True)
    away = np.linalg.norm(track.pos[ours] - truth.pos[theirs], axis=1)
    away = away[np.isfinite(away)]
    return float(np.sqrt(np.mean(away**2))) if len(away) else None


def read_speed(recorded: Recorded | None) -> Speed | None:
    """Norm of the channel `vel` of a sensor; None when there is none."""
    if recorded is None or recorded.sensor is None:
        return None
    vel = _vectors(recorded.sensor, "vel")
    if vel is None or len(vel) != len(recorded.ts) or not len(vel):
        return None
    return Speed(recorded.ts, np.where(recorded.valid != 0, _norm(vel), np.nan))


def _norm(vel: np.ndarray) -> np.ndarray:
    """Speeds of velocities, f8 (frame,), m/s; NaN where nothing on the ground is as fast."""
    usable = np.all(np.abs(np.where(np.isfinite(vel), vel, np.inf)) < _FASTEST_MPS, axis=1)
    return np.linalg.norm(np.where(usable[:, None], vel, np.nan), axis=1)


def radar_speed(sidecar: dict[str, Any], pose: Speed | None, measured: Speed | None) -> RadarSpeed | None:
    """Speed against the largest Doppler that does not wrap; None when `radar.json` does not say how large it is."""
    try:
        limit = float(sidecar["doppler_resolution"]) * int(sidecar["shape"][0]) / 2
    except (KeyError, TypeError, ValueError, IndexError):
        return None
    if not 0 < limit < _FASTEST_MPS:
        return None
    speeds = pose.speed[np.isfinite(pose.speed)] if pose else np.empty(0)
    difference = None
    if pose and measured and len(speeds):
        # Both are the radar's own speed; the poses' one where the radar's frames are, and never beyond them.
        known = np.isfinite(pose.speed)
        there = np.interp(measured.ts, pose.ts[known], pose.speed[known], left=np.nan, right=np.nan)
        away = (there - measured.speed)[np.isfinite(there - measured.speed)]
        difference = float(np.sqrt(np.mean(away**2))) if len(away) else None
    return RadarSpeed(
        max_doppler_mps=limit,
        above_share=float((speeds > limit).mean()) if len(speeds) else None,
        max_speed_mps=float(speeds.max()) if len(speeds) else None,
        difference_mps=difference,
    )


def thinned(curve: Speed, begin: float, parts: int) -> tuple[np.ndarray, np.ndarray]:
    """A speed to draw: seconds since `begin`, m/s."""
    return thin(curve.ts - begin, curve.speed, parts)


def _vectors(sensor: Sensor, name: str) -> np.ndarray | None:
    """A channel of vectors, f8 (frame, 3); None when there is none that can be read."""
    spec = sensor.specs.get(name)
    if spec is None or spec.shape != (3,):
        return None
    try:
        return sensor.channel(name).read().astype("f8")
    except FormatError:
        return None
