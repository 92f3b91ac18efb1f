"""The way of the rig and the tracks of objects as GeoJSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from rover_pipeline.export.objects import Objects
from rover_pipeline.export.rslearn.windows import iso_time
from rover_pipeline.numerics.linear import matmul

#: Shortest distance between two corners of a line, m. A line whose corners are all one is not valid.
_STEP_M = 0.02
#: Corners of a box, in halves of its length and width.
_CORNERS = np.array([[1, 1], [-1, 1], [-1, -1], [1, -1], [1, 1]]) / 2


def collection_text(features: Sequence[dict[str, Any]], crs: str) -> str:
    """A GeoJSON file whose coordinates are metres of the ground: pixels of one metre, with y upward.

    Without its `properties` readers would take the numbers for degrees.
    """
    properties = {"crs": crs, "x_resolution": 1, "y_resolution": 1}
    return json.dumps({"type": "FeatureCollection", "properties": properties, "features": list(features)}) + "\n"


def path_feature(ts: np.ndarray, pos: np.ndarray, properties: dict[str, Any]) -> dict[str, Any]:
    """A line through positions, or a point where nothing moves.

    Args:
        ts: f8 (N,), s; pos: f8 (N, 2 or more), m.
        properties: besides `times`, the times of the corners.
    """
    corners = [0]
    for at in range(1, len(pos)):
        if np.hypot(*(pos[at, :2] - pos[corners[-1], :2])) >= _STEP_M:
            corners.append(at)
    coordinates = np.round(pos[corners, :2], 4).tolist()
    line = {"type": "LineString", "coordinates": coordinates}
    geometry = line if len(corners) > 1 else {"type": "Point", "coordinates": coordinates[0]}
    times = {"begin": iso_time(ts[0]), "end": iso_time(ts[-1]), "times": [iso_time(ts[at]) for at in corners]}
    return {"type": "Feature", "geometry": geometry, "properties": {**properties, **times}}


def track_features(objects: Objects, classes: Sequence[str]) -> list[dict[str, Any]]:
    """For each track its way, and its box where it was seen last."""
    features = []
    for track in np.unique(objects.track):
        rows = objects.select(objects.track == track)
        mean = rows.probability.mean(0)
        properties = {
            "track": int(track),
            "label": classes[int(mean.argmax())],
            "probability": {name: round(float(value), 4) for name, value in zip(classes, mean, strict=True)},
            "speed_mps": round(float(np.linalg.norm(rows.vel, axis=1).mean()), 3),
        }
        features.append(path_feature(rows.ts, rows.centre, {"kind": "way", **properties}))
        length, width, _ = rows.extent[-1]
        cos, sin = np.cos(rows.yaw[-1]), np.sin(rows.yaw[-1])
        corners = matmul(_CORNERS * (length, width), np.array([[cos, sin], [-sin, cos]])) + rows.centre[-1, :2]
        box = {
            "extent_m": np.round(rows.extent[-1], 3).tolist(),
            "yaw_rad": round(float(rows.yaw[-1]), 4),
            "time": iso_time(rows.ts[-1]),
        }
        geometry = {"type": "Polygon", "coordinates": [np.round(corners, 4).tolist()]}
        features.append({"type": "Feature", "geometry": geometry, "properties": {"kind": "box", **properties, **box}})
    return features
