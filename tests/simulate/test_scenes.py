"""The scenes: the rig and the bodies have clearance, and there is enough for the sensors to measure."""

from __future__ import annotations

import numpy as np
import pytest

from rover_pipeline.simulate.presets import PRESETS
from rover_pipeline.simulate.rig import build
from rover_pipeline.simulate.sensors import lidar
from tests.kit import WHOLE

ALL_PRESETS = pytest.mark.parametrize("preset", list(PRESETS))
LAP_S = {
    "tiny": 36.0, "indoor": 36.0, "smooth": 36.0, "stairs": 51.0, "outdoor": 145.0, "bike": 50.0,
    "park": 98.0, "bushes": 98.0, "crowd": 142.0, "tunnel": 178.0, "car": 33.0,
}  # fmt: skip


@ALL_PRESETS
def test_nothing_is_nearer_to_the_lidar_than_30_cm_along_the_whole_path(preset: str) -> None:
    rig = build(PRESETS[preset], 0)
    rays = lidar.rays(lidar.BEAMS["OS-0-32"], 512)
    for end in np.arange(1.0, LAP_S[preset], 1.0 if WHOLE else 3.0):
        distance = lidar.sweep(rig.world, rig.motion, rays, float(end), 0.1).distance
        assert distance.min() > 0.3, f"{distance.min():.2f} m at {end} s"


@ALL_PRESETS
def test_bodies_stay_away_from_the_rigs_path(preset: str) -> None:
    rig = build(PRESETS[preset], 0)
    times = np.arange(0.0, 120.0, 0.25)
    rig_pos = rig.motion.at(times).pos[:, :2]
    feet = np.array([rig.world.body_states(float(time))[:, :2] for time in times])
    assert np.linalg.norm(feet - rig_pos[:, None], axis=-1).min() > 0.6


@ALL_PRESETS
def test_the_lidar_has_returns_along_the_whole_path(preset: str) -> None:
    rig = build(PRESETS[preset], 0)
    rays = lidar.rays(rig.beams, 512)
    for end in np.arange(1.0, LAP_S[preset], 10.0):
        echoes = lidar.sweep(rig.world, rig.motion, rays, float(end), 0.1)
        scan = lidar.measure(echoes, rays, rig.beams.detection_range, 100.0, np.random.default_rng(0))
        assert (scan.rng > 0).mean() > 0.4


@ALL_PRESETS
def test_a_target_is_in_the_cameras_field_of_view_somewhere(preset: str) -> None:
    rig = build(PRESETS[preset], 0)
    camera = next(name for name, sensor in rig.sensors.items() if sensor.type == "camera")
    state = rig.mounted(camera).at(np.arange(0.0, LAP_S[preset], 0.5))
    positions = np.array([target.centre for target in rig.world.targets])
    points = np.einsum("tij,tni->tnj", state.rot, positions - state.pos[:, None])
    in_view = (points[..., 0] > 0.5) & (abs(points[..., 1]) < 0.7 * points[..., 0]) & (points[..., 0] < 12)
    assert in_view.any()
