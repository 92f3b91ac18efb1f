"""Loop closure: simulated drift, locations that look alike, and wrong matches."""

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
from rover_pipeline.odometry.loops.closure import Loop as LoopMatch
from rover_pipeline.odometry.loops.closure import (
    close_loops,
    correct_trajectory,
    optimize,
    path_length,
    plausible,
    reveals_drift,
)
from rover_pipeline.odometry.loops.loop_matching import LocalMap, Match, match
from rover_pipeline.odometry.observations import Sweep
from rover_pipeline.odometry.options import OdometrySection
from rover_pipeline.simulate.motion import WALKING, Gait, Motion, ellipse
from rover_pipeline.simulate.motion import ClosedPath as Loop
from rover_pipeline.simulate.motion import rounded_rectangle as ring
from tests.odometry.truth import errors

gtsam = pytest.importorskip("gtsam", reason="GTSAM is in the extra `loops`")


def block(rng: np.random.Generator, low: Sequence[float], high: Sequence[float]) -> np.ndarray:
    """Points on the four sides of an upright box, some 7 cm from one another."""
    (x0, y0, z0), (x1, y1, z1) = low, high
    faces = []
    for start, along in (
        ((x0, y0), (x1 - x0, 0)),
        ((x1, y0), (0, y1 - y0)),
        ((x1, y1), (x0 - x1, 0)),
        ((x0, y1), (0, y0 - y1)),
    ):
        length = abs(along[0] + along[1])
        random = rng.uniform(0, 1, (int(200 * length * (z1 - z0)), 2))
        faces.append(np.column_stack([np.array(start) + random[:, :1] * along, z0 + random[:, 1] * (z1 - z0)]))
    return np.concatenate(faces)


def floor(rng: np.random.Generator, low: Sequence[float], high: Sequence[float]) -> np.ndarray:
    size = np.subtract(high, low)
    count = int(120 * size[0] * size[1])
    return np.column_stack([np.array(low) + rng.uniform(0, 1, (count, 2)) * size, np.zeros(count)])


def hall(seed: int = 0, wide: float = 0.0) -> np.ndarray:
    """Points of a corridor around a block, with different objects everywhere; `wide` moves the outer walls outward."""
    rng = np.random.default_rng(seed)
    x, y = 8 + wide, 6 + wide / 2
    parts = [block(rng, (-x, -y, 0), (x, y, 2.6)), block(rng, (x - 13, y - 9, 0), (13 - x, 9 - y, 2.6))]
    parts.append(floor(rng, (-x, -y), (x, y)))
    for x, y, w, d, h in rng.uniform((-8, -6, 0.3, 0.3, 0.6), (8, 6, 0.9, 0.9, 2.0), (60, 5)):
        if max(abs(x) / 7.3, abs(y) / 5.3) > 1:
            parts.append(block(rng, (x, y, 0), (x + w, y + d, h)))
    return np.concatenate(parts)


def corridor(length: float, period: float) -> np.ndarray:
    """Points of a straight corridor along x with the same niche in every period, closed at both ends."""
    rng = np.random.default_rng(1)
    parts = [block(rng, (-1, -1.2, 0), (length + 1, 1.2, 2.6)), floor(rng, (-1, -1.2), (length + 1, 1.2))]
    for x in np.arange(0.5, length, period):
        parts += [block(rng, (x, 1.2, 0), (x + 0.9, 1.5, 2.1)), block(rng, (x + 1.5, -1.5, 0), (x + 1.8, -1.2, 2.6))]
    return np.concatenate(parts)


class Walk(NamedTuple):
    """A simulated walk: the motion of the lidar, and its sweeps."""

    truth: State
    times: np.ndarray
    sweeps: Callable[[Sequence[int]], Iterator[Sweep]]


def walk(loop: Loop, seconds: float, world: np.ndarray, gait: Gait = WALKING, speed: float = 1.5) -> Walk:
    """A walk along a loop. Each sweep is taken in one instant, of the points within 7 m."""
    times = np.arange(0.0, seconds, 0.1)
    truth = State(*Motion(loop, speed, 1.4, gait, stand=0.0).at(times))

    x, y = world[:, 0].copy(), world[:, 1].copy()

    def sweeps(numbers: Sequence[int]) -> Iterator[Sweep]:
        for number in numbers:
            rng, here = np.random.default_rng(number), truth.pos[number]
            near = world[(x - here[0]) ** 2 + (y - here[1]) ** 2 < 49]
            points = near[rng.integers(0, len(near), 5000)] + rng.normal(0, 0.005, (5000, 3))
            points = ((points - truth.pos[number]) @ truth.rot[number]).astype("f4")
            yield Sweep(points, np.zeros(len(points), "i4"), times[number : number + 1], float(times[number]))

    return Walk(truth, times, sweeps)


