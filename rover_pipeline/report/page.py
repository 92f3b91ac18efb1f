"""The page of a recording: everything is read, checked, drawn and put into one file."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from rover_pipeline.draw.charts import path
from rover_pipeline.draw.pixels import colourise
from rover_pipeline.engine.parallel import Processes
from rover_pipeline.errors import one_line
from rover_pipeline.format.failures import read_failures
from rover_pipeline.format.files import STAMP
from rover_pipeline.format.provenance import is_source
from rover_pipeline.format.rig import Rig
from rover_pipeline.format.trace import Trace, require_trace
from rover_pipeline.options import PageOptions, ReportOptions
from rover_pipeline.report import findings, frames
from rover_pipeline.report.read import motion, processing, sensors
from rover_pipeline.report.read.contents import MountsFound, contradicted, look_into, read_mounts
from rover_pipeline.report.read.motion import read_floor_plan, read_map_view, read_view
from rover_pipeline.report.read.processing import exported_files, missing_outputs, used_channels
from rover_pipeline.report.read.sensors import is_simulated, read_sensors, read_sidecar
from rover_pipeline.report.summary import Summary
from rover_pipeline.report.templating import PAGE, REPORT, SUMMARY, environment
from rover_pipeline.validation.against import own_comparisons
from rover_pipeline.validation.check import problems
from rover_pipeline.validation.rig import section

_MAP = "_map"


def summarise(path: Path, options: PageOptions) -> Summary:
    """The figures of the page of a trace, and the verdict, without the page."""
    contents = Contents(Trace(require_trace(path)))
    return _summarise(contents, options, lambda: _check_lines(contents), lambda: read_mounts(contents.trace.path))


def report_files(path: Path, options: PageOptions, threads: int = 1) -> dict[str, bytes]:
    """The page and the summary of a trace, by file name. The same trace gives the same bytes. So many threads decode
    the samples which nobody has looked at; with more than one, processes test the mounts and draw pictures."""
    contents = Contents(Trace(require_trace(path)))
    begin, count, width = contents.span[0], options.instants, options.picture_width
    with closing(Processes(min(threads, 2))) as processes, ThreadPoolExecutor(1) as pool:
        # Before any thread starts, because the processes are forked.
        shown = processes.begin(partial(_show_mounts, width=width), contents.trace.path)
        draw = partial(frames.draw_instants, contents.trace, begin=begin, instants=count, width=width)
        instants = processes.begin(draw, contents.records)
        checked = pool.submit(_check_lines, contents, threads)  # what decodes leaves the interpreter to what draws
        drawn = _drawn(contents, options)
        summary = _summarise(contents, options, checked.result, lambda: shown()[0])
    max_doppler = summary.radar_speed.max_doppler_mps if summary.radar_speed else None
    drawn |= {
        "summary": summary,
        "overlays": shown()[1],
        "instants": instants(),
        "folders": [step for step in summary.steps if step.sensor not in contents.records],
        "speed": frames.speed(contents.pose_speed, contents.radar_speed, max_doppler, contents.span),
        "work_s": processing.working_seconds(summary.steps),
        "marks": findings.marks(summary.findings, summary.steps),
    }
    html = environment().get_template("report.html").render(**drawn)
    return {PAGE: html.encode("utf-8", "backslashreplace"), SUMMARY: f"{summary.model_dump_json(indent=1)}\n".encode()}


def _show_mounts(path: Path, width: int) -> tuple[MountsFound, list[frames.Frame]]:
    """What a recording shows of its mounts, and pictures of what follows from them. Both need the same trajectory."""
    return read_mounts(path), frames.draw_overlays(Trace(path), width)


class Contents:
    """What is read from a trace."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        rig = Rig(trace.path)
        self.radar, self.lidar = rig.main("radar"), rig.main("lidar")
        self.records = {record.name: record for record in read_sensors(trace)}
        records, get = self.records.values(), self.records.get
        self.raw = [record for record in records if not record.virtual]
        given = {each.name for each in records if each.ground_truth or each.name == "_reference"}
        self.derived = [record for record in records if record.virtual and record.name not in given]
        timed = ([each for each in found if len(each.ts)] for found in (self.raw, self.derived, records))
        #: the sensors with time stamps: raw ones, or else virtual ones, or else a reference.
        self.timed = next(filter(None, timed), [])
        first, last = [each.ts[0] for each in self.timed], [each.ts[-1] for each in self.timed]
        self.span = (min(first, default=0.0), max(last, default=0.0))  #: first and last of these time stamps, s.
        provenances = processing.read_provenances(trace.path, without=REPORT)
        self.provenances = {name: each for name, each in provenances.items() if not is_source(each)}  #: by folder.
        self.reference = motion.read_track(get("_reference"))
        self.track = motion.read_track(get("_odom")) or self.reference
        #: speed of the radar by its poses, or else by the track, and by its own Doppler measurements.
        self.pose_speed = motion.read_speed(get(f"_{self.radar}_pose")) or self.track
        self.radar_speed = motion.read_speed(get(f"_{self.radar}_velocity"))
        self.clocks = section(self.provenances.get("_sync"), "measured")
        self.residuals = sensors.read_residuals(get("_sync"), self.clocks)


