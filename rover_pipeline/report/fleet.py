"""The page of many recordings, worst first, from the `summary.json` of each."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import numpy as np
from pydantic import ValidationError

from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.engine.progress import progress
from rover_pipeline.errors import (
    ConfigError,
    FormatError,
    InTheWayError,
    RoverError,
    explain,
    named_if_not_written,
    one_line,
)
from rover_pipeline.format.failures import FOLDER as FAILURES
from rover_pipeline.format.files import is_stamp
from rover_pipeline.format.provenance import (
    PROVENANCE,
    changed_inputs,
    files_of,
    fingerprint,
    read_provenance,
    recorded_inputs,
    versions,
)
from rover_pipeline.format.texts import read_json
from rover_pipeline.format.trace import CONFIG, Trace, is_trace, locate_traces
from rover_pipeline.format.virtual import VirtualWriter, in_the_way
from rover_pipeline.lookup import load
from rover_pipeline.report.summary import SensorSummary, Severity, Summary
from rover_pipeline.report.templating import PAGE, REPORT, SUMMARY, environment
from rover_pipeline.table import find_step

#: The step that provenance names, its version, and the order of the rows. Layout.
STEP = "rover_pipeline.report.fleet"
VERSION = 1
FLEET = "fleet.json"
_RANK = {"bad": 0, "none": 1, "fair": 2, "good": 3}
#: Side of the square with the path of a recording, and its margin, pixels. Layout.
_SIDE, _MARGIN = 44.0, 3.0


@dataclass(frozen=True)
class Row:
    """A recording on the page: its `name` there, the address of its own page from there, "" = none, and its summary;
    None where this cannot be read, and the `problem`."""

    name: str
    path: Path
    link: str
    summary: Summary | None
    problem: str = ""

    @property
    def verdict(self) -> Literal["bad", "fair", "good", "none"]:
        return self.summary.verdict if self.summary else "none"

    def count(self, severity: Severity) -> int:
        """Number of findings of this severity."""
        return sum(each.severity == severity for each in self.summary.findings) if self.summary else 0

    @property
    def lost(self) -> float:
        """Share of raw samples that are missing."""
        lost, samples = self._sum_of_raw("lost"), self._sum_of_raw("samples")
        return lost / max(1, lost + samples)

    @property
    def invalid(self) -> float:
        """Share of raw samples with `valid` = 0."""
        return self._sum_of_raw("invalid") / max(1, self._sum_of_raw("samples"))

    @property
    def sensors(self) -> list[str]:
        """Names of the raw sensors."""
        return [sensor.name for sensor in self._raw_sensors]

    @property
    def path_svg(self) -> str:
        """The path from above as points of an SVG polyline in a square of 44 pixels; empty without a trajectory."""
        motion = self.summary.motion if self.summary else None
        if motion is None or len(motion.path_m) < 2:
            return ""
        points = np.array(motion.path_m)
        points = points[np.unique(np.linspace(0, len(points) - 1, 60).round().astype(int))] * [1, -1]
        low, size = points.min(axis=0), max(float(np.ptp(points, axis=0).max()), 1e-3)
        scaled = (points - low - np.ptp(points, axis=0) / 2) / size * (_SIDE - 2 * _MARGIN) + _SIDE / 2
        return " ".join(f"{x:.1f},{y:.1f}" for x, y in scaled)

    def _sum_of_raw(self, name: str) -> int:
        return sum(int(getattr(sensor, name)) for sensor in self._raw_sensors)

    @property
    def _raw_sensors(self) -> list[SensorSummary]:
        return [each for each in self.summary.sensors if not each.name.startswith("_")] if self.summary else []


def write_fleet(entries: Sequence[str], out: Path | None = None) -> tuple[Path, list[Row]]:
    """Write the page of traces, and folders with traces, after the pages of those that have none or have changed since.
    `out`: directory of the page; `_report` in the folder with traces, if `entries` is one. Raises ConfigError where
    `out` is missing although it is not, and InTheWayError where the directory holds something else than such a page."""
    directory = (out or _default_directory(entries)).absolute()
    if problem := in_the_way(directory):
        raise InTheWayError(problem)
    before = read_provenance(directory)
    if before is not None and before.get("step") != STEP:
        result = before.get("sensor", "a result")
        raise InTheWayError(f"{directory}: holds {result} of one recording; choose another folder")
    traces = [path.absolute() for path in locate_traces(list(entries), Path.cwd(), None)]
    common = Path(os.path.commonpath(traces)) if len(traces) > 1 else traces[0].parent
    rows = []
    with progress("report", len(traces), unit="recording") as advance:
        for trace in traces:
            problem = ""
            try:
                make_report(trace)
            except (RoverError, OSError) as error:
                problem = f"has no report, for it cannot be written: {error}"
            rows.append(read_row(trace, str(trace.relative_to(common)), directory, problem))
            advance(1)
    rows = sorted(load("rover_pipeline.report.moved:compare_mounts")(rows), key=_badness)
    summaries = {f"{row.name}/{REPORT}/{SUMMARY}": row.path / REPORT / SUMMARY for row in rows if row.summary}
    inputs = {name: fingerprint(path) for name, path in summaries.items()}
    with named_if_not_written(directory), VirtualWriter(directory) as writer:
        for name, content in fleet_files(rows).items():
            (writer.partial / name).write_bytes(content)
        writer.commit({"step": STEP, "version": VERSION, "inputs": inputs, "packages": versions()})
    return directory / PAGE, rows


def _badness(row: Row) -> tuple[int, int, int, float, str]:
    return _RANK[row.verdict], -row.count("error"), -row.count("warning"), -(row.lost + row.invalid), row.name


def fleet_files(rows: Sequence[Row]) -> dict[str, bytes]:
    """The page and its figures, by file name."""
    summaries = [row.summary for row in rows if row.summary]
    html = environment().get_template("fleet.html").render(
        rows=rows,
        tally={verdict: sum(row.verdict == verdict for row in rows) for verdict in _RANK},
        seconds=sum(summary.duration_s for summary in summaries),
        raw_bytes=sum(summary.raw_bytes for summary in summaries),
        metres=sum(summary.motion.distance_m for summary in summaries if summary.motion),
    )  # fmt: skip
    entries = [
        {
            "trace": one_line(str(row.path)),  # names of files need not be text
            "verdict": row.verdict,
            "headline": row.summary.headline if row.summary else row.problem,
            "errors": row.count("error"),
            "warnings": row.count("warning"),
            "lost_share": row.lost,
            "invalid_share": row.invalid,
            "duration_s": row.summary.duration_s if row.summary else 0.0,
            "page": row.link,
        }
        for row in rows
    ]
    lines = [json.dumps(each, ensure_ascii=False, separators=(",", ":")) for each in entries]
    return {PAGE: html.encode("utf-8", "backslashreplace"), FLEET: ("[\n" + ",\n".join(lines) + "\n]\n").encode()}


def make_report(trace: Path) -> Path:
    """Write the page of one trace if it is missing, or the trace is not what it shows. The options stay as they were.
    Raises RoverError where the directory holds files of someone else, or cannot be written.

    The workflow writes no page of a recording if a step before failed: such a recording gets its page here.
    """
    directory = trace / REPORT
    before = read_provenance(directory) or {}
    if not (directory / SUMMARY).exists() or _is_stale(trace, directory, before):
        stamps = tuple(sorted(filter(is_stamp, files_of(before))))
        request = Request(before.get("options", {}))
        run_step(find_step(REPORT), trace, REPORT, request, stamps=stamps)
    return directory / PAGE


def _is_stale(trace: Path, page: Path, provenance: dict[str, Any]) -> bool:
    """Whether a file of the trace has changed, come or gone, or other outputs have failed, since a page was written."""
    there = {*Trace(trace).files(REPORT), *((CONFIG,) if (trace / CONFIG).exists() else ())}
    failures = trace / FAILURES
    return (
        set(recorded_inputs(page, provenance)) != there
        or bool(next(changed_inputs(page, provenance), ""))
        or (failures.exists() and failures.stat().st_mtime > (page / PROVENANCE).stat().st_mtime)
    )


def read_row(trace: Path, name: str, directory: Path, problem: str = "") -> Row:
    """The row of a trace, for a page in `directory`; `problem` says why there is no summary, if that is known."""
    name, page, path = one_line(name), trace / REPORT / PAGE, trace / REPORT / SUMMARY
    link = quote(os.fsencode(os.path.relpath(page, directory))) if page.exists() else ""
    try:
        return Row(name, trace, link, Summary.model_validate(read_json(path)))
    except FileNotFoundError:
        return Row(name, trace, link, None, problem or "has no report")
    except (ValidationError, FormatError) as error:
        why = explain(error) if isinstance(error, ValidationError) else error
        return Row(name, trace, link, None, f"has a {SUMMARY} that cannot be read: {why}")


def _default_directory(entries: Sequence[str]) -> Path:
    folder = Path(entries[0])
    if len(entries) == 1 and folder.is_dir() and not is_trace(folder):
        return folder / REPORT
    if len(entries) == 1 and not os.path.lexists(folder) and not any(each in entries[0] for each in "*?["):
        raise ConfigError(f"report: {folder}: no such folder")
    raise ConfigError("report: give a folder for the page with -o DIR; only one folder of traces has an obvious place")
