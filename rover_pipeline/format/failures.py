"""What is kept beside the results of a recording: the options that they were made with, and why one was not made.

`TRACE/.options.json` has the options that the recording remembers. `TRACE/.failed/OUTPUT.json` is written by the job
that failed, on whatever machine, and removed when the output is made. So the end of a run, and the page of many
recordings, can give the reason, from whatever folder they are started.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from pathlib import Path
from typing import Any, NamedTuple

from rover_pipeline.errors import FormatError, one_line
from rover_pipeline.format.files import make_folders, replace_file, sync_file
from rover_pipeline.format.provenance import MADE_BY, PROVENANCE
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


FOLDER = ".failed"
_NAME = re.compile(r"[\w.-]+")


class Failure(NamedTuple):
    """One output that was not made."""

    output: str  #: name of the virtual sensor or folder, `_odom`.
    reason: str  #: one line.
    time: float  #: when it failed, seconds since the epoch.
    #: whether the same command may succeed later with the same input: the disk was full, or the job killed.
    may_pass: bool


def record_failure(trace: Path, output: str, reason: str, *, may_pass: bool) -> None:
    """Keep why an output was not made. Where it cannot be written, the log of the job is all there is."""
    path = _path(trace, output)
    content = {"output": output, "reason": one_line(reason), "time": time.time(), "may_pass": may_pass}
    with contextlib.suppress(OSError):
        path.parent.mkdir(exist_ok=True)
        if path.parent.is_symlink():  # whoever made the recording may have meant another folder to be written to
            return
        replace_file(path, json.dumps(content) + "\n")
        sync_file(trace)


def clear_failure(trace: Path, output: str) -> None:
    """Forget why an output was not made, for now it is."""
    path = _path(trace, output)
    with contextlib.suppress(OSError):
        if not path.parent.is_symlink():
            path.with_name(f".{path.name}.new").unlink(missing_ok=True)  # a kill may have left it
            path.unlink()
            path.parent.rmdir()


def read_failures(trace: Path) -> list[Failure]:
    """Outputs that were not made, in the order of their names; not those that were made since."""
    folder = trace / FOLDER
    try:
        names = sorted(name.removesuffix(".json") for name in os.listdir(folder) if not name.startswith("."))
    except OSError:
        return []
    found = [_read(trace, name) for name in names if _NAME.fullmatch(name)]
    return [each for each in found if each is not None]


def _read(trace: Path, output: str) -> Failure | None:
    try:
        content = read_json(_path(trace, output))
        failure = Failure(output, one_line(content["reason"]), float(content["time"]), content["may_pass"] is True)
    except (OSError, FormatError, KeyError, TypeError, ValueError, AttributeError):
        return None
    try:
        made = os.stat(trace / output / PROVENANCE).st_mtime
    except OSError:
        return failure
    return failure if made < failure.time else None


def _path(trace: Path, output: str) -> Path:
    return trace / FOLDER / f"{output}.json"
