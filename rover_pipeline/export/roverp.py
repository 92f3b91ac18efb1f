"""Files beside the sensors, as the public I/Q-1M recordings have them and the roverd library's pose sensor reads them.

    _lidar/pose.npz, _radar/pose.npz, _camera/pose.npz   `t` s, `pos` `vel` `acc` (N, 3), `rot` (N, 3, 3), and `mask`,
                                                         bool, over the samples of the sensor: those that have a pose
    _slam/trajectory.csv                                 stamp (ns), translation (m) and rotation (quaternion)
    _fusion/indices.npz                                  `indices` u4 (time, sensor), `sensors`: matched samples
    _camera/segment, ts, valid, classes.json             labels of `_camera_model`, where a model ran

In the public recordings all poses are those of the lidar. Ours are those of each sensor, through the rig's
extrinsics, front-left-up, in the world of `_odom`. `smoothing`, `start_threshold` and `filter_size` say that nothing
was smoothed or left out. OUT may be the recording itself. Files that are there are never replaced.
"""

from __future__ import annotations

import csv
import io
import json
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from zipfile import BadZipFile

import cv2
import numpy as np

from rover_pipeline.datasets.options import RoverpOptions
from rover_pipeline.errors import FormatError
from rover_pipeline.export.dataset import ExportJob, Recording
from rover_pipeline.format.files import opened_file
from rover_pipeline.format.meta import META, ChannelSpec
from rover_pipeline.format.sensor import TS, TS_SPEC, VALID, VALID_SPEC, Sensor, SensorWriter
from rover_pipeline.format.texts import read_json
from rover_pipeline.kinematics.rotation import from_matrix, obliqueness
from rover_pipeline.report.read.rig import whole_sensor

_STATE = ("pos", "vel", "acc", "rot")
#: Sensors with a pose of their own; the lidar's is `_odom`.
_POSES = {"lidar": "_odom", "radar": "_radar_pose", "camera": "_camera_pose"}
#: Values of the public files for a smoothing that was not done.
_UNSMOOTHED = {"smoothing": 0.0, "start_threshold": 0.0, "filter_size": 1}
_CSV = (
    "field.header.stamp",
    *(f"field.transform.translation.{axis}" for axis in "xyz"),
    *(f"field.transform.rotation.{axis}" for axis in "xyzw"),
)
_LABELS = "_camera_model"
_CLASSES = "classes.json"
#: Pictures that are read at once.
_PICTURES = 64


def write(job: ExportJob) -> None:
    """Write the files of one recording to the folder itself, of several to a folder each."""
    for recording in job.recordings:
        folder = job.folder / recording.name if len(job.recordings) > 1 else job.folder
        for sensor, state in _POSES.items():
            if recording.has(f"{sensor}/{TS}"):
                recording.require(f"{state}/pos", "roverp")
                job.part(f"{recording.name} {sensor}", partial(_write_pose, recording, sensor, state, folder))
        job.part(f"{recording.name} trajectory", partial(_write_trajectory, recording, folder))
        job.part(f"{recording.name} fusion", partial(_write_indices, recording, folder))
        if (recording.path / _LABELS / META).exists():
            job.part(f"{recording.name} labels", partial(_write_labels, recording, folder, job.options))


def _write_pose(recording: Recording, sensor: str, source: str, folder: Path) -> list[Path]:
    state = whole_sensor(recording.path / source, *_STATE)
    raw = Sensor(recording.path / sensor).recorded_times()
    if not np.array_equal(raw[: len(state[TS])], state[TS]):
        raise FormatError(f"{recording.path / source}: is not of this {sensor}: their ts differ; make it again")
    known = state[VALID].astype(bool)
    for name in _STATE:
        known &= np.isfinite(state[name].reshape(len(known), -1)).all(1)
    mask = np.zeros(len(raw), bool)
    mask[: len(known)] = known
    arrays = {name: state[name][known].astype("f8") for name in _STATE}
    return [_write_npz(folder / f"_{sensor}" / "pose.npz", t=state[TS][known], **arrays, mask=mask, **_UNSMOOTHED)]


def _write_npz(path: Path, **arrays: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]
    return path


def _write_trajectory(recording: Recording, folder: Path) -> list[Path]:
    state = whole_sensor(recording.path / "_odom", "pos", "rot")
    good = state[VALID].astype(bool) & np.isfinite(state["pos"]).all(1) & np.isfinite(state["rot"]).all((1, 2))
    if not good.any():
        raise FormatError(f"{recording.path / '_odom'}: none of its {len(good)} poses is valid")
    stamps = np.round(state[TS][good] * 1e9).astype("i8")
    rows = np.column_stack([state["pos"][good], from_matrix(state["rot"][good]).as_quat()])
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_CSV)
    writer.writerows([stamp, *(f"{value:.9f}" for value in row)] for stamp, row in zip(stamps, rows, strict=True))
    path = folder / "_slam" / "trajectory.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.getvalue(), encoding="utf-8")
    return [path]


def _write_indices(recording: Recording, folder: Path) -> list[Path]:
    """The rows of `_sync` in which every sensor has a sample; the reader has no number for none."""
    sync = Sensor(recording.path / "_sync")
    sensors = [name for name in ("lidar", "radar", "camera", "imu") if name in sync.specs]
    count = sync.length(channels=tuple(sensors))
    matched = np.stack([sync.channel(name).read_whole(count) for name in sensors], axis=1)
    matched = matched[(matched >= 0).all(1) & sync.valid(count).astype(bool)]
    return [_write_npz(folder / "_fusion" / "indices.npz", indices=matched.astype("u4"), sensors=np.array(sensors))]


