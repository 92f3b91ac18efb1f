"""Cross-validation of a trajectory: how well held-out points fit maps of other sweeps.

A sweep always fits a map that it has built itself, also at a wrong pose. So the sweeps build two maps, in blocks that
alternate, and each sweep is evaluated on the map of the other blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from rover_pipeline.kinematics.rotation import exp
from rover_pipeline.numerics.linear import eigvalsh, matmul, solve
from rover_pipeline.odometry.observations import Sweep
from rover_pipeline.odometry.options import OdometrySection
from rover_pipeline.odometry.registration.point_terms import GATE, NO_ERRORS, PointErrors, Statistics
from rover_pipeline.odometry.registration.point_to_plane import (
    match_points,
    matched_equations,
)
from rover_pipeline.odometry.registration.transforms import transform_rays
from rover_pipeline.odometry.spline import SplineTrajectory
from rover_pipeline.odometry.surfels import SurfelMap

if TYPE_CHECKING:
    from rover_pipeline.odometry.other_lidars import OtherLidar

#: Largest number of consecutive sweeps that are in the same of the two maps: half a second of most lidars. Errors
#: between maps add up as in a random walk: over the two seconds over which a pose has to be right, so many.
#: Tuned: by hand.
BLOCK, BLOCKS = 5, 4
#: Number of standard errors by which a trajectory has to be worse to be called worse. Tuned: by hand.
SIGNIFICANT = 2.0
#: Information about a move: a standard deviation of the gate, and of a rotation of 0.02 rad. Tuned: by hand.
PRIOR = np.diag([GATE**-2] * 3 + [0.02**-2] * 3)
#: Standard deviation of a sweep's position by its own points, whose errors are correlated, m, above which twice as many
#: points are worth their time. It is 0.4 to 0.7 mm among walls, where they take out a seventh of the error, and 1.3 to
#: 5.3 mm in parks, among bushes and on real streets, where they take out a third at best. It decides no validity.
#: Tuned: walls, parks.
_LITTLE = 1e-3


class SweepFit(NamedTuple):
    """How well a sweep lies on the map of other sweeps; NaN for a sweep that is not used."""

    inliers: float  #: fraction of its points that lie on planes.
    residual: float  #: root mean square distance of those from their planes, metres.
    #: mean squared distance of all points from their planes, cut off at 5 cm, m2, as if each part of a surface had as
    #: many points as any other one.
    cost: float
    #: mean of the squared distances, each relative to its expected variance: 1 where the noise is as expected.
    noise: float
    shift: float  #: how far its points would move the whole sweep, metres: its distance from the map of other sweeps.
    nis: float  #: the square of this move, normalised by the information, per degree of freedom; `noise` is expected.
    #: the part of `noise` that points on one plane have in common, and those on different planes of one part of a
    #: surface; see `point_terms.Statistics`.
    common: tuple[float, float] = (0.0, 0.0)
    mean_cost: float = 0.0  #: as `cost`, with as many points of each part as it has.
    range_variance: float = np.inf  #: variance of a range, m2, as thin planes show it; see `point_terms.Statistics`.


_OPEN = float("nan")
NO_FIT = SweepFit(_OPEN, _OPEN, _OPEN, _OPEN, _OPEN, _OPEN)
#: One as a row of an array, where it takes a fifth of its memory. Layout.
ROW = [(name, "f8", np.shape(value)) for name, value in NO_FIT._asdict().items()]


def joined(parts: Sequence[np.ndarray]) -> Sequence[SweepFit]:
    """The fits of arrays of `ROW`, in one array whose rows have the attributes of a fit."""
    return cast(Sequence[SweepFit], np.concatenate(parts).view(np.recarray))


@dataclass
class TwoMaps:
    """The maps of alternate blocks of sweeps. No more points may be inserted after one was asked for, but by `fill`."""

    options: OdometrySection
    count: int  #: of the sweeps of the recording. A single one has no others, and is compared with its own map.

    def __post_init__(self) -> None:
        self.block = max(1, min(BLOCK, self.count // 4))
        self.maps = [SurfelMap(self.options.voxels) for _ in range(2 if self.count > 1 else 1)]

    def insert(self, number: int, rays: np.ndarray) -> None:
        """Add the points of the sweep with some number; see `SurfelMap.insert`."""
        self.maps[self._half(number)].insert(rays, fit=False)

    def fill(self, sweeps: Sequence[Sweep], trajectory: SplineTrajectory) -> None:
        """Put some sweeps into the maps, and nothing else. What was there goes, and leaves its memory to them."""
        for level in (level for surfels in self.maps for level in surfels.levels):
            level.clear()
        for made in ("_fitted", "_whole"):
            self.__dict__.pop(made, None)
        for number, sweep in enumerate(sweeps):
            self.insert(number, world_rays(sweep, trajectory))

    def others(self, number: int) -> SurfelMap:
        """The map that the sweep with some number is not in."""
        return self._fitted[self._half(number + self.block)]

    def target(self, number: int) -> SurfelMap:
        """The map that the sweep with some number is registered to: that of others, or all where these are too few."""
        return self.others(number) if self.count >= 2 * BLOCK else self._whole

    @cached_property
    def _whole(self) -> SurfelMap:
        whole = SurfelMap(self.options.voxels)
        for surfels in self.maps:
            whole.add(surfels.sums())
        whole.fit()
        return whole

    @cached_property
    def _fitted(self) -> list[SurfelMap]:
        for surfels in self.maps:
            surfels.fit()
        return self.maps

    def _half(self, number: int) -> int:
        return number // self.block % len(self.maps)


def world_rays(sweep: Sweep, trajectory: SplineTrajectory) -> np.ndarray:
    """The sweep's points in the world, f8 (N, 7), each by the lidar's pose at its own instant, as a map takes them."""
    return transform_rays(sweep.points, sweep.column, *trajectory.poses(trajectory.locate(sweep.times)))


def evaluate(
    sweep: Sweep,
    trajectory: SplineTrajectory,
    others: SurfelMap,
    options: OdometrySection,
    errors: PointErrors = NO_ERRORS,
    *,
    brief: bool = False,
    other: OtherLidar | None = None,
) -> SweepFit:
    """How well a sweep fits a map that it is not in.

    Args:
        errors: of the points, as far as they are known.
        other: the lidar that the sweep is of; None = the one whose trajectory it is.
        brief: leave out `common`, which trajectories are not compared by.
    """
    poses = trajectory.poses(trajectory.locate(sweep.times))
    poses = other.on_rig(*poses, sweep.times) if other else poses
    depth = errors.depth if errors.depth.any() else np.zeros(0)
    weights = errors.weights(options, depth)
    matches = match_points(*sweep.evaluated, *poses, others.tables, weights)
    matrix, right, statistics, _ = matched_equations(*sweep.evaluated, poses[1], matches, weights)
    total, inliers, squared_distances, _, normalised, of_noise, *_ = statistics
    if not np.isfinite(squared_distances) or not total:
        return NO_FIT
    move = _move(matrix.sum(0), right.sum(0))
    fit = NO_FIT._replace(
        inliers=inliers / total,
        residual=float(np.sqrt(squared_distances / max(inliers, 1))),
        cost=_cost(statistics, statistics.balanced),
        mean_cost=_cost(statistics, statistics.cut_off),
        noise=normalised / max(inliers, 1),
        range_variance=of_noise[0] / of_noise[1] if inliers else np.inf,
        shift=float(np.linalg.norm(move[:3], axis=0)),
        nis=float(matmul(right.sum(0), move)) / len(move),
    )
    if brief:
        return fit
    # What the sweep's own pose adds to all its points is no error of a surface.
    there = poses[0] + move[:3], matmul(poses[1], exp(move[None, 3:])[0])
    pairs = match_points(*sweep.evaluated, *there, others.tables, weights).fit[1:]
    return fit._replace(common=(float(pairs[1] / max(pairs[0], 1)), float(pairs[3] / max(pairs[2], 1))))


def _cost(fit: Statistics, squares: float) -> float:
    """Mean squared distance of all points from their planes, cut off at 5 cm, m2."""
    return (squares + (fit.points - fit.inliers) * GATE**2) / fit.points


def _move(information: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The displacement, metres, and rotation, rad, that fit a whole sweep to the map, f8 (6,).

    Directions that nothing determines move little: they have a prior of the size of the gate.
    """
    return solve(information + PRIOR, right)


