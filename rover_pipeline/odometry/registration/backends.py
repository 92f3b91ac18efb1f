"""Sweep-to-sweep registration by libraries: the initial guess of the trajectory, and a baseline to compare with.

Each backend has a method `register`, which takes one sweep after the other and returns the lidar's pose at the end of
the sweep in the frame of the first sweep, f8 (4, 4). Its arguments:
    sweep: the selected points.
    scan: all of the sweep: u2 (beam, column), mm, destaggered, or points; SmallGicp does without.
    rotation: of the lidar since the end of the sweep before, rotation vector (3,); None without a gyroscope.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import small_gicp

from rover_pipeline.errors import MissingExtraError
from rover_pipeline.kinematics.rotation import exp, log
from rover_pipeline.lidar.geometry import returns, sensor_info, stagger
from rover_pipeline.lidar.sidecar import is_points
from rover_pipeline.lookup import load
from rover_pipeline.numerics.linear import inv, matmul
from rover_pipeline.odometry.clouds import Cloud, Scan
from rover_pipeline.odometry.observations import Sweep
from rover_pipeline.odometry.options import OdometrySection
from rover_pipeline.odometry.registration.transforms import transform_points

#: Approximate number of points of a sweep that make an initial guess. More make it no better.
#: Tuned: by hand.
POINTS = 5000
#: How often the first two sweeps are registered to one another until their motion is right. Tuned: by hand.
_FIRST_ITERATIONS = 4


class SmallGicp:
    """Generalized ICP of a downsampled sweep on a map of Gaussian voxels, by small_gicp (Koide, JOSS 2024).

    A sweep is deskewed with the velocity of the sweep before (constant-velocity model).

    Args:
        spacing: of the points that are registered, metres.
        voxel: edge of the map's voxels, metres.
    """

    def __init__(self, spacing: float, voxel: float) -> None:
        self._spacing, self._voxel = spacing, voxel
        self._map = small_gicp.GaussianVoxelMap(voxel)
        self._pose, self._velocity, self._avel = np.eye(4), np.zeros(3), np.zeros(3)
        self._before: Sweep | None = None
        self._count = 0

    def register(self, sweep: Sweep, scan: Scan | None, rotation: np.ndarray | None) -> np.ndarray:
        if self._before is None:
            cloud = self._cloud(sweep, self._avel)
        elif self._count > 1:
            cloud = self._align(sweep, self._before, rotation)
        else:
            # No velocity is known yet: deskew both of the first two sweeps with the motion from one to the other.
            for _ in range(_FIRST_ITERATIONS):
                self._map = small_gicp.GaussianVoxelMap(self._voxel)
                self._pose = np.eye(4)
                self._map.insert(self._cloud(self._before, self._avel), self._pose)
                cloud = self._align(sweep, self._before, rotation)
        self._map.insert(cloud, self._pose)
        self._before = sweep
        self._count += 1
        return self._pose

    def _align(self, sweep: Sweep, before: Sweep, rotation: np.ndarray | None) -> Any:
        """Updates the pose and the velocities to the end of a sweep. Returns the deskewed points."""
        span = sweep.end - before.end
        avel = self._avel if rotation is None else rotation / span
        guess = np.eye(4)
        guess[:3, :3], guess[:3, 3] = exp(avel[None] * span)[0], self._velocity * span
        cloud = self._cloud(sweep, avel)
        result = small_gicp.align(self._map, cloud, matmul(self._pose, guess), max_iterations=15)
        motion = matmul(inv(self._pose), result.T_target_source)
        # Both velocities are in the frame at the end of the sweep, where the next one begins.
        self._velocity = matmul(motion[:3, :3].T, motion[:3, 3]) / span
        self._avel = log(motion[None, :3, :3])[0] / span
        self._pose = result.T_target_source
        return cloud

    def _cloud(self, sweep: Sweep, avel: np.ndarray) -> Any:
        """The sweep deskewed to its end and downsampled."""
        since = (sweep.times - sweep.end)[:, None]
        part = slice(None, None, max(1, len(sweep.points) // POINTS))
        points = transform_points(sweep.points[part], sweep.column[part], since * self._velocity, exp(since * avel))
        return small_gicp.preprocess_points(points, self._spacing, num_neighbors=10)[0]


class KissIcp:
    """KISS-ICP at its defaults (Vizzo et al., RA-L 2023), on all pixels of a sweep."""

    def __init__(self, metadata: str) -> None:
        try:
            from kiss_icp.config import load_config
            from kiss_icp.kiss_icp import KissICP
        except ImportError as error:
            raise MissingExtraError("odometry.backend: kiss_icp", "kiss-icp") from error
        self._odometry = KissICP(load_config(None))
        self._metadata = metadata

    def register(self, sweep: Sweep, scan: Scan | None, rotation: np.ndarray | None) -> np.ndarray:
        assert scan is not None
        if isinstance(scan, Cloud):
            points, share = scan.points, scan.share
        else:
            points, column = returns(_in_time_order(scan, self._metadata), self._metadata)
            share = column / scan.shape[1]
        self._odometry.register_frame(points.astype("f8"), share)
        return np.array(self._odometry.last_pose)


class OusterSlam:
    """ouster-sdk's SLAM at its defaults, on all pixels of a sweep."""

    def __init__(self, metadata: str) -> None:
        self._odometry, self._metadata = load("rover_pipeline.lidar.ouster_slam:OusterOdometry")(metadata), metadata

    def register(self, sweep: Sweep, scan: Scan | None, rotation: np.ndarray | None) -> np.ndarray:
        assert isinstance(scan, np.ndarray)
        return self._odometry.register(_in_time_order(scan, self._metadata), sweep.times)


def _in_time_order(image: np.ndarray, metadata: str) -> np.ndarray:
    """A destaggered range image, whose columns are of one instant then: staggered."""
    return stagger(image[None], sensor_info(metadata))[0]


def make_backend(options: OdometrySection, metadata: str) -> SmallGicp | KissIcp | OusterSlam:
    """The backend of the options, before its first sweep of a lidar with this `lidar.json`.

    Raises:
        ValueError: it cannot take sweeps of this kind.
    """
    if options.backend == "kiss_icp":
        return KissIcp(metadata)
    if options.backend == "ouster" and is_points(metadata):
        raise ValueError("odometry.backend: ouster takes range images, and this lidar is points; choose another one")
    return OusterSlam(metadata) if options.backend == "ouster" else SmallGicp(options.spacing, options.voxel)
