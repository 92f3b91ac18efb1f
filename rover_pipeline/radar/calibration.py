"""The file that `rover-pipeline calibrate radar` writes and `radar.calibration` names.

The Snakefile reads this module with the options, so it imports no NumPy. Options hold the whole content of the file,
not its name: so it reaches every worker, provenance records it, and a changed file changes the results.
"""

from __future__ import annotations

import cmath
import math
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from rover_pipeline.errors import ConfigError, FormatError, describe
from rover_pipeline.format.texts import read_yaml
from rover_pipeline.options import Options


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
    sample_order: str = Field("qqii", description="Order of words that was used.")
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
    """The content of a calibration file."""

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
