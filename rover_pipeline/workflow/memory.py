"""Which options a run takes from a recording, and which it leaves there for the next one.

What the user gives comes before what the recording remembers, option by option. What a recording says is data: strict
models validate it, and whatever names a file, an address or code is neither remembered nor taken: a folder that was
downloaded makes nobody open files or run programs. Options are kept by their names with dots: `odometry.world`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rover_pipeline.config import Config
from rover_pipeline.errors import ConfigError
from rover_pipeline.format.memory import MEMORY, read_memory
from rover_pipeline.format.rig import TYPES

#: Sections and options that change no bytes of our results, or can name files, addresses or code. `extra` is for rules
#: that a user names in each run; a calibration is remembered by its content.
_OF_A_RUN = (
    *("dask", "export", "exports", "extra", "extra_rules", "output_root", "outputs", "plan", "reset_config", "traces"),
    *("camera.model.path", "camera.model.digest"),
)


def given_options(config: Config, typed: Mapping[str, Any]) -> dict[str, Any]:
    """What a user gave: what differs from the defaults, and what was typed on the command line though it is one."""
    names = flat(typed)
    options = flat(config.model_dump(mode="json"))
    return {name: value for name, value in options.items() if _differs(name, value) or _below(name, names)}


def kept(remembered: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """What a recording remembers of options that the user says nothing of."""
    replaced = {each for each in remembered if _below(each, given) or any(_below(name, [each]) for name in given)}
    return {name: value for name, value in sorted(remembered.items()) if name not in replaced}


def recalled(results: Path) -> dict[str, Any]:
    """The options that a recording remembers. Raises ConfigError for ones it cannot give, FormatError for damage."""
    options = flat(read_memory(results))
    try:
        if refused := next((name for name in options if not is_remembered(name)), ""):
            raise ConfigError(f"config: {refused}: is not taken from a recording")
        Config.parse(nested(options))
    except ConfigError as error:
        hint = "give --reset-config (snakemake: --config reset_config=true) to forget what is remembered there"
        raise ConfigError(f"{results / MEMORY}: {error}; {hint}") from error
    return options


def to_remember(config: Config) -> dict[str, Any]:
    """What recordings remember of the options that their results are made with."""
    options = flat(config.model_dump(mode="json"))
    return {name: value for name, value in options.items() if _differs(name, value) and is_remembered(name)}


def flat(options: Mapping[str, Any], begin: str = "") -> dict[str, Any]:
    """Options by their names with dots, from sections within sections."""
    found: dict[str, Any] = {}
    for key, value in options.items():
        found |= flat(value, f"{begin}{key}.") if isinstance(value, Mapping) else {f"{begin}{key}": value}
    return found


def nested(options: Mapping[str, Any]) -> dict[str, Any]:
    """Sections within sections, from options by their names with dots."""
    found: dict[str, Any] = {}
    for name, value in options.items():
        *sections, last = name.split(".")
        level = found
        for each in sections:
            level = level.setdefault(each, {})
            if not isinstance(level, dict):
                raise ConfigError(f"config: {name}: is no option of a section")
        level[last] = value
    return found


@functools.cache
def _defaults() -> dict[str, Any]:
    return flat(Config().model_dump(mode="json"))


def _differs(name: str, value: object) -> bool:
    return name not in _defaults() or value != _defaults()[name]


def is_remembered(name: str) -> bool:
    if name.startswith("instances."):  # of a sensor: what the same option is for all of its type
        return all(is_remembered(f"{type}.{name.split('.', 2)[-1]}") for type in TYPES)
    # Instead of its content a calibration, or a rig, could have the name of a file.
    return not _below(name, _OF_A_RUN) and name not in ("radar.calibration", "rig")


def _below(name: str, others: Any) -> bool:
    """Whether an option is one of others, or in a section among them."""
    return any(f"{name}.".startswith(f"{other}.") for other in others)
