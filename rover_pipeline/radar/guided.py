"""`_radar_points` where odometry helps to find the ambiguity numbers of the Doppler (`radar.points.odometry`).

It is a module of its own, because the points of most recordings need no trajectories.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rover_pipeline.kinematics.mount import find_mount
from rover_pipeline.kinematics.sweep import MAX_GAP_PERIODS
from rover_pipeline.kinematics.trajectory import Trajectory
from rover_pipeline.radar.options import PointsOptions
from rover_pipeline.radar.steps import points


def guided_points(
    iq: np.ndarray,
    whole: np.ndarray,
    ts: np.ndarray,
    odometry: Mapping[str, np.ndarray] | None = None,
    *,
    options: PointsOptions,
    config: str | None = None,
    **others: Any,
) -> dict[str, np.ndarray]:
    """As `rover_pipeline.radar.steps.points`, with the velocity of the radar by odometry.

    Args:
        ts: f8 (frame,), s; odometry: the channels of `_odom`; None = there is none.
    """
    guides: dict[int, np.ndarray] = {}
    if odometry is not None and len(odometry["ts"]) > 1:
        # The middle of the chirps is some hundredths of a second later, in which no rig changes its speed by a span.
        gap = MAX_GAP_PERIODS * float(np.median(np.diff(odometry["ts"])))
        state, known = Trajectory.of(odometry, max_gap=gap).at(ts, find_mount("radar", options.rig, config))
        velocity = np.einsum("nji,nj->ni", state.rot, state.vel)
        guides = {int(i): velocity[i] for i in np.flatnonzero(known)}
    return points(iq, whole, options=options, config=config, guides=guides, **others)
