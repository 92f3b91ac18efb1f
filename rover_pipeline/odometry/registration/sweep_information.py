"""What a sweep says about where it is, without what bodies that move and wrong directions of planes may say.

Poses are valid or not by these matrices. No trajectory is compared by them, so they are computed for the last pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.constants import g as GRAVITY  # noqa: N812
from scipy.special import chdtri

from rover_pipeline.kinematics.rotation import exp
from rover_pipeline.numerics.linear import eigh, matmul, solve
from rover_pipeline.numerics.robust import FALSE_ALARM
from rover_pipeline.numerics.voxel_table import pack_key
from rover_pipeline.odometry.observations import Points, Sweep
from rover_pipeline.odometry.options import OdometrySection
from rover_pipeline.odometry.registration.cross_validation import BLOCK, PRIOR, per_distance
from rover_pipeline.odometry.registration.point_terms import NO_ERRORS, PointErrors, PointWeights
from rover_pipeline.odometry.registration.point_to_plane import (
    Matches,
    match_points,
    matched_equations,
    weighted_derivatives,
)
from rover_pipeline.odometry.registration.transforms import transform_points
from rover_pipeline.odometry.spline import SplineTrajectory
from rover_pipeline.odometry.surfels import LARGE, NORMAL, THICKNESS, SurfelMap

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
#: Time over which sweeps are averaged, and in which a rig has one way, s. Tuned: by hand.
WINDOW = 1.0
#: Number of parts of a sweep whose moves are compared, and smallest share of a move that a part shows. Tuned: by hand.
PARTS, _MIN_SHARE = 16, 0.1


class SweepInformation(NamedTuple):
    """What a sweep says about where it is, on a map of others. All but `slip` are 0 for a sweep that is not used."""

    #: f8 (PARTS, 6), moves of short parts of the sweep, in the lidar frame, m and rad; see `_unmodelled_motion`.
    motion: np.ndarray = np.zeros((PARTS, 6))
    #: f8 (3, 6, 6), what its points seem to give, and what is left without that which wrong directions of planes give:
    #: as a displacement of the sweep shows it, and if beams are off by `_BEAM`; of a displacement in the world (1/m2)
    #: and of a rotation in the lidar frame (1/rad2).
    information: np.ndarray = np.zeros((3, 6, 6))
    #: f8 (3, 6, 6), the same, of large planes alone, without those that a single small body may be, without those on
    #: one side of the motion, which may be a train, and without those that people or cars may be; see
    #: `_if_bodies_move`.
    large: np.ndarray = np.zeros((3, 6, 6))
    #: f8 (2,), how significantly what is higher than people shows where the rig is, without any single vehicle, and
    #: without one side of the motion: chi-square values with one degree of freedom; see `_landmarks`.
    landmarks: np.ndarray = np.zeros(2)
    #: f8 (2,), mean square distance of its points from planes that earlier sweeps have drawn, relative to the variance
    #: that is expected: from the noise of ranges, and if beams are off by `_BEAM`; NaN where it is not compared.
    slip: np.ndarray = np.full(2, np.nan)
    #: f8 (), what it would seem to know of its place a metre away, relative to what it knows; see `_elsewhere`.
    elsewhere: np.ndarray = np.zeros(())
    #: f8 (), how clearly the sweeps of its segment agree at another speed, too; see `aliasing.ambiguity`.
    ambiguity: np.ndarray = np.zeros(())

    @classmethod
    def stacked(cls, sweeps: Sequence[SweepInformation]) -> SweepInformation:
        """The information of several sweeps in one: each array has the sweeps as its first axis.

        Ten sweeps have the mean of their `slip`, or that of the next ten, which are compared with them: the larger one;
        0 where nothing is compared.
        """
        stacked = cls(*map(np.array, zip(*sweeps, strict=True)))
        tens = [stacked.slip[ten : ten + 2 * BLOCK] for ten in range(0, len(sweeps), 2 * BLOCK)]
        known = (slip[np.isfinite(slip[:, 0])] for slip in tens)
        means = [slip.mean(axis=0) if len(slip) else np.zeros(2) for slip in known]
        for slip, mean, following in zip(tens, means, [*means[1:], np.zeros(2)], strict=True):
            slip[:] = np.maximum(mean, following)
        return stacked


NO_INFORMATION = SweepInformation()


def information_of(
    sweep: Sweep,
    trajectory: SplineTrajectory,
    others: SurfelMap,
    options: OdometrySection,
    errors: PointErrors = NO_ERRORS,
    spacing: float = SPACING,
    earlier: SurfelMap | None = None,
) -> SweepInformation:
    """What a sweep says about where it is, on a map that it is not in.

    Args:
        errors: of the points, as far as they are known.
        spacing: of neighbouring beams, rad.
        earlier: a map of sweeps about a second before; None = the sweep is not compared with them.
    """
    points, poses = sweep.evaluated, trajectory.poses(trajectory.locate(sweep.times))
    if not len(points.points):
        return NO_INFORMATION
    weights = errors.weights(options, errors.depth if errors.depth.any() else np.zeros(0))
    matches = match_points(*points, *poses, others.tables, weights)
    matrix, right, *_ = matched_equations(*points, poses[1], matches, weights)
    known = matrix.sum(0)
    axes = PrincipalAxes.of(known)
    away = axes.elsewhere(
        points, poses, others, weights, known[None], lambda every: np.ones((1, len(every.number)), bool)
    )
    # Where nothing shows the place, both are alike but for random differences and the edge of the map. So twice as much
    # is left out: a sweep has to know more of its place than it would seem to know elsewhere.
    left = axes.without(known, 2 * away[0])
    tilted = weights._replace(depth=np.zeros(0), beam=_BEAM, spacing=spacing)
    if_beams_are_off = matched_equations(*points, poses[1], matches, tilted)[0].sum(0)
    # Bodies that move along with the rig make no large planes: floors, walls and ground do.
    planes = weights._replace(depth=np.zeros(0), extent=_WIDE)
    share = len(sweep.points) / max(len(points.points), 1)
    # Whoever holds a rig at rest moves it to and fro. So on which side of its way a train is follows from a second.
    around = np.clip(sweep.end + np.array([-0.5, 0.5]) * WINDOW, trajectory.start, trajectory.stop)
    velocity = np.diff(trajectory.poses(trajectory.locate(around))[0], axis=0)[0] / np.ptp(around)
    high = _higher_than_people(transform_points(*points, *poses))
    # The largest speed at which people walk is the root of gravity times their leg (Froude number 1; R. McN. Alexander,
    # 1989).
    no_people = high if (velocity**2).sum() < GRAVITY * _PERSON / 2 else np.ones(len(high), bool)
    large = share * _if_bodies_move(points, poses, velocity, high, no_people, others.large, planes, share)
    values, vectors = eigh(large[:, :3, :3])
    unknown = np.swapaxes(vectors, 1, 2)[values < options.max_error**-2]
    return SweepInformation(
        motion=_unmodelled_motion(matrix, right, poses[1]),
        information=np.stack([known, left, if_beams_are_off]),
        large=large,
        landmarks=np.array(_landmarks(points, poses, velocity, unknown, high, no_people, others, weights)),
        slip=_slip(points, poses, earlier, (weights, tilted)) if earlier else np.full(2, np.nan),
        elsewhere=np.array(_elsewhere(points, poses, matrix.sum(0)[:3, :3], others, weights)),
    )


def _elsewhere(
    points: Points,
    poses: tuple[np.ndarray, np.ndarray],
    information: np.ndarray,
    surfels: SurfelMap,
    weights: PointWeights,
) -> float:
    """What a sweep would seem to know of a displacement if it were a metre away, relative to what it knows.

    Wherever a sweep is, some of its points are on planes that they are not of, and seem to know its place. This is all
    that a sweep knows whose pose is lost. Of one whose pose is right, most points leave their planes if it is moved.
    The direction is the one that the sweep knows the least about, where a wrong pose is seen first.

    Args:
        information: f8 (3, 3), what it knows of a displacement in the world, 1/m2.
    """
    values, vectors = eigh(information)
    along, every_other = np.zeros((1, 6)), weights._replace(stride=2)
    along[0, :3] = vectors[:, 0]
    seeming = []
    for move in LARGE * vectors[:, 0], -LARGE * vectors[:, 0]:
        matches = match_points(*points, poses[0] + move, poses[1], surfels.tables, every_other)
        seeming.append((weighted_derivatives(*points, poses[1], matches, every_other, along) ** 2).sum())
    # One way it may meet other structure, and seem to know far more. So the geometric mean of both ways is taken.
    return float(np.sqrt(seeming[0] * seeming[1])) / values[0] if values[0] > 0 else 0.0


def _slip(
    points: Points, poses: tuple[np.ndarray, np.ndarray], earlier: SurfelMap, expected: Sequence[PointWeights]
) -> np.ndarray:
    """Mean square distance of points from planes that sweeps a second before have drawn, relative to what is expected.

    Where a trajectory is a mixture of the motions of two bodies, such as a deck and the quay that it passes, what both
    show slips. A map of all sweeps is smeared along this way, so that its planes become thicker and each sweep lies in
    the middle of them. Planes of half a second are not.
    """
    matches = match_points(*points, *poses, earlier.tables, expected[0])
    found = [matched_equations(*points, poses[1], matches, each)[2] for each in expected]
    return np.array([each.normalised / each.inliers if each.inliers else np.nan for each in found])


class PrincipalAxes(NamedTuple):
    """Along which what a sweep knows of its pose is compared with what it would seem to know elsewhere.

    Planes have wrong directions, because of noise, beams that are off, and rough ground. So they seem to show where the
    sweep is although the surroundings leave it open: along a corridor, over a field. They would seem to show as much if
    the sweep were elsewhere. Where something shows the place, points leave their planes if the sweep is moved.
    """

    directions: np.ndarray  #: f8 (6, 6), in each row a displacement in the world and a rotation in the lidar frame, m.
    scale: np.ndarray  #: f8 (6,), see `per_distance`.

    @classmethod
    def of(cls, information: np.ndarray) -> PrincipalAxes:
        """Of f8 (6, 6), of a displacement in the world and a rotation in the lidar frame."""
        scale = per_distance(information)
        return cls(np.ascontiguousarray((scale[:, None] * eigh(information * scale[:, None] * scale)[1]).T), scale)

    def elsewhere(
        self,
        points: Points,
        poses: tuple[np.ndarray, np.ndarray],
        surfels: SurfelMap,
        weights: PointWeights,
        known: np.ndarray,
        parts: Callable[[Matches], np.ndarray],
    ) -> np.ndarray:
        """What some planes would seem to know along each axis a metre away, mean of both ways, f8 (K, 6), 1/m2.

        Args:
            known: f8 (K, 6, 6), what planes know here: those of the first part, of the first two, and so on.
            parts: which matches each part has, bool (K, I).
        """
        # The points as if all were measured at the last instant.
        pos, rot = poses[0][-1], poses[1][-1]
        still = matmul(transform_points(*points, *poses) - pos, rot).astype("f4"), np.zeros(len(points.points), "i4")
        moves, every_fourth = np.concatenate([self.directions, -self.directions]) * LARGE, weights._replace(stride=4)
        at_pos, at_rot = pos + moves[:, None, :3], matmul(rot, exp(moves[:, 3:]))[:, None]
        found, tables = [], surfels.tables
        for move, there, turned in zip(moves, at_pos, at_rot, strict=True):
            matches = match_points(*still, there, turned, tables, every_fourth)
            along = weighted_derivatives(*still, turned, matches, every_fourth, move[None] / LARGE)[:, 0]
            found.append((along**2 * parts(matches)).sum(axis=1))
        seeming = np.cumsum(np.reshape(found, (2, 6, len(known))), axis=2).transpose(2, 0, 1)
        here = np.einsum("ki,nij,kj->nk", self.directions, known, self.directions)
        # Elsewhere a sweep may meet other structure, and seem to know far more. Without a limit, one such sweep would
        # outweigh all others of a second.
        return np.asarray(np.minimum(seeming, 2 * here[:, None]).mean(axis=1))

    def without(self, information: np.ndarray, along: np.ndarray) -> np.ndarray:
        """What is left of f8 (6, 6) without some information along each axis, f8 (6,), 1/m2."""
        back = self.directions.T / self.scale[:, None] ** 2
        return np.asarray(information - matmul(back * along, back.T))


def _if_bodies_move(
    points: Points,
    poses: tuple[np.ndarray, np.ndarray],
    velocity: np.ndarray,
    high: np.ndarray,
    no_people: np.ndarray,
    surfels: SurfelMap,
    weights: PointWeights,
    share: float,
) -> np.ndarray:
    """The information of planes, f8 (3, 6, 6), if bodies among them move by themselves.

    All are without what the planes would seem to show elsewhere.

    - The first matrix is without that of any single place about each direction. A body that moves along with the rig
      may be there, up to a metre wide at the default sizes of voxels.
    - The second one is without all that lies on one side of the rig's way, beyond the half metre that whoever holds it
      takes: it may be a train that passes. If something flat and upright there shows the motion, as the end of a train
      does, people may keep pace with it on the other side.
    - The third one is as the first one, and without planes that people or cars may make up: several people in one voxel
      make a thick plane, a wall makes a thin one.

    Args:
        velocity: f8 (3,), mean one of the rig in the world, m/s.
        high, no_people: bool (N,), points that are higher than a person, and those that people cannot be at who keep
            pace with the rig.
        share: of the points' information that counts, because there are fewer in a pass.
    """

    def thin(matches: Matches) -> np.ndarray:
        return np.asarray(weights.scale * matches.planes[matches.number[:, 2], THICKNESS] <= weights.gate)

    def thin_or(points: np.ndarray, matches: Matches) -> np.ndarray:
        return np.asarray(thin(matches) | points[matches.number[:, 0]])

    def lasting_and_rest(matches: Matches) -> np.ndarray:
        lasting = thin_or(high, matches)
        return np.stack([lasting, ~lasting])

    def on_side(matches: Matches, side: int) -> np.ndarray:
        left = _left_of_way(velocity, poses, matches.planes)[matches.number[:, 2]]
        return np.asarray(side * left > LARGE / 2)

    def known_by(some: np.ndarray) -> np.ndarray:
        return np.asarray(matmul(derivatives[some].T, derivatives[some]))

    def along(information: np.ndarray) -> float:
        return float(matmul(velocity, information[:3, :3], velocity)) * WINDOW**2

    matches = match_points(*points, *poses, surfels.tables, weights)
    derivatives = weighted_derivatives(*points, poses[1], matches, weights, np.eye(6))
    parts = lasting_and_rest(matches)
    known = np.cumsum([known_by(part) for part in parts], axis=0)
    axes = PrincipalAxes.of(known[1])
    left_out = axes.elsewhere(points, poses, surfels, weights, known, lasting_and_rest)
    of_points = matmul(derivatives, axes.directions.T) ** 2
    for out, counted in zip(left_out, (parts[0], np.ones(len(of_points))), strict=True):
        out += _of_single_bodies(matches, of_points * counted[:, None], surfels.tables.sizes[-1])
    of_lasting, of_all = (axes.without(*each) for each in zip(known, left_out, strict=True))

    lasting = thin_or(no_people, matches)
    upright = thin(matches) & (np.abs(matches.planes[matches.number[:, 2], NORMAL + 2]) < np.sqrt(0.5))
    sides = []
    for side in 1, -1:
        beside = on_side(matches, side)
        train = along(known_by(beside & upright)) > chdtri(1, FALSE_ALARM) / share
        information = known_by(~beside & (lasting | ~train))
        sides.append((along(information), information, beside, train, side))
    _, information, beside, train, side = min(sides, key=lambda each: each[0])

    def on_other_side(matches: Matches) -> np.ndarray:
        others = ~on_side(matches, side)
        return np.asarray(others & thin_or(no_people, matches) if train else others)[None]

    # From here on `on_other_side` is asked of the points that are left.
    number = matches.number[beside, 0]
    rest = Points(np.delete(points.points, number, axis=0), np.delete(points.column, number))
    no_people, axes = np.delete(no_people, number), PrincipalAxes.of(information)
    # A fast rig needs so little information that random differences would give it. So twice as much is left out: a side
    # has to know more of its place than it would seem to know elsewhere.
    seeming = 2 * axes.elsewhere(rest, poses, surfels, weights, information[None], on_other_side)[0]
    return np.stack([of_all, axes.without(information, seeming), of_lasting])


def _of_single_bodies(matches: Matches, information: np.ndarray, size: float) -> np.ndarray:
    """The largest information that anything up to half of `size` wide has along each of some axes, f8 (6,).

    The information of each plane counts in the four upright columns that it is in.

    Args:
        information: f8 (I, 6), of each point along the axes; size: of the columns, m.
    """
    of_planes = [np.bincount(matches.number[:, 2], each, len(matches.planes)) for each in information.T]
    grids = _four_grids(matches.planes[:, :3] / size)
    return np.max([[np.bincount(grid, each).max(initial=0.0) for each in of_planes] for grid in grids], axis=0)


def _left_of_way(velocity: np.ndarray, poses: tuple[np.ndarray, np.ndarray], places: np.ndarray) -> np.ndarray:
    """How far places lie to the left of a rig's way, f8 (N,), m.

    Args:
        velocity: f8 (3,), of the rig in the world, m/s; places: f8 (N, 2 or more), x and y in the world.
    """
    x, y = (places[:, :2] - poses[0][-1, :2]).T
    return np.asarray((velocity[0] * y - velocity[1] * x) / max(np.hypot(*velocity[:2]), 1e-9))


def _higher_than_people(world: np.ndarray) -> np.ndarray:
    """Which points, f8 (N, 3), are higher than a person above the lowest one of their square, bool (N,)."""
    _, square = np.unique(_squares(world / LARGE), return_inverse=True)
    lowest = np.full(len(world), np.inf)
    np.minimum.at(lowest, square, world[:, 2])
    return np.asarray(world[:, 2] > lowest[square] + _PERSON)


def _landmarks(
    points: Points,
    poses: tuple[np.ndarray, np.ndarray],
    velocity: np.ndarray,
    directions: np.ndarray,
    high: np.ndarray,
    no_people: np.ndarray,
    surfels: SurfelMap,
    weights: PointWeights,
) -> tuple[float, float]:
    """How significantly trees, racks and the like show where a rig is.

    If the sweep is displaced by half a metre, points on a tree leave the planes that they lie on. Points on a bare wall
    do not, whatever noise has drawn on it. Each place a metre wide counts by at most one point, because it may be a
    body of its own, and only if it loses points both ways or wins some both ways: at the edge of what the map knows it
    loses them one way. If places have nothing in common, each of them loses or wins with the same probability (sign
    test).

    Args:
        velocity: f8 (3,), of the rig in the world, m/s; directions: f8 (K, 3), unit vectors in the world.
        high, no_people: bool (N,), points that are higher than a person, and those that people cannot be at who keep
            pace with the rig.

    Returns:
        Chi-square values with one degree of freedom; NaN if there is no direction. Without the place of any one
        vehicle, because one may drive along, that of the direction which is shown the least. Only points count here
        that are higher than a person, because people may walk along with the rig. And without either side of the rig's
        way, because a train may pass there, that of this way.
    """
    if not len(directions):
        return np.nan, np.nan
    world = transform_points(*points, *poses)
    cells, example, column = np.unique(_squares(world / LARGE), return_index=True, return_inverse=True)
    tables = surfels.tables

    def on_planes(move: np.ndarray, counted: np.ndarray) -> np.ndarray:
        number = match_points(*points, poses[0] + move, poses[1], tables, weights).number[:, 0]
        return np.bincount(column[number], counted[number], len(cells))

    def lost(along: np.ndarray, counted: np.ndarray) -> np.ndarray:
        here, ahead, behind = (on_planes(step * LARGE / 2 * along, counted) for step in (0, 1, -1))
        both = (here - ahead) * (here - behind) > 0
        return np.where(both, here - (ahead + behind) / 2, 0.0).clip(-1, 1)

    grids = _four_grids(world[example] / (2 * _VEHICLE))
    found = []
    for direction in directions:
        of_places = lost(direction, high)
        vehicles = (grid == np.argmax(np.bincount(grid, of_places)) for grid in grids)
        found.append(min(_agreement(of_places[~some]) for some in vehicles))
    speed = max(float(np.sqrt((velocity**2).sum())), 1e-9)
    left = _left_of_way(velocity, poses, world[example])
    of_places = lost(velocity / speed, no_people)
    sides = left > LARGE / 2, left < -LARGE / 2
    return min(found), min(_agreement(of_places[~some]) for some in sides)


def _squares(places: np.ndarray) -> np.ndarray:
    """Keys, i8 (N,), of the squares of a horizontal grid of step 1 that places, f8 (N, 3), are in."""
    return np.asarray(pack_key(*(np.floor(places) * [1, 1, 0]).astype("i8").T))


def _four_grids(places: np.ndarray) -> list[np.ndarray]:
    """Numbers, i8 (N,), of the squares of four horizontal grids of step 1 that places, f8 (N, 3), are in.

    They are half a step apart: whatever is no wider than half a step is in a square of one of them as a whole.
    """
    shifts = ([x, y, 0.0] for x in (0, 0.5) for y in (0, 0.5))
    return [np.unique(_squares(places + shift), return_inverse=True)[1] for shift in shifts]


def _agreement(values: np.ndarray) -> float:
    """The squared sum of values relative to its variance if each had a random sign; 0 if the sum is negative."""
    return float(max(values.sum(), 0.0) ** 2 / max((values**2).sum(), 1e-12))


def _unmodelled_motion(matrix: np.ndarray, right: np.ndarray, rot: np.ndarray) -> np.ndarray:
    """Moves of short parts of a sweep from where the trajectory has them, f8 (PARTS, 6), lidar frame.

    Vibration and steps are faster than the knots of a trajectory, whose poses are wrong by as much as these move the
    lidar.

    Args:
        matrix, right: f8 (C, 6, 6), (C, 6), normal equations of the columns; rot: f8 (C, 3, 3), their rotations.
    """
    edges = np.linspace(0, len(rot), PARTS, endpoint=False).astype("i8")
    if len(rot) < PARTS:
        return np.zeros((PARTS, 6))
    into_world = np.zeros((PARTS, 6, 6))
    into_world[:, :3, :3], into_world[:, 3:, 3:] = rot[edges], np.eye(3)
    into_lidar = np.swapaxes(into_world, 1, 2)
    information = matmul(into_lidar, np.add.reduceat(matrix, edges), into_world)
    wanted = matmul(into_lidar, np.add.reduceat(right, edges)[..., None])
    with_prior = information + PRIOR
    solved = solve(with_prior, np.concatenate([wanted, information], axis=2))
    # A part that sees a floor only says nothing about motion along it. The parts together say it to this share.
    share = np.diagonal(solved[..., 1:], axis1=1, axis2=2).mean(axis=0).clip(_MIN_SHARE)
    moves: np.ndarray = solved[..., 0] / share
    return moves
