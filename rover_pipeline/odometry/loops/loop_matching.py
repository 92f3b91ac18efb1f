"""Matching of two local maps: how one has to be moved to lie on the other, and whether both are of one location.

The motion is searched for near the odometry's estimate, by the correlation of walls seen from above (after Olson,
"Real-Time Correlative Scan Matching", ICRA 2009) and of the heights of floors. Then planes are aligned with planes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import cv2
import numpy as np
from scipy import fft
from scipy.spatial import cKDTree

from rover_pipeline.kinematics.rotation import exp
from rover_pipeline.kinematics.state import Poses
from rover_pipeline.kinematics.trajectory import Trajectory
from rover_pipeline.numerics.linear import inv, matmul
from rover_pipeline.odometry.observations import Sweep
from rover_pipeline.odometry.registration.map_alignment import CENTRE_NOISE, WIDEST_GATE, align, plane_distances
from rover_pipeline.odometry.registration.point_terms import GATE
from rover_pipeline.odometry.registration.transforms import transform_rays
from rover_pipeline.odometry.surfels import FACING, NORMAL, SurfelMap

#: Cells of the bird's-eye views, metres, whose heights have steps of half a cell; and half the width of the views,
#: metres. Tuned: by hand.
_CELL, VIEW = 0.2, 40.0
#: Steps of the heading that are tried, radians, and their largest number to each side. Tuned: by hand.
_ANGLE_STEP, _MAX_STEPS = np.radians(1.0), 8
#: Largest vertical component of a wall's normal, and smallest one of a floor's. Tuned: by hand.
_WALL, _FLOOR = 0.5, 0.9
#: Smallest number of walls that two visits must share. Tuned: by hand.
MIN_WALLS = 60
#: How much larger the fraction of inliers has to be at another location than at the estimated one. Where walls repeat,
#: the nearest match is the most likely one. Tuned: by hand.
_CLEARLY_BETTER = 0.1
#: Error of a match, however well its planes fit: metres and radians. Tuned: by hand.
_MATCH_ERROR = 0.003, 0.0005
#: The odometry's estimate of the motion between two local maps: there is no drift to correct. Layout.
_UNMOVED = Poses(np.eye(3), np.zeros(3))


class Match(NamedTuple):
    """The motion that puts a visit of a location on an earlier visit."""

    shift: np.ndarray  #: f8 (3,), of the origin of the local map, metres in the world.
    rotation: np.ndarray  #: f8 (3, 3), about that origin, in the world.
    information: np.ndarray  #: f8 (6, 6), of `shift` (1/m2) and of a rotation after `rotation` (1/rad2).
    #: smallest of four fractions: of the walls and floors of either visit that lie on planes of the other.
    inliers: float
    residual: float  #: root mean square distance of the inliers, metres.
    walls: int  #: number of walls that lie on planes of the other visit.
    #: share of the lidar's positions in the later visit that a surface hides from the earlier one, where the odometry
    #: has them or where the match has them.
    hidden: float = 0.0

    @property
    def is_elsewhere(self) -> bool:
        """Whether the majority of positions says that there is a wall between both visits: one is of another room."""
        return self.hidden > 0.5

    @property
    def covariance(self) -> np.ndarray:
        """That of shift and rotation, f8 (6, 6), m2 and rad2."""
        return inv(self.information) + np.diag([_MATCH_ERROR[0] ** 2] * 3 + [_MATCH_ERROR[1] ** 2] * 3)


class LocalMap:
    """The planes around a keyframe.

    Args:
        sweeps: of one visit.
        motion: the lidar's in the world.
        origin: f8 (3,), of the map in the world, metres.
        sizes: edges of the voxels, metres.
    """

    def __init__(
        self, sweeps: Iterable[Sweep], motion: Trajectory, origin: np.ndarray, sizes: tuple[float, ...]
    ) -> None:
        surfels, positions = SurfelMap(sizes), []
        for sweep in sweeps:
            state, known = motion.at(sweep.times)
            part = known[sweep.column]
            if part.any():
                positions.append(state.pos[known][-1] - origin)
                surfels.insert(transform_rays(sweep.points[part], sweep.column[part], state.pos - origin, state.rot))
        # A floor on the border of two voxels of one size is too sparse for planes there, and has those of another size.
        planes = np.concatenate([level.planes() for level in surfels.levels[:2]])
        self.tables, self._size = surfels.tables, sizes[0]
        self.positions = np.array(positions).reshape(-1, 3)
        self.centres, self._normals = planes[:, :3], planes[:, NORMAL : NORMAL + 3]
        self.sides = -np.sign(planes[:, FACING])[:, None] * self._normals
        vertical = np.abs(self._normals[:, 2])
        self.walls = self.centres[vertical < _WALL]
        self.floors = self.centres[vertical > _FLOOR]

    def blocks(self, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
        """Which straight ways, from f8 (N, 3) to f8 (N, 3), m, lead through a surface, bool (N,)."""
        offsets = (self.centres * self._normals).sum(1)
        before, after = (matmul(each, self._normals.T) - offsets for each in (begin, end))
        way, plane = np.nonzero(before * after < 0)
        share = before[way, plane] / (before - after)[way, plane]
        away = begin[way] + share[:, None] * (end - begin)[way] - self.centres[plane]
        # A plane reaches as far as its voxel, half a diagonal at most.
        return np.isin(np.arange(len(begin)), way[(away**2).sum(1) < 3 / 4 * self._size**2])


def match(first: LocalMap, second: LocalMap, bound: float, angle: float) -> Match | None:
    """The best match of a later visit with an earlier one; None where there are too few walls.

    Both maps are in the same axes, z upward within some 20 degrees, and have the same origin, that of the later visit.

    Args:
        bound: largest correction of the position, metres.
        angle: largest correction of the rotation, radians.
    """
    if min(len(second.walls), len(first.walls)) < MIN_WALLS:
        return None
    best = _aligned(first, second, _UNMOVED, bound, angle)
    if bound > WIDEST_GATE / 2:
        other = _aligned(first, second, _search(first, second, bound, angle), bound, angle)
        if other.inliers > best.inliers + _CLEARLY_BETTER:
            best = other
    return best


def _search(first: LocalMap, second: LocalMap, bound: float, angle: float) -> Poses:
    """The motion with a rotation about the vertical that puts most walls on walls and most floors on floors."""
    near = first.walls[np.abs(first.walls[:, :2]).max(1) < VIEW + bound, :2]
    walls = second.walls[np.abs(second.walls[:, :2]).max(1) < VIEW, :2]
    half = int(np.ceil((VIEW + bound) / _CELL)) + 2
    size = fft.next_fast_len(2 * half, real=True)
    # The blur lets a wall match that is half a cell away.
    spectrum = fft.rfft2(cv2.GaussianBlur(_birds_eye_view(near, half, size), (5, 5), 1.0))
    offsets = np.fft.fftfreq(size, 1 / size).astype(int)
    allowed = np.hypot(offsets[:, None], offsets[None]) <= int(bound / _CELL)
    steps = min(_MAX_STEPS, int(angle / _ANGLE_STEP))
    best, shift, heading = -1.0, np.zeros(2), 0.0
    for step in sorted(range(-steps, steps + 1), key=abs):
        cos, sin = np.cos(step * _ANGLE_STEP), np.sin(step * _ANGLE_STEP)
        view = _birds_eye_view(matmul(walls, np.array([[cos, sin], [-sin, cos]])), half, size)
        scores = np.where(allowed, fft.irfft2(spectrum * np.conj(fft.rfft2(view)), s=(size, size)), -1.0)
        row, column = np.unravel_index(int(scores.argmax()), scores.shape)
        if scores[row, column] > best:
            best, heading = float(scores[row, column]), step * _ANGLE_STEP
            shift = _CELL * np.array([offsets[row], offsets[column]], "f8")
    return Poses(exp(np.array([[0.0, 0.0, heading]]))[0], np.append(shift, _search_height(first, second, bound)))


def _birds_eye_view(points: np.ndarray, half: int, size: int) -> np.ndarray:
    """Occupied cells, f4 (size, size) by x and y: 1 in cells that have walls, else 0."""
    view = np.zeros((size, size), "f4")
    cells = np.floor(points / _CELL).astype("i8") + half
    cells = cells[((cells >= 0) & (cells < size)).all(1)]
    view[cells[:, 0], cells[:, 1]] = 1
    return view


def _search_height(first: LocalMap, second: LocalMap, bound: float) -> float:
    """The shift along z, metres, that puts most floors on floors."""
    if not len(second.floors) or not len(first.floors):
        return 0.0
    edges = np.arange(-VIEW, VIEW + _CELL / 2, _CELL / 2)
    old, new = (np.histogram(each.floors[:, 2], edges)[0].astype("f8") for each in (first, second))
    old[1:-1] += (old[2:] + old[:-2]) / 2
    largest = int(2 * bound / _CELL)
    steps = np.array(sorted(range(-largest, largest + 1), key=abs))
    scores = [matmul(old[max(n, 0) : len(old) + min(n, 0)], new[max(-n, 0) : len(new) - max(n, 0)]) for n in steps]
    return float(steps[int(np.argmax(scores))] * _CELL / 2)


def _aligned(first: LocalMap, second: LocalMap, guess: Poses, bound: float, angle: float) -> Match:
    """The match after the planes of the later visit are aligned with those of the earlier one."""
    deviations = np.array([bound] * 3 + [angle] * 3)
    # The room behind a thin wall has the wall's other side.
    _, nearest = cKDTree(first.centres).query(matmul(second.centres, guess.rot.T) + guess.pos)
    same_side = (matmul(second.sides, guess.rot.T) * first.sides[nearest]).sum(1) > 0
    (rot, pos), information, _ = align(
        second.centres[same_side], first.tables, guess=guess, expected=_UNMOVED, deviations=deviations
    )
    there, back = Poses(rot[None], pos[None]), Poses(rot.T[None], -matmul(rot.T, pos)[None])
    fractions, inliers, squares = [], 0, 0.0
    for old, new in ((first.walls, second.walls), (first.floors, second.floors)):
        if len(old) and len(new):
            count, sum_squares = _inliers(new, first, there)
            fractions += [count / len(new), _inliers(old, second, back)[0] / len(old)]
            inliers, squares = inliers + count, squares + sum_squares
    residual = float(np.sqrt(squares / max(inliers, 1)))
    walls = _inliers(second.walls, first, there)[0]
    hidden = _hidden(first, second, Poses(rot, pos))
    return Match(pos, rot, information, min(fractions), residual, walls, hidden)


def _hidden(first: LocalMap, second: LocalMap, pose: Poses) -> float:
    """See `Match.hidden`, of a match that moves the later visit by `pose`. Each position is seen from the nearest one
    of the earlier visit."""
    there = second.positions
    moved = matmul(there, pose.rot.T) + pose.pos
    near = first.positions[cKDTree(first.positions).query(moved)[1]]
    by_first = first.blocks(near, moved) | first.blocks(near, there)
    by_second = second.blocks(matmul(near - pose.pos, pose.rot), there) | second.blocks(near, there)
    return float(max(by_first.mean(), by_second.mean()))


def _inliers(centres: np.ndarray, other: LocalMap, pose: Poses) -> tuple[int, float]:
    """How many planes lie on planes of the other map, and the sum of their squared distances, m2."""
    *_, statistics = plane_distances(centres, other.tables, pose.pos, pose.rot, GATE, CENTRE_NOISE)
    return int(statistics.inliers), statistics.squared_distances
