"""What is simulated, by the names that a user gives. Light: a wrong name is told before the simulator is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from rover_pipeline.errors import ConfigError, did_you_mean
from rover_pipeline.simulate.faults import FAULTS
from rover_pipeline.simulate.presets import PRESETS, Preset
from rover_pipeline.simulate.unkind import put_on


def choose(preset: str | Preset, faults: Sequence[str], lens: str | None) -> tuple[Preset, list[str]]:
    """A preset with a lens and with faults of its world, and the faults that damage the finished recording.

    Args:
        preset, faults, lens: as `simulate` takes them.

    Raises:
        ConfigError: a name is unknown.
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
    return preset.model_copy(update={"unkind": unkind, "radar": ramps}), damages
