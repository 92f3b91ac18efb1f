"""Section `imu` of the configuration."""

from __future__ import annotations

from pydantic import Field

from rover_pipeline.kinematics.options import TimesSection
from rover_pipeline.options import Options


class ImuSection(Options):
    """Bias-corrected IMU and its orientation (`_imu_filtered`), at times without jitter (`sync.times`)."""

    still_window: float = Field(0.5, gt=0, description="Length that rest is judged over, and its least duration, s.")
    still_gyro: float = Field(
        0.02, gt=0, description="At rest the angular rate varies by less than this, rad/s (standard deviation)."
    )
    still_acc: float = Field(
        0.1, gt=0, description="At rest the magnitude of acceleration varies by less, m/s2 (standard deviation)."
    )
    max_gyro_bias: float = Field(
        0.03, gt=0, description="A steadier but faster rotation than this is a turn, not a bias, rad/s."
    )
    gravity: float = Field(9.80665, gt=9.7, lt=9.9, description="Of the place, m/s2.")
    acc_bias_sigma: float = Field(
        0.05,
        ge=0,
        description="Bias expected of an axis of the accelerometer, m/s2. Rest shows the part along gravity only; in "
        "other directions the bias is taken for 0. 0 = none is corrected.",
    )
    settle: float = Field(
        20.0,
        gt=0,
        description="Time over which the direction of gravity is averaged, s: longer for more violent motion, shorter "
        "for worse gyros. Half of it where there is no rest to learn the gyro's bias from.",
    )
    max_gap: float = Field(
        1.0,
        gt=0,
        description="Longest gap that is interpolated across, s. How far the sensor turned in a longer one is unknown: "
        "the heading goes on as it was.",
    )


class ImuOptions(ImuSection):
    """What the step of `_imu_filtered` is given."""

    times: TimesSection = TimesSection()
