"""A dataset of evalio for its `EVALIO_CUSTOM`: one bag, read by evalio's own loader. EVALIO_DATA is its folder."""

from __future__ import annotations

from enum import auto
from pathlib import Path

import numpy as np
from evalio.datasets import Dataset, DatasetIterator, RosbagIter
from evalio.datasets.loaders import LidarDensity, LidarFormatParams, LidarMajor, LidarPointStamp, LidarStamp
from evalio.types import SE3, SO3, ImuParams, LidarParams, Trajectory

#: Where the lidar is in the frame of the IMU: KITTI's calibration of that day, without the rotation of a degree.
IMU_FROM_LIDAR = (0.81, -0.32, 0.8)


class Drive(Dataset):
    """22 sweeps of a real car."""

    straight = auto()

    def data_iter(self) -> DatasetIterator:
        formats = LidarFormatParams(
            stamp=LidarStamp.Start,
            point_stamp=LidarPointStamp.Start,
            major=LidarMajor.Row,
            density=LidarDensity.AllPoints,
        )
        return RosbagIter(self.folder / "drive.bag", "/points", "/imu", self.lidar_params(), lidar_format=formats)

    def ground_truth_raw(self) -> Trajectory | None:
        return None

    def imu_T_lidar(self) -> SE3:  # noqa: N802
        return SE3(SO3.identity(), np.array(IMU_FROM_LIDAR))

    def imu_T_gt(self) -> SE3:  # noqa: N802
        return SE3.identity()

    def imu_params(self) -> ImuParams:
        return ImuParams(rate=10.0)

    def lidar_params(self) -> LidarParams:
        return LidarParams(num_rows=64, num_columns=2000, min_range=0.5, max_range=120.0, rate=10.0)

    def files(self) -> list[str | Path]:
        return ["drive.bag"]
