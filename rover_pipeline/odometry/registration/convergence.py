"""How a trajectory and its map settle together: fewer passes, and what the map knows only through the trajectory.

A batch pass registers all sweeps to a map that its own trajectory has made. The map follows the trajectory, so that a
pass takes away only a part of the error: where each pass moves the trajectory by a share `rate` of what the pass before
did, the limit is 1 / (1 - rate) moves away. Anderson mixing looks for this limit (D. G. Anderson, "Iterative procedures
for nonlinear integral equations", JACM 1965; for registration A. L. Pavlov et al., "AA-ICP", ICRA 2018).

The same rate shows what the equations of a pass leave out, because they take the map for known: the covariance of
trajectory and map together is theirs divided by 1 - rate (A. P. Dempster, N. M. Laird, D. B. Rubin, "Maximum likelihood
from incomplete data via the EM algorithm", JRSS B 1977; X.-L. Meng, D. B. Rubin, "Using EM to obtain asymptotic
variance-covariance matrices", JASA 1991).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from rover_pipeline.kinematics.rotation import exp, log
from rover_pipeline.numerics.blocks import blocks
from rover_pipeline.numerics.linear import eigh, matmul
from rover_pipeline.odometry.registration.point_terms import PointErrors
from rover_pipeline.odometry.spline import SplineTrajectory

#: Passes that the next trajectory is made from, besides the last one. Tuned: by hand.
_MEMORY = 2
#: Largest rate: an extrapolation goes no farther than ten times the last move, and a covariance grows no more.
#: Tuned: by hand.
_MAX_RATE = 0.9
#: The most that further passes would move a trajectory, relative to the next move. Physics: sum of a geometric series.
MAX_REMAINING = 1 / (1 - _MAX_RATE)
#: Mixed passes leave this share of the move of the pass before, once the passes that are mixed are `_MEMORY` and one,
#: and none of them began at the first trajectory: no pass has made that one, so that its errors are others, and the way
#: from there to the second one says nothing about the map. Tuned: by hand.
_MIXED_RATE = 2 / 3


class Pass(NamedTuple):
    """One batch pass."""

    before: SplineTrajectory  #: the trajectory that the map is made from.
    after: SplineTrajectory  #: the one that fits this map best.
    errors: PointErrors  #: of points, as far as they are known by then.


def difference(first: SplineTrajectory, second: SplineTrajectory) -> np.ndarray:
    """From the control points of one trajectory to those of another, f8 (6 M,): m in the world, rad in the lidar."""
    turned = log(matmul(np.swapaxes(first.rot, 1, 2), second.rot))
    return np.concatenate([second.pos - first.pos, turned], axis=1).ravel()


def pose_moves(first: SplineTrajectory, second: SplineTrajectory, ts: np.ndarray) -> np.ndarray:
    """From the poses of one trajectory to those of another at some instants, f8 (frame, 6): m and rad, lidar frame."""
    here, there = first.at(ts), second.at(ts)
    into_lidar = np.swapaxes(here.rot, 1, 2)
    turned = log(matmul(into_lidar, there.rot))
    return np.concatenate([matmul(into_lidar, (there.pos - here.pos)[..., None])[..., 0], turned], axis=1)


def moved(trajectory: SplineTrajectory, by: np.ndarray) -> SplineTrajectory:
    """A trajectory whose control points are moved; see `difference`."""
    steps = by.reshape(-1, 6)
    pos, rot = trajectory.pos + steps[:, :3], matmul(trajectory.rot, exp(steps[:, 3:]))
    return trajectory._replace(pos=pos, rot=rot)


def banded_product(band: np.ndarray, vector: np.ndarray, scale: float = 1.0) -> np.ndarray:
    """A symmetric matrix in lower banded form, f8 (B, 6 M), divided by a scale, times a vector, f8 (6 M,)."""
    product = np.empty_like(vector)
    for part in blocks(len(vector)):
        low = max(part.start - len(band) + 1, 0)
        near = slice(low, part.stop + len(band) - 1)  # what these rows depend on
        product[part] = _banded_product(band[:, near] / scale, vector[near])[part.start - low : part.stop - low]
    return product


def _banded_product(band: np.ndarray, vector: np.ndarray) -> np.ndarray:
    product = band[0] * vector
    for below in range(1, len(band)):
        product[below:] += band[below, :-below] * vector[:-below]
        product[:-below] += band[below, :-below] * vector[below:]
    return product


def mixed(passes: Sequence[Pass], band: np.ndarray) -> SplineTrajectory:
    """The trajectory to begin the next pass with.

    Args:
        passes: in order, of which the last ones count.
        band: f8 (B, 6 M), information of the control points: a length in it does not depend on units.
    """
    last = passes[-_MEMORY - 1 :]
    moves = [difference(each.before, each.after) for each in last]
    if len(last) < 2:
        return last[-1].after
    changes = np.array([second - first for first, second in pairwise(moves)])
    ends = [difference(first.after, second.after) for first, second in pairwise(last)]
    weighted = np.array([banded_product(band, each) for each in changes])
    values, vectors = eigh(matmul(changes, weighted.T))
    kept = values > np.finfo("f4").eps * values[-1]
    if values[-1] <= 0:
        return last[-1].after
    shares = matmul(vectors[:, kept], matmul(vectors[:, kept].T, matmul(weighted, moves[-1])) / values[kept])
    step = matmul(-shares, np.array(ends))
    farthest = _MAX_RATE / (1 - _MAX_RATE) * _length(moves[-1], band)
    length = _length(step, band)
    return moved(last[-1].after, step * min(1.0, farthest / max(length, 1e-12)))


def rate(passes: Sequence[Pass], band: np.ndarray) -> float:
    """The share of an error that a pass leaves, from 0 to 0.9; 0 where a single pass does not show it.

    It is a Rayleigh quotient between the last two passes: how the result of a pass moved as its beginning did.
    """
    if len(passes) < 2:
        return 0.0
    first, second = passes[-2:]
    begun = difference(first.before, second.before)
    weighted = banded_product(band, begun)
    size = float(matmul(begun, weighted))
    if size <= 0:
        return 0.0
    return float(np.clip(matmul(weighted, difference(first.after, second.after)) / size, 0.0, _MAX_RATE))


def remaining_moves(passes: Sequence[Pass], band: np.ndarray) -> float:
    """How many times the next move all further passes would move a trajectory; see `mixed` for the arguments."""
    if len(passes) < _MEMORY + 1:
        return MAX_REMAINING
    share = _MIXED_RATE if len(passes) > _MEMORY + 1 else max(_MIXED_RATE, rate(passes, band))
    return 1 / (1 - share)


def _length(vector: np.ndarray, band: np.ndarray) -> float:
    return float(np.sqrt(max(matmul(vector, banded_product(band, vector)), 0.0)))
