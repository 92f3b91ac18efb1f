"""Options of polar occupancy and of the camera's depth."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from rover_pipeline.kinematics.options import RigOptions, TimesSection
from rover_pipeline.lidar.options import LidarOptions
from rover_pipeline.options import Options

Limits = tuple[float, float]


class OccupancySection(Options):
    """`_occupancy`, `_bev`: which polar cells hold lidar returns. Range bins are the radar's own: bin k is around k
    times the range resolution, in slant range. Azimuth grows to the right, elevation upward."""

    origin: Literal["radar", "lidar"] = Field(
        "radar", description="Sensor that cells are seen from, and whose front, left and up they refer to."
    )
    level: bool = Field(
        False,
        description="Take the tilt of the rig out with `_odom`: cells keep the sensor's heading, and their up is away "
        "from gravity as the IMU tells it, or that of the first pose without an IMU.",
    )
    range_resolution: float | None = Field(
        None, gt=0, description="Size of a range bin, m; null = as in radar.json, 0.1 without a radar."
    )
    range_bins: int | None = Field(
        None, ge=1, description="Range bins; null = as many as the radar has, 256 without a radar."
    )
    azimuth_bins: int = Field(128, ge=1, description="Azimuth bins, of equal angles.")
    azimuth: Limits = Field((-90.0, 90.0), description="Azimuths that the bins cover, degrees to the right.")
    elevation_bins: int = Field(32, ge=1, description="`_occupancy`: elevation bins, of equal angles.")
    elevation: Limits = Field(
        (-45.0, 45.0), description="`_occupancy`: elevations that the bins cover, degrees upward."
    )
    z: Limits = Field(
        (-100.0, 100.0), description="`_occupancy`: heights above the origin that returns are taken of, m."
    )
    bev_z: Limits = Field((-0.5, 1.0), description="`_bev`: heights above the origin that returns are taken of, m.")
    min_range: float = Field(0.0, ge=0, description="Returns nearer to the origin than this are left out, m.")

    @field_validator("azimuth", "elevation", "z", "bev_z")
    @classmethod
    def _rising(cls, limits: Limits) -> Limits:
        if not limits[0] < limits[1]:
            raise ValueError("must be a lower and a higher limit")
        return limits

    @field_validator("azimuth", "elevation")
    @classmethod
    def _angles(cls, limits: Limits, info: object) -> Limits:
        most = 180.0 if getattr(info, "field_name", "") == "azimuth" else 90.0
        if limits[0] < -most or limits[1] > most:
            raise ValueError(f"must lie between {-most:g} and {most:g} degrees")
        return limits


class OccupancyOptions(OccupancySection):
    """What the steps of `_occupancy` and `_bev` are given."""

    rig: RigOptions = RigOptions()


class DepthSection(Options):
    """`_camera_depth`: the lidar sweep nearest in time as the camera sees it. Metres along the camera's axis."""

    width: int = Field(480, ge=1, le=16384, description="Pixels across.")
    height: int = Field(270, ge=1, le=16384, description="Pixels down.")
    distorted: bool = Field(
        True,
        description="Pixels of the pictures as they are recorded, bent by k and p of camera.json; false = of "
        "straightened ones (`camera.frames.undistort`).",
    )
    motion: bool = Field(
        True,
        description="Move every column of a sweep from its own instant to the picture's with `_odom`, both without the "
        "jitter of their arrival (`sync.times`). false = as if the rig stood still; needs no odometry.",
    )
    min_range: float = Field(0.3, ge=0, description="Returns nearer to the camera than this are the rig itself, m.")
    tolerance: float = Field(0.15, gt=0, description="Longest time between a picture and a sweep, s.")


class DepthOptions(DepthSection):
    """What the steps of `_camera_depth` are given."""

    rig: RigOptions = RigOptions()
    lidar: LidarOptions = LidarOptions()
    times: TimesSection = TimesSection()
