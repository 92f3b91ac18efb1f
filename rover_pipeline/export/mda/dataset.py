"""The MDA dataset of some recordings: a file for each key frame, whose revisions are the history of the processing."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from rover_pipeline.camera.pictures import encode_picture
from rover_pipeline.datasets.options import MDA_SOURCES, RADAR_MEASURES, MdaOptions
from rover_pipeline.datasets.splits import SPLITS, Course
from rover_pipeline.errors import FormatError, SampleError, counted
from rover_pipeline.export.dataset import ExportJob
from rover_pipeline.export.mda.files import LAYOUT, Item, append, describe, read_bytes, read_item, relations
from rover_pipeline.export.objects import ObjectReader, Objects
from rover_pipeline.export.recording import Recording
from rover_pipeline.export.samples import find_samples
from rover_pipeline.format.channels.jpeg import PictureChannel
from rover_pipeline.format.provenance import read_provenance
from rover_pipeline.format.sensor import TS, VALID
from rover_pipeline.kinematics.rotation import from_matrix
from rover_pipeline.numerics.nearest import nearest_samples
from rover_pipeline.validation.rig import pose_delay, whole_sensor

# What an item holds: the picture of a key frame, as bytes of a file, and the texts of its annotations.
#
# A text is JSON with sorted keys, and numbers that keep their places. A later revision stores only the blocks of ten
# bytes that are new. When a number changes, the text must not shift, or all blocks after it were new. So numbers are
# padded with blanks, which JSON allows, to a width that they rarely exceed.

#: Decibels of 0 in a picture of the radar, and of one step. 16 bits go from -200 to 455 dB. Layout.
RADAR_ZERO_DB, RADAR_STEP_DB = -200.0, 0.01
_UNITS = {
    "lidar": "mm, 0 = no return, 65535 = clipped",
    "radar": f"power in steps of {RADAR_STEP_DB:g} dB above {RADAR_ZERO_DB:g} dB, rows = azimuth from left, "
    "columns = range",
}
#: Characters and decimals of positions and sizes in m, speeds in m/s, parts of a quaternion, angles in rad, shares.
#: Layout.
_METRES, _SPEED, _UNIT, _ANGLE, _SHARE = (12, 4), (9, 3), (10, 7), (8, 4), (6, 3)


def key_frames(ts: np.ndarray, period: float) -> np.ndarray:
    """The first sample in each period, s, of the times of samples, f8 (N,), s, increasing; i8.

    Key frames depend on the recorded times only. A choice by distance would be another one after each processing, and
    the revisions of an item would be lost.
    """
    return np.unique(np.floor(ts / period), return_index=True)[1]


class Fixed:
    """A number, or an array of numbers, with a width and a number of decimals. What is not finite becomes null."""

    def __init__(self, value: Any, form: tuple[int, int]) -> None:
        self._value, self._form = np.asarray(value, "f8"), form

    def __str__(self) -> str:
        if self._value.ndim:
            return f"[{','.join(str(Fixed(each, self._form)) for each in self._value)}]"
        width, decimals = self._form
        value = round(float(self._value), decimals) if math.isfinite(self._value) else None
        return "null".rjust(width) if value is None else f"{value + 0.0:{width}.{decimals}f}"  # adding 0 turns -0 to 0


def json_text(content: Any) -> str:
    """JSON of one line, ASCII, with sorted keys and without blanks but for those of `Fixed`."""
    if isinstance(content, Mapping):
        return "{" + ",".join(f"{json.dumps(key)}:{json_text(content[key])}" for key in sorted(content)) + "}"
    if isinstance(content, Fixed):
        return str(content)
    if isinstance(content, Sequence) and not isinstance(content, str):
        return f"[{','.join(map(json_text, content))}]"
    return json.dumps(content)


def microseconds(ts: float) -> int:
    """A time, s, as the whole number of microseconds since the epoch; seconds as f8 hold no more."""
    return round(ts * 1e6)


def pose_text(sensor: str, ts: float, valid: bool, pos: np.ndarray, rot: np.ndarray, vel: np.ndarray) -> str:
    """The pose of a sensor at the time of a sample, s. `pos`, `vel`: f8 (3,), m and m/s, in the world of `_odom`;
    `rot`: f8 (3, 3), world-from-sensor, front-left-up."""
    quat = np.full(4, np.nan)
    if np.isfinite(rot).all():
        quat = from_matrix(rot).as_quat(canonical=True)
    return json_text(
        {
            "frame": "world of _odom, from sensor, front-left-up",
            "pos_m": Fixed(pos, _METRES),
            "quat_xyzw": Fixed(quat, _UNIT),
            "sensor": sensor,
            "time_us": microseconds(ts),
            "valid": int(valid),
            "vel_mps": Fixed(vel, _SPEED),
        }
    )


def objects_text(ts: float, objects: Objects | None, classes: Sequence[str], later: float = 0.0) -> str:
    """Objects at the time of a sample. They are moved there along their velocities from the sweep that shows them.

    Args:
        ts: of the sample, s.
        objects: of one sweep; None = there is none near enough, and the objects are not known.
        later: what is added to `ts` to have the time by the clock of the lidar, s.
    """
    rows = None
    if objects is not None:
        objects = objects.moved(ts + later - objects.ts)
        rows = [
            {
                "centre_m": Fixed(objects.centre[at], _METRES),
                "extent_m": Fixed(objects.extent[at], _METRES),
                "probability": Fixed(objects.probability[at], _SHARE),
                "track": int(objects.track[at]),
                "vel_mps": Fixed(objects.vel[at], _SPEED),
                "yaw_rad": Fixed(objects.yaw[at], _ANGLE),
            }
            for at in np.argsort(objects.track, kind="stable").tolist()
        ]
    content = {"classes": list(classes), "frame": "world of _odom", "objects": rows, "time_us": microseconds(ts)}
    return json_text(content)


__all__ = ["LAYOUT", "describe", "relations", "write"]

_POSE = ("pos", "rot", "vel")
#: Measures of the odometry, and the rows of its covariance that they are of. Layout.
_SIGMAS = {"position_sd_m": slice(0, 3), "rotation_sd_rad": slice(3, 6)}


def write(job: ExportJob) -> None:
    """Write `RECORDING/RECORDING_SENSOR_SAMPLE.mda` for each key frame of each sensor of the type. Where an older
    dataset has the file, a revision is added to each annotation that changed, and what is not exported any more stays
    as it was. Raises FormatError where a recording lacks something, or has no key frame; or a file of the older dataset
    is damaged."""
    options: MdaOptions = job.options
    views = [each for recording in job.recordings for each in job.views(recording, options.sensor)]
    sources = [_Source(view, options) for view in views]
    courses = [Course(each.recording.name, each.samples.ts[each.keys], each.positions()) for each in sources]
    changes: list[str] = []
    # Parts of an attempt that began before another dataset was put in place lack the revisions of that one.
    history = (read_provenance(job.older) or {}).get("identity") if job.older else None
    for source, course, split in zip(sources, courses, job.split(courses), strict=True):
        chosen = np.flatnonzero(split >= 0)
        keys = list(zip(source.keys[chosen].tolist(), split[chosen].tolist(), strict=True))
        part = source.recording.name if source.recording in job.recordings else f"{course.name} {source.sensor}"
        job.in_parts(part, keys, partial(_write_key, job, source, changes), "key frame", f"{history}")
    # The files of the older dataset that were not made again stay.
    for path in sorted(job.older.glob("*/*.mda")) if job.older else []:
        target = job.folder / path.parent.name / path.name
        if not target.exists():
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(read_bytes(path))
    if not any(job.folder.glob("*/*.mda")):
        raise FormatError("export mda: none of the recordings has a key frame outside of the gaps between splits")
    for problem, count in Counter(changes).items():
        job.note(f"{counted(count, 'key frame')} {problem}")


def _write_key(job: ExportJob, source: _Source, changes: list[str], key: tuple[int, int]) -> list[Path]:
    """Write the file of a key frame, by its number among the valid samples of the payload's sensor and that of its
    split. Returns its path, or none; `changes` gets what the user should know."""
    name = source.recording.name
    keys = {"recording": name, "item": f"{name}_{source.sensor}_{source.samples.indices[key[0]]:06d}"}
    try:
        item = source.item(*key)
    except SampleError:
        changes.append("have a picture that cannot be decoded, and are left out")
        return []
    older = LAYOUT.path(job.older, "items", **keys) if job.older else None
    before = read_item(older) if older and older.exists() else None
    groups = dict(before.groups) if before else {}
    for name, text in source.annotations(key[0]).items():
        groups[name] = append(groups.get(name, ()), text)
    if before and before.payload != item.payload:
        changes.append("have another payload than before; their older revisions are of the older one")
    return [job.save("items", replace(item, groups=groups), **keys)]


class _Source:
    """The key frames of one recording, `keys`, i8 (key,), of the valid `samples` of the payload's `sensor`, and what
    there is to say about them."""

    def __init__(self, recording: Recording, options: MdaOptions) -> None:
        self.recording, self._options = recording, options
        self.sensor = recording.called(options.sensor)
        name, channel, poses = MDA_SOURCES[options.sensor]
        samples = find_samples(recording, name, channel)
        if samples is None:
            source = recording.folder(name)
            raise FormatError(f"{source}: has no channel {channel} to make the payloads of key frames from")
        self.samples, self._pictures = samples, samples.sensor.channel(channel)
        spec, path = self._pictures.spec, self._pictures.path
        if options.sensor == "camera" and not isinstance(self._pictures, PictureChannel):
            raise FormatError(f"{path}: holds no pictures, but {spec.format}")
        if options.sensor != "camera" and len(spec.shape) != 2:
            raise FormatError(f"{path}: has samples of {list(spec.shape)}, which are no pictures")
        self._pose_sensor = recording.called(poses)
        self._later = pose_delay(recording.path, self._pose_sensor)  # objects are where they are at the pose's instant
        self._later += 0.0 if options.sensor == "lidar" else recording.mount(options.sensor).time_offset
        self._about = {"channel": f"{samples.sensor.name}/{channel}", **self._describe()}
        self.keys = key_frames(samples.ts, options.period)
        self._poses = whole_sensor(recording.folder(poses), *_POSE)
        self._objects = ObjectReader(recording.path) if options.objects else None
        self._measures = list(_measures(recording))

    def positions(self) -> np.ndarray:
        """Positions at the key frames, f8 (key, 3), m; NaN where they are not known."""
        found = [self._pose(each) for each in self.samples.ts[self.keys].tolist()]
        return np.array([pos if valid else np.full(3, np.nan) for valid, pos, *_ in found]).reshape(-1, 3)

    def item(self, at: int, split: int) -> Item:
        """The file of a key frame without annotations. Raises SampleError when the picture is damaged."""
        sample = int(self.samples.indices[at])
        about = {"recording": self.recording.name, "sample": sample, "time_us": microseconds(self.samples.ts[at])}
        tags = (self.recording.name, self.sensor, SPLITS[split])
        return Item("Image", self._picture(sample), json_text(self._about | about), tags)

    def _describe(self) -> dict[str, Any]:
        """What all pictures have in common."""
        about: dict[str, Any] = {"sensor": self.sensor}
        if self._options.sensor != "lidar":
            mount = self.recording.mount(self._options.sensor)
            about["extrinsics"] = {
                "frame": "lidar from sensor, front-left-up",
                "rotation": np.round(mount.rotation, 9).tolist(),
                "source": mount.source,
                "translation_m": np.round(mount.translation, 6).tolist(),
            }
        if self._options.sensor != "camera":
            return about | {"unit": _UNITS[self._options.sensor]}
        if self.recording.has("camera/camera.json"):
            about["intrinsics"] = dict(sorted(asdict(self.recording.lens()).items()))
        return about

    def _picture(self, sample: int) -> bytes:
        """The camera's JPEG file as it was recorded; ranges and radar power as 16-bit PNG."""
        values = self._pictures.sample(sample)  # whoever trains must be able to decode it
        if isinstance(self._pictures, PictureChannel):
            return self._pictures.jpeg(sample)
        if self._options.sensor == "radar":
            steps = (np.nan_to_num(values.astype("f8"), nan=RADAR_ZERO_DB) - RADAR_ZERO_DB) / RADAR_STEP_DB
            values = np.clip(np.rint(steps), 0, 65535)
        return encode_picture(".png", values.astype("u2"))

    def annotations(self, at: int) -> dict[str, str]:
        """The text of each group of annotations of a key frame."""
        time = float(self.samples.ts[at])
        texts = {"pose": pose_text(self._pose_sensor, time, *self._pose(time))}
        by_lidar = time + self._later
        if (objects := self._objects) is not None:
            nearest = _nearest(objects.ts, by_lidar, self._options.max_dt)
            rows = None
            if nearest is not None and objects.valid[nearest]:
                rows = objects.read(nearest, nearest + 1, objects.ts)
            texts["objects"] = objects_text(time, rows, objects.classes, self._later)
        measures = {}
        for name, ts, values in self._measures:
            nearest = _nearest(ts, by_lidar, self._options.max_dt)
            measures[name] = Fixed(math.nan if nearest is None else values[nearest], _UNIT)
        texts["quality"] = json_text(measures)
        return texts

    def _pose(self, time: float) -> tuple[bool, np.ndarray, np.ndarray, np.ndarray]:
        """Whether a pose is valid, its position, rotation and velocity. That of a sample has the sample's own time."""
        at = _nearest(self._poses[TS], time, 1e-6)
        if at is None:
            return False, np.full(3, np.nan), np.full((3, 3), np.nan), np.full(3, np.nan)
        pos, rot, vel = (self._poses[each][at].astype("f8") for each in _POSE)
        return bool(self._poses[VALID][at]), pos, rot, vel


def _measures(recording: Recording) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Measures of quality as name, times by the lidar's clock, and values: those of the odometry and, where there are
    some, of the radar."""
    odometry = find_samples(recording, "_odom", "cov")
    if odometry is not None and odometry.sensor.specs["cov"].shape == (6, 6) and len(odometry):
        variances = np.diagonal(odometry.read_all("cov"), axis1=1, axis2=2)
        for name, rows in _SIGMAS.items():
            yield f"odometry_{name}", odometry.ts, np.sqrt(variances[:, rows].sum(1))
    for name in RADAR_MEASURES:
        radar = find_samples(recording, "_radar_quality", name)
        if radar is not None and radar.sensor.specs[name].shape == () and len(radar):
            yield f"radar_{name}", radar.ts + recording.mount("radar").time_offset, radar.read_all(name)


def _nearest(ts: np.ndarray, time: float, tolerance: float) -> int | None:
    """Number of the time that is nearest to another; None when they are further apart than the tolerance, s."""
    at = int(nearest_samples(ts, np.array([time]))[0]) if len(ts) else -1
    return at if at >= 0 and abs(ts[at] - time) <= tolerance else None
