"""Odometry of a rig with several radars: their velocities together, and a radar that contradicts the others."""

from __future__ import annotations

import numpy as np
import pytest

from rover_pipeline.kinematics.mount import Mount
from rover_pipeline.kinematics.preintegration import ACC_BIAS
from rover_pipeline.kinematics.rotation import exp
from rover_pipeline.radar.ego_motion import vertical_sigma
from rover_pipeline.radar.inertial_odometry import Estimate, _channels, _contradicting, estimate
from rover_pipeline.radar.options import RadarOdometryOptions
from rover_pipeline.radar.tuning import TUNING
from rover_pipeline.radar.velocity_factors import Measured, Recorded
from rover_pipeline.simulate.presets import PRESETS
from rover_pipeline.simulate.rig import Rig, build
from rover_pipeline.simulate.sensors import imu

OPTIONS = RadarOdometryOptions()
SECONDS = 6.0


def velocities(
    rig: Rig, name: str, seed: int, *, late: float, wrong: bool = True, turned: float = 0.0, flat: bool = False
) -> Measured:
    """What a radar of the car measures: noise, and errors of scale and direction that are the same in all frames.

    Args:
        wrong: whether the latter are drawn as the covariances say; turned: degrees to the left, on top of them.
        flat: the array sees no vertical velocity.
    """
    rng = np.random.default_rng([seed, *name.encode()])
    ts, sigma = np.arange(0.3 + late, SECONDS, 0.1), np.array([0.03, 0.04, 1e3 if flat else 0.15])
    states = rig.mounted(name).at(ts)
    true = np.einsum("nji,nj->ni", states.rot, states.vel)
    scale, *turn = rng.normal(0, TUNING.scale_error * wrong, 4)
    turn[2] -= np.radians(turned)
    vel = (1 + scale) * true @ exp(np.array([turn]))[0].T + rng.normal(0, sigma, true.shape)
    prior = vertical_sigma(vel, OPTIONS.vertical, OPTIONS.pitch)
    own, whole = np.diag(sigma**-2.0), np.zeros((len(ts), 3, 3))
    for n in range(len(ts)):
        whole[n] = np.linalg.inv(own + np.diag([0, 0, prior[n] ** -2]))
        vel[n] = whole[n] @ own @ vel[n]
    whole += TUNING.scale_error**2 * np.einsum("ni,nj->nij", vel, vel)
    return Measured(ts, vel, whole, rig.mounts[name], OPTIONS)


def driven(seed: int, radars: dict[str, Measured], rig: Rig) -> tuple[Estimate, dict[str, np.ndarray], np.ndarray]:
    """The estimate of the first radar, its channels, and its true velocity in its own frame."""
    first = next(iter(radars.values()))
    mounts = first.mount, rig.mounts["imu"]
    found = estimate([*radars.values()], readings(rig, seed))
    states = rig.mounted(next(iter(radars))).at(first.ts)
    parts = [channels for _, channels in _channels(found, mounts, 0.0)]
    channels = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return found, channels, np.einsum("nji,nj->ni", states.rot, states.vel)


def readings(rig: Rig, seed: int) -> Recorded:
    """What the IMU of a rig measures."""
    imu_ts, rng = np.arange(0.1, SECONDS + 0.1, 0.01), np.random.default_rng(seed)
    ideal, size = imu.ideal_reading(rig.mounted("imu").at(imu_ts)), (len(imu_ts), 3)
    # Noise of the densities that the options state, in samples of 10 ms, and biases as large as the tuning says.
    acc = ideal.acc + rng.normal(0, OPTIONS.acc_noise * 10, size) + rng.normal(0, ACC_BIAS, 3)
    avel = ideal.avel + rng.normal(0, OPTIONS.gyro_noise * 10, size) + rng.normal(0, TUNING.gyro_bias, 3)
    acc, avel = (values @ rig.mounts["imu"].rotation.T for values in (acc, avel))
    return Recorded(imu_ts, acc, avel, rig.mounts["imu"])


def normalised(channels: dict[str, np.ndarray], true: np.ndarray) -> float:
    """Mean square of the errors of the velocity over their covariance, for each of three dimensions."""
    error = np.einsum("nji,nj->ni", channels["rot"], channels["vel"]) - true
    return float(np.einsum("ni,nij,nj->n", error, np.linalg.inv(channels["vel_cov"]), error).mean() / 3)


def front_and_left(rig: Rig, seed: int, turned: float = 0.0) -> dict[str, Measured]:
    front = velocities(rig, "radar_front", seed, late=0.0)
    return {"radar_front": front, "radar_left": velocities(rig, "radar_left", seed, late=0.021, turned=turned)}


@pytest.fixture(scope="module")
def rig() -> Rig:
    return build(PRESETS["car"], 0)


