"""`_odom` of a simulated walk against the truth: with segments, and with lost, late, empty or featureless sweeps."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.errors import ConfigError
from rover_pipeline.format.provenance import PROVENANCE
from rover_pipeline.format.sensor import Sensor, SensorWriter
from rover_pipeline.options import InputOptions
from rover_pipeline.simulate.motion import ClosedPath as Loop
from rover_pipeline.simulate.motion import Gait, Motion
from rover_pipeline.simulate.presets import PRESETS
from rover_pipeline.simulate.rig import build
from rover_pipeline.simulate.scene.world import Light, World, box
from rover_pipeline.simulate.sensors import lidar
from rover_pipeline.table import find_step
from tests.kit import write_lidar_image
from tests.odometry.truth import Errors, errors, state_of

ODOM = find_step("_odom")


def run(trace: Path, **options: object) -> Path:
    write_lidar_image(trace)
    run_step(ODOM, trace, "_odom", Request(options))
    return trace / "_odom"


def copied(
    tiny: Path, trace: Path, *, keep: np.ndarray | None = None, empty: slice = slice(0), latency: float = 0.0
) -> Path:
    """The walk with only some of its sweeps, some of them without returns, and with latencies of up to `latency` s."""
    shutil.copytree(tiny / "lidar", trace / "lidar")
    shutil.copytree(tiny / "_truth", trace / "_truth")
    shutil.copy(tiny / "config.yaml", trace)
    source = Sensor(tiny / "lidar")
    ts, rng = source.channel("ts").read(), source.channel("rng").read()
    keep = np.arange(len(ts)) if keep is None else keep
    rng[empty] = 0
    ts = ts + np.random.default_rng(0).uniform(0, latency, len(ts))
    shutil.rmtree(trace / "lidar")
    specs = {name: source.specs[name] for name in ("ts", "rng")}
    with SensorWriter(trace / "lidar", specs) as writer:
        writer.append(ts=ts[keep], rng=rng[keep])
    shutil.copy(tiny / "lidar" / "lidar.json", trace / "lidar")
    return trace


def error_of(odom: Path, trace: Path, keep: np.ndarray) -> Errors:
    """Errors of the valid sweeps; `keep` are the numbers of the sweeps in the truth."""
    valid = Sensor(odom).channel("valid").read() != 0
    return errors(state_of(odom, valid), state_of(trace / "_truth", keep[valid]))


@pytest.fixture(scope="module")
def whole(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The walk and its `_odom`."""
    trace = tmp_path_factory.mktemp("odom") / "trace"
    shutil.copytree(tiny, trace)
    run(trace)
    return trace


def test_the_trajectory_of_a_walk_is_accurate_to_two_millimetres(whole: Path) -> None:
    odom = Sensor(whole / "_odom")
    assert (odom.channel("valid").read() == 1).all()
    error = errors(state_of(whole / "_odom"), state_of(whole / "_truth"))
    assert error.pos < 0.002
    assert error.rot < 0.05
    assert error.vel < 0.03
    assert error.avel < 0.01


def test_the_world_is_the_first_valid_pose(whole: Path) -> None:
    first = state_of(whole / "_odom", np.array([0]))
    np.testing.assert_allclose(first.pos[0], 0, atol=1e-12)
    np.testing.assert_allclose(first.rot[0], np.eye(3), atol=1e-12)
    # The rig stands still at first, so the truth has the same world frame.
    truth, estimate = state_of(whole / "_truth"), state_of(whole / "_odom")
    assert np.linalg.norm(estimate.pos - truth.pos, axis=1).max() < 0.004
    assert np.abs(estimate.rot - truth.rot).max() < 0.002


def test_quality_of_a_furnished_room_is_good(whole: Path) -> None:
    odom = Sensor(whole / "_odom")
    assert odom.channel("inliers").read().min() > 0.8
    # Furniture is a thick plane, whose points are not on it.
    assert odom.channel("residual").read().max() < 0.05
    assert (odom.channel("information").read() ** -0.5).max() < 0.001


def test_an_imu_of_a_recording_that_is_too_short_to_calibrate_it_is_left_out(whole: Path) -> None:
    provenance = json.loads((whole / "_odom" / PROVENANCE).read_text())
    assert provenance["measured"]["gyroscope"].startswith("not used: there are less than 5 s")
    assert not provenance["notes"]


