"""Options of the poses."""

from __future__ import annotations

from pydantic import Field

from rover_pipeline.kinematics.options import RigOptions, TimesSection
from rover_pipeline.options import Options


class PosesSection(Options):
    """`_radar_pose`, `_camera_pose`, `_imu_pose`: poses of every sensor at its own times."""

    max_gap: float = Field(
        0.5, gt=0, description="Longest time between two odometry samples that poses are interpolated across, s."
    )
    smoothed: bool = Field(
        True,
        description="Interpolate between times without the jitter of their arrival (`sync.times`), as odometry does; "
        "false = between the recorded ones.",
    )


class PosesOptions(PosesSection):
    """What the steps of the poses are given."""

    rig: RigOptions = RigOptions()
    times: TimesSection = TimesSection()
