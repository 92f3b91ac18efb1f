"""The page of a recording: everything is read, judged, drawn and put into one file."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rover_pipeline import __version__
from rover_pipeline.format.trace import Trace, require_trace
from rover_pipeline.report import charts, findings, made, maps, motion, timing, words
from rover_pipeline.report.options import ReportOptions
from rover_pipeline.report.pictures import Picture, encoded, fitted
from rover_pipeline.report.recorded import Recorded, is_simulated, read_sensors, sidecar
from rover_pipeline.report.strip import Instant, strip
from rover_pipeline.report.summary import Summary
from rover_pipeline.validation.check import problems

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

#: Name of the folder that the page is published in.
REPORT = "_report"
PAGE, SUMMARY = "index.html", "summary.json"
_MAP = "_map"
#: Width of the picture of the map, pixels.
_MAP_WIDTH = 900


def report_files(path: Path, options: ReportOptions) -> dict[str, bytes]:
    """The page and the summary of a trace, by file name. The same trace gives the same bytes."""
    trace = Trace(require_trace(path))
    facts = gather(trace, options)
    html = environment().get_template("report.html").render(**_page(trace, facts, options))
    summary = facts.summary.model_dump_json(indent=1)
    return {PAGE: html.encode(), SUMMARY: f"{summary}\n".encode()}


@dataclass(frozen=True)
class Facts:
    """All that was read of a trace.

    Attributes:
        recorded: by sensor, raw ones first; shown: of these, what a timeline shows.
        span: first and last time of a raw sensor, s.
        provenances: by folder.
        residuals: sensor -> index and residual, see `timing.read_residuals`.
    """

    summary: Summary
    recorded: Mapping[str, Recorded]
    shown: Sequence[Recorded]
    span: tuple[float, float]
    provenances: Mapping[str, Mapping[str, Any]]
    track: motion.Track | None
    pose_speed: motion.Speed | None
    radar_speed: motion.Speed | None
    residuals: Mapping[str, tuple[np.ndarray, np.ndarray]]


def gather(trace: Trace, options: ReportOptions) -> Facts:
    """Read and judge a trace; nothing is drawn."""
    recorded = {each.name: each for each in read_sensors(trace)}
    raw = [each for each in recorded.values() if not each.virtual]
    derived = [each for each in recorded.values() if each.virtual and not each.simulated]
    timed = [each for each in raw if len(each.ts)] or [each for each in derived if len(each.ts)]
    span = (min(each.ts[0] for each in timed), max(each.ts[-1] for each in timed)) if timed else (0.0, 0.0)
    provenances = made.read_provenances(trace.path, without=REPORT)
    results = {name: content for name, content in provenances.items() if content.get("step") != "simulate"}

    track = motion.read_track(recorded.get("_odom"))
    pose_speed = motion.read_speed(recorded.get("_radar_pose"))
    if pose_speed is None and track is not None:
        pose_speed = motion.Speed(track.ts, track.speed)
    radar_speed = motion.read_speed(recorded.get("_radar_velocity"))
    residuals = timing.read_residuals(recorded.get("_sync"), results.get("_sync"))

    steps = made.describe(trace.path, results)
    folders = [step for step in steps if step.sensor not in recorded]
    truth = motion.read_track(recorded.get("_truth"))
    moved = motion.describe(track, truth) if track else None
    against = motion.radar_speed(sidecar(trace.path, "radar"), pose_speed, radar_speed) if "radar" in recorded else None
    sync = [timing.describe(name, *found, results.get("_sync")) for name, found in residuals.items()]
    known = findings.Known(
        raw=[each.summary for each in raw],
        virtual=[each.summary for each in derived],
        checked=_checked(trace, recorded.values()),
        mended={line for each in recorded.values() for line in each.mended},
        unused=_unused(raw, results),
        steps=steps,
        motion=moved,
        radar_speed=against,
        sync=sync,
    )
    found = findings.find(known, options)
    summary = Summary(
        trace=trace.name,
        verdict=findings.verdict(found),
        headline=findings.headline(found, known.raw, span[1] - span[0]),
        findings=tuple(found),
        start_s=span[0] if timed else None,
        duration_s=span[1] - span[0],
        raw_bytes=sum(each.summary.bytes for each in raw),
        derived_bytes=sum(each.summary.bytes for each in derived) + sum(step.bytes for step in folders),
        simulated=is_simulated(list(recorded.values())),
        sensors=tuple(each.summary for each in recorded.values()),
        motion=moved,
        radar_speed=against,
        sync=tuple(sync),
        steps=tuple(steps),
    )
    shown = [each for each in (*raw, *derived) if len(each.ts)]
    return Facts(summary, recorded, shown, span, results, track, pose_speed, radar_speed, residuals)


def _checked(trace: Trace, recorded: Iterable[Recorded]) -> list[str]:
    """What `check` finds without decoding every sample, but for what the page says by itself."""
    known = {line for each in recorded for line in (each.summary.error, *(() if each.virtual else each.cut))}
    lines = [line.replace(f"{trace.path}/", "") for line in problems(trace.path, decode=False)]
    return [line for line in lines if not line.startswith((f"{REPORT}:", f"{REPORT}/")) and line not in known]


def _unused(raw: Sequence[Recorded], results: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Lidar and radar, if nothing was made from the one while something was from other sensors."""
    used = {str(reference).partition("/")[0] for content in results.values() for reference in content.get("inputs", ())}
    candidates = [each.name for each in raw if each.name in ("lidar", "radar")]
    return [name for name in candidates if name not in used] if used else []


