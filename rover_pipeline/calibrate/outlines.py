"""Outlines of what is near in sweeps, and edges of pictures, on which they fall where a camera's mount is right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import cv2
import numpy as np

from rover_pipeline.calibrate.look import numbers_of, project
from rover_pipeline.camera.lens import Lens
from rover_pipeline.kinematics.mount import Mount
from rover_pipeline.numerics.compiled import compiled

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
#: Points of a pair; lower bits of a gradient that its rank does not depend on (0.2 %). Schedule.
_POINTS, _LOWER = 1000, 14


class Pair(NamedTuple):
    """A sweep and a picture of one instant."""

    xyz: np.ndarray  #: f8 (N, 3), returns in the lidar frame at the picture's instant, m.
    grey: np.ndarray  #: u1 (height, width).
    lens: Lens  #: of the picture.
    #: f8 (6,), rotation rate, rad/s, and velocity, m/s, of the lidar in its frame at this instant.
    twist: np.ndarray = np.zeros(6)


class Album:
    """The edges of pictures at some blurs, -log p for the gradients to the right and down."""

    def __init__(self, pairs: Sequence[Pair], blurs: Sequence[Sequence[float]]) -> None:
        """`blurs`: of each picture, degrees."""
        self.lenses = [smaller_lens(pair.lens, PIXEL) for pair in pairs]
        self._edges = dict[tuple[Lens, float], np.ndarray]()
        scratch = _Scratch()
        for number, (pair, lens, its) in enumerate(zip(pairs, self.lenses, blurs, strict=True)):
            shape, small = (lens.height, lens.width), (lens.width, lens.height)
            # Four pixels hold what one of less than twice the size covers.
            by = cv2.INTER_LINEAR_EXACT if 2 * lens.width > pair.lens.width else cv2.INTER_AREA
            grey = pair.grey if lens.width == pair.lens.width else cv2.resize(pair.grey, small, interpolation=by)
            smooth, slopes, ranks = (scratch(name, shape) for name in ("smooth", "slopes", "ranks"))
            cv2.GaussianBlur(grey.astype("f4"), (0, 0), 1.0, dst=smooth)
            for axis in (0, 1):
                cv2.Sobel(smooth, cv2.CV_32F, 1 - axis, axis, dst=slopes)
                _log_ranks(np.abs(slopes, out=slopes), ranks)
                reduced = ranks
                for blur in sorted(its):
                    reduced_lens, planes = self.edges(lens, blur)
                    reduced = at_size_of(reduced_lens, reduced)
                    _write_edges(reduced_lens, reduced, blur, scratch, planes[number, axis])

    def edges(self, lens: Lens, blur: float) -> tuple[Lens, np.ndarray]:
        """The edges at a blur of the pictures of a lens, f4 (all pictures, 2, height, width), of which only those that
        were asked for are written; the lens at their size."""
        small = smaller_lens(lens, blur / 2)
        if (lens, blur) not in self._edges:
            self._edges[lens, blur] = np.empty((len(self.lenses), 2, small.height, small.width), "f4")
        return small, self._edges[lens, blur]


class _Scratch(dict[tuple[str, tuple[int, int]], np.ndarray]):
    """Arrays f4 by their names and shapes, used again: new memory takes longer than what is computed in it."""

    def __call__(self, name: str, shape: tuple[int, int]) -> np.ndarray:
        return self.setdefault((name, shape), np.empty(shape, "f4"))


def _write_edges(lens: Lens, ranks: np.ndarray, blur: float, scratch: _Scratch, plane: np.ndarray) -> None:
    """Write the edges of a picture in one direction, by the ranks of its gradients."""
    blurred, sharp, local = (scratch(name, plane.shape) for name in ("blurred", "sharp", "local"))
    pixels = max(np.radians(blur) * lens.fx, 1.0)
    _log_ranks(cv2.GaussianBlur(ranks, (0, 0), pixels, dst=blurred), sharp)
    cv2.blur(sharp, (round(_WINDOW * pixels),) * 2, dst=local)
    local += _FLOOR
    _log_ranks(np.divide(sharp, local, out=local), plane)


def smaller_lens(lens: Lens, degrees: float) -> Lens:
    """A lens whose pixels at the centre are no smaller than this."""
    factor = min(1.0, 1 / np.radians(degrees) / lens.fx)
    return lens.resized(round(lens.width * factor), round(lens.height * factor))


def at_size_of(lens: Lens, image: np.ndarray) -> np.ndarray:
    """A picture that is no smaller than those of a lens, at their size: pixels are means."""
    size = lens.width, lens.height
    return image if image.shape[1::-1] == size else np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA))


def _log_ranks(gradient: np.ndarray, ranks: np.ndarray) -> None:
    """Write -log p of each pixel, f4, where p is the share of the picture whose gradient, not negative, is greater."""
    _rank(gradient.view("i4"), ranks)


@compiled
def _rank(bits: np.ndarray, ranks: np.ndarray) -> None:
    """Write the ranks of gradients, whose bits are in their order, i4 and f4 (height, width)."""
    height, width = bits.shape
    count, highest = np.zeros((1 << 31 - _LOWER) + 1, np.int32), 0
    for row in range(0, height, 2):  # A quarter of the pixels has the same distribution.
        for column in range(0, width, 2):
            level = int(bits[row, column] >> _LOWER)
            count[level] += 1
            highest = max(highest, level)
    value, above = np.empty(highest + 2, np.float32), ((height + 1) // 2) * ((width + 1) // 2)
    whole = above + 1
    for level in range(highest + 2):
        above -= count[level]
        if count[level] > 0 or level == 0 or count[level - 1] > 0:
            value[level] = -np.log((above + (count[level] + 1) / 2) / whole)  # Equal ones share their ranks.
        else:
            value[level] = value[level - 1]
    for row in range(height):
        for column in range(width):
            ranks[row, column] = value[min(int(bits[row, column] >> _LOWER), highest + 1)]


class Outlines(NamedTuple):
    """Points on the near side of steps in depth."""

    point: np.ndarray  #: f8 (N, 3), lidar frame, m.
    outward: np.ndarray  #: f8 (N, 3), by how much a spacing of the beams moves them, m.
    kind: np.ndarray  #: i8 (N,), right, left, lower, upper.
    range: np.ndarray  #: f8 (N,), from the camera, m.
    pair: np.ndarray  #: i8 (N,), number of the pair.
    passing: np.ndarray  #: f8 (N, 3), velocity of the lidar as it is at the point, m/s.

    def only(self, use: np.ndarray | slice) -> Outlines:
        return Outlines(*(each[use] for each in self))

    @classmethod
    def joined(cls, parts: Sequence[Outlines]) -> Outlines:
        return cls(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def outlines(pair: Pair, number: int, lens: Lens, mount: Mount) -> Outlines:
    """Points on the near side of steps in depth, as they are seen from a mount by a lens."""
    inside, pixel, rng, cell, first, columns = _inside(
        pair.xyz, mount.rotation, mount.translation, numbers_of(lens), lens.width, lens.height
    )
    rows, kinds, index, square, smallest = _nearest(pixel, rng, cell, first, columns)
    some = np.flatnonzero(kinds)
    kinds, rows, index, apart = kinds[some], rows[some], index[some], np.sqrt(square[some])
    finest = np.minimum(apart[:, 0], 2 * np.median(np.sqrt(smallest))) if len(smallest) else np.zeros(0)
    xyz, offset, ranges, rng = pair.xyz[inside[rows]], pixel[index] - pixel[rows, None], rng[index], rng[rows]
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
def _inside(
    xyz: np.ndarray, rotation: np.ndarray, translation: np.ndarray, lens: np.ndarray, width: int, height: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, int]:
    """Points in the picture or near its borders, sorted by cells in rows: their numbers, i8 (N,), pixels, f8 (N, 2),
    distances, f8 (N,), and cells, i8 (N,); the first one of each cell, and the number of cells in a row. Cells at the
    borders are empty."""
    seen, count, margin = np.empty(3), 0, 0.05 * width
    number, place, far = np.empty(len(xyz), np.int64), np.empty((len(xyz), 2)), np.empty(len(xyz))
    for n in range(len(xyz)):
        x, y, z = xyz[n, 0] - translation[0], xyz[n, 1] - translation[1], xyz[n, 2] - translation[2]
        for j in range(3):
            seen[j] = x * rotation[0, j] + y * rotation[1, j] + z * rotation[2, j]
        if not seen[0] > 0:
            continue
        u, v, _, _ = project(lens, 1.0, seen)
        if u > -margin and u < width + margin and v > -margin and v < height + margin:
            number[count], place[count, 0], place[count, 1] = n, u, v
            far[count] = np.sqrt(seen[0] ** 2 + seen[1] ** 2 + seen[2] ** 2)
            count += 1
    size = np.sqrt(_IN_CELL * (width + 2 * margin) * (height + 2 * margin) / max(count, 1))
    columns, rows = int((width + 2 * margin) / size) + 3, int((height + 2 * margin) / size) + 3
    first, cells = np.zeros(columns * rows + 1, np.int64), np.empty(count, np.int64)
    for n in range(count):
        across, down = int((place[n, 0] + margin) / size) + 1, int((place[n, 1] + margin) / size) + 1
        cells[n] = down * columns + across
        first[cells[n] + 1] += 1
    for n in range(1, len(first)):
        first[n] += first[n - 1]
    following, numbers, cell = first.copy(), np.empty(count, np.int64), np.empty(count, np.int64)
    pixel, rng = np.empty((count, 2)), np.empty(count)
    for n in range(count):
        at = following[cells[n]]
        following[cells[n]] += 1
        numbers[at], cell[at], rng[at] = number[n], cells[n], far[n]
        pixel[at, 0], pixel[at, 1] = place[n, 0], place[n, 1]
    return numbers, pixel, rng, cell, first, columns


@compiled
def _second(rng: np.ndarray, first: np.ndarray, columns: int) -> np.ndarray:
    """The second greatest distance in each cell and those about it, f8 (cells,), infinitely negative without two."""
    greatest, second = np.full((2, len(first)), -np.inf), np.full(len(first), -np.inf)
    for cell in range(len(first) - 1):
        for n in range(first[cell], first[cell + 1]):
            greatest[1, cell] = max(greatest[1, cell], min(greatest[0, cell], rng[n]))
            greatest[0, cell] = max(greatest[0, cell], rng[n])
    for cell in range(columns + 1, len(first) - columns - 2):
        one = two = -np.inf
        for row in range(-1, 2):
            for near in range(cell + row * columns - 1, cell + row * columns + 2):
                two = max(two, greatest[1, near], min(one, greatest[0, near]))
                one = max(one, greatest[0, near])
        second[cell] = two
    return second


@compiled
def _nearest(
    pixel: np.ndarray, rng: np.ndarray, cell: np.ndarray, first: np.ndarray, columns: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Those of N points, sorted by cells, that have two or more far ones and no near one to a side, of the 40 nearest.

    Returns:
        Their numbers, i8 (M,); bits of the kinds of these sides; the nearest ones and squares of their distances,
        pixels, i8 and f8 (M, 40), -1 and infinity where there are no more; squares of distances of the nearest one, of
        all points beside which two or more are far.
    """
    chosen, smallest, count, all_count = np.empty(len(rng), np.int64), np.empty(len(rng)), 0, 0
    far, near = np.empty(KINDS, np.int64), np.empty(KINDS)
    second, fullest = _second(rng, first, columns), 0
    for k in range(len(first) - 1):
        fullest = max(fullest, first[k + 1] - first[k])
    apart = np.empty(9 * fullest)
    for n in range(len(rng)):
        if not second[cell[n]] > (1 + _STEP) * rng[n]:
            continue
        # To each side: how many are far, and the nearest one that is not.
        closest, total = np.inf, 0
        for kind in range(KINDS):
            far[kind], near[kind] = 0, np.inf
        for row in range(-1, 2):
            place = cell[n] + row * columns
            for m in range(first[place - 1], first[place + 2]):
                right, down = pixel[m, 0] - pixel[n, 0], pixel[m, 1] - pixel[n, 1]
                square = right**2 + down**2 if m != n else np.inf
                apart[total] = square
                total += 1
                closest = min(closest, square)
                if abs(right) != abs(down):
                    side = 2 * (abs(right) < abs(down)) + (right + down < 0)
                    is_far = rng[m] - rng[n] > _STEP * rng[n]
                    far[side] += is_far
                    near[side] = min(near[side], np.inf if is_far else square)
        smallest[all_count] = closest
        all_count += 1
        for kind in range(KINDS):
            nearer = 0
            for k in range(total if far[kind] >= 2 else 0):
                nearer += apart[k] < near[kind]
            if nearer >= _NEIGHBOURS or (far[kind] >= 2 and near[kind] == np.inf):
                chosen[count] = n
                count += 1
                break
    kinds = np.zeros(count, np.int64)
    index, squares = np.full((count, _NEIGHBOURS), -1), np.full((count, _NEIGHBOURS), np.inf)
    for i in range(count):
        n = chosen[i]
        for row in range(-1, 2):
            place = cell[n] + row * columns
            for m in range(first[place - 1], first[place + 2]):
                square = (pixel[m, 0] - pixel[n, 0]) ** 2 + (pixel[m, 1] - pixel[n, 1]) ** 2
                if m == n or square >= squares[i, -1]:
                    continue
                k = _NEIGHBOURS - 1
                while k > 0 and squares[i, k - 1] > square:
                    squares[i, k], index[i, k] = squares[i, k - 1], index[i, k - 1]
                    k -= 1
                squares[i, k], index[i, k] = square, m
        for kind in range(KINDS):
            axis, sign, beyond, within = kind // 2, 1 - 2 * (kind % 2), 0, 0
            for k in range(_NEIGHBOURS):
                m = index[i, k]
                along, across = pixel[m, axis] - pixel[n, axis], pixel[m, 1 - axis] - pixel[n, 1 - axis]
                if m >= 0 and sign * along > abs(across):
                    is_far = rng[m] - rng[n] > _STEP * rng[n]
                    beyond, within = beyond + is_far, within + (not is_far)
            kinds[i] |= (beyond >= 2 and within == 0) << kind
    return chosen[:count], kinds, index, squares, smallest[:all_count]
