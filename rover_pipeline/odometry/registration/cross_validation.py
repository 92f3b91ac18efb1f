"""Cross-validation of a trajectory: how well held-out points fit maps of other sweeps.

A sweep always fits a map that it has built itself, also at a wrong pose. So the sweeps build two maps, in blocks that
alternate, and each sweep is evaluated on the map of the other blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rover_pipeline.kinematics.rotation import exp
from rover_pipeline.numerics.linear import eigh, eigvalsh, matmul, solve
from rover_pipeline.numerics.voxel_table import pack_key
from rover_pipeline.odometry.observations import Points, Sweep
from rover_pipeline.odometry.options import OdometrySection
from rover_pipeline.odometry.registration.point_terms import GATE, NO_ERRORS, PointErrors, PointWeights, Statistics
from rover_pipeline.odometry.registration.point_to_plane import (
    Matches,
    match_points,
    matched_equations,
    single_bodies,
)
from rover_pipeline.odometry.registration.transforms import transform_points, transform_rays
from rover_pipeline.odometry.spline import SplineTrajectory
from rover_pipeline.odometry.surfels import LARGE, SurfelMap

if TYPE_CHECKING:
    from rover_pipeline.odometry.other_lidars import OtherLidar

#: Largest number of consecutive sweeps that are in the same of the two maps: half a second of most lidars. Errors
#: between maps add up as in a random walk: over the two seconds over which a pose has to be right, so many.
#: Tuned: by hand.
BLOCK, BLOCKS = 5, 4
#: Smallest extent of a large plane along its shorter side, relative to its voxel. That of a wall is 0.29, and that of a
#: person 0.15 in a voxel of 1 m. Without it, people who walk along in a corridor pass as walls.
#: And width of what one vehicle shows of itself, m: a lorry is 2.6 m wide, and parts of its side are seen beside it.
#: Tuned: walls and a person, a lorry.
_WIDE, _VEHICLE = 0.22, 6.0
#: Height that hardly any person reaches, m. Physics: adults.
_PERSON = 2.0
#: Standard deviation of the direction of a single beam, rad. Noise: data sheets of rotating lidars, 0.05 degrees.
_BEAM = np.radians(0.05)
#: Angle between neighbouring beams where it is not known, rad: the largest one, of 32 beams in 90 degrees, so that not
#: more beams seem to have drawn a plane than did. Noise: data sheets of rotating lidars.
SPACING = 0.05
#: Number of standard errors by which a trajectory has to be worse to be called worse. Tuned: by hand.
SIGNIFICANT = 2.0
#: Information about a move: a standard deviation of the gate, and of a rotation of 0.02 rad. Tuned: by hand.
_PRIOR = np.diag([GATE**-2] * 3 + [0.02**-2] * 3)
#: Standard deviation of a sweep's position by its own points, m, above which more of them are worth their time. It is
#: 0.2 to 0.3 mm among walls, and 0.9 to 1.9 mm in parks, among bushes and on a real drive.
#: Tuned: walls, parks, a real drive.
_LITTLE = 4e-4
#: Number of parts of a sweep whose moves are compared, and smallest share of a move that a part shows. Tuned: by hand.
PARTS, _MIN_SHARE = 16, 0.1


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
    #: f8 (2, 6, 6), mean products of the moves of short parts of the sweep with themselves and with the next part, in
    #: the lidar frame, m and rad; see `_unmodelled_motion`.
    motion: np.ndarray = np.zeros((2, 6, 6))
    #: f8 (2, 6, 6), what its points seem to give, and what is left without that which wrong directions of planes give;
    #: of a displacement in the world (1/m2) and of a rotation in the lidar frame (1/rad2).
    information: np.ndarray = np.zeros((2, 6, 6))
    #: f8 (2, 6, 6), the same, of large planes alone, without those that a single small body may be, and without those
    #: on one side of the motion, which may be a train; see `_if_bodies_move`.
    large: np.ndarray = np.zeros((2, 6, 6))
    #: how significantly what is higher than people shows where the rig is, without any single vehicle, and without one
    #: side of the motion: chi-square values with one degree of freedom; see `_landmarks`.
    landmarks: tuple[float, float] = (0.0, 0.0)
    #: the part of `noise` that points on one plane have in common, and those on different planes of one part of a
    #: surface; see `point_terms.Statistics`.
    common: tuple[float, float] = (0.0, 0.0)
    mean_cost: float = 0.0  #: as `cost`, with as many points of each part as it has.
    range_variance: float = np.inf  #: variance of a range, m2, as thin planes show it; see `point_terms.Statistics`.


_OPEN = float("nan")
NO_FIT = SweepFit(_OPEN, _OPEN, _OPEN, _OPEN, _OPEN, _OPEN)


def packed(fits: Sequence[SweepFit]) -> list[SweepFit]:
    """The same fits, whose arrays are parts of two: many small ones take twice the memory."""
    names = "motion", "information", "large"
    together = [np.array([getattr(fit, name) for fit in fits]) for name in names]
    return [fit._replace(**dict(zip(names, arrays, strict=True))) for fit, *arrays in zip(fits, *together, strict=True)]


@dataclass
class TwoMaps:
    """The maps of alternate blocks of sweeps.

    Args:
        count: number of sweeps of the recording. A single one has no others, and is compared with its own map.
    """

    options: OdometrySection
    count: int

    def __post_init__(self) -> None:
        self.block = max(1, min(BLOCK, self.count // 4))
        self.maps = [SurfelMap(self.options.voxels) for _ in range(2 if self.count > 1 else 1)]

    def insert(self, number: int, rays: np.ndarray, fit: bool = True) -> None:
        """Add the points of the sweep with some number; see `SurfelMap.insert`."""
        self._of(number).insert(rays, fit)

    def others(self, number: int) -> SurfelMap:
        """The map that the sweep with some number is not in."""
        return self._of(number + self.block)

    def target(self, number: int) -> SurfelMap:
        """The map that the sweep with some number is registered to: that of others, or all where these are too few.

        No more points may be inserted afterwards.
        """
        return self.others(number) if self.count >= 2 * BLOCK else self._whole

    @cached_property
    def _whole(self) -> SurfelMap:
        whole = SurfelMap(self.options.voxels)
        for surfels in self.maps:
            whole.add(surfels.sums())
        return whole

    def _of(self, number: int) -> SurfelMap:
        return self.maps[number // self.block % len(self.maps)]


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
    spacing: float = SPACING,
    other: OtherLidar | None = None,
) -> SweepFit:
    """How well a sweep fits a map that it is not in.

    Args:
        errors: of the points, as far as they are known.
        other: the lidar that the sweep is of; None = the one whose trajectory it is.
        spacing: of neighbouring beams, rad.
        brief: leave out what takes most of the time, and what trajectories are not compared by: `common` and the
            matrices.
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
    fit = fit._replace(common=(float(pairs[1] / max(pairs[0], 1)), float(pairs[3] / max(pairs[2], 1))))
    if other:  # whether a pose is valid, sweeps of the main lidar decide
        return fit
    tilted = weights._replace(depth=np.zeros(0), beam=_BEAM, spacing=spacing)
    left = matched_equations(*sweep.evaluated, poses[1], matches, tilted)[0]
    # Bodies that move along with the rig make no large planes: floors, walls and ground do.
    planes = tilted._replace(extent=_WIDE)
    share = len(sweep.points) / max(len(sweep.evaluated.points), 1)
    velocity = trajectory.at(np.array([sweep.end])).vel[0]
    large = share * _if_bodies_move(sweep, poses, velocity, others.large, planes)
    values, vectors = eigh(large[1, :3, :3])
    unknown = vectors.T[values < options.max_error**-2]
    information = np.stack([matrix.sum(0), left.sum(0)])
    return fit._replace(
        motion=_unmodelled_motion(matrix, right, poses[1]),
        information=information,
        large=large,
        landmarks=_landmarks(sweep.evaluated, poses, velocity, unknown, others, weights),
    )