def _summarise(
    contents: Contents, options: PageOptions, checked: Callable[[], list[str]], found: Callable[[], MountsFound]
) -> Summary:
    """Judge a trace; `checked` gives what `check` finds, and `found` what the recording shows of the mounts."""
    trace, records, (begin, end) = contents.trace, contents.records, contents.span
    steps = processing.summarise_steps(trace.path, contents.provenances)
    radar_speed, sidecar = None, read_sidecar(trace.path, contents.radar) if contents.radar in records else {}
    if sidecar:
        radar_speed = motion.compare_radar_speed(sidecar, contents.pose_speed, contents.radar_speed)
    compared, (mounts, wrong, tested) = list(own_comparisons(trace.path)), found()
    there = [name for name, each in records.items() if each.virtual or each.summary.samples or each.summary.error]
    evidence = findings.Evidence(
        raw=[record.summary for record in contents.raw],
        virtual=[record.summary for record in contents.derived],
        trace=one_line(trace.name),
        checked=checked(),
        repaired={line for record in records.values() for line in record.repaired},
        missing=missing_outputs(trace.path, there, contents.provenances, options.outputs),
        explained=_explained(contents),
        steps=steps,
        radar_speed=radar_speed,
        sync=[sensors.summarise_sync(name, each, contents.clocks) for name, each in contents.residuals.items()],
        failed={
            each.output: each.reason.replace(f"{trace.path.absolute()}/", "").replace(f"{trace.path}/", "")
            for each in read_failures(trace.path)
            if each.output != REPORT
        },
        remarks=[*look_into(trace, records, [each.name for each in contents.derived]), *contradicted(compared)],
        reference=contents.reference is not None,
        radar=contents.radar,
        lidar=contents.lidar,
        mounts=wrong,
        one_chirp=isinstance(shape := sidecar.get("shape"), list) and shape[:1] == [1],
    )
    sorted_findings = findings.find(evidence, options)
    truth, track = motion.read_track(records.get("_truth")), contents.track
    of_odom = {Path(each.against).name: each.accuracy for each in compared if each.sensor == "_odom" and each.accuracy}
    rms = of_odom["_reference"].ate_m if "_reference" in of_odom else None
    return Summary(
        trace=one_line(trace.name),
        verdict=findings.verdict(sorted_findings),
        headline=findings.headline(sorted_findings, evidence.raw, end - begin),
        findings=tuple(sorted_findings),
        start_s=begin if contents.timed else None,
        duration_s=end - begin,
        raw_bytes=sum(sensor.bytes for sensor in evidence.raw),
        derived_bytes=sum(sensor.bytes for sensor in evidence.virtual)
        + sum(step.bytes for step in steps if step.sensor not in records),
        simulated=is_simulated(records.values()),
        sensors=tuple(record.summary for record in records.values()),
        motion=motion.summarise_track(track, truth, rms) if track else None,
        radar_speed=radar_speed,
        sync=tuple(evidence.sync),
        mounts=tuple(mounts),
        tested=tested,
        steps=tuple(steps),
    )


