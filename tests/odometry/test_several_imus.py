"""Which of several IMUs the odometry uses: the one whose rates are nearest to the lidar's."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.format.provenance import read_provenance
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.kinematics.mount import find_mount
from rover_pipeline.kinematics.options import RigOptions
from rover_pipeline.odometry.inertial import Samples, calibrated, nearest_to_lidar
from rover_pipeline.odometry.options import OdometryOptions
from rover_pipeline.simulate.presets import PRESETS
from rover_pipeline.simulate.record import simulate
from rover_pipeline.table import find_step
from rover_pipeline.validation.mounts import shown_mounts
from tests.odometry.truth import errors, state_of

NAMES = ("imu", "imu_cabin")
Damage = Callable[[np.ndarray, np.ndarray], np.ndarray]


@pytest.fixture(scope="module")
def car(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A car with one lidar and two IMUs, of which `imu_cabin` has four times the noise of `imu`."""
    trace, usual = tmp_path_factory.mktemp("imus") / "car", PRESETS["car"]
    kept = tuple(each for each in usual.sensors if each.name in ("lidar_top", *NAMES))
    small = usual.model_copy(update={"sensors": kept, "lidar": "OS-0-32", "columns": 512})
    simulate(trace, preset=small, seed=3, duration=7.5, threads=2)
    run_step(find_step("_lidar_image"), trace, "_lidar_top_image", Request())
    return trace


def used(trace: Path, damage: Damage = lambda ts, rates: rates) -> tuple[str, str]:
    """The one that is used by rates of the lidar which are wrong by 2 mrad/s, where the rates of `imu` are damaged."""
    state, ts = state_of(trace / "_truth"), Sensor(trace / "_truth").channel("ts").read_whole()
    fine = np.arange(0.0, ts[-1] - ts[0], 0.02)
    rates = np.stack([np.interp(fine, ts - ts[0], each) for each in state.avel.T], axis=1)
    reference = fine, rates + np.random.default_rng(1).normal(0, 2e-3, rates.shape)
    found, config = {}, (trace / "config.yaml").read_text()
    for name in NAMES:
        sensor = Sensor(trace / name)
        times, avel = (sensor.channel(each).read_whole().astype("f8") for each in ("ts", "avel"))
        valid = np.ones(len(times), "u1")
        if name == "imu":
            avel = damage(times - ts[0], avel)
            times, avel, valid = (each[np.isfinite(avel).all(axis=1)] for each in (times, avel, valid))
        samples = Samples.of((times, avel, None, valid), OdometryOptions(), ts, ts[0])
        mount = find_mount(name, RigOptions(), config)
        found[name] = calibrated(samples, reference, mount, OdometryOptions(), name)
    return nearest_to_lidar(found)


def test_of_two_good_imus_the_one_with_less_noise_is_used(car: Path) -> None:
    assert used(car) == ("imu", "")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda ts, rates: rates + np.random.default_rng(0).normal(0, 0.03, rates.shape), "differ from the lidar's by"),
        (lambda ts, rates: np.where((np.abs(ts - 4.0) < 0.4)[:, None], np.nan, rates), "differ from the lidar's by"),
        (lambda ts, rates: np.where((ts > 5.8)[:, None], np.nan, rates), "differ from the lidar's by"),
        (lambda ts, rates: rates + 0.003 * ts[:, None], "differ from the lidar's by"),
        (lambda ts, rates: rates * 1.15, "not turned or scaled as stated"),
        (lambda ts, rates: rates * 2.0, "neither in rad/s nor in degrees per second"),
        (lambda ts, rates: rates * [1, 1, -1], "its axes are mirrored"),
        (lambda ts, rates: rates[:, [1, 2, 0]], "not turned or scaled as stated"),
        (lambda ts, rates: 0.0 * rates, "it is dead"),
    ],
    ids=["noisy", "gap", "ends", "drifts", "scale", "range", "sign", "axes", "dead"],
)
def test_an_imu_that_is_damaged_is_not_used_where_there_is_another_one(car: Path, damage: Damage, said: str) -> None:
    name, why = used(car, damage)
    assert name == "imu_cabin"
    assert why.startswith("imu: ") and said in why
    assert why.endswith("; imu_cabin is used for the trajectory instead")


def test_the_odometry_takes_the_better_imu_or_the_one_that_is_named_and_says_which(
    car: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "car"
    shutil.copytree(car, trace)
    avel = trace / "imu" / "avel"
    kind = Sensor(trace / "imu").specs["avel"].dtype
    rates = np.fromfile(avel, kind).reshape(-1, 3)
    (rates * np.array([1, 1, -1], kind)).astype(kind).tofile(avel)
    run_step(find_step("_odom"), trace, "_odom", Request(), threads=2)
    assert "imu_cabin is used for the trajectory instead" in capsys.readouterr().err
    made = read_provenance(trace / "_odom")
    assert made and made["measured"]["imus"]["used"] == "imu_cabin" and made["measured"]["gyroscope"] == "used"
    assert made["measured"]["imus"]["error_rad_s"]["imu"] is None and "lidars" not in made["measured"]
    assert "imu_cabin/avel" in made["inputs"], "results are stale where the other IMU changes"
    assert Sensor(trace / "_odom").channel("valid").read_whole().all()
    assert errors(state_of(trace / "_odom"), state_of(trace / "_truth")).pos < 0.02
    shown = {each.sensor: each for each in shown_mounts(trace)}
    assert shown["imu_cabin"].estimate.mount.rotation[0, 1] > 0.9, "it is turned by -88 degrees"
    request = Request(options={"imu": "imu"}, roles={"lidar": "lidar_top"})
    run_step(find_step("_odom"), trace, "_odom", request, threads=2)
    made = read_provenance(trace / "_odom")
    assert made and "imus" not in made["measured"] and "mirrored" in made["measured"]["gyroscope"]
