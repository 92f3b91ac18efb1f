"""Options of everything that is made from the lidar."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from rover_pipeline.options import Options


class LidarOptions(Options):
    """Lidar recordings."""

    ts_reference: Literal["start", "middle", "end"] = Field(
        "end",
        description="Instant of a sweep that lidar/ts refers to: `end` where the host's arrival time is recorded, as "
        "the rig, `import ouster` and `simulate` do, else `middle` or `start`.",
    )
