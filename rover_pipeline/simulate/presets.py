"""What can be simulated: a scene, the motion through it, and a rig with its rates and shapes.

It is light, so that a wrong name is reported before the simulator is loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from pydantic import Field, field_validator

from rover_pipeline.errors import ConfigError, did_you_mean
from rover_pipeline.format.texts import read_yaml
from rover_pipeline.options import Options
from rover_pipeline.simulate.faults import FAULTS, Unkind, put_on

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


#: Every sensor has a sample within the shorter one, s. A day of recording fills terabytes. Layout.
_SHORTEST_S, _LONGEST_S = 0.5, 86400.0


class Placed(Options):
    """One sensor of a rig."""

    name: str = Field(description="Its folder in the recording.")
    type: Literal["lidar", "radar", "camera", "imu", "gnss"] = Field(description="What it is.")
    at: tuple[float, float, float] = Field((0.0, 0.0, 0.0), description="Position in the main lidar's frame, metres.")
    yaw: float = Field(0.0, description="Where it looks, degrees to the left of the main lidar's x axis.")
    pitch: float = Field(0.0, description="Where it looks, degrees downward.")
    after: float = Field(0.0, ge=0, description="What its samples are later than those of its type usually are, s.")
    noise: float = Field(1.0, gt=0, description="Noise of an IMU or a GNSS receiver over that of the usual one.")
    changes: dict[str, Any] = Field({}, description="Fields of the preset that have other values for this sensor.")

    @field_validator("changes")
    @classmethod
    def _with_chirps(cls, changes: dict[str, Any]) -> dict[str, Any]:
        return changes | ({"radar": Chirps.model_validate(changes["radar"])} if "radar" in changes else {})


_DATA = read_yaml(Path(__file__).with_name("presets.yaml"))
#: The rig of the published recordings.
ROVER = tuple(map(Placed.model_validate, _DATA["rigs"]["rover"]))


class Preset(Options):
    """One kind of recording."""

    description: str = Field(description="One line about the recording.")
    duration: float = Field(30.0, description="Default duration, seconds.")
    scene: Literal["flat", "stairs", "street", "park", "bushes", "crowd", "tunnel"] = Field(description="Scene.")
    leaf_depth: float = Field(0.15, gt=0, description="How far a ray gets into bushes and crowns on average, metres.")
    carrier: Literal["walker", "trolley", "bike", "car"] = Field(description="Carrier of the rig.")
    speed: float = Field(description="Speed after the start, m/s.")
    stand: float = Field(1.0, description="Seconds at rest at the start.")
    lidar: Literal["OS-0-128", "OS-0-32", "OS-1-64"] = Field("OS-0-128", description="Ouster product.")
    columns: int = Field(2048, description="Columns of a revolution.")
    lidar_rate: int = Field(10, description="Revolutions per second.")
    radar: Chirps = Field(description="Radar device and chirps.")
    width: int = Field(1920, description="Width of the camera's pictures, pixels.")
    height: int = Field(1080, description="Height of the camera's pictures, pixels.")
    lens: Literal["fisheye", "brown", "pinhole"] = Field("fisheye", description="Lens of the camera.")
    camera_rate: float = Field(30.0, description="Pictures per second.")
    imu_rate: float = Field(100.0, description="Samples per second.")
    unkind: Unkind = Field(Unkind(), description="What is wrong with the rig and its world.")
    sensors: tuple[Placed, ...] = Field(ROVER, description="The sensors; the first is the main lidar.")

    def of(self, sensor: Placed) -> Preset:
        """The preset as it is for one sensor."""
        return self.model_copy(update=sensor.changes)

    def describe(self) -> dict[str, Any]:
        """The preset as plain values. A recording of the usual rig does not list its sensors."""
        return self.model_dump(exclude={"sensors"} if self.sensors == ROVER else None)


#: By name.
PRESETS = {name: Preset.model_validate(values) for name, values in _DATA["presets"].items()}


def choose(
    preset: str | Preset, duration: float | None, seed: int, faults: Sequence[str], lens: str | None
) -> tuple[Preset, float, list[str]]:
    """A preset with a lens and faults of its world, the seconds, and the faults that damage the finished recording,
    from what `simulate` takes. Raises ConfigError where a name is unknown, or a number is none that can be
    simulated."""
    if isinstance(preset, str):
        if preset not in PRESETS:
            raise ConfigError(f"simulate: unknown preset {preset!r}; {did_you_mean(preset, PRESETS)}")
        preset = PRESETS[preset]
    if lens is not None:
        lenses = get_args(Preset.model_fields["lens"].annotation)
        if lens not in lenses:
            raise ConfigError(f"simulate: unknown lens {lens!r}; {did_you_mean(lens, lenses)}")
        preset = preset.model_copy(update={"lens": lens})
    damages = [fault for fault in faults if fault in FAULTS]
    unkind = put_on([fault for fault in faults if fault not in FAULTS], preset.unkind)

    def shifted(chirps: Chirps) -> Chirps:
        return chirps.model_copy(update={"frequency": chirps.frequency + unkind.carrier_shift})

    sensors = tuple(
        each.model_copy(update={"changes": each.changes | {"radar": shifted(each.changes["radar"])}})
        if "radar" in each.changes
        else each
        for each in preset.sensors
    )
    changed = {"unkind": unkind, "radar": shifted(preset.radar), "sensors": sensors}
    seconds = preset.duration if duration is None else duration
    if not _SHORTEST_S <= seconds <= _LONGEST_S:
        limits = f"at least {_SHORTEST_S} s and at most {_LONGEST_S:.0f} s"
        raise ConfigError(f"simulate: duration must be {limits}, is {seconds}")
    if unkind.lidar_silence > seconds - _SHORTEST_S:
        raise ConfigError(f"simulate: lidar-silence leaves no sweeps of {seconds:g} s; ask for a longer --duration")
    if seed < 0:
        raise ConfigError(f"simulate: seed must not be negative, is {seed}")
    return preset.model_copy(update=changed), seconds, damages
