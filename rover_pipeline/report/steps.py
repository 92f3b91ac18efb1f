"""The page of a recording as a step of the workflow."""

from __future__ import annotations

from pathlib import Path

from rover_pipeline.engine.recording import Recording
from rover_pipeline.options import PageOptions
from rover_pipeline.report.page import report_files


def report(recording: Recording, *, options: PageOptions, trace: Path) -> dict[str, bytes]:
    """The page of a recording, of whatever sensors and results the trace in a directory has: of `recording`, which has
    no frames, the page reads times of all sensors and a few frames of each."""
    return report_files(trace, options, threads=recording.threads)