def drifted(state: State, times: np.ndarray, drift: float, seed: int) -> State:
    """The trajectory with errors of position and rotation that accumulate, about `drift` metres per metre of path."""
    rng, path = np.random.default_rng(seed), path_length(state.pos)
    keys = np.unique(np.append(np.searchsorted(path, np.arange(0, path[-1], 2.0)), len(path) - 1))
    constant, scale, pos, rot = (
        rng.normal(0, 0.6, 6),
        np.array([0, 0, 0, 0.1, 0.1, 0.2]),
        [state.pos[0]],
        [state.rot[0]],
    )
    for a, b in pairwise(keys):
        error = drift * (path[b] - path[a]) * (constant + rng.normal(0, 0.6, 6))
        pos.append(pos[-1] + rot[-1] @ state.rot[a].T @ (state.pos[b] - state.pos[a]) + error[:3])
        rot.append(rot[-1] @ state.rot[a].T @ state.rot[b] @ exp((error * scale)[None, 3:])[0])
    return correct_trajectory(
        state, times, times[keys], (state.pos[keys], state.rot[keys]), (np.array(pos), np.array(rot))
    )


def closed(walk: Walk, state: State, usable: np.ndarray | None = None, **options: Any) -> tuple[State, dict[str, Any]]:
    """The trajectory of a walk after loop closure, and the summary."""
    usable = np.ones(len(walk.times), bool) if usable is None else usable
    return close_loops(
        state,
        walk.times,
        usable,
        np.where(usable, 0.001, np.inf),
        OdometrySection(loops=True, **options),
        sweeps=walk.sweeps,
        map_ranges=lambda task, ranges, title: (task(*each) for each in ranges),
    )


@pytest.fixture(scope="module")
def laps() -> Walk:
    """A lap of the hall and a third of another one."""
    return walk(ring(6.5, 4.5, 1.5), 39.0, hall())


@pytest.mark.parametrize(("drift", "allowed"), [(0.008, 0.01), (0.02, 0.03)])
def test_drift_between_two_laps_is_removed(laps: Walk, drift: float, allowed: float) -> None:
    bad = drifted(laps.truth, laps.times, drift, 1)
    corrected, summary = closed(laps, bad, loop_drift=allowed)
    before, after = errors(bad, laps.truth), errors(corrected, laps.truth)
    assert before.pos > 0.05 and len(summary["accepted"]) >= 3
    assert after.pos < before.pos / 4 and after.rot < before.rot and after.vel < before.vel
    np.testing.assert_allclose(corrected.pos[0], bad.pos[0], atol=1e-4)


def test_matches_that_fit_badly_or_need_more_drift_than_is_allowed_for_are_no_loops() -> None:
    good = Match(np.array([0.3, 0.0, 0.1]), exp(np.array([[0.0, 0.0, 0.02]]))[0], np.eye(6), 0.8, 0.01, 300)
    bounds, options = {(0, 9): (0.4, 0.03)}, OdometrySection(max_residual=0.03)
    assert plausible([LoopMatch(0, 9, good)], bounds, options)
    for bad in (
        good._replace(shift=np.array([0.3, 0.3, 0.1])),
        good._replace(rotation=exp(np.array([[0.0, 0.02, 0.03]]))[0]),
        good._replace(inliers=0.5),
        good._replace(residual=0.04),
        good._replace(walls=40),
    ):
        assert not plausible([LoopMatch(0, 9, bad)], bounds, options)


def test_a_trajectory_without_drift_is_not_changed(laps: Walk) -> None:
    corrected, summary = closed(laps, laps.truth)
    assert len(summary["accepted"]) >= 3 and summary["largest"] is None
    assert max(each["metres"] for each in summary["accepted"]) < 0.003
    assert all(a.tobytes() == b.tobytes() for a, b in zip(corrected, laps.truth, strict=True))