def _cost(fit: Statistics, squares: float) -> float:
    """Mean squared distance of all points from their planes, cut off at 5 cm, m2."""
    return (squares + (fit.points - fit.inliers) * GATE**2) / fit.points


def _if_bodies_move(
    sweep: Sweep,
    poses: tuple[np.ndarray, np.ndarray],
    velocity: np.ndarray,
    surfels: SurfelMap,
    weights: PointWeights,
) -> np.ndarray:
    """The information of planes, f8 (2, 6, 6), if bodies among them move by themselves.

    The first matrix is without that of any single place about each direction. A body that moves along with the rig may
    be there, up to a metre wide at the default sizes of voxels. The second one is without all that lies on one side of
    the rig's way, beyond the half metre that whoever holds it takes: it may be a train that passes.

    Args:
        velocity: f8 (3,), of the rig in the world, m/s.
    """
    points, tables = sweep.evaluated, surfels.tables
    matches = match_points(*points, *poses, tables, weights)
    information = matched_equations(*points, poses[1], matches, weights)[0].sum(0)
    scale = per_distance(information)
    _, vectors = eigh(information * scale[:, None] * scale)
    asked = np.ascontiguousarray((scale[:, None] * vectors).T)
    single_body = single_bodies(*points, poses[1], tables.sizes[-1], matches, weights, asked)
    back = vectors / scale[:, None]
    others = information - _of_one_side(sweep, poses, velocity, matches, weights)
    return np.stack([information - matmul(back * single_body, back.T), others])


