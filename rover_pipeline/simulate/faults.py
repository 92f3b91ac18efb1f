"""Faults: what real recordings and their worlds have and a simulation has not, unless `--fault NAME` puts it on.

`--fault NAME=VALUE` puts on an error of sensors, of motion or of records, of another size, and `--fault unkind` those
that every rig has. Others damage the finished recording: of several sensors of a type the main one.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from pydantic import Field

from rover_pipeline.errors import ConfigError, did_you_mean
from rover_pipeline.format.files import replace_file
from rover_pipeline.format.meta import META
from rover_pipeline.format.rig import Rig
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.options import Options


def _error(usual: float, description: str, *, every: bool = False, **limits: Any) -> Any:
    """A field of `Unkind`; 0 = without the error. `usual`: its value unless given; `every`: of every rig."""
    return Field(type(usual)(0), description=description, json_schema_extra={"usual": usual, "every": every}, **limits)


_every = partial(_error, every=True)


class Unkind(Options):
    """What is wrong with a rig and its world; 0 and false = nothing. The truth of a recording stays the truth.

    What every rig has is from the data sheets of Ouster lidars and of MEMS IMUs, and from captures.
    """

    range_noise: float = _every(0.008, "Range noise at no distance, standard deviation, m.", ge=0, le=1)
    range_noise_growth: float = _every(0.0004, "What a metre of distance adds to it, m.", ge=0, le=0.1)
    range_bias: float = _every(0.01, "Bias, m: dark and near surfaces seem farther, bright ones nearer.", ge=0, le=1)
    mixed_pixels: float = _every(0.5, "Share of returns at edges that lie between both sides.", ge=0, le=1)
    weak_returns: float = _every(0.3, "How much harder dark, grazing surfaces are detected; 1 = twice, dB.", ge=0, le=5)
    beam_angles: float = _every(0.02, "RMS deviation of beams from the sidecar, degrees.", ge=0, le=5)
    lidar_silence: float = _error(1.0, "Seconds without sweeps in the middle.", ge=0, le=86400)
    gyro_bias: float = _every(0.01, "Length of the gyroscope's bias, rad/s.", ge=0, le=1)
    acc_bias: float = _every(0.1, "Length of the accelerometer's bias, m/s2.", ge=0, le=10)
    imu_scale: float = _every(0.01, "Scale error of each axis of the IMU, up or down.", ge=0, lt=1)
    imu_misalignment: float = _every(1.0, "Angle of the IMU's mount from that of section rig, degrees.", ge=0, le=180)
    imu_mount: bool = _every(True, "The IMU is mounted with any rotation, and section rig leaves it out.")
    imu_late: float = _every(0.012, "What the IMU's stamps are later than they should be, s.", ge=-1, le=1)
    gyro_limit: float = _error(0.5, "Saturation of the gyroscope, rad/s; 0 = none.", ge=0, le=1e4)
    acc_limit: float = _error(12.0, "Saturation of the accelerometer, m/s2; 0 = none.", ge=0, le=1e5)
    imu_degrees: bool = _error(True, "Angular velocity is stored in degrees per second.")
    imu_axes: bool = _error(True, "The x and y axes of the IMU are exchanged: a left-handed frame.")
    heel_strikes: float = _every(5.0, "Peak acceleration at each step, m/s2, up to 20 Hz.", ge=0, le=100)
    vibration: float = _error(0.3, "Amplitude of rotational vibration at 15 Hz, degrees.", ge=0, le=10)
    clock_offsets: float = _error(0.05, "Largest constant offset of clocks of radar, camera and IMU, s.", ge=0, le=10)
    radar_coupling: float = _every(3000.0, "Amplitude of the coupling from TX to RX, ADC counts.", ge=0, le=30000)
    array_phase: float = _every(25.0, "RMS phase error of the virtual antennas, degrees.", ge=0, le=90)
    array_gain: float = _every(1.0, "RMS gain error of the virtual antennas, dB.", ge=0, le=10)
    carrier_shift: float = _error(-1.0, "What the radar's ramps start higher than in the preset, GHz.", ge=-2, le=3)
    multipath: float = _error(0.3, "Amplitude of a target's ghost below the floor over that of the target.", ge=0, le=1)
    phase_noise: float = _error(0.02, "RMS phase noise of a chirp of the radar, radians.", ge=0, le=1)
    radar_gain: float = _error(20.0, "What the radar amplifies too much, dB: near targets saturate it.", ge=0, le=60)
    interference: float = _error(0.3, "Share of the radar's chirps that the ramp of another radar crosses.", ge=0, le=1)
    no_rig: bool = _every(True, "config.yaml has no section rig.")


def _usual(every: bool) -> dict[str, float | bool]:
    more = {name: cast(dict[str, Any], field.json_schema_extra) for name, field in Unkind.model_fields.items()}
    return {name: each["usual"] for name, each in more.items() if each["every"] is every}


#: Values of the errors that every rig has, and of all errors where they are put on without one.
TYPICAL = _usual(every=True)
DEFAULTS = TYPICAL | _usual(every=False)
#: Name of all of `TYPICAL` together.
ALL_TYPICAL = "unkind"
#: Names of faults as the command line has them.
NAMES = [ALL_TYPICAL, *(name.replace("_", "-") for name in DEFAULTS)]


def put_on(faults: Sequence[str], base: Unkind) -> Unkind:
    """`base` with faults, each NAME or NAME=VALUE. A later one wins over an earlier one. Raises ConfigError where a
    name is unknown, or a value is none for it."""
    values: dict[str, object] = {}
    for fault in faults:
        name, equals, value = fault.partition("=")
        if name not in NAMES:
            raise ConfigError(f"simulate: unknown fault {name!r}; {did_you_mean(name, [*NAMES, *FAULTS])}")
        key = name.replace("-", "_")
        if name == ALL_TYPICAL:
            if equals:
                raise ConfigError(f"simulate: fault {name} takes no value; put single ones on after it")
            values |= TYPICAL
        else:
            values[key] = value if equals else DEFAULTS[key]
            if key == "range_noise":
                # The noise of a better or worse lidar grows in proportion, unless its growth is given after it.
                with suppress(ValueError):
                    ratio = TYPICAL["range_noise_growth"] / TYPICAL["range_noise"]
                    values["range_noise_growth"] = float(str(values[key])) * ratio
    try:
        return Unkind.parse(base.model_dump() | values)
    except ConfigError as error:
        raise ConfigError(f"simulate: fault {str(error).removeprefix('config: ')}") from error


def _power_cut(trace: Path) -> None:
    """Every sensor ends within a sample, at its own time, and no index was written."""
    kept = {"lidar/rng": 0.83, "lidar/rfl": 0.86, "lidar/nir": 0.81, "radar/iq": 0.87, "camera/video.avi": 0.79}
    for name, fraction in kept.items():
        path = _main(trace, name)
        os.truncate(path, int(path.stat().st_size * fraction) | 1)
    for name in ("rng_i", "rfl_i", "nir_i"):
        _main(trace, f"lidar/{name}").unlink()


def _corrupt_lidar(trace: Path) -> None:
    """One sample of lidar/rng cannot be decoded."""
    ends = np.fromfile(_main(trace, "lidar/rng_i"), "<u8")
    sample = (len(ends) - 1) // 2
    _overwrite(_main(trace, "lidar/rng"), int(ends[sample] + ends[sample + 1]) // 2, bytes(24))


def _corrupt_video(trace: Path) -> None:
    """One frame of camera/video.avi cannot be decoded."""
    path = _main(trace, "camera/video.avi")
    # A frame in an AVI is the name of its stream, four bytes of length, and a JPEG, which begins with FF D8 FF.
    frames = [match.end() - 3 for match in re.finditer(rb"00dc.{4}\xff\xd8\xff", path.read_bytes(), re.DOTALL)]
    _overwrite(path, frames[len(frames) // 2], bytes(16))


def _remove(*names: str) -> Callable[[Path], None]:
    """A function that removes files of a trace."""

    def damage(trace: Path) -> None:
        for name in names:
            _main(trace, name).unlink()

    return damage


def _wrong_shape(trace: Path) -> None:
    """The meta.json gives lidar/rng half of its columns."""
    path = _main(trace, f"lidar/{META}")
    meta = json.loads(path.read_text())
    meta["rng"]["shape"][1] //= 2
    replace_file(path, json.dumps(meta, indent=4) + "\n")


def _times_out_of_order(trace: Path) -> None:
    """Two consecutive times in radar/ts are exchanged."""
    path = _main(trace, "radar/ts")
    ts = Sensor(path.parent).channel("ts").read()
    sample = len(ts) // 2
    _overwrite(path, 8 * sample, ts[[sample + 1, sample]].tobytes())


def _main(trace: Path, name: str) -> Path:
    """A file of the main sensor of a type, by the name that it has where this is called like the type."""
    type, _, file = name.partition("/")
    sensor = Rig(trace).main(type)
    return trace / sensor / (f"{sensor}.json" if file == f"{type}.json" else file)


def _overwrite(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


#: Functions that damage a trace, by the name of the damage.
FAULTS: dict[str, Callable[[Path], None]] = {
    "power-cut": _power_cut,
    "corrupt-lidar": _corrupt_lidar,
    "corrupt-video": _corrupt_video,
    "missing-sidecars": _remove("lidar/lidar.json", "radar/radar.json", "camera/camera.json"),
    "missing-index": _remove("lidar/rng_i"),
    "missing-channel": _remove("radar/valid"),
    "wrong-shape": _wrong_shape,
    "times-out-of-order": _times_out_of_order,
}
