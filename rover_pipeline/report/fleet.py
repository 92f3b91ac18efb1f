"""The page of many recordings, worst first, made from the `summary.json` of each."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.engine.progress import progress
from rover_pipeline.errors import ConfigError, InTheWayError, RoverError, explain, named_if_not_written
from rover_pipeline.format.discovery import locate_traces
from rover_pipeline.format.provenance import PROVENANCE, fingerprint, read_provenance, versions
from rover_pipeline.format.sensor import TS
from rover_pipeline.format.trace import CONFIG, is_trace
from rover_pipeline.format.virtual import VirtualWriter, in_the_way
from rover_pipeline.report.page import PAGE, REPORT, SUMMARY, environment
from rover_pipeline.report.summary import Summary, Verdict
from rover_pipeline.table import find_step

#: What makes the page, as provenance says.
STEP = "rover_pipeline.report.fleet"
VERSION = 1
FLEET = "fleet.json"
_RANK = {"bad": 0, "none": 1, "fair": 2, "good": 3}
#: Side of the square that a path is drawn in, and its margin.
_SIDE, _MARGIN = 44.0, 3.0


@dataclass(frozen=True)
class Row:
    """A recording on the page.

    Attributes:
        name: its path below the folder that was asked for.
        link: address of its page, relative to the fleet's; empty when it has none.
        summary: None when it has none that can be read, for the reason in `problem`.
    """

    name: str
    path: Path
    link: str
    summary: Summary | None
    problem: str = ""

    @property
    def verdict(self) -> Literal["bad", "fair", "good", "none"]:
        return self.summary.verdict if self.summary else "none"

    @property
    def rank(self) -> int:
        return _RANK[self.verdict]

    @property
    def errors(self) -> int:
        return self._count("error")

    @property
    def warnings(self) -> int:
        return self._count("warning")

    @property
    def lost(self) -> float:
        """Share of raw samples that are missing."""
        lost, there = self._raw("lost"), self._raw("samples")
        return lost / max(1, lost + there)

    @property
    def invalid(self) -> float:
        """Share of raw samples with `valid` = 0."""
        return self._raw("invalid") / max(1, self._raw("samples"))

    @property
    def sensors(self) -> list[str]:
        raw = self.summary.sensors if self.summary else ()
        return [each.name for each in raw if not each.name.startswith("_")]

    @property
    def path_svg(self) -> str:
        """The way it went as points of a polyline in a square of 44; empty without a trajectory."""
        motion = self.summary.motion if self.summary else None
        if motion is None or len(motion.path_m) < 2:
            return ""
        points = np.array(motion.path_m)
        points = points[np.unique(np.linspace(0, len(points) - 1, 60).round().astype(int))] * [1, -1]
        low, size = points.min(axis=0), max(float(np.ptp(points, axis=0).max()), 1e-3)
        scaled = (points - low - np.ptp(points, axis=0) / 2) / size * (_SIDE - 2 * _MARGIN) + _SIDE / 2
        return " ".join(f"{x:.1f},{y:.1f}" for x, y in scaled)

    def _count(self, severity: str) -> int:
        return sum(each.severity == severity for each in self.summary.findings) if self.summary else 0

    def _raw(self, figure: str) -> int:
        raw = self.summary.sensors if self.summary else ()
        return sum(int(getattr(each, figure)) for each in raw if not each.name.startswith("_"))


class FleetEntry(BaseModel):
    """One recording in `fleet.json`."""

    model_config = ConfigDict(frozen=True)

    trace: str = Field(description="Path of the trace.")
    verdict: Verdict | Literal["none"] = Field(description="As in `summary.json`; `none` without one.")
    headline: str = Field(description="The verdict in a sentence.")
    errors: int = Field(description="Findings that are errors.")
    warnings: int = Field(description="Findings that are warnings.")
    lost_share: float = Field(description="Share of raw samples that are missing.")
    invalid_share: float = Field(description="Share of raw samples with `valid` = 0.")
    duration_s: float = Field(description="Length of the recording, s; 0 without a summary.")
    page: str = Field(description="Address of its page, relative to this file; empty when it has none.")


def write_fleet(entries: Sequence[str], out: Path | None = None) -> tuple[Path, list[Row]]:
    """Make the page of traces, and of those in folders, after the pages of those that have none.

    Args:
        out: folder of the page; `_report` in the folder of traces that was given, unless given.

    Raises:
        ConfigError: no folder to write to was given, and none is obvious.
        InTheWayError: something that is not a page of many recordings stands there.
    """
    place = (out or _obvious(entries)).absolute()
    if problem := in_the_way(place):
        raise InTheWayError(problem)
    before = read_provenance(place)
    if before is not None and before.get("step") != STEP:
        raise InTheWayError(
            f"{place}: holds {before.get('sensor', 'a result')} of one recording; choose another folder"
        )
    named = _named(entries)
    rows = []
    with progress("report", len(named), unit="recording") as advance:
        for name, trace in named.items():
            problem = ""
            try:
                make_report(trace)
            except (RoverError, OSError) as error:
                problem = f"has no report, for it cannot be written: {error}"
            rows.append(read_row(trace, name, place, problem))
            advance(1)
    rows.sort(key=lambda row: (row.rank, -row.errors, -row.warnings, -(row.lost + row.invalid), row.name))
    with named_if_not_written(place), VirtualWriter(place) as writer:
        for name, content in fleet_files(rows).items():
            (writer.partial / name).write_bytes(content)
        found = {row.name: row.path / REPORT / SUMMARY for row in rows if row.summary}
        writer.commit(
            {
                "step": STEP,
                "version": VERSION,
                "inputs": {f"{name}/{REPORT}/{SUMMARY}": fingerprint(path) for name, path in found.items()},
                "packages": versions(),
            }
        )
    return place / PAGE, rows


def fleet_files(rows: Sequence[Row]) -> dict[str, bytes]:
    """The page and its figures, by file name."""
    html = (
        environment()
        .get_template("fleet.html")
        .render(
            rows=rows,
            tally={verdict: sum(row.verdict == verdict for row in rows) for verdict in _RANK},
            seconds=sum(row.summary.duration_s for row in rows if row.summary),
            raw_bytes=sum(row.summary.raw_bytes for row in rows if row.summary),
            metres=sum(row.summary.motion.distance_m for row in rows if row.summary and row.summary.motion),
        )
    )
    entries = [
        FleetEntry(
            trace=str(row.path),
            verdict=row.verdict,
            headline=row.summary.headline if row.summary else row.problem,
            errors=row.errors,
            warnings=row.warnings,
            lost_share=row.lost,
            invalid_share=row.invalid,
            duration_s=row.summary.duration_s if row.summary else 0.0,
            page=row.link,
        ).model_dump_json()
        for row in rows
    ]
    return {PAGE: html.encode(), FLEET: ("[\n" + ",\n".join(entries) + "\n]\n").encode()}


def make_report(trace: Path) -> Path:
    """The page of one trace, made when there is none or the trace has changed since; options stay what they were.

    A run of the workflow makes no page of a recording that one of its results stumbled over: here it gets one.

    Raises:
        RoverError: something of others is in the way, or nothing can be written there.
    """
    place = trace / REPORT
    before = read_provenance(place) or {}
    made = place / PROVENANCE
    if not (place / SUMMARY).exists() or any(path.stat().st_mtime > made.stat().st_mtime for path in _told(trace)):
        stamps = tuple(name for name in before.get("files", ()) if name.startswith("."))
        request = Request(before.get("options", {}))
        run_step(find_step("_report"), trace, REPORT, request, stamps=stamps)
    return place / PAGE


def _told(trace: Path) -> list[Path]:
    """Files that change whenever a sensor of a trace does, as far as they are there."""
    folders = [Path(entry.path) for entry in os.scandir(trace) if entry.is_dir() and entry.name != REPORT]
    names = {True: PROVENANCE, False: TS}
    found = [folder / names[folder.name.startswith("_")] for folder in folders]
    return [path for path in (trace / CONFIG, *found) if path.exists()]


def read_row(trace: Path, name: str, place: Path, problem: str = "") -> Row:
    """What the summary of a trace says, for a page in the folder `place`.

    Args:
        problem: why it has none, if it is known.
    """
    page, path = trace / REPORT / PAGE, trace / REPORT / SUMMARY
    link = quote(os.path.relpath(page, place)) if page.exists() else ""
    try:
        return Row(name, trace, link, Summary.model_validate_json(path.read_bytes()))
    except FileNotFoundError:
        return Row(name, trace, link, None, problem or "has no report")
    except ValidationError as error:
        return Row(name, trace, link, None, f"has a {SUMMARY} that cannot be read: {explain(error)}")
    except OSError as error:
        return Row(name, trace, link, None, f"has a {SUMMARY} that cannot be read: {error.strerror}")


def _named(entries: Sequence[str]) -> dict[str, Path]:
    """Traces by the name they have on the page: their paths from the folder that all lie in."""
    traces = [path.absolute() for path in locate_traces(list(entries), Path.cwd(), None)]
    common = Path(os.path.commonpath(traces)) if len(traces) > 1 else traces[0].parent
    return {str(trace.relative_to(common)): trace for trace in traces}


def _obvious(entries: Sequence[str]) -> Path:
    folder = Path(entries[0])
    if len(entries) == 1 and folder.is_dir() and not is_trace(folder):
        return folder / REPORT
    raise ConfigError("report: give a folder for the page with -o DIR; only one folder of traces has an obvious place")
