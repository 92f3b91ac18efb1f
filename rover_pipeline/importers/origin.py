"""What an imported trace says of where it came from: the section `imported` of its `config.yaml`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from rover_pipeline import __version__
from rover_pipeline.format.files import replace_file
from rover_pipeline.format.provenance import fingerprint
from rover_pipeline.format.trace import CONFIG
from rover_pipeline.importers.table import say
from rover_pipeline.kinematics.state import Poses

#: `T_optical_camera`: the frame of a picture is right-down-ahead (REP 103), that of a trace's camera front-left-up.
#: Physics: REP 103.
OPTICAL_FROM_CAMERA = np.array([[0.0, -1, 0, 0], [0, 0, -1, 0], [1, 0, 0, 0], [0, 0, 0, 1]])
#: Files whose digests are kept one by one. Of a folder of more files, their names and sizes are. Layout.
_MAX_FILES = 32


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
