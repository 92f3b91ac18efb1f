"""What is mended in points of spinning lidars: instants by azimuth where there are none, and elevations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rover_pipeline.errors import ConfigError
from rover_pipeline.importers.points import Cloud
from rover_pipeline.lidar.spin import Turning, share_of_turn


class Turn(NamedTuple):
    """A turn of the beams from behind to behind, relative to the instant at which they look ahead.

    Attributes:
        begin, end: s; the first is negative.
    """

    begin: float
    end: float


def steady_turns(ts: np.ndarray) -> list[Turn]:
    """Turns as long as the median time between them, f8 (sweep,), s."""
    half = float(np.median(np.diff(ts))) / 2 if len(ts) > 1 else 0.05
    return [Turn(-half, half)] * len(ts)


def dated(cloud: Cloud, turn: Turn, turning: Turning) -> Cloud:
    """The cloud with the instant of each point, after the one at which the beams look ahead.

    Raises:
        ConfigError: its points have times.
    """
    if cloud.time is not None:
        raise ConfigError("--turning: the points have times of their own; leave it out")
    share = share_of_turn(cloud.xyz, turning)
    return cloud._replace(time=2 * share * np.where(share < 0, -turn.begin, turn.end))


def raised(cloud: Cloud, degrees: float) -> Cloud:
    """The cloud with every point at a larger elevation, at the same azimuth and distance from the origin."""
    if not degrees:
        return cloud
    xyz, angle = np.asarray(cloud.xyz, "f8"), np.radians(degrees)
    level = np.hypot(xyz[:, 0], xyz[:, 1])
    shrunk = np.cos(angle) - np.sin(angle) * xyz[:, 2] / np.where(level > 0, level, np.inf)
    height = np.cos(angle) * xyz[:, 2] + np.sin(angle) * level
    return cloud._replace(xyz=np.column_stack([xyz[:, :2] * shrunk[:, None], height]))
