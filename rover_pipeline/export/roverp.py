"""Files beside the sensors, as the public I/Q-1M recordings have them and the roverd library's pose sensor reads them.

    _SENSOR/pose.npz, such as _lidar/pose.npz            `t` s, `pos` `vel` `acc` (N, 3), `rot` (N, 3, 3), and `mask`,
                                                         bool, over the samples of the sensor: those that have a pose
    _slam/trajectory.csv                                 stamp (ns), translation (m) and rotation (quaternion)
    _fusion/indices.npz                                  `indices` u4 (time, sensor), `sensors`: matched samples
    _camera/segment, ts, valid, classes.json             labels of `_camera_model`, where a model ran

In the public recordings all poses are those of the lidar. Ours are those of each sensor, through the rig's
extrinsics, front-left-up, in the world of `_odom`. `smoothing`, `start_threshold` and `filter_size` say that nothing
was smoothed or left out. OUT may be the recording itself. Files that are there are never replaced.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from rover_pipeline.datasets.options import RoverpOptions
from rover_pipeline.errors import FormatError
from rover_pipeline.export.contents import Arrays, Table
from rover_pipeline.export.dataset import ExportJob
from rover_pipeline.export.layout import File, Layout
from rover_pipeline.export.recording import Recording
from rover_pipeline.format.files import replace_json
from rover_pipeline.format.meta import META, ChannelSpec
from rover_pipeline.format.sensor import TS, VALID, VALID_SPEC, Sensor, SensorWriter
from rover_pipeline.format.texts import read_json
from rover_pipeline.kinematics.rotation import from_matrix, obliqueness
from rover_pipeline.validation.rig import read_sensor_poses, whole_sensor

_STATE = ("pos", "vel", "acc", "rot")
#: Sensors with a pose of their own; the lidar's is `_odom`.
_POSES = {"lidar": "_odom", "radar": "_radar_pose", "camera": "_camera_pose"}
#: Types of sensors of which the matched samples are, in their order. Layout.
_MATCHED = ("lidar", "radar", "camera", "imu")
#: Values of the public files for a smoothing that was not done. Layout.
_UNSMOOTHED = {"smoothing": 0.0, "start_threshold": 0.0, "filter_size": 1}
_STAMP = "field.header.stamp"
_TRANSLATION = tuple(f"field.transform.translation.{axis}" for axis in "xyz")
_ROTATION = tuple(f"field.transform.rotation.{axis}" for axis in "xyzw")
_LABELS = "_camera_model"
_CLASSES = "classes.json"
#: Pictures that are read at once. Schedule.
_PICTURES = 64

#: The files of a dataset. Layout.
LAYOUT = Layout(
    poses=File(
        "[{recording}/]_{sensor}/pose.npz",
        Arrays(
            **{"t": ("f", "time"), "mask": ("b", "sample"), "rot": ("f", "time", 3, 3)},
            **dict.fromkeys(("pos", "vel", "acc"), ("f", "time", 3)),
        ),
        {
            "mask must mark as many samples as there are poses": lambda pose: pose["mask"].sum() == len(pose["t"]),
            "t must increase": lambda pose: np.diff(pose["t"]) > 0,
            "t must be seconds since the epoch": lambda pose: (pose["t"] > 1e8) & (pose["t"] < 1e11),
            "rot holds matrices that are no rotations": lambda pose: obliqueness(pose["rot"]) <= 1e-4,
        },
        keep=lambda pose: len(pose["t"]),
    ),
    trajectory=File(
        "[{recording}/]_slam/trajectory.csv",
        Table({_STAMP: "d", **dict.fromkeys((*_TRANSLATION, *_ROTATION), ".9f")}),
        {
            "row {line}: stamps (ns) must increase": lambda rows: np.diff(rows[_STAMP], prepend=0) > 0,
            "row {line}: quaternions must have the length 1": lambda rows: (
                abs(np.linalg.norm([rows[name] for name in _ROTATION], axis=0) - 1) <= 1e-3
            ),
        },
        optional=True,
    ),
    indices=File(
        "[{recording}/]_fusion/indices.npz",
        Arrays(sensors=("U", "sensor"), indices=("ui", "time", "sensor")),
        optional=True,
        keep=lambda arrays: len(arrays["indices"]),
    ),
)


def write(job: ExportJob) -> None:
    """Write the files of one recording to the folder itself, of several to a folder each."""
    for recording in job.recordings:
        for type, state in _POSES.items():
            for view in recording.each(type) if type != "lidar" else [recording]:  # `_odom` is of the main lidar
                sensor = view.called(type)
                if view is not recording and not view.has(f"{state}/pos"):
                    job.note(f"{view.path}: {sensor} has no poses in the dataset: there is no {view.called(state)}")
                elif view.has(f"{type}/{TS}"):
                    view.require(f"{state}/pos", "roverp")
                    source = view.called(state)
                    job.part(f"{recording.name} {sensor}", partial(_write_pose, job, recording, sensor, source))
        job.part(f"{recording.name} trajectory", partial(_write_trajectory, job, recording))
        job.part(f"{recording.name} fusion", partial(_write_indices, job, recording))
        for view in recording.each("camera"):
            labels, target = view.folder(_LABELS), job.folder / (job.key(recording) or "") / f"_{view.called('camera')}"
            if (labels / META).exists():
                part = f"{recording.name} labels{'' if view is recording else ' ' + labels.name}"
                job.part(part, partial(_write_labels, labels, target, job.options))


def _write_pose(job: ExportJob, recording: Recording, sensor: str, source: str) -> list[Path]:
    state = whole_sensor(recording.path / source, *_STATE)
    raw = Sensor(recording.path / sensor).recorded_times()
    if not np.array_equal(raw[: len(state[TS])], state[TS]):
        raise FormatError(f"{recording.path / source}: is not of this {sensor}: their ts differ; make it again")
    known = state[VALID].astype(bool)
    for each in _STATE:
        known &= np.isfinite(state[each].reshape(len(known), -1)).all(1)
    mask = np.zeros(len(raw), bool)
    mask[: len(known)] = known
    arrays = {each: state[each][known].astype("f8") for each in _STATE}
    content = {"t": state[TS][known], **arrays, "mask": mask, **_UNSMOOTHED}
    return [job.save("poses", content, recording=job.key(recording), sensor=sensor)]


def _write_trajectory(job: ExportJob, recording: Recording) -> list[Path]:
    ts, poses, valid = read_sensor_poses(recording.path / "_odom")
    good = valid & poses.finite
    if not good.any():
        raise FormatError(f"{recording.path / '_odom'}: none of its {len(good)} poses is valid")
    stamps = np.round(ts[good] * 1e9).astype("i8")
    columns = np.column_stack([poses.pos[good], from_matrix(poses.rot[good]).as_quat()]).T
    content = {_STAMP: stamps, **dict(zip((*_TRANSLATION, *_ROTATION), columns, strict=True))}
    return [job.save("trajectory", content, recording=job.key(recording))]


def _write_indices(job: ExportJob, recording: Recording) -> list[Path]:
    """The rows of `_sync` in which every sensor has a valid sample; the reader has no number for none."""
    sync = Sensor(recording.path / "_sync")
    sensors = [each for type in _MATCHED for each in recording.rig.of(type) if each in sync.specs]
    count = sync.length(channels=tuple(sensors))
    matched = np.stack([sync.channel(each).read_whole(count) for each in sensors], axis=1)
    good = (matched >= 0).all(1) & sync.valid(count).astype(bool)
    for name, numbers in zip(sensors, matched.T, strict=True):
        raw = Sensor(recording.path / name)
        good &= raw.valid(len(raw.recorded_times()))[np.maximum(numbers, 0)] != 0
    matched = matched[good]
    content = {"indices": matched.astype("u4"), "sensors": np.array(sensors)}
    return [job.save("indices", content, recording=job.key(recording))]


def _write_labels(folder: Path, target: Path, options: RoverpOptions) -> list[Path]:
    labels = Sensor(folder)
    if "labels" not in labels.specs:
        return []
    count, size = labels.length(), options.segment
    row, column = (((np.arange(size) + 0.5) * old / size).astype(int) for old in labels.specs["labels"].shape)
    spec = ChannelSpec(format="lzmaf", type="u1", shape=(size, size), desc="Class of each pixel. [row, column]")
    target.mkdir(parents=True, exist_ok=True)
    scratch = target / ".labels"
    with SensorWriter(scratch, {VALID: VALID_SPEC, "segment": spec}) as writer:
        ts, valid = labels.times(count), labels.valid(count)
        for start in range(0, count, _PICTURES):
            stop = min(count, start + _PICTURES)
            # Labels are no brightness: a mean of two classes is a third one. So each new pixel is that at its middle.
            segment = labels.channel("labels").read(start, stop)[:, row[:, None], column]
            writer.append(ts=ts[start:stop], valid=valid[start:stop], segment=segment)
    made = [each.rename(target / each.name) for each in sorted(scratch.iterdir())]
    scratch.rmdir()
    if (folder / _CLASSES).exists():
        replace_json(target / _CLASSES, read_json(folder / _CLASSES))
        made.append(target / _CLASSES)
    return made


def describe(folder: Path) -> dict[str, object]:
    """Poses of each sensor and matched samples."""
    found = LAYOUT.kept(folder, "poses", "indices")
    poses = {str(each.path.parent.relative_to(folder)): each.kept for each in found["poses"]}
    return {"poses": poses, "matched_samples": sum(each.kept for each in found["indices"])}
