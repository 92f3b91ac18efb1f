"""Options of everything that is made from the lidar."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from rover_pipeline.kinematics.options import TimesSection
from rover_pipeline.options import Options


class CaptureOptions(Options):
    """How sweeps came to be: what all lidar steps need."""

    ts_reference: Literal["start", "middle", "end"] = Field(
        "end",
        description="Instant of a sweep that lidar/ts refers to: `end` where the host's arrival time is recorded, as "
        "the rig, `import ouster` and `simulate` do, else `middle` or `start`.",
    )


class PointsSection(Options):
    """`_lidar_points`."""

    compensate: bool = Field(
        False,
        description="Undo the motion within each sweep with `_odom`: every point as seen from where the lidar was at "
        "the instant that ts refers to.",
    )


class PointsOptions(CaptureOptions, PointsSection):
    """What the step of `_lidar_points` is given."""

    times: TimesSection = TimesSection()


class LidarOptions(CaptureOptions):
    """Lidar recordings."""

    points: PointsSection = PointsSection()
