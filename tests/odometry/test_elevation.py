"""The elevation of all beams is an unknown of the trajectory: found where it is wrong, and 0 where it is right."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.format.provenance import PROVENANCE
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.odometry.observations import NO_POINTS, Sweep
from rover_pipeline.odometry.registration.point_terms import ELEVATION, SCALE, PointWeights
from rover_pipeline.odometry.registration.point_to_plane import pose_equations
from rover_pipeline.odometry.registration.transforms import transform_rays
from rover_pipeline.odometry.remarks import beam_warnings
from rover_pipeline.odometry.surfels import SurfelMap
from rover_pipeline.simulate.presets import PRESETS
from rover_pipeline.simulate.record import simulate
from rover_pipeline.table import find_step
from tests.odometry.truth import state_of

TURN = np.eye(3)[None]


def floor(rng: np.random.Generator, eye: tuple[float, float, float]) -> np.ndarray:
    """Points of a floor around a level lidar, f4 (N, 3), lidar frame."""
    ahead = rng.uniform(-6, 6, (20_000, 2))
    return np.column_stack([ahead - eye[:2], np.full(len(ahead), -eye[2])]).astype("f4")


def swept(points: np.ndarray) -> Sweep:
    return Sweep(points, np.zeros(len(points), "i4"), np.zeros(1), 0.0, NO_POINTS)


def test_raised_beams_keep_their_ranges_and_azimuths() -> None:
    points = floor(np.random.default_rng(0), (1.0, 2.0, 1.5))
    raised = swept(points).raised(0.01).points.astype("f8")
    plain = points.astype("f8")
    np.testing.assert_allclose(np.linalg.norm(raised, axis=1), np.linalg.norm(plain, axis=1), rtol=1e-6)
    np.testing.assert_allclose(np.arctan2(raised[:, 1], raised[:, 0]), np.arctan2(plain[:, 1], plain[:, 0]), atol=1e-5)
    level = [np.arctan2(each[:, 2], np.hypot(each[:, 0], each[:, 1])) for each in (plain, raised)]
    np.testing.assert_allclose(level[1] - level[0], 0.01, atol=1e-5)


def test_the_equations_know_that_the_map_rises_with_the_beams() -> None:
    """What two sweeps of one floor say of the elevation from 4 m apart is the one that they were made with."""
    rng, eyes, wrong = np.random.default_rng(1), ((0.0, 0.0, 1.5), (4.0, 0.0, 1.5)), 0.002
    first, second = (swept(floor(rng, eye)).raised(-wrong).points for eye in eyes)
    column = np.zeros(len(first), "i4")
    surfels = SurfelMap((1.0, 2.0))
    surfels.insert(transform_rays(first, column, np.array([eyes[0]]), TURN))
    weights = PointWeights(0.5, 0.01, SCALE, 1, 0.0, 0.0, np.zeros(2))
    _, _, _, shared = pose_equations(second, column, np.array([eyes[1]]), TURN, surfels.tables, weights)
    found = shared.right[ELEVATION] / shared.information[ELEVATION, ELEVATION]
    assert found == pytest.approx(wrong, rel=0.1)
    # Planes tilt as they rise: from where the map was made a sweep says nothing.
    _, _, _, same = pose_equations(first, column, np.array([eyes[0]]), TURN, surfels.tables, weights)
    assert same.information[ELEVATION, ELEVATION] < 0.01 * shared.information[ELEVATION, ELEVATION]


@pytest.mark.parametrize("seed", range(3))
def test_beams_that_each_point_elsewhere_leave_the_elevation_of_all_uncertain(tmp_path: Path, seed: int) -> None:
    trace = tmp_path / "rec"
    simulate(trace, preset="tiny", duration=4.0, sensors=("lidar",), threads=1)
    sidecar = trace / "lidar" / "lidar.json"
    about = json.loads(sidecar.read_text())
    angles = about.get("beam_intrinsics", about)
    off = 0.05 * np.random.default_rng(seed).standard_normal(len(angles["beam_altitude_angles"]))
    angles["beam_altitude_angles"] = (angles["beam_altitude_angles"] + off - off.mean()).tolist()
    sidecar.write_text(json.dumps(about))
    for step in ("_lidar_image", "_odom"):
        run_step(find_step(step), trace, step, Request())
    beams = json.loads((trace / "_odom" / PROVENANCE).read_text())["measured"]["beams"]
    assert abs(beams["elevation"]) < 3 * beams["deviation"]
    assert 0.025 < beams["deviation"] < 0.15


@pytest.mark.parametrize("wrong", [0.0, 0.2])
def test_beams_that_point_higher_than_the_file_says_are_found_and_the_trajectory_allows_for_them(
    tmp_path: Path, wrong: float
) -> None:
    small = PRESETS["outdoor"].model_copy(update={"lidar": "OS-0-32", "columns": 512})
    trace = tmp_path / "rec"
    simulate(trace, preset=small, duration=4.0, sensors=("lidar",), threads=1)
    sidecar = trace / "lidar" / "lidar.json"
    about = json.loads(sidecar.read_text())
    angles = about.get("beam_intrinsics", about)
    angles["beam_altitude_angles"] = [angle - wrong for angle in angles["beam_altitude_angles"]]
    sidecar.write_text(json.dumps(about))
    for step in ("_lidar_image", "_odom"):
        run_step(find_step(step), trace, step, Request())
    beams = json.loads((trace / "_odom" / PROVENANCE).read_text())["measured"]["beams"]
    assert abs(beams["elevation"] - wrong) < 0.03
    assert abs(beams["elevation"] - wrong) < 3 * beams["deviation"]
    assert bool(beam_warnings(**beams)) == (wrong > 0)
    odom, truth = state_of(trace / "_odom"), state_of(trace / "_truth")
    ways = [np.linalg.norm(each.pos[-1] - each.pos[0]) for each in (odom, truth)]
    assert Sensor(trace / "_odom").channel("valid").read().mean() > 0.9
    assert abs(ways[0] - ways[1]) < 0.015