def test_two_radars_at_right_angles_give_the_velocity_in_three_dimensions_as_well_as_they_say(rig: Rig) -> None:
    found = [driven(seed, front_and_left(rig, seed), rig) for seed in range(5)]
    assert all(each.valid.all() for each, _, _ in found)
    assert 0.5 < np.mean([normalised(channels, true) for _, channels, true in found]) < 2.0
    # Each of the two alone does not know how fast it is to better than its scale: both together do.
    error = [np.einsum("nji,nj->ni", channels["rot"], channels["vel"]) - true for _, channels, true in found]
    assert np.sqrt(np.square(error).mean(axis=(0, 1))).max() < 0.06


def test_a_radar_that_is_mounted_five_degrees_wrong_is_named_and_changes_nothing(rig: Rig) -> None:
    for seed in range(2):
        right, *_ = driven(seed, front_and_left(rig, seed), rig)
        found, channels, true = driven(seed, front_and_left(rig, seed, turned=5.0), rig)
        assert right.common is not None and not right.common.is_wrong.any()
        assert found.common is not None and found.common.is_wrong.tolist() == [False, True]
        assert abs(np.degrees(found.common.errors[1, 3]) + 5) < 3
        assert normalised(channels, true) < 2.0
        assert np.abs(found.motion.vel - right.motion.vel).max() < 0.1


def test_a_radar_whose_speeds_are_six_percent_too_large_is_doubted_and_the_solution_does_not_run_away(rig: Rig) -> None:
    for seed in range(2):
        radars = front_and_left(rig, seed)
        left = radars["radar_left"]
        radars["radar_left"] = left._replace(vel=1.06 * left.vel)  # its covariance holds an error of a smaller one
        found, channels, true = driven(seed, radars, rig)
        assert found.common is not None and found.common.settled and found.common.birge > 1
        assert found.valid.all() and normalised(channels, true) < 2.0


def test_where_the_first_radar_is_mounted_wrong_its_own_covariance_says_so(rig: Rig) -> None:
    radars = dict(reversed(front_and_left(rig, 0, turned=5.0).items()))
    found, channels, true = driven(0, radars, rig)
    assert found.common is not None and found.common.is_wrong.tolist() == [True, False]
    assert normalised(channels, true) < 2.0


def test_a_radar_whose_velocities_are_those_of_something_else_is_found_to_contradict(rig: Rig) -> None:
    for seed in range(2):
        radars = front_and_left(rig, seed)
        noise = np.random.default_rng(seed).normal(0, 3, radars["radar_left"].vel.shape)
        radars["radar_left"] = radars["radar_left"]._replace(vel=radars["radar_left"].vel + noise)
        assert _contradicting(radars, readings(rig, seed)) == ["radar_left"]
        radars["radar_left"] = radars["radar_left"].without()
        found, channels, true = driven(seed, radars, rig)
        assert found.valid.all() and normalised(channels, true) < 2.5


def test_no_radar_of_a_good_rig_is_left_out(rig: Rig) -> None:
    for seed in range(2):
        assert not _contradicting(front_and_left(rig, seed, turned=5.0), readings(rig, seed))


def test_frames_of_two_radars_at_the_same_instants_are_one_state(rig: Rig) -> None:
    radars = front_and_left(rig, 0)
    together = velocities(rig, "radar_left", 0, late=1e-4)
    radars["radar_left"] = together._replace(ts=together.ts - 5e-5)
    found, channels, true = driven(0, radars, rig)
    assert found.valid.all() and normalised(channels, true) < 2.0


def test_velocities_of_a_flat_array_do_not_contradict_the_imu_and_what_it_does_not_see_is_not_known(rig: Rig) -> None:
    flat = velocities(rig, "radar_front", 0, late=0.0, wrong=False, flat=True)
    late = flat.ts > 2.0
    found, *_ = driven(0, {"radar_front": flat._replace(vel=np.where(late[:, None], np.nan, flat.vel))}, rig)
    assert np.median(found.motion.weight[~late]) > 0.7 and (found.motion.weight[~late] > 0.5).mean() > 0.9
    assert not found.valid[flat.ts > 1].any() and found.sigma[flat.ts > 1].min() > OPTIONS.max_error


def test_a_mount_that_is_right_is_not_doubted_where_the_rig_stands_still(rig: Rig) -> None:
    radars = {name: each._replace(vel=0 * each.vel) for name, each in front_and_left(rig, 0).items()}
    ts = np.arange(0.1, SECONDS + 0.1, 0.01)
    acc = np.tile([0.0, 0.0, 9.80665], (len(ts), 1))
    still = Recorded(ts, acc, 0 * acc, Mount(np.zeros(3), np.eye(3)))
    found = estimate([radars["radar_front"], radars["radar_left"]], still)
    assert found.valid.all() and found.common is not None and not found.common.is_wrong.any()
    assert np.abs(found.common.errors).max() < 1e-3 and np.isfinite(found.common.birge)


def test_how_well_the_times_of_two_radars_are_known_is_what_their_deviations_say(rig: Rig) -> None:
    """The noise of a gyroscope at the end of an arm changes the velocity fast, and says nothing of the time."""
    offsets = np.array([driven(seed, front_and_left(rig, seed), rig)[0].time_offsets for seed in range(5)])
    assert 0.2 < np.mean((offsets[:, 0] / offsets[:, 1]) ** 2) < 3
