"""Cross-correlation of a gyroscope with the angular velocities of a trajectory: first values, and alternatives.

For each of many time offsets the second moments of both are summed. From them follow the rotation and the factor
between both, in closed form (S. Umeyama, Least-squares estimation of transformation parameters between two point
patterns, IEEE Transactions on Pattern Analysis and Machine Intelligence 13(4), 1991), and how well any other rotation
or a reflection would fit. Intervals with large residuals weigh less (P. Huber's function, in three iterations).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rover_pipeline.imu.blocks import INTERVAL, Means
from rover_pipeline.kinematics.rotation import nearest
from rover_pipeline.numerics.linear import matmul
from rover_pipeline.numerics.robust import huber

#: Largest time offset of a clock that is about right, s. Offsets of up to four times that are compared with it: a rig
#: that is turned to and fro turns the other way half a period later. Tuned: by hand.
MAX_OFFSET = 0.55
#: How many intervals' mean squared residuals a hypothesis must fit better by. Residuals are correlated over several
#: intervals, and the best of a hundred offsets is chosen. Tuned: by hand.
_DECISIVE = 50.0


class Moments(NamedTuple):
    """Weighted second moments of the lidar's and the gyroscope's rates about their means, at O time offsets."""

    offset: np.ndarray  #: f8 (O,), s, to be added to the times of the gyroscope.
    number: np.ndarray  #: i8 (O,), of intervals.
    lidar_mean: np.ndarray  #: f8 (O, 3).
    gyro_mean: np.ndarray  #: f8 (O, 3).
    lidar: np.ndarray  #: f8 (O,), mean squares.
    gyro: np.ndarray  #: f8 (O,), mean squares.
    products: np.ndarray  #: f8 (O, 3, 3), means of lidar times gyroscope.

    @classmethod
    def of(cls, offset: np.ndarray, weight: np.ndarray, lidar: np.ndarray, gyro: np.ndarray) -> Moments:
        """Of rates, lidar f8 (K, 3) and gyro f8 (O, K, 3), with weights of the intervals, f8 (O, K)."""
        share = (weight / weight.sum(axis=1, keepdims=True))[:, :, None]
        lidar_mean, gyro_mean = (share * lidar).sum(axis=1), (share * gyro).sum(axis=1)
        y, x = lidar - lidar_mean[:, None], gyro - gyro_mean[:, None]
        lidar_square, gyro_square = ((share * each**2).sum(axis=(1, 2)) for each in (y, x))
        products, number = np.einsum("oki,okj->oij", share * y, x), (weight > 0).sum(axis=1)
        return cls(offset, number, lidar_mean, gyro_mean, lidar_square, gyro_square, products)

    def rotation(self) -> np.ndarray:
        """The rotations lidar-from-imu that fit best, f8 (O, 3, 3)."""
        return nearest(self.products)

    def reflection(self) -> np.ndarray:
        """The reflections that fit best, f8 (O, 3, 3)."""
        return -nearest(-self.products)

    def factor(self, turn: np.ndarray) -> np.ndarray:
        """Factors from the gyroscope's rates, turned by f8 ([O,] 3, 3), to the lidar's, f8 (O,); not negative."""
        return np.maximum((turn * self.products).sum(axis=(1, 2)), 0.0) / np.maximum(self.gyro, 1e-18)

    def unexplained(self, turn: np.ndarray) -> np.ndarray:
        """Mean squared residuals, f8 (O,), of rotations or reflections, f8 ([O,] 3, 3), a factor and a bias."""
        return np.maximum(self.lidar - self.factor(turn) ** 2 * self.gyro, 1e-12 + 1e-6 * self.lidar)

    def near(self) -> Moments:
        """Those at offsets of a clock that is about right."""
        return Moments(*(each[np.abs(self.offset) <= MAX_OFFSET] for each in self))


def decisive(better: float, worse: float, number: int) -> bool:
    """Whether one of two mean squared residuals over so many intervals is significantly smaller."""
    return bool((worse - better) * number > _DECISIVE * better)


def correlate(begin: np.ndarray, gyro: Means, lidar: Means) -> Moments:
    """Moments at time offsets in steps of 0.05 s; none where few intervals are measured by both.

    Args:
        begin: f8 (K,), s, of the intervals; some thousand of them are used.
        gyro: rates by the clock and in the frame and the unit of the IMU; lidar: rates in its own frame, rad/s.
    """
    begin, steps = begin[:: 1 + len(begin) // 2000], round(4 * MAX_OFFSET / (INTERVAL / 2))
    offsets, (reference, known) = INTERVAL / 2 * np.arange(-steps, steps + 1), lidar.over(begin, INTERVAL)
    means, used = (np.array(each) for each in zip(*(gyro.over(begin - one, INTERVAL) for one in offsets), strict=True))
    used &= known
    enough = used.sum(axis=1) >= max(10, used.sum(axis=1).max() // 2)
    offsets, means, used = offsets[enough], means[enough], used[enough]
    if not len(offsets):
        return Moments.of(offsets, used, reference, means)
    residual, kept = reference - np.median(reference[known], axis=0), known
    for _ in range(3):
        size = np.linalg.norm(residual, axis=1)
        found = Moments.of(offsets, huber(size, np.median(size[kept])) * used, reference, means)
        turns = np.stack([found.rotation(), found.reflection()])
        costs = np.stack([found.unexplained(turn) for turn in turns])
        hand, best = np.unravel_index(np.argmin(costs), costs.shape)
        turn, factor, kept = turns[hand, best], found.factor(turns[hand])[best], used[best]
        predicted = factor * matmul(means[best] - found.gyro_mean[best], turn.T)
        residual = reference - found.lidar_mean[best] - predicted
    return found


def half_turn(moments: Moments, mount: np.ndarray) -> np.ndarray | None:
    """The half turn, f8 (3, 3), by which the gyroscope's rotation differs from its mount; None if nothing shows one.

    An angular velocity is no arrow: in a mirror, its component along the normal of the mirror stays and the other two
    change their signs. That is half a turn about the normal. So a gyroscope of known mount shows a lidar whose columns
    or beams are stored in reverse, and needs no calibration for it; but it cannot distinguish it from a mount that is
    wrong by half a turn.

    Args:
        mount: f8 (3, 3), lidar-from-imu.
    """
    near = moments.near()
    if not len(near.offset):
        return None
    turns = 2 * np.einsum("ij,ik->ijk", np.eye(3), np.eye(3)) - np.eye(3)
    costs = np.stack([near.unexplained(matmul(turn, mount)) for turn in turns])
    best, at = np.unravel_index(np.argmin(costs), costs.shape)
    # Another hand of the axes is an error of the IMU: no lidar that sees a mirrored world makes it.
    cost, hand, right = costs.min(), near.unexplained(near.reflection()).min(), moments.unexplained(mount).min()
    number = int(near.number[at])
    if decisive(hand, cost, number) or not decisive(cost, right, number) or cost > near.lidar[at] / 2:
        return None
    return np.asarray(turns[best])
