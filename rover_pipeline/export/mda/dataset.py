"""The MDA dataset of some recordings: a file for each key frame, whose revisions are the history of the processing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rover_pipeline.datasets.options import MdaOptions
from rover_pipeline.datasets.splits import SPLITS, Course
from rover_pipeline.errors import FormatError, SampleError
from rover_pipeline.export.dataset import ExportJob
from rover_pipeline.export.mda.codec import Item, append
from rover_pipeline.export.mda.files import LAYOUT, describe, read_bytes, read_item, relations
from rover_pipeline.export.mda.payload import (
    SOURCES,
    Payloads,
    find_payloads,
    json_text,
    key_frames,
    microseconds,
    objects_text,
    pose_text,
    quality_text,
)
from rover_pipeline.export.objects import ObjectReader
from rover_pipeline.export.recording import Recording
from rover_pipeline.export.samples import find_samples
from rover_pipeline.format.provenance import read_provenance
from rover_pipeline.format.sensor import Sensor

__all__ = ["LAYOUT", "describe", "relations", "write"]

#: Measures of the odometry, and the rows of its covariance that they are of. Layout.
_SIGMAS = {"position_sd_m": slice(0, 3), "rotation_sd_rad": slice(3, 6)}
#: Channels of `_radar_quality`, each a share or a coherence.
_RADAR_MEASURES = ("clipped", "interfered", "coherence")


class _Key(NamedTuple):
    """A key frame.

    Attributes:
        at: its number among the valid samples of the payload's sensor.
        ts: s.
        split: number of its split.
    """

    at: int
    ts: float
    split: int


def write(job: ExportJob) -> None:
    """Write `RECORDING/RECORDING_SENSOR_SAMPLE.mda` for each key frame of each sensor of the type. Where an older
    dataset has the file, a revision is added to each annotation that changed, and what is not exported any more stays
    as it was.

    Raises:
        FormatError: a recording lacks something, or has no key frame; or a file of the older dataset is damaged.
    """
    options: MdaOptions = job.options
    views = [each for recording in job.recordings for each in job.views(recording, options.sensor)]
    sources = [_Source(view, options) for view in views]
    courses = [Course(each.recording.name, each.payloads.samples.ts[each.keys], each.positions()) for each in sources]
    changes: list[str] = []
    # Parts of an attempt that began before another dataset was put in place lack the revisions of that one.
    history = (read_provenance(job.older) or {}).get("identity") if job.older else None
    for source, course, split in zip(sources, courses, job.split(courses), strict=True):
        chosen = np.flatnonzero(split >= 0)
        keys = [_Key(int(source.keys[at]), float(course.ts[at]), int(split[at])) for at in chosen]
        part = source.recording.name if source.recording in job.recordings else f"{course.name} {source.sensor}"
        job.in_parts(part, keys, partial(_write_key, job, source, changes), "key frame", f"{history}")
    _keep_history(job)
    if not any(job.folder.glob("*/*.mda")):
        raise FormatError("export mda: none of the recordings has a key frame outside of the gaps between splits")
    for problem, count in Counter(changes).items():
        job.note(f"{count} key frames {problem}")


def _write_key(job: ExportJob, source: _Source, changes: list[str], key: _Key) -> list[Path]:
    """Write the file of a key frame. Returns its path, or none; `changes` gets what the user should know."""
    keys = {"recording": source.recording.name, "item": source.stem(key)}
    try:
        item = source.item(key)
    except SampleError:
        changes.append("have a picture that cannot be decoded, and are left out")
        return []
    older = LAYOUT.path(job.older, "items", **keys) if job.older else None
    before = read_item(older) if older and older.exists() else None
    groups = dict(before.groups) if before else {}
    for name, text in source.annotations(key).items():
        groups[name] = append(groups.get(name, ()), text)
    if before and before.payload != item.payload:
        changes.append("have another payload than before; their older revisions are of the older one")
    return [job.save("items", replace(item, groups=groups), **keys)]


def _keep_history(job: ExportJob) -> None:
    """Take over the files of the older dataset that were not made again."""
    for path in sorted(job.older.glob("*/*.mda")) if job.older else []:
        target = job.folder / path.parent.name / path.name
        if not target.exists():
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(read_bytes(path))


class _Source:
    """The key frames of one recording, and what there is to say about them.

    Attributes:
        sensor: the name of the payload's sensor.
        keys: i8 (key,), of its valid samples.
    """

    def __init__(self, recording: Recording, options: MdaOptions) -> None:
        self.recording, self._options = recording, options
        self.sensor = recording.called(options.sensor)
        self.payloads: Payloads = find_payloads(recording, options.sensor)
        self.keys = key_frames(self.payloads.samples.ts, options.period)
        self._poses = _Poses(recording.folder(SOURCES[options.sensor][2]))
        self._objects = ObjectReader(recording.path) if options.objects else None
        self._measures = list(_measures(recording))

    def positions(self) -> np.ndarray:
        """Positions at the key frames, f8 (key, 3), m; NaN where they are not known."""
        return self._poses.at(self.payloads.samples.ts[self.keys])

    def stem(self, key: _Key) -> str:
        sample = int(self.payloads.samples.indices[key.at])
        return f"{self.recording.name}_{self.sensor}_{sample:06d}"

    def item(self, key: _Key) -> Item:
        """The file of a key frame without annotations. Raises SampleError when the picture is damaged."""
        sample = int(self.payloads.samples.indices[key.at])
        about = {"recording": self.recording.name, "sample": sample, "time_us": microseconds(key.ts)}
        tags = (self.recording.name, self.sensor, SPLITS[key.split])
        return Item("Image", self.payloads.read(key.at), json_text(self.payloads.metadata | about), tags)

    def annotations(self, key: _Key) -> dict[str, str]:
        """The text of each group of annotations."""
        texts = {"pose": self._poses.text(key.ts)}
        if self._objects is not None:
            nearest = _nearest(self._objects.ts, key.ts, self._options.max_dt)
            known = nearest is not None and self._objects.valid[nearest]
            rows = self._objects.read(nearest, nearest + 1, self._objects.ts) if known and nearest is not None else None
            texts["objects"] = objects_text(key.ts, rows, self._objects.classes)
        measures: dict[str, float | None] = {}
        for name, ts, values in self._measures:
            nearest = _nearest(ts, key.ts, self._options.max_dt)
            measures[name] = None if nearest is None else float(values[nearest])
        texts["quality"] = quality_text(measures)
        return texts


class _Poses:
    """The poses of one sensor, at its own times."""

    def __init__(self, folder: Path) -> None:
        sensor = Sensor(folder)
        count = sensor.length(channels=("pos", "rot", "vel"))
        self._name, self._ts, self._valid = folder.name, sensor.times(count), sensor.valid(count)
        self._values = [sensor.channel(each).read_whole(count).astype("f8") for each in ("pos", "rot", "vel")]

    def at(self, ts: np.ndarray) -> np.ndarray:
        """Positions at times of samples, f8 (N, 3), m; NaN where they are not known."""
        found = [self._index(each) for each in ts.tolist()]
        pos = np.full((len(ts), 3), np.nan)
        for row, at in zip(pos, found, strict=True):
            if at is not None and self._valid[at]:
                row[:] = self._values[0][at]
        return pos

    def text(self, ts: float) -> str:
        at = self._index(ts)
        if at is None:
            return pose_text(self._name, ts, False, np.full(3, np.nan), np.full((3, 3), np.nan), np.full(3, np.nan))
        return pose_text(self._name, ts, bool(self._valid[at]), *(values[at] for values in self._values))

    def _index(self, ts: float) -> int | None:
        """The pose of a sample has the sample's own time."""
        return _nearest(self._ts, ts, 1e-6)


