"""A camera's rotation and translation in the lidar frame: outlines in sweeps that fall on edges of pictures.

A point on the near side of a step in depth, as the camera sees it, is one of an outline, and the picture has an edge
there (J. Levinson and S. Thrun, Automatic online calibration of cameras and lasers, RSS 2013). The gradients of a
picture are replaced by their ranks: p is the share of the picture where the gradient across the outline is greater.
Where points fall anywhere, p is uniform. A share of the points of each kind of outline falls on edges, where p is
small. The score of a mount is the sum over points of the logarithm of

    1 - share + share * slope * p ** (slope - 1)

(a mixture of a uniform and a beta distribution: S. Pounds and S. Morris, Bioinformatics 19, 2003), with shares and
slope from the data. An outline is beyond its last point by an unknown part of the spacing of the beams, which is
estimated beside the mount.

Errors of points of one picture, of one part of the pictures, and of one kind and distance are not independent. The
covariance is that of estimating equations with such groups (V. P. Godambe, 1960; A. C. Cameron, J. B. Gelbach and
D. L. Miller, Robust inference with multiway clustering, 2011), and that between several maxima of the score. What the
pictures do not show stays at the prior.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import cv2
import numpy as np
from scipy.spatial import cKDTree
from scipy.special import chdtrc

from rover_pipeline.camera.lens import Lens
from rover_pipeline.kinematics.mount import Mount
from rover_pipeline.kinematics.mounts import (
    FALSE_ALARM,
    MountEstimate,
    changed,
    difference,
    prior_covariance,
    unknown,
)
from rover_pipeline.numerics.linear import eigh, inv, matmul, solve

#: Blur of the pictures' edges from level to level, degrees: the last one is half of the spacing of common beams, the
#: first one finds mounts that are degrees off. Tuned: lidar_camera_kitti_object.
_BLURS = (1.0, 0.5, 0.25, 0.12)
#: Pixels are averaged to this size at the centre, degrees; less than a lidar's beams are apart. Tuned: by hand.
_PIXEL = 0.08
#: A step in depth, m and of the range; incidence (tangent) on the near surface at an outline, so that no surface seen
#: at a grazing angle, such as the ground, ends in one. Tuned: lidar_camera_kitti_object.
_STEP, _STEP_SHARE, _INCIDENCE = 0.5, 0.1, 2.0
#: Neighbours of a point that are looked at. Schedule.
_NEIGHBOURS = 20
#: Part of the spacing of the beams by which an outline is beyond its last point, to the sides and up or down.
#: Noise: where a beam hits an outline is uniform.
_BEYOND = 0.5
#: Deviations of these, and of the logarithm of a focal length.
#: Noise: uniform; half a per cent is a usual calibration.
_OTHERS_SIGMA = np.array([0.29, 0.29, 0.005])
#: Where the estimate of all of these begins. Noise: as above.
_USUAL = np.array([_BEYOND, _BEYOND, 0.0])
#: Differences for derivatives: a tenth of a degree, 2 cm, a tenth of the spacing, 0.2 %. Tuned: by hand.
_DELTA = np.array([np.radians(0.1)] * 3 + [0.02] * 3 + [0.1] * 2 + [0.002])
#: Edges are compared with the mean about them, in a square of so many blurs, so that trees do not attract everything,
#: and of this much at least. Tuned: lidar_camera_kitti_object.
_WINDOW, _FLOOR = 12.0, 0.2
#: What no pair of a camera shows: errors of the lidar, rad and m, and of the lens, pixels.
#: Noise: elevations of beams are good to 0.05 degrees, principal points of calibrated lenses to half a pixel.
_SYSTEMATIC, _PIXELS = np.array([np.radians(0.05)] * 3 + [0.005] * 3), 0.5
#: Kinds of outlines: right, left, lower and upper. Layout.
_KINDS = 4
#: Number of parameters: six of the mount, two of the beams, the logarithm of the focal length. Layout.
_PARAMETERS = 9
#: Ranges that divide points into groups, m; columns and rows of parts of a picture. Tuned: by hand.
_RANGES, _PARTS = (12.0, 30.0), (4, 2)
#: Iterations of EM and of the ascent, mounts that are followed from the coarse grid, points that are looked at there,
#: and of a pair. Schedule.
_EM, _ASCENT, _MODES, _COARSE_POINTS, _POINTS = 20, 25, 3, 3000, 1000
#: Deviations from the declared mount and lens beyond which it is another lens, or noise. Tuned: by hand.
_FAR = 2.5
#: Minimum number of pairs, and of the score: with less, wrong maxima are as high as the right
#: one. Tuned: lidar_camera_dgp.
_MIN_PAIRS, _MIN_SCORE = 5, 500.0


class Pair(NamedTuple):
    """A sweep and a picture of one instant.

    Attributes:
        xyz: f8 (N, 3), returns in the lidar frame at the picture's instant, m.
        grey: u1 (height, width); lens: its intrinsics.
    """

    xyz: np.ndarray
    grey: np.ndarray
    lens: Lens


@dataclass
class _View:
    """Points of outlines of a pair: f8 (N, 3) in the lidar frame, m; by how much a spacing moves them; kind; range."""

    lens: Lens
    grey: np.ndarray
    point: np.ndarray
    outward: np.ndarray
    kind: np.ndarray
    range: np.ndarray


class _State(NamedTuple):
    mount: Mount
    others: np.ndarray

    def moved(self, change: np.ndarray) -> _State:
        return _State(changed(self.mount, np.append(change[:6], 0.0)), self.others + change[6:])

    def seen_from(self, start: Mount) -> np.ndarray:
        return np.append(difference(start, self.mount)[:6], self.others - _USUAL)


def _tangents(xyz: np.ndarray, mount: Mount) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(right, down) / ahead of points, NaN behind the camera, and the points in its frame."""
    seen = matmul(xyz - mount.translation, mount.rotation)
    ahead = np.where(seen[:, 0] > 0.1, seen[:, 0], np.nan)
    return -seen[:, 1] / ahead, -seen[:, 2] / ahead, seen


