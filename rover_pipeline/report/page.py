"""The page of a recording: everything is read, judged, drawn and put into one file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rover_pipeline.format.trace import Trace, require_trace
from rover_pipeline.options import ReportOptions
from rover_pipeline.report import findings
from rover_pipeline.report.draw import charts
from rover_pipeline.report.draw.frames import draw_instants
from rover_pipeline.report.draw.maps import read_floor_plan, read_map_view
from rover_pipeline.report.read import motion, processing, sync
from rover_pipeline.report.read.sensors import SensorRecord, is_simulated, read_sensors, read_sidecar
from rover_pipeline.report.summary import Summary
from rover_pipeline.report.templating import PAGE, REPORT, SUMMARY, environment
from rover_pipeline.validation.check import problems

_MAP = "_map"


def report_files(path: Path, options: ReportOptions) -> dict[str, bytes]:
    """The page and the summary of a trace, by file name. The same trace gives the same bytes."""
    trace = Trace(require_trace(path))
    contents = read_contents(trace, options)
    html = environment().get_template("report.html").render(**_template_values(trace, contents, options))
    summary = contents.summary.model_dump_json(indent=1)
    return {PAGE: html.encode(), SUMMARY: f"{summary}\n".encode()}


@dataclass(frozen=True)
class Contents:
    """What was read from a trace and computed from it.

    Attributes:
        raw: all raw sensors; derived: all virtual sensors but the ground truth of a simulator.
        span: first and last time of a raw sensor, s.
        provenances: of the results, by folder.
        pose_speed: speed of the radar according to `pose_source`, the sensor with its poses.
        radar_speed: speed of the radar according to its own Doppler measurements.
    """

    summary: Summary
    records: Mapping[str, SensorRecord]
    raw: Sequence[SensorRecord]
    derived: Sequence[SensorRecord]
    span: tuple[float, float]
    provenances: Mapping[str, Mapping[str, Any]]
    track: motion.Track | None
    pose_speed: motion.SpeedCurve | None
    pose_source: str
    radar_speed: motion.SpeedCurve | None
    residuals: Mapping[str, sync.Residuals]


def read_contents(trace: Trace, options: ReportOptions) -> Contents:
    """Read and judge a trace, without drawing anything."""
    records = {record.name: record for record in read_sensors(trace)}
    raw = [record for record in records.values() if not record.virtual]
    derived = [record for record in records.values() if record.virtual and not record.ground_truth]
    timed = [record for record in raw if len(record.ts)] or [record for record in derived if len(record.ts)]
    span = (min(record.ts[0] for record in timed), max(record.ts[-1] for record in timed)) if timed else (0.0, 0.0)
    provenances = {
        name: content
        for name, content in processing.read_provenances(trace.path, without=REPORT).items()
        if content.get("step") != "simulate"
    }

    track = motion.read_track(records.get("_odom"))
    pose_speed, pose_source = motion.read_speed(records.get("_radar_pose")), "_radar_pose"
    if pose_speed is None:
        pose_speed, pose_source = track, "_odom"
    measured_speed = motion.read_speed(records.get("_radar_velocity"))
    sync_measured = processing.measured_values(provenances.get("_sync", {}))
    residuals = sync.read_residuals(records.get("_sync"), sync_measured)

    steps = processing.summarise_steps(trace.path, provenances)
    moved = motion.summarise_track(track, motion.read_track(records.get("_truth"))) if track else None
    sidecar = read_sidecar(trace.path, "radar")
    radar_speed = motion.compare_radar_speed(sidecar, pose_speed, measured_speed) if "radar" in records else None
    sync_summaries = [sync.summarise_sync(name, each, sync_measured) for name, each in residuals.items()]
    evidence = findings.Evidence(
        raw=[record.summary for record in raw],
        virtual=[record.summary for record in derived],
        checked=_check_lines(trace, records.values()),
        repaired={line for record in records.values() for line in record.repaired},
        unused=_unused_sensors(raw, provenances),
        steps=steps,
        radar_speed=radar_speed,
        sync=sync_summaries,
    )
    found = findings.find(evidence, options)
    summary = Summary(
        trace=trace.name,
        verdict=findings.verdict(found),
        headline=findings.headline(found, evidence.raw, span[1] - span[0]),
        findings=tuple(found),
        start_s=span[0] if timed else None,
        duration_s=span[1] - span[0],
        raw_bytes=sum(record.summary.bytes for record in raw),
        derived_bytes=sum(record.summary.bytes for record in derived)
        + sum(step.bytes for step in steps if step.sensor not in records),
        simulated=is_simulated(records.values()),
        sensors=tuple(record.summary for record in records.values()),
        motion=moved,
        radar_speed=radar_speed,
        sync=tuple(sync_summaries),
        steps=tuple(steps),
    )
    return Contents(
        summary, records, raw, derived, span, provenances, track, pose_speed, pose_source, measured_speed, residuals
    )


def _check_lines(trace: Trace, records: Iterable[SensorRecord]) -> list[str]:
    """What `check` finds without decoding every sample, except for what the page tells in its own words."""
    known = {line for each in records for line in (each.summary.error, *(() if each.virtual else each.truncated))}
    lines = [line.replace(f"{trace.path}/", "") for line in problems(trace.path, decode=False)]
    return [line for line in lines if not line.startswith((f"{REPORT}:", f"{REPORT}/")) and line not in known]


def _unused_sensors(raw: Sequence[SensorRecord], provenances: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Lidar and radar without any result, if another sensor has results."""
    inputs = [str(reference) for content in provenances.values() for reference in content.get("inputs", ())]
    used = {reference.partition("/")[0] for reference in inputs}
    return [each.name for each in raw if each.name in ("lidar", "radar") and each.name not in used] if used else []


def _template_values(trace: Trace, contents: Contents, options: ReportOptions) -> dict[str, Any]:
    """What the template shows. It leaves out sections and charts without content."""
    summary, span, track = contents.summary, contents.span, contents.track
    max_doppler = summary.radar_speed.max_doppler_mps if summary.radar_speed else None
    shown = [record for record in (*contents.raw, *contents.derived) if len(record.ts)]
    sync_ts = contents.records["_sync"].ts if contents.residuals else None
    provenances = contents.provenances
    return {
        "summary": summary,
        "raw": [record.summary for record in contents.raw],
        "derived": [record.summary for record in contents.derived],
        "folders": [step for step in summary.steps if step.sensor not in contents.records],
        "timeline": charts.timeline(shown, span) if shown else None,
        "jitter": charts.jitter(shown, span),
        "path": charts.path(track, read_floor_plan(trace.path / _MAP)) if track else None,
        "speed": charts.speed(contents.pose_speed, contents.radar_speed, max_doppler, span, contents.pose_source),
        "quality": charts.quality(track, span) if track else None,
        "residuals": charts.residuals(contents.residuals, sync_ts, span) if sync_ts is not None else None,
        "above": read_map_view(trace.path / _MAP),
        "radar_estimate": contents.radar_speed is not None,
        "instants": draw_instants(trace, contents.records, span[0], options.instants, options.picture_width),
        "packages": processing.package_versions(provenances),
        "measured": {name: processing.measured_texts(content) for name, content in provenances.items()},
        "options": {name: content.get("options") or {} for name, content in provenances.items()},
        "descriptions": {channel.name: channel.description for channel in track.quality} if track else {},
    }
