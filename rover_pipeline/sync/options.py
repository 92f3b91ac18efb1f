"""Options of the sync section."""

from __future__ import annotations

from pydantic import Field

from rover_pipeline.clocks.options import TimesSection
from rover_pipeline.kinematics.options import RigOptions
from rover_pipeline.options import Options


class MatchSection(Options):
    """`_sync`."""

    reference: str = Field(
        "lidar",
        description="Sensor to whose samples those of the others are matched, by its name or its type. Where the "
        "recording has no samples of it, the first of lidar, radar, camera, imu and gnss that has some, else any "
        "sensor; provenance.json says which.",
    )
    tolerance: float = Field(0.1, gt=0, description="Maximum time between two matched samples, s.")
    smoothed: bool = Field(
        False,
        description="true = match by times without the jitter of their arrival, as in `_lidar_times`. false = match by "
        "the recorded times.",
    )


class SyncOptions(MatchSection):
    """Matching of sensors in time."""

    times: TimesSection = TimesSection()


class MatchOptions(SyncOptions):
    """Options of the step `_sync`."""

    rig: RigOptions = RigOptions()
