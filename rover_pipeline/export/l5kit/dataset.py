"""The L5Kit dataset of some recordings: a zarr store of all scenes, and in it one for each split."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from rover_pipeline.datasets.options import L5kitOptions
from rover_pipeline.datasets.splits import Course
from rover_pipeline.errors import FormatError
from rover_pipeline.export.dataset import ExportJob
from rover_pipeline.export.l5kit import records
from rover_pipeline.export.l5kit.layout import LAYOUT, ArrayWriter, describe, relations
from rover_pipeline.export.objects import ObjectReader
from rover_pipeline.export.recording import Recording
from rover_pipeline.kinematics.trajectory import Trajectory
from rover_pipeline.validation.rig import lidar_clock, read_trajectory

__all__ = ["LAYOUT", "describe", "relations", "write"]

#: Stores of the splits, in the order of `splits.SPLITS`, by the names that l5kit's own datasets have.
SPLIT_STORES = ("train", "validate", "test")


def write(job: ExportJob) -> None:
    """Write the store of all scenes to the dataset's folder, and in it that of each split.

    Positions are in each recording's world of `_odom`; the rig's frame is the lidar's, front-left-up.

    There are no parts (`ExportJob.part`): nothing is read but poses and objects, so that an hour of recording takes ten
    seconds, and an interrupted export begins anew and gives the same bytes.

    Raises:
        FormatError: a recording lacks poses or objects, or no scene is long enough.
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
        scenes = records.cut_scenes(
            trajectory, instants, split, min_frames=options.min_frames, max_frames=options.max_frames
        )
        if not scenes:
            job.note(f"{recording.name}: no scene of at least {options.min_frames} frames; it is not in the dataset")
        agents = _Agents(recording, trajectory, options) if options.agents else None
        for scene in scenes:
            found, counts = agents.at(scene) if agents else (np.empty(0, records.AGENT), np.zeros_like(scene.times))
            for store in (whole, stores[scene.split]):
                store.add(recording.name, scene, found, counts)
    if not len(whole):
        raise FormatError(f"export l5kit: no recording has a scene of at least {options.min_frames} frames")
    for store in (whole, *stores):
        store.close()


class _Agents:
    """The agents of one recording."""

    def __init__(self, recording: Recording, trajectory: Trajectory, options: L5kitOptions) -> None:
        self._reader = ObjectReader(recording.path)
        self._ts = lidar_clock(recording.path, self._reader.ts, trajectory)
        self._weights = records.label_weights(self._reader.classes)
        self._options = options

    def at(self, scene: records.Scene) -> tuple[np.ndarray, np.ndarray]:
        """See `agents_at`."""
        margin = self._options.max_gap
        begin, end = scene.times[0] / 1e9 - margin, scene.times[-1] / 1e9 + margin
        start, stop = np.searchsorted(self._ts, [begin, end]).tolist()
        objects = self._reader.read(start, stop, self._ts)
        return records.agents_at(scene.times, scene.pos, objects, self._weights, self._options)


class _Store:
    """A zarr store that scenes are added to: of a split, or of all."""

    def __init__(self, job: ExportJob, split: str | None) -> None:
        self._job, self._split = job, split
        folder = job.save("group", {"zarr_format": 2}, split=split).parent
        self._arrays = {
            name: ArrayWriter(folder / name, dtype, chunk) for name, (dtype, chunk) in records.ARRAYS.items()
        }
        self._recordings: dict[str, list[int]] = {}

    def __len__(self) -> int:
        return self._arrays["scenes"].count

    def add(self, recording: str, scene: records.Scene, agents: np.ndarray, counts: np.ndarray) -> None:
        number, frames = len(self), self._arrays["frames"].count
        made = records.scene_records(scene, host_name(recording), counts, frames, self._arrays["agents"].count)
        for name, rows in zip(("scenes", "frames", "agents"), (*made, agents), strict=True):
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
