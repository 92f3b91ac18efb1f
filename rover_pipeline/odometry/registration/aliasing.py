"""Whether sweeps would agree at another speed, too."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.signal import find_peaks

from rover_pipeline.numerics.linear import matmul
from rover_pipeline.numerics.robust import FALSE_ALARM
from rover_pipeline.odometry.observations import Sweep
from rover_pipeline.odometry.registration.point_terms import PointWeights
from rover_pipeline.odometry.registration.point_to_plane import match_points
from rover_pipeline.odometry.registration.speeds import EDGE_M, filled
from rover_pipeline.odometry.registration.transforms import transform_points
from rover_pipeline.odometry.spline import SplineTrajectory
from rover_pipeline.odometry.surfels import SurfelMap


def ambiguity(
    sweeps: Sequence[tuple[Sweep, SurfelMap]],
    trajectory: SplineTrajectory,
    axes: np.ndarray,
    weights: PointWeights,
) -> float:
    """How clearly sweeps agree at another speed along a direction, too: 1 or more is no accident.

    Where each sweep sees the next one of equal pillars where the sweep before has seen the last one, a rig that drives
    seems to stand (temporal aliasing). The pillars have been seen at other instants than it seems, so that its sweeps
    agree at its real speed as well. Ranges do not show which of both is true, unless the sweeps agree far less at the
    other one than at that of a trajectory that moves.

    The number of filled cells is smaller where sweeps agree. At speeds that mean nothing it has dips whose depths are
    about those of an exponential distribution. The speed of the trajectory is no other one. Standing is none either,
    because rings on a floor move with the rig.

    Args:
        sweeps: each with a map of others. Only points on its planes count, because what moves has another speed.
        axes: f8 (3, 3), see `open_direction`.
        weights: of the points that lie on planes.
    """
    places, since = [], []
    for sweep, surfels in sweeps:
        poses = trajectory.poses(trajectory.locate(sweep.times))
        on_planes = match_points(sweep.points, sweep.column, *poses, surfels.tables, weights).number[:, 0]
        points, column = sweep.points[on_planes], sweep.column[on_planes]
        places.append(transform_points(points, column, *poses))
        since.append(sweep.times[column] - sweeps[0][0].end)
    if not any(map(len, places)):
        return 0.0
    ends, edge = np.array([sweep.end for sweep, _ in sweeps]), 2 * EDGE_M
    speeds, cells = filled(places, since, axes, [edge, 0.8 * edge, edge / 0.8])
    # What is equal has neighbours beyond the next cell, and fits within a cell.
    nearest = 2 * edge / float(np.median(np.diff(ends)))
    window = 1 + round(nearest / float(np.diff(speeds[:2])[0]))
    dips, found = find_peaks(-cells, prominence=1, wlen=window)
    own = float(matmul(trajectory.at(ends).vel, axes[0]).mean())
    here = np.abs(speeds[dips]) <= nearest
    depths = found["prominences"]
    other = ~here & (np.abs(speeds[dips] + own) > nearest)
    if not other.any():
        return 0.0
    # Of an exponential distribution, a share of 1 / e is beyond the mean. A few dips that are real do not change that.
    mean = np.quantile(depths[other], 1 - np.exp(-1))
    deepest = mean * np.log(other.sum() / FALSE_ALARM)
    # No rings take part in the agreement of a trajectory that moves. What is real agrees as well, but for accidents.
    agrees = depths[here].max(initial=0.0) if np.abs(own) > nearest else 0.0
    return float(depths[other].max() / max(deepest, agrees - deepest))