def test_a_floor_on_the_border_of_voxels_moves_nothing() -> None:
    # 1.59 m below the lidar the border of two voxels of 25 cm halves the points of each, which are few.
    once = walk(ring(6.5, 4.5, 1.5), 39.0, hall() - [0, 0, 0.19])
    corrected, summary = closed(once, once.truth)
    assert len(summary["accepted"]) > 3 and max(each["metres"] for each in summary["accepted"]) < 0.005
    assert corrected.pos.tobytes() == once.truth.pos.tobytes()


def test_loops_are_closed_although_some_sweeps_are_not_usable(laps: Walk) -> None:
    usable = np.random.default_rng(2).uniform(size=len(laps.times)) > 0.25
    usable[-12:] = False
    bad = drifted(laps.truth, laps.times, 0.008, 1)
    corrected, summary = closed(laps, bad, usable)
    assert len(summary["accepted"]) >= 2
    assert errors(corrected, laps.truth).pos < errors(bad, laps.truth).pos / 3
    # The correction goes on smoothly through the frames at the end, which are not usable.
    assert np.linalg.norm(np.diff(corrected.pos - bad.pos, axis=0), axis=1).max() < 0.03


def test_a_loop_that_no_other_loop_confirms_is_not_accepted(laps: Walk) -> None:
    count = 258  # the lidar has just come back to its start
    once = Walk(State(*(each[:count] for each in laps.truth)), laps.times[:count], laps.sweeps)
    bad = drifted(once.truth, once.times, 0.008, 1)
    corrected, summary = closed(once, bad, loop_inliers=0.5)
    assert summary["candidates"] == 1 and summary["accepted"] == []
    assert corrected.pos.tobytes() == bad.pos.tobytes()


def test_a_path_that_never_comes_back_has_no_loop(laps: Walk) -> None:
    once = Walk(State(*(each[:150] for each in laps.truth)), laps.times[:150], laps.sweeps)
    corrected, summary = closed(once, once.truth)
    assert summary["candidates"] == 0 and summary["accepted"] == []
    assert corrected.pos.tobytes() == once.truth.pos.tobytes()


def test_a_recording_without_poses_has_no_loop(laps: Walk) -> None:
    lost = State(*(np.full_like(each, np.nan) for each in laps.truth))
    _, summary = closed(laps, lost, np.zeros(len(laps.times), bool))
    assert summary["places"] == 0 and summary["accepted"] == []


@pytest.mark.parametrize("drift", [0.0, 0.004])
def test_repeated_niches_of_a_corridor_cause_no_wrong_loop(drift: float) -> None:
    # The lidar walks to the end and back. Each location looks like those one period away, and the drift that is allowed
    # for is larger than the period.
    there = walk(ellipse(15.0, 0.0, 14.0, 0.3), 38.0, corridor(30.0, 3.0), Gait())
    state = drifted(there.truth, there.times, drift, 3)
    corrected, summary = closed(there, state, loop_drift=0.06)
    assert summary["candidates"] > 3
    assert errors(corrected, there.truth).pos <= errors(state, there.truth).pos + 1e-5
    assert max((each["metres"] for each in summary["accepted"]), default=0.0) < 1.0


def test_two_rooms_that_look_alike_are_not_matched() -> None:
    room = hall()
    two = np.concatenate([room, room + np.array([0.0, 20.0, 0.0])])
    one = walk(ring(6.5, 4.5, 1.5), 22.0, two)
    # The lidar repeats its path in the other room, to which it is moved in an instant.
    second = State(one.truth.pos + np.array([0.0, 20.0, 0.0]), *one.truth[1:])
    truth = State(*(np.concatenate(pair) for pair in zip(one.truth, second, strict=True)))
    times = np.arange(len(truth.pos)) / 10
    simulated = Walk(truth, times, lambda numbers: _of_two(one, len(one.times), numbers))
    corrected, summary = closed(simulated, truth)
    assert summary["accepted"] == [] and corrected.pos.tobytes() == truth.pos.tobytes()
    # If the odometry has both rooms at one location, within the drift that is allowed for, nothing distinguishes them.
    mistaken = State(np.concatenate([one.truth.pos, one.truth.pos + 0.2]), *truth[1:])
    assert len(closed(simulated, mistaken)[1]["accepted"]) > 3


