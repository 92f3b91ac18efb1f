"""Which recordings a path, a glob or a folder stands for, and where their results go."""

from __future__ import annotations

import glob
import os
import re
from pathlib import Path

from rover_pipeline.errors import FormatError
from rover_pipeline.format.trace import find_traces


def locate_traces(entries: list[str], here: Path, output_root: Path | None) -> dict[Path, Path]:
    """Recordings that the entries of `traces` stand for: directory of results -> directory of the recording.

    With an `output_root` a trace that is an entry itself keeps its name there, one that was found below a folder
    keeps its path from that folder, and one that matches a glob its path from the part without wildcards.

    Raises:
        FormatError: an entry stands for no trace, or two traces would have the same directory of results.
    """
    located: dict[Path, Path] = {}
    for entry in entries:
        pattern = os.path.join(here, os.path.expanduser(entry))
        is_glob = glob.has_magic(pattern) and not Path(pattern).exists()
        folders = sorted(Path(name) for name in glob.glob(pattern, recursive=True)) if is_glob else [Path(pattern)]
        folders = [Path(os.path.normpath(folder)) for folder in folders if folder.is_dir()]
        if not folders:
            raise FormatError(f"traces: {entry}: no such directory")
        found = [trace for folder in folders for trace in find_traces(folder)]
        if not found:
            raise FormatError(f"traces: {entry}: no trace at or below it: none of its folders has a config.yaml")
        base = Path(os.path.dirname(re.split(r"[*?\[]", pattern)[0])) if is_glob else folders[0]
        for trace in dict.fromkeys(found):
            relative = trace.relative_to(base) if trace != base else Path(trace.name)
            results = Path(os.path.normpath(output_root / relative)) if output_root else trace
            if located.get(results, trace) != trace:
                raise FormatError(f"traces: {trace} and {located[results]} would both have their results in {results}")
            located[results] = trace
    return located
