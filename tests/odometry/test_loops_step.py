"""`_odom` with loop closure, of a lidar that walks a little more than one lap around a pillar in a room."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.errors import RoverError
from rover_pipeline.format.meta import ChannelSpec
from rover_pipeline.format.provenance import PROVENANCE
from rover_pipeline.format.sensor import TS, TS_SPEC, VALID, VALID_SPEC, Sensor, SensorWriter
from rover_pipeline.kinematics.state import State
from rover_pipeline.odometry.loops import closure
from rover_pipeline.odometry.loops.closure import correct_trajectory
from rover_pipeline.simulate.motion import WALKING, Motion, ellipse
from rover_pipeline.simulate.presets import PRESETS
from rover_pipeline.simulate.rig import build
from rover_pipeline.simulate.scene.world import Light, World, box
from rover_pipeline.simulate.sensors import lidar
from rover_pipeline.table import find_step
from tests.kit import write_lidar_image
from tests.odometry.truth import CHANNELS, errors, state_of

pytest.importorskip("gtsam", reason="GTSAM is in the extra `loops`")

ODOM = find_step("_odom")
FRAMES = 54
#: Sweeps that are not valid in the recording itself.
INVALID = [4, 40, 41]


def room() -> World:
    """Four walls, a floor, a ceiling, a pillar in the middle and chests along the walls."""
    rng = np.random.default_rng(0)
    parts = [box((0, 0, z), (9, 8, 0.2), "plaster") for z in (-0.1, 2.7)]
    parts += [box((x, 0, 1.3), (0.2, 8, 2.6), "plaster") for x in (-4.5, 4.5)]
    parts += [box((0, y, 1.3), (9, 0.2, 2.6), "plaster") for y in (-4.0, 4.0)]
    parts.append(box((0, 0, 1.3), (0.8, 0.7, 2.6), "plaster", 20.0))
    for angle in np.linspace(0, 2 * np.pi, 10, endpoint=False):
        size = (*rng.uniform(0.4, 1.0, 2), rng.uniform(0.6, 2.0))
        parts.append(box((3.6 * np.cos(angle), 3.2 * np.sin(angle), 0.5), size, "plaster", rng.uniform(0, 90)))
    return World(parts, Light(np.array([0.0, 0.0, 1.0]), 0.0, np.zeros((0, 3)), 0.3, (0.0, 0.0, 0.0), 100.0))


@pytest.fixture(scope="module")
def round_trip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    trace, world, beams = tmp_path_factory.mktemp("loops") / "trace", room(), build(PRESETS["tiny"], 1).beams
    motion = Motion(ellipse(0.0, 0.0, 1.3, 1.2), 1.9, 1.3, WALKING, stand=0.0)
    rays, ends = lidar.rays(beams, 512), 2.0 + np.arange(FRAMES) / 10
    specs = {TS: TS_SPEC, VALID: VALID_SPEC, "rng": ChannelSpec(format="lzmaf", type="u2", shape=(beams.count, 512))}
    with SensorWriter(trace / "lidar", specs) as writer:
        for number, end in enumerate(ends):
            echoes = lidar.sweep(world, motion, rays, end, 0.1)
            scan = lidar.measure(echoes, rays, beams.detection_range, 100.0, np.random.default_rng(number))
            writer.append(ts=1.7e9 + end, valid=number not in INVALID, rng=scan.rng[None])
    (trace / "lidar" / "lidar.json").write_text(json.dumps(lidar.metadata(beams, 512, 10)))
    (trace / "config.yaml").write_text("")
    states = motion.at(ends)._asdict()
    truth = {name: ChannelSpec(format="raw", type="f8", shape=states[name].shape[1:]) for name in CHANNELS}
    with SensorWriter(trace / "_truth", {TS: TS_SPEC, **truth}) as writer:
        writer.append(ts=1.7e9 + ends, **{name: states[name] for name in CHANNELS})
    write_lidar_image(trace)
    return trace


def run(trace: Path, threads: int = 1, **options: object) -> tuple[State, dict[str, Any]]:
    """The states of the sweeps, and the measurements in the provenance."""
    shutil.rmtree(trace / "_odom", ignore_errors=True)
    run_step(ODOM, trace, "_odom", Request({"loop_apart": 5.0, "loop_spacing": 1.0, **options}), threads=threads)
    measured = json.loads((trace / "_odom" / PROVENANCE).read_text())["measured"]
    assert (np.flatnonzero(Sensor(trace / "_odom").channel("valid").read() == 0) == INVALID).all()
    return state_of(trace / "_odom"), measured


def same(one: State, other: State) -> bool:
    return all(a.tobytes() == b.tobytes() for a, b in zip(one, other, strict=True))


def test_a_correct_trajectory_stays_the_same_to_the_last_bit(round_trip: Path) -> None:
    plain, measured = run(round_trip)
    assert "loops" not in measured
    closed, measured = run(round_trip, loops=True)
    summary = measured["loops"]
    assert len(summary["accepted"]) >= 3 and summary["largest"] is None
    for each in summary["accepted"]:
        assert each["metres"] < 0.003 and each["inliers"] > 0.5
        assert each["frames"][1] - each["frames"][0] >= 25
    assert same(closed, plain)


@pytest.mark.system
def test_any_number_of_threads_removes_drift_with_the_same_result(
    round_trip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    close_loops = closure.close_loops

    def close_loops_after_drift(state: State, times: np.ndarray, *rest: Any, **options: Any) -> Any:
        """As if the odometry had drifted by 13 cm along the path."""
        keys = np.array([0, 15, 30, 45, FRAMES - 1])
        drift = np.outer(np.linspace(0, 1, len(keys)), [0.12, -0.05, 0.04])
        old = state.pos[keys], state.rot[keys]
        bad.append(correct_trajectory(state, times, times[keys], old, (old[0] + drift, old[1])))
        return close_loops(bad[-1], times, *rest, **options)

    bad: list[State] = []
    monkeypatch.setattr(closure, "close_loops", close_loops_after_drift)
    truth = state_of(round_trip / "_truth")
    closed, measured = run(round_trip, loops=True, loop_drift=0.03)
    assert len(measured["loops"]["accepted"]) >= 3
    assert 0.03 < measured["loops"]["largest"]["metres"] < 0.2
    before, after = errors(bad[0], truth), errors(closed, truth)
    assert before.pos > 0.03 and after.pos < before.pos / 3 and after.vel < before.vel
    np.testing.assert_allclose(closed.pos[0], 0, atol=1e-12)
    again, _ = run(round_trip, threads=2, loops=True, loop_drift=0.03)
    assert same(closed, again)


def test_without_gtsam_the_error_names_the_extra(round_trip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gtsam", None)
    with pytest.raises(RoverError, match=r"odometry.loops needs .* 'rover-pipeline\[loops\]'"):
        run(round_trip, loops=True)
