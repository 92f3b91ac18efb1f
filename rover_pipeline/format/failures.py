"""Why an output of a recording was not made, kept beside its results until the output is made.

`TRACE/.failed/OUTPUT.json` is written by the job that failed, on whatever machine. So the end of a run, and the page of
many recordings, can give the reason, from whatever folder they are started.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from pathlib import Path
from typing import NamedTuple

from rover_pipeline.errors import FormatError, one_line
from rover_pipeline.format.files import replace_file, sync_file
from rover_pipeline.format.provenance import PROVENANCE
from rover_pipeline.format.texts import read_json

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
