"""Covariances of poses: those blocks of the inverse of a block-banded matrix that lie in its band.

The recursion from the last block to the first one is that of Takahashi, Fagan, Chin, "Formation of a sparse bus
impedance matrix and its application to short circuit study" (PICA 1973).
"""

from __future__ import annotations

import numpy as np

from rover_pipeline.kinematics.rotation import skew
from rover_pipeline.kinematics.state import State
from rover_pipeline.numerics.blocks import blocks
from rover_pipeline.numerics.linear import cholesky_banded, inv, matmul, solve
from rover_pipeline.odometry.registration.batch import CONTROLS, SplineSystem
from rover_pipeline.odometry.spline import ORDER

#: Unknowns of a control point: a position and a rotation. Layout.
_SIZE = 6
#: Standard deviation of the scale of ranges: data sheets of rotating lidars allow a bias of 3 cm, here at 20 m. Neither
#: the map nor the motion shows it, because both grow with it (a consider parameter; S. F. Schmidt, 1966).
#: Noise: data sheets of rotating lidars.
_RANGE_SCALE = 0.0015


def covariances(system: SplineSystem, scale: float, ts: np.ndarray) -> np.ndarray:
    """Covariances of poses relative to the map, in the lidar frame.

    Args:
        system: the equations of the trajectory's control points.
        scale: variance of the measurements, relative to the expected one.
        ts: f8 (frame,), instants of the poses, seconds.

    Returns:
        f8 (frame, 6, 6), of a displacement (m) and then of a rotation (rad), both in the lidar frame.
    """
    moves, nuisance = system.considered(scale)
    inverse, instants = _inverse_blocks(system.matrix(scale)), system.trajectory.locate(ts)
    rot, all_weights = system.trajectory.at(ts).rot, instants.weights()
    cov = np.zeros((len(ts), _SIZE, _SIZE))
    for part in blocks(len(ts), CONTROLS):
        first, weights, own = instants.first[part], all_weights[part], cov[part]
        for k in range(ORDER):
            for other in range(k + 1):
                term = (weights[:, k] * weights[:, other])[:, None, None] * inverse[first + other, k - other]
                own += term if k == other else term + np.swapaxes(term, 1, 2)
        # Errors that all points have in common move all poses together (S. F. Schmidt, 1966).
        of_poses = sum(weights[:, k, None] * moves[:, first + k] for k in range(ORDER)).swapaxes(0, 1)
        own += matmul(np.swapaxes(of_poses, 1, 2), nuisance, of_poses)
        into_lidar = np.zeros_like(own)
        into_lidar[:, :3, :3], into_lidar[:, 3:, 3:] = np.swapaxes(rot[part], 1, 2), np.eye(3)
        cov[part] = matmul(into_lidar, own, np.swapaxes(into_lidar, 1, 2))
    return cov


def in_deviations(moves: np.ndarray, cov: np.ndarray) -> float:
    """Root mean square of moves of poses, f8 (frame, 6), in the standard deviations of covariances, f8 (frame, 6, 6).

    Poses that nothing holds do not count, whose covariances are more than numbers can say.
    """
    known = np.isfinite(cov).all(axis=(1, 2))
    if not known.any():
        return 0.0
    squares = matmul(moves[known, None], solve(cov[known], moves[known][..., None]))[:, 0, 0] / _SIZE
    return float(np.sqrt(squares.mean()))


def relative_to(cov: np.ndarray, state: State, first: int) -> np.ndarray:
    """Covariances of poses in the world of one of them, f8 (frame, 6, 6), in the lidar frame.

    An error of that pose turns and moves the whole world: all other poses have it too, and that pose itself has none.
    A wrong scale of ranges makes the way between them longer or shorter.

    Args:
        cov: f8 (frame, 6, 6), relative to the map, in the lidar frame.
        first: number of the frame that the world is.
    """
    rot = np.swapaxes(state.rot, 1, 2)
    # How a displacement and a rotation of the first pose, in its own frame, move each pose, in the frame of this one.
    move = np.zeros_like(cov)
    turn = matmul(rot, state.rot[first])
    move[:, :3, :3] = move[:, 3:, 3:] = turn
    move[:, :3, 3:] = matmul(-turn, skew(matmul(state.pos - state.pos[first], state.rot[first])))
    moved = cov + matmul(move, cov[first], np.swapaxes(move, 1, 2))
    way = matmul(rot, (state.pos - state.pos[first])[..., None])
    moved[:, :3, :3] += _RANGE_SCALE**2 * matmul(way, np.swapaxes(way, 1, 2))
    moved[first] = 0
    return moved


def _inverse_blocks(band: np.ndarray) -> np.ndarray:
    """Blocks of the inverse, f8 (M, 4, 6, 6): [m, k] is that of control points m + k and m.

    Args:
        band: f8 (24, 6 M), the matrix in lower banded form, which may be overwritten.
    """
    count, rest = band.shape[1] // _SIZE, (ORDER - 1) * _SIZE
    lower = cholesky_banded(band, overwrite=True)
    # The blocks of a column take the place of those of the factor, which nothing after them needs.
    inverse = lower.T.reshape(count, ORDER, _SIZE, _SIZE)
    rows, columns = np.indices((ORDER * _SIZE, _SIZE))
    after = np.zeros((rest, rest))  # the inverse of the next control points
    for part in blocks(count, CONTROLS, step=-1):
        for m in range(part.stop - 1, part.start - 1, -1):
            column = np.where(rows >= columns, lower[np.maximum(rows - columns, 0), m * _SIZE + columns], 0.0)
            root = inv(column[:_SIZE])
            ratios = matmul(column[_SIZE:], root)
            below = -matmul(after, ratios)
            own = matmul(root.T, root) - matmul(ratios.T, below)
            # Rounding makes the block a little asymmetric. The recursion would double that from each block to the next.
            inverse[m, 0], inverse[m, 1:] = (own + own.T) / 2, below.reshape(-1, _SIZE, _SIZE)
            after[_SIZE:, _SIZE:] = after[:-_SIZE, :-_SIZE].copy()
            after[_SIZE:, :_SIZE], after[:_SIZE, _SIZE:] = below[:-_SIZE], below[:-_SIZE].T
            after[:_SIZE, :_SIZE] = inverse[m, 0]
    return inverse