def _outlines(pair: Pair, mount: Mount) -> _View:
    """Points on the near side of steps in depth, as they are seen from a mount."""
    factor = min(1.0, 1 / np.radians(_PIXEL) / pair.lens.fx)
    lens = pair.lens.resized(round(pair.lens.width * factor), round(pair.lens.height * factor))
    grey = cv2.resize(pair.grey, (lens.width, lens.height), interpolation=cv2.INTER_AREA) if factor < 1 else pair.grey
    x, y, seen = _tangents(pair.xyz, mount)
    u, v = lens.pixels(x, y)
    margin = 0.05 * lens.width
    inside = (u > -margin) & (u < lens.width + margin) & (v > -margin) & (v < lens.height + margin)
    pixel, xyz = np.stack([u, v], axis=1)[inside], pair.xyz[inside]
    rng = np.sqrt((seen[inside] ** 2).sum(axis=1))
    if len(rng) <= _NEIGHBOURS:
        return _View(lens, grey.astype("f4"), np.empty((0, 3)), np.empty((0, 3)), np.empty(0, "i8"), np.empty(0))
    rows = np.arange(len(rng))
    apart, index = (each[:, 1:] for each in cKDTree(pixel).query(pixel, _NEIGHBOURS + 1))
    offset, ranges = pixel[index] - pixel[:, None], rng[index]
    step = np.maximum(_STEP, _STEP_SHARE * rng)[:, None]
    is_far, is_same = ranges - rng[:, None] > step, np.abs(ranges - rng[:, None]) <= step
    finest = np.minimum(apart[:, 0], 2 * np.median(apart[:, 0]))
    found = []
    for kind in range(_KINDS):
        axis, sign = kind // 2, 1 - 2 * (kind % 2)
        along, across = sign * offset[..., axis], np.abs(offset[..., 1 - axis])
        outside, within = along > across, (-along > across) & is_same
        gaps, spacings = np.where(outside, apart, np.inf), np.where(within, apart, np.inf)
        next_out, next_in = gaps.argmin(axis=1), spacings.argmin(axis=1)
        gap, spacing = gaps.min(axis=1), spacings.min(axis=1)
        thin = ~np.isfinite(spacing)  # A pole may be one beam wide.
        spacing, near = np.where(thin, finest, spacing), np.where(thin, rng, ranges[rows, next_in])
        good = ((outside & is_far).sum(axis=1) >= 2) & ~(outside & ~is_far).any(axis=1) & ~(thin & (axis == 1))
        good &= (np.abs(rng - near) < _INCIDENCE * spacing / lens.fx * rng) & (gap < 3 * spacing)
        # The inverse range of a plane is linear in the picture.
        with np.errstate(invalid="ignore", divide="ignore"):
            plane = 1 / (1 / rng + (1 / rng - 1 / near) * gap / spacing)
        good &= (plane > 0) & (ranges[rows, next_out] > plane + np.maximum(_STEP, _STEP_SHARE * plane))
        # A beam is about as wide as the finest spacing, and returns from the near side where it is hit at all.
        outward = (np.maximum(spacing - finest, 0) * rng / lens.fx)[:, None] * mount.rotation[:, 1 + axis] * -sign
        found.append((xyz[good], outward[good], np.full(good.sum(), kind), rng[good]))
    arrays = [np.concatenate(each) for each in zip(*found, strict=True)]
    every = max(1, -(-len(arrays[0]) // _POINTS))
    return _View(lens, grey.astype("f4"), *(each[::every] for each in arrays))


def _log_ranks(gradient: np.ndarray) -> np.ndarray:
    """-log p of each pixel, f4, where p is the share of the picture whose gradient is greater."""
    level = np.minimum(gradient * (65535 / max(float(gradient.max()), 1e-9)), 65535).astype("u2")
    count = np.bincount(level.ravel(), minlength=65536)
    above = gradient.size - np.cumsum(count) + (count + 1) / 2  # Equal ones share their ranks.
    return (-np.log(above / (gradient.size + 1))).astype("f4")[level]


def _edges(grey: np.ndarray, blur: float) -> np.ndarray:
    """-log p for the gradients to the right and down, blurred by some pixels."""
    smooth, maps = cv2.GaussianBlur(grey, (0, 0), 1.0), []
    for axis in (0, 1):
        gradient = np.abs(cv2.Sobel(smooth, cv2.CV_32F, 1 - axis, axis))
        sharp = _log_ranks(cv2.GaussianBlur(_log_ranks(gradient), (0, 0), blur))
        local = cv2.blur(sharp, (round(_WINDOW * blur),) * 2)
        maps.append(_log_ranks(sharp / (local + _FLOOR)))
    return np.stack(maps)


def _sample(part: _Points, state: _State, slopes: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    lens, mount, kind = part.lens, state.mount, part.kind
    point = part.point + part.outward * state.others[kind // 2][:, None]
    x, y, seen = _tangents(point, mount)
    scale = np.exp(state.others[2])
    lens_u, lens_v = lens.pixels(x, y)
    u, v = lens.cx + scale * (lens_u - lens.cx), lens.cy + scale * (lens_v - lens.cy)
    ok = (u >= 0) & (v >= 0) & (u < lens.width - 1) & (v < lens.height - 1)
    column, row = np.where(ok, u, 0.0).astype("i8"), np.where(ok, v, 0.0).astype("i8")
    a, b = u - column, v - row
    height, width = part.edges.shape[2:]
    flat, at = part.edges.reshape(-1), ((part.picture * 2 + kind // 2) * height + row) * width + column
    corner, right, below, opposite = flat[at], flat[at + 1], flat[at + width], flat[at + width + 1]
    top, bottom = corner + a * (right - corner), below + a * (opposite - below)
    value = np.where(ok, top + b * (bottom - top), np.nan)
    places = np.stack([u / lens.width, v / lens.height], axis=1)
    if not slopes:
        return value, np.empty((len(u), 0)), places
    du, dv, small = (1 - b) * (right - corner) + b * (opposite - below), bottom - top, 1e-4
    by_x, by_y = lens.pixels(x + small, y), lens.pixels(x, y + small)
    dx = (du * (by_x[0] - lens_u) + dv * (by_x[1] - lens_v)) * (scale / small)
    dy = (du * (by_y[0] - lens_u) + dv * (by_y[1] - lens_v)) * (scale / small)
    by_point = matmul(-np.stack([dx * x + dy * y, dx, dy], axis=1) / seen[:, :1], mount.rotation.T)
    arm, out = point - mount.translation, np.zeros((len(u), _PARAMETERS))
    for k, (i, j) in enumerate(((1, 2), (2, 0), (0, 1))):
        out[:, k] = by_point[:, i] * arm[:, j] - by_point[:, j] * arm[:, i]
    out[:, 3:6] = -by_point
    out[np.arange(len(u)), 6 + kind // 2] = (by_point * part.outward).sum(axis=1)
    out[:, 8] = du * (u - lens.cx) + dv * (v - lens.cy)
    return value, np.where(np.isfinite(value)[:, None], out, 0.0), places


class _Points(NamedTuple):
    """Points of all views with one lens; `edges` f4 (picture, 2, height, width), and the picture of each point."""

    lens: Lens
    edges: np.ndarray
    picture: np.ndarray
    point: np.ndarray
    outward: np.ndarray
    kind: np.ndarray
    range: np.ndarray
    pair: np.ndarray

    def only(self, use: np.ndarray) -> _Points:
        return _Points(self.lens, self.edges, *(each[use] for each in self[2:]))


class _Score:
    """The score of mounts at one level of blur."""

    def __init__(self, views: Sequence[_View], blur: float) -> None:
        self.blur = blur
        self.parts: list[_Points] = []
        for lens in dict.fromkeys(view.lens for view in views):
            numbers = [number for number, view in enumerate(views) if view.lens == lens]
            chosen = [views[number] for number in numbers]
            edges = np.stack([_edges(view.grey, max(np.radians(blur) * lens.fx, 1.0)) for view in chosen])
            counts = [len(view.kind) for view in chosen]
            names = ("point", "outward", "kind", "range")
            point, outward, kind, rng = (np.concatenate([getattr(view, name) for view in chosen]) for name in names)
            picture = np.repeat(np.arange(len(chosen)), counts)
            self.parts.append(_Points(lens, edges, picture, point, outward, kind, rng, np.repeat(numbers, counts)))
        self._reset()

    def only(self, use: Callable[[_Points], np.ndarray]) -> _Score:
        """The score of some of the points, of which `use` gives bool (N,)."""
        score = copy(self)
        score.parts = [part.only(use(part)) for part in self.parts]
        score._reset()
        return score

    def _reset(self) -> None:
        self.kind, self.range, self.pair = (
            np.concatenate([getattr(part, name) for part in self.parts]) for name in ("kind", "range", "pair")
        )
        self.share, self.slope = np.full(_KINDS, 0.3), 0.3

    def sample(self, state: _State, slopes: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """-log p of all points (NaN out of the picture), its derivatives (N, 9), and the places in it (N, 2)."""
        first, second, third = zip(*(_sample(part, state, slopes) for part in self.parts), strict=True)
        return np.concatenate(first), np.concatenate(second), np.concatenate(third)

    def fit(self, state: _State) -> None:
        """Shares and slope by EM; the weighted mean of -log p gives the slope."""
        value = self.sample(state)[0]
        kind, value = self.kind[np.isfinite(value)], value[np.isfinite(value)]
        for _ in range(_EM):
            weight = self._weight(value, kind)
            count = np.bincount(kind, minlength=_KINDS)
            self.share = np.clip(np.bincount(kind, weight, _KINDS) / np.maximum(count, 1), 0.001, 0.99)
            self.slope = float(np.clip(weight.sum() / max((weight * value).sum(), 1e-9), 0.05, 0.95))

    def _terms(self, value: np.ndarray, kind: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        share = self.share[kind]
        return 1 - share, share * self.slope * np.exp((1 - self.slope) * value)

    def _weight(self, value: np.ndarray, kind: np.ndarray) -> np.ndarray:
        anywhere, on_edge = self._terms(value, kind)
        return on_edge / (anywhere + on_edge)

    def value(self, state: _State) -> float:
        """The score; points out of the picture say nothing."""
        value = self.sample(state)[0]
        ok = np.isfinite(value)
        return float(np.log(sum(self._terms(value[ok], self.kind[ok]))).sum())

    def gradients(self, state: _State) -> tuple[np.ndarray, np.ndarray]:
        """Derivatives of each point's term, (N, 9), and the pixels in parts of the picture, (N, 2)."""
        value, slopes, pixels = self.sample(state, slopes=True)
        return (self._weight(np.nan_to_num(value), self.kind) * (1 - self.slope))[:, None] * slopes, pixels

    def curvature(self, state: _State) -> np.ndarray:
        """Minus the second derivatives of the score, (9, 9), over differences that noise does not rule."""
        rows = []
        for change in np.diag(_DELTA):
            before, after = (self.gradients(state.moved(each))[0].sum(axis=0) for each in (-change, change))
            rows.append((before - after) / (2 * change.sum()))
        return (np.array(rows) + np.array(rows).T) / 2

    def spread(self, state: _State) -> np.ndarray:
        """Covariance of the score's gradient, (9, 9), from the sums over groups of points that may err together."""
        each, places = self.gradients(state)
        column, row = (_part(places[:, k], _PARTS[k]) for k in (0, 1))
        distance = np.digitize(self.range, _RANGES)
        ways = (self.pair, column * _PARTS[1] + row, self.kind * (len(_RANGES) + 1) + distance)
        alone = _grouped(each, np.unique(np.stack(ways), axis=1, return_inverse=True)[1].ravel())
        unit = np.sqrt(np.diag(alone)) + 1e-12
        total = alone.copy()
        for way in ways:
            values, vectors = eigh((_grouped(each, way) - alone) / np.outer(unit, unit))
            total += matmul(vectors * np.maximum(values, 0), vectors.T) * np.outer(unit, unit)
        return total


def _part(place: np.ndarray, count: int) -> np.ndarray:
    """The part of the picture, of `count` equal ones, in which a place is, from 0 to 1."""
    return np.clip(np.nan_to_num(place) * count, 0, count - 1).astype("i8")


def _in_columns(points: _Points, state: _State, odd: int) -> np.ndarray:
    """Whether points are in every other column of the picture's parts, bool (N,)."""
    places = _sample(points, state, False)[2]
    return np.asarray(_part(places[:, 0], _PARTS[0]) % 2 == odd)


def _grouped(each: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Sum over groups of the outer products of their sums, (9, 9), without the bias of few groups."""
    used = np.unique(group, return_inverse=True)[1]
    sums = np.stack([np.bincount(used, column) for column in each.T], axis=1)
    return np.asarray(matmul(sums.T, sums)) * (len(sums) / max(len(sums) - 1, 1))


class _Problem(NamedTuple):
    """Where the search starts, and the information of the prior, (9, 9)."""

    start: Mount
    prior: np.ndarray

    def value(self, score: _Score, state: _State, scale: float) -> float:
        off = state.seen_from(self.start)
        return score.value(state) / scale - 0.5 * float(matmul(off, self.prior, off))

    def ascend(self, score: _Score, state: _State, scale: float) -> tuple[_State, float]:
        """The maximum of score / scale + log prior near a state, by steps with the outer products of the gradients
        (E. R. Berndt, B. H. Hall, R. E. Hall and J. A. Hausman, 1974)."""
        best, limit = self.value(score, state, scale), 3 * max(score.blur / 0.25, 1.0)
        for _ in range(_ASCENT):
            each = score.gradients(state)[0]
            slope = each.sum(axis=0) / scale - matmul(self.prior, state.seen_from(self.start))
            step = solve(matmul(each.T, each) / scale + self.prior, slope)
            step *= min(1.0, limit / max(float(np.abs(step / _DELTA)[:6].max()), 1e-9))
            for length in (4.0, 2.0, 1.0, 0.5, 0.25, 0.1, 0.03):
                trial = state.moved(length * step)
                if (value := self.value(score, trial, scale)) > best:
                    break
            else:
                break
            gain, best, state = value - best, value, trial
            if gain < 1e-2 / scale:
                break
        return state, best

    def result(self, score: _Score, modes: list[tuple[_State, float]], scale: float) -> _Result:
        """The best of the maxima near some states, weighted against the prior by its Godambe information."""
        climbed = []
        for state, _ in modes:
            score.fit(state)
            climbed.append((*self.ascend(score, state, scale), score.share, score.slope))
        state, _, score.share, score.slope = max(climbed, key=lambda one: one[1])
        curvature, spread = score.curvature(state), score.spread(state)
        unit = np.outer(_DELTA, _DELTA)
        values, vectors = eigh(curvature * unit)
        curvature = matmul(vectors * np.maximum(values, 0), vectors.T) / unit
        ratio = max(float((spread * unit).trace() / max((curvature * unit).trace(), 1e-9)), 1.0)
        gain = matmul(curvature, inv(spread + np.diag(1e-6 / _DELTA**2)))
        covariance = inv(matmul(gain, curvature) + self.prior)
        off = state.seen_from(self.start)
        change = matmul(covariance, gain, matmul(curvature, off) + scale * matmul(self.prior, off)) - off
        return _Result(state.moved(change), covariance, ratio)

    def modes(self, views: Sequence[_View], scale: float) -> list[tuple[_State, float]]:
        """Maxima of the score from a grid of rotations about the start, the best first."""
        every = max(1, sum(len(view.kind) for view in views) // _COARSE_POINTS)
        score = _Score(views, _BLURS[0]).only(lambda part: np.arange(len(part.kind)) % every == 0)
        origin = _State(self.start, _USUAL)
        score.fit(origin)
        wide, fine = np.radians(np.arange(-6, 7, 2.0)), np.radians(np.arange(-7, 8, 1.0))
        grid = np.array([*itertools.product(wide, fine, fine)])
        turns = matmul(grid, self.start.rotation.T)
        states = [origin.moved(np.append(turn, np.zeros(6))) for turn in turns]
        values = np.array([self.value(score, state, scale) for state in states])
        chosen: list[int] = []
        for number in np.argsort(-values, kind="stable"):
            if all(np.abs(grid[number] - grid[other]).max() > np.radians(2.5) for other in chosen):
                chosen.append(int(number))
            if len(chosen) == _MODES:
                break
        found = [origin, *(states[number] for number in chosen)]
        for blur in _BLURS:
            score = _Score(views, blur)
            climbed = []
            for state in found:
                score.share, score.slope = np.full(_KINDS, 0.3), 0.3
                score.fit(state)
                state = self.ascend(score, state, scale)[0]
                score.fit(state)
                climbed.append((state, self.value(score, state, scale)))
            climbed.sort(key=lambda one: -one[1])
            distinct = [climbed[0]]
            for one in climbed[1:]:
                if all(np.abs(one[0].seen_from(other[0].mount)[:3]).max() > np.radians(blur) for other in distinct):
                    distinct.append(one)
            found = [state for state, _ in distinct[: 2 + int(blur > 0.3)]]
        return distinct


class _Result(NamedTuple):
    """A maximum with the prior, its covariance (9, 9), and by how much gradients vary more than the curvature says."""

    state: _State
    covariance: np.ndarray
    scale: float


def estimate_camera(pairs: Sequence[Pair], start: Mount) -> MountEstimate:
    """The mount that lays the outlines in sweeps on the edges of pictures.

    Args:
        pairs: sweeps and pictures of different places; pairs of one place would be counted as if they were different.
        start: the declared mount, at most 5 degrees and 20 cm off.

    Returns:
        The estimate; where pictures show nothing, or halves of them disagree, it is `unknown`, and a remark says why.
    """
    prior = prior_covariance(start)

    def refused(reason: str) -> MountEstimate:
        return unknown(start, f"pictures do not show the camera's mount: {reason}")

    if not start.known:
        return refused("nobody declared where it is; measure it to 5 degrees and 20 cm, and set `rig`")
    views = [_outlines(pair, start) for pair in pairs]
    views = [view for view in views if len(view.kind)]
    points = sum(len(view.kind) for view in views)
    if len(views) < _MIN_PAIRS:
        return refused(f"{points} points on outlines in {len(views)} pairs; drive past posts, cars and corners")
    problem = _Problem(start, inv(np.diag(np.append(np.diag(prior)[:6], _OTHERS_SIGMA**2))))
    scale = 10.0
    modes = problem.modes(views, scale)
    views = [view for view in (_outlines(pair, modes[0][0].mount) for pair in pairs) if len(view.kind)]
    off = modes[0][0].seen_from(start)
    if (off**2 * np.diag(problem.prior)).max() > _FAR**2:
        return refused("edges agree with it nowhere near the declared one: is its lens (camera.json) the right one?")
    final = _Score(views, _BLURS[-1])
    whole, apart = problem.result(final, modes[:1], scale), []
    if not final.value(whole.state) > _MIN_SCORE:
        return refused("too few outlines fall on edges; drive past posts, cars and corners by day")
    for odd in (0, 1):
        half = final.only(partial(_in_columns, state=modes[0][0], odd=odd))
        apart.append(problem.result(half, modes, scale))
    error = apart[0].state.seen_from(apart[1].state.mount)[:6]
    square = float(matmul(error, solve((apart[0].covariance + apart[1].covariance)[:6, :6], error)))
    if chdtrc(6, square) < FALSE_ALARM:
        return refused("halves of the pictures disagree; drive past posts, cars and corners")
    covariance = whole.covariance * max(1.0, square / 6)
    weights = np.exp(np.minimum([(value - modes[0][1]) * scale / whole.scale for _, value in modes], 0.0))
    for (other, _), weight in zip(modes, weights / weights.sum(), strict=True):
        off = other.seen_from(modes[0][0].mount)
        covariance += weight * np.outer(off, off)
    state = whole.state
    full = prior.copy()
    shared = np.zeros_like(prior)
    shared[range(6), range(6)] = _SYSTEMATIC**2
    shared[:3, :3] += np.eye(3) * (_PIXELS / max(pair.lens.fx for pair in pairs)) ** 2
    full[:6, :6] = covariance[:6, :6]
    return MountEstimate(state.mount, full + shared, prior, shared=shared)
