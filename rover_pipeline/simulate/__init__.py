"""A simulated rover in a known world: traces like the real rig's, with the truth beside them."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path

from rover_pipeline.errors import ConfigError, did_you_mean
from rover_pipeline.simulate.faults import FAULTS as _FAULTS
from rover_pipeline.simulate.presets import PRESETS, Preset

#: What can be damaged on request, name -> what is wrong afterwards.
FAULTS = {name: fault.description for name, fault in _FAULTS.items()}

__all__ = ["FAULTS", "PRESETS", "Preset", "simulate"]


def simulate(
    out: Path,
    *,
    preset: str | Preset = "indoor",
    duration: float | None = None,
    seed: int = 0,
    faults: Sequence[str] = (),
    threads: int | None = None,
    sensors: Collection[str] | None = None,
) -> None:
    """Make `out` a roverd trace with known truth. The same arguments give the same bytes, whatever the threads.

    Args:
        preset: one of `PRESETS`, or a variant of one.
        duration: seconds; the preset's own unless given.
        seed: of noise, losses and small reflections.
        faults: names from `FAULTS`.
        threads: as many as this process may use unless given.
        sensors: which of `lidar`, `radar`, `camera` and `imu` are recorded; all of them unless given.

    Raises:
        ConfigError: a name is unknown, or the duration too short for every sensor to have a sample.
        InTheWayError: `out` exists and is not empty.
    """
    if isinstance(preset, str):
        if preset not in PRESETS:
            raise ConfigError(f"simulate: unknown preset {preset!r}; {did_you_mean(preset, PRESETS)}")
        preset = PRESETS[preset]
    for fault in faults:
        if fault not in FAULTS:
            raise ConfigError(f"simulate: unknown fault {fault!r}; {did_you_mean(fault, FAULTS)}")
    seconds = preset.duration if duration is None else duration
    if not _SHORTEST <= seconds < float("inf"):
        raise ConfigError(f"simulate: duration must be at least {_SHORTEST} s, is {seconds}")
    if seed < 0:
        raise ConfigError(f"simulate: seed must not be negative, is {seed}")
    from rover_pipeline.simulate.record import record  # Numba and the codecs take a second that a look-up need not wait
    from rover_pipeline.simulate.rig import build

    record(out, build(preset, seed), seconds, faults, threads or len(os.sched_getaffinity(0)), sensors)


_SHORTEST = 0.5
