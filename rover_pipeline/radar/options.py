"""Options of the radar section.

A step is given the options of its own section and, beside them, the plain ones of `radar` itself.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from rover_pipeline.options import Options

Window = Literal["hann", "none"]


class CaptureOptions(Options):
    """How samples came to be: what all radar steps need."""

    board: str | None = Field(
        None,
        description="Board, for example AWR1843; null = what the recording's config.yaml says in "
        "radar.args.radar.device.",
    )
    sample_order: Literal["qqii", "iiqq"] = Field(
        "qqii",
        description="Order of the words of two complex samples. The wrong one mirrors the range axis; the energy there "
        "is measured, and a recording that looks swapped is reported.",
    )


class RangeDopplerSection(Options):
    """`_radar_range_doppler`."""

    range_window: Window = Field("hann", description="Taper over the samples of a chirp.")
    doppler_window: Window = Field("hann", description="Taper over the chirps of a frame.")


class RangeAzimuthSection(RangeDopplerSection):
    """`_radar_range_azimuth`."""

    azimuth_window: Window = Field("hann", description="Taper over the columns of the virtual array.")
    azimuth_bins: int = Field(64, ge=1, description="Azimuth bins, by zero padding; at least as many as columns.")
    remove_static: bool = Field(False, description="Subtract the mean over the chirps, which holds what stands still.")
    compensate_tdm: bool = Field(
        True, description="Undo the turn of phase of a moving target from one transmitter's chirp to the next one's."
    )


class SpectrumSection(RangeDopplerSection):
    """`_radar_spectrum`."""

    elevation_window: Window = Field("none", description="Taper over the rows of the virtual array.")
    azimuth_window: Window = Field("hann", description="Taper over the columns of the virtual array.")
    doppler_bins: int = Field(0, ge=0, description="Doppler bins, by zero padding; 0 = as many as chirps.")
    elevation_bins: int = Field(0, ge=0, description="Elevation bins, by zero padding; 0 = as many as rows.")
    azimuth_bins: int = Field(0, ge=0, description="Azimuth bins, by zero padding; 0 = as many as columns.")
    range_bins: int = Field(0, ge=0, description="Range bins, by zero padding; 0 = as many as samples give.")
    scale: Literal["amplitude", "decibel"] = Field("amplitude", description="ADC counts, or dB re one ADC count.")
    remove_static: bool = Field(False, description="Subtract the mean over the chirps, which holds what stands still.")
    compensate_tdm: bool = Field(
        False, description="Undo the turn of phase of a moving target between transmitters. xwr does not."
    )


class PointsSection(RangeDopplerSection):
    """`_radar_points`."""

    cfar: Literal["ca", "os", "caso"] = Field(
        "caso",
        description="How the noise around a cell is estimated: mean of the cells around it, the one of a rank among "
        "them, or the smaller mean of its two sides along each axis, which a stronger neighbour does not raise.",
    )
    guard: tuple[int, int] = Field((2, 3), description="Doppler and range cells next to the tested one to leave out.")
    train: tuple[int, int] = Field((4, 8), description="Doppler and range cells beyond them to estimate noise from.")
    rank: float = Field(0.6, gt=0, lt=1, description="`os`: share of the cells that the noise is not below.")
    threshold_db: float = Field(8.0, gt=0, description="Least power over the noise, dB.")
    first_bin: int = Field(3, ge=0, description="Range bins before this one hold the coupling of the antennas.")
    max_points: int = Field(256, ge=1, le=65535, description="Points a frame at most, those of the highest SNR.")
    max_elevation: float = Field(40.0, gt=0, le=90, description="Steepest direction looked in, degrees.")
    remove_static: bool = Field(False, description="Subtract the mean over the chirps, which holds what stands still.")
    compensate_tdm: bool = Field(
        True, description="Undo the turn of phase of a moving target from one transmitter's chirp to the next one's."
    )

    @field_validator("guard", "train")
    @classmethod
    def _cells(cls, cells: tuple[int, int], info: ValidationInfo) -> tuple[int, int]:
        least = 0 if info.field_name == "guard" else 1
        if min(cells) < least:
            raise ValueError(f"must be at least {least} along both axes")
        return cells


class VelocitySection(Options):
    """`_radar_velocity`."""

    doppler_error: float = Field(0.1, gt=0, description="Standard deviation of a point's Doppler, in Doppler bins.")
    least_error: float = Field(0.008, gt=0, description="The same at least, m/s.")
    azimuth_error: float = Field(0.02, ge=0, description="Standard deviation of the sine of a point's azimuth.")
    elevation_error: float = Field(0.05, ge=0, description="Standard deviation of the sine of a point's elevation.")
    vertical: float = Field(
        0.2, gt=0, description="Standard deviation of the vertical velocity that is expected before any point, m/s."
    )
    trials: int = Field(256, ge=1, description="Pairs of points that the consensus tries.")
    least_angle: float = Field(0.1, gt=0, lt=1, description="Sine of the least angle between the points of a pair.")
    min_inliers: int = Field(6, ge=3, description="Points at rest, fewer of which determine nothing.")
    min_share: float = Field(0.3, ge=0, le=1, description="Share of the points that must be at rest.")
    max_error: float = Field(0.3, gt=0, description="Largest level standard deviation of a valid estimate, m/s.")


class RangeDopplerOptions(CaptureOptions, RangeDopplerSection):
    """What the step of `_radar_range_doppler` is given."""


class RangeAzimuthOptions(RangeDopplerOptions, RangeAzimuthSection):
    """What the step of `_radar_range_azimuth` is given."""


class SpectrumOptions(RangeDopplerOptions, SpectrumSection):
    """What the step of `_radar_spectrum` is given."""


class PointsOptions(RangeDopplerOptions, PointsSection):
    """What the step of `_radar_points` is given."""


class VelocityOptions(CaptureOptions, VelocitySection):
    """What the step of `_radar_velocity` is given."""


class RadarOptions(CaptureOptions):
    """Radar processing."""

    range_doppler: RangeDopplerSection = RangeDopplerSection()
    range_azimuth: RangeAzimuthSection = RangeAzimuthSection()
    spectrum: SpectrumSection = SpectrumSection()
    points: PointsSection = PointsSection()
    velocity: VelocitySection = VelocitySection()