def along(corners: Sequence[Sequence[float]], speed: float = 2.0) -> tuple[np.ndarray, State]:
    """Times and states of a way with straight sides, 1.4 m above the floor, ten a second."""
    at = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(corners, axis=0), axis=1))])
    path = np.arange(0.0, at[-1], speed / 10)
    pos = np.column_stack([np.interp(path, at, each) for each in np.transpose(corners)] + [np.full(len(path), 1.4)])
    times, pos[4:-4, :2] = np.arange(len(pos)) / 10, np.lib.stride_tricks.sliding_window_view(pos[:, :2], 9, 0).mean(2)
    vel = np.gradient(pos, times, axis=0)
    yaw = np.unwrap(np.arctan2(vel[:, 1], vel[:, 0]))
    avel = np.column_stack([0 * yaw, 0 * yaw, np.gradient(yaw, times)])
    rot = Rotation.from_euler("z", yaw[:, None]).as_matrix()
    return times, State(pos, rot, vel, np.gradient(vel, times, axis=0), avel)


def seen(times: np.ndarray, truth: State, room: Callable[[np.ndarray], np.ndarray]) -> Walk:
    """A walk whose sweeps see the points of the room alone that the lidar is in, within 12 m."""

    def sweeps(numbers: Sequence[int]) -> Iterator[Sweep]:
        for number in numbers:
            rng, here = np.random.default_rng(number), truth.pos[number]
            near = room(here)
            near = near[((near[:, :2] - here[:2]) ** 2).sum(1) < 144]
            points = near[rng.integers(0, len(near), 6000)] + rng.normal(0, 0.005, (6000, 3))
            points = ((points - here) @ truth.rot[number]).astype("f4")
            yield Sweep(points, np.zeros(len(points), "i4"), times[number : number + 1], float(times[number]))

    return Walk(truth, times, sweeps)


def furnished(seed: int, low: Sequence[float], high: Sequence[float], count: int) -> np.ndarray:
    """Points of a room with objects along two of its walls."""
    rng = np.random.default_rng(seed)
    parts = [block(rng, (*low, 0), (*high, 2.6)), floor(rng, low, high)]
    for _ in range(count):
        x, depth, tall = rng.uniform(low[0], high[0] - 0.9), rng.uniform(0.15, 0.45), rng.uniform(0.6, 2.4)
        y = (low[1], low[1] + depth) if rng.integers(2) else (high[1] - depth, high[1])
        parts.append(block(rng, (x, y[0], 0), (x + rng.uniform(0.3, 0.9), y[1], tall)))
    return np.concatenate(parts)


@pytest.mark.parametrize("other", [1, 5], ids=["alike", "furnished otherwise"])
def test_the_corridor_on_the_other_side_of_a_wall_is_not_matched_however_much_drift_is_allowed_for(other: int) -> None:
    # 240 m of way lie between both, so that 2.4 m of drift are allowed for. There is none.
    one, two = furnished(1, (-1, -1), (31, 1), 14), furnished(other, (-1, 1.3), (31, 3.3), 14)
    around = furnished(9, (-9, -9), (39, 129), 40)
    corners = [(0, 0), (35, 0), (35, 120), (-5, 120), (-5, 2.3), (30, 2.3)]

    def room(here: np.ndarray) -> np.ndarray:
        if not -0.8 <= here[0] <= 30.8 or here[1] > 3.3:
            return around
        return one if here[1] < 1 else two

    walked = seen(*along(corners), room)
    corrected, summary = closed(walked, walked.truth)
    assert summary["candidates"] > 3 and summary["accepted"] == []
    assert corrected.pos.tobytes() == walked.truth.pos.tobytes()


def test_both_sides_of_a_thin_wall_are_not_laid_on_each_other() -> None:
    # Rooms 3 m apart along a corridor, with walls of 10 cm: on the second way along it the other rooms are visited.
    rooms = [furnished(7, (x - 1.45, 1), (x + 1.45, 5), 10) for x in range(0, 18, 3)]
    corridor, around = furnished(8, (-3, -1), (21, 1), 10), furnished(9, (-12, -60), (30, -1.2), 30)
    corners: list[tuple[float, float]] = []
    for visited in ((0, 2, 4), (1, 3, 5)):
        for x in (3.0 * number for number in visited):
            corners += [(x, 0), (x, 3), (x + 0.8, 3.8), (x - 0.8, 3.8), (x, 2), (x, 0)]
        corners += [(18, 0), (23, -5), (23, -30), (-5, -30), (-5, -5)] if visited[0] == 0 else []

    def room(here: np.ndarray) -> np.ndarray:
        if here[1] > 1:
            return rooms[int(np.clip(round(here[0] / 3), 0, 5))]
        return corridor if here[1] > -1.1 else around

    walked = seen(*along(corners), room)
    corrected, summary = closed(walked, walked.truth)
    assert len(summary["accepted"]) > 3, "the corridor is the same"
    assert np.linalg.norm(corrected.pos - walked.truth.pos, axis=1).max() < 0.01


