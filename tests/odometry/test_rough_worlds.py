"""Worlds without planes, gaps and dynamic scenes: what odometry makes of them, and what it does not claim to know."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.format.provenance import PROVENANCE
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.kinematics.state import State
from rover_pipeline.odometry.observations import NO_POINTS, Points, one_in
from rover_pipeline.odometry.options import OdometryOptions
from rover_pipeline.odometry.quality import (
    Quality,
    Refusal,
    _disagreement,
    _noise_of_fitting,
    as_measured,
    trusted,
    unbridged,
)
from rover_pipeline.odometry.registration.batch import _banded
from rover_pipeline.odometry.registration.covariance import _inverse_blocks
from rover_pipeline.odometry.registration.cross_validation import (
    NO_FIT,
    SweepFit,
    _move,
    is_worse,
    weakly_constrained,
)
from rover_pipeline.odometry.registration.sweep_information import PARTS, _unmodelled_motion
from rover_pipeline.odometry.remarks import doubt_warnings
from rover_pipeline.odometry.segments import gaps
from rover_pipeline.simulate.presets import PRESETS
from rover_pipeline.simulate.record import simulate
from rover_pipeline.table import find_step
from tests.odometry.truth import errors, state_of


def recording(path: Path, preset: str, seconds: float, *faults: str, lidar: str = "OS-0-32") -> Path:
    """A simulated recording of a lidar with 512 columns, with its `_odom`."""
    small = PRESETS[preset].model_copy(update={"lidar": lidar, "columns": 512})
    simulate(path, preset=small, duration=seconds, sensors=("lidar",), faults=faults, threads=1)
    for step in ("_lidar_image", "_odom"):
        run_step(find_step(step), path, step, Request())
    return path


def wrong_and_sure(trace: Path) -> int:
    """Number of valid poses that are off by more than 5 cm and 3 % over two seconds."""
    estimate, truth = state_of(trace / "_odom"), state_of(trace / "_truth")
    odom = Sensor(trace / "_odom")
    ts, valid = odom.channel("ts").read(), odom.channel("valid").read() != 0
    later = np.searchsorted(ts, ts + 2.0)
    first = np.flatnonzero((later < len(ts)) & valid)
    first = first[valid[later[first]]]
    moves = [
        np.einsum("nji,nj->ni", each.rot[first], each.pos[later[first]] - each.pos[first]) for each in (estimate, truth)
    ]
    distance = np.linalg.norm(moves[1], axis=1)
    return int((np.linalg.norm(moves[0] - moves[1], axis=1) > 0.05 + 0.03 * distance).sum())


def test_a_walk_in_a_park_with_the_errors_of_a_real_lidar_is_accurate_to_three_centimetres(tmp_path: Path) -> None:
    trace = recording(tmp_path / "park", "park", 4.0, "unkind", lidar="OS-0-128")
    # While the rig stands, nothing may distinguish bushes from people who walk along.
    walks = np.linalg.norm(state_of(trace / "_truth").vel, axis=1) > 0.8
    assert Sensor(trace / "_odom").channel("valid").read()[walks].mean() > 0.95
    assert errors(state_of(trace / "_odom"), state_of(trace / "_truth")).pos < 0.03
    assert wrong_and_sure(trace) == 0


def test_in_bushes_a_lidar_of_32_beams_is_not_held_by_planes_that_its_own_beams_draw(tmp_path: Path) -> None:
    trace = recording(tmp_path / "bushes", "bushes", 4.0, "unkind")
    assert errors(state_of(trace / "_odom"), state_of(trace / "_truth")).pos < 0.05
    # While the rig still stands, few beams draw each plane: sweeps of this time are less certain than is allowed.
    walks = np.linalg.norm(state_of(trace / "_truth").vel, axis=1) > 0.3
    assert Sensor(trace / "_odom").channel("valid").read()[walks].mean() > 0.95
    assert wrong_and_sure(trace) == 0


def test_a_second_without_sweeps_is_bridged_by_what_both_sides_have_seen(tmp_path: Path) -> None:
    trace = recording(tmp_path / "gap", "tiny", 4.0, "lidar-silence=1")
    measured = json.loads((trace / "_odom" / PROVENANCE).read_text())["measured"]
    (seam,) = measured["seams"]
    assert set(measured["refused"]) <= {"inliers", "uncertain"}, "in the gap"
    assert seam["certain"] and seam["metres"] is None
    assert Sensor(trace / "_odom").channel("valid").read().all()
    assert errors(state_of(trace / "_odom"), state_of(trace / "_truth")).pos < 0.005


def test_people_alongside_who_give_most_of_the_points_do_not_hold_a_rig_that_walks_in_a_hall(tmp_path: Path) -> None:
    trace = recording(tmp_path / "crowd", "crowd", 3.2)
    assert errors(state_of(trace / "_odom"), state_of(trace / "_truth")).pos < 0.01
    assert Sensor(trace / "_odom").channel("valid").read().mean() > 0.95


def test_more_points_are_registered_only_where_sweeps_say_little() -> None:
    scale = np.diag([1.0, 1.0, 1.0, 25.0, 25.0, 25.0])
    sharp, rough = (0.5e-3**-2 * scale, 1.3e-3**-2 * scale)
    assert not weakly_constrained(np.stack([sharp, sharp, rough])) and weakly_constrained(
        np.stack([sharp, rough, rough])
    )
    assert not weakly_constrained(np.zeros((3, 6, 6))) and not weakly_constrained(np.full((3, 6, 6), np.nan))
    # Some points are always left to judge by, if there were any.
    assert [one_in(65536, 8192, density) for density in (1, 2, 16)] == [8, 4, 2]
    assert one_in(8192, 8192, 2) == 1 and one_in(500, 8192, 1) == 1


@pytest.mark.parametrize("speed", [0.0, 1.0, 10.0])
def test_a_motion_that_small_bodies_alone_show_may_be_theirs(speed: float) -> None:
    ts, ones, nothing = 0.1 * np.arange(30), np.ones(30), np.zeros((30, 3))
    bare = Quality(ones, 0.01 * ones, 1e6 * ones, 1e-3 * ones, 1e-3 * ones, 1e-3 * ones, 1e-3 * ones, 1e-3 * ones, ones)
    state = State(pos=speed * ts[:, None] * [1.0, 0, 0], rot=np.tile(np.eye(3), (30, 1, 1)), vel=nothing, acc=nothing,
                  avel=nothing)  # fmt: skip
    among = bare.shown_by_small_bodies(OdometryOptions(), state, ts)
    assert among.all() and "open at 30 sweeps" in doubt_warnings({"companions": among})[0]
    walled = bare._replace(structure=1e5 * ones)
    assert not walled.shown_by_small_bodies(OdometryOptions(), state, ts).any()
    # Few walls do not show that a rig stands, but they show that it did not walk.
    few = bare._replace(structure=100 * ones, without_people=100 * ones)
    assert few.shown_by_small_bodies(OdometryOptions(), state, ts).any() == (speed == 0)
    # Nor do they if people may make them up.
    assert bare._replace(structure=100 * ones).shown_by_small_bodies(OdometryOptions(), state, ts).all()


@pytest.mark.parametrize("speed", [0.0, 0.005, 1.0, 10.0])
def test_a_motion_that_one_side_alone_shows_may_be_that_of_a_train(speed: float) -> None:
    ts, ones, nothing = 0.1 * np.arange(30), np.ones(30), np.zeros((30, 3))
    beside = Quality(ones, 0.01 * ones, 1e6 * ones, 1e-3 * ones, 1e-3 * ones, 1e6 * ones, 1e-3 * ones, 1e6 * ones, ones)
    state = State(pos=speed * ts[:, None] * [1.0, 0, 0], rot=np.tile(np.eye(3), (30, 1, 1)), vel=nothing, acc=nothing,
                  avel=nothing + 0.1)  # fmt: skip
    # What stands may have one side. A way of a centimetre does not make a valid pose wrong.
    alone = beside.shown_by_one_side(OdometryOptions(), state, ts)
    assert alone.all() == alone.any() == (speed > 0.5)
    among = {each.rule for each in beside.refused(OdometryOptions(), state, ts) if each.frames.any()}
    assert among == ({"one_side"} if alone.any() else set())
    both = beside._replace(both_sides=100 * ones)
    assert not both.shown_by_one_side(OdometryOptions(), state, ts).any()


def test_sweeps_whose_held_out_points_lie_on_no_plane_are_lost_and_so_is_what_follows() -> None:
    ts, ones, nothing = 0.1 * np.arange(60), np.ones(60), np.zeros((60, 3))
    misfit = np.where(np.arange(60) < 40, 0.9, 2.0)
    quality = Quality(
        ones, 0.01 * ones, 5e6 * ones, 1e-3 * ones, 1e-3 * ones, 1e6 * ones, 1e6 * ones, 1e6 * ones, misfit
    )
    state = State(pos=ts[:, None] * [1.0, 0, 0], rot=np.tile(np.eye(3), (60, 1, 1)), vel=nothing, acc=nothing,
                  avel=nothing + 0.1)  # fmt: skip
    refused = quality.refused(OdometryOptions(), state, ts)
    assert {each.rule for each in refused if each.frames.any()} == {"misfit"}
    every = np.ones(60, bool)
    valid = trusted(refused, ts, every, every, [], np.zeros(0, int))
    assert valid[:34].all() and not valid[36:].any()
    # What noise explains refuses nothing.
    assert not any(
        each.frames.any() for each in quality._replace(misfit=1.3 * ones).refused(OdometryOptions(), state, ts)
    )


def test_a_rig_that_glides_without_a_turn_where_small_bodies_alone_say_so_may_stand() -> None:
    ts, ones, nothing = 0.1 * np.arange(60), np.ones(60), np.zeros((60, 3))
    bodies = Quality(ones, 0.01 * ones, 5e6 * ones, 1e-3 * ones, 1e-3 * ones, 1e3 * ones, 1e3 * ones, 1e3 * ones, ones)
    # It stands for two seconds, glides for two at 1.7 m/s, and stands again.
    way = np.clip(ts - 2.0, 0.0, 2.0) * 1.7
    gliding = State(pos=way[:, None] * [1.0, 0.0, 0.0], rot=np.tile(np.eye(3), (60, 1, 1)), vel=nothing, acc=nothing,
                    avel=nothing + 1e-3)  # fmt: skip
    among = bodies.glides_without_turn(OdometryOptions(), gliding, ts)
    assert among[16:44].all() and not among[:15].any() and not among[46:].any()
    assert "seems to glide without a turn" in doubt_warnings({"traffic": among})[0]
    # A trolley on a smooth floor turns by 0.6 degrees a second.
    assert not bodies.glides_without_turn(OdometryOptions(), gliding._replace(avel=nothing + 0.006), ts).any()
    # Walls do not move.
    assert not bodies._replace(structure=4e6 * ones).glides_without_turn(OdometryOptions(), gliding, ts).any()


def test_of_points_in_a_voxel_one_stays_whatever_their_number() -> None:
    rng = np.random.default_rng(0)
    near, far = rng.uniform(0.01, 0.24, (500, 3)), np.array([[5.1, 0.1, 0.1], [-7.9, 0.1, 0.1], [5.1, -0.1, 0.1]])
    points = Points(np.concatenate([near, far]).astype("f4"), np.arange(503, dtype="i4"))
    kept = points.one_a_voxel(0.25)
    assert len(kept.points) == 4 and (kept.column[1:] == [500, 501, 502]).all() and kept.column[0] < 500
    np.testing.assert_array_equal(kept.points, points.points[kept.column])
    assert not len(NO_POINTS.one_a_voxel(0.25).points)


def test_a_gap_is_where_usable_sweeps_are_far_apart() -> None:
    ts, used = np.array([0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 2.0]), np.ones(8, bool)
    assert gaps(ts, used) == [7]
    used[2:6] = False
    assert gaps(ts, used) == [6, 7]


def test_blocks_of_the_inverse_are_those_of_the_whole_inverse() -> None:
    rng, count = np.random.default_rng(0), 9
    jacobian = rng.normal(size=(300, 6 * count))
    for row, first in zip(jacobian, rng.integers(0, count - 3, 300), strict=True):
        row[: 6 * first] = row[6 * first + 24 :] = 0
    matrix = jacobian.T @ jacobian + np.eye(6 * count)
    blocks = np.zeros((count, 4, 6, 6))
    for m in range(count):
        for k in range(min(4, m + 1)):
            blocks[m, k] = matrix[6 * m : 6 * m + 6, 6 * (m - k) : 6 * (m - k) + 6]
    found, inverse = _inverse_blocks(_banded(blocks).reshape(24, -1)), np.linalg.inv(matrix)
    for m in range(count):
        for k in range(min(4, m + 1)):
            np.testing.assert_allclose(
                found[m - k, k], inverse[6 * m : 6 * m + 6, 6 * (m - k) : 6 * (m - k) + 6], atol=1e-12
            )


def test_covariances_of_a_long_trajectory_that_little_is_known_about_are_those_of_the_whole_inverse() -> None:
    # Rounding errors that grow from block to block are as large as the covariances after some tens of blocks.
    rng, count = np.random.default_rng(0), 160
    smooth = np.diff(np.eye(count), 3, axis=0)
    matrix = np.kron(7e4 * smooth.T @ smooth, np.eye(6))
    for first in range(count - 3):
        jacobian = np.kron([1 / 6, 2 / 3, 1 / 6, 0.0], rng.normal(size=(2, 6)) * [100, 100, 100, 600, 600, 600])
        part = slice(6 * first, 6 * first + 24)
        matrix[part, part] += jacobian.T @ jacobian
    matrix += 1e-3 * np.eye(len(matrix))
    blocks = np.zeros((count, 4, 6, 6))
    for m in range(count):
        for k in range(min(4, m + 1)):
            blocks[m, k] = matrix[6 * m : 6 * m + 6, 6 * (m - k) : 6 * (m - k) + 6]
    found, inverse = _inverse_blocks(_banded(blocks).reshape(24, -1)), np.linalg.inv(matrix)
    diagonal = np.array([inverse[6 * m : 6 * m + 6, 6 * m : 6 * m + 6] for m in range(count)])
    np.testing.assert_allclose(found[:, 0], diagonal, atol=1e-6 * np.abs(diagonal).max())


@pytest.mark.parametrize(("change", "worse"), [(0.0, False), (1e-5, False), (1e-3, True), (-1e-3, False)])
def test_a_trajectory_is_worse_only_beyond_chance(change: float, worse: bool) -> None:
    rng = np.random.default_rng(0)
    fits = [SweepFit(0.9, 0.01, cost, 1.0, 1e-4, 1.0) for cost in rng.normal(2e-3, 2e-4, 40)]
    later = [
        fit._replace(cost=fit.cost + change + noise) for fit, noise in zip(fits, rng.normal(0, 1e-4, 40), strict=True)
    ]
    assert is_worse([*fits, NO_FIT], [*later, NO_FIT]) is worse


def test_a_sweep_moves_as_its_points_say_and_little_where_they_say_nothing() -> None:
    information, wanted = np.diag([1e6, 1e6, 0.0, 1e6, 1e6, 1e6]), np.array([0.02, -0.01, 0.0, 1e-3, 2e-3, -1e-3])
    np.testing.assert_allclose(_move(information, information @ wanted), wanted, rtol=1e-2)
    assert abs(_move(information, np.array([0, 0, 1.0, 0, 0, 0]))[2]) < 0.003


@pytest.mark.parametrize(("amplitude", "frequency"), [(0.0, 15), (0.005, 15), (0.005, 33), (0.005, 51), (0.005, 64)])
def test_a_covariance_holds_the_vibration_that_the_trajectory_does_not_follow(
    amplitude: float, frequency: float
) -> None:
    rng, frames, columns = np.random.default_rng(1), 20, 512
    rot = Rotation.from_rotvec(np.linspace(0, 0.1, columns)[:, None] * [0, 0, 1]).as_matrix()
    matrix = np.tile(np.diag([2e3] * 3 + [2e4] * 3), (columns, 1, 1))
    motion, fits = [], [SweepFit(0.9, 0.01, 1e-4, 1.0, 1e-4, 1.0)] * frames
    for frame in range(frames):
        times = 0.1 * (frame + np.arange(columns) / columns)
        # Of all directions, the lidar only pitches.
        move = np.zeros((columns, 6))
        move[:, 4] = amplitude * np.sin(2 * np.pi * frequency * times)
        right = np.einsum("cab,cb->ca", matrix, move) + rng.normal(size=(columns, 6)) * np.sqrt(matrix[0].diagonal())
        motion.append(_unmodelled_motion(matrix, right, rot))
    cov = np.tile(1e-8 * np.eye(6), (frames, 1, 1))
    wider = as_measured(cov, np.array(motion), fits, 1.0, 0.1 * np.arange(frames)) - cov
    # Faster motion is averaged more within the parts of a sweep.
    part = np.sinc(frequency * 0.1 / 16) ** 2 * amplitude**2 / 2
    assert (wider[:, 4, 4] >= 0.65 * part).all() and (wider[:, 4, 4] <= 1.3 * part + 2e-7).all()
    assert np.abs(np.delete(np.diagonal(wider, axis1=1, axis2=2), 4, axis=1)).max() < 2e-6


def test_a_covariance_grows_where_sweeps_disagree_by_more_than_chance() -> None:
    cov, ts = np.tile(1e-8 * np.eye(6), (30, 1, 1)), 0.1 * np.arange(30)
    fits = [SweepFit(0.9, 0.01, 1e-4, 1.0, 1e-4, nis) for nis in [1.0] * 15 + [18.0] * 15]
    wider = as_measured(cov, np.zeros((30, PARTS, 6)), fits, 2.0, ts)
    np.testing.assert_allclose(wider[:10], cov[:10])
    np.testing.assert_allclose(wider[20:], 9 * cov[20:])


def test_held_out_points_disagree_by_what_their_own_noise_does_not_explain() -> None:
    ts = 0.1 * np.arange(40)
    fits = [SweepFit(0.9, 0.01, 1e-4, 1.0, 0.005, nis) for nis in [0.8] * 20 + [8.0] * 20]
    disagreement = _disagreement(fits, 2.0, ts)
    assert not disagreement[:10].any(), "leaves move each sweep by 5 mm, which is the noise of its points"
    # Over two seconds, errors of four maps add up; a quarter of the squares is noise.
    np.testing.assert_allclose(disagreement[30:], 2 * 0.005 * np.sqrt(0.75))


def test_a_trajectory_that_is_lost_for_most_of_a_recording_is_no_measure_of_its_noise() -> None:
    rng, ts = np.random.default_rng(2), 0.1 * np.arange(60)
    fits, lost = 1.2 + 0.1 * rng.normal(size=60), np.arange(60) >= 20
    assert _noise_of_fitting(fits, ts) == np.median(fits), "a lidar with more noise than its data sheet says"
    assert _noise_of_fitting(np.where(lost, 3.0 * fits, fits), ts) == np.median(fits[:20])
    # A place that is rough in many degrees is no other lidar.
    rough = np.linspace(1.2, 2.4, 60)
    assert _noise_of_fitting(rough, ts) == np.median(rough)
    assert _noise_of_fitting(np.where(lost, np.nan, 0.3 * fits), ts) == 1 == _noise_of_fitting(np.full(60, np.nan), ts)


def test_of_a_trajectory_that_is_lost_in_between_only_the_longer_side_is_trusted() -> None:
    ts, every, lost = 0.1 * np.arange(60), np.ones(60, bool), np.zeros(60, bool)
    lost[20:25] = True
    apart = trusted([Refusal("diverged", lost, parts=True)], ts, every, every, [], np.zeros(0, int))
    # The means that show where it is lost are those of a second.
    assert np.flatnonzero(apart).tolist() == [*range(30, 60)]
    same_world = trusted([Refusal("uncertain", lost)], ts, every, every, [], np.zeros(0, int))
    assert np.flatnonzero(~same_world).tolist() == [20, 21, 22, 23, 24]
    # A clock that jumps cuts a recording in the same way.
    assert np.flatnonzero(trusted([], ts, every, every, [], np.array([40]))).tolist() == [*range(40)]


def test_the_sides_of_a_second_without_usable_sweeps_are_not_both_trusted() -> None:
    ts, used = 0.1 * np.arange(60), np.ones(60, bool)
    used[30:33] = False
    assert not unbridged(used, ts).any(), "0.4 s are bridged by the motion before them"
    used[20:30] = False
    lost = unbridged(used, ts)
    assert lost[20:34].all() and not lost[:20].any() and not lost[34:].any()
    assert not trusted([], ts, used, used, [], np.zeros(0, int))[:20].any()
    assert not unbridged(used, ts, {33}).any(), "both sides have been joined by what they have seen"
