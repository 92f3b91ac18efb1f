"""The odometry of real sweeps agrees with reference trajectories."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.odometry import register_at_once
from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.importers.ouster import import_ouster
from rover_pipeline.odometry.observations import Sweep
from rover_pipeline.odometry.options import OdometryOptions
from rover_pipeline.table import find_step
from tests.kit import write_lidar_image
from tests.odometry.truth import state_of

OPTIONS = OdometryOptions()


def sweep_of_one_instant(points: np.ndarray, stamp: float) -> Sweep:
    """A sweep whose points all count as measured at one instant: the first one in every cube of 0.2 m."""
    distance = np.linalg.norm(points, axis=1)
    points = points[(distance >= OPTIONS.min_range) & (distance <= OPTIONS.max_range)]
    _, first = np.unique(np.floor(points / 0.2), axis=0, return_index=True)
    selected = points[np.sort(first)].astype("f4")
    return Sweep(selected, np.zeros(len(selected), "i4"), np.array([stamp]), stamp)


def test_the_path_of_22_clouds_is_as_long_as_both_reference_estimates(captures: Path) -> None:
    folder = captures / "lidar_hdl64_straight"
    clouds = [np.load(path)["xyz_mm"] / 1000 for path in sorted(folder.glob("*.npz"))]
    ts = np.arange(22) / 10
    sweeps = [sweep_of_one_instant(cloud, stamp) for cloud, stamp in zip(clouds, ts.tolist(), strict=True)]
    state = register_at_once(sweeps, ts, OPTIONS)
    length = np.linalg.norm(np.diff(state.pos, axis=0), axis=1).sum()
    for reference in (16.84, 16.90):
        assert abs(length / reference - 1) < 0.01
    poses = np.loadtxt(folder / "reference_estimate_gicp.txt").reshape(-1, 3, 4)
    estimate = (state.pos - state.pos[0]) @ state.rot[0]
    assert np.linalg.norm(estimate - poses[:, :, 3], axis=1).max() < 0.15


def test_three_sweeps_of_a_drive_are_within_5_cm_of_the_makers_poses(captures: Path, tmp_path: Path) -> None:
    name = "OS-1-128_v2.3.0_1024x10_lb_n3"
    trace = tmp_path / "trace"
    import_ouster(captures / "ouster" / f"{name}.osf", trace)
    write_lidar_image(trace)
    run_step(find_step("_odom"), trace, "_odom", Request())
    poses = np.loadtxt(captures / "ouster" / f"{name}_poses_kitti.txt").reshape(-1, 3, 4)
    estimate = state_of(trace / "_odom")
    assert np.linalg.norm(estimate.pos - poses[:, :, 3], axis=1).max() < 0.05
