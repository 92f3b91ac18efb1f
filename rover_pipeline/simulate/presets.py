"""What can be simulated: a scene, the motion through it, and a rig with its rates and shapes.

It is light, so that a wrong name is reported before the simulator is loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import Field, field_validator

from rover_pipeline.errors import ConfigError, did_you_mean
from rover_pipeline.format.texts import read_yaml
from rover_pipeline.options import Options
from rover_pipeline.simulate.faults import FAULTS, Unkind, put_on
from rover_pipeline.simulate.sensors.chirps import Chirps

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
