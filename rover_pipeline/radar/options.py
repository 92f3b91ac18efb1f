"""Options of the section `radar`. A step receives those of its own section and those of `radar` itself.

The Snakefile reads this module, so it imports neither NumPy nor OpenCV.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from rover_pipeline.kinematics.options import RigOptions
from rover_pipeline.options import Options
from rover_pipeline.radar.calibration import CalibrationFile

Window = Literal["hann", "none"]

_REMOVE_STATIC = "Subtract the mean over the chirps, which is the echo of static targets."
_COMPENSATE_TDM = "Remove the phase that a moving target gains from one transmitter's chirp to the next."


class CaptureOptions(Options):
    """The board and the order of its samples, which all radar steps need."""

    board: str | None = Field(
        None,
        description="Name of the board, for example AWR1843; null = the name in radar.args.radar.device of the "
        "recording's config.yaml.",
    )
    sample_order: Literal["qqii", "iiqq"] = Field(
        "qqii",
        description="Order of the words of two complex samples. A wrong order mirrors the range axis. The mirrored "
        "energy is measured, and a warning tells when the order seems wrong.",
    )
    coupling: Literal["remove", "keep"] = Field(
        "remove",
        description="remove = what couples from TX to RX on the board is measured in each recording, near zero range "
        "where it is seen, and subtracted. keep = leave it in.",
    )
    calibration: CalibrationFile | None = Field(
        None,
        description="YAML file that `rover-pipeline calibrate radar` has made: coupling, range bias, spacing, phase "
        "and gain of every virtual antenna. null = the array is taken to be as its board was designed.",
    )
    interference: Literal["keep", "time", "chirp"] = Field(
        "keep",
        description="Bursts of other radars: keep = leave them in; time = replace the parts of chirps that hold them "
        "by what the other samples tell; chirp = replace whole chirps. `_radar_quality` tells which frames have them.",
    )


class RangeDopplerSection(Options):
    """`_radar_range_doppler`."""

    range_window: Window = Field("hann", description="Window over the samples of a chirp.")
    doppler_window: Window = Field("hann", description="Window over the chirps of a frame.")


class RangeAzimuthSection(RangeDopplerSection):
    """`_radar_range_azimuth`."""

    azimuth_window: Window = Field("hann", description="Window over the columns of the virtual array.")
    azimuth_bins: int = Field(64, ge=1, description="Azimuth bins, by zero padding; not fewer than columns.")
    remove_static: bool = Field(False, description=_REMOVE_STATIC)
    compensate_tdm: bool = Field(True, description=_COMPENSATE_TDM)


class SpectrumSection(RangeDopplerSection):
    """`_radar_spectrum`."""

    elevation_window: Window = Field("none", description="Window over the rows of the virtual array.")
    azimuth_window: Window = Field("hann", description="Window over the columns of the virtual array.")
    doppler_bins: int = Field(0, ge=0, description="Doppler bins, by zero padding; 0 = as many as chirps.")
    elevation_bins: int = Field(0, ge=0, description="Elevation bins, by zero padding; 0 = as many as rows.")
    azimuth_bins: int = Field(0, ge=0, description="Azimuth bins, by zero padding; 0 = as many as columns.")
    range_bins: int = Field(0, ge=0, description="Range bins, by zero padding; 0 = as many as samples give.")
    scale: Literal["amplitude", "decibel"] = Field(
        "amplitude", description="ADC counts, or dB relative to one ADC count."
    )
    remove_static: bool = Field(False, description=_REMOVE_STATIC)
    compensate_tdm: bool = Field(
        False, description="Remove the phase that a moving target gains between transmitters; xwr does not."
    )


class PointsSection(RangeDopplerSection):
    """`_radar_points`."""

    cfar: Literal["ca", "os", "caso"] = Field(
        "os",
        description="CFAR detector, which estimates the noise from the training cells around a cell. os (ordered "
        "statistic) = the power at a rank among them; ca (cell averaging) = their mean, which a strong neighbour "
        "raises; caso (cell averaging, smallest of) = the smaller mean of the two sides, along each axis, which "
        "misses targets among others at the same Doppler.",
    )
    guard: tuple[int, int] = Field((2, 3), description="Guard cells on each side of the tested cell: Doppler, range.")
    train: tuple[int, int] = Field((4, 8), description="Training cells beyond the guard cells: Doppler, range.")
    rank: float = Field(
        0.6, gt=0, lt=1, description="`os`: relative rank of the training cell that is the noise estimate."
    )
    threshold_db: float = Field(8.0, gt=0, description="Minimum power of a point over the noise, dB.")
    first_bin: int = Field(3, ge=0, description="First range bin to search; closer ones hold antenna coupling.")
    max_points: int = Field(
        256, ge=1, le=65535, description="Maximum points of a frame; those of the highest SNR stay."
    )
    max_clipped: float = Field(
        0.0005,
        ge=0,
        le=1,
        description="Share of clipped samples above which a frame is not valid: a saturated receiver makes targets.",
    )
    max_folds: int = Field(
        1,
        ge=0,
        le=3,
        description="How many times the Doppler of a target may have wrapped around: 1 = targets of up to three times "
        "the largest Doppler are found at their true speed and direction; 0 = Doppler is taken as it is.",
    )
    odometry: bool = Field(
        False,
        description="true = the velocity by `_odom`, where there is one, helps to unfold Doppler: for boards with "
        "one or two transmitters. `_radar_points` is then made after `_odom`.",
    )
    max_elevation: float = Field(40.0, gt=0, le=90, description="Maximum elevation of a point, up or down, degrees.")
    remove_static: bool = Field(False, description=_REMOVE_STATIC)
    compensate_tdm: bool = Field(True, description=_COMPENSATE_TDM)
    estimator: Literal["beam", "capon", "music"] = Field(
        "beam",
        description="Estimator of directions. beam = the strongest beam: one direction for each range-Doppler cell. "
        "capon, music = several targets in a cell, closer than a beam is wide, from smoothed covariances of the rows "
        "of the array; at most `max_targets`.",
    )
    max_targets: int = Field(2, ge=1, le=8, description="`capon`, `music`: maximum number of targets in a cell.")

    @field_validator("guard", "train")
    @classmethod
    def _cells(cls, cells: tuple[int, int], info: ValidationInfo) -> tuple[int, int]:
        minimum = 0 if info.field_name == "guard" else 1
        if min(cells) < minimum:
            raise ValueError(f"must be at least {minimum} along both axes")
        return cells


class VelocitySection(Options):
    """`_radar_velocity`."""

    doppler_error: float = Field(0.1, gt=0, description="Standard deviation of a point's Doppler, in Doppler bins.")
    least_error: float = Field(0.008, gt=0, description="Minimum standard deviation of a point's Doppler, m/s.")
    azimuth_error: float = Field(0.02, ge=0, description="Standard deviation of the sine of a point's azimuth.")
    elevation_error: float = Field(0.05, ge=0, description="Standard deviation of the sine of a point's elevation.")
    vertical: float = Field(
        0.2, gt=0, description="Prior standard deviation of the vertical velocity, whose mean is 0, m/s."
    )
    pitch: float = Field(
        0.15,
        ge=0,
        lt=1,
        description="The same as a share of the speed: a radar that looks up or down, or bounces with its carrier, has "
        "more vertical velocity the faster it is.",
    )
    trials: int = Field(256, ge=1, description="Pairs of points that the consensus (RANSAC) tries.")
    least_angle: float = Field(0.1, gt=0, lt=1, description="Sine of the minimum angle between the points of a pair.")
    min_inliers: int = Field(6, ge=3, description="Minimum number of static points for a valid estimate.")
    min_share: float = Field(0.3, ge=0, le=1, description="Minimum share of static points for a valid estimate.")
    max_rival: float = Field(
        0.5,
        ge=0,
        le=1,
        description="Maximum evidence for another velocity, as a share of that for the estimate: points that move "
        "together look like a world at rest, seen at another velocity. Only points on which the two differ count: "
        "0.5 = two thirds of them are for the estimate. Beyond it the frame is ambiguous and not valid.",
    )
    max_error: float = Field(0.15, gt=0, description="Maximum level standard deviation of a valid estimate, m/s.")
    max_share: float = Field(
        0.015,
        ge=0,
        description="The same as a share of the speed; the larger of the two holds. Errors of an array's "
        "directions grow with the speed.",
    )


class RangeDopplerOptions(CaptureOptions, RangeDopplerSection):
    """Options of the step of `_radar_range_doppler`."""


class RangeAzimuthOptions(RangeDopplerOptions, RangeAzimuthSection):
    """Options of the step of `_radar_range_azimuth`."""


class SpectrumOptions(RangeDopplerOptions, SpectrumSection):
    """Options of the step of `_radar_spectrum`."""


class PointsOptions(RangeDopplerOptions, PointsSection):
    """Options of the step of `_radar_points`."""

    rig: RigOptions = RigOptions()


class VelocityOptions(CaptureOptions, VelocitySection):
    """Options of the step of `_radar_velocity`."""

    max_folds: int = PointsSection().max_folds


class RadarOptions(CaptureOptions):
    """Radar processing."""

    range_doppler: RangeDopplerSection = RangeDopplerSection()
    range_azimuth: RangeAzimuthSection = RangeAzimuthSection()
    spectrum: SpectrumSection = SpectrumSection()
    points: PointsSection = PointsSection()
    velocity: VelocitySection = VelocitySection()
