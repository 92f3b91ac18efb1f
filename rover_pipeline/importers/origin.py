"""What an imported trace says of itself in its `config.yaml`: what its sensors are called, and where they came from."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from rover_pipeline import __version__
from rover_pipeline.engine.instances import type_of
from rover_pipeline.errors import ConfigError
from rover_pipeline.format.files import replace_file
from rover_pipeline.format.provenance import fingerprint
from rover_pipeline.format.rig import TYPES
from rover_pipeline.format.trace import CONFIG
from rover_pipeline.importers.table import say
from rover_pipeline.kinematics.state import Poses
from rover_pipeline.table import TABLE

#: `T_optical_camera`: the frame of a picture is right-down-ahead (REP 103), that of a trace's camera front-left-up.
#: Physics: REP 103.
OPTICAL_FROM_CAMERA = np.array([[0.0, -1, 0, 0], [0, 0, -1, 0], [1, 0, 0, 0], [0, 0, 0, 1]])
#: Files whose digests are kept one by one. Of a folder of more files, their names and sizes are. Layout.
_MAX_FILES = 32
#: Maximum number of sensors of a type, of which large rigs have a dozen: each keeps up to five files open. Schedule.
MAX_SENSORS = 20
#: Maximum length of what follows the type, so that names of results are names of files. Layout.
_MAX_SUFFIX = 60


def in_rig(pose: np.ndarray) -> dict[str, Any]:
    """The pose of a sensor in the lidar frame, f8 (4, 4), as the section `rig` has it."""
    return {"translation": pose[:3, 3].tolist(), "rotation": pose[:3, :3].tolist()}


def from_rig(entry: Mapping[str, Any]) -> np.ndarray:
    """The pose of an entry of `in_rig`, f8 (4, 4)."""
    return Poses(entry["rotation"], entry["translation"]).matrices


def write_config(
    trace: Path,
    sensors: Mapping[str, Any],
    *,
    command: str,
    sources: Sequence[Path],
    options: Mapping[str, Any] | None = None,
    notes: Sequence[str] = (),
    rig: Mapping[str, Any] | None = None,
    said_of: object = None,
) -> None:
    """Write `config.yaml` of an imported trace: its sensors, the extrinsics, and what it was made from.

    Args:
        sensors: name -> its entry, as in a collection configuration.
        command: the import, such as `import clouds`.
        sources: files, or folders of them.
        options: of the import that change what it makes.
        notes: what the import left out or assumed, one line each.
        rig: sensor -> `{translation, rotation}` in the lidar frame, where the source gives them.
        said_of: what the notes are said of to the user, too; None = they are not.
    """
    for note in notes if said_of is not None else ():
        say(f"{said_of}: {note}")
    imported: dict[str, Any] = {
        "by": f"rover-pipeline {__version__} {command}",
        "from": {path.name: fingerprint(path) for path in sources[:_MAX_FILES]},
    }
    if len(sources) > _MAX_FILES:
        imported["and"] = f"{len(sources) - _MAX_FILES} files more"
    imported |= {"options": dict(options)} if options else {}
    imported |= {"notes": list(notes)} if notes else {}
    config = {**sensors, **({"rig": dict(rig)} if rig else {}), "imported": imported}
    replace_file(trace / CONFIG, yaml.safe_dump(config, sort_keys=False))


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