def _write_labels(recording: Recording, folder: Path, options: RoverpOptions) -> list[Path]:
    labels = Sensor(recording.path / _LABELS)
    if "labels" not in labels.specs:
        return []
    count, size = labels.length(), options.segment
    spec = ChannelSpec(format="lzmaf", type="u1", shape=(size, size), desc="Class of each pixel. [row, column]")
    target = folder / "_camera"
    names = [META, TS, VALID, "segment", "segment_i"]
    target.mkdir(parents=True, exist_ok=True)
    scratch = folder / "_camera" / ".labels"
    with SensorWriter(scratch, {TS: TS_SPEC, VALID: VALID_SPEC, "segment": spec}) as writer:
        ts, valid = labels.times(count), labels.valid(count)
        for start in range(0, count, _PICTURES):
            stop = min(count, start + _PICTURES)
            pictures = labels.channel("labels").read(start, stop)
            # Labels are no brightness: a mean of two classes is a third one.
            small = [cv2.resize(each, (size, size), interpolation=cv2.INTER_NEAREST) for each in pictures]
            writer.append(ts=ts[start:stop], valid=valid[start:stop], segment=np.stack(small))
    for name in names:
        (scratch / name).rename(target / name)
    scratch.rmdir()
    if (recording.path / _LABELS / _CLASSES).exists():
        text = json.dumps(read_json(recording.path / _LABELS / _CLASSES), indent=2) + "\n"
        (target / _CLASSES).write_text(text, encoding="utf-8")
        names.append(_CLASSES)
    return [target / name for name in names]


def describe(folder: Path) -> dict[str, object]:
    """Poses of each sensor and matched samples."""
    poses = {
        str(path.parent.relative_to(folder)): len(_load(path)["t"]) for path in sorted(folder.glob("**/_*/pose.npz"))
    }
    matched = sum(len(_load(path)["indices"]) for path in folder.glob("**/_fusion/indices.npz"))
    return {"poses": poses, "matched_samples": matched}


def _load(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an npz. Objects are refused: they could run code. Raises FormatError."""
    try:
        with opened_file(path) as file, np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError, KeyError, EOFError, BadZipFile, zlib.error, NotImplementedError) as error:
        raise FormatError(f"{path}: is no npz of arrays: {error}; export it again") from error


def problems(folder: Path) -> Iterator[str]:
    """Breaches of the layout of these files."""
    for pattern, check in (("**/_*/pose.npz", _pose_problems), ("**/_fusion/indices.npz", _index_problems)):
        for path in sorted(folder.glob(pattern)):
            try:
                yield from check(path, _load(path))
            except FormatError as error:
                yield str(error)
    for path in sorted(folder.glob("**/_slam/trajectory.csv")):
        yield from _trajectory_problems(path)


def _pose_problems(path: Path, arrays: dict[str, np.ndarray]) -> Iterator[str]:
    lacking = [name for name in ("t", *_STATE, "mask") if name not in arrays]
    if lacking:
        yield f"{path}: has no array {lacking[0]}; export it again"
        return
    count = len(arrays["t"])
    for name, shape in {"pos": (3,), "vel": (3,), "acc": (3,), "rot": (3, 3)}.items():
        if arrays[name].shape != (count, *shape) or not np.isfinite(arrays[name]).all():
            yield f"{path}: {name} must be finite, {[count, *shape]}, is {list(arrays[name].shape)}; export it again"
            return
    if arrays["mask"].dtype != bool or arrays["mask"].sum() != count:
        yield f"{path}: mask must be bool and mark {count} samples; export it again"
    if (np.diff(arrays["t"]) <= 0).any() or (count and not 1e8 < arrays["t"][0] < 1e11):
        yield f"{path}: t must increase and be seconds since the epoch; export it again"
    if (obliqueness(arrays["rot"]) > 1e-4).any():
        yield f"{path}: rot holds matrices that are no rotations; export it again"


def _index_problems(path: Path, arrays: dict[str, np.ndarray]) -> Iterator[str]:
    shape = arrays.get("indices", np.zeros(0)).shape
    if "sensors" not in arrays or len(shape) != 2 or shape[1] != len(arrays["sensors"]):
        yield f"{path}: must hold indices (time, sensor) and the names of the sensors; export it again"


def _trajectory_problems(path: Path) -> Iterator[str]:
    with opened_file(path) as file:
        rows = csv.DictReader(io.TextIOWrapper(file, encoding="utf-8", errors="replace", newline=""))
        if not set(_CSV) <= set(rows.fieldnames or ()):
            yield f"{path}: has no column {sorted(set(_CSV) - set(rows.fieldnames or ()))[0]}; export it again"
            return
        last = 0
        for number, row in enumerate(rows, 2):
            try:
                stamp, norm = int(row[_CSV[0]]), np.linalg.norm([float(row[name]) for name in _CSV[4:]], axis=0)
            except (ValueError, TypeError):
                yield f"{path}: line {number} holds no numbers; export it again"
                return
            if stamp <= last or abs(norm - 1) > 1e-3:
                yield f"{path}: line {number}: stamps (ns) must increase and quaternions have the length 1"
                return
            last = stamp
