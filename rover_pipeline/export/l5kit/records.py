"""The records of an L5Kit dataset, as `l5kit.data.zarr_dataset` of l5kit 1.5.0 declares them."""

from __future__ import annotations

import numpy as np

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
#: Labels of road users. l5kit keeps agents whose probabilities of these add up to more than a threshold.
KEPT_LABELS = slice(3, 16)
FORMAT_VERSION = 2
#: Longest `host`; NumPy cuts longer ones without a word.
HOST_LENGTH = 16

#: Times are nanoseconds since the epoch. Intervals are [first, past the last).
SCENE = np.dtype(
    [
        ("frame_index_interval", "<i8", (2,)),
        ("host", f"<U{HOST_LENGTH}"),
        ("start_time", "<i8"),
        ("end_time", "<i8"),
    ]
)
#: `ego_translation` in m and `ego_rotation`, world-from-ego.
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

#: Array -> its records, and how many of them l5kit puts into one chunk.
ARRAYS: dict[str, tuple[np.dtype, int]] = {
    "scenes": (SCENE, 10_000),
    "frames": (FRAME, 10_000),
    "agents": (AGENT, 20_000),
    "traffic_light_faces": (FACE, 10_000),
}
