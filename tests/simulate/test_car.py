"""A rig with several sensors of each type: each has its own pose, times, noise and truth."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy.spatial import KDTree

from rover_pipeline.format import rig as found_rig
from rover_pipeline.format.trace import Trace
from rover_pipeline.radar.options import PointsOptions
from rover_pipeline.radar.steps import points
from rover_pipeline.simulate.faults import FAULTS
from rover_pipeline.simulate.presets import PRESETS, choose
from rover_pipeline.simulate.record import simulate
from rover_pipeline.simulate.rig import EPOCH, build
from rover_pipeline.validation.accuracy import east_north_up
from tests.radar.scenes import texts
from tests.simulate.test_lidar import sdk_points

TYPES = {
    "lidar": ["lidar_rear", "lidar_top"],
    "radar": ["radar_front", "radar_left", "radar_rear"],
    "camera": ["camera_front", "camera_left", "camera_rear", "camera_right"],
    "imu": ["imu", "imu_cabin"],
    "gnss": ["gnss"],
}
SENSORS = [name for names in TYPES.values() for name in names]
RIG = build(PRESETS["car"], 1)


def truth_of(sensor: str) -> str:
    return "_truth" if sensor == "lidar_top" else f"_truth_{sensor}"


@pytest.fixture(scope="module")
def car(tmp_path_factory: pytest.TempPathFactory) -> Path:
    trace = tmp_path_factory.mktemp("simulated") / "car"
    simulate(trace, preset="car", seed=1, duration=1.6, threads=1)
    return trace


def test_every_sensor_of_the_car_is_there_with_its_type_and_its_truth(car: Path) -> None:
    trace, rig = Trace(car), found_rig.Rig(car)
    assert {type: sorted(rig.of(type)) for type in TYPES} == TYPES
    assert rig.main("lidar") == "lidar_top" and rig.main("radar") == "radar_front" and rig.main("imu") == "imu"
    assert set(trace.sensors()) == {*SENSORS, *map(truth_of, SENSORS), "_truth_objects"}
    config = yaml.safe_load((car / "config.yaml").read_text())
    assert {name: config[name]["type"] for name in SENSORS} == {name: t for t, all in TYPES.items() for name in all}
    for name in SENSORS:
        count = trace.sensor(name).length()
        assert count > 3
        np.testing.assert_array_equal(trace.sensor(name).times(count), trace.sensor(truth_of(name)).times(count))
    assert {tuple(json.loads((car / name / f"{name}.json").read_text())["shape"]) for name in TYPES["radar"]} == {
        (32, 3, 4, 64), (32, 2, 4, 64),
    }  # fmt: skip


def test_each_sensor_has_times_of_its_own(car: Path) -> None:
    first, latencies = set(), set()
    for name in SENSORS:
        truth = Trace(car).sensor(truth_of(name))
        ts, true = truth.channel("ts").read(), truth.channel("true_ts").read()
        assert (ts > true).all() and (ts - true).max() < 0.02
        first.add(round(true[0] - EPOCH, 4))
        latencies.add(round((ts - true)[1], 7))
    assert len(first) == len(latencies) == len(SENSORS)


def test_the_truth_of_each_sensor_has_its_pose_in_section_rig(car: Path) -> None:
    rig = yaml.safe_load((car / "config.yaml").read_text())["rig"]
    assert set(rig) == {*SENSORS} - {"lidar_top"}
    start = RIG.motion.at(np.array([RIG.clocks["lidar_top"].start]))
    for name, mount in rig.items():
        truth = Trace(car).sensor(truth_of(name))
        lidar = RIG.motion.at(truth.channel("true_ts").read() - EPOCH)
        pos = (lidar.pos + lidar.rot @ np.array(mount["translation"]) - start.pos) @ start.rot[0]
        np.testing.assert_allclose(truth.channel("pos").read(), pos, atol=1e-6)
        rot = start.rot[0].T @ lidar.rot @ np.array(mount["rotation"])
        np.testing.assert_allclose(truth.channel("rot").read(), rot, atol=1e-6)
    front, left = (np.array(rig[name]["rotation"])[:, 0] for name in ("radar_front", "radar_left"))
    np.testing.assert_allclose(np.cross(front, left), [0, 0, 1], atol=1e-12)


@pytest.mark.parametrize("sensor", TYPES["radar"])
def test_doppler_of_each_radars_points_is_that_of_its_own_true_velocity(car: Path, sensor: str) -> None:
    radar, truth = Trace(car).sensor(sensor), Trace(car).sensor(f"_truth_{sensor}")
    ego = truth.channel("ego_vel").read()
    frames = np.flatnonzero((radar.channel("valid").read() == 1) & (np.linalg.norm(ego, axis=1) > 2))
    assert len(frames) >= 3
    iq, chirps = radar.channel("iq").read()[frames], RIG.of(sensor).radar
    found = points(iq, np.ones(len(frames), "u1"), options=PointsOptions(), **texts(chirps))
    residuals, others = [], []
    for n, frame in enumerate(frames):
        xyz, doppler = (found[name][n, : found["count"][n]].astype("f8") for name in ("xyz", "doppler"))
        unit = xyz / np.linalg.norm(xyz, axis=1, keepdims=True)
        residuals.append(doppler + unit @ ego[frame])
        others.append(doppler + unit @ np.roll(ego[frame], 1))
    error, wrong = (np.median(np.abs(np.concatenate(each))) for each in (residuals, others))
    assert error < 0.2 * chirps.doppler_resolution < wrong


def test_points_of_the_second_lidar_lie_on_the_surfaces_of_the_first_by_its_mount(car: Path) -> None:
    mount = yaml.safe_load((car / "config.yaml").read_text())["rig"]["lidar_rear"]
    clouds = {}
    for name in TYPES["lidar"]:
        ranges = Trace(car).sensor(name).channel("rng").read(0, 1)[0]  # The car does not move yet.
        xyz = sdk_points(RIG.lidars[name].beams, 512, ranges)[ranges > 0]
        clouds[name] = xyz[np.linalg.norm(xyz, axis=1) < 12]
    top, tree = clouds["lidar_top"], KDTree(clouds["lidar_top"])

    def distance(cloud: np.ndarray) -> float:
        """Median distance, m, from the planes of the nearest points of the first lidar that are one."""
        away, nearest = tree.query(cloud, 6)
        around = top[nearest] - top[nearest].mean(1, keepdims=True)
        _, sizes, axes = np.linalg.svd(around)
        planar = (sizes[:, 2] < 0.02) & (sizes[:, 1] > 0.1) & (away[:, -1] < 0.6)
        assert planar.sum() > 100
        return float(np.median(np.abs(np.einsum("ni,ni->n", cloud - top[nearest].mean(1), axes[:, 2])[planar])))

    rear = clouds["lidar_rear"]
    moved = rear @ np.array(mount["rotation"]).T + mount["translation"]
    assert distance(moved) < 0.01
    assert distance(rear) > 0.1  # as another mount would have it
    assert distance(moved + np.array([0.1, 0.1, 0.0])) > 0.03


def test_the_second_imu_has_four_times_the_noise_of_the_first(car: Path) -> None:
    deviations = {}
    for name in TYPES["imu"]:
        reading, true = (Trace(car).sensor(each).channel("avel").read() for each in (name, f"_truth_{name}"))
        deviations[name] = (reading - true).std(0)
    np.testing.assert_allclose(deviations["imu"], 0.002, rtol=0.3)
    np.testing.assert_allclose(deviations["imu_cabin"], 0.008, rtol=0.3)


def test_places_of_gnss_are_those_of_the_truth_within_their_covariance(tmp_path: Path) -> None:
    simulate(tmp_path / "long", preset="car", seed=2, duration=20.0, sensors=("gnss",))
    gnss, truth = (Trace(tmp_path / "long").sensor(name) for name in ("gnss", "_truth_gnss"))
    llh = np.column_stack([gnss.channel(name).read() for name in ("lat", "lon", "alt")])
    start = RIG.motion.at(np.array([RIG.clocks["lidar_top"].start]))
    pos = truth.channel("pos").read() @ start.rot[0].T
    cov = gnss.channel("cov").read().astype("f8")
    # The first place, of which others are seen, has the same errors.
    errors = east_north_up(llh, 0) - (pos - pos[0])
    errors -= errors.mean(0)
    assert np.ptp(pos, axis=0)[:2].max() > 40
    nees = np.einsum("ni,nij,nj->n", errors, np.linalg.inv(cov), errors)
    assert 2.4 < nees.mean() < 3.6
    assert np.abs(llh[0] - [47.3769, 8.5417, 455.0]).max() < 3


def test_errors_of_the_world_are_put_on_all_sensors_of_a_type() -> None:
    faults = ["imu-mount", "carrier-shift=-1", "clock-offsets=0.05", "imu-late=0.1", "beam-angles"]
    preset, _, _ = choose("car", None, 0, faults, None)
    rig = build(preset, 0)
    assert not {"imu", "imu_cabin"} & {*rig.config()["rig"]}
    assert {rig.of(name).radar.frequency for name in TYPES["radar"]} == {76.0}
    late = {name: rig.clocks[name].delay - RIG.clocks[name].delay for name in SENSORS}
    assert late["lidar_top"] == 0 and late["imu"] > 0.05 and late["imu_cabin"] > 0.05
    assert len({*late.values()}) == len(SENSORS)
    for name in TYPES["lidar"]:
        assert (rig.lidars[name].rays.direction != RIG.lidars[name].rays.direction).any()


@pytest.mark.parametrize("fault", FAULTS)
def test_damage_is_that_of_the_main_sensor_of_a_type(car: Path, tmp_path: Path, fault: str) -> None:
    shutil.copytree(car, tmp_path / "car")
    FAULTS[fault](tmp_path / "car")
    before, after = ({p.relative_to(root): p.read_bytes() for p in root.rglob("*") if p.is_file()}
                     for root in (car, tmp_path / "car"))  # fmt: skip
    changed = {path.parts[0] for path in before if before[path] != after.get(path)}
    rig = found_rig.Rig(car)
    assert changed and changed <= {rig.main(type) for type in TYPES}
