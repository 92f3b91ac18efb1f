"""The speed at which sweeps fill the fewest cells: along an aisle, whose racks hardly face it, and where equal
pilasters let a rig that drives seem to stand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from rover_pipeline.kinematics.state import State
from rover_pipeline.odometry.observations import Sweep
from rover_pipeline.odometry.options import OdometryOptions
from rover_pipeline.odometry.quality import Quality
from rover_pipeline.odometry.registration.aliasing import ambiguity
from rover_pipeline.odometry.registration.batch import on_others
from rover_pipeline.odometry.registration.cross_validation import TwoMaps
from rover_pipeline.odometry.registration.point_terms import NO_ERRORS
from rover_pipeline.odometry.registration.speeds import filled, open_direction, with_other_speeds
from rover_pipeline.odometry.remarks import doubt_warnings
from rover_pipeline.odometry.spline import SplineTrajectory

ALONG = np.array([1.0, 0.0, 0.0])


def racks(rng: np.random.Generator, count: int) -> np.ndarray:
    """Returns from equal racks at both sides of an aisle, f8 (N, 3) m: fronts of boxes, and gaps between them."""
    bay = 2.7 * rng.integers(-2, 3, count)
    along, side = rng.uniform(0.1, 2.3, count), rng.choice([-1.3, 1.3], count)
    front = np.column_stack([bay + along, side, rng.uniform(0, 2, count)])
    edge = np.column_stack([bay, side + np.sign(side) * rng.uniform(0, 1, count), rng.uniform(0, 2, count)])
    return np.where((rng.random(count) < 0.85)[:, None], front, edge)


def drive(rng: np.random.Generator, speed: float, sweeps: int = 6) -> list[Sweep]:
    """Sweeps of a lidar that moves along the aisle, each point at its own instant."""
    found = []
    for number in range(sweeps):
        times = 0.1 * number + np.linspace(0, 0.1, 50)
        column = np.sort(rng.integers(0, 50, 3000)).astype("i4")
        points = racks(rng, 3000) - np.outer(speed * times[column], ALONG) + rng.normal(0, 0.01, (3000, 3))
        found.append(Sweep(points.astype("f4"), column, times, float(times[-1])))
    return found


@pytest.mark.parametrize("speed", [-1.3, 0.0, 1.2, 7.0])
def test_the_speed_along_an_aisle_is_among_the_best_three(speed: float) -> None:
    rng = np.random.default_rng(2)
    guess = SplineTrajectory.at_rest(0.0, 0.7, 0.1)
    # What the guess believes of this direction does not matter.
    guess.pos[:] += rng.normal(0, 0.1, (len(guess.pos), 1)) * ALONG
    found = [each.at(np.array([0.2, 0.4])).vel for each in with_other_speeds(drive(rng, speed), guess, np.eye(3))]
    # Five sweeps take half a second, in which the last one moves by a cell from one speed to the next.
    assert min(np.abs(vel - speed * ALONG).max() for vel in found) < 0.201
    assert len(found) == 3


def test_motion_in_other_directions_is_that_of_the_guess() -> None:
    rng = np.random.default_rng(3)
    guess = SplineTrajectory.at_rest(0.0, 0.7, 0.1)
    guess.pos[:, 1] += np.linspace(0, 0.5, len(guess.pos))
    for each in with_other_speeds(drive(rng, 1.2), guess, np.eye(3)):
        assert np.abs(each.pos[:, 1:] - guess.pos[:, 1:]).max() < 1e-12


def tunnel(rng: np.random.Generator, speed: float, unequal: float = 0.0, lorry: float | None = None) -> list[Sweep]:
    """Sweeps of a lidar that turns ten times a second in a tunnel 6 m wide, with pilasters about every 2 m.

    Args:
        unequal: by how much pilasters are elsewhere, m.
        lorry: speed of the front of a lorry that fills a sector ahead, m/s; None = there is none.
    """
    sweeps, up = [], np.tan(np.radians(np.linspace(-15, 15, 16)))
    pilasters = np.arange(-100, 100)
    flanks = 2.0 * pilasters + unequal * np.sin(9 * pilasters)  # the first one of each, which is 0.3 m wide
    for number in range(20):
        times = 0.1 * (number + np.linspace(0, 1, 360, endpoint=False))
        azimuth = np.linspace(-np.pi, np.pi, 360, endpoint=False) + 1e-3
        x, y = np.cos(azimuth), np.abs(np.sin(azimuth))
        here, reach = speed * times, np.minimum(2.6 / y, 60)
        # The ray is at the inner side of the pilasters, and meets the next flank unless it reaches the wall before.
        ahead = here + reach * x
        last = np.searchsorted(flanks, ahead) - 1
        inside = ahead - flanks[last] < 0.3
        flank = np.where(x > 0, flanks[last + 1] - ahead, ahead - flanks[last] - 0.3) / np.abs(x)
        distance = np.where(inside, reach, np.minimum(reach + flank, 3 / y))
        if lorry is not None:
            front = (25 + (lorry - speed) * times) / x
            distance = np.where((x > 0.98) & (front < distance), front, distance)
        points = np.stack([x, np.sin(azimuth), 0 * x], 1)[:, None] + np.outer(up, [0, 0, 1.0])
        points = points * (distance[:, None] + 0.01 * rng.standard_normal((360, 16)))[..., None]
        column = np.repeat(np.arange(360, dtype="i4"), 16)
        near = distance[column] < 40
        sweeps.append(Sweep(points.reshape(-1, 3)[near].astype("f4"), column[near], times, float(times[-1])))
    return sweeps


def ambiguity_at(speed: float, sweeps: list[Sweep]) -> float:
    """That of sweeps which seem to be from a lidar that moves along the aisle, m/s."""
    trajectory, options = SplineTrajectory.at_rest(0.0, 2.1, 0.1), OdometryOptions()
    instants = trajectory.start + (np.arange(len(trajectory.pos)) - 1) * trajectory.step
    trajectory.pos[:] += speed * np.outer(instants, ALONG)
    weights = NO_ERRORS.weights(options, np.zeros(0))
    return ambiguity([*on_others(sweeps, trajectory, TwoMaps(options, len(sweeps)))], trajectory, np.eye(3), weights)


@pytest.mark.parametrize("speed", [20.0, -20.0])
def test_a_rig_that_passes_a_pilaster_a_sweep_may_stand_or_drive(speed: float) -> None:
    assert ambiguity_at(0.0, tunnel(np.random.default_rng(0), speed)) > 2


def test_a_rig_that_stands_where_it_may_as_well_pass_a_pilaster_a_sweep_is_not_known_to_stand() -> None:
    assert ambiguity_at(0.0, tunnel(np.random.default_rng(0), 0.0)) > 1


@pytest.mark.parametrize("speed", [7.0, 16.0])
def test_of_two_speeds_at_which_a_rig_moves_the_one_that_more_points_agree_at_is_real(speed: float) -> None:
    sweeps = tunnel(np.random.default_rng(0), speed)
    assert ambiguity_at(speed, sweeps) < 1 < ambiguity_at(speed - 20.0, sweeps)


@pytest.mark.parametrize("lorry", [None, 7.3])
def test_a_rig_that_stands_among_unequal_pilasters_stands_also_if_a_lorry_drives(lorry: float | None) -> None:
    assert ambiguity_at(0.0, tunnel(np.random.default_rng(1), 0.0, 0.6, lorry)) < 0.7


def test_a_world_that_leans_fills_as_many_cells() -> None:
    sweeps, leaning = tunnel(np.random.default_rng(0), 20.0, 0.6)[:5], Rotation.from_rotvec([0.3, -0.06, 0.1])
    places = np.concatenate([sweep.points for sweep in sweeps]).astype(float)
    since = np.concatenate([sweep.times[sweep.column] for sweep in sweeps])
    speeds, upright = filled([places], [since], np.eye(3), [0.2])
    _, leans = filled([leaning.apply(places)], [since], leaning.as_matrix().T, [0.2])
    assert speeds[upright.argmin()] == pytest.approx(20.0, abs=0.2)
    assert np.abs(upright - leans).max() <= 2  # but for rounding


def test_of_the_points_of_a_sweep_in_a_cell_one_counts_at_all_speeds() -> None:
    rng = np.random.default_rng(4)
    cells = np.unique(rng.integers(0, 20, (300, 3)), axis=0)
    since = rng.uniform(0, 0.1, len(cells))
    places, beside = (cells + 0.5, cells + rng.uniform(0.1, 0.9, cells.shape))
    alone = filled([places, places], [since, since + 1], np.eye(3), [1.0])[1]
    both = [np.concatenate([places, beside])] * 2
    twice = filled(both, [np.tile(since, 2), np.tile(since, 2) + 1], np.eye(3), [1.0])[1]
    assert np.array_equal(alone, twice)


def test_only_a_direction_that_hardly_any_surface_faces_is_open() -> None:
    information = np.diag([2.0, 50.0, 48.0, 1.0, 1.0, 1.0])
    found = open_direction(information)
    assert found is not None and np.abs(found).tolist() == [[1, 0, 0], [0, 0, 1], [0, 1, 0]]
    assert open_direction(information + np.diag([4.0, 0, 0, 0, 0, 0])) is None


def test_sweeps_that_agree_at_another_speed_are_refused_and_the_user_reads_why() -> None:
    ts, ones, nothing = 0.1 * np.arange(60), np.ones(60), np.zeros((60, 3))
    quality = Quality(ones, 0.01 * ones, 5e6 * ones, 1e-3 * ones, 1e-3 * ones, 1e6 * ones, 1e6 * ones, 1e6 * ones, ones,
                      ambiguity=np.where(np.arange(60) < 20, 1.0, 0.9))  # fmt: skip
    state = State(pos=ts[:, None] * [1.0, 0, 0], rot=np.tile(np.eye(3), (60, 1, 1)), vel=nothing, acc=nothing,
                  avel=nothing + 0.1)  # fmt: skip
    (refusal,) = [each for each in quality.refused(OdometryOptions(), state, ts) if each.frames.any()]
    assert (refusal.rule, refusal.parts, int(refusal.frames.sum())) == ("aliased", True, 20)
    assert "20 sweeps would agree at another speed" in doubt_warnings({"aliased": refusal.frames})[0]
