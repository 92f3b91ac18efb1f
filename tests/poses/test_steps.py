"""Poses of the sensors of a simulated recording, from its true trajectory instead of an estimated one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import yaml
from scipy.spatial.transform import Rotation

from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.errors import ConfigError, RoverError
from rover_pipeline.format.provenance import PROVENANCE
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.kinematics.mount import find_mount
from rover_pipeline.kinematics.options import MountOptions, RigOptions
from rover_pipeline.poses.options import PosesOptions
from rover_pipeline.poses.steps import poses
from rover_pipeline.simulate.presets import PRESETS
from rover_pipeline.simulate.rig import EPOCH, build
from rover_pipeline.table import find_step


def made(trace: Path, sensor: str, **options: object) -> Sensor:
    run_step(find_step(f"_{sensor}_pose"), trace, f"_{sensor}_pose", Request(options))
    return Sensor(trace / f"_{sensor}_pose")


def read(sensor: Sensor, *names: str) -> list[np.ndarray]:
    return [sensor.channel(name).read() for name in names]


def true_states(trace: Path, sensor: str, later: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Position, rotation and velocity of a sensor some seconds after its samples, in the world of the truth."""
    rig = build(PRESETS["tiny"], 1)
    first = rig.motion.at(np.array([rig.clocks["lidar"].start]))
    time = Sensor(trace / f"_truth_{sensor}").channel("true_ts").read() - EPOCH + later
    state = rig.mounted(sensor).at(time)
    state = state._replace(pos=state.pos - first.pos[0]).rotated(first.rot[0].T)
    return state.pos, state.rot, state.vel


@pytest.mark.parametrize("sensor", ["radar", "camera", "imu"])
def test_poses_are_the_truth_of_the_simulator_within_millimetres(sensor: str, drive: Path) -> None:
    pos, rot, vel, ts, valid = read(made(drive, sensor), "pos", "rot", "vel", "ts", "valid")
    # A frame of the radar is measured while its chirps last, and its pose is of their middle.
    later = PRESETS["tiny"].radar.duration / 2 if sensor == "radar" else 0.0
    true_pos, true_rot, true_vel = true_states(drive, sensor, later)
    lidar = Sensor(drive / "_truth").channel("ts").read()
    known = (ts + later >= lidar[0]) & (ts + later <= lidar[-1])
    recorded = Sensor(drive / sensor)
    assert (valid == (known & (recorded.valid(len(ts)) > 0))).all() and valid.sum() > 15
    assert (np.isfinite(pos).all(axis=1) == known).all()
    # The minimum latency of a sensor cannot be estimated. It is up to 1.5 ms here.
    assert np.linalg.norm(pos - true_pos, axis=1)[known].max() < 0.002
    assert np.sqrt(np.square(vel - true_vel).sum(1)[known].mean()) < 0.01
    assert np.degrees(Rotation.from_matrix(np.swapaxes(rot, 1, 2)[known] @ true_rot[known]).magnitude().max()) < 0.2


def test_extrinsics_of_the_config_come_before_those_of_the_recording(drive: Path) -> None:
    lidar_pos = Sensor(drive / "_truth").channel("pos").read()
    rotation = Rotation.from_euler("z", 90, degrees=True).as_matrix()
    mount = {"translation": (0.0, 0.0, 1.0), "rotation": tuple(map(tuple, np.round(rotation, 4)))}
    recorded, configured = (
        read(made(drive, "radar", **more), "pos", "rot") for more in ({}, {"rig": {"radar": mount}})
    )
    sources = []
    for rig in ({}, {"rig": {"radar": mount}}):
        made(drive, "radar", **rig)
        sources.append(json.loads((drive / "_radar_pose" / PROVENANCE).read_text())["measured"]["extrinsics"])
    assert sources == ["config.yaml", "config"]
    known = np.isfinite(recorded[0]).all(axis=1)
    assert abs(np.median(configured[0][known, 2]) - np.median(lidar_pos[:, 2]) - 1.0) < 0.02
    relative = np.swapaxes(recorded[1][known], 1, 2) @ configured[1][known]
    assert np.allclose(Rotation.from_matrix(relative).as_euler("zyx", degrees=True)[:, 0], 88.5, atol=0.1)
    np.testing.assert_allclose(
        relative @ np.swapaxes(relative, 1, 2), np.tile(np.eye(3), (known.sum(), 1, 1)), atol=1e-12
    )