def test_a_different_room_at_the_same_location_is_not_matched(laps: Walk) -> None:
    other = walk(ring(6.5, 4.5, 1.5), 39.0, hall(5, 0.4))
    simulated = laps._replace(sweeps=lambda numbers: (laps if numbers[0] < 230 else other).sweeps(numbers))
    _, summary = closed(simulated, laps.truth)
    assert summary["candidates"] > 3 and summary["accepted"] == []


def test_of_repeated_locations_the_nearest_is_matched() -> None:
    world = corridor(30.0, 3.0)
    simulated = walk(ellipse(15.0, 0.0, 13.0, 0.3), 20.0, world, Gait())
    motion = Trajectory(simulated.times, simulated.truth, np.ones(len(simulated.times)))
    here, there = (int(np.argmin(np.abs(simulated.truth.pos[:, 0] - x))) for x in (14.0, 16.0))
    origin = simulated.truth.pos[here]
    maps = [
        LocalMap(simulated.sweeps(range(frame - 6, frame + 7)), motion, origin, (0.25, 0.5, 1.0))
        for frame in (there, here)
    ]
    matched = match(maps[0], maps[1], 4.0, 0.1)
    assert matched is not None and matched.inliers > 0.6
    assert np.linalg.norm(matched.shift) < 0.01


def test_a_shift_within_the_error_of_a_match_is_no_drift() -> None:
    # 4 cm along a corridor, where the position along it is known to 2 cm, or to 1 mm by walls across the corridor.
    for deviation, drift in ((0.02, False), (0.001, True)):
        information = np.diag([deviation**-2, 1e6, 1e6, 1e8, 1e8, 1e8])
        matched = Match(np.array([0.04, 0.0, 0.0]), np.eye(3), information, 1.0, 0.01, 100)
        assert reveals_drift(matched, 0.002) == drift


def test_the_covariance_of_a_loop_is_in_the_frame_of_the_later_keyframe() -> None:
    # The match is uncertain along the world's x, which is to the right of a lidar that faces y.
    information = np.diag([1.0, 1e6, 1e6, 1e8, 1e8, 1e8])
    loop = LoopMatch(0, 1, Match(np.array([0.5, 0.0, 0.0]), np.eye(3), information, 1.0, 0.01, 100))
    rot = Rotation.from_euler("z", [[0.0], [90.0]], degrees=True).as_matrix()
    np.testing.assert_allclose(np.diag(loop.covariance(rot[1]))[3:], [1e-5, 1.0, 1e-5], atol=2e-5)


def _of_two(one: Walk, count: int, numbers: Sequence[int]) -> Iterator[Sweep]:
    for number in numbers:
        (sweep,) = one.sweeps([number % count])
        yield sweep._replace(times=np.array([number / 10]), end=number / 10)


def graph(seed: int) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray], list[LoopMatch]]:
    """Keyframes of two laps of a circle, the same with drift, and twelve loops of which four are wrong."""
    rng, angle = np.random.default_rng(seed), np.linspace(0, 4 * np.pi, 60, endpoint=False)
    pos = np.column_stack([10 * np.cos(angle), 10 * np.sin(angle), 0.1 * np.sin(3 * angle)])
    rot = Rotation.from_euler("z", angle[:, None]).as_matrix()
    drift_pos, drift_rot = [pos[0]], [rot[0]]
    for a, b in pairwise(range(60)):
        error = np.array([0.02, 0.01, 0.01, 0.001, 0.001, 0.004]) + rng.normal(0, 0.005, 6) * [1, 1, 1, 0.2, 0.2, 0.2]
        drift_pos.append(drift_pos[-1] + drift_rot[-1] @ (rot[a].T @ (pos[b] - pos[a]) + error[:3]))
        drift_rot.append(drift_rot[-1] @ rot[a].T @ rot[b] @ exp(error[None, 3:])[0])
    loops = []
    for number in range(12):
        first = 2 * number
        second = first + 30
        error = rng.normal(0, [0.003] * 3 + [0.0005] * 3)
        if number % 3 == 1:
            error = rng.normal(0, [1.0] * 3 + [0.1] * 3)
        measured = rot[first].T @ (pos[second] - pos[first]) + error[:3]
        rotation = rot[first].T @ rot[second] @ exp(error[None, 3:])[0]
        # Where the match puts the second keyframe beside the first one, in the world of the odometry.
        shift = drift_pos[first] + drift_rot[first] @ measured - drift_pos[second]
        turn = drift_rot[first] @ rotation @ drift_rot[second].T
        loops.append(LoopMatch(first, second, Match(shift, turn, 1e12 * np.eye(6), 1.0, 0.0, 100)))
    return (pos, rot), (np.array(drift_pos), np.array(drift_rot)), loops


