"""Whole recordings: shapes like the real rig's, the ground truth beside them, and the same bytes for the same seed."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from xwr.config import XWRConfig

from rover_pipeline.errors import ConfigError, InTheWayError
from rover_pipeline.format.meta import META
from rover_pipeline.format.provenance import PROVENANCE, files_of, read_provenance
from rover_pipeline.format.trace import Trace
from rover_pipeline.simulate.presets import PRESETS
from rover_pipeline.simulate.record import Truth, simulate
from rover_pipeline.simulate.rig import EPOCH, MOUNTS, PACKETS_LOST_EVERY, Rig, build
from rover_pipeline.simulate.sensors import imu, lidar

SENSORS = ["camera", "imu", "lidar", "radar"]
TRUTH = ["_truth", "_truth_camera", "_truth_imu", "_truth_objects", "_truth_radar"]


def digests(trace: Path) -> dict[str, str]:
    """Digests of all files but `provenance.json`, which holds versions."""
    files = sorted(path for path in trace.rglob("*") if path.is_file() and path.name != PROVENANCE)
    return {str(path.relative_to(trace)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_every_sensor_and_its_truth_open_with_equal_lengths(tiny: Path) -> None:
    trace = Trace(tiny)
    assert trace.sensors() == sorted([*SENSORS, *TRUTH], key=lambda name: (name.startswith("_"), name))
    for name in SENSORS:
        truth = "_truth" if name == "lidar" else f"_truth_{name}"
        count = trace.sensor(name).length()
        assert trace.sensor(truth).length() == count
        np.testing.assert_array_equal(trace.sensor(name).times(count), trace.sensor(truth).times(count))
        assert trace.sensor(truth).valid(count).all()
        files = {path.name for path in (tiny / truth).iterdir()} - {META, PROVENANCE}
        assert files_of(read_provenance(tiny / truth)) == files


def test_a_tiny_recording_is_well_under_3_mb(tiny: Path) -> None:
    assert sum(path.stat().st_size for path in tiny.rglob("*") if path.is_file()) < 2_700_000


def test_a_tiny_recording_has_the_bytes_that_it_had_when_a_rig_had_one_sensor_of_a_type(tiny: Path) -> None:
    # Of files that no library of compression has written. Who changes them on purpose changes the digest too.
    names = ["config.yaml", "_truth/truth.json", "radar/iq", "imu/acc", "imu/avel", "imu/rot", "_truth_objects/centre"]
    names += [f"{sensor}/ts" for sensor in SENSORS] + [f"{sensor}/pos" for sensor in TRUTH if "objects" not in sensor]
    whole = hashlib.sha256(b"".join((tiny / name).read_bytes() for name in names))
    assert whole.hexdigest() == "62b28f28748ef7be76c67f603d08118507c825825b62dbc43833ee1292d5dc2e"


@pytest.mark.system
def test_the_same_seed_gives_the_same_bytes_on_any_number_of_threads(tiny: Path, tmp_path: Path) -> None:
    simulate(tmp_path / "again", preset="tiny", seed=1, threads=3)
    assert digests(tmp_path / "again") == digests(tiny)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--duration", "1e12"], "duration must be at least 0.5 s and at most 86400 s"),
        (["--duration", "nan"], "duration must be"),
        (["--seed", "-1"], "seed must not be negative"),
        (["--duration", "2", "--fault", "lidar-silence=3"], "lidar-silence leaves no sweeps"),
        (["--preset", "no"], "unknown preset"),
    ],
)
def test_what_cannot_be_simulated_is_told_before_the_simulator_is_loaded(
    arguments: list[str], told: str, tmp_path: Path
) -> None:
    script = "import sys\nfrom rover_pipeline.cli import main\nprint(main(sys.argv[1:]), 'numba' in sys.modules)"
    command = [sys.executable, "-c", script, "simulate", str(tmp_path / "new"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert told in done.stderr
    assert done.stdout.split() == ["1", "False"]


def test_another_seed_gives_other_bytes_of_the_same_walk(tiny: Path, tmp_path: Path) -> None:
    simulate(tmp_path / "other", preset="tiny", seed=2, duration=1.0)
    ours, other = Trace(tiny), Trace(tmp_path / "other")
    for sensor, channel in [("lidar", "rng"), ("radar", "iq"), ("imu", "acc"), ("camera", "ts")]:
        samples = other.sensor(sensor).channel(channel).read()
        assert (samples != ours.sensor(sensor).channel(channel).read(0, len(samples))).any()
    pos = other.sensor("_truth").channel("pos").read()
    np.testing.assert_array_equal(pos, ours.sensor("_truth").channel("pos").read(0, len(pos)))


def test_the_world_frame_is_the_lidars_first_pose(tiny: Path) -> None:
    truth = Trace(tiny).sensor("_truth")
    np.testing.assert_allclose(truth.channel("pos").read(0, 1)[0], 0.0, atol=1e-12)
    np.testing.assert_allclose(truth.channel("rot").read(0, 1)[0], np.eye(3), atol=1e-12)


def test_stamps_come_a_little_after_the_true_instants_of_the_truth(tiny: Path) -> None:
    sensors = [name for name in TRUTH if name != "_truth_objects"]  # Those are at the instants of `_truth`.
    for name in sensors:
        truth = Trace(tiny).sensor(name)
        latency = truth.channel("ts").read() - truth.channel("true_ts").read()
        assert (latency > 0).all() and latency.max() < 0.02
    first = {name: Trace(tiny).sensor(name).channel("true_ts").read(0, 1)[0] - EPOCH for name in sensors}
    assert len(set(first.values())) == len(sensors)


def test_sensors_have_the_extrinsics_of_config_yaml(tiny: Path) -> None:
    rig = yaml.safe_load((tiny / "config.yaml").read_text())["rig"]
    motion = build(PRESETS["tiny"], 1).motion
    first = motion.at(np.array([build(PRESETS["tiny"], 1).clocks["lidar"].start]))
    for name in ("radar", "camera", "imu"):
        truth = Trace(tiny).sensor(f"_truth_{name}")
        lidar = motion.at(truth.channel("true_ts").read() - EPOCH)
        pos = (lidar.pos + lidar.rot @ np.array(rig[name]["translation"]) - first.pos) @ first.rot[0]
        np.testing.assert_allclose(truth.channel("pos").read(), pos, atol=1e-6)
        rot = first.rot[0].T @ lidar.rot @ np.array(rig[name]["rotation"])
        np.testing.assert_allclose(truth.channel("rot").read(), rot, atol=1e-6)
        np.testing.assert_allclose(MOUNTS[name].rotation, rig[name]["rotation"])


def test_xwr_reads_the_chirps_and_agrees_with_the_sidecar(tiny: Path) -> None:
    arguments = yaml.safe_load((tiny / "config.yaml").read_text())["radar"]["args"]["radar"]
    config = XWRConfig(**arguments)
    sidecar = json.loads((tiny / "radar" / "radar.json").read_text())
    assert list(config.shape) == sidecar["shape"]
    assert config.range_resolution == pytest.approx(sidecar["range_resolution"])
    assert config.doppler_resolution == pytest.approx(sidecar["doppler_resolution"])
    assert Trace(tiny).sensor("radar").specs["iq"].shape == config.raw_shape


def test_radar_frames_with_lost_packets_are_marked_invalid_and_hold_zeros(tmp_path: Path) -> None:
    preset = PRESETS["tiny"].model_copy(update={"imu_rate": 10.0, "camera_rate": 1.0, "lidar_rate": 10})
    simulate(tmp_path / "long", preset=preset, seed=3, duration=0.1 * PACKETS_LOST_EVERY + 0.2)
    radar = Trace(tmp_path / "long").sensor("radar")
    valid, iq = radar.channel("valid").read(), radar.channel("iq").read()
    zeros = (iq.reshape(len(iq), -1) == 0).mean(axis=1)
    assert (valid == 0).sum() >= 1
    assert zeros[valid == 0].min() > 0.01
    assert np.median(zeros[valid == 1]) < 0.03


def test_a_radar_with_real_samples_and_a_lidar_with_64_beams_are_recorded_in_their_shapes(tmp_path: Path) -> None:
    tiny = PRESETS["tiny"]
    radar = tiny.radar.model_copy(update={"device": "AWR2944"})
    simulate(tmp_path / "other", preset=tiny.model_copy(update={"radar": radar, "lidar": "OS-1-64"}), duration=0.6)
    trace = Trace(tmp_path / "other")
    assert trace.sensor("radar").specs["iq"].shape == (16, 4, 4, 64)
    assert json.loads((trace.path / "radar" / "radar.json").read_text())["shape"] == [16, 4, 4, 64]
    assert trace.sensor("lidar").specs["rng"].shape == (64, 512)
    assert (trace.sensor("lidar").channel("rng").read() > 0).mean() > 0.9


def test_the_radars_ego_velocity_is_that_in_the_middle_of_its_chirps(tiny: Path) -> None:
    rig, truth = build(PRESETS["tiny"], 1), Trace(tiny).sensor("_truth_radar")
    times = truth.channel("true_ts").read() - EPOCH + rig.preset.radar.duration / 2
    state = rig.mounted("radar").at(times)
    ego_vel = np.einsum("tji,tj->ti", state.rot, state.vel)
    np.testing.assert_allclose(truth.channel("ego_vel").read(), ego_vel, atol=1e-6)


def test_bodies_move_with_the_velocity_that_the_truth_gives(tiny: Path) -> None:
    truth = Trace(tiny).sensor("_truth")
    times, bodies = truth.channel("true_ts").read(), truth.channel("bodies").read()
    steps = np.diff(bodies[..., :3], axis=0) / np.diff(times)[:, None, None]
    np.testing.assert_allclose(steps, (bodies[1:, :, 3:] + bodies[:-1, :, 3:]) / 2, atol=0.04)
    names = json.loads((truth.path / "truth.json").read_text())["bodies"]
    assert len(names) == bodies.shape[1]


def test_boxes_of_the_truth_hold_the_returns_of_their_bodies(tmp_path: Path) -> None:
    preset = PRESETS["outdoor"].model_copy(update={"lidar": "OS-0-32", "columns": 512})
    simulate(tmp_path / "street", preset=preset, duration=0.5, sensors=("lidar",))
    truth, poses = (Trace(tmp_path / "street").sensor(name) for name in ("_truth_objects", "_truth"))
    centre, extent, vel, yaw, returns = (
        truth.channel(name).read()[0] for name in ("centre", "extent", "vel", "yaw", "returns")
    )
    feet = poses.channel("bodies").read()[0]
    np.testing.assert_allclose(vel, feet[:, 3:])
    # The middle of a box is above the feet, and it heads where it moves.
    np.testing.assert_allclose(centre[:, 2] - extent[:, 2] / 2, feet[:, 2], atol=0.15)
    np.testing.assert_allclose(np.cos(yaw - np.arctan2(vel[:, 1], vel[:, 0])), 1, atol=1e-3)
    names = json.loads((poses.path / "truth.json").read_text())["bodies"]
    np.testing.assert_allclose(extent[names.index("car 1")], [4.22, 1.8, 1.4], atol=0.1)
    rig = build(preset, 0)
    end = float(poses.channel("true_ts").read()[0]) - EPOCH
    state = rig.motion.at(lidar.column_times(end, 0.1, 512))
    rays = rig.lidars["lidar"].rays
    echoes = lidar.sweep(rig.world, rig.motion, rays, end, 0.1)
    origin = rig.motion.at(np.array([rig.clocks["lidar"].start]))
    seen = 0
    for body in range(len(names)):
        beam, column = np.nonzero(echoes.body == body)
        # Half of the beams detect a surface of 10 per cent at the detection range; power falls with its square.
        power = np.maximum(echoes.reflectivity[beam, column], 1e-4) / 0.1
        margin = np.log(power * (rig.beams.detection_range / echoes.distance[beam, column]) ** 2)
        chance = 0.998 / (1 + np.exp(-4 * margin))
        assert abs(returns[body] - chance.sum()) <= 4 * np.sqrt((chance * (1 - chance)).sum())
        if len(beam) <= 10:
            continue
        seen += 1
        own = rays.origin[column] + echoes.distance[beam, column, None] * rays.direction[beam, column]
        spots = np.einsum("nij,nj->ni", state.rot[column], own) + state.pos[column]
        spots = (spots - origin.pos[0]) @ origin.rot[0]
        since = lidar.column_times(end, 0.1, 512)[column] - end
        away = spots - centre[body] - since[:, None] * vel[body]
        along = np.abs(np.cos(yaw[body]) * away[:, 0] + np.sin(yaw[body]) * away[:, 1])
        assert (along <= extent[body, 0] / 2 + 0.1).all() and along.max() > 0.3 * extent[body, 0]
    assert seen >= 2


@pytest.mark.parametrize("preset", ["indoor", "outdoor", "bike"])
def test_presets_have_the_rates_and_shapes_of_the_real_data_set(preset: str) -> None:
    rig: Rig = build(PRESETS[preset], 0)
    assert (rig.beams.count, rig.preset.columns, rig.preset.lidar_rate) == (128, 2048, 10)
    assert rig.preset.radar.shape == (64, 3, 4, 256) and rig.preset.radar.words == 512
    assert rig.preset.radar.frame_period == 50.0 and rig.preset.radar.duration < 0.05
    assert (rig.lens().width, rig.lens().height, rig.preset.camera_rate) == (1920, 1080, 30.0)
    assert rig.preset.imu_rate == 100.0


def test_an_unknown_name_raises_an_error_that_suggests_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'indor'; did you mean 'indoor'\?"):
        simulate(tmp_path / "a", preset="indor")
    with pytest.raises(ConfigError, match=r"'powercut'; did you mean 'power-cut'\?"):
        simulate(tmp_path / "a", preset="tiny", faults=["powercut"])
    with pytest.raises(ConfigError, match=r"at least 0\.5 s"):
        simulate(tmp_path / "a", preset="tiny", duration=0.1)
    assert not list(tmp_path.iterdir())


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep")
    with pytest.raises(InTheWayError, match="already exists"):
        simulate(tmp_path / "mine", preset="tiny")


def test_a_recording_of_some_sensors_equals_that_part_of_a_whole_one(tmp_path: Path) -> None:
    for name, sensors in (("all", None), ("some", ("lidar", "imu"))):
        simulate(tmp_path / name, preset="tiny", seed=3, duration=0.6, sensors=sensors)
    whole, part = digests(tmp_path / "all"), digests(tmp_path / "some")
    assert Trace(tmp_path / "some").sensors() == ["imu", "lidar", "_truth", "_truth_imu", "_truth_objects"]
    assert part == {name: whole[name] for name in part}


@pytest.mark.parametrize("sensor", ["imu", "radar"])
def test_truths_and_readings_do_not_depend_on_those_that_are_computed_with_them(sensor: str) -> None:
    rig = build(PRESETS["tiny"], 0)
    truth, ticks = Truth(rig, sensor), list(rig.clocks[sensor].ticks(0.9, rig.key(sensor)))
    together = truth.at(ticks)
    readings = imu.ideal_reading(rig.mounted(sensor).at(np.array([tick.time for tick in ticks])))
    for number, tick in enumerate(ticks):
        for name, values in truth.at([tick]).items():
            np.testing.assert_array_equal(values[0], together[name][number], err_msg=name)
        alone = imu.ideal_reading(rig.mounted(sensor).at(np.array([tick.time])))
        for one, all_of_them in zip(alone, readings, strict=True):
            np.testing.assert_array_equal(one[0], all_of_them[number])
