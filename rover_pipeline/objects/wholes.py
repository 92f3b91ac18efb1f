"""Puts the parts of each body in a sweep together: beams miss its roof and its bonnet, and leave gaps there."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rover_pipeline.numerics.linear import matmul
from rover_pipeline.objects.clusters import DIRECTIONS, Clusters, merged

#: Beams pass over a bonnet that is this far below the lidar, m. The longest gap that this explains, m, and the height
#: of what is in front of it, m. The higher part behind belongs to the same body when it is in the same direction.
_BONNET_DEPTH_M, _BONNET_GAP_M, _BONNET_TOP_M = 0.8, 1.6, 1.2
_SAME_DIRECTION = 0.5


def whole_bodies(clusters: Clusters, lidar: np.ndarray, tilt: float) -> Clusters:
    """The clusters of a sweep, with the parts of each body put together.

    Beams graze the roof and the bonnet of a car, and leave gaps there. What is within the outline of a cluster belongs
    to it, and so does what is behind a low cluster, higher, and in the same direction.

    Args:
        lidar: f8 (2,), m; tilt: angle between neighbouring beams, rad.
    """
    left, result = list(range(len(clusters.time))), []
    hulls = [outline[matmul(outline, DIRECTIONS.T).argmax(axis=0)] for outline in clusters.outline]
    views = [_Sight.of(hull, lidar) for hull in hulls]
    height = clusters.top - clusters.floor
    while left:
        group = [left.pop(0)]
        for first in group:  # grows while it is gone through
            joined = [
                n
                for n in left
                if _is_within(clusters.middle[n], hulls[first])
                or views[first].continues(views[n], float(height[first]), float(height[n]), tilt)
            ]
            group += joined
            left = [n for n in left if n not in joined]
        chosen = clusters.select(np.array(group))
        result.append(merged(chosen) if len(group) > 1 else chosen)
    return Clusters.joined(result)


class _Sight(NamedTuple):
    """A cluster as the lidar sees it: its azimuths from `right` to `left`, rad, and its distances, m."""

    right: float
    left: float
    near: float
    far: float

    @staticmethod
    def of(outline: np.ndarray, lidar: np.ndarray) -> _Sight:
        to = outline - lidar
        middle = to.mean(axis=0)
        ahead = matmul(to, middle)
        turn = np.arctan2(middle[0] * to[:, 1] - middle[1] * to[:, 0], ahead)
        azimuth = float(np.arctan2(middle[1], middle[0]))
        distance = np.hypot(*to.T)
        low, high = float(turn.min()), float(turn.max())
        return _Sight(azimuth + low, azimuth + high, float(distance.min()), float(distance.max()))

    def continues(self, other: _Sight, height: float, other_height: float, tilt: float) -> bool:
        """Whether two clusters are the two ends of a bonnet."""
        nearer, farther = (self, other) if self.near <= other.near else (other, self)
        low, high = (height, other_height) if self.near <= other.near else (other_height, height)
        gap = farther.near - nearer.far
        if low > _BONNET_TOP_M or low > high or gap > min(_BONNET_GAP_M, nearer.far**2 * tilt / _BONNET_DEPTH_M):
            return False
        turn = 2 * np.pi * np.round((nearer.left - farther.left) / (2 * np.pi))
        shared = min(nearer.left, farther.left + turn) - max(nearer.right, farther.right + turn)
        return bool(shared > _SAME_DIRECTION * min(nearer.left - nearer.right, farther.left - farther.right))


def _is_within(place: np.ndarray, outline: np.ndarray) -> bool:
    """Whether a place, (2,), is left of every edge of a convex outline, (N, 2), counter-clockwise."""
    edge = np.roll(outline, -1, axis=0) - outline
    to = place - outline
    return bool((edge[:, 0] * to[:, 1] - edge[:, 1] * to[:, 0] >= 0).all())
