"""Errors of trajectories: by hand, beside the formulas of evo, and beside another implementation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from rover_pipeline.kinematics.state import Poses
from rover_pipeline.validation.accuracy import (
    Accuracy,
    align,
    compare,
    covered,
    heading,
    positions_at,
    rotations_at,
    way,
)
from tests.campaign.hostile import judge

START = 1.7e9


def straight(count: int, speed: float = 1.0) -> tuple[np.ndarray, Poses]:
    """A way along x at 10 Hz."""
    ts = START + np.arange(count) / 10
    return ts, Poses(np.tile(np.eye(3), (count, 1, 1)), (ts - START)[:, None] * [speed, 0, 0])


def wandering(count: int, seed: int = 0) -> tuple[np.ndarray, Poses]:
    """A random motion, smooth, at uneven times."""
    rng = np.random.default_rng(seed)
    ts = START + np.cumsum(rng.uniform(0.05, 0.15, count))
    angles = np.cumsum(rng.normal(0, 0.05, (count, 3)), axis=0)
    return ts, Poses(Rotation.from_rotvec(angles).as_matrix(), np.cumsum(rng.normal(0.1, 0.05, (count, 3)), axis=0))


def moved(poses: Poses, turn: Rotation, shift: np.ndarray) -> Poses:
    """The same poses in another world."""
    return Poses(turn.as_matrix() @ poses.rot, turn.apply(poses.pos) + shift)


def noisy(poses: Poses, sigma: float, seed: int) -> Poses:
    rng = np.random.default_rng(seed)
    turn = Rotation.from_rotvec(rng.normal(0, sigma, poses.pos.shape)).as_matrix()
    return Poses(poses.rot @ turn, poses.pos + rng.normal(0, sigma, poses.pos.shape))


def compared(ts: np.ndarray, poses: Poses, wanted: Poses, cov: np.ndarray | None = None) -> Accuracy:
    every = np.ones(len(ts), bool)
    return compare(ts, poses, every, wanted, every, cov)


def test_two_percent_of_scale_on_a_straight_way_are_two_centimetres_a_second() -> None:
    ts, truth = straight(201)
    found = moved(Poses(truth.rot, truth.pos * 1.02), Rotation.from_euler("z", 90, degrees=True), np.array([5, 6, 7]))
    result = compared(ts, found, truth)
    # Positions 0, 0.1 ... 20 m have a standard deviation of 0.1 * sqrt((201^2 - 1) / 12) m.
    assert result.ate_m == pytest.approx(0.02 * 0.1 * np.sqrt((201**2 - 1) / 12), rel=1e-6)
    assert result.ate_max_m == pytest.approx(0.02 * 10, rel=1e-6)
    assert result.rotation_deg == pytest.approx(0, abs=1e-5)
    assert result.way_m == pytest.approx(20)
    assert result.second and result.second.pairs == 191 and result.second.translation_m == pytest.approx(0.02, rel=1e-5)
    assert result.ten_metres and result.ten_metres.translation_m == pytest.approx(0.2, rel=1e-5)
    assert (result.samples, result.valid, result.compared, result.wrong) == (201, 201, 201, 0)


def test_a_jump_is_wrong_and_sure_for_two_seconds_unless_the_poses_say_so() -> None:
    ts, truth = straight(101)
    pos = truth.pos.copy()
    pos[50:] += [0, 0.2, 0]
    result = compared(ts, Poses(truth.rot, pos), truth)
    assert result.wrong == 20
    valid = np.ones(101, bool)
    valid[45:70] = False
    honest = compare(ts, Poses(truth.rot, pos), valid, truth, np.ones(101, bool))
    assert (honest.wrong, honest.valid) == (1, 76), "the first valid pose after the jump is off by 0.2 m from the last"
    pos[50:] -= [0, 0.16, 0]
    assert compared(ts, Poses(truth.rot, pos), truth).wrong == 0, "0.04 m is less than 0.05 m"


def test_poses_where_the_reference_is_not_known_do_not_count() -> None:
    ts, truth = straight(101)
    pos = truth.pos.copy()
    pos[:10] += 100
    known = np.arange(101) >= 10
    wanted = Poses(truth.rot, np.where(known[:, None], truth.pos, np.nan))
    result = compare(ts, Poses(truth.rot, pos), np.ones(101, bool), wanted, known, np.tile(np.eye(6), (101, 1, 1)))
    assert result.ate_m == pytest.approx(0, abs=1e-6)
    assert (result.compared, result.wrong) == (91, 0)
    assert result.nees is None, "the covariance is relative to a pose that the reference does not know"
    few = compare(ts, Poses(truth.rot, pos), np.arange(101) < 2, truth, np.ones(101, bool))
    assert few.ate_m is None and few.compared == 2


def test_errors_are_those_of_evos_formulas() -> None:
    ts, truth = wandering(300)
    found = noisy(moved(truth, Rotation.from_rotvec([0.3, -1, 2]), np.array([10, -3, 1])), 0.02, seed=3)
    result = compared(ts, found, truth)
    here, there = found.pos - found.pos.mean(0), truth.pos - truth.pos.mean(0)
    turn, _ = Rotation.align_vectors(there, here)
    assert result.ate_m == pytest.approx(np.sqrt(np.square(turn.apply(here) - there).sum(1).mean()), rel=1e-9)
    matrices = []
    for each in (truth, found):
        made = np.tile(np.eye(4), (300, 1, 1))
        made[:, :3, :3], made[:, :3, 3] = each.rot, each.pos
        matrices.append(made)
    lengths = way(ts, truth.pos)
    for relative, along, distance in ((result.second, ts - ts[0], 1.0), (result.ten_metres, lengths, 10.0)):
        errors = []
        for i in range(300):
            apart = np.abs(along - along[i] - distance)
            j = int(np.argmin(apart))
            if j > i and apart[j] <= 0.2 * distance and along[i] + distance <= along[-1] + 5e-4:
                true, ours = (np.linalg.inv(each[i]) @ each[j] for each in matrices)
                errors.append(np.linalg.inv(true) @ ours)
        stacked = np.array(errors)
        assert relative and relative.pairs == len(stacked) > 100
        translation = np.sqrt(np.square(stacked[:, :3, 3]).sum(1).mean())
        assert relative.translation_m == pytest.approx(translation, rel=1e-6)
        angles = np.arccos(np.clip((np.trace(stacked[:, :3, :3], axis1=1, axis2=2) - 1) / 2, -1, 1))
        assert relative.rotation_deg == pytest.approx(np.degrees(np.sqrt(np.mean(angles**2))), rel=1e-5)


def test_errors_as_large_as_their_covariance_says_have_a_normalised_square_of_one() -> None:
    ts, truth = wandering(2000)
    sigmas = np.array([0.01, 0.02, 0.03, 0.001, 0.002, 0.003])
    drawn = np.random.default_rng(1).normal(0, sigmas, (2000, 6))
    drawn[0] = 0
    rot = truth.rot @ Rotation.from_rotvec(drawn[:, 3:]).as_matrix()
    found = Poses(rot, truth.pos + np.einsum("nij,nj->ni", rot, drawn[:, :3]))
    cov = np.tile(np.diag(sigmas**2), (2000, 1, 1))
    cov[0] = 0
    turned = moved(found, Rotation.from_rotvec([1, 2, 3]), np.ones(3))
    result = compared(ts, turned, truth, cov)
    assert result.nees == pytest.approx(1, abs=0.05)
    assert compared(ts, turned, truth, cov / 4).nees == pytest.approx(4, abs=0.2)
    cov[7] = np.nan
    assert compared(ts, turned, truth, cov).nees == np.inf


def test_figures_agree_with_those_that_judge_the_campaign_of_hostile_recordings() -> None:
    ts, truth = wandering(200)
    found = noisy(truth, 0.03, seed=5)
    found.pos[120:] += 0.3
    cov = np.tile(0.02**2 * np.eye(6), (200, 1, 1))
    valid = np.random.default_rng(2).uniform(size=200) > 0.1
    result = compare(ts, found, valid, truth, np.ones(200, bool), cov)
    verdict = judge(
        {"pos": found.pos, "rot": found.rot, "cov": cov, "valid": valid.astype("u1")},
        {"pos": truth.pos, "rot": truth.rot, "true_ts": ts},
    )
    assert result.ate_m == pytest.approx(verdict.ate)
    assert result.nees == pytest.approx(verdict.nees)
    assert result.wrong > 0 and verdict.wrong > 0


def test_alignment_never_mirrors() -> None:
    flat = np.random.default_rng(0).normal(size=(50, 3))
    found = align(flat * [1, 1, -1], flat)
    assert np.linalg.det(found.rot) == pytest.approx(1)


def test_a_reference_is_interpolated_along_its_curve_and_not_over_gaps_or_beyond_its_ends() -> None:
    """5 m/s on a circle of 5 m: a straight line between poses at 10 Hz would be 6 mm inside of it."""
    ts = START + np.arange(100) / 10
    times = START + np.arange(10, 980) / 100

    def circle(at: np.ndarray) -> np.ndarray:
        angle = at - START
        return 5 * np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=-1)

    assert np.abs(positions_at(ts, circle(ts), times)[20:-20] - circle(times)[20:-20]).max() < 1e-3
    rot = Rotation.from_euler("z", (ts - START)[:, None]).as_matrix()
    wanted = Rotation.from_euler("z", (times - START)[:, None]).as_matrix()
    np.testing.assert_allclose(rotations_at(ts, rot, times), wanted, atol=1e-6)
    gap = np.delete(ts, np.arange(40, 60))
    known = covered(
        gap, np.array([START - 0.01, ts[0], ts[39], ts[39] + 0.01, ts[60], ts[60] + 0.01, ts[-1], ts[-1] + 1])
    )
    assert known.tolist() == [False, True, True, False, True, True, True, False]
    assert not covered(np.empty(0), times).any()


def test_standing_still_with_noise_is_no_way() -> None:
    ts = START + np.arange(1000) / 100
    pos = np.random.default_rng(0).normal(0, 0.01, (1000, 3))
    assert np.linalg.norm(np.diff(pos, axis=0), axis=1).sum() > 20
    assert way(ts, pos)[-1] < 1


def test_poses_of_which_no_two_are_a_quarter_of_their_time_apart_are_not_turned() -> None:
    ts = np.array([0.0, 0.01, 1.0])
    pos = np.arange(9.0).reshape(3, 3)
    assert np.array_equal(heading(ts, pos, 2 * pos), np.eye(3))
