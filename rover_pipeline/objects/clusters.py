"""What is kept of the clusters of points of a sweep."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rover_pipeline.numerics.linear import matmul

#: Directions in which the outline of a cluster is kept, twice: of the points that were measured first, and of the
#: others. A body that is passed by the beginning and the end of a revolution has moved by then.
_DIRECTED = 24
OUTLINE = 2 * _DIRECTED
_ANGLES = 2 * np.pi * np.arange(_DIRECTED) / _DIRECTED
DIRECTIONS = np.stack([np.cos(_ANGLES), np.sin(_ANGLES)], -1)
#: Maximum number of points of a cluster that are kept, which tell where its flat sides are.
SAMPLE = 96


class Clusters(NamedTuple):
    """The clusters of some sweeps.

    Attributes:
        frame: i4 (C,), number of the sweep.
        time: f8 (C,), s, mean of the times at which the points were measured.
        outline: f4 (C, OUTLINE, 2), the farthest points in equally spaced directions, x and y in the world, m, of the
            first half of the time in which the cluster was measured, then of the second.
        later: f4 (C, OUTLINE), when each of them was measured, s after `time`.
        open: bool (C, OUTLINE), whether the cluster may go on there, behind something nearer.
        sample: f4 (C, SAMPLE, 3), points that are spread over the cluster: x and y in the world, m, and when they were
            measured, s after `time`; NaN where there are fewer.
        floor, top: f4 (C,), z of the ground and of the highest point, m.
        points: i4 (C,), number of points.
        moving: f4 (C,), share of the points whose places were seen to be free.
        lidar: f4 (C, 2), where the lidar was, m.
    """

    frame: np.ndarray
    time: np.ndarray
    outline: np.ndarray
    later: np.ndarray
    open: np.ndarray
    sample: np.ndarray
    floor: np.ndarray
    top: np.ndarray
    points: np.ndarray
    moving: np.ndarray
    lidar: np.ndarray

    @staticmethod
    def none() -> Clusters:
        return Clusters(
            np.zeros(0, "i4"),
            np.zeros(0, "f8"),
            np.zeros((0, OUTLINE, 2), "f4"),
            np.zeros((0, OUTLINE), "f4"),
            np.zeros((0, OUTLINE), bool),
            np.zeros((0, SAMPLE, 3), "f4"),
            np.zeros(0, "f4"),
            np.zeros(0, "f4"),
            np.zeros(0, "i4"),
            np.zeros(0, "f4"),
            np.zeros((0, 2), "f4"),
        )

    @staticmethod
    def joined(parts: list[Clusters]) -> Clusters:
        return Clusters(*(np.concatenate(arrays) for arrays in zip(*(parts or [Clusters.none()]), strict=True)))

    @staticmethod
    def taken(parts: list[Clusters]) -> Clusters:
        """The same, of a list that is emptied meanwhile: hardly more than the result is held at any time."""
        columns = [list(arrays) for arrays in zip(*(parts or [Clusters.none()]), strict=True)]
        parts.clear()
        joined = []
        for column in columns:
            joined.append(np.concatenate(column))
            column.clear()
        return Clusters(*joined)

    def select(self, chosen: np.ndarray | slice | int) -> Clusters:
        return Clusters(*(array[chosen] for array in self))

    @property
    def middle(self) -> np.ndarray:
        """Middle of the box along the axes of the world, f8 (C, 2)."""
        return np.asarray((self.outline.min(axis=1) + self.outline.max(axis=1)) / 2, "f8")

    @property
    def size(self) -> np.ndarray:
        """Larger side of that box, f8 (C,)."""
        return np.asarray(np.ptp(self.outline, axis=1).max(axis=1), "f8")


def merged(clusters: Clusters) -> Clusters:
    """One cluster of all of some clusters of a sweep."""
    weights = clusters.points / clusters.points.sum()
    time = float(matmul(weights, clusters.time))
    later = clusters.later + (clusters.time - time)[:, None]
    sample = clusters.sample.copy()
    sample[..., 2] += (clusters.time - time)[:, None]
    outline, after, ends = outlined(clusters.outline.reshape(-1, 2), later.reshape(-1), clusters.open.reshape(-1))
    return Clusters(
        frame=clusters.frame[:1],
        time=np.array([time]),
        outline=outline[None],
        later=after[None],
        open=ends[None],
        sample=sampled(sample[np.isfinite(sample[..., 0])])[None],
        floor=np.array([matmul(weights, clusters.floor)], "f4"),
        top=clusters.top.max(keepdims=True),
        points=clusters.points.sum(keepdims=True),
        moving=np.array([matmul(weights, clusters.moving)], "f4"),
        lidar=clusters.lidar[:1],
    )


def outlined(xy: np.ndarray, later: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The outline of points: f4 (OUTLINE, 2), when they were measured, f4 (OUTLINE,), and `ends` of each, bool.

    Args:
        xy: f8 (N, 2), m; later: f8 (N,), s; ends: bool (N,).
    """
    reach = matmul(xy, DIRECTIONS.T)
    first = later <= (later.min() + later.max()) / 2
    halves = [np.where(half[:, None], reach, -np.inf) if half.any() else reach for half in (first, ~first)]
    chosen = np.concatenate([half.argmax(axis=0) for half in halves])
    return xy[chosen].astype("f4"), later[chosen].astype("f4"), ends[chosen]


def sampled(points: np.ndarray) -> np.ndarray:
    """At most SAMPLE of some points, (N, 3), evenly spread over their order, f4 (SAMPLE, 3), filled with NaN."""
    chosen = np.linspace(0, len(points) - 1, min(SAMPLE, len(points))).astype(int)
    result = np.full((SAMPLE, 3), np.nan, "f4")
    result[: len(chosen)] = points[chosen]
    return result
