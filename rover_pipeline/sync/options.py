"""Options of the sync section."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from rover_pipeline.kinematics.options import ClockModel as Model
from rover_pipeline.options import Options

#: Raw sensors that a rig has.
Raw = Literal["lidar", "radar", "camera", "imu"]


class MatchOptions(Options):
    """`_sync`."""

    reference: Raw = Field("lidar", description="Sensor whose samples those of the others are matched with.")
    tolerance: float = Field(0.1, gt=0, description="Longest time between two samples that belong together, s.")
    smoothed: bool = Field(
        False,
        description="Match by times without the jitter of their arrival, as in `_lidar_times` and its like, instead of "
        "the recorded ones.",
    )


class TimesSection(Options):
    """`_lidar_times`, `_radar_times`, `_camera_times`, `_imu_times`: when samples were taken. The host hears of each
    with a varying latency; lost samples are counted. `constant` = one rate for the whole recording, `drifting` = a rate
    for every block."""

    lidar: Model = Field("drifting", description="Model of the lidar's clock.")
    radar: Model = Field("drifting", description="Model of the radar's clock.")
    camera: Model = Field("drifting", description="Model of the camera's clock.")
    imu: Model = Field("drifting", description="Model of the IMU's clock.")
    block: float = Field(30.0, gt=0, description="`drifting`: length of a block, s.")
    bend_ppm: float = Field(
        50.0, gt=0, description="`drifting`: largest change of the rate from one block to the next, millionths."
    )


class SyncOptions(MatchOptions):
    """Matching of sensors in time."""

    times: TimesSection = TimesSection()


class TimesOptions(MatchOptions, TimesSection):
    """What the steps of `_lidar_times` and its like are given."""
