"""The records of an L5Kit dataset, as `l5kit.data.zarr_dataset` of l5kit 1.5.0 declares them, and scenes made of them.

A scene is a stretch of a trajectory without a gap, at instants of one rate.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rover_pipeline.kinematics.trajectory import Trajectory

#: Perception labels in the order of `label_probabilities`.
LABELS = (
    *(
        f"PERCEPTION_LABEL_{name}"
        for name in (
            "NOT_SET", "UNKNOWN", "DONTCARE", "CAR", "VAN", "TRAM", "BUS", "TRUCK", "EMERGENCY_VEHICLE",
            "OTHER_VEHICLE", "BICYCLE", "MOTORCYCLE", "CYCLIST", "MOTORCYCLIST", "PEDESTRIAN", "ANIMAL",
        )
    ),
    "AVRESEARCH_LABEL_DONTCARE",
)  # fmt: skip
#: Labels of road users. l5kit keeps agents whose probabilities of these add up to more than a threshold. Layout.
KEPT_LABELS = slice(3, 16)
FORMAT_VERSION = 2
#: Longest `host`; NumPy cuts longer ones without a warning. Layout.
HOST_LENGTH = 16

#: Times are nanoseconds since the epoch. Intervals are [first, past the last). Layout.
SCENE = np.dtype(
    [
        ("frame_index_interval", "<i8", (2,)),
        ("host", f"<U{HOST_LENGTH}"),
        ("start_time", "<i8"),
        ("end_time", "<i8"),
    ]
)
#: `ego_translation` in m and `ego_rotation`, world-from-ego. Layout.
FRAME = np.dtype(
    [
        ("timestamp", "<i8"),
        ("agent_index_interval", "<i8", (2,)),
        ("traffic_light_faces_index_interval", "<i8", (2,)),
        ("ego_translation", "<f8", (3,)),
        ("ego_rotation", "<f8", (3, 3)),
    ]
)
#: In the world: `centroid` x, y in m, `yaw` in rad from x to y, `velocity` in m/s; `extent` length, width, height in m.
#: Layout.
AGENT = np.dtype(
    [
        ("centroid", "<f8", (2,)),
        ("extent", "<f4", (3,)),
        ("yaw", "<f4"),
        ("velocity", "<f4", (2,)),
        ("track_id", "<u8"),
        ("label_probabilities", "<f4", (len(LABELS),)),
    ]
)
FACE = np.dtype(
    [
        ("face_id", "<U16"),
        ("traffic_light_id", "<U16"),
        ("traffic_light_face_status", "<f4", (3,)),
    ]
)

#: Array -> its records, and how many of them l5kit puts into one chunk. Layout.
ARRAYS: dict[str, tuple[np.dtype, int]] = {
    "scenes": (SCENE, 10_000),
    "frames": (FRAME, 10_000),
    "agents": (AGENT, 20_000),
    "traffic_light_faces": (FACE, 10_000),
}


class Scene(NamedTuple):
    """The rig at the frames of a scene.

    Attributes:
        times: i8 (frame,), nanoseconds since the epoch, at a constant step.
        pos: f8 (frame, 3), m, of the lidar in the world of `_odom`.
        rot: f8 (frame, 3, 3), world-from-lidar.
        split: number of the split that all its frames belong to.
    """

    times: np.ndarray
    pos: np.ndarray
    rot: np.ndarray
    split: int


def frame_times(begin: float, end: float, rate: float) -> np.ndarray:
    """Instants of frames, i8 (frame,), nanoseconds since the epoch.

    They are multiples of the step, so another choice of scenes has frames at the same instants.

    Args:
        begin, end: first and last instant that is known, s.
        rate: frames a second.
    """
    step = round(1e9 / rate)
    # Times of 1e9 s as f8 are known to 0.1 microseconds.
    first, last = -(-round(begin * 1e9) // step), round(end * 1e9) // step
    return np.arange(first, last + 1, dtype="i8") * step


def cut_scenes(
    trajectory: Trajectory, times: np.ndarray, splits: np.ndarray, *, min_frames: int, max_frames: int | None
) -> list[Scene]:
    """The scenes of a trajectory. A scene ends where the motion is not known, and where the split changes.

    Args:
        times: i8 (N,), instants of frames, ns, at a constant step.
        splits: (N,), number of the split of each; negative = none, so it is left out.
        min_frames: shorter scenes are left out.
        max_frames: longer ones are cut; None = they are not.
    """
    states, known = trajectory.at(times / 1e9)
    used = known & (splits >= 0)
    begins = np.flatnonzero(used & ~(np.r_[False, used[:-1]] & (splits == np.r_[splits[:1], splits[:-1]])))
    scenes = []
    for begin in begins.tolist():
        same = used[begin:] & (splits[begin:] == splits[begin])
        end = begin + (len(same) if same.all() else int(np.argmin(same)))
        for first in range(begin, end, max_frames or len(times)):
            last = min(end, first + (max_frames or len(times)))
            if last - first >= min_frames:
                part = slice(first, last)
                scenes.append(Scene(times[part], states.pos[part], states.rot[part], int(splits[begin])))
    return scenes


def scene_records(
    scene: Scene, host: str, counts: np.ndarray, first_frame: int, first_agent: int
) -> tuple[np.ndarray, np.ndarray]:
    """A scene's record, (1,), and those of its frames, (frame,).

    Args:
        host: name of the vehicle.
        counts: (frame,), number of agents of each frame.
        first_frame, first_agent: numbers of its first frame and agent in the whole dataset.
    """
    frames = np.zeros(len(scene.times), FRAME)
    past = first_agent + np.cumsum(counts)
    frames["timestamp"] = scene.times
    frames["agent_index_interval"] = np.column_stack([past - counts, past])
    frames["ego_translation"], frames["ego_rotation"] = scene.pos, scene.rot
    # No traffic light is known: the intervals stay [0, 0).
    record = np.zeros(1, SCENE)
    record["frame_index_interval"] = first_frame, first_frame + len(frames)
    record["host"] = host
    record["start_time"], record["end_time"] = scene.times[0], scene.times[-1]
    return record, frames
