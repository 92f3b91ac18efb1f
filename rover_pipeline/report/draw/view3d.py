"""The map and the path for the 3-D view of the page: a choice of their points, as whole numbers of 16 bits."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rover_pipeline.errors import unless_damaged
from rover_pipeline.mapping.ply import read_ply
from rover_pipeline.report.read.motion import Track

#: Points of the map and of the path in the page: six bytes each, and a third more as text.
_MAP_POINTS, _PATH_POINTS = 24_000, 1500
#: Largest whole number that a coordinate is stored as.
_LEVELS = 65_535
#: Points this much above the highest pose of the lidar belong to a ceiling, which hides the room from above, m.
_CEILING_M = 0.6
#: Shares of the points left out at both ends of each axis when the view is centred: strays through windows.
_STRAYS = 0.03


class View3d(NamedTuple):
    """What the script of the view draws, in the world frame of `_odom`, m.

    Attributes:
        points, path: base64 of u2 (N, 3), little endian; a coordinate is `low + step * number`.
        low: corner of the box around all of them; step: of a whole number, m.
        centre, radius: of the sphere that most points are in.
        ceiling: height above which points hide what is below; infinity is written as None where there are none.
        shown, whole: points in the page and in the map.
    """

    points: str
    path: str
    low: tuple[float, float, float]
    step: float
    centre: tuple[float, float, float]
    radius: float
    ceiling: float | None
    shown: int
    whole: int


def read_view(folder: Path, track: Track | None) -> View3d | None:
    """The view of `map.ply` in the folder of a map, and of a track in it; None where the map cannot be read."""
    stored = np.empty((0, 3))
    with unless_damaged():
        stored, _ = read_ply(folder / "map.ply")
    whole = len(stored)
    # The same points at every run, and as dense as the map everywhere, which strides along its order would not be.
    chosen = np.random.default_rng(0).permutation(whole)[:_MAP_POINTS]
    xyz = stored[chosen].astype("f8")
    xyz = xyz[np.isfinite(xyz).all(axis=1) & (np.abs(xyz) < 1e6).all(axis=1)]
    if not len(xyz):
        return None
    path = np.empty((0, 3)) if track is None else track.pos[track.valid]
    path = path[np.unique(np.linspace(0, len(path) - 1, min(len(path), _PATH_POINTS)).round().astype(int))]
    both = np.concatenate([xyz, path])
    low, high = both.min(axis=0), both.max(axis=0)
    step = max(float((high - low).max()) / _LEVELS, 1e-6)
    near, far = np.quantile(xyz, (_STRAYS, 1 - _STRAYS), axis=0)
    ceiling = float(path[:, 2].max()) + _CEILING_M if len(path) else np.inf
    centre = (near + far) / 2
    return View3d(
        points=_encoded(xyz, low, step),
        path=_encoded(path, low, step),
        low=_rounded(low),
        step=step,
        centre=_rounded(centre),
        radius=round(max(0.5, float(np.linalg.norm(far - near, axis=0)) / 2), 3),
        ceiling=round(ceiling, 3) if (xyz[:, 2] > ceiling).any() else None,
        shown=len(xyz),
        whole=whole,
    )


def _encoded(xyz: np.ndarray, low: np.ndarray, step: float) -> str:
    numbers = np.clip(np.rint((xyz - _rounded(low)) / step), 0, _LEVELS).astype("<u2")
    return base64.b64encode(numbers.tobytes()).decode()


def _rounded(values: np.ndarray) -> tuple[float, float, float]:
    x, y, z = (round(float(value), 6) for value in values)
    return x, y, z
