"""A camera's rotation and translation in the lidar frame: outlines in sweeps that fall on edges of pictures.

A point on the near side of a step in depth, as the camera sees it, is one of an outline, and the picture has an edge
there (J. Levinson and S. Thrun, Automatic online calibration of cameras and lasers, RSS 2013). The gradients of a
picture are replaced by their ranks: p is the share of the picture where the gradient across the outline is greater.
Where points fall anywhere, p is uniform. A share of the points of each kind of outline falls on edges, where p is
small. The score of a mount is the sum over points of the logarithm of

    1 - share + share * slope * p ** (slope - 1)

(a mixture of a uniform and a beta distribution: S. Pounds and S. Morris, Bioinformatics 19, 2003), with shares and
slope from the data. An outline is beyond its last point by any part of the spacing of the beams: the term of the beta
distribution is its mean over these parts.

Errors of points of one picture, of one part of the pictures, and of one kind and distance are not independent. The
score is divided by how much more its gradient varies than its curvature says, and added to the logarithm of the prior:
what the pictures do not show stays at the prior. The covariance is that of estimating equations with such groups
(V. P. Godambe, 1960; A. C. Cameron, J. B. Gelbach and D. L. Miller, Robust inference with multiway clustering, 2011).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import chdtrc

from rover_pipeline.calibrate.groups import excess
from rover_pipeline.calibrate.look import look, numbers_of
from rover_pipeline.calibrate.outlines import KINDS, Album, Outlines, Pair, outlines
from rover_pipeline.camera.lens import Lens
from rover_pipeline.kinematics.mount import Mount
from rover_pipeline.kinematics.mounts import PRIOR_SIGMA, MountEstimate, changed, difference, prior_covariance, unknown
from rover_pipeline.kinematics.rotation import exp
from rover_pipeline.numerics.linear import eigh, inv, matmul, solve
from rover_pipeline.numerics.robust import FALSE_ALARM

#: Blur of the pictures' edges from level to level, degrees: the last one is half of the spacing of common beams, the
#: first one finds mounts that are degrees off. Tuned: lidar_camera_kitti_object.
_BLURS = (1.0, 0.5, 0.25, 0.12)
#: Deviation of the logarithm of a focal length. Noise: half a per cent is a usual calibration.
_ZOOM_SIGMA = 0.005
#: What no pair of a camera shows: errors of the lidar, rad and m, of clocks, s, and of the lens, pixels.
#: Noise: beams are good to 0.05 degrees, clocks to 0.5 ms, principal points of calibrated lenses to half a pixel.
_SYSTEMATIC, _PIXELS = np.array([np.radians(0.05)] * 3 + [0.005] * 3 + [0.0005]), 0.5
#: Number of parameters: seven of the mount, the logarithm of the focal length. Layout.
_PARAMETERS = 8
#: Groups of points by their distance; columns and rows of parts of a picture. Tuned: by hand.
_DISTANCES, _PARTS = 3, (4, 2)
#: Parts of the spacing of the beams that are looked at, one less than their number. Schedule.
_SAMPLES = 11
#: Iterations of EM, of the ascent and of the normal distribution, mounts that are followed from the coarse grid, points
#: that are looked at there, and more with less blur, and pairs. Schedule.
_EM, _ASCENT, _SETTLE, _MODES, _COARSE_POINTS, _COARSE_PAIRS = 20, 25, 3, 3, 1500, 8
#: A maximum that is lower by this, in logarithms of the posterior, does not count. Schedule.
_NEGLIGIBLE = 5.0
#: Deviations from the declared mount and lens beyond which it is another lens, or noise. Tuned: by hand.
_FAR = 2.5
#: Minimum number of pairs, and of the score: with less, wrong maxima are as high as the right
#: one. Tuned: lidar_camera_dgp.
_MIN_PAIRS, _MIN_SCORE = 5, 500.0


class _State(NamedTuple):
    """A mount, whose time offset is that beyond the instant of the pairs, and the logarithm of the focal length."""

    mount: Mount
    zoom: float = 0.0

    def moved(self, change: np.ndarray) -> _State:
        return _State(changed(self.mount, change[:7]), self.zoom + float(change[7]))

    def seen_from(self, other: _State) -> np.ndarray:
        return np.append(difference(other.mount, self.mount), self.zoom - other.zoom)


class _Points(NamedTuple):
    """Outlines of all pairs with one lens; `edges` f4 (pair, 2, height, width), and the parts of the spacing that are
    looked at."""

    lens: Lens
    edges: np.ndarray
    outlines: Outlines
    beyond: np.ndarray

    def sample(self, state: _State, power: float, slopes: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The logarithm of the mean of p ** -power, over power, its derivatives, and places in the picture."""
        count, lines, lens, mount = len(self.outlines.kind), self.outlines, self.lens, state.mount
        values, by, places = np.empty(count), np.empty((count * slopes, _PARAMETERS)), np.empty((count, 2))
        planes = self.edges.reshape(-1, *self.edges.shape[2:])
        motion = (mount.rotation, mount.translation, mount.time_offset, float(np.exp(state.zoom)))
        at = (lines.point, lines.outward, lines.passing, lines.pair * 2 + lines.kind // 2)
        look(planes, numbers_of(lens), *motion, *at, self.beyond, power, values, by, places)
        return values, by, places

    def only(self, use: np.ndarray) -> _Points:
        return self._replace(outlines=self.outlines.only(use))


class _Score:
    """The score of mounts at one level of blur."""

    def __init__(self, album: Album, views: Sequence[Outlines], blur: float) -> None:
        self.blur = blur
        self.parts: list[_Points] = []
        lenses = [album.lenses[view.pair[0]] for view in views]
        for lens in dict.fromkeys(lenses):
            every = Outlines.joined([view for view, its in zip(views, lenses, strict=True) if its == lens])
            small, edges = album.edges(lens, blur)
            sides = every.kind < KINDS // 2
            for use in (sides, ~sides):
                if use.any():
                    part = _Points(small, edges, every.only(use), np.zeros(1))
                    spacing = np.sqrt((part.outlines.outward**2).sum(axis=1)) / part.outlines.range
                    count = int(np.clip(np.degrees(np.median(spacing)) / blur / 2, 0, _SAMPLES)) + 1
                    self.parts.append(part._replace(beyond=(np.arange(count) + 0.5) / count))
        self._reset()

    def only(self, use: Callable[[_Points], np.ndarray]) -> _Score:
        """The score of some of the points, of which `use` gives bool (N,)."""
        score = copy(self)
        score.parts = [part.only(use(part)) for part in self.parts]
        score._reset()
        return score

    def thinned(self) -> _Score:
        """The score of fewer points, the fewer the wider the blur is."""
        every = max(1, round(len(self.kind) * self.blur / _BLURS[0] / _COARSE_POINTS))
        return self.only(lambda part: np.arange(len(part.outlines.kind)) % every == 0)

    def _reset(self) -> None:
        every = Outlines.joined([part.outlines for part in self.parts])
        self.kind, self.range, self.pair = every.kind, every.range, every.pair
        self.share, self.slope = np.full(KINDS, 0.3), 0.3
        near, fast = (
            np.sqrt(np.mean(each)) for each in (every.range**-2.0, (every.passing**2).sum(axis=1) / every.range**2)
        )
        # Differences for derivatives: what moves points by the last blur, or a deviation of the prior.
        turn = np.radians(_BLURS[-1])
        late = min(turn / max(fast, 1e-9), PRIOR_SIGMA[6])
        self.delta = np.concatenate([[turn] * 3, [turn / near] * 3, [late, _ZOOM_SIGMA]])

    def sample(self, state: _State, slopes: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """-log p of all points (NaN out of the picture), its derivatives (N, 8), and the places in it (N, 2)."""
        first, second, third = zip(*(part.sample(state, 1 - self.slope, slopes) for part in self.parts), strict=True)
        return np.concatenate(first), np.concatenate(second), np.concatenate(third)

    def fit(self, state: _State) -> None:
        """Shares and slope by EM; the weighted mean of -log p gives the slope."""
        value = self.sample(state)[0]
        kind, value = self.kind[np.isfinite(value)], value[np.isfinite(value)]
        for _ in range(_EM):
            weight = self._weight(value, kind)
            count = np.bincount(kind, minlength=KINDS)
            self.share = np.clip(np.bincount(kind, weight, KINDS) / np.maximum(count, 1), 0.001, 0.99)
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
        """Derivatives of each point's term, (N, 10), and the pixels in parts of the picture, (N, 2)."""
        value, slopes, pixels = self.sample(state, slopes=True)
        return (self._weight(np.nan_to_num(value), self.kind) * (1 - self.slope))[:, None] * slopes, pixels

    def around(self, state: _State, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The mean of the score's gradient, (8,), and minus its second derivatives, (8, 8), nowhere negative, over what
        is as far away as the columns of `steps`."""
        rows, mean = [], np.zeros(_PARAMETERS)
        for change in steps.T:
            before, after = (self.gradients(state.moved(each))[0].sum(axis=0) for each in (-change, change))
            rows.append((before - after) / 2)
            mean += (before + after) / (2 * len(steps))
        twice = matmul(np.array(rows), steps)
        values, vectors = eigh((twice + twice.T) / 2)
        back = matmul(vectors.T, inv(steps)) * np.sqrt(np.maximum(values, 0))[:, None]
        return mean, matmul(back.T, back)

    def spread(self, state: _State) -> np.ndarray:
        """Covariance of the score's gradient, (8, 8), from the sums over groups of points that may err together."""
        each, places = self.gradients(state)
        column, row = (_part(places[:, k], _PARTS[k]) for k in (0, 1))
        distance = np.searchsorted(np.quantile(self.range, np.arange(1, _DISTANCES) / _DISTANCES), self.range)
        ways = (self.pair, column * _PARTS[1] + row, self.kind * _DISTANCES + distance)
        alone = _sums(each * self.delta, np.unique(np.stack(ways), axis=1, return_inverse=True)[1].ravel())
        values, vectors = eigh(matmul(alone.T, alone))
        root = np.sqrt(np.maximum(values, 1e-9 * values[-1]) + 1e-12)
        white, total = matmul(each * self.delta, vectors / root), np.eye(_PARAMETERS)
        for way in ways:
            total += excess(_sums(white, way))
        back = vectors * root / self.delta[:, None]
        return np.asarray(matmul(back, total, back.T))


def _part(place: np.ndarray, count: int) -> np.ndarray:
    """The part of the picture, of `count` equal ones, in which a place is, from 0 to 1."""
    return np.clip(np.nan_to_num(place) * count, 0, count - 1).astype("i8")


def _in_columns(points: _Points, state: _State, odd: int) -> np.ndarray:
    """Whether points are in every other column of the picture's parts, bool (N,)."""
    places = points._replace(beyond=np.array([0.5])).sample(state, 1.0, False)[2]
    return np.asarray(_part(places[:, 0], _PARTS[0]) % 2 == odd)


def _sums(each: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Sums over groups, (groups, 8)."""
    used = np.unique(group, return_inverse=True)[1]
    return np.stack([np.bincount(used, column) for column in each.T], axis=1)


class _Problem(NamedTuple):
    """Where the search starts, and the information of the prior, (8, 8)."""

    start: _State
    prior: np.ndarray

    def value(self, score: _Score, state: _State, scale: float) -> float:
        off = state.seen_from(self.start)
        return score.value(state) / scale - 0.5 * float(matmul(off, self.prior, off))

    def ascend(self, score: _Score, state: _State, scale: float) -> tuple[_State, float]:
        """The maximum of score / scale + log prior near a state, by steps with the outer products of the gradients
        (E. R. Berndt, B. H. Hall, R. E. Hall and J. A. Hausman, 1974)."""
        best, limit, length = self.value(score, state, scale), 3 * max(score.blur / 0.25, 1.0), 1.0
        for _ in range(_ASCENT):
            each = score.gradients(state)[0]
            slope = each.sum(axis=0) / scale - matmul(self.prior, state.seen_from(self.start))
            step = solve(matmul(each.T, each) / scale + self.prior, slope)
            step *= min(1.0, limit / max(float(np.abs(step / score.delta)[:7].max()), 1e-9))
            length = min(2 * length, 4.0)
            while not (value := self.value(score, trial := state.moved(length * step), scale)) > best:
                length /= 2
                if length < 0.03:
                    return state, best
            gain, best, state = value - best, value, trial
            if gain < 1e-2 / scale:
                break
        return state, best

    def result(self, score: _Score, modes: list[_State], scale: float) -> tuple[_State, np.ndarray, float]:
        """The mean of the posterior and its covariance, (8, 8), a mixture about the maxima near some states and near
        the translation that was declared; the score of the best."""
        climbed, found = [], list[tuple[_State, np.ndarray, float, float]]()
        declared = _State(modes[0].mount._replace(translation=self.start.mount.translation))
        for state in [*modes, declared]:
            score.fit(state)
            climbed.append((*self.ascend(score, state, scale), score.share, score.slope))
        climbed.sort(key=lambda one: -one[1])
        for state, _, score.share, score.slope in climbed:
            if found:
                off = state.seen_from(found[0][0])
                known = matmul(off, solve(found[0][1], off)) < _PARAMETERS
                if known or self.value(score, state, scale) < found[0][2] - _NEGLIGIBLE:
                    continue
            state, covariance, ratio = self.settle(score, state, scale)
            scale = scale if found else ratio
            score.fit(state)
            found.append((state, covariance, self.value(score, state, scale), score.value(state)))
        states, covariances, values, scores = zip(*found, strict=True)
        weights = np.exp(np.array(values) - max(values)) / np.exp(np.array(values) - max(values)).sum()
        offs = np.array([state.seen_from(states[0]) for state in states])
        mean = matmul(weights, offs)
        covariance = (weights[:, None, None] * np.array(covariances)).sum(axis=0)
        covariance += matmul((offs - mean).T * weights, offs - mean)
        return states[0].moved(mean), covariance, max(scores)

    def settle(self, score: _Score, state: _State, scale: float) -> tuple[_State, np.ndarray, float]:
        """The mean and covariance of the normal distribution nearest to the posterior about a state (M. Opper and
        C. Archambeau, The variational Gaussian approximation revisited, 2009), and the scale of the score."""
        steps, unit, more = np.diag(score.delta), np.outer(score.delta, score.delta), 1.0
        for _ in range(_SETTLE):
            (slope, curvature), spread = score.around(state, steps), score.spread(state)
            scale = more * max(float((spread * unit).trace() / max((curvature * unit).trace(), 1e-9)), 1.0)
            inverse = inv(curvature / scale + self.prior)
            pull = slope / scale - matmul(self.prior, state.seen_from(self.start))
            change = matmul(inverse, pull)
            change /= max(1.0, float(np.sqrt(matmul(pull, change))))  # at most one deviation
            values, axes = eigh(inverse / unit)
            state, steps = state.moved(change), axes * np.sqrt(np.maximum(values, 1.0)) * score.delta[:, None]
            # The gradient varies nowhere more than what is known says: where it would, the prior has more weight.
            own = axes * np.sqrt(np.maximum(values, 0.0)) * score.delta[:, None]
            more *= max(1.0, float(eigh(matmul(own.T, spread, own))[0][-1]) / scale**2)
        return state, matmul(inverse, spread / scale**2 + self.prior, inverse), scale

    def modes(self, album: Album, views: Sequence[Outlines], scale: float) -> list[_State]:
        """Maxima of the score from a grid of rotations about the start, the best first."""
        score = _Score(album, views, _BLURS[0]).thinned()
        score.fit(self.start)
        wide, fine = np.radians([-4.0, 0.0, 4.0]), np.radians(np.arange(-7, 8, 1.4))
        grid = np.array([*itertools.product(wide, fine, fine)])
        turns = matmul(grid, self.start.mount.rotation.T)
        rotations = matmul(exp(turns), self.start.mount.rotation)
        states = [_State(self.start.mount._replace(rotation=rotation)) for rotation in rotations]
        values = np.array([score.value(state) for state in states]) / scale
        values -= 0.5 * (matmul(turns, self.prior[:3, :3]) * turns).sum(axis=1)
        chosen: list[int] = []
        for number in np.argsort(-values, kind="stable"):
            if all(np.abs(grid[number] - grid[other]).max() > np.radians(2.5) for other in chosen):
                chosen.append(int(number))
            if len(chosen) == _MODES:
                break
        found = [self.start, *(states[number] for number in chosen)]
        for blur in _BLURS:
            score = _Score(album, views, blur).thinned()
            climbed = []
            for state in found:
                score.share, score.slope = np.full(KINDS, 0.3), 0.3
                score.fit(state)
                state = self.ascend(score, state, scale)[0]
                score.fit(state)
                climbed.append((state, self.value(score, state, scale)))
            climbed.sort(key=lambda one: -one[1])
            distinct = [climbed[0]]
            for one in climbed[1:]:
                if all(np.abs(one[0].seen_from(other[0])[:3]).max() > np.radians(blur) for other in distinct):
                    distinct.append(one)
            found = [state for state, _ in distinct[: 2 + int(blur > 0.3)]]
        return [state for state, _ in distinct]


def estimate_camera(pairs: Sequence[Pair], start: Mount, time_sigma: float = float(PRIOR_SIGMA[6])) -> MountEstimate:
    """The mount that lays the outlines in sweeps on the edges of pictures.

    Args:
        pairs: sweeps and pictures of different places; pairs of one place would be counted as if they were different.
        start: the declared mount, at most 5 degrees and 20 cm off, with the time offset that pairs were made with.
        time_sigma: standard deviation of that time offset, s.

    Returns:
        The estimate; where pictures show nothing, or halves of them disagree, it is `unknown`, and a remark says why.
    """
    prior = prior_covariance(start)

    def refused(reason: str) -> MountEstimate:
        return unknown(start, f"pictures do not show the camera's mount: {reason}")

    if not start.known:
        return refused("nobody declared where it is; measure it to 5 degrees and 20 cm, and set `rig`")
    every = max(1, len(pairs) // _COARSE_PAIRS)
    album = Album(pairs, [_BLURS[-1:] if number % every else _BLURS for number in range(len(pairs))])
    views = _views(pairs, album, start, every)
    points = sum(len(view.kind) for view in views)
    if len(views) < _MIN_PAIRS:
        return refused(f"points on outlines: {points}, pairs: {len(views)}; drive past posts, cars and corners")
    known = np.concatenate([np.diag(prior)[:6], [time_sigma**2 + _SYSTEMATIC[6] ** 2, _ZOOM_SIGMA**2]])
    problem = _Problem(_State(start._replace(time_offset=0.0)), inv(np.diag(known)))
    scale = 10.0
    modes = problem.modes(album, views, scale)
    views = _views(pairs, album, modes[0].mount)
    off = modes[0].seen_from(problem.start)
    if (off**2 * np.diag(problem.prior)).max() > _FAR**2:
        return refused("edges agree with it nowhere near the declared one: is its lens (camera.json) the right one?")
    final = _Score(album, views, _BLURS[-1])
    state, covariance, best = problem.result(final, modes[:1], scale)
    if not best > _MIN_SCORE:
        return refused("too few outlines fall on edges; drive past posts, cars and corners by day")
    (one, one_covariance, _), (two, two_covariance, _) = (
        problem.result(final.only(partial(_in_columns, state=modes[0], odd=odd)), modes, scale) for odd in (0, 1)
    )
    error = one.seen_from(two)[:7]
    square = float(matmul(error, solve((one_covariance + two_covariance)[:7, :7], error)))
    if chdtrc(7, square) < FALSE_ALARM:
        return refused("halves of the pictures disagree; drive past posts, cars and corners")
    shared = np.diag(_SYSTEMATIC**2)
    shared[:3, :3] += np.eye(3) * (_PIXELS / max(pair.lens.fx for pair in pairs)) ** 2
    mount = state.mount._replace(time_offset=state.mount.time_offset + start.time_offset)
    return MountEstimate(mount, covariance[:7, :7] + shared, prior, shared=shared)


def _views(pairs: Sequence[Pair], album: Album, mount: Mount, every: int = 1) -> list[Outlines]:
    """Of every so many pairs those that have outlines."""
    numbers = range(0, len(pairs), every)
    found = [outlines(pairs[number], number, album.lenses[number], mount) for number in numbers]
    return [view for view in found if len(view.kind)]
