"""Options of the poses."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from rover_pipeline.clocks.options import TimesSection
from rover_pipeline.kinematics.options import RigOptions
from rover_pipeline.options import Options


class PosesSection(Options):
    """`_radar_pose`, `_camera_pose`, `_imu_pose`: poses of every sensor at its own times."""

    max_gap: float = Field(
        0.5, gt=0, description="Maximum time between two states of the odometry for an interpolation between them, s."
    )
    odometry: Literal["lidar", "radar"] = Field(
        "lidar",
        description="The trajectory that poses are of: lidar = `_odom`, or `_radar_odom` where a recording has no "
        "lidar; radar = `_radar_odom`, also where a lidar sees nothing.",
    )
    smoothed: bool = Field(
        True,
        description="true = interpolate at times without the jitter of their arrival (`sync.times`), as odometry does. "
        "false = at the recorded times.",
    )


class PosesOptions(PosesSection):
    """Options of the steps of the poses."""

    rig: RigOptions = RigOptions()
    times: TimesSection = TimesSection()
