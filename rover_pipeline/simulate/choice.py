"""What is simulated, by the names that a user gives. Light: a wrong name is told before the simulator is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from rover_pipeline.errors import ConfigError, did_you_mean
from rover_pipeline.simulate.faults import FAULTS
from rover_pipeline.simulate.presets import PRESETS, Preset
from rover_pipeline.simulate.unkind import put_on

#: Every sensor has a sample within the shorter one, s. A day of recording fills terabytes.
_SHORTEST_S, _LONGEST_S = 0.5, 86400.0


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
