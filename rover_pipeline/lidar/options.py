"""Options of the steps that read the lidar."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from rover_pipeline.clocks.options import TimesSection
from rover_pipeline.options import Options


class CaptureOptions(Options):
    """How sweeps were recorded. All lidar steps need it."""

    ts_reference: Literal["start", "middle", "end"] = Field(
        "end",
        description="Instant of a sweep that lidar/ts refers to. It is `end` where the time of arrival at the host is "
        "recorded, as the rig, `import ouster` and `simulate` do, otherwise `middle` or `start`. A sweep begins and "
        "ends with the azimuth window of the sensor.",
    )


class PointsSection(Options):
    """`_lidar_points`."""

    compensate: bool = Field(
        False,
        description="Undo the motion within each sweep with `_odom` (deskew): all points are in the frame that the "
        "lidar had at the instant that lidar/ts refers to.",
    )


class PointsOptions(CaptureOptions, PointsSection):
    """Options of the step `_lidar_points`."""

    times: TimesSection = TimesSection()


class LidarOptions(CaptureOptions):
    """Lidar recordings."""

    points: PointsSection = PointsSection()
