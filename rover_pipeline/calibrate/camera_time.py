"""The time offset of a camera, from how it turns between two pictures beside how the lidar turned.

A point that stands still is seen at r before and r' after, unit vectors in the frames of the camera, whose rotation R
and translation t between the two are known from the lidar's motion. Then n R r' = 0 for the normal n of t and r,
however far away it is (H. C. Longuet-Higgins, A computer algorithm for reconstructing a scene from two projections,
Nature 293, 1981). A camera whose times are late by s turned otherwise: by s times the change of its turn rate. One
whose mount is wrong turned about another axis, or moved elsewhere. All are found together by least squares. Errors of a
pair of pictures are not independent: the covariance is that of its sums (as in `camera_mount`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import cv2
import numpy as np

from rover_pipeline.kinematics.mount import Mount
from rover_pipeline.kinematics.mounts import PRIOR_SIGMA, changed
from rover_pipeline.kinematics.rotation import skew
from rover_pipeline.kinematics.trajectory import Trajectory
from rover_pipeline.numerics.linear import inv, matmul

#: Corners that are tracked, the best ones, and pixels between them. Schedule.
_CORNERS, _BETWEEN = 150, 8
#: How far the way back of a track may end from where it began, pixels.
#: Noise: tracks are good to a tenth of a pixel; three deviations.
_RETURN = 0.3
#: Offsets from which the search starts, s, its iterations, and the step after which there are no more. Schedule.
_STARTS, _ITERATIONS, _SMALL_STEP = (-0.06, -0.03, 0.0, 0.03, 0.06), 8, 1e-6


class Tracks(NamedTuple):
    """Points in two pictures: times f8 (2,), s; unit vectors f8 (N, 3) in the camera's frame before and after."""

    times: np.ndarray
    before: np.ndarray
    after: np.ndarray


def track(times: np.ndarray, first: np.ndarray, second: np.ndarray, rays: np.ndarray) -> Tracks:
    """Corners of a picture in the next one, u1 (height, width), by optical flow (Lucas and Kanade, 1981).

    Args:
        rays: f8 (height, width, 3), unit vectors of the pixels, NaN where the lens sees nothing.
    """
    corners = cv2.goodFeaturesToTrack(first, _CORNERS, 1e-6, _BETWEEN)
    if corners is None:
        return Tracks(times, np.empty((0, 3)), np.empty((0, 3)))
    moved, found, _ = cv2.calcOpticalFlowPyrLK(first, second, corners, corners.copy())
    back, again, _ = cv2.calcOpticalFlowPyrLK(second, first, moved, corners.copy())
    seen = [cv2.remap(rays, each[..., 0], each[..., 1], cv2.INTER_LINEAR)[:, 0] for each in (corners, moved)]
    good = (found[:, 0] > 0) & (again[:, 0] > 0) & (np.abs(back - corners).max(axis=(1, 2)) < _RETURN)
    good &= np.isfinite(seen).all(axis=(0, 2)) & (np.abs(seen).max(axis=(0, 2)) > 0)
    return Tracks(times, *(each[good] for each in seen))


def time_offset(tracks: Sequence[Tracks], trajectory: Trajectory, start: Mount) -> tuple[float, float]:
    """What is to be added to the time offset of a camera's mount, and its standard deviation, s; both with the prior.

    Args:
        start: the declared mount, at most 5 degrees and 50 ms off, by whose clock `tracks` have their times.
    """
    best, found, late_sigma = np.inf, 0.0, float(PRIOR_SIGMA[6])
    for late in _STARTS if tracks else ():
        error = np.append(np.zeros(6), late)
        for _ in range(_ITERATIONS):
            residual, slopes, pair = _epipolar(tracks, trajectory, start, error)
            sigma = 1.4826 * float(np.median(np.abs(residual))) + 1e-9 if len(residual) else np.inf
            weight = np.minimum(1.0, 1.345 * sigma / np.maximum(np.abs(residual), 1e-12)) / sigma**2
            inverse = inv(matmul(slopes.T * weight, slopes) + np.diag(1 / PRIOR_SIGMA**2))
            step = matmul(inverse, matmul(slopes.T, weight * residual) + error / PRIOR_SIGMA**2)
            error = error - step
            if np.abs(step).max() < _SMALL_STEP:
                break
        if sigma < best:
            sums = np.stack([np.bincount(pair, each) for each in weight * residual * slopes.T], axis=1)
            spread = matmul(sums.T, sums) * (len(tracks) / max(len(tracks) - 1, 1)) + np.diag(1 / PRIOR_SIGMA**2)
            best, found = sigma, float(error[6])
            late_sigma = float(np.sqrt(matmul(inverse, spread, inverse)[6, 6]))
    return found, min(late_sigma, float(PRIOR_SIGMA[6]))


def _epipolar(
    tracks: Sequence[Tracks], trajectory: Trajectory, start: Mount, error: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Residuals f8 (N,), rad, their derivatives f8 (N, 7) by the error of the mount; the pair."""
    mount = changed(start, error)
    states, known = trajectory.at(np.array([each.times for each in tracks]).ravel(), mount)
    pos, rot, vel, _, avel = (each.reshape(len(tracks), 2, *each.shape[1:]) for each in states)
    back, into = rot[:, 0].transpose(0, 2, 1), mount.rotation.T
    turn = matmul(back, rot[:, 1])
    way, faster = (matmul(back, each[:, 1, :, None] - each[:, 0, :, None]) for each in (pos, vel))
    # By the mount's rotation, its translation, and the time.
    turn_by = np.zeros((len(tracks), 3, 7))
    turn_by[..., :3] = moved = matmul(turn - np.eye(3), into)
    turn_by[..., 6:] = matmul(turn, avel[:, 1, :, None]) - avel[:, 0, :, None]
    way_by = np.concatenate([matmul(skew(way[..., 0]), into), moved, faster - matmul(skew(avel[:, 0]), way)], axis=2)
    used = np.flatnonzero(known.reshape(-1, 2).all(axis=1)).tolist()
    pair = np.repeat(used, [len(tracks[number].before) for number in used])
    before, after = (np.concatenate([np.empty((0, 3)), *(tracks[k][which] for k in used)]) for which in (1, 2))
    turned = (turn[pair] * after[:, None]).sum(axis=2)
    normal, across = np.cross(way[pair, :, 0], before), np.cross(before, turned)
    length = np.sqrt((normal**2).sum(axis=1, keepdims=True)) + 1e-9
    slopes = (np.cross(turned, normal)[..., None] * turn_by[pair] + across[..., None] * way_by[pair]).sum(axis=1)
    return (normal * turned).sum(axis=1) / length[:, 0], slopes / length, pair
