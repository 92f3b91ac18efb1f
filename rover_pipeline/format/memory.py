"""`.options.json` beside results: the options that a recording remembers, those that its results were made with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rover_pipeline.errors import FormatError
from rover_pipeline.format.files import make_folders, replace_file
from rover_pipeline.format.provenance import MADE_BY
from rover_pipeline.format.texts import read_json

MEMORY = ".options.json"


def read_memory(results: Path) -> dict[str, Any]:
    """Options by their names with dots; none without the file. Raises FormatError when it is damaged, or not ours."""
    path = results / MEMORY
    try:
        content = read_json(path)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    options = content.get("options") if isinstance(content, dict) and content.get("made_by") == MADE_BY else None
    if not isinstance(options, dict):
        raise FormatError(f"{path}: holds no options that {MADE_BY} has kept there; move it away")
    return options


def write_memory(results: Path, options: dict[str, Any]) -> None:
    """Keep options, or remove the file where there are none. Nothing is written where nothing changes."""
    path = results / MEMORY
    if options and read_memory(results) != options:
        make_folders(results)
        replace_file(path, json.dumps({"made_by": MADE_BY, "options": options}, indent=1, sort_keys=True) + "\n")
    elif not options and read_memory(results):
        path.unlink()
