"""Options of polar occupancy and of the camera's depth."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from rover_pipeline.camera.options import LensOptions
from rover_pipeline.clocks.options import TimesSection
from rover_pipeline.kinematics.options import RigOptions
from rover_pipeline.lidar.options import LidarOptions
from rover_pipeline.options import Options

Limits = tuple[float, float]


class OccupancySection(Options):
    """`_occupancy`, `_bev`: which polar cells hold lidar returns. Range bins are those of the radar: bin k holds slant
    ranges around k times the range resolution. Azimuth is positive to the right, elevation upward."""

    at: Literal["lidar", "radar"] = Field(
        "lidar",
        description="Sensor whose frames the cells are made for. lidar = one for each sweep, at the instant that "
        "lidar/ts refers to. radar = one for each frame of the radar, at the middle of its chirps, from the sweep "
        "that was under way when the frame began: ready as labels of the radar's spectra, with its times.",
    )
    motion: bool = Field(
        True,
        description="Move every column of a sweep from its own instant to that of the cells with `_odom`, at times "
        "without jitter (`sync.times`). Where `_odom` is not valid, no cell is occupied and `valid` is 0. false = "
        "assume that the rig stands still; this needs no odometry, and the channel's description says so.",
    )
    tolerance: float = Field(
        0.15, gt=0, description="`at: radar`: maximum time between a frame of the radar and the middle of the sweep, s."
    )
    origin: Literal["radar", "lidar"] = Field(
        "radar", description="Sensor in whose frame the cells are: its position is the origin, its front azimuth 0."
    )
    level: bool = Field(
        False,
        description="Remove the tilt of the rig with `_odom`. The cells keep the sensor's heading, and their up is "
        "opposite to gravity as the IMU measures it. Without an IMU it is the up of the first pose.",
    )
    range_resolution: float | None = Field(
        None, gt=0, description="Size of a range bin, m. null = as in radar.json, 0.1 without a radar."
    )
    range_bins: int | None = Field(
        None, ge=1, description="Number of range bins. null = as many as the radar has, 256 without a radar."
    )
    azimuth_bins: int = Field(128, ge=1, description="Number of azimuth bins, which have equal angles.")
    azimuth: Limits = Field((-90.0, 90.0), description="Range of azimuths of the bins, degrees to the right.")
    elevation_bins: int = Field(
        32, ge=1, description="`_occupancy`: number of elevation bins, which have equal angles."
    )
    elevation: Limits = Field(
        (-45.0, 45.0), description="`_occupancy`: range of elevations of the bins, degrees upward."
    )
    z: Limits = Field(
        (-100.0, 100.0), description="`_occupancy`: minimum and maximum height of returns above the origin, m."
    )
    bev_z: Limits = Field((-0.5, 1.0), description="`_bev`: minimum and maximum height of returns above the origin, m.")
    min_range: float = Field(
        0.0,
        ge=0,
        description="Minimum distance of returns from the origin, m, when they were measured and in the cells. It "
        "leaves out returns of the rig itself, which moves along.",
    )

    @field_validator("azimuth", "elevation", "z", "bev_z")
    @classmethod
    def _rising(cls, limits: Limits) -> Limits:
        if not limits[0] < limits[1]:
            raise ValueError("must be a lower limit and then a higher one")
        return limits

    @field_validator("azimuth", "elevation")
    @classmethod
    def _angles(cls, limits: Limits, info: object) -> Limits:
        maximum = 180.0 if getattr(info, "field_name", "") == "azimuth" else 90.0
        if limits[0] < -maximum or limits[1] > maximum:
            raise ValueError(f"must lie between {-maximum:g} and {maximum:g} degrees")
        return limits


class OccupancyOptions(OccupancySection):
    """Options of the steps `_occupancy` and `_bev`."""

    rig: RigOptions = RigOptions()
    lidar: LidarOptions = LidarOptions()
    times: TimesSection = TimesSection()


class DepthSection(Options):
    """`_camera_depth`: the lidar's sweep at the time of a picture, projected into the camera. Depth is along the
    camera's axis."""

    width: int = Field(480, ge=1, le=16384, description="Width of the depth image, pixels.")
    height: int = Field(270, ge=1, le=16384, description="Height of the depth image, pixels.")
    distorted: bool = Field(
        True,
        description="true = the pixels are those of the recorded pictures, with the distortion of their lens "
        "(`camera.lens`). false = they are those of undistorted pictures (`camera.frames.undistort`).",
    )
    motion: bool = Field(
        True,
        description="Move every column of a sweep from its own instant to that of the picture with `_odom`, both at "
        "times without jitter (`sync.times`). false = assume that the rig stands still; this needs no odometry.",
    )
    min_range: float = Field(
        0.3,
        ge=0,
        description="Minimum depth of a return, m, when it was measured and in the picture. Nearer returns are of the "
        "rig itself.",
    )
    tolerance: float = Field(0.15, gt=0, description="Maximum time between a picture and the middle of the sweep, s.")
    ambiguity: float = Field(
        0.1,
        gt=0,
        description="Where `rig` states the covariance of the camera's pose: a pixel has no depth if, within two "
        "standard deviations, it may see a return whose depth differs by more than this share.",
    )


class DepthOptions(LensOptions, DepthSection):
    """Options of the step `_camera_depth`."""

    rig: RigOptions = RigOptions()
    lidar: LidarOptions = LidarOptions()
    times: TimesSection = TimesSection()
