"""Outlines of what is near in sweeps, and edges of pictures, on which they fall where a camera's mount is right."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import cv2
import numpy as np

from rover_pipeline.camera.lens import Lens
from rover_pipeline.kinematics.mount import Mount
from rover_pipeline.numerics.compiled import compiled
from rover_pipeline.numerics.linear import matmul

#: Pixels are averaged to this size at the centre, degrees; less than a lidar's beams are apart. Tuned: by hand.
PIXEL = 0.08
#: A step in depth, of the range; incidence (tangent) on the near surface at an outline, so that no surface seen
#: at a grazing angle, such as the ground, ends in one. Tuned: lidar_camera_kitti_object.
_STEP, _INCIDENCE = 0.1, 2.0
#: Neighbours of a point that are looked at, and points in a cell of those in which they are looked for. Schedule.
_NEIGHBOURS, _IN_CELL = 40, 5
#: Edges are compared with the mean about them, in a square of so many blurs, so that trees do not attract everything,
#: and of this much at beam. Tuned: lidar_camera_kitti_object.
_WINDOW, _FLOOR = 12.0, 0.2
#: Kinds of outlines: right, left, lower and upper. Layout.
KINDS = 4
#: Points of a pair. Schedule.
_POINTS = 1000


class Pair(NamedTuple):
    """A sweep and a picture of one instant.

    Attributes:
        xyz: f8 (N, 3), returns in the lidar frame at the picture's instant, m.
        grey: u1 (height, width); lens: its intrinsics.
        twist: f8 (6,), rotation rate, rad/s, and velocity, m/s, of the lidar in its frame at this instant.
    """

    xyz: np.ndarray
    grey: np.ndarray
    lens: Lens
    twist: np.ndarray = np.zeros(6)


class Picture:
    """The edges of a picture, at any blur; `ranks`, f4 (height, width) each, are -log p to the right and down."""

    def __init__(self, grey: np.ndarray, lens: Lens) -> None:
        self.lens, grey = smaller(lens, PIXEL, grey)
        smooth = cv2.GaussianBlur(grey.astype("f4"), (0, 0), 1.0)
        self.ranks = [_log_ranks(np.abs(cv2.Sobel(smooth, cv2.CV_32F, 1 - axis, axis))) for axis in (0, 1)]
        self.edges = cache(self._edges)

    def _edges(self, blur: float) -> tuple[Lens, np.ndarray]:
        """-log p for the gradients to the right and down, f4 (2, height, width), blurred by degrees; its lens."""
        maps = []
        for ranks in self.ranks:
            lens, ranks = smaller(self.lens, blur / 2, ranks)
            pixels = max(np.radians(blur) * lens.fx, 1.0)
            sharp = _log_ranks(cv2.GaussianBlur(ranks, (0, 0), pixels))
            local = cv2.blur(sharp, (round(_WINDOW * pixels),) * 2)
            maps.append(_log_ranks(sharp / (local + _FLOOR)))
        return lens, np.stack(maps)


def smaller(lens: Lens, degrees: float, image: np.ndarray) -> tuple[Lens, np.ndarray]:
    """A lens, and its picture, whose pixels at the centre are no smaller than this."""
    factor = min(1.0, 1 / np.radians(degrees) / lens.fx)
    small = lens.resized(round(lens.width * factor), round(lens.height * factor))
    size = (small.width, small.height)
    return small, image if factor == 1 else np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA))


def _log_ranks(gradient: np.ndarray) -> np.ndarray:
    """-log p of each pixel, f4, where p is the share of the picture whose gradient is greater."""
    level = (gradient * (65534 / max(float(gradient.max()), 1e-9))).astype("u2")
    count = np.bincount(level[::2, ::2].ravel(), minlength=65536)  # A quarter of the pixels has the same distribution.
    above = count.sum() - np.cumsum(count) + (count + 1) / 2  # Equal ones share their ranks.
    return np.asarray((-np.log(above / (count.sum() + 1))).astype("f4").take(level))


class Outlines(NamedTuple):
    """Points on the near side of steps in depth.

    Attributes:
        point: f8 (N, 3), lidar frame, m; outward: f8 (N, 3), by how much a spacing of the beams moves them, m.
        kind: i8 (N,), right, left, lower, upper; range: f8 (N,), from the camera, m; pair: i8 (N,), its number.
        passing: f8 (N, 3), velocity of the lidar as it is at the point, m/s.
    """

    point: np.ndarray
    outward: np.ndarray
    kind: np.ndarray
    range: np.ndarray
    pair: np.ndarray
    passing: np.ndarray

    def only(self, use: np.ndarray | slice) -> Outlines:
        return Outlines(*(each[use] for each in self))

    @classmethod
    def joined(cls, parts: Sequence[Outlines]) -> Outlines:
        return cls(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def tangents(xyz: np.ndarray, mount: Mount) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(right, down) / ahead of points, NaN behind the camera, and the points in its frame."""
    seen = matmul(xyz - mount.translation, mount.rotation)
    ahead = np.where(seen[:, 0] > 0.1, seen[:, 0], np.nan)
    return -seen[:, 1] / ahead, -seen[:, 2] / ahead, seen