def smallest_eigenvalue(information: np.ndarray) -> float:
    """Smallest eigenvalue of the information, f8 (6, 6), of a displacement and a rotation, 1/m2."""
    if not np.isfinite(information).all():
        return np.nan
    scale = per_distance(information)
    return float(max(eigvalsh(information * scale[:, None] * scale)[0], 0.0))


def weakly_constrained(information: np.ndarray) -> bool:
    """Whether half of the sweeps or more determine their positions so badly that more points are worth their time.

    Args:
        information: f8 (sweep, 6, 6), of each sweep alone, of a displacement (1/m2) and a rotation (1/rad2).
    """
    known = [value for each in information if (value := smallest_eigenvalue(each)) > 0]
    return bool(known) and float(np.median(known)) < _LITTLE**-2


def per_distance(information: np.ndarray) -> np.ndarray:
    """What a displacement, f8 (3,), and a rotation are multiplied with so that both are lengths, f8 (6,).

    A rotation moves a point by its distance times the angle. The mean distance makes both units the same.
    """
    distance = np.sqrt(max(np.trace(information[3:, 3:]), 1e-12) / max(np.trace(information[:3, :3]), 1e-12))
    return np.array([1.0] * 3 + [1 / distance] * 3)


def is_worse(before: Sequence[SweepFit], after: Sequence[SweepFit]) -> bool:
    """Whether held-out points say that a trajectory became worse, beyond what noise explains.

    The test is that of paired differences, one for each sweep. Neighbouring sweeps are not independent: a block of them
    counts as one.

    Args:
        before, after: of the same sweeps.
    """
    differences = _differences(before, after)
    if not len(differences):
        return False
    error = differences.std() / np.sqrt(max(len(differences) / BLOCK, 1))
    return bool(differences.mean() > SIGNIFICANT * error)


