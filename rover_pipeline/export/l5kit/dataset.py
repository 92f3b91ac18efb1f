"""The L5Kit dataset of some recordings: a zarr store of all scenes, and in it one for each split."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np

from rover_pipeline.datasets.options import L5kitOptions
from rover_pipeline.datasets.splits import Course
from rover_pipeline.errors import FormatError, naming
from rover_pipeline.export.contents import Content, Json
from rover_pipeline.export.dataset import ExportJob
from rover_pipeline.export.l5kit import records
from rover_pipeline.export.layout import File, Files, Layout
from rover_pipeline.export.objects import ObjectReader, world_up
from rover_pipeline.export.recording import Recording
from rover_pipeline.format.files import read_bounded
from rover_pipeline.format.texts import read_json
from rover_pipeline.kinematics.rotation import obliqueness
from rover_pipeline.kinematics.trajectory import Trajectory
from rover_pipeline.mapping.floor import levelling
from rover_pipeline.validation.rig import lidar_clock, read_trajectory

#: Stores of the splits, in the order of `splits.SPLITS`, by the names that l5kit's own datasets have.
SPLIT_STORES = ("train", "validate", "test")


def write(job: ExportJob) -> None:
    """Write the store of all scenes to the dataset's folder, and in it that of each split.

    Positions are in each recording's world of `_odom`, turned so that z is up; the rig's frame is the lidar's. Raises
    FormatError where a recording lacks poses or objects, or no scene is long enough.

    There are no parts (`ExportJob.part`): nothing is read but poses and objects, so that an hour of recording takes ten
    seconds, and an interrupted export begins anew and gives the same bytes.
    """
    options: L5kitOptions = job.options
    trajectories = [read_trajectory(recording.path, options.max_gap) for recording in job.recordings]
    times = [records.frame_times(each.ts[0], each.ts[-1], options.rate) for each in trajectories]
    splits = job.split(
        [
            Course(recording.name, instants / 1e9, trajectory.at(instants / 1e9)[0].pos)
            for recording, trajectory, instants in zip(job.recordings, trajectories, times, strict=True)
        ]
    )
    whole = _Store(job, None)
    stores = [_Store(job, name) for name in SPLIT_STORES]
    for recording, trajectory, instants, split in zip(job.recordings, trajectories, times, splits, strict=True):
        level = levelling(world_up(recording.path, boxes=options.agents))
        scenes = records.cut_scenes(trajectory.rotated(level), instants, split, options)
        if not scenes:
            job.note(f"{recording.name}: no scene of at least {options.min_frames} frames; it is not in the dataset")
        agents = _agents_of(recording, trajectory, level, scenes, options)
        for scene, (found, counts) in zip(scenes, agents, strict=True):
            for store in (whole, stores[scene.split]):
                store.add(recording.name, scene, found, counts)
    if not len(whole):
        raise FormatError(f"export l5kit: no recording has a scene of at least {options.min_frames} frames")
    for store in (whole, *stores):
        store.close()


def _agents_of(
    recording: Recording,
    trajectory: Trajectory,
    level: np.ndarray,
    scenes: Sequence[records.Scene],
    options: L5kitOptions,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The agents of each scene of a recording, see `agents_at`; none where they are not asked for. `level`: (3, 3), the
    world of the scenes from that of `_odom`."""
    if not options.agents:
        yield from ((np.empty(0, records.AGENT), np.zeros_like(scene.times)) for scene in scenes)
        return
    reader = ObjectReader(recording.path)
    ts = lidar_clock(recording.path, reader.ts, trajectory)
    weights = records.label_weights(reader.classes)
    for scene in scenes:
        around = scene.times[0] / 1e9 - options.max_gap, scene.times[-1] / 1e9 + options.max_gap
        start, stop = np.searchsorted(ts, around).tolist()
        found = reader.read(start, stop, ts).levelled(reader.up, level)
        yield records.agents_at(scene, found, weights, options)


