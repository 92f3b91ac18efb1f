"""Two local maps of what may be the same place: where one lies on the other, and whether it is the same place at all.

A map is searched for around where the odometry has it, by the correlation of walls seen from above (after Olson,
"Real-Time Correlative Scan Matching", ICRA 2009) and of the heights of floors; then planes are laid on planes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import cv2
import numpy as np
from scipy import fft

from rover_pipeline.kinematics.rotation import exp, log
from rover_pipeline.kinematics.trajectory import Trajectory as Motion
from rover_pipeline.odometry.observations import Sweep
from rover_pipeline.odometry.solve_kernels import equations
from rover_pipeline.odometry.surfel_kernels import place_points
from rover_pipeline.odometry.surfels import SurfelMap

#: Cells of the pictures from above and steps of heights, metres.
_CELL = 0.2
#: Planes farther from the place than this are not in the picture from above, metres.
_VIEW = 40.0
#: Steps of the heading that are tried, radians, and how many to each side at most.
_TURN, _TURNS = np.radians(1.0), 8
#: A wall's normal rises by less than this, that of a floor by more than the other.
_WALL, _FLOOR = 0.5, 0.9
#: Distances from planes within which points count, iteration by iteration, metres.
_GATES = (0.5, 0.3, 0.2, 0.1, 0.05, 0.05, 0.05, 0.05)
#: Standard deviation of the middle of a plane, metres.
_NOISE = 0.004


class Match(NamedTuple):
    """How a place has to be moved to lie on its first visit.

    Attributes:
        shift: f8 (3,), of the place's origin, metres in the world.
        turn: f8 (3, 3), about its origin, in the world.
        information: f8 (6, 6), of `shift` (1/m2) and of a rotation after `turn` (1/rad2).
        inliers: share of the walls of a visit that lie on planes of the other, or of the floors: the least of these.
        residual: root mean square distance of planes, metres.
        walls: that lie on walls of the other visit.
    """

    shift: np.ndarray
    turn: np.ndarray
    information: np.ndarray
    inliers: float
    residual: float
    walls: int


class LocalMap:
    """The planes around a place.

    Args:
        sweeps: of one visit.
        motion: the lidar's in the world.
        origin: f8 (3,), of the map in the world, metres.
        sizes: edges of the voxels, metres.
    """

    def __init__(self, sweeps: Iterable[Sweep], motion: Motion, origin: np.ndarray, sizes: tuple[float, ...]) -> None:
        self.surfels = SurfelMap(sizes)
        for sweep in sweeps:
            at, told = motion.at(sweep.times)
            known = told[sweep.column]
            if known.any():
                self.surfels.insert(place_points(sweep.points[known], sweep.column[known], at.pos - origin, at.rot))
        finest = self.surfels.levels[0]
        planes = finest.planes[: finest.count]
        planes = planes[planes[:, 7] > 0]
        self.centres, rise = planes[:, :3], np.abs(planes[:, 5])
        self.walls = self.centres[rise < _WALL]
        self.floors = self.centres[rise > _FLOOR]


def match(there: LocalMap, here: LocalMap, bound: float, angle: float) -> Match | None:
    """The match of a later visit, `here`, with an earlier one, `there`: the best of those within reach.

    Both maps are in the same axes, z upward within some 20 degrees, and have the same origin, that of `here`.

    Args:
        bound: the way it may have to be moved, metres.
        angle: by which it may have to be turned, radians.
    """
    if len(here.walls) < 6 or len(there.walls) < 6:
        return None
    still = np.zeros(3), np.eye(3)
    found = _laid(there, here, *still, bound, angle)
    if bound > _GATES[0] / 2:
        # Where places repeat, the nearest is the likeliest: another must suit clearly better.
        other = _laid(there, here, *_searched(there, here, bound, angle), bound, angle)
        if other.inliers > found.inliers + 0.1:
            found = other
    return found


def _searched(there: LocalMap, here: LocalMap, bound: float, angle: float) -> tuple[np.ndarray, np.ndarray]:
    """The shift and the turn about the vertical that put most walls on walls and floors on floors."""
    near = there.walls[np.abs(there.walls[:, :2]).max(1) < _VIEW + bound, :2]
    walls = here.walls[np.abs(here.walls[:, :2]).max(1) < _VIEW, :2]
    half = int(np.ceil((_VIEW + bound) / _CELL)) + 2
    size = fft.next_fast_len(2 * half, real=True)
    reach = int(bound / _CELL)
    # A wall half a cell off is still the wall.
    blurred = cv2.GaussianBlur(_picture(near, half, size), (5, 5), 1.0)
    spectrum = fft.rfft2(blurred)
    offsets = np.fft.fftfreq(size, 1 / size).astype(int)
    within = np.hypot(offsets[:, None], offsets[None]) <= reach
    steps = min(_TURNS, int(angle / _TURN))
    best, shift, turned = -1.0, np.zeros(2), 0.0
    for step in sorted(range(-steps, steps + 1), key=abs):
        cos, sin = np.cos(step * _TURN), np.sin(step * _TURN)
        picture = _picture(walls @ np.array([[cos, sin], [-sin, cos]]), half, size)
        scores = np.where(within, fft.irfft2(spectrum * np.conj(fft.rfft2(picture)), s=(size, size)), -1.0)
        row, column = np.unravel_index(int(scores.argmax()), scores.shape)
        if scores[row, column] > best:
            best, turned = float(scores[row, column]), step * _TURN
            shift = _CELL * np.array([offsets[row], offsets[column]], "f8")
    return np.append(shift, _raised(there, here, bound)), exp(np.array([[0.0, 0.0, turned]]))[0]


def _picture(points: np.ndarray, half: int, size: int) -> np.ndarray:
    """Where walls are, f4 (size, size) by x and y: 1 in cells that have any."""
    picture = np.zeros((size, size), "f4")
    cells = np.floor(points / _CELL).astype("i8") + half
    cells = cells[((cells >= 0) & (cells < size)).all(1)]
    picture[cells[:, 0], cells[:, 1]] = 1
    return picture


def _raised(there: LocalMap, here: LocalMap, bound: float) -> float:
    """The rise, metres, that puts most floors on floors."""
    if not len(here.floors) or not len(there.floors):
        return 0.0
    edges = np.arange(-_VIEW, _VIEW + _CELL / 2, _CELL / 2)
    old, new = (np.histogram(each.floors[:, 2], edges)[0].astype("f8") for each in (there, here))
    old = np.convolve(old, [0.5, 1.0, 0.5], "same")
    reach = int(2 * bound / _CELL)
    rises = np.array(sorted(range(-reach, reach + 1), key=abs))
    scores = [old[max(r, 0) : len(old) + min(r, 0)] @ new[max(-r, 0) : len(new) - max(r, 0)] for r in rises]
    return float(rises[int(np.argmax(scores))] * _CELL / 2)


def _laid(there: LocalMap, here: LocalMap, shift: np.ndarray, turn: np.ndarray, bound: float, angle: float) -> Match:
    """Planes of `here` laid on those of `there`, from a first guess on."""
    expected = np.array([bound] * 3 + [angle] * 3) ** -2
    points, column = here.centres.astype("f4"), np.zeros(len(here.centres), "i4")
    at_pos, at_rot = shift[None].copy(), turn[None].copy()
    for gate in _GATES:
        noise = max(_NOISE, gate / 5 if gate > _GATES[-1] else 0.0)
        matrix, right, _ = equations(points, column, at_pos, at_rot, there.surfels.tables, gate, noise, 2.0, 1)
        away = np.concatenate([at_pos[0], log(at_rot)[0]])
        step = np.linalg.solve(matrix[0] + np.diag(expected), right[0] - expected * away)
        at_pos, at_rot = at_pos + step[:3], at_rot @ exp(step[None, 3:])
    shares, forth, squares = [], 0, 0.0
    back_rot = np.swapaxes(at_rot, 1, 2)
    back_pos = -(back_rot @ at_pos[0])
    for old, new in ((there.walls, here.walls), (there.floors, here.floors)):
        if len(old) and len(new):
            count, sum_squares = _covered(new, there, at_pos, at_rot)
            shares += [count / len(new), _covered(old, here, back_pos, back_rot)[0] / len(old)]
            forth, squares = forth + count, squares + sum_squares
    return Match(
        shift=at_pos[0],
        turn=at_rot[0],
        information=matrix[0] + np.diag(expected),
        inliers=min(shares),
        residual=float(np.sqrt(squares / max(forth, 1))),
        walls=_covered(here.walls, there, at_pos, at_rot)[0],
    )


def _covered(planes: np.ndarray, other: LocalMap, pos: np.ndarray, rot: np.ndarray) -> tuple[int, float]:
    """How many planes lie on planes of the other map, and the sum of their squared distances."""
    *_, told = equations(
        planes.astype("f4"), np.zeros(len(planes), "i4"), pos, rot, other.surfels.tables, _GATES[-1], _NOISE, 2.0, 1
    )
    return int(told[1]), float(told[2])