def mean_cost(fits: Sequence[SweepFit]) -> float:
    """Mean cost of held-out points of the sweeps that have one, m2; infinite if none has."""
    return float(np.mean([fit.cost for fit in fits if np.isfinite(fit.cost)] or [np.inf]))


def mean_difference(before: Sequence[SweepFit], after: Sequence[SweepFit]) -> float:
    """By how much the cost of held-out points grew on average, m2; negative if it became smaller."""
    differences = _differences(before, after)
    return float(differences.mean()) if len(differences) else 0.0


def _differences(before: Sequence[SweepFit], after: Sequence[SweepFit]) -> np.ndarray:
    """By how much the cost of each sweep that both have used grew, f8 (N,), m2."""
    differences = np.array([later.cost - earlier.cost for earlier, later in zip(before, after, strict=True)])
    return differences[np.isfinite(differences)]


def cross_validate(sweeps: Sequence[Sweep], trajectory: SplineTrajectory, options: OdometrySection) -> list[SweepFit]:
    """How well each of some sweeps fits the others, in brief."""
    maps = TwoMaps(options, len(sweeps))
    maps.fill(sweeps, trajectory)
    return [
        evaluate(sweep, trajectory, maps.others(number), options, brief=True) for number, sweep in enumerate(sweeps)
    ]


def noise_scale(fits: Sequence[SweepFit]) -> float:
    """Variance of the points' distances from their planes, relative to the expected one: the median of the sweeps.

    Sweeps without noise do not show it: the points of a planar scanner all lie in its own plane, but for the rounding
    of f4.
    """
    noise = [fit.noise for fit in fits if fit.noise > np.finfo("f4").eps]
    return float(np.median(noise)) if noise else 1.0


def range_noise(fits: Sequence[SweepFit]) -> float:
    """Standard deviation of a range, m, as thin planes show it: the median of the sweeps; infinite if none does."""
    return float(np.sqrt(np.median([fit.range_variance for fit in fits if np.isfinite(fit.noise)] or [np.inf])))


def correlations(fits: Sequence[SweepFit]) -> tuple[float, float]:
    """Correlations of the errors of points of a sweep, 0 to 1, see `PointWeights.common`: the medians of the sweeps."""
    shares = [np.array(fit.common) / fit.noise for fit in fits if fit.noise > np.finfo("f4").eps]
    alike, beside = np.clip(np.median(shares, axis=0), 0.0, 1.0).tolist() if shares else (0.0, 0.0)
    return alike, beside