@pytest.mark.parametrize("left", [b"", b"abc"])
def test_an_imu_that_recorded_nothing_is_not_needed(left: bytes, whole: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    shutil.copytree(whole, trace, ignore=shutil.ignore_patterns("_odom", "camera", "radar", "_truth_*"))
    for name in json.loads((trace / "imu" / "meta.json").read_text()):
        (trace / "imu" / name).write_bytes(b"")
    (trace / "imu" / "ts").write_bytes(left)
    write_lidar_image(trace)
    run_step(ODOM, trace, "_odom", Request({}, InputOptions(truncate=bool(left))))
    odom = trace / "_odom"
    assert json.loads((odom / PROVENANCE).read_text())["measured"]["gyroscope"] == "none recorded"
    assert errors(state_of(odom), state_of(whole / "_truth")).pos < 0.002


def test_independent_segments_agree_within_millimetres_at_their_seam(tiny: Path, tmp_path: Path) -> None:
    trace = copied(tiny, tmp_path / "trace")
    odom = run(trace, segment=1.2, overlap=0.6)
    measured = json.loads((odom / PROVENANCE).read_text())["measured"]
    assert measured["segments"] == 2
    (seam,) = measured["seams"]
    assert seam["metres"] < 0.003 and seam["degrees"] < 0.1 and seam["planes"] > 100
    error = error_of(odom, trace, np.arange(24))
    assert error.pos < 0.003 and error.rot < 0.06 and error.vel < 0.04


def test_of_two_segments_that_are_not_connected_one_is_valid(tiny: Path, tmp_path: Path) -> None:
    trace = copied(tiny, tmp_path / "trace", empty=slice(6, 19))
    odom = run(trace, segment=0.8, overlap=0.4, imu=False)
    measured = json.loads((odom / PROVENANCE).read_text())["measured"]
    assert measured["segments"] == 3 and [seam["planes"] > 0 for seam in measured["seams"]] == [False, False]
    valid = Sensor(odom).channel("valid").read()
    assert (valid == [1] * 6 + [0] * 18).all(), "the world with more sweeps is valid"
    assert np.isfinite(state_of(odom).pos).all()
    assert error_of(odom, trace, np.arange(24)).pos < 0.004


def test_an_overlap_of_more_than_half_a_segment_is_an_error(tiny: Path, tmp_path: Path) -> None:
    trace = copied(tiny, tmp_path / "trace")
    with pytest.raises(ConfigError, match=r"overlap of 2 s is more than half of segment, 3 s"):
        run(trace, segment=3, overlap=2)


def test_lost_and_late_sweeps_do_not_spoil_the_others(tiny: Path, tmp_path: Path) -> None:
    keep = np.setdiff1d(np.arange(24), [9, 15, 16])
    trace = copied(tiny, tmp_path / "trace", keep=keep, latency=0.008)
    odom = run(trace)
    assert Sensor(odom).channel("valid").read().sum() == len(keep)
    error = error_of(odom, trace, keep)
    assert error.pos < 0.004 and error.rot < 0.1 and error.vel < 0.06


def test_empty_sweeps_are_not_valid_and_the_trajectory_continues_after_them(tiny: Path, tmp_path: Path) -> None:
    trace = copied(tiny, tmp_path / "trace", empty=slice(12, 14))
    odom = run(trace)
    valid = Sensor(odom).channel("valid").read()
    assert (valid == [1] * 12 + [0] * 2 + [1] * 10).all()
    assert np.isfinite(state_of(odom).pos).all()
    assert error_of(odom, trace, np.arange(24)).pos < 0.004


def test_poses_above_an_endless_floor_are_not_valid(tiny: Path, tmp_path: Path) -> None:
    rig = build(PRESETS["tiny"], 1)
    light = Light(np.array([0.0, 0.0, 1.0]), 0.0, np.zeros((0, 3)), 0.3, (0.0, 0.0, 0.0), 100.0)
    floor = World([box((0.0, 0.0, -0.5), (400.0, 400.0, 1.0), "plaster")], light)
    motion = Motion(Loop(np.array([[0.0, 0], [30, 0], [30, 30], [0, 30]])), 1.0, 1.3, Gait(), stand=0.0)
    rays = lidar.rays(rig.beams, 512)
    trace, ts = tmp_path / "trace", 1.7e9 + np.arange(12) / 10
    source = Sensor(tiny / "lidar")
    with SensorWriter(trace / "lidar", {name: source.specs[name] for name in ("ts", "rng")}) as writer:
        for number, stamp in enumerate(ts):
            echoes = lidar.sweep(floor, motion, rays, 1.0 + number / 10, 0.1)
            scan = lidar.measure(echoes, rays, rig.beams.detection_range, 100.0, np.random.default_rng(number))
            writer.append(ts=stamp, rng=scan.rng[None])
    (trace / "lidar" / "lidar.json").write_text(json.dumps(lidar.metadata(rig.beams, 512, 10)))
    odom = Sensor(run(trace))
    assert (odom.channel("valid").read() == 0).all()
    assert (odom.channel("information").read() < 1e4).all()
    found = json.loads((trace / "_odom" / PROVENANCE).read_text())
    assert found["measured"]["degenerate"]["sweeps"] >= 6
    # Two directions of a floor are open, and cov is large along them.
    moves = np.array(found["measured"]["degenerate"]["moves"])
    assert len(moves) == 2 and np.abs(moves[:, 2]).max() < 0.05
    assert any("degenerate: floors and walls say nothing of a motion along" in note for note in found["notes"])
    sides = np.sqrt(np.diagonal(odom.channel("cov").read()[4:8, :3, :3], axis1=1, axis2=2))
    assert (sides[:, :2] > 0.03).all() and (sides[:, 2] < 1e-3 * sides[:, :2].min()).all()
