"""Doppler beyond its limit: targets and rigs of up to three times the largest Doppler, and what cannot be decided."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rover_pipeline.engine.step import Step
from rover_pipeline.radar.guided import guided_points
from rover_pipeline.radar.options import PointsOptions, VelocityOptions
from rover_pipeline.radar.steps import points
from rover_pipeline.radar.velocity import velocity
from rover_pipeline.table import find_step
from tests.kit import WHOLE
from tests.radar.motion import frames
from tests.radar.scenes import Target, chirps, texts, words

POINTS = PointsOptions()
#: Chirps whose largest Doppler is 1.25 m/s.
SLOW = chirps(idle_time=200.0)


def found(
    device: str, targets: list[Target], options: PointsOptions = POINTS, **odometry: Any
) -> dict[str, np.ndarray]:
    """The points of one frame, without those past their number."""
    chirp = chirps(device)
    make = guided_points if odometry else points
    result = make(words(chirp, targets)[None], np.ones(1, "u1"), options=options, **odometry, **texts(chirp))
    count = int(result["count"][0])
    return {name: result[name][0, :count] for name in ("xyz", "doppler", "snr", "folds", "certain")}


@pytest.mark.parametrize("speed", [-2.9, -1.2, 1.2, 2.0, 2.9])
@pytest.mark.parametrize("device", ["AWR1843", "AWR2944"])
def test_a_target_faster_than_the_limit_has_its_true_speed_and_direction(device: str, speed: float) -> None:
    chirp = chirps(device)
    limit = chirp.doppler_resolution * chirp.frame_length / 2
    target = Target(3.0, np.radians(25), np.radians(6), velocity_mps=speed * limit, counts=300)
    result = found(device, [target])
    assert result["certain"][0] and result["folds"][0] == np.round(speed / 2)
    assert result["doppler"][0] == pytest.approx(target.velocity_mps, abs=0.1 * chirp.doppler_resolution)
    direction = result["xyz"][0] / np.linalg.norm(result["xyz"][0])
    assert np.degrees(np.arccos(direction @ target.direction)) < 2


def test_without_ambiguity_numbers_the_direction_of_a_fast_target_is_wrong() -> None:
    chirp = chirps("AWR1843")
    target = Target(3.0, np.radians(25), velocity_mps=1.2 * chirp.doppler_resolution * chirp.frame_length / 2)
    result = found("AWR1843", [target], PointsOptions(max_folds=0))
    direction = result["xyz"][0] / np.linalg.norm(result["xyz"][0])
    assert np.degrees(np.arccos(direction @ target.direction)) > 5 and not result["folds"].any()


def test_one_target_before_an_array_whose_phases_show_nothing_is_not_certain() -> None:
    # The transmitters of this board continue the row of the receivers: a number looks like another direction.
    result = found("AWR1843AOP", [Target(3.0, np.radians(10))])
    assert len(result["certain"]) and not result["certain"].any()


def test_odometry_decides_where_phases_cannot() -> None:
    chirp = chirps("AWR1843AOP")
    own = np.array([1.6 * chirp.doppler_resolution * chirp.frame_length / 2, 0.0, 0.0])
    targets = [Target(2.0 + n, np.radians(12 * n - 10), counts=500) for n in range(3)]
    targets = [each._replace(velocity_mps=float(-each.direction @ own)) for each in targets]
    odometry = {
        "ts": np.array([0.4, 0.6]), "valid": np.ones(2, "u1"), "pos": np.array([0.4 * own, 0.6 * own]),
        "rot": np.tile(np.eye(3), (2, 1, 1)), "vel": np.tile(own, (2, 1)), "acc": np.zeros((2, 3)),
        "avel": np.zeros((2, 3)),
    }  # fmt: skip
    alone = found("AWR1843AOP", targets)
    assert not alone["certain"].all()
    guided = found("AWR1843AOP", targets, ts=np.array([0.5]), odometry=odometry)
    nearest = np.argsort(np.linalg.norm(guided["xyz"], axis=1))
    assert guided["certain"][nearest].all()
    expected = [each.velocity_mps for each in targets]
    np.testing.assert_allclose(guided["doppler"][nearest], expected, atol=0.2)


@pytest.mark.parametrize(("speed", "count"), [(2.4, 4), (3.5, 6), *([(0.8, 20), (3.6, 20)] if WHOLE else [])])
def test_the_velocity_of_a_rig_faster_than_the_limit_is_valid_and_right(speed: float, count: int) -> None:
    chirp, iq, truth = frames("indoor", np.linspace(3.0, 11.0, count), seed=3, speed=speed, radar=SLOW)
    described = texts(chirp)
    detected = points(iq, np.ones(len(iq), "u1"), options=POINTS, **described)
    arrays = {name: detected[name] for name in ("xyz", "doppler", "count", "certain", "deviation")}
    estimate = velocity(**arrays, options=VelocityOptions(), sidecar=described["sidecar"], config=described["config"])
    error = np.linalg.norm((estimate["vel"] - truth)[:, :2], axis=1)[estimate["valid"] == 1]
    assert (estimate["valid"] == 1).mean() >= 0.9
    assert np.sqrt(np.mean(error**2)) < 0.05 and error.max() < 0.3


@pytest.mark.parametrize("speed", [4.6, 9.0])
def test_no_velocity_is_valid_and_wrong_beyond_three_times_the_limit(speed: float) -> None:
    chirp, iq, truth = frames("indoor", np.linspace(3.0, 11.0, 3), seed=3, speed=speed, radar=SLOW)
    described = texts(chirp)
    detected = points(iq, np.ones(len(iq), "u1"), options=POINTS, **described)
    arrays = {name: detected[name] for name in ("xyz", "doppler", "count", "certain", "deviation")}
    estimate = velocity(**arrays, options=VelocityOptions(), sidecar=described["sidecar"], config=described["config"])
    error = np.linalg.norm((estimate["vel"] - truth)[:, :2], axis=1)
    assert not (error[estimate["valid"] == 1] > 0.3).any()
    # What is beside the radar is slower towards it and still known; what is ahead is not.
    assert detected["certain"].sum() < 0.7 * detected["count"].sum()


@pytest.mark.parametrize("estimator", ["capon", "music"])
def test_targets_that_share_a_cell_and_are_faster_than_the_limit_are_both_found(estimator: str) -> None:
    chirp = chirps("AWR1843")
    speed = 2.4 * chirp.doppler_resolution * chirp.frame_length / 2
    targets = [Target(3.0, np.radians(angle), velocity_mps=speed, counts=300) for angle in (-18, 20)]
    # One other target on each side shows the phases of the chirps; the pair alone is two explanations of its own.
    others = [Target(2.0 + n, np.radians(12 * n), velocity_mps=speed, counts=300) for n in (-0.6, 2, 3)]
    result = found("AWR1843", targets + others, PointsOptions(estimator=estimator))
    near = np.abs(np.linalg.norm(result["xyz"], axis=1) - 3.0) < 0.1
    azimuth = np.degrees(np.arctan2(-result["xyz"][near, 1], result["xyz"][near, 0]))
    if result["certain"][near].all():
        np.testing.assert_allclose(np.sort(azimuth), [-18, 20], atol=3)
    assert np.isin(result["folds"][result["certain"] == 1], 1).all()


def test_points_that_are_not_certain_are_no_evidence_of_a_velocity() -> None:
    rng = np.random.default_rng(1)
    xyz = np.stack([np.full(40, 3.0), rng.uniform(-3, 3, 40), np.zeros(40)], axis=-1)
    doppler = -(xyz / np.linalg.norm(xyz, axis=1, keepdims=True)) @ np.array([1.0, 0.2, 0.0])
    certain = np.zeros(40, "u1")
    certain[:10] = 1  # They agree, but do not stand for the other thirty.
    sidecar = texts(chirps())["sidecar"]
    arguments = {"xyz": xyz[None], "doppler": doppler[None], "count": np.array([40]), "sidecar": sidecar}
    arguments["deviation"] = np.full((1, 40, 2), np.nan)
    few = velocity(**arguments, certain=certain[None], options=VelocityOptions())
    assert not few["valid"][0] and few["inliers"][0] == 10
    all_ = velocity(**arguments, certain=np.ones((1, 40), "u1"), options=VelocityOptions())
    assert all_["valid"][0]


def test_points_need_odometry_only_where_they_are_asked_to_use_it() -> None:
    declared = find_step("_radar_points")
    assert isinstance(declared, Step)
    alone, guided = (declared.for_options(PointsOptions(odometry=on)) for on in (False, True))
    assert not any(name.startswith("_odom") for name in alone.references())
    assert {name for name in guided.references() if name.startswith("_odom")} and all(
        name.endswith("?") for name in guided.references() if name.startswith("_odom")
    )
