"""Videos and Rerun recordings of a trace that lie beside it, for links."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

#: Suffix of a file -> what it is.
_KINDS = {".mp4": "video", ".rrd": "Rerun recording"}


class ExportedFile(NamedTuple):
    """A file that was exported from a trace.

    Attributes:
        kind: what it is; href: its address, from the page.
    """

    name: str
    kind: str
    href: str
    bytes: int


def exported_files(trace: Path, page: Path) -> list[ExportedFile]:
    """Files in the folder of a trace, and those beside it that are named like it, sorted.

    Args:
        page: folder of the page, which addresses start from.
    """
    trace = trace.absolute()
    inside = [entry.name for entry in os.scandir(trace) if entry.name[-4:] in _KINDS and not entry.name.startswith(".")]
    places = [*(trace / name for name in inside), *(trace.parent / f"{trace.name}{suffix}" for suffix in _KINDS)]
    found = [
        ExportedFile(path.name, _KINDS[path.suffix], quote(os.path.relpath(path, page)), path.stat().st_size)
        for path in places
        if path.is_file()
    ]
    return sorted(found, key=lambda each: (each.kind, each.href))
