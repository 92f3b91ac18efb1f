"""Where the rover went, how fast, and through what: `_odom`, `_radar_pose`, `_radar_velocity`, and files of `_map`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from rover_pipeline.draw.map_view import FloorPlan, View3d, floor_plan, view_3d
from rover_pipeline.draw.pixels import EmbeddedImage, embed_image, resize_image
from rover_pipeline.errors import FormatError, require_damage, unless_damaged
from rover_pipeline.format.files import read_bounded
from rover_pipeline.format.meta import MAX_SAMPLE_BYTES
from rover_pipeline.format.sensor import TS, VALID
from rover_pipeline.format.texts import read_yaml
from rover_pipeline.mapping.grid import UNKNOWN
from rover_pipeline.mapping.ply import read_ply
from rover_pipeline.report.read.sensors import SensorRecord, plausible_or_nan
from rover_pipeline.report.summary import Motion, RadarSpeed
from rover_pipeline.report.tuning import TUNING
from rover_pipeline.validation import accuracy
from rover_pipeline.validation.rig import is_plausible

#: Channels of `_odom` with the states; all others say how good these are.
_STATE_CHANNELS = {TS, VALID, "pos", "rot", "vel", "acc", "avel"}
#: Points of the path in `summary.json`. Layout.
_PATH_POINTS = 200
#: Deviations of a speed beyond which it is another one. Noise: normal distribution, 99.7 %.
_GATE = 3.0


@dataclass(frozen=True)
class QualityChannel:
    """A scalar channel of `_odom` that says how good the poses are: f8, (frame,)."""

    name: str
    description: str
    values: np.ndarray


@dataclass(frozen=True)
class SpeedCurve:
    """Speed over time: f8 (frame,) each, s and m/s; NaN where it is not valid. `sigma`: its standard deviations, f8
    (frame,), m/s, where they are known."""

    ts: np.ndarray
    speed: np.ndarray
    sigma: np.ndarray | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class Track(SpeedCurve):
    """Positions, f8 (frame, 3), m, NaN where not valid, and speeds of the lidar in the world frame, by `source`."""

    pos: np.ndarray
    valid: np.ndarray
    quality: list[QualityChannel] = field(default_factory=list)
    source: str = "_odom"

    @property
    def known(self) -> bool:
        """Whether it has enough valid poses for a path."""
        return bool(self.valid.sum() > 1)


def read_track(odom: SensorRecord | None) -> Track | None:
    """The track of `_odom`, `_reference` or `_truth`, valid or not; None when it cannot be read or is a single pose."""
    if odom is None or len(odom.ts) < 2 or (pos := odom.read("pos", (3,))) is None:
        return None
    plausible = is_plausible(pos).all(axis=1)
    valid = (odom.valid != 0) & plausible
    vel = odom.read("vel", (3,))
    speed = np.where(valid, _norm(np.gradient(pos, odom.ts, axis=0) if vel is None else vel), np.nan)
    pos = np.where(valid[:, None], pos, np.nan)
    quality = []
    for name, spec in odom.sensor.specs.items() if odom.sensor else ():
        is_candidate = name not in _STATE_CHANNELS and spec.format == "raw" and spec.dtype.kind != "c"
        if is_candidate and (values := odom.read(name)) is not None:
            quality.append(QualityChannel(name, spec.desc or spec.description or "", plausible_or_nan(values)))
    return Track(odom.ts, speed, pos, valid, quality, odom.name)


def summarise_track(track: Track, truth: Track | None = None, reference_rms: float | None = None) -> Motion:
    """The figures of a track. `truth`: of a simulation; `reference_rms`: distance from a path that came with it, m."""
    pos, truth_rms = track.pos[track.valid], None
    if truth:  # in the same world frame
        _, ours, true = np.intersect1d(track.ts, truth.ts, return_indices=True)
        truth_rms = _rms(np.linalg.norm(track.pos[ours] - truth.pos[true], axis=1))
    speed = track.speed[np.isfinite(track.speed)]
    keep = np.unique(np.linspace(0, max(0, len(pos) - 1), min(len(pos), _PATH_POINTS)).round().astype(int))
    finite = {each.name: each.values[np.isfinite(each.values)] for each in track.quality}
    quality = {name: (each.min(), np.median(each), each.max()) for name, each in finite.items() if len(each)}
    return Motion(
        source=track.source,
        distance_m=float(accuracy.way(track.ts[track.valid], pos)[-1]) if track.known else 0.0,
        extent_m=tuple(np.ptp(pos, axis=0).tolist()) if track.known else (0.0, 0.0, 0.0),
        end_to_start_m=float(np.linalg.norm(pos[-1] - pos[0], axis=0)) if track.known else 0.0,
        max_speed_mps=float(speed.max(initial=0.0)),
        median_speed_mps=float(np.median(speed)) if len(speed) else 0.0,
        invalid=int((~track.valid).sum()),
        samples=len(track.ts),
        quality=quality,
        truth_rms_m=truth_rms,
        reference_rms_m=reference_rms,
        path_m=tuple((round(float(x), 3), round(float(y), 3)) for x, y in pos[keep, :2]),
    )


def _rms(values: np.ndarray) -> float | None:
    finite = values[np.isfinite(values)]
    return float(np.sqrt(np.mean(finite**2))) if len(finite) else None


def read_speed(record: SensorRecord | None) -> SpeedCurve | None:
    """Norm of the channel `vel` of a sensor, whose `cov` says how uncertain it is; None when it is missing or cannot be
    read."""
    vel = record.read("vel", (3,)) if record else None
    if record is None or vel is None or not len(vel):
        return None
    cov, sigma = record.read("cov", (3, 3)), None
    if cov is not None:
        with np.errstate(invalid="ignore"):
            squares = np.einsum("ni,nij,nj->n", vel, cov, vel) / np.maximum(np.square(vel).sum(axis=1), 1e-6)
            sigma = np.sqrt(np.maximum(squares, 0.0))
    return SpeedCurve(record.ts, np.where(record.valid != 0, _norm(vel), np.nan), sigma=sigma)


def _norm(vel: np.ndarray) -> np.ndarray:
    """Speeds of velocities, f8 (frame,), m/s; NaN where they are too large to be true."""
    return np.linalg.norm(np.where(is_plausible(vel).all(axis=1, keepdims=True), vel, np.nan), axis=1)


def compare_radar_speed(
    sidecar: Mapping[str, Any], pose: SpeedCurve | None, measured: SpeedCurve | None
) -> RadarSpeed | None:
    """Speed of the radar against its maximum Doppler; None when `radar.json` has no Doppler axis, as of one chirp.
    `pose`: by its poses; `measured`: by its own Doppler measurements, whose deviations are a share of a large speed,
    which no fixed limit fits."""
    try:
        max_doppler = float(sidecar["doppler_resolution"]) * int(sidecar["shape"][0]) / 2 * (sidecar["shape"][0] > 1)
    except (LookupError, TypeError, ValueError, ArithmeticError):
        return None
    if not 0 < max_doppler < np.inf:
        return None
    speeds = pose.speed[np.isfinite(pose.speed)] if pose else np.empty(0)
    difference = contradicted = speeds_apart = None
    if pose and measured and len(speeds):
        # The poses are interpolated at the times of the radar's frames, but not extrapolated.
        known = np.isfinite(pose.speed)
        expected = np.interp(measured.ts, pose.ts[known], pose.speed[known], left=np.nan, right=np.nan)
        difference = _rms(expected - measured.speed)
        both = np.isfinite(expected) & np.isfinite(measured.speed)
        sd = 0.0 if measured.sigma is None else np.nan_to_num(measured.sigma, nan=np.inf)
        limit = TUNING.contradiction_mps + _GATE * sd
        apart = both & (np.abs(expected - measured.speed) > limit)
        if both.any():
            contradicted = float(apart.sum() / both.sum())
        if apart.any():
            speeds_apart = float(np.median(expected[apart])), float(np.median(measured.speed[apart]))
    return RadarSpeed(
        max_doppler_mps=max_doppler,
        above_share=float((speeds > max_doppler).mean()) if len(speeds) else None,
        max_speed_mps=float(speeds.max()) if len(speeds) else None,
        difference_mps=difference,
        contradicted_share=contradicted,
        contradicted_mps=speeds_apart,
    )


#: Width of the view from above, pixels. Layout.
_VIEW_WIDTH = 900


def read_floor_plan(folder: Path) -> FloorPlan | None:
    """The grid that ROS' map_server would load from a folder; None when it is missing or cannot be read."""
    try:
        metadata = read_yaml(folder / "occupancy.yaml")
        data = read_bounded(folder / "occupancy.pgm", MAX_SAMPLE_BYTES, "any grid")
        resolution, (x, y, *_) = float(metadata["resolution"]), metadata["origin"]
        origin = np.array([float(x), float(y)])
    except (OSError, FormatError, KeyError, TypeError, ValueError, ArithmeticError) as error:
        require_damage(error)
        return None
    pixels = _decode(data, cv2.IMREAD_GRAYSCALE)
    if pixels is None or not 0 < resolution < 1e3 or not (np.abs(origin) < 1e6).all():
        return None
    known = pixels != UNKNOWN
    if metadata.get("negate"):
        pixels = 255 - pixels
    rows, columns = np.flatnonzero(known.any(axis=1)), np.flatnonzero(known.any(axis=0))
    if not len(rows):
        return None
    crop = np.s_[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    height = len(pixels)
    low = origin + resolution * np.array([columns[0], height - 1 - rows[-1]])
    high = origin + resolution * np.array([columns[-1] + 1, height - rows[0]])
    wall, floor = (pixels[crop] < 128) & known[crop], (pixels[crop] >= 128) & known[crop]
    return floor_plan(wall, floor, low, high)


def _decode(data: bytes, flags: int) -> np.ndarray | None:
    """The picture in a file; None when it cannot be decoded. OpenCV raises an error for a header of many gigabytes."""
    try:
        return cv2.imdecode(np.frombuffer(data, "u1"), flags) if data else None
    except cv2.error:
        return None


def read_map_view(folder: Path) -> EmbeddedImage | None:
    """The view of the map from above, `bev.png`, made smaller; None when it is missing or cannot be read."""
    image = None
    with unless_damaged():
        image = _decode(read_bounded(folder / "bev.png", MAX_SAMPLE_BYTES, "any picture"), cv2.IMREAD_COLOR_RGB)
    return None if image is None else embed_image(resize_image(image, _VIEW_WIDTH))


def read_view(folder: Path, track: Track | None) -> View3d | None:
    """The view of `map.ply` in the folder of a map, and of a track in it; None where the map cannot be read."""
    stored = np.empty((0, 3))
    with unless_damaged():
        stored, _ = read_ply(folder / "map.ply")
    return view_3d(stored, np.empty((0, 3)) if track is None else track.pos[track.valid])