def outlines(pair: Pair, number: int, lens: Lens, mount: Mount) -> Outlines:
    """Points on the near side of steps in depth, as they are seen from a mount by a lens."""
    ahead = np.flatnonzero(matmul(pair.xyz - mount.translation, mount.rotation[:, 0]) > 0)
    x, y, seen = tangents(pair.xyz[ahead], mount)
    u, v = lens.pixels(x, y)
    margin = 0.05 * lens.width
    inside = np.flatnonzero((u > -margin) & (u < lens.width + margin) & (v > -margin) & (v < lens.height + margin))
    # Cells in rows, of which those at the borders of the picture are empty.
    cell = np.sqrt(_IN_CELL * (lens.width + 2 * margin) * (lens.height + 2 * margin) / max(len(inside), 1))
    across, down = (((each[inside] + margin) / cell).astype("i8") + 1 for each in (u, v))
    columns = int((lens.width + 2 * margin) / cell) + 3
    order = np.argsort(down * columns + across, kind="stable")
    inside, number_of = inside[order], (down * columns + across)[order]
    cells = np.arange(columns * (int((lens.height + 2 * margin) / cell) + 3) + 1)
    pixel, rng = np.stack([u, v], axis=1)[inside], np.sqrt((seen[inside] ** 2).sum(axis=1))
    rows, kinds, nearest, index, square = _nearest(pixel, rng, number_of, np.searchsorted(number_of, cells), columns)
    finest = np.minimum(nearest, 2 * np.median(nearest)) if len(rows) else np.zeros(0)
    some = np.flatnonzero(kinds)
    kinds, finest, rows, index, apart = kinds[some], finest[some], rows[some], index[some], np.sqrt(square[some])
    xyz, offset, ranges, rng = pair.xyz[ahead[inside[rows]]], pixel[index] - pixel[rows, None], rng[index], rng[rows]
    step = _STEP * rng[:, None]
    found = []
    for kind in range(KINDS):
        axis, sign = kind // 2, 1 - 2 * (kind % 2)
        outside = (sign * offset[..., axis] > np.abs(offset[..., 1 - axis])) & (index >= 0)
        some = np.flatnonzero(kinds & 1 << kind)
        here, next_to, there, beam = rng[some], apart[some], ranges[some], finest[some]
        inner = (-sign * offset[some, :, axis] > np.abs(offset[some, :, 1 - axis])) & (index[some] >= 0)
        within = inner & (np.abs(there - here[:, None]) <= step[some])
        gaps, spacings = np.where(outside[some], next_to, np.inf), np.where(within, next_to, np.inf)
        each, next_out, next_in = np.arange(len(some)), gaps.argmin(axis=1), spacings.argmin(axis=1)
        gap, spacing = gaps.min(axis=1), spacings.min(axis=1)
        thin = ~np.isfinite(spacing)  # A pole may be one beam wide, and has nothing nearer beside it as a wall has.
        thick = thin & ((axis == 1) | (inner & (there < here[:, None] - step[some])).any(axis=1))
        spacing, near = np.where(thin, beam, spacing), np.where(thin, here, there[each, next_in])
        good = ~thick & (np.abs(here - near) < _INCIDENCE * spacing / lens.fx * here) & (gap < 3 * spacing)
        # The inverse range of a plane is linear in the picture.
        with np.errstate(invalid="ignore", divide="ignore"):
            plane = 1 / (1 / here + (1 / here - 1 / near) * gap / spacing)
        good &= (plane > 0) & (there[each, next_out] > (1 + _STEP) * plane)
        # Nor is there a step where what is outside leads to it, as the underside of what is seen from below. The second
        # neighbour outside is farther than halfway between one and two spacings.
        farther = np.where(outside[some] & (next_to > 1.5 * gap[:, None]), next_to, np.inf)
        after, further = there[each, next_out], farther.min(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            slope = (1 / after - 1 / there[each, farther.argmin(axis=1)]) / (further - gap)
            good &= ~(np.isfinite(further) & (1 / after + slope * gap > 1 / ((1 + _STEP) * here)))
        # A beam is about as wide as the finest spacing, and returns from the near side where it is hit at all.
        outward = (np.maximum(spacing - beam, 0) * here / lens.fx)[:, None] * mount.rotation[:, 1 + axis] * -sign
        found.append((xyz[some][good], outward[good], np.full(good.sum(), kind), here[good]))
    arrays = [np.concatenate(each) for each in zip(*found, strict=True)]
    count = len(arrays[0])
    passing = pair.twist[3:] + np.cross(pair.twist[:3], arrays[0])
    every = Outlines(arrays[0], arrays[1], arrays[2], arrays[3], np.full(count, number), passing)
    return every.only(slice(None, None, max(1, -(-count // _POINTS))))


@compiled
def _nearest(
    pixel: np.ndarray, rng: np.ndarray, cell: np.ndarray, first: np.ndarray, columns: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Those of N points, sorted by cells, beside which two or more are far: their numbers, i8 (M,), bits of the kinds
    to whose side two or more are far and none is near, the distance of the nearest point, pixels, f8 (M,), and the
    nearest ones and squares of their distances, i8 and f8 (M, 40); -1 and infinity where there are no more."""
    number, count = np.empty(len(rng), np.int64), 0
    for n in range(len(rng)):
        beyond = 0
        for row in range(-1, 2):
            place = cell[n] + row * columns
            for m in range(first[place - 1], first[place + 2]):
                beyond += rng[m] > (1 + _STEP) * rng[n]
        if beyond >= 2:
            number[count] = n
            count += 1
    kinds, nearest = np.zeros(count, np.int64), np.empty(count)
    index, square = np.full((count, _NEIGHBOURS), -1), np.full((count, _NEIGHBOURS), np.inf)
    for i in range(count):
        n = number[i]
        for row in range(-1, 2):
            place = cell[n] + row * columns
            for m in range(first[place - 1], first[place + 2]):
                apart = (pixel[m, 0] - pixel[n, 0]) ** 2 + (pixel[m, 1] - pixel[n, 1]) ** 2
                if m == n or apart >= square[i, -1]:
                    continue
                k = _NEIGHBOURS - 1
                while k > 0 and square[i, k - 1] > apart:
                    square[i, k], index[i, k] = square[i, k - 1], index[i, k - 1]
                    k -= 1
                square[i, k], index[i, k] = apart, m
        nearest[i] = np.sqrt(square[i, 0])
        for kind in range(KINDS):
            axis, sign, far, near = kind // 2, 1 - 2 * (kind % 2), 0, 0
            for k in range(_NEIGHBOURS):
                m = index[i, k]
                along, across = pixel[m, axis] - pixel[n, axis], pixel[m, 1 - axis] - pixel[n, 1 - axis]
                if m >= 0 and sign * along > abs(across):
                    is_far = rng[m] - rng[n] > _STEP * rng[n]
                    far, near = far + is_far, near + (not is_far)
            kinds[i] |= (far >= 2 and near == 0) << kind
    return number[:count], kinds, nearest, index, square
