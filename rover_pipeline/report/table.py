"""Declaration of the page of a recording."""

from __future__ import annotations

from rover_pipeline.engine.step import Step
from rover_pipeline.report.options import ReportOptions

STEPS = (
    Step(
        sensor="_report",
        function="rover_pipeline.report.steps:report",
        version=1,
        sections=("report",),
        options=ReportOptions,
        recording=True,
        reads=("config.yaml", "*/ts", "*/valid"),
        products={
            "index.html": "A page that shows the recording at a glance; opens without a network.",
            "summary.json": "The figures of the page, as docs/summary.md describes.",
        },
        waits_for_all=True,
        default=True,
        summary="A page, `index.html`, that shows the recording at a glance, and its figures.",
    ),
)
