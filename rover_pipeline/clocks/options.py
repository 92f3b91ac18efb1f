"""Options of the clocks of sensors. Light: the Snakefile reads them, so nothing here imports NumPy."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from rover_pipeline.options import Options

#: Raw sensors that a rig has, each with a clock of its own.
RawSensor = Literal["lidar", "radar", "camera", "imu"]
#: Model of a clock: one rate from restart to restart, or one for every block.
ClockModel = Literal["constant", "drifting"]


class TimesSection(Options):
    """`_lidar_times`, `_radar_times`, `_camera_times`, `_imu_times`: the times at which samples were taken. Samples
    arrive at the host with a varying latency, and some are lost. A sensor that restarts, and a host's clock that is
    set, begin a new segment. `constant` = one rate for a segment, `drifting` = one rate for every block."""

    lidar: ClockModel = Field("drifting", description="Model of the lidar's clock.")
    radar: ClockModel = Field("drifting", description="Model of the radar's clock.")
    camera: ClockModel = Field("drifting", description="Model of the camera's clock.")
    imu: ClockModel = Field("drifting", description="Model of the IMU's clock.")
    block: float = Field(30.0, gt=0, description="`drifting`: length of a block, s.")
    bend_ppm: float = Field(
        50.0, gt=0, description="`drifting`: largest change of the rate from one block to the next, millionths."
    )
    max_error: float = Field(
        0.002,
        gt=0,
        description="Largest error of a corrected time, s, but for the smallest latency, which arrivals do not show. "
        "Samples whose times may be wrong by more keep the recorded ones, and are not valid in `_lidar_times` and its "
        "like.",
    )
