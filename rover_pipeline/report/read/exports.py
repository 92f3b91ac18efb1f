"""Videos and Rerun recordings of a trace that lie beside it, for links."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from rover_pipeline.errors import one_line

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
    trace, at = trace.absolute(), bytes(page)
    inside = [entry.name for entry in os.scandir(trace) if entry.name[-4:] in _KINDS and not entry.name.startswith(".")]
    places = [*(trace / name for name in inside), *(trace.parent / f"{trace.name}{suffix}" for suffix in _KINDS)]
    found = [
        ExportedFile(
            one_line(each.name), _KINDS[each.suffix], quote(os.path.relpath(bytes(each), at)), each.stat().st_size
        )
        for each in places
        if each.is_file()
    ]
    return sorted(found, key=lambda each: (each.kind, each.href))
