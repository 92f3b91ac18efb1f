"""Where the middle of a body is, of which a cluster shows a part.

The middle of what is seen is not that of the body: beams reach two of its sides at most, and something nearer may hide
an end. The end that is seen stays where it is on the body while the other one comes and goes, so the middle is measured
from it, by the size that other sweeps tell (the switching of reference points of trackers of extended objects).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rover_pipeline.objects.clusters import Clusters
from rover_pipeline.objects.poses import PlanePoses, at_once

#: Sizes in plan below which a body is not given, m: beams hit only a part of its surface.
MIN_SIZE_M = 0.2
#: Standard deviation of an end, m: surfaces are rough, and one point is kept of each cube.
END_SD = 0.06
#: Standard deviation of the length that is hidden, as a share of it: the size is known from other sweeps.
HIDDEN_SHARE = 0.1
#: The same where it is not known which end is hidden. The errors of neighbouring sweeps are alike, so that many of them
#: tell no more than one does: it is larger than that of one, which is a twelfth's root.
_UNKNOWN_SHARE = 3.0
#: How probable an end is that of the body, for one that looks like it: when something nearer may hide what goes on, and
#: on the side that is turned away from the lidar; and that neither is.
_OPEN_PRIOR, _FAR_PRIOR, _NEITHER_PRIOR = 0.3, 0.2, 0.1
#: Standard deviation of the expected middle, once the motion is known, m.
MATCH_SD = 0.25
#: An end that is as probable as none adds this standard deviation, m; one that is less probable than this is not used.
_END_DOUBT, _LEAST_EITHER = 0.3, 0.05
#: Percentile of the sizes that were seen which is the body's: smaller ones are parts of it, larger ones two bodies.
_SIZE_PERCENTILE = 80.0
#: Least number of nearest clusters that the size is also taken from.
_LEAST_NEAR = 5
#: How much smaller than the body a visible part is that shows it whole, m.
_WHOLE_M = 0.15


class Sides(NamedTuple):
    """The ends of clusters along a heading and to its left; all (C, 2).

    Attributes:
        low, high: f8, lowest and highest coordinate in axes of that direction through the world's origin, m.
        low_open, high_open: bool, whether something nearer may hide what goes on there.
    """

    low: np.ndarray
    high: np.ndarray
    low_open: np.ndarray
    high_open: np.ndarray

    @property
    def size(self) -> np.ndarray:
        """Of what is seen, f8 (C, 2), m."""
        return self.high - self.low


def sides(clusters: Clusters, poses: PlanePoses) -> Sides:
    """The ends of clusters, as the body was at the clusters' times.

    Args:
        poses: of the body at the clusters' times.
    """
    cos, sin = np.cos(poses.yaw)[:, None], np.sin(poses.yaw)[:, None]
    places = at_once(clusters.outline.astype("f8"), clusters.later.astype("f8"), poses)
    x, y = places[..., 0], places[..., 1]
    axes = np.stack([cos * x + sin * y, cos * y - sin * x], axis=-1)
    lowest, highest = axes.argmin(axis=1), axes.argmax(axis=1)
    low = np.take_along_axis(axes, lowest[:, None], axis=1)[:, 0]
    high = np.take_along_axis(axes, highest[:, None], axis=1)[:, 0]
    row = np.arange(len(places))[:, None]
    return Sides(low, high, clusters.open[row, lowest], clusters.open[row, highest])


def size_of(seen: Sides, away: np.ndarray) -> np.ndarray:
    """Length and width of a body, f8 (2,), m, of which many clusters show a part.

    Args:
        away: f8 (C,), distance from the lidar, m. From near by more is seen, perhaps for a small part of the track.
    """
    near = np.argsort(away, kind="stable")[: max(_LEAST_NEAR, len(away) // 4)]
    sizes = [np.percentile(sizes, _SIZE_PERCENTILE, axis=0) for sizes in (seen.size, seen.size[near])]
    return np.maximum(np.max(sizes, axis=0), MIN_SIZE_M)


def is_whole(seen: Sides, size: np.ndarray) -> bool:
    """Whether some cluster is as long as the body, and nothing nearer hides what may go on behind its ends.

    Args:
        size: f8 (2,), length and width that were seen, m.
    """
    ends = ~(seen.low_open | seen.high_open)[:, 0]
    return bool((ends & (seen.size[:, 0] > size[0] - _WHOLE_M)).any())


def part_sd(sizes: np.ndarray) -> np.ndarray:
    """Standard deviation of the middles of clusters, f8 (C,), m, before it is known which part of a body they show.

    Args:
        sizes: f8 (C,), larger side of each, m.
    """
    whole = np.percentile(sizes, _SIZE_PERCENTILE)
    return np.asarray(HIDDEN_SHARE * sizes + _UNKNOWN_SHARE * np.maximum(0, whole - sizes - _WHOLE_M))


def middles(
    seen: Sides,
    size: np.ndarray,
    poses: PlanePoses,
    lidar: np.ndarray,
    match_sd: float = MATCH_SD,
    hidden_share: float = HIDDEN_SHARE,
) -> tuple[np.ndarray, np.ndarray]:
    """Middles of the bodies in the world, f8 (C, 2), m; and standard deviations along the heading and to its left for
    what is hidden, f8 (C, 2), m.

    Of a body of which a part is hidden, either end may be its own, or none. How near each puts the middle to the
    expected one, and whether it looks like an end, tells how probable this is (a mixture, as of the
    expectation-maximization algorithm).

    Args:
        size: f8 (2,) or (C, 2), length and width, m.
        poses: that are expected.
        lidar: f8 (C, 2), its place, m.
        match_sd: standard deviation of the expected middles, m.
        hidden_share: standard deviation of the length that is hidden, as a share of it.
    """
    cos, sin = np.cos(poses.yaw), np.sin(poses.yaw)
    own, expected = (
        np.column_stack([cos * xy[:, 0] + sin * xy[:, 1], cos * xy[:, 1] - sin * xy[:, 0]])
        for xy in (lidar, poses.centre)
    )
    hidden = np.maximum(0, size - seen.size)
    # An end looks like one of the body when nothing nearer is beside it and it is not on the far side.
    low, high = (
        np.where(is_open, _OPEN_PRIOR, 1.0) * np.where(near, 1.0, _FAR_PRIOR) * _match((middle - expected) / match_sd)
        for is_open, near, middle in (
            (seen.low_open, own < seen.high, seen.low + size / 2),
            (seen.high_open, own > seen.low, seen.high - size / 2),
        )
    )
    neither = _NEITHER_PRIOR * match_sd / np.maximum(hidden, match_sd)
    either = low + high
    ends = (low * (seen.low + size / 2) + high * (seen.high - size / 2)) / np.maximum(either, 1e-12)
    short = hidden > _WHOLE_M
    middle = np.where(short & (either > _LEAST_EITHER * neither), ends, (seen.low + seen.high) / 2)
    doubt = np.sqrt(neither / np.maximum(either, 1e-12))
    sd = np.where(short, hidden_share * hidden + np.minimum(_END_DOUBT * doubt, _UNKNOWN_SHARE * hidden), 0.0)
    turned = np.column_stack([cos * middle[:, 0] - sin * middle[:, 1], sin * middle[:, 0] + cos * middle[:, 1]])
    return turned, sd


def _match(away: np.ndarray) -> np.ndarray:
    return np.asarray(np.exp(-np.minimum(away**2 / 2, 50.0)))
