"""Boxes that drive along known ways: their velocities, headings, sizes and standard deviations."""

from __future__ import annotations

import numpy as np
import pytest

from rover_pipeline.kinematics.mount import IDENTITY
from rover_pipeline.kinematics.state import State
from rover_pipeline.kinematics.trajectory import Trajectory
from rover_pipeline.objects.bodies import Body, Echoes, moving_body
from rover_pipeline.objects.clusters import MOVING, STANDING, UNKNOWN, Clusters, Points, moving_clusters
from rover_pipeline.objects.merging import merged_tracks
from tests.objects.synthetic import PERIOD, STEP, Way, bend, seen, velocities

CAR = (4.2, 1.75)
STAMPS = PERIOD * np.arange(1, 41)


def of(clusters: Clusters) -> Body:
    return moving_body(clusters, STAMPS, None, STEP)


def errors(body: Body, way: Way) -> np.ndarray:
    """Errors of the velocity, f8 (N,), m/s."""
    return np.asarray(np.linalg.norm(body.vel[:, :2] - velocities(way, STAMPS[body.sweep]), axis=1))


@pytest.mark.parametrize("lidar", [(10.0, -9.0), (30.0, 6.0), (3.0, 12.0)])
def test_the_velocity_of_a_car_in_a_bend_is_known_to_0_15_metres_in_a_second(lidar: tuple[float, float]) -> None:
    """The bend begins at once, with 1.4 rad/s. One of the lidars sees the car by both ends of a revolution in it."""
    way = bend(7.0, 5.0)
    body = of(seen(way, CAR, STAMPS, lidar, seed=1))
    away = errors(body, way)
    assert np.sqrt((away**2).mean()) < 0.15
    assert np.abs(body.extent[:2] - CAR).max() < 0.15
    place, yaw = way(STAMPS[body.sweep])
    assert np.abs(body.yaw - yaw).max() < np.radians(4)
    assert np.linalg.norm(body.centre[:, :2] - place, axis=1).max() < 0.15


