"""Options of the sync section."""

from __future__ import annotations

from pydantic import Field

from rover_pipeline.kinematics.options import RawSensor, TimesSection
from rover_pipeline.options import Options


class MatchOptions(Options):
    """`_sync`."""

    reference: RawSensor = Field("lidar", description="Sensor whose samples those of the others are matched with.")
    tolerance: float = Field(0.1, gt=0, description="Longest time between two samples that belong together, s.")
    smoothed: bool = Field(
        False,
        description="Match by times without the jitter of their arrival, as in `_lidar_times` and its like, instead of "
        "the recorded ones.",
    )


class SyncOptions(MatchOptions):
    """Matching of sensors in time."""

    times: TimesSection = TimesSection()
