"""Options of the odometry."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from rover_pipeline.clocks.options import TimesSection
from rover_pipeline.kinematics.options import RigOptions
from rover_pipeline.lidar.options import LidarOptions
from rover_pipeline.options import Options


class OdometrySection(Options):
    """Odometry of the lidar: `_odom`."""

    passes: int | None = Field(
        None,
        ge=1,
        description="1 = poses of small_gicp; 2 = scan-to-map registration in continuous time, where each column has "
        "its own pose; each further pass refines the whole trajectory in one batch, each sweep against the map of "
        "others; null = until further ones would move the poses by less than their standard deviations and 2 mm, 32 at "
        "most.",
    )
    segment: float = Field(
        60.0,
        gt=0,
        description="Length of the segments that are registered independently, in parallel where there are workers, "
        "s. It changes the result. The memory needed is that of one segment for each worker.",
    )
    overlap: float = Field(
        2.0, gt=0, description="Time that two neighbouring segments share, by which they are merged, s."
    )
    points: int = Field(
        8192,
        ge=500,
        description="Pixels of a sweep that are used, about, spread evenly; twice as many where surfaces are so rough "
        "that a sweep determines its position no better than to 1 mm.",
    )
    min_range: float = Field(0.5, ge=0, description="Nearer returns are left out: they are from the rig itself, m.")
    max_range: float = Field(100.0, gt=0, description="Farther returns are left out, m.")
    voxels: tuple[float, ...] = Field(
        (0.25, 0.5, 1.0, 2.0), description="Edges of the voxels that planes are fitted in, finest first, m."
    )
    range_noise: float = Field(
        0.01,
        gt=0,
        description="Standard deviation of a range, m. Where thin planes show a smaller one, that is taken.",
    )
    knots: float = Field(0.05, gt=0, description="Time between the knots of the trajectory's spline, s.")
    jerk: float = Field(
        30.0,
        gt=0,
        description="Expected jerk, m/s3 and rad/s3: the prior of the motion where the lidar does not observe it.",
    )
    world: Literal["first_pose", "gravity"] = Field(
        "first_pose",
        description="The world's frame: first_pose = that of the lidar's first valid pose; gravity = at this pose and "
        "with its heading, but level, by the accelerometer (an error where it does not determine it).",
    )
    imu: bool | str = Field(
        True,
        description="Use the gyroscope if there is imu/avel: of several IMUs the one whose rates are nearest to the "
        "lidar's; a name = that one, here and wherever else one is taken. It is calibrated against the lidar first "
        "(rotation, time offset, bias, scale, unit), with or without a section `rig`, and left out where it "
        "contradicts the lidar or where the motion determines too little.",
    )
    spacing: float = Field(0.5, gt=0, description="small_gicp: spacing of the points that are registered, m.")
    voxel: float = Field(1.0, gt=0, description="small_gicp: edge of the voxels of its map, m.")
    min_points: int = Field(200, ge=6, description="Sweeps with fewer points are not used.")
    min_inliers: float = Field(
        0.2,
        ge=0,
        le=1,
        description="Smallest fraction of a sweep's points on planes of other sweeps with which its pose is valid.",
    )
    max_residual: float | None = Field(
        None,
        gt=0,
        description="Largest root mean square distance from planes with which a pose is valid, m; null = any, because "
        "`cov` and the points that were left out decide.",
    )
    max_error: float = Field(
        0.02,
        gt=0,
        description="Largest standard deviation, in the least certain direction, with which a pose is valid, m; see "
        "channel `information`.",
    )

    loops: bool = Field(
        False,
        description="Loop closure: remove drift where the lidar comes back to a location that it has visited before "
        "(extra `loops`).",
    )
    loop_drift: float = Field(
        0.01,
        gt=0,
        description="loops: drift that is allowed for, m per m of path, in addition to the uncertainty that the "
        "odometry reports. A match that needs a larger correction is no loop.",
    )
    loop_apart: float = Field(
        15.0, gt=0, description="loops: smallest path length between two visits that can make a loop, m."
    )
    loop_spacing: float = Field(4.0, gt=0, description="loops: path length between keyframes, m.")
    loop_inliers: float = Field(
        0.6,
        ge=0,
        le=1,
        description="loops: smallest fraction of the walls and floors of two visits that must lie on each other.",
    )

    @field_validator("voxels")
    @classmethod
    def _sizes_rise(cls, sizes: tuple[float, ...]) -> tuple[float, ...]:
        if not sizes or min(sizes) <= 0 or list(sizes) != sorted(set(sizes)):
            raise ValueError("must be positive and grow")
        return sizes

    @model_validator(mode="after")
    def _only_neighbours_overlap(self) -> Self:
        if self.overlap > self.segment / 2:
            raise ValueError(f"overlap of {self.overlap:g} s is more than half of segment, {self.segment:g} s")
        return self


class LidarOdometrySection(OdometrySection):
    """Odometry of the lidar: `_odom`."""

    lidar: str | None = Field(
        None,
        description="The lidar that is taken where a recording has several, by its name, here and wherever else one is "
        "taken. null = the one called `lidar`, else the one whose files are the largest.",
    )


class OdometryOptions(OdometrySection):
    """All options of the step that makes `_odom`."""

    lidar: LidarOptions = LidarOptions()
    rig: RigOptions = RigOptions()
    times: TimesSection = TimesSection()
