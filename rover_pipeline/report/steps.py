"""The page of a recording as a step of the workflow."""

from __future__ import annotations

from pathlib import Path

from rover_pipeline.engine.recording import Recording
from rover_pipeline.engine.step import step
from rover_pipeline.format.sensor import TS, VALID
from rover_pipeline.format.trace import CONFIG
from rover_pipeline.report.options import ReportOptions


@step(
    recording=True,
    products={
        "index.html": "A page that shows the recording at a glance; opens without a network.",
        "summary.json": "The figures of the page, as docs/summary.md describes.",
    },
    reads=(CONFIG, f"*/{TS}", f"*/{VALID}"),
    version=1,
)
def report(recording: Recording, *, options: ReportOptions, trace: Path) -> dict[str, bytes]:
    """The page of a recording, of whatever sensors and results the trace has.

    Args:
        recording: has no frames: the page reads times of all sensors and a few frames of each.
        trace: its directory.
    """
    from rover_pipeline.report.page import report_files

    return report_files(trace, options)
