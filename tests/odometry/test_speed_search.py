"""Along an aisle, whose racks hardly face it, the speed is found by which a few sweeps fill the fewest cells."""

from __future__ import annotations

import numpy as np
import pytest

from rover_pipeline.odometry.observations import Sweep
from rover_pipeline.odometry.registration.first_guess import with_other_speeds
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
    found = [each.at(np.array([0.2, 0.4])).vel for each in with_other_speeds(drive(rng, speed), guess, ALONG)]
    # Five sweeps take half a second, in which the last one moves by a cell from one speed to the next.
    assert min(np.abs(vel - speed * ALONG).max() for vel in found) < 0.201
    assert len(found) == 3


def test_motion_in_other_directions_is_that_of_the_guess() -> None:
    rng = np.random.default_rng(3)
    guess = SplineTrajectory.at_rest(0.0, 0.7, 0.1)
    guess.pos[:, 1] += np.linspace(0, 0.5, len(guess.pos))
    for each in with_other_speeds(drive(rng, 1.2), guess, ALONG):
        assert np.abs(each.pos[:, 1:] - guess.pos[:, 1:]).max() < 1e-12
