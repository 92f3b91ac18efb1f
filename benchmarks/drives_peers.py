"""Other pipelines on the sweeps of a drive, for `benchmarks.drives`."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

import numpy as np

#: Pipelines of evalio, and what they are called.
EVALIO_PIPELINES = {"CTICP": "CT-ICP", "MadICP": "MAD-ICP", "GenZICP": "GenZ-ICP"}
#: Longest time that a pipeline may take for a drive, seconds: one that never ends is a failure.
_PATIENCE_S = 600.0
#: Edge of KISS-ICP's voxels, m: what its defaults give for a lidar of 100 m.
_VOXEL_M = 1.0


class Clouds(NamedTuple):
    """Sweeps of 0.1 s.

    Attributes:
        points: f8 (N, 3) each, m; shares: f8 (N,) each, of the sweep's time when a point was measured.
    """

    points: list[np.ndarray]
    shares: list[np.ndarray]


def kiss_icp(clouds: Clouds, *, deskew: bool) -> tuple[np.ndarray, np.ndarray]:
    """Positions and rotations."""
    from kiss_icp.config import load_config
    from kiss_icp.kiss_icp import KissICP

    config = load_config(None)
    config.data.deskew, config.mapping.voxel_size = deskew, _VOXEL_M
    odometry, poses = KissICP(config), []
    for points, shares in zip(*clouds, strict=True):
        odometry.register_frame(points, shares)
        poses.append(odometry.last_pose)
    made = np.stack(poses)
    return made[:, :3, 3], made[:, :3, :3]


def evalio_peer(
    python: str, pipeline: str, clouds: Clouds, folder: Path, *, dated: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Positions and rotations of a pipeline of evalio; `dated` = points have their instants, not that of the sweep."""
    sweeps, out = folder / "sweeps.npz", folder / f"{pipeline}-{dated}.npz"
    points, seconds, none = [], [], np.zeros((0, 3))
    for cloud, shares in zip(*clouds, strict=True):
        order = np.argsort(shares, kind="stable")
        points.append(cloud[order].astype("f4"))
        seconds.append(0.1 * shares[order].astype("f4") * dated)
    np.savez(
        sweeps, points=np.concatenate(points), seconds=np.concatenate(seconds),
        ends=np.cumsum([len(cloud) for cloud in points]), starts=2.0 + 0.1 * np.arange(len(points)),
        shape=np.array([64, 2000]), mount=np.eye(4), imu_ts=none[:, 0], avel=none, acc=none,
    )  # fmt: skip
    command = [python, str(Path(__file__).with_name("evalio_peer.py")), str(sweeps), pipeline, str(out)]
    subprocess.run(command, capture_output=True, check=True, timeout=_PATIENCE_S)
    found = np.load(out)
    # Some pipelines save a pose twice.
    _, kept = np.unique(found["ts"], return_index=True)
    made = found["poses"][kept][: len(points)]
    return made[:, :3, 3], made[:, :3, :3]
