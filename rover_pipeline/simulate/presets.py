"""What can be simulated: a scene, the motion through it, and a rig with its rates and shapes.

It is light, so that a wrong name is reported before the simulator is loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

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


class Preset(Options):
    """One kind of recording."""

    description: str = Field(description="One line about the recording.")
    duration: float = Field(30.0, description="Default duration, seconds.")
    scene: Literal["flat", "stairs", "street", "park", "bushes", "crowd", "tunnel"] = Field(description="Scene.")
    leaf_depth: float = Field(0.15, gt=0, description="How far a ray gets into bushes and crowns on average, metres.")
    carrier: Literal["walker", "trolley", "bike"] = Field(description="Carrier of the rig.")
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
    ramps = preset.radar.model_copy(update={"frequency": preset.radar.frequency + unkind.carrier_shift})
    seconds = preset.duration if duration is None else duration
    if not _SHORTEST_S <= seconds <= _LONGEST_S:
        limits = f"at least {_SHORTEST_S} s and at most {_LONGEST_S:.0f} s"
        raise ConfigError(f"simulate: duration must be {limits}, is {seconds}")
    if unkind.lidar_silence > seconds - _SHORTEST_S:
        raise ConfigError(f"simulate: lidar-silence leaves no sweeps of {seconds:g} s; ask for a longer --duration")
    if seed < 0:
        raise ConfigError(f"simulate: seed must not be negative, is {seed}")
    return preset.model_copy(update={"unkind": unkind, "radar": ramps}), seconds, damages
