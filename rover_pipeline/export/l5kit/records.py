"""The records of an L5Kit dataset, as `l5kit.data.zarr_dataset` of l5kit 1.5.0 declares them, and scenes made of them.

A scene is a stretch of a trajectory without a gap, at instants of one rate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rover_pipeline.datasets.options import L5kitOptions
from rover_pipeline.datasets.splits import NO_SPLIT
from rover_pipeline.export.objects import Objects
from rover_pipeline.kinematics.trajectory import Trajectory
from rover_pipeline.numerics.linear import matmul

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
    [("frame_index_interval", "<i8", (2,)), ("host", f"<U{HOST_LENGTH}"), ("start_time", "<i8"), ("end_time", "<i8")]
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
FACE = np.dtype([("face_id", "<U16"), ("traffic_light_id", "<U16"), ("traffic_light_face_status", "<f4", (3,))])

#: Array -> its records, and how many of them l5kit puts into one chunk. Layout.
ARRAYS: dict[str, tuple[np.dtype, int]] = {
    "scenes": (SCENE, 10_000),
    "frames": (FRAME, 10_000),
    "agents": (AGENT, 20_000),
    "traffic_light_faces": (FACE, 10_000),
}


class Scene(NamedTuple):
    """The rig at the frames of a scene."""

    times: np.ndarray  #: i8 (frame,), nanoseconds since the epoch, at a constant step.
    pos: np.ndarray  #: f8 (frame, 3), m, of the lidar in the world of `_odom`.
    rot: np.ndarray  #: f8 (frame, 3, 3), world-from-lidar.
    split: int  #: number of the split that all its frames belong to.


def frame_times(begin: float, end: float, rate: float) -> np.ndarray:
    """Instants of frames, i8 (frame,), nanoseconds since the epoch, so many a second, from the first to the last
    instant that is known, s. They are multiples of the step, so another choice of scenes has frames at the same
    instants."""
    step = round(1e9 / rate)
    # Times of 1e9 s as f8 are known to 0.1 microseconds.
    first, last = -(-round(begin * 1e9) // step), round(end * 1e9) // step
    return np.arange(first, last + 1, dtype="i8") * step


def cut_scenes(trajectory: Trajectory, times: np.ndarray, splits: np.ndarray, options: L5kitOptions) -> list[Scene]:
    """The scenes of a trajectory. A scene ends where the motion is not known, and where the split changes. `times`: i8
    (N,), instants of frames, ns, at a constant step; `splits`: (N,), number of the split of each; negative = none, so
    it is left out."""
    states, known = trajectory.at(times / 1e9)
    split_of = np.where(known, splits, NO_SPLIT)
    limit, scenes = options.max_frames or len(times) or 1, []
    for stretch in np.split(np.arange(len(times)), np.flatnonzero(np.diff(split_of)) + 1):
        for first in range(0, len(stretch), limit):
            part = stretch[first : first + limit]
            if len(part) >= options.min_frames and split_of[part[0]] >= 0:
                scenes.append(Scene(times[part], states.pos[part], states.rot[part], int(split_of[part[0]])))
    return scenes


# Agents: tracked objects at the instants of frames, such that l5kit's own filter keeps all of them.
#
# `l5kit.dataset.select_agents` drops an agent that is 50 m or more from the rig, or none of the road users, and cuts
# its track where a frame is missing, where its footprint changes, and where it turns by 30 degrees or more at once.

#: Limits of `select_agents.py` in l5kit 1.5.0: distance from the rig, turn between frames, and smallest footprint.
#: Layout.
MAX_DISTANCE_M, MAX_TURN_RAD, MIN_FOOTPRINT_M2 = 50.0, math.radians(30), 0.01
#: Classes of objects -> labels of l5kit.
_LABELS = {
    "unknown": "UNKNOWN",
    "other": "UNKNOWN",
    "static": "DONTCARE",
    "pedestrian": "PEDESTRIAN",
    "person": "PEDESTRIAN",
    "cyclist": "CYCLIST",
    "bicycle": "BICYCLE",
    "motorcycle": "MOTORCYCLE",
    "motorcyclist": "MOTORCYCLIST",
    "car": "CAR",
    "vehicle": "OTHER_VEHICLE",
    "van": "VAN",
    "bus": "BUS",
    "truck": "TRUCK",
    "animal": "ANIMAL",
}


def label_weights(classes: Sequence[str]) -> np.ndarray:
    """What each class adds to each label, f8 (class, label). A class that is not known here adds to UNKNOWN."""
    numbers = [LABELS.index(f"PERCEPTION_LABEL_{_LABELS.get(name.lower(), 'UNKNOWN')}") for name in classes]
    return np.eye(len(LABELS))[numbers]


def agents_at(
    scene: Scene, objects: Objects, weights: np.ndarray, options: L5kitOptions
) -> tuple[np.ndarray, np.ndarray]:
    """The agents of one scene. `weights`: as `label_weights` gives them.

    Returns:
        Records in the order of frames and tracks, and i8 (frame,), how many each frame has. Tracks are numbered from 1
        in the order in which they begin. A track that l5kit would cut is two tracks.
    """
    runs: list[tuple[int, int, np.ndarray]] = []
    objects = objects.select(np.argsort(objects.track, kind="stable"))  # each track in the order of time
    for rows in np.split(np.arange(len(objects.track)), np.flatnonzero(np.diff(objects.track)) + 1):
        if len(rows):
            track = objects.select(rows)
            runs += [(first, int(track.track[0]), each) for first, each in _runs(scene, track, weights, options)]
    runs.sort(key=lambda run: run[:2])
    counts = np.zeros(len(scene.times), "i8")
    for number, (first, _, records) in enumerate(runs, 1):
        records["track_id"] = number
        counts[first : first + len(records)] += 1
    frame = np.concatenate([first + np.arange(len(records)) for first, _, records in runs] or [np.empty(0, "i8")])
    joined = np.concatenate([records for *_, records in runs] or [np.empty(0, AGENT)])
    return joined[np.lexsort((joined["track_id"], frame))], counts


def _runs(scene: Scene, rows: Objects, weights: np.ndarray, options: L5kitOptions) -> list[tuple[int, np.ndarray]]:
    """Stretches of one track that l5kit keeps whole: number of the first frame, and a record for each frame."""
    label = matmul(rows.probability.mean(0), weights)
    label = (label / label.sum() if label.sum() > 0 else np.eye(len(LABELS))[1]).astype("f4")
    yaw, extent = _steady_boxes(rows.yaw, rows.extent, rows.vel)
    footprint = extent[:2].astype("f4").prod()  # as l5kit computes it from what is stored
    if not label[KEPT_LABELS].sum() > options.threshold or footprint < MIN_FOOTPRINT_M2 or extent[2] <= 0:
        return []
    frames, pos, vel, heading = _interpolate(scene.times / 1e9, rows, yaw, options.max_gap)
    near = np.linalg.norm(pos[:, :2] - scene.pos[frames, :2], axis=1) < MAX_DISTANCE_M
    frames, pos, vel, heading = frames[near], pos[near], vel[near], heading[near]
    cuts = (np.diff(frames) != 1) | (np.abs(np.diff(heading.astype("f4"))) >= MAX_TURN_RAD)
    found = []
    for part in np.split(np.arange(len(frames)), np.flatnonzero(cuts) + 1):
        if len(part) < options.min_frames:
            continue
        records = np.zeros(len(part), AGENT)
        records["centroid"], records["velocity"] = pos[part, :2], vel[part, :2]
        records["extent"], records["label_probabilities"] = extent, label
        # In (-pi, pi]: minus pi becomes pi.
        records["yaw"] = -((-heading[part] + np.pi) % (2 * np.pi) - np.pi)
        found.append((int(frames[part[0]]), records))
    return found


def _steady_boxes(yaw: np.ndarray, extent: np.ndarray, vel: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Boxes of one track, whose yaw is f8 (row,), rad, extent f8 (row, 3), m, and velocity f8 (row, 3), m/s, with one
    extent, the median, f8 (3,), and a continuous yaw, f8 (row,), without steps of a whole turn.

    A box is the same after a half turn, and after a quarter turn with length and width exchanged. Of the four
    descriptions that is taken which is nearest to that of the sample before; and for the whole track that whose length
    is along the motion, and which heads where the object moves: a person is wider than long.
    """
    yaw, extent = yaw.copy(), extent.copy()
    for at in range(1, len(yaw)):
        quarters = round((yaw[at - 1] - yaw[at]) / (np.pi / 2))
        yaw[at] += quarters * np.pi / 2
        if quarters % 2:
            extent[at, :2] = extent[at, 1::-1]
    middle = np.median(extent, axis=0)
    ahead, aside = vel[:, 0] * np.cos(yaw) + vel[:, 1] * np.sin(yaw), vel[:, 1] * np.cos(yaw) - vel[:, 0] * np.sin(yaw)
    if np.sum(aside**2) > np.sum(ahead**2):
        yaw, middle, ahead = yaw + np.pi / 2, middle[[1, 0, 2]], aside
    return yaw + np.pi * (ahead.sum() < 0), middle


