"""How unkind a simulated world is: errors of sensors, motion and records that real recordings have.

A preset has all of them off. `--fault NAME` or `--fault NAME=VALUE` puts one on; `--fault unkind` puts on those that
every rig has.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from rover_pipeline.errors import ConfigError, did_you_mean
from rover_pipeline.options import Options


class Unkind(Options):
    """What is wrong with a rig and its world; 0 and false = nothing. The truth of a recording stays the truth."""

    range_noise: float = Field(0.0, ge=0, le=1, description="Range noise at no distance, standard deviation, m.")
    range_noise_growth: float = Field(0.0, ge=0, le=0.1, description="What a metre of distance adds to it, m.")
    range_bias: float = Field(
        0.0, ge=0, le=1, description="Range bias, m: dark surfaces and near ones seem farther away, bright ones nearer."
    )
    mixed_pixels: float = Field(0.0, ge=0, le=1, description="Share of returns at edges that lie between both sides.")
    weak_returns: float = Field(
        0.0, ge=0, le=5, description="How much harder dark and grazing surfaces are to detect; 1 = twice, in decibels."
    )
    beam_angles: float = Field(0.0, ge=0, le=5, description="RMS deviation of beams from the sidecar, degrees.")
    lidar_silence: float = Field(0.0, ge=0, le=86400, description="Seconds without sweeps in the middle.")
    gyro_bias: float = Field(0.0, ge=0, le=1, description="Length of the gyroscope's bias, rad/s.")
    acc_bias: float = Field(0.0, ge=0, le=10, description="Length of the accelerometer's bias, m/s2.")
    imu_scale: float = Field(0.0, ge=0, lt=1, description="Scale error of each axis of the IMU, up or down.")
    imu_misalignment: float = Field(
        0.0, ge=0, le=180, description="Angle between the IMU's mounting and the one in section rig, degrees."
    )
    imu_mount: bool = Field(False, description="The IMU is mounted with any rotation, and section rig leaves it out.")
    imu_late: float = Field(0.0, ge=-1, le=1, description="What the IMU's stamps are later than they should be, s.")
    gyro_limit: float = Field(0.0, ge=0, le=1e4, description="Saturation of the gyroscope, rad/s; 0 = none.")
    acc_limit: float = Field(0.0, ge=0, le=1e5, description="Saturation of the accelerometer, m/s2; 0 = none.")
    imu_degrees: bool = Field(False, description="Angular velocity is stored in degrees per second.")
    imu_axes: bool = Field(False, description="The x and y axes of the IMU are exchanged: a left-handed frame.")
    heel_strikes: float = Field(0.0, ge=0, le=100, description="Peak acceleration at each step, m/s2, up to 20 Hz.")
    vibration: float = Field(0.0, ge=0, le=10, description="Amplitude of rotational vibration at 15 Hz, degrees.")
    clock_offsets: float = Field(
        0.0, ge=0, le=10, description="Constant offsets of the clocks of radar, camera and IMU, at most, s."
    )
    radar_coupling: float = Field(
        0.0, ge=0, le=30000, description="Amplitude of the coupling from TX to RX, ADC counts."
    )
    array_phase: float = Field(0.0, ge=0, le=90, description="RMS phase error of the virtual antennas, degrees.")
    array_gain: float = Field(0.0, ge=0, le=10, description="RMS gain error of the virtual antennas, dB.")
    carrier_shift: float = Field(
        0.0, ge=-2, le=3, description="What the radar's ramps start higher than in the preset, GHz."
    )
    multipath: float = Field(
        0.0, ge=0, le=1, description="Amplitude of a target's ghost below the floor over that of the target."
    )
    phase_noise: float = Field(0.0, ge=0, le=1, description="RMS phase noise of a chirp of the radar, radians.")
    radar_gain: float = Field(
        0.0, ge=0, le=60, description="What the receiver of the radar amplifies too much, dB: near targets saturate it."
    )
    interference: float = Field(
        0.0, ge=0, le=1, description="Share of the radar's chirps that the ramp of another radar crosses."
    )
    no_rig: bool = Field(False, description="config.yaml has no section rig.")


#: Values of the errors that every rig has. Noise: data sheets of Ouster lidars and of MEMS IMUs, and captures.
TYPICAL: dict[str, float | bool] = {
    "range_noise": 0.008,
    "range_noise_growth": 0.0004,
    "range_bias": 0.01,
    "mixed_pixels": 0.5,
    "weak_returns": 0.3,
    "beam_angles": 0.02,
    "gyro_bias": 0.01,
    "acc_bias": 0.1,
    "imu_scale": 0.01,
    "imu_misalignment": 1.0,
    "imu_mount": True,
    "imu_late": 0.012,
    "heel_strikes": 5.0,
    "radar_coupling": 3000.0,
    "array_phase": 25.0,
    "array_gain": 1.0,
    "no_rig": True,
}
#: Values of the errors that some rigs have. Layout.
_HOSTILE: dict[str, float | bool] = {
    "lidar_silence": 1.0,
    "gyro_limit": 0.5,
    "acc_limit": 12.0,
    "imu_degrees": True,
    "imu_axes": True,
    "vibration": 0.3,
    "clock_offsets": 0.05,
    "carrier_shift": -1.0,
    "multipath": 0.3,
    "phase_noise": 0.02,
    "radar_gain": 20.0,
    "interference": 0.3,
}
#: Values that an error has if it is put on without one.
DEFAULTS = TYPICAL | _HOSTILE
#: Name of all of `TYPICAL` together.
ALL_TYPICAL = "unkind"
#: Names of faults as the command line has them.
NAMES = [ALL_TYPICAL, *(name.replace("_", "-") for name in DEFAULTS)]


def put_on(faults: Sequence[str], base: Unkind, others: Sequence[str] = ()) -> Unkind:
    """`base` with faults, each NAME or NAME=VALUE. A later one wins over an earlier one.

    Args:
        others: further names to suggest for one that is unknown.

    Raises:
        ConfigError: a name is unknown, or a value is none for it.
    """
    values: dict[str, object] = {}
    for fault in faults:
        name, equals, value = fault.partition("=")
        if name not in NAMES:
            raise ConfigError(f"simulate: unknown fault {name!r}; {did_you_mean(name, [*NAMES, *others])}")
        key = name.replace("-", "_")
        if name == ALL_TYPICAL:
            if equals:
                raise ConfigError(f"simulate: fault {name} takes no value; put single ones on after it")
            values |= TYPICAL
        else:
            values[key] = value if equals else DEFAULTS[key]
            if key == "range_noise":
                # The noise of a better or worse lidar grows in proportion, unless its growth is given after it.
                values["range_noise_growth"] = _growth(values[key])
    try:
        return Unkind.parse(base.model_dump() | values)
    except ConfigError as error:
        raise ConfigError(f"simulate: fault {str(error).removeprefix('config: ')}") from error


def _growth(noise: object) -> object:
    ratio = float(TYPICAL["range_noise_growth"]) / float(TYPICAL["range_noise"])
    try:
        return float(str(noise)) * ratio
    except ValueError:
        return noise
