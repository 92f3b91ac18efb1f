"""FMCW radar devices: the timing of chirps as `config.yaml` gives it, and the positions of the antennas."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from rover_pipeline.options import Options

#: Speed of light, m/s. The command line reads presets without loading SciPy. Physics: SI.
_SPEED_OF_LIGHT = 299_792_458.0

Device = Literal["AWR1843", "AWR1843AOP", "AWR1642", "AWR2944"]

#: Four antennas half a wavelength apart. Layout.
_ROW = np.stack([np.arange(4) * 0.5, np.zeros(4)], -1)
#: Frequency at which the positions of the antennas are what the table below says, GHz.
#: Physics: the middle of 76 to 81 GHz.
DESIGN_GHZ = 78.5
#: Positions of transmitters and receivers, (N, 2): left and up, in wavelengths of `DESIGN_GHZ`. With the transmitters
#: in the order they fire, their sums are the virtual arrays that xwr and `radar/boards.py` draw. Layout.
ANTENNAS: dict[str, tuple[np.ndarray, np.ndarray]] = {
    "AWR1843": (np.array([[0.0, 0.0], [1.0, 0.5], [2.0, 0.0]]), _ROW),
    "AWR1843AOP": (_ROW[:3], np.stack([np.zeros(4), -np.arange(4) * 0.5], -1)),
    "AWR1642": (np.array([[0.0, 0.0], [2.0, 0.0]]), _ROW),
    "AWR2944": (np.array([[0.0, 0.0], [1.0, 0.8], [2.0, 0.0], [4.0, 0.0]]), _ROW),
}


class Chirps(Options):
    """The chirps of a frame, in the fields and units of `radar.args.radar` in `config.yaml`."""

    device: Device = Field(description="Radar chip.")
    port: str = Field("/dev/ttyACM0", description="Control port of the board.")
    frequency: float = Field(77.0, description="Start of the ramp, GHz.")
    idle_time: float = Field(description="Time between ramps, us.")
    adc_start_time: float = Field(5.7, description="From the start of the ramp to the first sample, us.")
    ramp_end_time: float = Field(description="Length of the ramp, us.")
    tx_start_time: float = Field(1.0, description="Transmitter on before the ramp, us.")
    freq_slope: float = Field(description="Slope of the ramp, MHz/us.")
    adc_samples: int = Field(256, description="Samples of a chirp.")
    sample_rate: int = Field(description="Sample rate of the ADC, ksps.")
    frame_length: int = Field(64, description="Chirps of each transmitter in a frame.")
    frame_period: float = Field(50.0, description="Time between frames, ms.")

    @property
    def antennas(self) -> tuple[np.ndarray, np.ndarray]:
        """Transmitters and receivers, (N, 2) each: left and up, wavelengths in the middle of the samples."""
        transmitters, receivers = ANTENNAS[self.device]
        scale = self.centre_frequency / (DESIGN_GHZ * 1e9)
        return transmitters * scale, receivers * scale

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(chirp, tx, rx, sample)."""
        transmitters, receivers = ANTENNAS[self.device]
        return self.frame_length, len(transmitters), len(receivers), self.adc_samples

    @property
    def is_real(self) -> bool:
        """Whether the device samples the real part only."""
        return self.device == "AWR2944"

    @property
    def words(self) -> int:
        """int16 words of a chirp of one receiver."""
        return self.adc_samples * (1 if self.is_real else 2)

    @property
    def ramp_period(self) -> float:
        """Seconds from one ramp to the next one, which another transmitter fires."""
        return (self.idle_time + self.ramp_end_time) * 1e-6

    @property
    def slope(self) -> float:
        """Hz/s."""
        return self.freq_slope * 1e12

    @property
    def middle_sample(self) -> float:
        """Seconds from the end of the previous ramp to the middle of the samples."""
        return (self.idle_time + self.adc_start_time) * 1e-6 + self.adc_samples / (self.sample_rate * 1e3) / 2

    @property
    def centre_frequency(self) -> float:
        """Hz, in the middle of the samples."""
        return self.frequency * 1e9 + self.slope * (self.middle_sample - self.idle_time * 1e-6)

    @property
    def wavelength(self) -> float:
        """Metres, in the middle of the samples."""
        return _SPEED_OF_LIGHT / self.centre_frequency

    @property
    def range_resolution(self) -> float:
        """Width of a range bin, metres."""
        return _SPEED_OF_LIGHT / (2 * self.slope * self.adc_samples / (self.sample_rate * 1e3))

    @property
    def doppler_resolution(self) -> float:
        """Width of a Doppler bin, m/s."""
        return self.wavelength / (2 * self.duration)

    @property
    def duration(self) -> float:
        """Seconds from the start of the first ramp of a frame to the end of the last one."""
        return self.frame_length * self.shape[1] * self.ramp_period

    @property
    def max_range(self) -> float:
        """Range at which the beat frequency reaches the end of the ADC's band, metres."""
        return self.range_resolution * self.adc_samples / (2 if self.is_real else 1)