_Measure = tuple[str, np.ndarray, np.ndarray]


def _measures(recording: Recording) -> Iterator[_Measure]:
    """Measures of quality as name, times and values: those of the odometry and, where there are some, of the radar."""
    odometry = find_samples(recording, "_odom", "cov")
    if odometry is not None and odometry.sensor.specs["cov"].shape == (6, 6) and len(odometry):
        variances = np.diagonal(odometry.read_all("cov"), axis1=1, axis2=2)
        for name, rows in _SIGMAS.items():
            yield f"odometry_{name}", odometry.ts, np.sqrt(variances[:, rows].sum(1))
    for name in _RADAR_MEASURES:
        radar = find_samples(recording, "_radar_quality", name)
        if radar is not None and radar.sensor.specs[name].shape == () and len(radar):
            yield f"radar_{name}", radar.ts, radar.read_all(name)


def _nearest(ts: np.ndarray, time: float, tolerance: float) -> int | None:
    """Number of the time that is nearest to another; None when they are further apart than the tolerance, s."""
    right = int(np.searchsorted(ts, time))
    near = [at for at in (right - 1, right) if 0 <= at < len(ts)]
    best = min(near, key=lambda at: abs(ts[at] - time), default=None)
    return best if best is not None and abs(ts[best] - time) <= tolerance else None