def _page(trace: Trace, facts: Facts, options: ReportOptions) -> dict[str, Any]:
    """What the template shows; a section whose part is empty does not appear."""
    summary, span = facts.summary, facts.span
    limit = summary.radar_speed.max_doppler_mps if summary.radar_speed else None
    source = "_radar_pose" if motion.read_speed(facts.recorded.get("_radar_pose")) else "_odom"
    plan = maps.read_floor_plan(trace.path / _MAP)
    sync = facts.recorded.get("_sync")
    return {
        "summary": summary,
        "raw": [each.summary for each in facts.recorded.values() if not each.virtual],
        "derived": [each.summary for each in facts.recorded.values() if each.virtual and not each.simulated],
        "folders": [step for step in summary.steps if step.sensor not in facts.recorded],
        "timeline": charts.timeline(facts.shown, span) if facts.shown else None,
        "jitter": charts.jitter(facts.shown, span),
        "path": charts.path(facts.track, plan) if facts.track else None,
        "speed": charts.speed(facts.pose_speed, facts.radar_speed, limit, span, source),
        "quality": charts.quality(facts.track.quality, facts.track, span) if facts.track else None,
        "residuals": charts.residuals(facts.residuals, sync.ts, span) if facts.residuals and sync else None,
        "above": _above(trace.path / _MAP / "bev.png"),
        "radar_estimate": facts.radar_speed is not None,
        "instants": strip(trace, facts.recorded, span[0], options),
        "packages": made.packages(facts.provenances),
        "measured": {name: made.measured(content) for name, content in facts.provenances.items()},
        "options": {name: content.get("options") or {} for name, content in facts.provenances.items()},
        "descriptions": {each.name: each.description for each in facts.track.quality} if facts.track else {},
    }


def _above(path: Path) -> Picture | None:
    """The map's own picture, made smaller; None when there is none."""
    import cv2

    try:
        data = path.read_bytes()
    except OSError:
        return None
    image = cv2.imdecode(np.frombuffer(data, "u1"), cv2.IMREAD_COLOR_RGB) if data else None
    return None if image is None else encoded(fitted(image, _MAP_WIDTH))


@functools.cache
def environment() -> Environment:
    """The templates, with the words that they use."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    from rover_pipeline.format.info import size_text

    found = Environment(
        loader=PackageLoader("rover_pipeline.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for function in (
        words.duration, words.percent, words.milliseconds, words.figure, words.instant, words.clock, words.count,
        words.ppm,
        words.offset,
        words.metres,
    ):  # fmt: skip
        found.filters[function.__name__] = function
    found.filters["size"] = size_text
    found.filters["code"] = _code
    found.filters["colour"] = charts.colour_of
    found.globals["version"] = __version__
    found.globals["include_raw"] = lambda name: Markup(_template_text(name))
    return found


def _code(text: str) -> Markup:
    """Text whose parts between backticks are code."""
    from markupsafe import Markup, escape

    parts = [
        Markup("<code>{}</code>").format(part) if i % 2 else escape(part) for i, part in enumerate(text.split("`"))
    ]
    return Markup("").join(parts)


@functools.cache
def _template_text(name: str) -> str:
    return (Path(__file__).parent / "templates" / name).read_text(encoding="utf-8")


__all__ = ["PAGE", "REPORT", "SUMMARY", "Instant", "environment", "gather", "report_files"]
