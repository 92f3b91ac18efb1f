"""A radar that sends points: its velocity over ground agrees with an accelerometer that knows nothing of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy.signal import butter, filtfilt
from scipy.spatial.transform import Rotation

from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.errors import FormatError
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.importers.ros.record import import_ros
from rover_pipeline.importers.ros.sinks import bin_size
from rover_pipeline.radar.options import PointsOptions
from rover_pipeline.radar.steps import sent_points
from rover_pipeline.table import find_step
from rover_pipeline.validation.check import problems
from tests.importers import bags
from tests.importers.bags import START, cloud

#: Rotation of the radar on its carrier, which its makers published (xyzw), turned by 90 degrees about its own z axis:
#: only so does it look to the right, as the name of its topic says, and only so do the accelerations agree.
_MOUNT = Rotation.from_quat([0.923218, 0.375993, -0.026783, -0.074697]) * Rotation.from_euler("z", 90, degrees=True)
#: Delay of the radar's messages behind their frames, s.
_DELAY = 0.1


def test_the_velocity_of_a_hand_carried_radar_is_the_integral_of_the_accelerations_beside_it(
    captures: Path, tmp_path: Path
) -> None:
    trace = tmp_path / "trace"
    import_ros([captures / "bags" / "ti_mmwave_radar_imu.bag"], trace, say=lambda text: None)
    for name in ("_radar_points", "_radar_velocity"):
        assert run_step(find_step(name), trace, name, Request()).samples == 412
    assert list(problems(trace)) == []
    radar, imu = Sensor(trace / "_radar_velocity"), Sensor(trace / "imu")
    valid = radar.valid(412).astype(bool)
    assert valid.mean() > 0.9
    times, velocity = radar.times(412)[valid] - _DELAY, radar.channel("vel").read()[valid]
    ts = imu.times(imu.length())[::4]
    acc, avel = (imu.channel(name).read().astype("f8")[::4] for name in ("acc", "avel"))

    grid = np.arange(times[0] + 1, times[-1] - 1, 0.05)
    on_carrier = _MOUNT.apply(_at(grid, times, velocity))
    gravity = _gravity(ts, acc, avel)
    band = butter(2, [0.015, 0.1], "band")
    rates = _at(grid, ts, avel)
    accelerated = np.gradient(on_carrier, grid, axis=0) + np.cross(rates, on_carrier)
    ours, theirs = (filtfilt(*band, each, axis=0)[100:-100] for each in (accelerated, _at(grid, ts, acc - gravity)))
    for axis in (0, 1):  # level; the array hardly resolves elevation
        assert np.corrcoef(ours[:, axis], theirs[:, axis])[0, 1] > 0.95
        scale = (ours[:, axis] @ theirs[:, axis]) / (ours[:, axis] @ ours[:, axis])
        assert scale == pytest.approx(1, abs=0.2)  # with mirrored Doppler it is -1


@pytest.mark.parametrize("mounted", [True, False])
def test_a_hand_carried_radar_returns_to_its_start_and_is_not_valid_where_nobody_says_how_it_is_mounted(
    captures: Path, tmp_path: Path, mounted: bool
) -> None:
    trace = tmp_path / "trace"
    import_ros([captures / "bags" / "ti_mmwave_radar_imu.bag"], trace, say=lambda text: None)
    here = {"translation": [0.0, 0.0, 0.0], "rotation": np.eye(3).tolist()}
    rig = {"radar": {"translation": [0.03, 0.03, -0.06], "rotation": _MOUNT.as_matrix().tolist()}, "imu": here}
    if mounted:
        with (trace / "config.yaml").open("a") as file:
            file.write(yaml.safe_dump({"rig": rig}))
    vertical = {"vertical": 1.0}  # a hand moves it up and down too
    options = {"_radar_velocity": vertical, "_radar_odom": vertical}
    for name in ("_radar_points", "_radar_velocity", "_imu_filtered", "_radar_odom"):
        run_step(find_step(name), trace, name, Request(options.get(name, {})))
    found = Sensor(trace / "_radar_odom")
    valid, pos = found.valid(412).astype(bool), found.channel("pos").read()
    if not mounted:
        assert not valid.any()
        return
    assert valid.mean() > 0.9
    # Its clouds have no time stamps of their own: those of the bag are 20 ms late.
    assert np.linalg.norm(pos[-1] - pos[0]) < 0.04 * np.linalg.norm(np.diff(pos, axis=0), axis=1).sum()


def _at(grid: np.ndarray, ts: np.ndarray, values: np.ndarray) -> np.ndarray:
    return np.stack([np.interp(grid, ts, values[:, axis]) for axis in range(3)], axis=1)


def _gravity(ts: np.ndarray, acc: np.ndarray, avel: np.ndarray) -> np.ndarray:
    """Gravity in the frame of the carrier, f8 (N, 3), from rest at the beginning and the angular velocities since."""
    still = slice(0, 50)
    turns = Rotation.from_rotvec((avel[1:] - avel[:75].mean(axis=0)) * np.diff(ts)[:, None])
    rotation, result = Rotation.identity(), [acc[still].mean(axis=0)]
    up = result[0] / np.linalg.norm(result[0]) * 9.81
    for turn in turns:
        rotation = rotation * turn
        result.append(rotation.inv().apply(up))
    return np.array(result)


def test_samples_cannot_be_made_of_points(captures: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    import_ros([captures / "bags" / "ti_mmwave_radar_imu.bag"], trace, say=lambda text: None)
    with pytest.raises(FormatError, match=r"a radar of points and no samples \(radar/iq\), which _radar_range_doppler"):
        run_step(find_step("_radar_range_doppler"), trace, "_radar_range_doppler", Request())


def test_points_come_strongest_first_and_those_of_a_bad_frame_are_left_out() -> None:
    xyz = np.arange(24, dtype="f4").reshape(2, 4, 3)
    xyz[0, 0] = 0
    doppler, strength = np.arange(8, dtype="f4").reshape(2, 4), np.array([[3, 9, 6, 99], [1, 2, 3, 4]], "f4")
    points = sent_points(
        xyz, doppler, np.array([3, 4], "u2"), np.array([1, 0], "u1"), options=PointsOptions(), strength=strength
    )
    assert points["count"].tolist() == [2, 0]  # the first point lies at the radar itself
    assert points["snr"][0, :2].tolist() == [9, 6] and points["doppler"][0, :2].tolist() == [1, 2]
    assert np.isnan(points["xyz"][0, 2:]).all() and np.isnan(points["xyz"][1]).all()


@pytest.mark.parametrize(
    ("strength", "doppler", "channel"),
    [
        ("intensity", "velocity", "intensity"),  # ti_mmwave_rospkg
        ("snr_db", "v_doppler_mps", "snr"),  # RIO
        ("amplitude", "vrad", "intensity"),  # SICK
    ],
)
def test_layouts_of_several_drivers_are_radars(tmp_path: Path, strength: str, doppler: str, channel: str) -> None:
    kind = np.dtype([*((axis, "<f4") for axis in "xyz"), (strength, "<f4"), (doppler, "<f4")])
    points = np.ones(6, kind)
    points[doppler] = np.arange(6)
    sent = [cloud("/radar", START + i * 10**8, points[: 4 + i]) for i in range(3)]
    for approaching in (False, True):
        trace = tmp_path / f"trace{approaching}"
        bag = bags.write_mcap(tmp_path / f"{approaching}.mcap", sent)
        import_ros([bag], trace, doppler="approaching" if approaching else "receding", say=lambda text: None)
        radar = Sensor(trace / "radar")
        assert channel in radar.specs and radar.channel("count").read().tolist() == [4, 5, 6]
        wanted = np.arange(6) * (-1 if approaching else 1)
        np.testing.assert_array_equal(radar.channel("doppler").read(2, 3)[0], wanted)


def test_the_size_of_doppler_bins_is_found_from_the_speeds_and_only_where_there_are_bins() -> None:
    random = np.random.default_rng(0)
    bins = random.integers(0, 30, 500)
    assert bin_size(np.unique((bins * 0.1249).astype("f4"))) == pytest.approx(0.1249, rel=1e-4)
    assert bin_size(np.unique(random.uniform(0, 4, 500))) is None
    assert bin_size(np.array([0.0])) is None
    assert bin_size(np.array([1.0, 1.7])) is None, "two values are near multiples of some step"
    jitter = random.normal(0, 0.02, 30)
    assert bin_size(0.1249 * (1 + np.arange(30) + jitter)) == pytest.approx(0.1249, rel=2e-3)
