"""Options of the report section."""

from __future__ import annotations

from pydantic import Field

from rover_pipeline.options import Options


class ReportOptions(Options):
    """`_report`. Nothing here changes a virtual sensor: it says what the page shows, and what it calls wrong."""

    instants: int = Field(
        6,
        ge=0,
        le=48,
        description="Evenly spaced instants whose camera, lidar and radar frames are shown side by side.",
    )
    picture_width: int = Field(640, ge=64, le=1920, description="Largest width of a picture, pixels.")
    max_gap_s: float = Field(
        1.0, gt=0, description="A sensor that is silent for longer than this, s, leaves the recording incomplete."
    )
    max_lost_share: float = Field(0.001, ge=0, le=1, description="Share of lost samples above which a sensor is named.")
    max_invalid_share: float = Field(
        0.05, ge=0, le=1, description="Share of samples with `valid` = 0 above which a sensor is named."
    )
    max_late_s: float = Field(
        1.0,
        gt=0,
        description="A raw sensor that starts this much after the first one, or ends before the last, is named.",
    )
    max_rate_error: float = Field(
        0.02, gt=0, description="Difference from the configured rate, as a share of it, above which a sensor is named."
    )
