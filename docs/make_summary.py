"""Writes `docs/summary.md`, the keys of `summary.json`, from its models: `python -m docs.make_summary`."""

from __future__ import annotations

from pathlib import Path

from rover_pipeline.report.summary import (
    ChannelSummary,
    Finding,
    Intervals,
    Motion,
    MountSummary,
    RadarSpeed,
    SensorSummary,
    StepSummary,
    Summary,
    SyncSummary,
)


def documentation() -> str:
    """The keys of `summary.json` as a Markdown page."""
    lines = [
        "# Keys of `summary.json`",
        "",
        "Made from the models in `rover_pipeline/report/summary.py`. Times are seconds, sizes bytes, lengths metres.",
    ]
    recording = (SensorSummary, Intervals, ChannelSummary)
    for model in (Summary, Finding, *recording, Motion, RadarSpeed, SyncSummary, MountSummary, StepSummary):
        lines += ["", f"## {model.__name__}", "", str(model.__doc__), "", "| key | meaning |", "| --- | --- |"]
        lines += [f"| `{name}` | {field.description} |" for name, field in model.model_fields.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    Path(__file__).with_name("summary.md").write_text(documentation(), encoding="utf-8")
