"""Options of the radar section."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from rover_pipeline.options import Options


class RangeDopplerOptions(Options):
    """`_radar_range_doppler`."""

    range_window: Literal["hann", "none"] = Field("hann", description="Taper over the samples of a chirp.")
    doppler_window: Literal["hann", "none"] = Field("hann", description="Taper over the chirps of a frame.")


class RadarOptions(Options):
    """Radar processing."""

    range_doppler: RangeDopplerOptions = RangeDopplerOptions()
