"""Options of the odometry."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from rover_pipeline.kinematics.options import RigOptions, TimesSection
from rover_pipeline.lidar.options import LidarOptions
from rover_pipeline.options import Options


class OdometrySection(Options):
    """Odometry of the lidar: `_odom`."""

    backend: Literal["small_gicp", "kiss_icp", "ouster"] = Field(
        "small_gicp",
        description="Library that registers sweep after sweep first. kiss_icp and ouster, at their defaults on all "
        "pixels, are there to compare with (extra `kiss-icp`).",
    )
    passes: int = Field(
        3,
        ge=1,
        description="1 = poses as the backend gives them; 2 = every column at its own instant, sweep after sweep on "
        "the map of those before; from 3 on the whole trajectory against the map of its parts, once for each.",
    )
    segment: float = Field(
        60.0,
        gt=0,
        description="Length of the parts that are registered independently, at once where there are workers, s. Part "
        "of the result. Memory is that of a part.",
    )
    overlap: float = Field(2.0, gt=0, description="What a part shares with the next one, on which they meet, s.")
    points: int = Field(8192, ge=500, description="Pixels of a sweep that are looked at, spread evenly.")
    min_range: float = Field(0.5, ge=0, description="Returns nearer than this are the rig's own, m.")
    max_range: float = Field(100.0, gt=0, description="Farther returns are left out, m.")
    voxels: tuple[float, ...] = Field(
        (0.25, 0.5, 1.0), description="Edges of the voxels that planes are fitted in, finest first, m."
    )
    range_noise: float = Field(0.01, gt=0, description="Standard deviation of a range from a plane, m.")
    knots: float = Field(0.05, gt=0, description="Distance of the trajectory's knots, s.")
    jerk: float = Field(
        30.0, gt=0, description="Typical jerk, m/s3 and rad/s3: what is expected where the lidar says nothing."
    )
    imu: bool = Field(
        True,
        description="Use the gyroscope where imu/avel is there and the rig says how the IMU is turned (section `rig`).",
    )
    gyro_noise: float = Field(0.02, gt=0, description="Standard deviation of an angular rate, rad/s.")
    spacing: float = Field(0.5, gt=0, description="small_gicp: distance of the points that are registered, m.")
    voxel: float = Field(1.0, gt=0, description="small_gicp: edge of the voxels of its map, m.")
    min_points: int = Field(200, ge=6, description="Points of a sweep, fewer of which are not trusted.")
    min_inliers: float = Field(0.4, ge=0, le=1, description="Share of points on planes, below which it is not trusted.")
    max_residual: float = Field(0.03, gt=0, description="Root mean square distance from planes that is trusted, m.")
    max_error: float = Field(
        0.005,
        gt=0,
        description="Standard deviation in the direction known worst that is trusted, m; see channel `information`.",
    )

    loops: bool = Field(
        False,
        description="Take out drift where the lidar comes back to where it was: loop closure (extra `loops`).",
    )
    loop_drift: float = Field(
        0.01,
        gt=0,
        description="loops: drift that is allowed for, metres a metre of way, beyond what the odometry is aware of; a "
        "loop that needs more is none.",
    )
    loop_apart: float = Field(
        15.0, gt=0, description="loops: way between two visits of a place, less of which is no loop, m."
    )
    loop_spacing: float = Field(4.0, gt=0, description="loops: way between places that are looked for again, m.")
    loop_inliers: float = Field(
        0.6, ge=0, le=1, description="loops: share of walls and floors that two visits of a place must have in common."
    )
    loop_least: float = Field(
        0.01, ge=0, description="loops: nothing is changed where no loop is off by more than this, m."
    )

    @field_validator("voxels")
    @classmethod
    def _rising(cls, sizes: tuple[float, ...]) -> tuple[float, ...]:
        if not sizes or min(sizes) <= 0 or list(sizes) != sorted(set(sizes)):
            raise ValueError("must be positive and grow")
        return sizes

    @model_validator(mode="after")
    def _parts_meet_two_by_two(self) -> Self:
        if self.overlap > self.segment / 2:
            raise ValueError(f"overlap of {self.overlap:g} s is more than half of segment, {self.segment:g} s")
        return self


class OdometryOptions(OdometrySection):
    """What the step of `_odom` is given."""

    lidar: LidarOptions = LidarOptions()
    rig: RigOptions = RigOptions()
    times: TimesSection = TimesSection()