def _of_one_side(
    sweep: Sweep, poses: tuple[np.ndarray, np.ndarray], velocity: np.ndarray, matches: Matches, weights: PointWeights
) -> np.ndarray:
    """The information of the side of a rig's way that knows more about the way, f8 (6, 6).

    Args:
        velocity: f8 (3,), of the rig in the world, m/s; matches: of the points.
    """
    way = velocity / max(float(np.sqrt((velocity**2).sum())), 1e-9)
    x, y = (matches.planes[:, :2] - poses[0][-1, :2])[matches.number[:, 2]].T
    left = (way[0] * y - way[1] * x) / max(np.hypot(*way[:2]), 1e-9)
    found = []
    for beside in left > LARGE / 2, left < -LARGE / 2:
        some = matches._replace(number=matches.number[beside], values=matches.values[beside])
        found.append(matched_equations(*sweep.evaluated, poses[1], some, weights)[0].sum(0))
    return max(found, key=lambda each: float(matmul(way, each[:3, :3], way)))


def _landmarks(
    points: Points,
    poses: tuple[np.ndarray, np.ndarray],
    velocity: np.ndarray,
    directions: np.ndarray,
    surfels: SurfelMap,
    weights: PointWeights,
) -> tuple[float, float]:
    """How significantly trees, racks and the like show where a rig is along some directions.

    If the sweep is displaced by half a metre, points on a tree leave the planes that they lie on. Points on a bare wall
    do not, whatever noise has drawn on it. Only points that are higher than a person count, because people may walk
    along with the rig. Each place a metre wide counts by at most one point, because it may be a body of its own. If
    places have nothing in common, each of them loses or wins a point with the same probability (sign test).

    Args:
        velocity: f8 (3,), of the rig in the world, m/s; directions: f8 (K, 3), unit vectors in the world.

    Returns:
        Chi-square values with one degree of freedom: without the place of any one vehicle, because one may drive along;
        and without either side of the rig's way, because a train may pass there. Each is that of the direction which is
        shown the least; NaN if there is no direction.
    """
    if not len(directions):
        return np.nan, np.nan
    world = transform_points(*points, *poses)
    cells, example, column = np.unique(_squares(world / LARGE), return_index=True, return_inverse=True)
    lowest = np.full(len(cells), np.inf)
    np.minimum.at(lowest, column, world[:, 2])
    high = world[:, 2] > lowest[column] + _PERSON

    def on_planes(move: np.ndarray) -> np.ndarray:
        number = match_points(*points, poses[0] + move, poses[1], surfels.tables, weights).number[:, 0]
        return np.bincount(column[number], high[number], len(cells))

    x, y = (world[example, :2] - poses[0][-1, :2]).T
    left = (velocity[0] * y - velocity[1] * x) / max(np.hypot(*velocity[:2]), 1e-9)
    sides = [left > LARGE / 2, left < -LARGE / 2]
    # Four grids, half a step apart: whatever is no wider than half a step is in one of their squares as a whole.
    shifts = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]]) / 2
    grids = [np.unique(_squares(world[example] / (2 * _VEHICLE) + shift), return_inverse=True)[1] for shift in shifts]
    here, found = on_planes(np.zeros(3)), []
    for move in LARGE / 2 * directions:
        lost = (here - (on_planes(move) + on_planes(-move)) / 2).clip(-1, 1)
        places = [grid == np.argmax(np.bincount(grid, lost)) for grid in grids]
        found.append([min(_agreement(lost[~some]) for some in each) for each in (places, sides)])
    vehicle, side = np.min(found, axis=0).tolist()
    return vehicle, side


