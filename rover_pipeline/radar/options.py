"""Options of the section `radar`. A step receives those of its own section and those of `radar` itself.

The Snakefile reads this module, so it imports neither NumPy nor OpenCV.
"""

from __future__ import annotations

import cmath
import math
from pathlib import Path
from typing import Any, Literal

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

from rover_pipeline.clocks.options import TimesSection
from rover_pipeline.errors import ConfigError, FormatError, describe
from rover_pipeline.format.texts import read_yaml
from rover_pipeline.kinematics.options import RigOptions
from rover_pipeline.options import Options

Window = Literal["hann", "none"]

_REMOVE_STATIC = "Subtract the mean over the chirps, which is the echo of static targets."
_COMPENSATE_TDM = "Remove the phase that a moving target gains from one transmitter's chirp to the next."


class Measured(Options):
    """A value and its standard deviation."""

    value: float = Field(allow_inf_nan=False, description="Estimate.")
    sigma: float | None = Field(ge=0, description="Standard deviation; null = not measured.")


class Antenna(Options):
    """What a virtual antenna adds to the signal, relative to the mean of all."""

    tx: int = Field(ge=0, le=31, description="Transmitter, counted from 0.")
    rx: int = Field(ge=0, le=31, description="Receiver, counted from 0.")
    phase_deg: float = Field(ge=-360, le=360, description="Phase, degrees.")
    phase_sigma_deg: float = Field(ge=0, description="Its standard deviation.")
    gain_db: float = Field(ge=-100, le=100, description="Gain, dB.")
    gain_sigma_db: float = Field(ge=0, description="Its standard deviation.")


class CouplingTones(Options):
    """The coupling of the antennas as tones; only for recordings with the same chirps."""

    range_resolution: float = Field(gt=0, description="Size of a range bin, m.")
    samples: int = Field(gt=0, le=1 << 16, description="Of a chirp.")
    sample_order: str = Field("qqii", description="The `sample_order` that was used.")
    reach: int = Field(ge=0, le=1 << 16, description="Last range bin that it is seen in.")
    bins: tuple[float, ...] = Field(max_length=256, description="Beat frequency of each tone, range bins.")
    tones: tuple[tuple[float, ...], ...] = Field(
        max_length=1024, description="Of each virtual antenna: real and imaginary part of each tone, ADC counts."
    )

    @model_validator(mode="after")
    def _complete(self) -> CouplingTones:
        if any(len(each) != 2 * len(self.bins) for each in self.tones):
            raise ValueError("each line of `tones` must have two numbers for each of `bins`")
        return self


class CalibrationFile(Options):
    """The file that `rover-pipeline calibrate radar` writes and `radar.calibration` names.

    Options hold its whole content, not its name: so it reaches every worker, provenance records it, and a changed file
    changes the results.
    """

    board: str = Field(max_length=40, description="Board that it is of.")
    method: str = Field(max_length=40, description="reflector or recording.")
    targets: int = Field(ge=1, description="Echoes that it was estimated from.")
    centre_ghz: float = Field(gt=1, lt=1000, description="Centre frequency of the chirps, which phases belong to.")
    spacing: Measured = Field(description="Distance of the columns, half wavelengths of the centre frequency.")
    range_bias: Measured = Field(description="Metres that ranges come out too long.")
    coherence: tuple[float, float] = Field(description="Median coherence of the echoes before and after.")
    antennas: tuple[Antenna, ...] = Field(min_length=1, max_length=1024, description="All virtual antennas.")
    coupling: CouplingTones | None = Field(None, description="Coupling of the antennas; null = not seen.")

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        """The content of the file that a name stands for."""
        if not isinstance(value, (str, Path)):
            return value
        try:
            content = read_yaml(Path(value))
        except (OSError, FormatError) as error:
            raise ValueError(describe(error)) from error
        if not isinstance(content, dict):
            raise ValueError(f"{value}: is no calibration of a radar; make one with `rover-pipeline calibrate radar`")
        return content

    def gains(self, transmitters: int, receivers: int) -> tuple[complex, ...]:
        """Gain of each virtual antenna, transmitter by transmitter.

        Raises:
            ConfigError: the calibration is not of a board with these antennas.
        """
        by_pair = {(each.tx, each.rx): each for each in self.antennas}
        pairs = [(tx, rx) for tx in range(transmitters) for rx in range(receivers)]
        if set(by_pair) != set(pairs) or len(by_pair) != len(self.antennas):
            raise ConfigError(
                f"radar.calibration is of {len(self.antennas)} virtual antennas of a {self.board}, the recording has "
                f"{transmitters} TX and {receivers} RX; calibrate this radar"
            )
        found = [by_pair[pair] for pair in pairs]
        return tuple(cmath.rect(10 ** (each.gain_db / 20), math.radians(each.phase_deg)) for each in found)


