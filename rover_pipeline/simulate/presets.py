"""What can be simulated: a scene, the motion through it, and a rig with its rates and shapes.

It is light, so that a wrong name is reported before the simulator is loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

from pydantic import Field

from rover_pipeline.errors import ConfigError, did_you_mean
from rover_pipeline.options import Options
from rover_pipeline.simulate.faults import FAULTS
from rover_pipeline.simulate.sensors.chirps import Chirps
from rover_pipeline.simulate.unkind import Unkind, put_on

# fmt: off
#: Chirps of the presets in buildings, with range bins of 4.4 cm. Layout.
_INDOORS = Chirps(device="AWR1843", idle_time=200.0, ramp_end_time=59.0, freq_slope=67.012, sample_rate=5000)
#: Chirps of the presets in the open, on foot. Layout.
_OUTDOORS = Chirps(device="AWR1843", idle_time=120.0, ramp_end_time=59.0, freq_slope=33.506, sample_rate=5000)
#: Chirps at the speed of a bike. Layout.
_FAST = Chirps(device="AWR1843", idle_time=6.0, ramp_end_time=34.0, freq_slope=67.012, sample_rate=10000)
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


#: The rig of the published recordings. The order gives the seeds of random numbers. Layout.
ROVER = (
    Placed(name="lidar", type="lidar"),
    Placed(name="radar", type="radar", at=(0.08, 0.0, -0.14), yaw=1.5, pitch=1.0),
    Placed(name="camera", type="camera", at=(0.07, 0.05, -0.09), yaw=-1.0, pitch=3.0),
    Placed(name="imu", type="imu", at=(-0.03, 0.02, -0.11), yaw=2.0),
)
#: A car with several sensors of each type, no two of them at the same instants. Two are of other products than the
#: others of their type: not all lidars of a car, and not all radars, have the same shapes. Layout.
CAR = (
    Placed(name="lidar_top", type="lidar"),
    Placed(
        name="lidar_rear", type="lidar", at=(-1.9, 0.35, -0.6), yaw=155.0, pitch=6.0, after=0.043,
        changes={"lidar": "OS-0-32", "columns": 512},
    ),
    Placed(name="radar_front", type="radar", at=(1.6, 0.1, -1.2)),
    Placed(name="radar_left", type="radar", at=(0.4, 0.85, -1.1), yaw=90.0, after=0.021),
    Placed(
        name="radar_rear", type="radar", at=(-2.3, -0.2, -1.1), yaw=180.0, pitch=1.0, after=0.043,
        changes={"radar": Chirps(
            device="AWR1642", idle_time=6.0, ramp_end_time=34.0, freq_slope=16.0, adc_samples=64, sample_rate=2500,
            frame_length=32, frame_period=80.0,
        )},
    ),
    Placed(name="camera_front", type="camera", at=(0.6, 0.0, -0.3), pitch=3.0),
    Placed(name="camera_left", type="camera", at=(0.2, 0.6, -0.4), yaw=90.0, pitch=5.0, after=0.011),
    Placed(name="camera_right", type="camera", at=(0.2, -0.6, -0.4), yaw=-90.0, pitch=5.0, after=0.023),
    Placed(
        name="camera_rear", type="camera", at=(-1.5, 0.0, -0.4), yaw=180.0, pitch=5.0, after=0.037,
        changes={"lens": "brown"},
    ),
    Placed(name="imu", type="imu", at=(-0.05, 0.02, -0.11), yaw=2.0),
    Placed(name="imu_cabin", type="imu", at=(-0.5, 0.3, -0.9), yaw=-88.0, pitch=2.0, after=0.003, noise=4.0),
    Placed(name="gnss", type="gnss", at=(-0.6, -0.3, 0.05)),
)  # fmt: skip


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


#: By name. Layout.
PRESETS: dict[str, Preset] = {
    "tiny": Preset(
        description="A few seconds of a walk through a furnished flat, small shapes: for tests and demonstrations.",
        duration=2.5, scene="flat", carrier="walker", speed=0.8, stand=0.3,
        lidar="OS-0-32", columns=512, width=256, height=144, camera_rate=10.0,
        radar=Chirps(
            device="AWR1843", idle_time=224.0, ramp_end_time=59.0, freq_slope=33.506, adc_samples=64, sample_rate=1250,
            frame_length=16, frame_period=100.0,
        ),
    ),
    "indoor": Preset(
        description="A walk through a furnished flat with people in it, at the real rig's rates and shapes.",
        scene="flat", carrier="walker", speed=0.8, radar=_INDOORS,
    ),
    "smooth": Preset(
        description="The same flat seen from a trolley: no steps, no sway.",
        scene="flat", carrier="trolley", speed=0.8, radar=_INDOORS,
    ),
    "stairs": Preset(
        description="A walk up one flight of stairs and down another one, round a narrow stairwell.",
        scene="stairs", carrier="walker", speed=0.6, radar=_INDOORS,
    ),
    "outdoor": Preset(
        description="A walk round a block of houses, with cars, a cyclist and people.",
        scene="street", carrier="walker", speed=1.2, radar=_OUTDOORS,
    ),
    "bike": Preset(
        description="A ride on a bike round the same block.",
        scene="street", carrier="bike", speed=5.0, radar=_FAST,
    ),
    "park": Preset(
        description="A walk through a park: undulating ground, trees and bushes with leaves, some people.",
        scene="park", carrier="walker", speed=1.2, radar=_OUTDOORS,
    ),
    "bushes": Preset(
        description="A walk through a field of bushes on undulating ground: no planes, no trunks.",
        scene="bushes", carrier="walker", speed=1.2, radar=_OUTDOORS,
    ),
    "crowd": Preset(
        description="A walk through a bare hall among people who walk along at the rig's pace, and others.",
        scene="crowd", carrier="walker", speed=1.1, radar=_INDOORS,
    ),
    "car": Preset(
        description="A drive round the block in a car with two lidars, three radars and four cameras, small shapes.",
        duration=3.0, scene="street", carrier="car", speed=7.0, stand=0.3,
        lidar="OS-1-64", columns=512, width=256, height=144, camera_rate=10.0,
        radar=Chirps(
            device="AWR1843", idle_time=6.0, ramp_end_time=34.0, freq_slope=16.0, adc_samples=64, sample_rate=2500,
            frame_length=32, frame_period=100.0,
        ),
        sensors=CAR,
    ),
    "tunnel": Preset(
        description="A ride through a long smooth tunnel, whose niches end after 40 m.",
        scene="tunnel", carrier="bike", speed=4.0, radar=_FAST,
    ),
}




def choose(
    preset: str | Preset, duration: float | None, seed: int, faults: Sequence[str], lens: str | None
) -> tuple[Preset, float, list[str]]:
    """A preset with a lens and faults of its world, the seconds, and the faults that damage the finished recording.

    Args:
        preset, duration, seed, faults, lens: as `simulate` takes them.

    Raises:
        ConfigError: a name is unknown, or a number is none that can be simulated.
    """
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
    unkind = put_on([fault for fault in faults if fault not in FAULTS], preset.unkind, [*FAULTS])

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
