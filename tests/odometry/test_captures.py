"""The odometry of real sweeps agrees with reference trajectories."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.importers.ouster import import_ouster
from rover_pipeline.table import find_step
from tests.kit import write_lidar_image
from tests.odometry.truth import state_of


def test_three_sweeps_of_a_drive_are_within_5_cm_of_the_makers_poses(captures: Path, tmp_path: Path) -> None:
    name = "OS-1-128_v2.3.0_1024x10_lb_n3"
    trace = tmp_path / "trace"
    import_ouster(captures / "ouster" / f"{name}.osf", trace)
    write_lidar_image(trace)
    run_step(find_step("_odom"), trace, "_odom", Request())
    poses = np.loadtxt(captures / "ouster" / f"{name}_poses_kitti.txt").reshape(-1, 3, 4)
    estimate = state_of(trace / "_odom")
    assert np.linalg.norm(estimate.pos - poses[:, :, 3], axis=1).max() < 0.05