class _Store:
    """A zarr store that scenes are added to: of a split, or of all."""

    def __init__(self, job: ExportJob, split: str | None) -> None:
        self._job, self._split = job, split
        folder = job.save("group", {"zarr_format": 2}, split=split).parent
        self._arrays = {name: ArrayWriter(folder / name, dtype, size) for name, (dtype, size) in records.ARRAYS.items()}
        self._recordings: dict[str, list[int]] = {}

    def __len__(self) -> int:
        return self._arrays["scenes"].count

    def add(self, recording: str, scene: records.Scene, agents: np.ndarray, counts: np.ndarray) -> None:
        """Add a scene with its agents, of which each frame has so many: counts, (frame,)."""
        number, first_frame = len(self), self._arrays["frames"].count
        past = self._arrays["agents"].count + np.cumsum(counts)
        frames = np.zeros(len(scene.times), records.FRAME)
        frames["timestamp"] = scene.times
        frames["agent_index_interval"] = np.column_stack([past - counts, past])
        frames["ego_translation"], frames["ego_rotation"] = scene.pos, scene.rot
        # No traffic light is known: the intervals stay [0, 0).
        scenes = np.zeros(1, records.SCENE)
        scenes["frame_index_interval"] = first_frame, first_frame + len(frames)
        scenes["host"] = host_name(recording)
        scenes["start_time"], scenes["end_time"] = scene.times[0], scene.times[-1]
        for name, rows in (("scenes", scenes), ("frames", frames), ("agents", agents)):
            self._arrays[name].append(rows)
        self._recordings.setdefault(recording, [number, number])[1] = number + 1

    def close(self) -> None:
        """Finish all arrays. Zarr's own attributes say which scenes are of which recording."""
        for array in self._arrays.values():
            array.close()
        attributes: dict[str, Any] = {"format_version": records.FORMAT_VERSION, "labels": list(records.LABELS)}
        self._job.save("attributes", attributes | {"recordings": self._recordings}, split=self._split)


def host_name(recording: str) -> str:
    """The name of a recording in 16 characters: its beginning and a digest where it is longer."""
    if len(recording) <= records.HOST_LENGTH:
        return recording
    return f"{recording[:11]}-{hashlib.blake2b(recording.encode(), digest_size=2).hexdigest()}"


# One-dimensional arrays of records as zarr, version 2, stores them in a folder: `.zarray`, and a file for each chunk.
#
# zarr 3 can neither write nor read records that hold arrays, and older versions of it need an older NumPy, so the few
# files are written here. The compressor is that of l5kit, Blosc with LZ4, which imagecodecs has.

#: What l5kit compresses chunks with. Layout.
_COMPRESSOR = {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}
#: What chunks may be packed by -> what unpacks them.
_CODECS: dict[str, Any] = {"": None, "blosc": imagecodecs.blosc_decode, "zlib": imagecodecs.zlib_decode}
#: Maximum size of a chunk, packed or not. That of the largest array here has 2.5 MB. Schedule.
_MAX_CHUNK = 1 << 28


class ArrayWriter:
    """Appends little-endian records to an array in a new folder, so many in each chunk. Closing it writes `.zarray`."""

    def __init__(self, folder: Path, dtype: np.dtype, chunk: int) -> None:
        folder.mkdir()
        self.count = 0
        self._folder, self._size, self._left = folder, chunk, np.empty(0, dtype)

    def append(self, records: np.ndarray) -> None:
        """Add records, (N,)."""
        self.count += len(records)
        self._left = np.concatenate([self._left, records])
        while len(self._left) >= self._size:
            self._write_chunk()

    def close(self) -> None:
        """Write what is left, and the description."""
        if len(self._left):
            self._write_chunk()
        description = {
            "chunks": [self._size],
            "compressor": _COMPRESSOR,
            "dtype": _describe(self._left.dtype),
            "fill_value": None,
            "filters": None,
            "order": "C",
            "shape": [self.count],
            "zarr_format": 2,
        }
        (self._folder / ".zarray").write_bytes(Json(**_STYLE).encode(description))

    def _write_chunk(self) -> None:
        """Every chunk is stored at its full length, the last one with zeros at its end."""
        number = (self.count - len(self._left)) // self._size
        chunk = np.zeros(self._size, self._left.dtype)
        part, self._left = self._left[: self._size], self._left[self._size :]
        chunk[: len(part)] = part
        # Blosc shuffles bytes by the size of an item, which it takes from the type, if that is no structure.
        items = chunk.view(f"V{chunk.dtype.itemsize}")
        data = imagecodecs.blosc_encode(items, level=5, compressor="lz4", shuffle=1, numthreads=1)  # type: ignore[arg-type]
        (self._folder / str(number)).write_bytes(data)


