"""Errors that points of a surface have in common are estimated, and many such points say less than their number."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from rover_pipeline.kinematics.rotation import exp
from rover_pipeline.kinematics.state import State
from rover_pipeline.numerics.linear import matmul
from rover_pipeline.odometry.observations import Sweep
from rover_pipeline.odometry.options import OdometryOptions
from rover_pipeline.odometry.quality import AGREE, information_along, without_tilt
from rover_pipeline.odometry.registration.batch import SplineSystem
from rover_pipeline.odometry.registration.covariance import relative_to
from rover_pipeline.odometry.registration.cross_validation import evaluate, smallest_eigenvalue
from rover_pipeline.odometry.registration.point_terms import SCALE, THICK, PointWeights, Statistics
from rover_pipeline.odometry.registration.point_to_plane import pose_equations
from rover_pipeline.odometry.registration.sweep_information import SweepInformation, information_of
from rover_pipeline.odometry.registration.transforms import transform_rays
from rover_pipeline.odometry.spline import SplineTrajectory
from rover_pipeline.odometry.surfels import SurfelMap

ORIGIN, TURN = np.zeros((1, 3)), np.eye(3)[None]
#: Standard deviation of the noise of each point, m.
NOISE = 0.01


def walls(rng: np.random.Generator, count: int) -> np.ndarray:
    """Points on the four walls of a room, f8 (N, 3). No face of a voxel is within a deviation of them."""
    along, up = rng.uniform(-9.2, 9.2, (4, count)), rng.uniform(-1.5, 1.5, (4, count))
    at = np.full(count, 9.75)
    return np.concatenate(
        [np.stack(each, -1) for each in (
            (at, along[0], up[0]), (-at, along[1], up[1]), (along[2], at, up[2]), (along[3], -at, up[3]),
        )]
    )  # fmt: skip


def sweep(rng: np.random.Generator, edge: float, common: float) -> np.ndarray:
    """Points with noise, of which those in a cube have an error along their rays in common, f4 (N, 3).

    Cubes are the voxels of the finest surfels, or the parts of surfaces, whose grid has another origin.
    """
    points = walls(rng, 2000)
    rays = points / np.linalg.norm(points, axis=1, keepdims=True)
    _, part = np.unique(
        np.floor(points / edge + (0.371 if edge < 2.0 else 0.0)).astype(int), axis=0, return_inverse=True
    )
    error = NOISE * rng.standard_normal(len(points)) + common * rng.standard_normal(part.max() + 1)[part.ravel()]
    return (points + error[:, None] * rays).astype("f4")


@pytest.fixture(scope="module")
def surfels() -> SurfelMap:
    """The walls as a map without errors, but with the noise that makes planes thick."""
    rng, found = np.random.default_rng(0), SurfelMap((0.5, 1.0, 2.0))
    points = walls(rng, 60000)
    rays = points / np.linalg.norm(points, axis=1, keepdims=True)
    points = (points + 0.1 * NOISE * rng.standard_normal((len(points), 1)) * rays).astype("f4")
    found.insert(transform_rays(points, np.zeros(len(points), "i4"), ORIGIN, TURN))
    return found


def judged(points: np.ndarray, surfels: SurfelMap, common: tuple[float, float]) -> tuple[np.ndarray, Statistics]:
    """The information of the pose of a sweep, f8 (6, 6), and how its points lie on the map."""
    weights = PointWeights(0.1, NOISE, SCALE, 1, THICK, 0.0, np.zeros(0), common)
    column = np.zeros(len(points), "i4")
    matrix, _, statistics, _ = pose_equations(points, column, ORIGIN, TURN, surfels.tables, weights)
    return matrix[0], statistics


def correlations(points: np.ndarray, surfels: SurfelMap) -> tuple[float, float]:
    _, fit = judged(points, surfels, (0.0, 0.0))
    noise = fit.normalised / fit.inliers
    return fit.pairs[1] / fit.pairs[0] / noise, fit.pairs[3] / fit.pairs[2] / noise


def test_independent_errors_have_nothing_in_common(surfels: SurfelMap) -> None:
    found = [correlations(sweep(np.random.default_rng(seed), 0.5, 0.0), surfels) for seed in range(5)]
    assert np.abs(np.mean(found, axis=0)).max() < 0.05


def test_errors_of_each_surfel_are_told_from_those_of_whole_parts_of_a_surface(surfels: SurfelMap) -> None:
    alike, beside = np.mean(
        [correlations(sweep(np.random.default_rng(seed), 0.5, NOISE), surfels) for seed in range(5)], axis=0
    )
    assert 0.35 < alike < 0.65 and abs(beside) < 0.1  # half of the variance is in common
    alike, beside = np.mean(
        [correlations(sweep(np.random.default_rng(seed), 2.0, NOISE), surfels) for seed in range(5)], axis=0
    )
    assert 0.35 < alike < 0.65 and 0.25 < beside < 0.65


def test_more_points_with_a_common_error_say_no_more_and_independent_ones_do(surfels: SurfelMap) -> None:
    points = sweep(np.random.default_rng(0), 0.5, 0.0)
    for common, least, most in (((0.0, 0.0), 3.8, 4.2), ((1.0, 0.0), 1.0, 1.6)):
        few, many = (judged(each, surfels, common)[0][0, 0] for each in (points[::4], points))
        assert least < many / few < most


def test_the_error_of_a_mean_of_points_is_what_its_information_says(surfels: SurfelMap) -> None:
    sizes = []
    for seed in range(60):
        points = sweep(np.random.default_rng(seed), 0.5, NOISE)
        weights = PointWeights(0.1, NOISE, 1e6, 1, THICK, 0.0, np.zeros(0), (0.5, 0.0))
        matrix, right, statistics, _ = pose_equations(
            points, np.zeros(len(points), "i4"), ORIGIN, TURN, surfels.tables, weights
        )
        scale = statistics.normalised / statistics.inliers
        sizes.append(right[0, 0] ** 2 / matrix[0, 0, 0] / scale)
    assert 0.6 < np.mean(sizes) < 1.6


def test_a_wrong_scale_of_ranges_makes_the_way_uncertain_and_nothing_else() -> None:
    count = 5
    pos = np.arange(count)[:, None] * np.array([10.0, 0.0, 0.0])
    zeros = np.zeros((count, 3))
    state = State(pos, np.tile(np.eye(3), (count, 1, 1)), zeros, zeros, zeros)
    cov = relative_to(np.zeros((count, 6, 6)), state, 0)
    np.testing.assert_allclose(np.sqrt(cov[:, 0, 0]), 0.0015 * pos[:, 0])
    cov[:, 0, 0] = 0
    assert not cov.any()


def test_planes_of_all_sizes_that_are_deeper_than_the_prior_allows_are_noticed() -> None:
    options, trajectory = OdometryOptions(), SplineTrajectory.at_rest(0.0, 1.0, 0.1)
    assert not SplineSystem(trajectory, options, np.array([0.1, 4.0, 3.0, 4.0, 0.0])).is_too_deep
    assert SplineSystem(trajectory, options, np.array([0.1, 4.0, 4.0, 4.0, 0.0])).is_too_deep


def test_a_single_body_and_the_tilt_of_walls_tell_nothing_of_a_motion_along_a_corridor() -> None:
    """Walls with points that are 1 cm off seem to tell of it, and so does one side of a body that walks ahead."""
    rng, surfels = np.random.default_rng(5), SurfelMap((0.5, 1.0, 2.0))

    def corridor() -> np.ndarray:
        along, up, side = rng.uniform(-8, 8, 4000), rng.uniform(-1, 1, 4000), rng.choice([-1.27, 1.27], 4000)
        body = np.stack([np.full(400, 1.9), rng.uniform(-0.5, 0.5, 400), rng.uniform(-0.9, 0.9, 400)], -1)
        points = np.concatenate([np.stack([along, side, up], -1), body])
        beams = 0.005 * np.random.default_rng(6).standard_normal(64)[np.clip(32 + 16 * up, 0, 63).astype(int)]
        points[:4000, 1] += np.sign(side) * beams
        floor = np.stack([rng.uniform(-8, 8, 2000), rng.uniform(-1.2, 1.2, 2000), np.full(2000, -1.27)], -1)
        points = np.concatenate([points, floor])
        return (points + NOISE * rng.standard_normal(points.shape)).astype("f4")

    for _ in range(10):
        points = corridor()
        surfels.insert(transform_rays(points, np.zeros(len(points), "i4"), ORIGIN, TURN))
    points = corridor()
    sweep = Sweep(points, np.zeros(len(points), "i4"), np.zeros(1), 0.0)
    found = information_of(sweep, SplineTrajectory.at_rest(-1.0, 1.0, 0.1), surfels, OdometryOptions())
    _, statistics = judged(points, surfels, (0.0, 0.0))
    assert statistics.inliers > 0.9 * len(points)
    assert found.large[0, 1, 1] > 0.005**-2
    assert smallest_eigenvalue(found.large[0]) < (2 * OdometryOptions().max_error) ** -2


@pytest.mark.parametrize("agree", [False, True])
@pytest.mark.parametrize("fenced", [False, True])
def test_wrong_directions_of_planes_hold_no_rig_over_a_field(fenced: bool, agree: bool) -> None:
    """The ground says nothing of a motion along it, nor of a turn about the vertical, as soon as it has noise.

    That is measured where sweeps agree with those of a second before, and computed where they are not compared.
    """
    rng, surfels = np.random.default_rng(7), SurfelMap((0.25, 0.5, 1.0))

    def scene() -> np.ndarray:
        points = np.stack([*rng.uniform(-6, 6, (2, 6000)), np.full(6000, -1.27)], -1)
        if fenced:
            points = np.concatenate([points, [1, 1, 0] * points[:1500], [1, 1, 0] * points[:1500]])
            points[6000:7500, 0], points[7500:, 1] = 6.1, -6.1
            points[6000:, 2] = rng.uniform(-1, 2, 3000)
        return (points + NOISE * rng.standard_normal(points.shape)).astype("f4")

    for _ in range(3):
        surfels.insert(transform_rays(points := scene(), np.zeros(len(points), "i4"), ORIGIN, TURN))
    sweep = Sweep(points := scene(), np.zeros(len(points), "i4"), np.zeros(1), 0.0)
    found = information_of(sweep, SplineTrajectory.at_rest(-1.0, 1.0, 0.1), surfels, OdometryOptions())
    fit = evaluate(sweep, SplineTrajectory.at_rest(-1.0, 1.0, 0.1), surfels, OdometryOptions())
    sweeps = SweepInformation.stacked([found._replace(slip=np.full(2, 1.0 if agree else np.nan))])
    cov = without_tilt(1e-6 * np.eye(6)[None], sweeps, [fit], np.eye(3)[None], np.zeros(1))[0]
    deviations = np.sqrt(np.diagonal(cov))
    across, along = deviations[[2, 3, 4]], deviations[[0, 1, 5]]
    assert (across < (1.05e-3 if fenced else 0.01 * along.min())).all()
    assert (along < 1.05e-3).all() if fenced else (along > 1.0).all()


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("off", [0.0, 0.05, 0.12])
def test_ripples_that_beams_draw_which_point_elsewhere_are_no_structure_of_a_corridor(off: float, closed: bool) -> None:
    """They move along with the lidar, which seems to stand wherever it is; a wall at the end shows where it is."""
    rng, surfels = np.random.default_rng(8), SurfelMap((0.25, 0.5, 1.0))
    up, left = np.meshgrid(np.radians(np.linspace(-45, 45, 32)), np.linspace(-np.pi, np.pi, 512), indexing="ij")
    off_up, off_left = np.radians(off) * rng.standard_normal((2, 32, 1))
    true, stated = (
        np.stack([np.cos(u) * np.cos(v), np.cos(u) * np.sin(v), np.sin(u)], -1)
        for u, v in ((up + off_up, left + off_left), (up, left))
    )
    end = 6.1 if closed else 1e9
    distance = (np.where(true > 0, [end, 2.2, 3.1], [end, 2.2, 1.27]) / np.maximum(np.abs(true), 1e-12)).min(axis=-1)

    def scene() -> np.ndarray:
        points = ((distance + 0.002 * rng.standard_normal(distance.shape))[..., None] * stated).reshape(-1, 3)
        return points[distance.ravel() < 30].astype("f4")

    for _ in range(3):
        surfels.insert(transform_rays(points := scene(), np.zeros(len(points), "i4"), ORIGIN, TURN))
    sweep = Sweep(points := scene(), np.zeros(len(points), "i4"), np.zeros(1), 0.0)
    found = information_of(sweep, SplineTrajectory.at_rest(-1.0, 1.0, 0.1), surfels, OdometryOptions())
    enough = OdometryOptions().max_error ** -2
    assert found.large[0, 1, 1] > 100 * enough
    assert found.large[0, 0, 0] > 100 * enough if closed else found.large[0, 0, 0] < enough


def seen_in_passing(scene: Callable[[], np.ndarray], speed: float) -> SweepInformation:
    """What a sweep says on a map of ten others, all of which see the scene from one place, if it moves along x."""
    surfels = SurfelMap((0.25, 0.5, 1.0))
    for _ in range(10):
        surfels.insert(transform_rays(points := scene(), np.zeros(len(points), "i4"), ORIGIN, TURN))
    sweep = Sweep(points := scene(), np.zeros(len(points), "i4"), np.zeros(1), 0.0)
    trajectory = SplineTrajectory.at_rest(-1.0, 1.0, 0.1)
    trajectory.pos[:, 0] = speed * (trajectory.start + 0.1 * (np.arange(len(trajectory.pos)) - 1))
    return information_of(sweep, trajectory, surfels, OdometryOptions())


@pytest.mark.parametrize(
    ("tallest", "around", "shown"), [(9.0, 10.0, True), (1.9, 10.0, False), (4.0, 2.0, False), (9.0, 0.0, False)],
    ids=["trees", "people", "lorry", "bare"],
)  # fmt: skip
def test_trees_show_where_a_rig_is_and_people_and_a_single_lorry_may_move_themselves(
    tallest: float, around: float, shown: bool
) -> None:
    """In a wide bare corridor: trunks all around; as many people; what is as tall as a lorry, in one place; nothing."""
    rng = np.random.default_rng(11)
    feet = rng.uniform(-around, around, (40, 2)) + np.array([0.0 if around != 2 else 5.0, 0.0])
    count = 6000 if around else 0

    def scene() -> np.ndarray:
        ground = np.stack([*rng.uniform(-12, 12, (2, 9000)), np.full(9000, -1.27)], -1)
        walls = np.stack([rng.uniform(-12, 12, 9000), rng.choice([-12.2, 12.2], 9000), rng.uniform(-1, 8, 9000)], -1)
        turns = rng.uniform(-np.pi, np.pi, count)
        sides = np.repeat(feet, 150, axis=0)[:count] + 0.2 * np.stack([np.cos(turns), np.sin(turns)], -1)
        trunks = np.c_[sides, rng.uniform(-1.25, tallest - 1.27, count)]
        points = np.concatenate([ground, walls, trunks])
        return (points + 0.5 * NOISE * rng.standard_normal(points.shape)).astype("f4")

    found = seen_in_passing(scene, 1.0)
    assert smallest_eigenvalue(found.large[0]) < OdometryOptions().max_error ** -2
    vehicle, side = found.landmarks
    assert vehicle > 2 * AGREE and side > 2 * AGREE if shown else vehicle < AGREE / 2


@pytest.mark.parametrize(("tallest", "speed", "shown"), [(1.75, 1.3, False), (1.75, 8.0, False), (6.0, 1.3, True)])
def test_a_crowd_is_no_wall(tallest: float, speed: float, shown: bool) -> None:
    """In a bare corridor walk couples, each of which makes a thick plane. Trunks that make such planes do not walk."""
    rng = np.random.default_rng(12)
    couples = np.stack([np.arange(-9, 10, 1.5), rng.uniform(-2, 2, 13)], -1)
    couples = couples[np.linalg.norm(couples, axis=1) > 1]
    apart = np.array([0.08, 0.25])
    feet = np.concatenate([couples + apart, couples - apart])

    def corridor() -> np.ndarray:
        along, up, across = rng.uniform(-12, 12, (2, 9000)), rng.uniform(-1.2, 4, 9000), rng.uniform(-3, 3, 9000)
        turns = rng.uniform(-np.pi, np.pi, 200 * len(feet))
        sides = np.repeat(feet, 200, axis=0) + [0.1, 0.2] * np.stack([np.cos(turns), np.sin(turns)], -1)
        people = np.c_[sides, rng.uniform(-1.25, tallest - 1.27, len(sides))]
        walls = np.stack([along[0], rng.choice([-3.2, 3.2], 9000), up], -1)
        points = np.concatenate([people, walls, np.stack([along[1], across, np.full(9000, -1.27)], -1)])
        return (points + 0.2 * NOISE * rng.standard_normal(points.shape)).astype("f4")

    found = seen_in_passing(corridor, speed)
    seeming, along = information_along(np.tile([1.0, 0.0, 0.0], (2, 1)), found.large[[0, 2]])
    enough = OdometryOptions().max_error ** -2
    assert seeming > enough and (along > enough if shown else along < 1.0)


@pytest.mark.parametrize("turn", [0.0, 1.0])
@pytest.mark.parametrize("sides", [(1.0,), (-1.0,), (1.0, -1.0)])
def test_what_is_on_one_side_alone_does_not_show_a_motion_if_it_may_move(sides: tuple[float, ...], turn: float) -> None:
    """A street between smooth walls; before one of them, or before both, stand houses whose ends face the way."""
    rng, surfels = np.random.default_rng(9), SurfelMap((0.25, 0.5, 1.0))
    rot = exp(np.array([[0.0, 0.0, turn]]))

    def street() -> np.ndarray:
        along, up, at = rng.uniform(-9, 9, (2, 6000)), rng.uniform(-1, 2, (2, 6000)), np.full(6000, 6.2)
        faces = [(along[0], at, up[0]), (along[1], -at, up[1])]
        faces += [(rng.uniform(-9, 9, 6000), rng.uniform(-6, 6, 6000), np.full(6000, -1.27))]
        for end in [-7.3, -2.8, 3.7, 8.2]:
            faces += [(np.full(3000, end), side * rng.uniform(2, 6, 3000), rng.uniform(-1, 2, 3000)) for side in sides]
        points = np.concatenate([np.stack(each, -1) for each in faces])
        points = points + 0.2 * NOISE * rng.standard_normal(points.shape)
        return np.asarray(matmul(points, rot[0].T), "f4")

    for _ in range(5):
        surfels.insert(transform_rays(points := street(), np.zeros(len(points), "i4"), ORIGIN, TURN))
    sweep = Sweep(points := street(), np.zeros(len(points), "i4"), np.zeros(1), 0.0)
    trajectory = SplineTrajectory.at_rest(-1.0, 1.0, 0.1)
    trajectory.pos[:] = np.outer(trajectory.start + 0.1 * (np.arange(len(trajectory.pos)) - 1), 3 * rot[0, :, 0])
    found = information_of(sweep, trajectory, surfels, OdometryOptions())
    structure, both_sides = information_along(np.tile(rot[0, :, 0], (2, 1)), found.large[:2])
    assert structure > 1e6
    assert both_sides > 1e6 if len(sides) == 2 else both_sides < 1e-3  # a train at 10 m/s needs 0.1


@pytest.mark.parametrize(("posts", "speed", "shown"), [(0, 8.0, False), (60, 8.0, True), (60, 1.4, False)])
def test_posts_lower_than_people_confirm_a_motion_that_people_cannot_keep_pace_with(
    posts: int, speed: float, shown: bool
) -> None:
    """Carriages to the left, whose ends are seen, a bare field to the right, on which posts stand or none."""
    rng = np.random.default_rng(10)
    feet = np.stack([rng.uniform(-8, 8, posts), rng.uniform(-7, -1, posts)], -1)

    def field() -> np.ndarray:
        faces = [(rng.uniform(-9, 9, 9000), rng.uniform(-9, 2, 9000), np.full(9000, -1.27))]
        faces += [(rng.uniform(-9, 9, 6000), np.full(6000, 2.5), rng.uniform(-1, 2, 6000))]
        for end in np.arange(-8.3, 9, 2):
            faces.append((np.full(1500, end), rng.uniform(2.5, 6.5, 1500), rng.uniform(-1, 2, 1500)))
        turns = rng.uniform(-np.pi, np.pi, 100 * posts)
        sides = np.repeat(feet, 100, axis=0) + 0.15 * np.stack([np.cos(turns), np.sin(turns)], -1)
        points = np.concatenate(
            [np.c_[sides, rng.uniform(-1.25, -0.27, len(sides))], *(np.stack(f, -1) for f in faces)]
        )
        return (points + 0.5 * NOISE * rng.standard_normal(points.shape)).astype("f4")

    found = seen_in_passing(field, speed)
    ahead = np.array([[1.0, 0.0, 0.0]])
    assert information_along(ahead, found.large[1:2])[0] < 1e-3
    assert found.landmarks[1] > 2 * AGREE if shown else found.landmarks[1] < AGREE / 2


def pulled(seed: int, ahead: float, tilted: float) -> float:
    """How far a sweep of a field moves along it, m, that is registered `ahead` of the sweep that drew the map."""
    rng, surfels = np.random.default_rng(seed), SurfelMap((0.5, 1.0, 2.0))
    elevation, azimuth = np.radians(np.linspace(-25, -6, 32)), np.linspace(0, 2 * np.pi, 720, endpoint=False)
    far = 1.6 / np.tan(-elevation)[:, None]
    flat = np.stack([far * np.cos(azimuth), far * np.sin(azimuth), np.full((32, 720), -1.6)], axis=-1).reshape(-1, 3)
    first, second = ((flat + NOISE * rng.standard_normal((len(flat), 1)) * [0, 0, 1]).astype("f4") for _ in range(2))
    column = np.zeros(len(flat), "i4")
    surfels.insert(transform_rays(first, column, ORIGIN, TURN))
    weights = PointWeights(0.1, NOISE, 1e6, 1, THICK, 0.0, np.zeros(0), (0.0, 0.0), tilted)
    matrix, right, *_ = pose_equations(second, column, np.array([[ahead, 0.0, 0.0]]), TURN, surfels.tables, weights)
    return float(right[0, 0] / matrix[0, 0, 0])


def test_planes_that_noise_has_tilted_pull_rings_of_the_lidar_onto_each_other_which_is_taken_away() -> None:
    as_found, corrected = (np.mean([pulled(seed, 0.4, tilted) for seed in range(60)]) for tilted in (0.0, 1.0))
    assert as_found < -0.015 and abs(corrected) < 0.4 * abs(as_found)