def _interpolate(
    instants: np.ndarray, rows: Objects, yaw: np.ndarray, max_gap: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """One track at the instants that lie between two of its samples, or on one: i8 (N,), the numbers of these instants;
    f8 (N, 3) position, m; f8 (N, 3) velocity, m/s; f8 (N,) yaw, rad.

    The position is the cubic polynomial with the positions and velocities of both samples (Hermite); the velocity and
    the yaw are on a straight line between theirs.
    """
    # A frame on a sample may differ from it by the rounding of nanoseconds.
    slack = 1e-6
    left = np.searchsorted(rows.ts, instants + slack, side="right") - 1
    right = np.searchsorted(rows.ts, instants - slack, side="left")
    inside = (left >= 0) & (right < len(rows.ts))
    left, right = np.clip(left, 0, None), np.minimum(right, len(rows.ts) - 1)
    span = rows.ts[right] - rows.ts[left]
    frames = np.flatnonzero(inside & (span <= max_gap))
    left, right, span = left[frames], right[frames], span[frames]
    s = np.divide(instants[frames] - rows.ts[left], span, out=np.zeros(len(frames)), where=span > 0)[:, None]
    v0, v1 = (rows.vel[side] * span[:, None] for side in (left, right))
    step = rows.centre[right] - rows.centre[left]
    pos = rows.centre[left] + s * (v0 + s * (3 * step - 2 * v0 - v1 + s * (v0 + v1 - 2 * step)))
    vel = (1 - s) * rows.vel[left] + s * rows.vel[right]
    return frames, pos, vel, (1 - s[:, 0]) * yaw[left] + s[:, 0] * yaw[right]
