"""Loop closure: trajectories with drift put in on purpose, places that look alike, matches that are wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from rover_pipeline.kinematics.rotation import exp
from rover_pipeline.kinematics.state import State
from rover_pipeline.kinematics.trajectory import Trajectory
from rover_pipeline.odometry.closures import LocalMap, Match, match
from rover_pipeline.odometry.loops import Loop as PlaceAgain
from rover_pipeline.odometry.loops import close_loops, closure_of, only_trusted, tells_of_drift
from rover_pipeline.odometry.observations import Sweep
from rover_pipeline.odometry.options import OdometrySection
from rover_pipeline.odometry.places import travelled
from rover_pipeline.odometry.pose_graph import Closure, bend, optimize
from rover_pipeline.simulate.motion.motion import WALKING, Gait, Motion
from rover_pipeline.simulate.motion.path import ClosedPath as Loop
from rover_pipeline.simulate.motion.path import ellipse
from rover_pipeline.simulate.motion.path import rounded_rectangle as ring
from tests.odometry.truth import errors

gtsam = pytest.importorskip("gtsam", reason="GTSAM is in the extra `loops`")


def block(rng: np.random.Generator, low: Sequence[float], high: Sequence[float]) -> np.ndarray:
    """Points on the four sides of an upright block, one in every 7 cm or so."""
    (x0, y0, z0), (x1, y1, z1) = low, high
    faces = []
    for start, along in (
        ((x0, y0), (x1 - x0, 0)),
        ((x1, y0), (0, y1 - y0)),
        ((x1, y1), (x0 - x1, 0)),
        ((x0, y1), (0, y0 - y1)),
    ):
        length = abs(along[0] + along[1])
        share = rng.uniform(0, 1, (int(200 * length * (z1 - z0)), 2))
        faces.append(np.column_stack([np.array(start) + share[:, :1] * along, z0 + share[:, 1] * (z1 - z0)]))
    return np.concatenate(faces)


def floor(rng: np.random.Generator, low: Sequence[float], high: Sequence[float]) -> np.ndarray:
    size = np.subtract(high, low)
    count = int(120 * size[0] * size[1])
    return np.column_stack([np.array(low) + rng.uniform(0, 1, (count, 2)) * size, np.zeros(count)])


def hall(seed: int = 0, wide: float = 0.0) -> np.ndarray:
    """Points of passages round a block, with things in them that no two places share; walls are farther off by some."""
    rng = np.random.default_rng(seed)
    x, y = 8 + wide, 6 + wide / 2
    parts = [block(rng, (-x, -y, 0), (x, y, 2.6)), block(rng, (x - 13, y - 9, 0), (13 - x, 9 - y, 2.6))]
    parts.append(floor(rng, (-x, -y), (x, y)))
    for x, y, w, d, h in rng.uniform((-8, -6, 0.3, 0.3, 0.6), (8, 6, 0.9, 0.9, 2.0), (60, 5)):
        if max(abs(x) / 7.3, abs(y) / 5.3) > 1:
            parts.append(block(rng, (x, y, 0), (x + w, y + d, h)))
    return np.concatenate(parts)


def corridor(length: float, period: float) -> np.ndarray:
    """Points of a corridor along x with the same niche in every period, closed at both ends."""
    rng = np.random.default_rng(1)
    parts = [block(rng, (-1, -1.2, 0), (length + 1, 1.2, 2.6)), floor(rng, (-1, -1.2), (length + 1, 1.2))]
    for x in np.arange(0.5, length, period):
        parts += [block(rng, (x, 1.2, 0), (x + 0.9, 1.5, 2.1)), block(rng, (x + 1.5, -1.5, 0), (x + 1.8, -1.2, 2.6))]
    return np.concatenate(parts)


class Walk(NamedTuple):
    """What a lidar saw on its way, and how it moved."""

    truth: State
    times: np.ndarray
    sweeps: Callable[[Sequence[int]], Iterator[Sweep]]


def walk(loop: Loop, seconds: float, world: np.ndarray, gait: Gait = WALKING, speed: float = 1.5) -> Walk:
    """Sweeps of an instant each, of the points within 7 m."""
    times = np.arange(0.0, seconds, 0.1)
    truth = State(*Motion(loop, speed, 1.4, gait, stand=0.0).at(times))

    x, y = world[:, 0].copy(), world[:, 1].copy()

    def sweeps(numbers: Sequence[int]) -> Iterator[Sweep]:
        for number in numbers:
            rng, here = np.random.default_rng(number), truth.pos[number]
            near = world[(x - here[0]) ** 2 + (y - here[1]) ** 2 < 49]
            seen = near[rng.integers(0, len(near), 5000)] + rng.normal(0, 0.005, (5000, 3))
            points = ((seen - truth.pos[number]) @ truth.rot[number]).astype("f4")
            yield Sweep(points, np.zeros(len(points), "i4"), times[number : number + 1], float(times[number]))

    return Walk(truth, times, sweeps)


def drifted(state: State, times: np.ndarray, drift: float, seed: int) -> State:
    """The same with errors that add up over the way, `drift` of it or so, of position and rotation."""
    rng, way = np.random.default_rng(seed), travelled(state.pos)
    keys = np.unique(np.append(np.searchsorted(way, np.arange(0, way[-1], 2.0)), len(way) - 1))
    always, turn, pos, rot = rng.normal(0, 0.6, 6), np.array([0, 0, 0, 0.1, 0.1, 0.2]), [state.pos[0]], [state.rot[0]]
    for a, b in pairwise(keys):
        off = drift * (way[b] - way[a]) * (always + rng.normal(0, 0.6, 6))
        pos.append(pos[-1] + rot[-1] @ state.rot[a].T @ (state.pos[b] - state.pos[a]) + off[:3])
        rot.append(rot[-1] @ state.rot[a].T @ state.rot[b] @ exp((off * turn)[None, 3:])[0])
    return bend(state, times, times[keys], (state.pos[keys], state.rot[keys]), (np.array(pos), np.array(rot)))


def closed(seen: Walk, state: State, known: np.ndarray | None = None, **options: Any) -> tuple[State, dict[str, Any]]:
    known = np.ones(len(seen.times), bool) if known is None else known
    return close_loops(
        state,
        seen.times,
        known,
        np.where(known, 0.001, np.inf),
        OdometrySection(loops=True, **options),
        sweeps=seen.sweeps,
        spread=lambda task, ranges, title: (task(*each) for each in ranges),
    )


@pytest.fixture(scope="module")
def laps() -> Walk:
    """A lap of the hall and a third of another one."""
    return walk(ring(6.5, 4.5, 1.5), 39.0, hall())


@pytest.mark.parametrize(("drift", "allowed"), [(0.008, 0.01), (0.02, 0.03)])
def test_drift_between_two_laps_is_taken_out(laps: Walk, drift: float, allowed: float) -> None:
    bad = drifted(laps.truth, laps.times, drift, 1)
    found, told = closed(laps, bad, loop_drift=allowed)
    before, after = errors(bad, laps.truth), errors(found, laps.truth)
    assert before.pos > 0.05 and len(told["accepted"]) >= 3
    assert after.pos < before.pos / 4 and after.rot < before.rot and after.vel < before.vel
    np.testing.assert_allclose(found.pos[0], bad.pos[0], atol=1e-4)


def test_loops_that_fit_badly_or_need_more_drift_than_is_allowed_for_are_refused() -> None:
    good = Match(np.array([0.3, 0.0, 0.1]), exp(np.array([[0.0, 0.0, 0.02]]))[0], np.eye(6), 0.8, 0.01, 300)
    bounds, options = {(0, 9): np.array([0.4, 0.03])}, OdometrySection()
    assert only_trusted([PlaceAgain(0, 9, good)], bounds, options)
    for bad in (
        good._replace(shift=np.array([0.3, 0.3, 0.1])),
        good._replace(turn=exp(np.array([[0.0, 0.02, 0.03]]))[0]),
        good._replace(inliers=0.5),
        good._replace(residual=0.04),
        good._replace(walls=40),
    ):
        assert not only_trusted([PlaceAgain(0, 9, bad)], bounds, options)


def test_a_trajectory_without_drift_is_left_as_it_is(laps: Walk) -> None:
    found, told = closed(laps, laps.truth)
    assert len(told["accepted"]) >= 3 and told["largest"] is None
    assert max(each["metres"] for each in told["accepted"]) < 0.003
    assert all(a.tobytes() == b.tobytes() for a, b in zip(found, laps.truth, strict=True))


def test_sweeps_that_are_not_to_be_used_do_not_keep_a_loop_open(laps: Walk) -> None:
    known = np.random.default_rng(2).uniform(size=len(laps.times)) > 0.25
    known[-12:] = False
    bad = drifted(laps.truth, laps.times, 0.008, 1)
    found, told = closed(laps, bad, known)
    assert len(told["accepted"]) >= 2
    assert errors(found, laps.truth).pos < errors(bad, laps.truth).pos / 3
    # Those at the end go along.
    assert np.linalg.norm(np.diff(found.pos - bad.pos, axis=0), axis=1).max() < 0.03


def test_one_loop_on_its_own_is_not_enough(laps: Walk) -> None:
    count = 258  # when it has just come back
    once = Walk(State(*(each[:count] for each in laps.truth)), laps.times[:count], laps.sweeps)
    bad = drifted(once.truth, once.times, 0.008, 1)
    found, told = closed(once, bad, loop_inliers=0.5)
    assert told["candidates"] == 1 and told["accepted"] == []
    assert found.pos.tobytes() == bad.pos.tobytes()


def test_a_way_that_never_comes_back_has_no_loop(laps: Walk) -> None:
    once = Walk(State(*(each[:150] for each in laps.truth)), laps.times[:150], laps.sweeps)
    found, told = closed(once, once.truth)
    assert told["candidates"] == 0 and told["accepted"] == []
    assert found.pos.tobytes() == once.truth.pos.tobytes()


def test_a_recording_without_poses_has_no_loop(laps: Walk) -> None:
    lost = State(*(np.full_like(each, np.nan) for each in laps.truth))
    _, told = closed(laps, lost, np.zeros(len(laps.times), bool))
    assert told["places"] == 0 and told["accepted"] == []


@pytest.mark.parametrize("drift", [0.0, 0.004])
def test_niches_that_repeat_in_a_corridor_do_not_bend_the_way(drift: float) -> None:
    # There and back: each place looks as those one period on and back do, and the drift that is allowed for is more.
    there = walk(ellipse(15.0, 0.0, 14.0, 0.3), 38.0, corridor(30.0, 3.0), Gait())
    state = drifted(there.truth, there.times, drift, 3)
    found, told = closed(there, state, loop_drift=0.06)
    assert told["candidates"] > 3
    assert errors(found, there.truth).pos <= errors(state, there.truth).pos + 1e-5
    assert max((each["metres"] for each in told["accepted"]), default=0.0) < 1.0


def test_rooms_that_look_alike_are_not_one() -> None:
    room = hall()
    two = np.concatenate([room, room + np.array([0.0, 20.0, 0.0])])
    one = walk(ring(6.5, 4.5, 1.5), 22.0, two)
    # The same way once more in the other room, where the lidar is put within a moment.
    second = State(one.truth.pos + np.array([0.0, 20.0, 0.0]), *one.truth[1:])
    truth = State(*(np.concatenate(pair) for pair in zip(one.truth, second, strict=True)))
    times = np.arange(len(truth.pos)) / 10
    seen = Walk(truth, times, lambda numbers: _of_two(one, len(one.times), numbers))
    found, told = closed(seen, truth)
    assert told["accepted"] == [] and found.pos.tobytes() == truth.pos.tobytes()
    # An odometry that has the second room where the first one is cannot know, within the drift that is allowed for.
    mistaken = State(np.concatenate([one.truth.pos, one.truth.pos + 0.2]), *truth[1:])
    assert len(closed(seen, mistaken)[1]["accepted"]) > 3


def test_another_room_in_the_same_place_is_not_taken_for_the_first(laps: Walk) -> None:
    other = walk(ring(6.5, 4.5, 1.5), 39.0, hall(5, 0.4))
    seen = laps._replace(sweeps=lambda numbers: (laps if numbers[0] < 230 else other).sweeps(numbers))
    _, told = closed(seen, laps.truth)
    assert told["candidates"] > 3 and told["accepted"] == []


def test_of_places_that_repeat_the_nearest_is_taken() -> None:
    world = corridor(30.0, 3.0)
    seen = walk(ellipse(15.0, 0.0, 13.0, 0.3), 20.0, world, Gait())
    motion = Trajectory(seen.times, seen.truth, np.ones(len(seen.times)))
    here, there = (int(np.argmin(np.abs(seen.truth.pos[:, 0] - x))) for x in (14.0, 16.0))
    origin = seen.truth.pos[here]
    maps = [
        LocalMap(seen.sweeps(range(frame - 6, frame + 7)), motion, origin, (0.25, 0.5, 1.0)) for frame in (there, here)
    ]
    found = match(maps[0], maps[1], 4.0, 0.1)
    assert found is not None and found.inliers > 0.6
    assert np.linalg.norm(found.shift) < 0.01


def test_what_a_loop_cannot_tell_is_no_drift() -> None:
    # 4 cm along a corridor that shows 2 cm of it at best, and the same where walls across say better.
    for known, off in ((0.02, False), (0.001, True)):
        information = np.diag([known**-2, 1e6, 1e6, 1e8, 1e8, 1e8])
        found = Match(np.array([0.04, 0.0, 0.0]), np.eye(3), information, 1.0, 0.01, 100)
        assert tells_of_drift(found, 0.01) == off
    assert not tells_of_drift(found, 0.05)


def test_a_closure_is_as_loose_as_its_loop_in_the_same_direction() -> None:
    # A corridor along the world's x, which a lidar that looks along y has on its left and right.
    information = np.diag([1.0, 1e6, 1e6, 1e8, 1e8, 1e8])
    loop = PlaceAgain(0, 1, Match(np.array([0.5, 0.0, 0.0]), np.eye(3), information, 1.0, 0.01, 100))
    rot = Rotation.from_euler("z", [[0.0], [90.0]], degrees=True).as_matrix()
    closure = closure_of(loop, np.array([[0.0, 0, 0], [2.0, 0, 0]]), rot)
    np.testing.assert_allclose(closure.pos, [2.5, 0, 0], atol=1e-12)
    np.testing.assert_allclose(np.diag(closure.covariance)[:3], [1e-5, 1.0, 1e-5], atol=2e-5)


def _of_two(one: Walk, count: int, numbers: Sequence[int]) -> Iterator[Sweep]:
    for number in numbers:
        (sweep,) = one.sweeps([number % count])
        yield sweep._replace(times=np.array([number / 10]), end=number / 10)


def graph(seed: int) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray], list[Closure]]:
    """Two rounds of key poses on a circle, the same with drift, and twelve closures of which four are wrong."""
    rng, angle = np.random.default_rng(seed), np.linspace(0, 4 * np.pi, 60, endpoint=False)
    pos = np.column_stack([10 * np.cos(angle), 10 * np.sin(angle), 0.1 * np.sin(3 * angle)])
    rot = Rotation.from_euler("z", angle[:, None]).as_matrix()
    drift_pos, drift_rot = [pos[0]], [rot[0]]
    for a, b in pairwise(range(60)):
        off = np.array([0.02, 0.01, 0.01, 0.001, 0.001, 0.004]) + rng.normal(0, 0.005, 6) * [1, 1, 1, 0.2, 0.2, 0.2]
        drift_pos.append(drift_pos[-1] + drift_rot[-1] @ (rot[a].T @ (pos[b] - pos[a]) + off[:3]))
        drift_rot.append(drift_rot[-1] @ rot[a].T @ rot[b] @ exp(off[None, 3:])[0])
    closures = []
    for number in range(12):
        first = 2 * number
        second = first + 30
        off = rng.normal(0, [0.003] * 3 + [0.0005] * 3)
        if number % 3 == 1:
            off = rng.normal(0, [1.0] * 3 + [0.1] * 3)
        measured = rot[first].T @ (pos[second] - pos[first]) + off[:3]
        turned = rot[first].T @ rot[second] @ exp(off[None, 3:])[0]
        closures.append(Closure(first, second, measured, turned, np.diag([0.003] * 3 + [0.0005] * 3) ** 2))
    return (pos, rot), (np.array(drift_pos), np.array(drift_rot)), closures


def test_wrong_closures_are_given_up_and_the_others_take_out_the_drift() -> None:
    for seed in range(3):
        (pos, _), (bad, turned), closures = graph(seed)
        found, rot, kept = optimize(bad, turned, np.full((59, 2), [0.05, 0.01]), closures)
        assert kept.tolist() == [number % 3 != 1 for number in range(12)]
        before, after = (np.sqrt(np.square(each - pos).sum(1).mean()) for each in (bad, found))
        assert before > 0.3 and after < before / 5
        np.testing.assert_allclose(rot @ np.swapaxes(rot, 1, 2), np.tile(np.eye(3), (60, 1, 1)), atol=1e-9)


def test_without_closures_key_poses_stay() -> None:
    _, (bad, turned), _ = graph(0)
    found, rot, kept = optimize(bad, turned, np.full((59, 2), [0.05, 0.01]), [])
    np.testing.assert_allclose(found, bad, atol=1e-9)
    np.testing.assert_allclose(rot, turned, atol=1e-9)
    assert len(kept) == 0


def moving(times: np.ndarray) -> State:
    return State(*Motion(ellipse(0.0, 0.0, 5.0, 3.0), 1.2, 1.0, WALKING, stand=0.0).at(times))


def test_a_bent_trajectory_is_still_a_motion() -> None:
    times = np.arange(0.0, 12.0, 1e-3)
    state, keys = moving(times), np.arange(0, 12000, 1500)
    keys[-1] = len(times) - 1
    rng = np.random.default_rng(4)
    old = state.pos[keys], state.rot[keys]
    new = old[0] + rng.normal(0, 0.3, (len(keys), 3)), exp(rng.normal(0, 0.2, (len(keys), 3))) @ old[1]
    bent = bend(state, times, times[keys], old, new)
    np.testing.assert_allclose(bent.pos[keys], new[0], atol=1e-9)
    np.testing.assert_allclose(bent.rot[keys], new[1], atol=1e-9)
    middle = slice(1, -1)
    np.testing.assert_allclose(bent.vel[middle], (bent.pos[2:] - bent.pos[:-2]) / 2e-3, atol=1e-3)
    np.testing.assert_allclose(bent.acc[middle], (bent.vel[2:] - bent.vel[:-2]) / 2e-3, atol=1e-2)
    turns = np.swapaxes(bent.rot[:-2], 1, 2) @ bent.rot[2:]
    np.testing.assert_allclose(bent.avel[middle], Rotation.from_matrix(turns).as_rotvec() / 2e-3, atol=1e-3)


def test_key_poses_that_move_together_move_everything_as_one() -> None:
    times = np.arange(0.0, 8.0, 0.1)
    state, keys = moving(times), np.array([0, 20, 45, 60, 79])
    turn, shift = Rotation.from_euler("xyz", [0.2, -0.1, 1.0]).as_matrix(), np.array([3.0, -1.0, 0.5])
    old = state.pos[keys], state.rot[keys]
    bent = bend(state, times, times[keys], old, (old[0] @ turn.T + shift, turn @ old[1]))
    np.testing.assert_allclose(bent.rot, turn @ state.rot, atol=1e-9)
    np.testing.assert_allclose(bent.avel, state.avel, atol=1e-9)
    np.testing.assert_allclose(bent.acc, state.acc @ turn.T, atol=0.6)
    np.testing.assert_allclose(bent.pos, state.pos @ turn.T + shift, atol=0.4)