def read_array(folder: Path, dtype: np.dtype) -> Iterator[np.ndarray]:
    """The records of an array, chunk by chunk. Raises FormatError where the array is not there or has other records, or
    a chunk of it is missing or damaged."""
    count, chunk, codec = _declared(folder, dtype)
    for number in range(-(-count // chunk)):
        data = _unpack(folder / str(number), codec, chunk * dtype.itemsize)
        yield np.frombuffer(data, dtype)[: count - number * chunk]


def read_whole(folder: Path, dtype: np.dtype) -> np.ndarray:
    """All records of an array. Raises FormatError as `read_array` does."""
    return np.concatenate([np.empty(0, dtype), *read_array(folder, dtype)])


def _declared(folder: Path, dtype: np.dtype) -> tuple[int, int, str]:
    """What `.zarray` says: how many records there are, how many in a chunk, and how chunks are packed ("" = not)."""
    with naming(f"{folder}: is no array of zarr 2: .zarray", OSError):
        content = read_json(folder / ".zarray")
    wrong = f"{folder}: .zarray describes no array of zarr 2 with one dimension"
    with naming(wrong, LookupError, TypeError, ValueError):
        (count,), (chunk,) = content["shape"], content["chunks"]
        count, chunk = int(count), int(chunk)
        codec = str((content["compressor"] or {"id": ""})["id"])
        is_known = content["zarr_format"] == 2 and content["dtype"] == _describe(dtype) and codec in _CODECS
    if not is_known:
        raise FormatError(f"{folder}: .zarray describes other records than those of l5kit 1.5, or another packing")
    if not 0 < chunk * dtype.itemsize <= _MAX_CHUNK or count < 0:
        raise FormatError(f"{folder}: .zarray gives chunks of {chunk} records, and {count} records")
    return count, chunk, codec


def _unpack(path: Path, codec: str, size: int) -> bytes:
    """The bytes of a chunk, which must be `size`."""
    again = "; export the dataset again"
    with naming(f"{path}: a chunk cannot be read", OSError, remedy=again):
        data = read_bounded(path, _MAX_CHUNK, "a chunk")
    with naming(f"{path}: the chunk cannot be unpacked", Exception, remedy=again):  # codecs raise errors of their own
        # The size is bounded by the output that is given, whatever the file claims.
        data = bytes(_CODECS[codec](data, out=bytearray(size))) if codec else data
    if len(data) != size:
        raise FormatError(f"{path}: the chunk has {len(data):,} bytes instead of {size:,}{again}")
    return data


def _describe(dtype: np.dtype) -> list[list[Any]]:
    """The type of records as `.zarray` gives it: name, code and, for an array in the record, its shape."""
    return [[name, code, *map(list, shape)] for name, code, *shape in dtype.descr]


class _Records(Content):
    """All records of an array, which `.zarray` describes, or only their number."""

    def __init__(self, dtype: np.dtype, counted: bool) -> None:
        self._dtype, self._counted = dtype, counted

    def read(self, path: Path) -> np.ndarray | int:
        return _declared(path.parent, self._dtype)[0] if self._counted else read_whole(path.parent, self._dtype)


def _array(name: str, rules: Mapping[str, Any] | None = None) -> dict[str, File]:
    content = _Records(records.ARRAYS[name][0], counted=name == "agents")
    return {name: File(f"[{{split}}.zarr/]{name}/.zarray", content, rules or {}, keep=lambda records: records)}


#: How l5kit writes JSON, and the files of a dataset. Layout.
_STYLE: dict[str, Any] = {"indent": 4, "sort": True, "end": ""}
LAYOUT = Layout(
    attributes=File(
        "[{split}.zarr/].zattrs",
        Json("format_version", "labels", **_STYLE),
        {
            f"format_version is not {records.FORMAT_VERSION}": lambda content: (
                content["format_version"] == records.FORMAT_VERSION
            ),
            "labels are not those of l5kit, in its order": lambda content: content["labels"] == list(records.LABELS),
        },
    ),
    group=File("[{split}.zarr/].zgroup", Json(**_STYLE), optional=True),
    **_array("scenes", {"scene {at} has no host": lambda scenes: scenes["host"] != ""}),
    **_array(
        "frames",
        {
            "ego_rotation is no rotation, first in frame {at}": lambda frames: (
                obliqueness(frames["ego_rotation"]) <= 1e-5
            ),
            "ego_translation is not finite, first in frame {at}": lambda frames: np.isfinite(
                frames["ego_translation"]
            ).all(1),
        },
    ),
    **_array("traffic_light_faces"),
    **_array("agents"),
)


def describe(folder: Path) -> dict[str, Any]:
    """Figures of a dataset. Raises FormatError when an array is missing or damaged."""
    frames, scenes = read_whole(folder / "frames", records.FRAME), read_whole(folder / "scenes", records.SCENE)
    seconds = float((scenes["end_time"] - scenes["start_time"]).sum() / 1e9)
    steps = np.diff(frames["timestamp"])
    stores = sorted(path for path in folder.glob("*.zarr") if path.is_dir())
    return {
        "scenes": len(scenes),
        "frames": len(frames),
        "agents": _declared(folder / "agents", records.AGENT)[0],
        "seconds": round(seconds, 1),
        "rate_hz": round(1e9 / float(np.median(steps)), 3) if len(steps) else None,
        "hosts": sorted(set(scenes["host"].tolist())),
        "scenes_of_split": {path.stem: _declared(path / "scenes", records.SCENE)[0] for path in stores},
    }


def relations(folder: Path, found: Files) -> Iterator[str]:
    """Intervals that do not fit the arrays that they are of, scenes without one step of time, and what l5kit drops."""
    for store in sorted({each.path.parent for each in found["attributes"]}):
        arrays = {
            name: each.kept for name in records.ARRAYS for each in found[name] if each.path == store / name / ".zarray"
        }
        if lacking := [name for name in records.ARRAYS if arrays.get(name) is None]:
            yield f"{store}: {', '.join(lacking)} cannot be read, so that the others are not compared with it"
        else:
            yield from (f"{store}: {problem}" for problem in _store_problems(store / "agents", arrays))


def _store_problems(agents: Path, arrays: dict[str, Any]) -> Iterator[str]:
    scenes, frames, faces = arrays["scenes"], arrays["frames"], len(arrays["traffic_light_faces"])
    yield from _interval_problems("scenes", "frame_index_interval", scenes, len(frames), empty=False)
    yield from _interval_problems("frames", "agent_index_interval", frames, arrays["agents"], empty=True)
    lights = frames["traffic_light_faces_index_interval"]
    if (lights[:, 1] < lights[:, 0]).any() or lights.max(initial=0) > faces or lights.min(initial=0) < 0:
        yield f"frames: traffic_light_faces_index_interval leaves the {faces} faces that there are"
    for number, scene in enumerate(scenes):
        begin, end = scene["frame_index_interval"].tolist()
        yield from (f"scene {number}: {problem}" for problem in _scene_problems(scene, frames[begin:end]))
    yield from _agent_problems(agents, scenes, frames)


def _interval_problems(array: str, name: str, records: np.ndarray, count: int, *, empty: bool) -> Iterator[str]:
    """Intervals must follow one another from the first to the last of `count` items."""
    interval = records[name]
    past = np.r_[0, interval[:, 1]]
    wrong = np.flatnonzero((interval[:, 0] != past[:-1]) | (interval[:, 1] < interval[:, 0] + (not empty)))
    if len(wrong):
        at = int(wrong[0])
        yield f"{array}: {name} of record {at} is {interval[at].tolist()}, and should begin at {past[at]}"
    elif past[-1] != count:
        yield f"{array}: {name} ends at {past[-1]}, where there are {count}"


def _scene_problems(scene: np.ndarray, frames: np.ndarray) -> Iterator[str]:
    times = frames["timestamp"]
    steps = np.diff(times)
    if not len(times):
        return
    if (steps <= 0).any():
        yield f"timestamps of its frames do not increase at frame {int(np.argmax(steps <= 0)) + 1} of the scene"
    elif len(steps) and steps.max() - steps.min() > 1:
        yield f"its frames are {steps.min() / 1e6:.3f} to {steps.max() / 1e6:.3f} ms apart; l5kit assumes one step"
    if not 1e17 < times[0] < 1e19:
        yield f"its first timestamp, {times[0]}, is no number of nanoseconds since the epoch"
    if not scene["start_time"] <= times[0] <= times[-1] <= scene["end_time"]:
        yield "start_time and end_time do not enclose its frames"


def _agent_problems(folder: Path, scenes: np.ndarray, frames: np.ndarray) -> Iterator[str]:
    """Agents one chunk at a time: values, and what l5kit's filter says of neighbouring frames of a track."""
    past = frames["agent_index_interval"][:, 1]
    scene_past = scenes["frame_index_interval"][:, 1]
    counts: dict[str, tuple[int, int]] = {}
    last: dict[tuple[int, int], tuple[int, np.void]] = {}
    begin = 0
    for agents in read_array(folder, records.AGENT):
        frame = np.minimum(np.searchsorted(past, begin + np.arange(len(agents)), side="right"), len(frames) - 1)
        ego = frames["ego_translation"][frame, :2]
        label = agents["label_probabilities"]
        found = {
            "are not finite": ~np.isfinite(agents["centroid"]).all(1) | ~np.isfinite(agents["velocity"]).all(1),
            "have an extent that is not above 0": ~(agents["extent"] > 0).all(1),
            f"have a footprint below {records.MIN_FOOTPRINT_M2} m2": agents["extent"][:, :2].prod(1)
            < records.MIN_FOOTPRINT_M2,
            "have a yaw outside of -pi to pi": ~(np.abs(agents["yaw"]) <= np.pi + 1e-5),
            "have label probabilities that do not add up to 1": ~np.isclose(label.sum(1), 1, atol=1e-4),
            "are no road users by half of their label probabilities": ~(label[:, records.KEPT_LABELS].sum(1) > 0.5),
            f"are {records.MAX_DISTANCE_M:g} m or more from the rig": ~(
                np.linalg.norm(agents["centroid"] - ego, axis=1) < records.MAX_DISTANCE_M
            ),
            "have the track_id 0": agents["track_id"] == 0,
        }
        found |= _track_problems(agents, frame, np.searchsorted(scene_past, frame, side="right"), last)
        for problem, bad in found.items():
            if bad.any():
                count, first = counts.get(problem, (0, begin + int(np.argmax(bad))))
                counts[problem] = count + int(bad.sum()), first
        begin += len(agents)
    for problem, (count, first) in counts.items():
        yield f"agents: {count} {problem}, first agent {first}"


def _track_problems(
    agents: np.ndarray, frame: np.ndarray, scene: np.ndarray, last: dict[tuple[int, int], tuple[int, np.void]]
) -> dict[str, np.ndarray]:
    """Agents that do not continue their track as l5kit's filter wants it. `frame`, `scene`: (agent,), numbers; `last`:
    (scene, track) -> frame and record of the latest agent, which is updated."""
    twice, holes, turns, footprints = (np.zeros(len(agents), bool) for _ in range(4))
    for at, agent in enumerate(agents):
        key = int(scene[at]), int(agent["track_id"])
        if key in last:
            before, older = last[key]
            twice[at] = frame[at] == before
            holes[at] = frame[at] > before + 1
            turn = (float(agent["yaw"]) - float(older["yaw"]) + np.pi) % (2 * np.pi) - np.pi
            turns[at] = not abs(turn) < records.MAX_TURN_RAD
            footprints[at] = bool((agent["extent"] != older["extent"]).any())
        last[key] = int(frame[at]), agent
    return {
        "are the second of their track in a frame": twice,
        "follow a frame without their track": holes,
        "turned by 30 degrees or more since the frame before": turns,
        "changed the extent of their track": footprints,
    }
