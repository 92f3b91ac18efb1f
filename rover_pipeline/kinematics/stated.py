"""Who states the pose of each sensor in the lidar frame. Without NumPy: the plan of a run asks it.

It comes from the section `rig` of the configuration, else from the same section of the recording's own `config.yaml`.
In each, a sensor's own pose comes before that of the rig that is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, Literal, cast, get_args

from rover_pipeline.errors import ConfigError, short_text
from rover_pipeline.format.texts import parse_collection
from rover_pipeline.kinematics.options import NAMED_RIGS, Mounted, MountOptions, OwnRegion, RigName, RigOptions

#: A section, or the name of a rig; "identity" where nobody gave a pose.
Source = Literal["config", "config.yaml", "identity"] | RigName
#: Each sensor of a recording, and each recording of a rig, asks for the same text. Nobody changes what is returned.
_collection = lru_cache(maxsize=4)(parse_collection)


def find_stated(sensor: str, rig: RigOptions, recorded: str | None) -> tuple[MountOptions, Source] | None:
    """Pose of a sensor in the lidar frame as it is stated, and where; None where nobody states it.

    Args:
        sensor: one of those that the configuration has, or another one that the recording states the pose of.
        rig: section of the configuration.
        recorded: text of the recording's `config.yaml`; None when there is none.

    Raises:
        ConfigError: the recording's section does not hold a rigid pose.
        FormatError: the recording's `config.yaml` is not YAML.
    """
    if sensor not in RigOptions.model_fields:  # such as a GNSS receiver: the recording alone can state it
        pose = _section(recorded, sensor).radar
        return (pose, "config.yaml") if pose else None
    own = cast(Mounted, sensor)
    return _of_section(rig, own, "config") or _of_section(_section(recorded, sensor), own, "config.yaml")


def find_own(rig: RigOptions, recorded: str | None) -> tuple[OwnRegion, ...] | None:
    """Where the lidar sees the rig itself; None where nobody says. Arguments and errors as of `find_stated`."""
    return rig.own if rig.own is not None else _section(recorded, "own").own


def time_offsets(sensors: Iterable[str], rig: RigOptions, recorded: str | None) -> dict[str, float]:
    """What is added to the times of each sensor to have those of the lidar's clock, s. Arguments as of `find_stated`.

    Args:
        sensors: as the recording calls them. The configuration knows those that are called like their types.
    """
    section = _collection(recorded).get("rig")
    listed = section if isinstance(section, Mapping) else {}
    found: dict[str, float] = {}
    for name in sensors:
        own = getattr(rig, name) if name in get_args(Mounted) else None
        if own is None and isinstance(listed.get(name), Mapping):
            own = _parsed({"radar": listed[name]}, "correct it", name).radar
        found[name] = own.time_offset if own is not None else 0.0
    return found


def misspelt(sensors: Iterable[str], recorded: str | None) -> str:
    """A line about keys of the recording's section that are none of its `sensors` or types, but nearly are; else empty.

    Other keys may be of what a reference gives the poses of. Errors as of `find_stated`.
    """
    section = _collection(recorded)
    listed, names = section.get("rig"), [*sensors, *RigOptions.model_fields]
    unknown = {*map(str, listed)} - {*names, *section} if isinstance(listed, Mapping) else set()
    near = [(key, *found) for key in sorted(unknown) if (found := get_close_matches(key[:60], names, n=1))]
    if not near:
        return ""
    others = f", and so do {len(near) - 1} others" if len(near) > 1 else ""
    return f"config.yaml: rig.{short_text(near[0][0])}: names no sensor{others}; did you mean {near[0][1]!r}?"


def mount_notes(*sensors: Mounted, rig: RigOptions, recorded: str | None) -> list[str]:
    """What provenance says of sensors whose pose nobody gave; of a named rig `mount_warnings` says so."""
    unknown = [] if rig.name else [each for each in sensors if find_stated(each, rig, recorded) is None]
    text = "rig: nothing says where the {0} is: it is taken to be where the lidar is; set `rig.{0}`"
    return [text.format(each) for each in unknown]


def _of_section(rig: RigOptions, sensor: Mounted, source: Source) -> tuple[MountOptions, Source] | None:
    own: MountOptions | None = getattr(rig, sensor)
    if own is not None:
        return own, source
    published = NAMED_RIGS[rig.name].get(sensor) if rig.name else None
    return (published, rig.name) if published and rig.name else None


def _section(text: str | None, wanted: str) -> RigOptions:
    """What the recording's own section `rig` says of one thing, or the rig that it names.

    The pose of a sensor that the configuration does not have is where that of the radar is.
    """
    section = _collection(text).get("rig")
    if section is None:
        return RigOptions()
    if isinstance(section, str):
        section = {"name": section}
    if not isinstance(section, Mapping):
        raise ConfigError(
            f"config.yaml: rig: must hold {', '.join(get_args(Mounted))}, is a {type(section).__name__}; correct it, "
            "or set `rig` in the configuration"
        )
    # Nothing else in the section is looked at: what is wrong with it does not concern this sensor.
    key = wanted if section.get(wanted) is not None else "name"
    hint = f"correct it, or set `rig.{wanted}` in the configuration"
    field = "radar" if key not in RigOptions.model_fields else key
    return _parsed({field: section.get(key)}, hint, key)


def _parsed(values: Mapping[str, Any], hint: str, called: str) -> RigOptions:
    """One entry of the recording's section, which is called so there."""
    (field,) = values
    try:
        return RigOptions.parse(values, "rig")
    except ConfigError as error:
        raise ConfigError(
            f"config.yaml: {str(error).removeprefix('config: ').replace(field, called, 1)}; {hint}"
        ) from error