def test_wrong_loops_are_rejected_and_the_others_remove_the_drift() -> None:
    for seed in range(3):
        (pos, _), (bad, bad_rot), loops = graph(seed)
        fixed, rot, kept = optimize(bad, bad_rot, np.full((59, 2), [0.05, 0.01]), loops)
        assert kept.tolist() == [number % 3 != 1 for number in range(12)]
        before, after = (np.sqrt(np.square(each - pos).sum(1).mean()) for each in (bad, fixed))
        assert before > 0.3 and after < before / 5
        np.testing.assert_allclose(rot @ np.swapaxes(rot, 1, 2), np.tile(np.eye(3), (60, 1, 1)), atol=1e-9)


def test_without_loops_keyframes_stay() -> None:
    _, (bad, bad_rot), _ = graph(0)
    pos, rot, kept = optimize(bad, bad_rot, np.full((59, 2), [0.05, 0.01]), [])
    np.testing.assert_allclose(pos, bad, atol=1e-9)
    np.testing.assert_allclose(rot, bad_rot, atol=1e-9)
    assert len(kept) == 0


def moving(times: np.ndarray) -> State:
    return State(*Motion(ellipse(0.0, 0.0, 5.0, 3.0), 1.2, 1.0, WALKING, stand=0.0).at(times))


def test_derivatives_of_a_corrected_trajectory_are_consistent() -> None:
    times = np.arange(0.0, 12.0, 1e-3)
    state, keys = moving(times), np.arange(0, 12000, 1500)
    keys[-1] = len(times) - 1
    rng = np.random.default_rng(4)
    old = state.pos[keys], state.rot[keys]
    new = old[0] + rng.normal(0, 0.3, (len(keys), 3)), exp(rng.normal(0, 0.2, (len(keys), 3))) @ old[1]
    corrected = correct_trajectory(state, times, times[keys], old, new)
    np.testing.assert_allclose(corrected.pos[keys], new[0], atol=1e-9)
    np.testing.assert_allclose(corrected.rot[keys], new[1], atol=1e-9)
    middle = slice(1, -1)
    np.testing.assert_allclose(corrected.vel[middle], (corrected.pos[2:] - corrected.pos[:-2]) / 2e-3, atol=1e-3)
    np.testing.assert_allclose(corrected.acc[middle], (corrected.vel[2:] - corrected.vel[:-2]) / 2e-3, atol=1e-2)
    rotations = np.swapaxes(corrected.rot[:-2], 1, 2) @ corrected.rot[2:]
    np.testing.assert_allclose(corrected.avel[middle], Rotation.from_matrix(rotations).as_rotvec() / 2e-3, atol=1e-3)


def test_keyframes_that_move_rigidly_move_the_trajectory_rigidly() -> None:
    times = np.arange(0.0, 8.0, 0.1)
    state, keys = moving(times), np.array([0, 20, 45, 60, 79])
    rotation, shift = Rotation.from_euler("xyz", [0.2, -0.1, 1.0]).as_matrix(), np.array([3.0, -1.0, 0.5])
    old = state.pos[keys], state.rot[keys]
    corrected = correct_trajectory(state, times, times[keys], old, (old[0] @ rotation.T + shift, rotation @ old[1]))
    np.testing.assert_allclose(corrected.rot, rotation @ state.rot, atol=1e-9)
    np.testing.assert_allclose(corrected.avel, state.avel, atol=1e-9)
    np.testing.assert_allclose(corrected.acc, state.acc @ rotation.T, atol=0.6)
    np.testing.assert_allclose(corrected.pos, state.pos @ rotation.T + shift, atol=0.4)
