"""`provenance.json`: the inputs, options and versions that made a virtual sensor. It marks the sensor as our result."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rover_pipeline import __version__
from rover_pipeline.errors import one_line
from rover_pipeline.format.files import opened_regular, plain_names, read_exactly
from rover_pipeline.format.texts import read_json
from rover_pipeline.lookup import load

PROVENANCE = "provenance.json"
MADE_BY = "rover_pipeline"
#: Key of the reason why a result has no files: the recording cannot give them.
OMITTED = "left_out"

#: Blocks of a file that its digest covers, and bytes of each. Layout.
_PARTS = 16
_PART_BYTES = 1 << 16
#: Distributions whose version can change the bytes of a result.
_PACKAGES = (
    "dask", "imagecodecs", "matplotlib", "numba", "numpy", "onnxruntime", "opencv-python-headless", "ouster-sdk",
    "plyfile", "scipy", "simplejpeg", "small-gicp", "vqf",
)  # fmt: skip


def read_provenance(sensor: Path) -> dict[str, Any] | None:
    """The provenance of the sensor in directory `sensor`; None when this program did not make it: it does not exist, or
    holds something else. Raises FormatError where there is one that cannot be read."""
    try:
        content = read_json(sensor / PROVENANCE)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return content if isinstance(content, dict) and content.get("made_by") == MADE_BY else None


def is_source(provenance: dict[str, Any] | None) -> bool:
    """Whether a virtual sensor came with the recording, as a truth or a reference does, and is no result of a step."""
    step = str((provenance or {}).get("step", ""))
    return step == "simulate" or step.startswith("import ")


def omission(provenance: Mapping[str, Any] | None) -> str:
    """Why a result of ours has no files, one line; "" = it has them."""
    reason = (provenance or {}).get(OMITTED)
    return one_line(reason) if isinstance(reason, str) else ""


def files_of(provenance: dict[str, Any] | None) -> set[str]:
    """Names of the files that a provenance lists. Whatever is no plain name of a file is omitted."""
    return {*plain_names((provenance or {}).get("files"))}


def file_state(path: Path) -> list[int]:
    """Size and time of the last change, ns, of a file or folder: equal ones mean that it was not written to."""
    status = os.stat(path)
    return [status.st_size, status.st_mtime_ns]


def fingerprint(path: Path) -> dict[str, Any]:
    """Size and a digest of a channel's file, or of the names and sizes in its folder.

    A recording can have hundreds of gigabytes, so the digest covers only the size and 16 evenly spaced blocks of
    64 KiB, the first and the last included.
    """
    digest = hashlib.blake2b(digest_size=16)
    if path.is_dir():
        entries = sorted((entry.name, entry.stat().st_size) for entry in os.scandir(path))
        digest.update(json.dumps(entries).encode())
        return {"bytes": sum(size for _, size in entries), "files": len(entries), "blake2b": digest.hexdigest()}
    with opened_regular(path) as descriptor:
        size = os.fstat(descriptor).st_size
        digest.update(str(size).encode())
        last = max(0, size - _PART_BYTES)
        for part in range(_PARTS):
            digest.update(read_exactly(descriptor, _PART_BYTES, last * part // (_PARTS - 1)))
    return {"bytes": size, "blake2b": digest.hexdigest()}


def versions() -> dict[str, str]:
    """Versions of Python, of this package and of those that can change a result."""
    installed = {name: version for name in _PACKAGES if (version := _version(name))}
    return {"python": platform.python_version(), "rover-pipeline": __version__, **installed}


@functools.cache
def _version(name: str) -> str:
    """Version of an installed distribution; "" where it is not installed."""
    # Who only reads provenance need not wait for this library.
    find = load("importlib.metadata:distribution")
    try:
        found = find(name)
    except ModuleNotFoundError:
        return ""
    # `found.version` parses the whole text as a message, which takes longer than many a step.
    line = re.search(r"^Version: *(.+)$", found.read_text("METADATA") or "", re.MULTILINE)
    return line[1].strip() if line else str(found.version)