def _check_lines(contents: Contents, threads: int = 1) -> list[str]:
    """What `check` finds, except for what the page says in its own words. Samples of raw sensors that no result was
    made from are decoded here: nobody else has looked at them."""
    trace, used, records = contents.trace, used_channels(contents.provenances), contents.records.values()
    known = {line for each in records for line in (each.summary.error, *(() if each.virtual else each.truncated))}
    found = problems(trace.path, threads, decode=lambda each: not each.startswith("_") and each not in used)
    # Snakemake removes the stamp of a job that it starts, and the job puts it back.
    found = (line for line in found if f"/{STAMP}" not in line)
    lines = [line.replace(f"{trace.path}/", "").removeprefix(f"{trace.path}: ") for line in found]
    return [line for line in lines if not line.startswith((f"{REPORT}:", f"{REPORT}/")) and line not in known]


def _explained(contents: Contents) -> dict[str, tuple[int, int]]:
    """Of each result, the invalid samples that follow from others: samples that a raw sensor of the same times, or a
    result that it is made from, already marks, and poses between poses of the odometry of which one is not valid; and
    of the others those of poses before the first or after the last valid one."""
    odom = contents.records.get("_odom")
    found = {}
    for each in contents.derived:
        bad = each.valid == 0
        inherited = np.zeros_like(bad)
        made_from = {str(name).partition("/")[0] for name in contents.provenances.get(each.name, {}).get("inputs", ())}
        for source in contents.records.values():
            is_source = not source.virtual or source.name in made_from
            if is_source and source is not each and np.array_equal(source.ts, each.ts):
                inherited |= bad & (source.valid == 0)
        outside = np.zeros_like(bad)
        if odom is not None and len(odom.ts) and each.name.endswith("_pose"):
            known = odom.ts[odom.valid != 0]
            if len(known):
                outside = bad & ~inherited & ((each.ts < known[0]) | (each.ts > known[-1]))
            after = np.clip(np.searchsorted(odom.ts, each.ts), 1, max(1, len(odom.ts) - 1)).clip(max=len(odom.ts) - 1)
            inherited |= bad & ~outside & ((odom.valid[after] == 0) | (odom.valid[np.maximum(after - 1, 0)] == 0))
        found[each.name] = int(inherited.sum()), int(outside.sum())
    return found


def _drawn(contents: Contents, options: ReportOptions) -> dict[str, Any]:
    """What the template shows without the summary. It leaves out sections and charts without content."""
    trace, span, track = contents.trace, contents.span, contents.track
    shown = [record for record in (*contents.raw, *contents.derived) if len(record.ts)] or contents.timed
    sync_ts = contents.records["_sync"].ts if contents.residuals else None
    provenances, plan = contents.provenances, read_floor_plan(trace.path / _MAP)
    return {
        "raw": [record.summary for record in contents.raw],
        "derived": [record.summary for record in contents.derived],
        "timeline": frames.timeline(shown, span) if shown else None,
        "jitter": frames.jitter(shown, span),
        "path": path(track.ts, track.pos[:, :2], track.valid, plan) if track and track.known else None,
        "quality": frames.quality(track, span) if track else None,
        "residuals": frames.residuals(contents.residuals, sync_ts, span) if sync_ts is not None else None,
        "above": read_map_view(trace.path / _MAP),
        "view": read_view(trace.path / _MAP, track),
        # Without the darkest ends of the scale, which cannot be seen on the dark ground.
        "height_colours": colourise(np.linspace(0.1, 0.9, 9), 0, 1, "height").tolist(),
        "reference": contents.clocks.get("reference"),
        "radar_estimate": contents.radar_speed is not None,
        "exported": exported_files(trace.path, trace.path / REPORT),
        "packages": processing.package_versions(provenances),
        "measured": {name: processing.measured_texts(content) for name, content in provenances.items()},
        "options": {name: content.get("options") or {} for name, content in provenances.items()},
        "descriptions": {channel.name: channel.description for channel in track.quality} if track else {},
    }