def _squares(places: np.ndarray) -> np.ndarray:
    """Keys, i8 (N,), of the squares of a horizontal grid of step 1 that places, f8 (N, 3), are in."""
    keys: np.ndarray = pack_key(*(np.floor(places) * [1, 1, 0]).astype("i8").T)
    return keys


def _agreement(values: np.ndarray) -> float:
    """The squared sum of values relative to its variance if each had a random sign; 0 if the sum is negative."""
    return float(max(values.sum(), 0.0) ** 2 / max((values**2).sum(), 1e-12))


def _unmodelled_motion(matrix: np.ndarray, right: np.ndarray, rot: np.ndarray) -> np.ndarray:
    """Products of the moves of short parts of a sweep from where the trajectory has them, f8 (2, 6, 6), lidar frame.

    Vibration and steps are faster than the knots of a trajectory, whose poses are wrong by as much as these move the
    lidar. Neighbouring parts move alike then, while the noise of their points is independent: the mean product of each
    part with the next one is the covariance of the motion only. The first matrix is of each part with itself.

    Args:
        matrix, right: f8 (C, 6, 6), (C, 6), normal equations of the columns; rot: f8 (C, 3, 3), their rotations.
    """
    edges = np.linspace(0, len(rot), PARTS, endpoint=False).astype("i8")
    if len(rot) < PARTS:
        return np.zeros((2, 6, 6))
    into_world = np.zeros((PARTS, 6, 6))
    into_world[:, :3, :3], into_world[:, 3:, 3:] = rot[edges], np.eye(3)
    into_lidar = np.swapaxes(into_world, 1, 2)
    information = matmul(into_lidar, np.add.reduceat(matrix, edges), into_world)
    wanted = matmul(into_lidar, np.add.reduceat(right, edges)[..., None])
    with_prior = information + _PRIOR
    solved = solve(with_prior, np.concatenate([wanted, information], axis=2))
    moves = solved[..., 0]
    # A part that sees a floor only says nothing about motion along it. The parts together say it to this share.
    share = np.diagonal(solved[..., 1:], axis1=1, axis2=2).mean(axis=0).clip(_MIN_SHARE)
    own, next_one = matmul(moves.T, moves) / PARTS, matmul(moves[:-1].T, moves[1:]) / (PARTS - 1)
    return np.stack([own, (next_one + next_one.T) / 2]) / share[:, None] / share


def _move(information: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The displacement, metres, and rotation, rad, that fit a whole sweep to the map, f8 (6,).

    Directions that nothing determines move little: they have a prior of the size of the gate.
    """
    return solve(information + _PRIOR, right)


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
    for number, sweep in enumerate(sweeps):
        maps.insert(number, world_rays(sweep, trajectory))
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
