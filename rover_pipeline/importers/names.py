"""What sensors are called where a recording has several of a type."""

from __future__ import annotations

import re
from collections.abc import Collection

from rover_pipeline.engine.instances import type_of
from rover_pipeline.errors import ConfigError
from rover_pipeline.format.rig import TYPES
from rover_pipeline.table import TABLE

#: Maximum number of sensors of a type, of which large rigs have a dozen: each keeps up to five files open. Schedule.
MAX_SENSORS = 20
#: Maximum length of what follows the type, so that names of results are names of files. Layout.
_MAX_SUFFIX = 60


def named(name: str | None, type: str) -> str:
    """The name that the user gives to a sensor, or its type. Raises ConfigError where it cannot be one of a raw sensor,
    or is another type, or a result."""
    if name is None or name == type:
        return type
    if not re.fullmatch(r"[A-Za-z0-9][\w-]*", name, re.ASCII) or name in TYPES or not _is_free(name, type, ()):
        raise ConfigError(f"--as {name}: is no name for a {type}; {type}_left is one (letters, digits, `_` and `-`)")
    return name


def sensor_name(type: str, label: str, main: str, taken: Collection[str]) -> str:
    """The name TYPE_SUFFIX of a sensor that is not the main one of its type, after what its label has and the main
    one's has not: `camera_left` for the topic `/camera/left/image` beside `/camera/front/image`. A label is what the
    source calls the sensor: a topic, an address, a folder; `taken` are names of other sensors."""
    words, others = (_words(text, type) for text in (label, main))
    suffixes = ("_".join(each)[:_MAX_SUFFIX] for each in ([word for word in words if word not in others], words))
    for suffix in suffixes:
        if suffix and _is_free(f"{type}_{suffix}", type, taken):
            return f"{type}_{suffix}"
    return next(name for name in (f"{type}_{n}" for n in range(2, len(taken) + 3)) if _is_free(name, type, taken))


def _words(label: str, type: str) -> list[str]:
    return [word for word in re.findall("[a-z0-9]+", label.lower()) if word != type]


def _is_free(name: str, type: str, taken: Collection[str]) -> bool:
    """Whether neither another sensor nor a result has the name: `_camera_depth` is one of the sensor `camera`."""
    results = [step.removeprefix(f"_{type}") for step in TABLE if type_of(step) == type]
    others = {type, *taken}
    return not others & {name, *(name + result for result in results)} and not any(
        name == other + result for other in others for result in results
    )