def test_a_radar_pose_is_at_its_time_stamp_and_says_so_where_the_duration_of_frames_is_not_known(
    drive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = shutil.copytree(drive, tmp_path / "trace")
    (trace / "config.yaml").write_text(
        yaml.safe_dump({"rig": yaml.safe_load((trace / "config.yaml").read_text())["rig"]})
    )
    shutil.rmtree(trace / "_radar_pose", ignore_errors=True)
    measured, errors = {}, {}
    for text in ("radar.json", "nothing"):
        if text == "nothing":
            (trace / "radar" / "radar.json").unlink()
        (pos,) = read(made(trace, "radar"), "pos")
        measured[text] = json.loads((trace / "_radar_pose" / PROVENANCE).read_text())["measured"]
        true, _, _ = true_states(trace, "radar", measured[text]["radar_instant_after_ts_s"])
        errors[text] = np.nanmax(np.linalg.norm(pos - true, axis=1))
    assert [each["radar_frame_duration_from"] for each in measured.values()] == ["radar.json", "unknown"]
    assert measured["radar.json"]["radar_instant_after_ts_s"] == pytest.approx(
        PRESETS["tiny"].radar.duration / 2, rel=0.03
    )
    assert measured["nothing"]["radar_instant_after_ts_s"] == 0 and max(errors.values()) < 0.002
    assert capsys.readouterr().err.count("says how long the chirps of a frame last") == 1


@pytest.mark.parametrize("preset", ["indoor", "outdoor", "bike"])
def test_the_covariance_of_poses_in_gaps_of_the_odometry_holds_their_errors(preset: str) -> None:
    rig, ts = build(PRESETS[preset], 3), 3 + 0.1 * np.arange(100)
    kept = np.arange(100) % 10 < 7  # gaps of 0.4 s
    odometry = {"ts": ts[kept], "valid": np.ones(kept.sum(), "u1"), **rig.motion.at(ts[kept])._asdict()}
    wanted = 3 + 0.01 * np.arange(900)
    frames: Any = SimpleNamespace(ts=wanted, count=len(wanted))
    exact, known = np.zeros((kept.sum(), 6, 6)), MountOptions(covariance=((0.0,) * 7,) * 7)
    options = PosesOptions(smoothed=False, rig=RigOptions(camera=known))
    steps = poses(frames, sensor="camera", options=options, odometry=odometry, cov=exact)
    made = [each for each in steps if isinstance(each, dict)]
    pos, rot, cov = (np.concatenate([each[name] for each in made]) for name in ("pos", "rot", "cov"))
    true, passed = rig.motion.at(wanted), (wanted - 3) % 1
    in_gap = (passed > 0.62) & (passed < 0.98)
    assert not cov[passed < 0.58].any()
    turned = Rotation.from_matrix(np.swapaxes(rot, 1, 2) @ true.rot).as_rotvec()
    for axes, error in ((slice(0, 3), np.einsum("nji,nj->ni", rot, true.pos - pos)), (slice(3, 6), turned)):
        squared = np.einsum("ni,nij,nj->n", error[in_gap], np.linalg.inv(cov[in_gap, axes, axes]), error[in_gap]) / 3
        assert 0.1 < squared.mean() < 3


@pytest.mark.parametrize("sensor", ["camera", "radar", "imu"])
def test_the_covariance_of_poses_holds_a_millisecond_that_samples_are_late_where_rig_states_none(sensor: Any) -> None:
    rig, ts, wanted = build(PRESETS["bike"], 3), 3 + 0.1 * np.arange(40), 3 + 0.01 * np.arange(380)
    odometry = {"ts": ts, "valid": np.ones(len(ts), "u1"), **rig.motion.at(ts)._asdict()}
    exact, frames = np.zeros((len(ts), 6, 6)), cast(Any, SimpleNamespace(ts=wanted, count=len(wanted)))
    steps = poses(frames, sensor=sensor, options=PosesOptions(smoothed=False), odometry=odometry, cov=exact)
    made = [each for each in steps if isinstance(each, dict)]
    vel, rot, cov = (np.concatenate([each[name] for each in made]) for name in ("vel", "rot", "cov"))
    late = 0.001 * np.einsum("nji,nj->ni", rot, vel)
    np.testing.assert_allclose(np.einsum("nii->ni", cov[:, :3, :3]), late**2, rtol=1e-4, atol=1e-12)
    turned = Rotation.from_matrix(np.swapaxes(rot[:-1], 1, 2) @ rot[1:]).magnitude() / 10
    assert np.abs(np.sqrt(np.einsum("nii->n", cov[:-1, 3:, 3:])) - turned).max() < 0.1 * turned.max()


def test_a_radar_faster_than_its_largest_doppler_bin_is_reported(
    drive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace"
    shutil.copytree(drive, trace)
    made(trace, "radar")
    assert "Doppler" not in capsys.readouterr().err
    measured = json.loads((trace / "_radar_pose" / PROVENANCE).read_text())["measured"]
    assert measured["max_boresight_speed_mps"] == pytest.approx(0.8, abs=0.15)
    sidecar = json.loads((trace / "radar" / "radar.json").read_text())
    assert measured["max_doppler_mps"] == pytest.approx(sidecar["doppler_resolution"] * sidecar["shape"][0] / 2)
    sidecar["doppler_resolution"] = 0.01
    (trace / "radar" / "radar.json").write_text(json.dumps(sidecar))
    made(trace, "radar")
    assert "Doppler bins end at 0.08 m/s" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("rotation", "complaint"),
    [
        ([[1, 0, 0], [0, 1, 0], [0, 0, 1.1]], "differs from the identity by up to 0.21"),
        ([[1, 0, 0], [0, -1, 0], [0, 0, 1]], "is a reflection"),
        ([[1, 0, 0], [0, 1, 0]], "rotation"),
        ([[1, 0, 0], [0, 1, 0], [0, 0, float("nan")]], "finite"),
    ],
)
def test_a_matrix_that_is_no_rotation_is_an_error_that_says_why(rotation: list[list[float]], complaint: str) -> None:
    with pytest.raises(ConfigError, match=rf"config: rig\.radar\..*{complaint}"):
        RigOptions.parse({"radar": {"rotation": rotation}}, "rig")
    recorded = yaml.safe_dump({"rig": {"radar": {"translation": [0, 0, 0], "rotation": rotation}}})
    with pytest.raises(ConfigError, match=rf"config\.yaml: rig\.radar\..*{complaint}"):
        find_mount("radar", RigOptions(), recorded)


def test_a_misspelled_key_of_a_pose_names_the_nearest_known_one() -> None:
    with pytest.raises(ConfigError, match=r"rig\.radar\.translatoin: unknown key; did you mean 'translation'\?"):
        RigOptions.parse({"radar": {"translatoin": [0, 0, 0]}}, "rig")


def test_a_rotation_written_with_few_digits_becomes_an_exact_one() -> None:
    rotation = np.round(Rotation.from_euler("zyx", [31, 7, -12], degrees=True).as_matrix(), 3)
    mount = find_mount("imu", RigOptions(imu=MountOptions(rotation=tuple(map(tuple, rotation)))), None)
    np.testing.assert_allclose(mount.rotation.T @ mount.rotation, np.eye(3), atol=1e-14)
    assert np.abs(mount.rotation - rotation).max() < 1e-3 and mount.known


@pytest.mark.parametrize(
    "recorded", [None, "", "lidar: {}", "rig: {camera: {translation: [1, 2, 3]}}", "rig: {radar: }"]
)
def test_a_sensor_without_extrinsics_has_the_pose_of_the_lidar(recorded: str | None) -> None:
    mount = find_mount("radar", RigOptions(), recorded)
    assert not mount.known and not mount.translation.any() and (mount.rotation == np.eye(3)).all()


@pytest.mark.parametrize(
    "recorded",
    ["rig: [1, 2]", "rig: {radar: 5}", "rig: {radar: {translatoin: [0, 0, 0]}}", "a: [b", "day: 2026-02-30", 999 * "["],
)
def test_a_rig_of_the_recording_that_cannot_be_read_is_an_error_that_names_it(recorded: str) -> None:
    with pytest.raises(RoverError, match=r"config\.yaml"):
        find_mount("radar", RigOptions(), recorded)


def test_accelerations_are_nearer_to_the_truth_at_times_without_jitter(drive: Path) -> None:
    true = Sensor(drive / "_truth_camera").channel("acc").read()
    errors = []
    for smoothed in (True, False):
        acc = made(drive, "camera", smoothed=smoothed).channel("acc").read()
        errors.append(float(np.sqrt(np.nanmean(np.square(acc - true).sum(axis=1)))))
    assert errors[0] < errors[1] / 4
