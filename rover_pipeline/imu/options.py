"""Options of the section `imu`. The Snakefile reads this module, so it does not import NumPy."""

from __future__ import annotations

from pydantic import Field

from rover_pipeline.clocks.options import TimesSection
from rover_pipeline.options import Options


class ImuSection(Options):
    """IMU without bias, and its orientation (`_imu_filtered`), at times without jitter (`sync.times`)."""

    still_window: float = Field(0.5, gt=0, description="Window in which rest is detected, and its minimum duration, s.")
    still_gyro: float = Field(
        0.02, gt=0, description="Maximum standard deviation of the angular velocity at rest, rad/s."
    )
    still_acc: float = Field(
        0.1, gt=0, description="Maximum standard deviation of the magnitude of the acceleration at rest, m/s2."
    )
    max_gyro_bias: float = Field(
        0.4,
        gt=0,
        description="Maximum bias of the gyroscope, rad/s; a faster steady rotation is real, not a bias. A bias above "
        "0.03 rad/s about the vertical that only one rest shows may be a steady turn, and is reported as a doubt.",
    )
    gravity: float = Field(9.80665, gt=9.7, lt=9.9, description="Local gravity, m/s2.")
    acc_bias_sigma: float = Field(
        0.05,
        ge=0,
        description="Prior standard deviation of the accelerometer's bias, each axis, m/s2. A rest shows only the "
        "part along gravity; in directions that no rest shows, the bias is assumed to be 0. 0 = correct none.",
    )
    settle: float = Field(
        20.0,
        gt=0,
        description="Time constant over which the direction of gravity is averaged, s: longer for stronger motion, "
        "shorter for a worse gyroscope. Halved if the recording has no rest that shows the gyroscope's bias.",
    )
    max_gap: float = Field(
        1.0,
        gt=0,
        description="Maximum gap between samples that is interpolated, s. The rotation during a longer gap is unknown: "
        "the heading after it continues from the heading before it.",
    )


class ImuOptions(ImuSection):
    """Options of the step of `_imu_filtered`."""

    times: TimesSection = TimesSection()