def test_ends_that_something_hides_move_no_car() -> None:
    """A row of trees hides the front of the car, then the rear, then the front again, and at last all but the rear."""
    parts = {0: (-3.0, 3.0), 1: (-3.0, 0.2), 2: (-0.4, 3.0), 3: (-3.0, -0.9)}
    way = bend(7.0, 1e3)
    body = of(seen(way, CAR, STAMPS, (10.0, -15.0), seed=2, hidden=lambda sweep: parts[(sweep // 6) % 4]))
    away = errors(body, way)
    assert np.sqrt((away**2).mean()) < 0.15 and away.max() < 0.5
    assert np.abs(body.extent[:2] - CAR).max() < 0.2


@pytest.mark.parametrize(("width", "allowed"), [(2.5, 1.2), (3.5, 0.6)])
def test_the_velocity_of_a_car_in_a_gap_that_is_shorter_than_it_is_that_of_its_ends(
    width: float, allowed: float
) -> None:
    """Between two parked cars, no sweep shows both the front and the rear. What is seen hardly moves."""
    way, speed = bend(7.0, 1e4), 7.0
    clusters = seen(
        way,
        CAR,
        STAMPS,
        (13.0, -18.0),
        seed=7,
        hidden=lambda sweep: (13.0 - width / 2 - speed * STAMPS[sweep], 13.0 + width / 2 - speed * STAMPS[sweep]),
    )
    body = of(clusters)
    assert np.ptp(clusters.outline[..., 0], axis=1).max() < width + 0.1
    away = errors(body, way)
    assert np.sqrt((away**2).mean()) < allowed
    assert np.sqrt((away**2 / (2 * body.vel_sd**2)).mean()) < 3.0, "surer than it can be"
    assert abs(body.extent[0] - CAR[0]) < 0.8


def test_the_side_of_a_train_that_passes_behind_a_gap_shows_no_velocity() -> None:
    way, train, speed = bend(6.0, 1e4), (120.0, 2.8), 6.0
    body = of(
        seen(
            way,
            train,
            STAMPS,
            (13.0, -9.0),
            seed=4,
            hidden=lambda sweep: (10.0 - speed * STAMPS[sweep], 16.0 - speed * STAMPS[sweep]),
        )
    )
    assert body.shown == 0, "no cluster shows an end, so that it is no hit of `objects.min_hits`"
    assert np.median(body.vel_sd) > 2.0 and np.median(errors(body, way) / body.vel_sd) < 3.0


@pytest.mark.parametrize("touching", [STANDING, UNKNOWN])
def test_what_moves_may_go_on_where_it_touches_a_surface_that_does_not_seem_to(touching: int) -> None:
    # The side of a bus, 6 m away, of which only the rear third is seen to move; a post stands apart.
    x = np.arange(-6.0, 6.0, 0.04)
    side = np.concatenate([np.column_stack([x, 0 * x + 6.0, 0 * x + z]) for z in (0.6, 1.2, 1.8)])
    label = np.where(side[:, 0] < -2.0, MOVING, touching).astype("u1")
    post = np.array([[-7.0, 6.0, 1.0]])
    xyz, label = np.concatenate([side, post]), np.append(label, STANDING).astype("u1")
    none = np.zeros(len(xyz))
    found = moving_clusters(Points(xyz, none, none, label, none > 0), 0, np.zeros(3), STEP, 8)
    outline, is_open = found.outline[0], found.open[0]
    front = outline[:, 0].max()
    assert len(found.time) == 1 and front < 0.0
    assert is_open[outline[:, 0] > front - 0.05].all() and not is_open[outline[:, 0] < -5.9].any()


def test_errors_of_velocities_are_as_large_as_they_are_said_to_be() -> None:
    ratios = []
    for seed, lidar in ((3, (8.0, -9.0)), (4, (25.0, -4.0)), (5, (-5.0, 8.0))):
        way = bend(6.0, 8.0)
        body = of(seen(way, CAR, STAMPS, lidar, seed=seed))
        ratios.append(errors(body, way) ** 2 / (2 * body.vel_sd**2))
    assert 0.4 < np.sqrt(np.concatenate(ratios).mean()) < 2.0


def test_clusters_of_something_else_at_the_end_of_a_track_are_left_out() -> None:
    way = bend(7.0, 1e3)
    clusters = seen(way, CAR, STAMPS, (10.0, -15.0), seed=6)
    other = clusters.select(slice(-2, None))
    other = other._replace(
        outline=other.outline + np.array([-6, 3], "f4"), sample=other.sample + np.array([-6, 3, 0], "f4")
    )
    body = of(Clusters.joined([clusters.select(slice(0, -2)), other]))
    assert errors(body, way).max() < 0.3


def test_echoes_are_those_of_all_frames_however_many_are_read_at_once() -> None:
    rng, count = np.random.default_rng(4), 1100
    instants = 0.05 * np.arange(count) + rng.uniform(0, 0.08, count)  # some frames are measured before earlier ones
    channels = {
        "xyz": rng.normal(size=(count, 3, 3)).astype("f4"),
        "doppler": rng.normal(size=(count, 3)).astype("f4"),
        "count": rng.integers(0, 4, count).astype("u2"),
        "valid": rng.integers(0, 2, count).astype("u1"),
    }
    ts = np.array([0.0, 30.0, 60.0])
    still = Trajectory(ts, State.standing(3), np.ones(3))
    found = Echoes.of(channels, instants, still, IDENTITY, 5.0, 0.0)
    listed = (np.arange(3) < channels["count"][:, None]) & (channels["valid"][:, None] != 0)
    frame, row = np.nonzero(listed)
    order = np.argsort(instants[frame], kind="stable")
    xyz, doppler = (channels[name][frame, row][order].astype("f8") for name in ("xyz", "doppler"))
    np.testing.assert_array_equal(found.time, instants[frame][order])
    np.testing.assert_array_equal(found.place, xyz[:, :2])
    np.testing.assert_array_equal(found.speed, doppler)
    np.testing.assert_array_equal(found.distance, np.linalg.norm(xyz, axis=1))


def _merged(tracks: list[Clusters]) -> list[Body]:
    return merged_tracks(tracks, of, STAMPS, min_hits=8, coast=1.5)


def _walk(x: float, y: float, speed: float) -> Way:
    def way(times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        yaw = np.full(len(times), 0.0 if speed > 0 else np.pi)
        return np.column_stack([x + speed * times, np.full(len(times), y)]), yaw

    return way


def _between(clusters: Clusters, begin: int, end: int) -> Clusters:
    return clusters.select((clusters.frame >= begin) & (clusters.frame < end))


def test_a_walker_who_comes_out_behind_a_pillar_is_the_same_one() -> None:
    one = seen(_walk(0.0, 5.0, 1.4), (0.3, 0.5), STAMPS, (2.0, 0.0), seed=7)
    bodies = _merged([_between(one, 0, 14), _between(one, 30, 40)])
    assert len(bodies) == 1 and bodies[0].measured.sum() == 24


def test_a_walker_behind_several_pillars_is_the_same_one() -> None:
    one = seen(_walk(0.0, 5.0, 1.4), (0.3, 0.5), STAMPS, (2.0, 0.0), seed=17)
    bodies = _merged([_between(one, 0, 9), _between(one, 13, 22), _between(one, 26, 40)])
    assert len(bodies) == 1


def test_two_walkers_whom_the_tracker_takes_for_one_behind_a_pillar_are_two() -> None:
    """One stops behind the pillar. The other one comes out at once, and nobody turns round in 0.4 s."""
    size = (0.3, 0.5)
    one = _between(seen(_walk(0.0, 5.0, 1.4), size, STAMPS, (2.0, 0.0), seed=8), 0, 16)
    other = _between(seen(_walk(5.4, 5.2, -1.4), size, STAMPS, (2.0, 0.0), seed=9), 19, 40)
    bodies = _merged([Clusters.joined([one, other])])
    assert len(bodies) == 2
    assert bodies[0].vel[:, 0].min() > 1.2 and bodies[1].vel[:, 0].max() < -1.2


def test_which_of_two_walkers_side_by_side_goes_on_is_not_guessed() -> None:
    size = (0.3, 0.5)
    one, left, right = (
        seen(_walk(0.0, y, 1.4), size, STAMPS, (2.0, 0.0), seed=10 + number) for number, y in enumerate((5.0, 4.7, 5.3))
    )
    assert len(_merged([_between(one, 0, 14), _between(left, 26, 40), _between(right, 26, 40)])) == 3


def test_the_front_and_the_rear_of_a_car_that_a_post_parts_are_one_car() -> None:
    way = bend(7.0, 1e3)
    whole = seen(way, CAR, STAMPS, (10.0, -15.0), seed=14)
    front = seen(way, CAR, STAMPS, (10.0, -15.0), seed=15, hidden=lambda sweep: (0.6, 3.0))
    rear = seen(way, CAR, STAMPS, (10.0, -15.0), seed=16, hidden=lambda sweep: (-3.0, -0.2))
    bodies = _merged([Clusters.joined([_between(whole, 0, 20), _between(rear, 20, 40)]), _between(front, 20, 34)])
    assert len(bodies) == 1
    assert errors(bodies[0], way).max() < 0.3


def test_a_car_that_was_seen_in_parts_between_others_is_the_one_that_goes_on() -> None:
    """Its first track has a wrong velocity, because it is seen through a gap. The tracker began another one."""
    way, speed = bend(7.0, 1e4), 7.0
    whole = seen(way, CAR, STAMPS, (13.0, -18.0), seed=18)
    gap = 10.0 - speed * STAMPS
    part = seen(way, CAR, STAMPS, (13.0, -18.0), seed=19, hidden=lambda sweep: (gap[sweep] - 1.4, gap[sweep] + 1.4))
    bodies = _merged([_between(part, 0, 17), _between(whole, 17, 40)])
    assert len(bodies) == 1 and bodies[0].sweep[0] <= 12
    assert errors(bodies[0], way).max() < 0.6


def test_a_car_that_comes_back_the_other_way_is_another_one() -> None:
    """The gap is long enough for a car to turn round, which is not guessed."""
    one = seen(_walk(0.0, 8.0, 5.0), CAR, STAMPS, (2.0, 0.0), seed=20)
    other = seen(_walk(19.5, 8.5, -5.0), CAR, STAMPS, (2.0, 0.0), seed=21)
    assert len(_merged([_between(one, 0, 12), _between(other, 26, 40)])) == 2