class CaptureOptions(Options):
    """The board and the order of its samples, which all radar steps need."""

    board: str | None = Field(
        None,
        description="Name of the board, for example AWR1843; null = the name in radar.args.radar.device of the "
        "recording's config.yaml.",
    )
    sample_order: Literal["qqii", "iiqq"] = Field(
        "qqii",
        description="Sequence of the words of two complex samples. A wrong one mirrors the range axis. The mirrored "
        "energy is measured, and a warning says when the order seems wrong.",
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
        "from the other samples; chirp = replace whole chirps. `_radar_quality` says which frames have them.",
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

    cfar: Literal["ca", "os"] = Field(
        "os",
        description="CFAR detector, which estimates the noise from the training cells around a cell. os (ordered "
        "statistic) = the power at a rank among them; ca (cell averaging) = their mean, which a strong neighbour "
        "raises.",
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
        description="true = the velocity by `_odom`, where there is one, helps to find ambiguity numbers: for boards "
        "with one or two transmitters. `_radar_points` is then made after `_odom`.",
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
        description="Maximum evidence for a competing velocity, as a share of that for the estimate: points that move "
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

    def doppler_sigma(self, bin_mps: float) -> float:
        """Standard deviation of a point's Doppler, m/s, of bins of a size, m/s."""
        return max(self.doppler_error * bin_mps, self.least_error)


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


class RadarOdometrySection(Options):
    """`_radar_odom`: the trajectory from the radar's velocities and the IMU."""

    gyro_noise: float = Field(
        2e-3, gt=0, description="Noise density of the gyroscope with what vibration adds, rad/s/sqrt(Hz)."
    )
    acc_noise: float = Field(
        2e-2, gt=0, description="Noise density of the accelerometer with what vibration adds, m/s2/sqrt(Hz)."
    )
    max_error: float = Field(0.2, gt=0, description="Maximum standard deviation of a valid state's velocity, m/s.")
    max_tilt_error: float = Field(3.0, gt=0, description="Maximum standard deviation of a valid state's tilt, degrees.")
    max_silence: float = Field(
        0.5, gt=0, description="Time without the IMU, s, after which the trajectory is not continued."
    )
    max_time_offset: float = Field(
        5.0,
        gt=0,
        le=60,
        description="Maximum time offset between the radar and the IMU, s: with a larger one no state is valid. The "
        "search takes a time in proportion.",
    )
    smoothed: bool = Field(
        True, description="true = times without the jitter of their arrival (`sync.times`). false = as recorded."
    )


class RadarOdometryOptions(RadarOdometrySection):
    """All options of the step that makes `_radar_odom`."""

    #: What `_radar_velocity` was made with: its prior is taken away again, and a fast state is as valid as a velocity.
    least_error: float = VelocitySection().least_error
    max_share: float = VelocitySection().max_share
    vertical: float = VelocitySection().vertical
    pitch: float = VelocitySection().pitch
    rig: RigOptions = RigOptions()
    times: TimesSection = TimesSection()
    #: The same for each further radar, where there are several.
    others: dict[str, RadarOdometryOptions] = Field({})

    @model_serializer(mode="wrap")
    def _of_several(self, plain: SerializerFunctionWrapHandler) -> dict[str, Any]:
        values: dict[str, Any] = plain(self)
        return values if self.others else {name: value for name, value in values.items() if name != "others"}
