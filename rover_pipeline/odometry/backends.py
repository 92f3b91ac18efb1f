"""Registration of one sweep after the other by libraries: the first pass, and what results are compared with.

Each backend is told of whole sweeps and answers with the lidar's pose at the end of the sweep in the frame of its first
one, as f8 (4, 4). None of their types leave this module.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol

import numpy as np

from rover_pipeline.errors import MissingExtraError
from rover_pipeline.kinematics.rotation import exp, log
from rover_pipeline.odometry.observations import Sweep
from rover_pipeline.odometry.surfel_kernels import place_points

BackendName = Literal["small_gicp", "kiss_icp", "ouster"]


#: Points of a sweep that tell the first pass enough.
_ENOUGH = 5000
#: How often the first two sweeps are registered to one another.
_START = 4


class Backend(Protocol):
    """Registers sweeps in their order."""

    #: Whether it looks at all pixels of the sweep, not at a selection of them.
    whole: bool

    def register(self, sweep: Sweep, ranges: np.ndarray | None, turn: np.ndarray | None) -> np.ndarray:
        """The lidar's pose at the end of a sweep, (4, 4).

        Args:
            ranges: u2 (beam, column), mm, staggered, of all pixels; None for points that are from no image.
            turn: the lidar's rotation since the end of the sweep before, rotation vector (3,), where a gyroscope tells.
        """
        ...


class SmallGicp:
    """Generalized ICP of a thinned sweep on a map of Gaussian voxels, by small_gicp (Koide, JOSS 2024).

    A sweep is undistorted as if velocity had not changed since the one before.

    Args:
        spacing: of the points that are registered, metres.
        voxel: edge of the map's voxels, metres.
    """

    whole = False

    def __init__(self, spacing: float, voxel: float) -> None:
        import small_gicp

        self._library = small_gicp
        self._spacing, self._voxel = spacing, voxel
        self._map = small_gicp.GaussianVoxelMap(voxel)
        self._pose, self._velocity, self._spin = np.eye(4), np.zeros(3), np.zeros(3)
        self._before: Sweep | None = None
        self._count = 0

    def register(self, sweep: Sweep, ranges: np.ndarray | None, turn: np.ndarray | None) -> np.ndarray:
        if self._before is None:
            cloud = self._cloud(sweep, self._spin)
        elif self._count > 1:
            cloud = self._align(sweep, self._before, turn)
        else:
            # Of the first two sweeps nothing is known: both are undistorted with the motion from one to the other.
            for _ in range(_START):
                self._map = self._library.GaussianVoxelMap(self._voxel)
                self._pose = np.eye(4)
                self._map.insert(self._cloud(self._before, self._spin), self._pose)
                cloud = self._align(sweep, self._before, turn)
        self._map.insert(cloud, self._pose)
        self._before = sweep
        self._count += 1
        return self._pose

    def _align(self, sweep: Sweep, before: Sweep, turn: np.ndarray | None) -> Any:
        """Finds the pose at the end of a sweep, and the motion since the end of the one before; the points it used."""
        span = sweep.end - before.end
        spin = self._spin if turn is None else turn / span
        guess = np.eye(4)
        guess[:3, :3], guess[:3, 3] = exp(spin[None] * span)[0], self._velocity * span
        cloud = self._cloud(sweep, spin)
        result = self._library.align(self._map, cloud, self._pose @ guess, max_iterations=15)
        moved = np.linalg.inv(self._pose) @ result.T_target_source
        # In the frame at the end of the sweep, where the next one begins.
        self._velocity = moved[:3, :3].T @ moved[:3, 3] / span
        self._spin = log(moved[None, :3, :3])[0] / span
        self._pose = result.T_target_source
        return cloud

    def _cloud(self, sweep: Sweep, spin: np.ndarray) -> Any:
        """The sweep as seen from its end, thinned."""
        since = (sweep.times - sweep.end)[:, None]
        part = slice(None, None, max(1, len(sweep.points) // _ENOUGH))
        points = place_points(sweep.points[part], sweep.column[part], since * self._velocity, exp(since * spin))
        return self._library.preprocess_points(points, self._spacing, num_neighbors=10)[0]


class KissIcp:
    """KISS-ICP at its defaults (Vizzo et al., RA-L 2023), on all pixels of a sweep."""

    whole = True

    def __init__(self, metadata: str | None) -> None:
        try:
            from kiss_icp.config import load_config
            from kiss_icp.kiss_icp import KissICP
        except ImportError as error:
            raise MissingExtraError("odometry.backend: kiss_icp", "kiss-icp") from error
        self._odometry = KissICP(load_config(None))
        self._metadata = metadata

    def register(self, sweep: Sweep, ranges: np.ndarray | None, turn: np.ndarray | None) -> np.ndarray:
        points, share = sweep.points, np.zeros(len(sweep.points))
        if ranges is not None and self._metadata is not None:
            from rover_pipeline.lidar.geometry import returns

            points, column = returns(ranges, self._metadata)
            share = column / ranges.shape[1]
        self._odometry.register_frame(points.astype("f8"), share)
        return np.array(self._odometry.last_pose)


class OusterSlam:
    """ouster-sdk's SLAM at its defaults, on all pixels of a sweep."""

    whole = True

    def __init__(self, metadata: str | None) -> None:
        if metadata is None:
            raise ValueError("odometry.backend: ouster takes sweeps of an Ouster lidar only")
        from rover_pipeline.lidar.ouster_slam import OusterOdometry

        self._odometry = OusterOdometry(metadata)

    def register(self, sweep: Sweep, ranges: np.ndarray | None, turn: np.ndarray | None) -> np.ndarray:
        assert ranges is not None
        return self._odometry.register(ranges, sweep.times)


def make_backend(name: BackendName, metadata: str | None, **options: Any) -> Backend:
    """A backend before its first sweep.

    Args:
        metadata: `lidar.json`; None for points that are from no Ouster lidar.
        options: of `SmallGicp`.
    """
    if name == "kiss_icp":
        return KissIcp(metadata)
    return OusterSlam(metadata) if name == "ouster" else SmallGicp(**options)
