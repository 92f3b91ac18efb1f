"""The files of an L5Kit dataset, and the rules that their readers rely on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rover_pipeline.export.contents import Content, Json
from rover_pipeline.export.l5kit.agents import MAX_DISTANCE_M, MAX_TURN_RAD, MIN_FOOTPRINT_M2
from rover_pipeline.export.l5kit.records import AGENT, ARRAYS, FORMAT_VERSION, FRAME, KEPT_LABELS, LABELS, SCENE
from rover_pipeline.export.l5kit.zarr2 import array_length, read_array
from rover_pipeline.export.layout import File, Files, Layout
from rover_pipeline.export.tuning import TUNING
from rover_pipeline.kinematics.rotation import obliqueness


class _Records(Content):
    """All records of an array, which `.zarray` describes."""

    def __init__(self, dtype: np.dtype) -> None:
        self._dtype = dtype

    def read(self, path: Path) -> np.ndarray:
        return read_whole(path.parent, self._dtype)


class _Length(Content):
    """The number of records of an array."""

    def read(self, path: Path) -> int:
        return array_length(path.parent)


def _array(name: str, rules: Mapping[str, Any] | None = None) -> dict[str, File]:
    content = _Length() if name == "agents" else _Records(ARRAYS[name][0])
    return {name: File(f"[{{split}}.zarr/]{name}/.zarray", content, rules or {}, keep=lambda records: records)}


#: How l5kit writes JSON, and the files of a dataset. Layout.
_STYLE: dict[str, Any] = {"indent": 4, "sort": True, "end": ""}
LAYOUT = Layout(
    attributes=File(
        "[{split}.zarr/].zattrs",
        Json("format_version", "labels", **_STYLE),
        {
            f"format_version is not {FORMAT_VERSION}": lambda content: content["format_version"] == FORMAT_VERSION,
            "labels are not those of l5kit, in its order": lambda content: content["labels"] == list(LABELS),
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
    frames, scenes = read_whole(folder / "frames", FRAME), read_whole(folder / "scenes", SCENE)
    seconds = float((scenes["end_time"] - scenes["start_time"]).sum() / 1e9)
    steps = np.diff(frames["timestamp"])
    stores = sorted(path for path in folder.glob("*.zarr") if path.is_dir())
    return {
        "scenes": len(scenes),
        "frames": len(frames),
        "agents": array_length(folder / "agents"),
        "seconds": round(seconds, 1),
        "rate_hz": round(1e9 / float(np.median(steps)), 3) if len(steps) else None,
        "hosts": sorted(set(scenes["host"].tolist())),
        "scenes_of_split": {path.stem: array_length(path / "scenes") for path in stores},
    }


def read_whole(folder: Path, dtype: np.dtype) -> np.ndarray:
    """All records of an array. Raises FormatError as `read_array` does."""
    return np.concatenate([np.empty(0, dtype), *read_array(folder, dtype)])


def relations(folder: Path, found: Files) -> Iterator[str]:
    """Intervals that do not fit the arrays that they are of, scenes without one step of time, and what l5kit drops."""
    for store in sorted({each.path.parent for each in found["attributes"]}):
        arrays = {name: each.kept for name in ARRAYS for each in found[name] if each.path == store / name / ".zarray"}
        if lacking := [name for name in ARRAYS if arrays.get(name) is None]:
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
    else:
        speed = np.linalg.norm(np.diff(frames["ego_translation"], axis=0), axis=1) / (steps / 1e9)
        if speed.max(initial=0) >= TUNING.max_speed:
            yield f"the rig moves at {speed.max():.0f} m/s"
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
    for agents in read_array(folder, AGENT):
        frame = np.minimum(np.searchsorted(past, begin + np.arange(len(agents)), side="right"), len(frames) - 1)
        ego = frames["ego_translation"][frame, :2]
        label = agents["label_probabilities"]
        found = {
            "are not finite": ~np.isfinite(agents["centroid"]).all(1) | ~np.isfinite(agents["velocity"]).all(1),
            "have an extent that is not above 0": ~(agents["extent"] > 0).all(1),
            f"have a footprint below {MIN_FOOTPRINT_M2} m2": agents["extent"][:, :2].prod(1) < MIN_FOOTPRINT_M2,
            "have a yaw outside of -pi to pi": ~(np.abs(agents["yaw"]) <= np.pi + 1e-5),
            "have label probabilities that do not add up to 1": ~np.isclose(label.sum(1), 1, atol=1e-4),
            "are no road users by half of their label probabilities": ~(label[:, KEPT_LABELS].sum(1) > 0.5),
            f"are {MAX_DISTANCE_M:g} m or more from the rig": ~(
                np.linalg.norm(agents["centroid"] - ego, axis=1) < MAX_DISTANCE_M
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
    """Agents that do not continue their track as l5kit's filter wants it.

    Args:
        frame, scene: (agent,), numbers.
        last: (scene, track) -> frame and record of the latest agent; updated.
    """
    twice, holes, turns, footprints = (np.zeros(len(agents), bool) for _ in range(4))
    for at, agent in enumerate(agents):
        key = int(scene[at]), int(agent["track_id"])
        if key in last:
            before, older = last[key]
            twice[at] = frame[at] == before
            holes[at] = frame[at] > before + 1
            turn = (float(agent["yaw"]) - float(older["yaw"]) + np.pi) % (2 * np.pi) - np.pi
            turns[at] = not abs(turn) < MAX_TURN_RAD
            footprints[at] = bool((agent["extent"] != older["extent"]).any())
        last[key] = int(frame[at]), agent
    return {
        "are the second of their track in a frame": twice,
        "follow a frame without their track": holes,
        "turned by 30 degrees or more since the frame before": turns,
        "changed the extent of their track": footprints,
    }
