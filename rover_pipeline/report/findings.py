"""What is wrong with a recording, worst first, and the verdict in one sentence."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from rover_pipeline.clocks.tuning import TUNING as CLOCKS
from rover_pipeline.draw.formatting import count as counted
from rover_pipeline.draw.formatting import duration, join, percent
from rover_pipeline.options import ReportOptions
from rover_pipeline.report.summary import (
    Finding,
    RadarSpeed,
    SensorSummary,
    Severity,
    StepSummary,
    SyncSummary,
    Verdict,
    finding,
)
from rover_pipeline.report.tuning import TUNING
from rover_pipeline.validation.accuracy import MIN_ALIGNED

#: Layout.
_ORDER: dict[Severity, int] = {"error": 0, "warning": 1, "note": 2}
#: A line that begins with a sensor or with a file of a sensor.
_LOCATED = re.compile(r"([\w.-]+(?:/[\w.-]+)*): (.+)", re.DOTALL)
#: What `check` says of a sample that cannot be decoded.
_UNDECODABLE = re.compile(r"sample \d+ at byte \d+: ")
#: What a step says of poses that all are at times that the odometry does not cover.
_NO_POSE = "all poses are NaN"
#: What the odometry says of its invalid poses, which the page counts itself.
_UNTRUSTED = "not to be trusted"


class Evidence(NamedTuple):
    """Everything that the verdict is based on."""

    trace: str  #: name of the recording's folder, for commands.
    raw: Sequence[SensorSummary]
    virtual: Sequence[SensorSummary]
    checked: Sequence[str]  #: lines of `check`.
    repaired: Collection[str]  #: those of them about damage that the reader can repair.
    missing: Mapping[str, Collection[str]]  #: outputs that were asked for and are not there -> what they are made from.
    #: result -> its samples that follow from others: those that the raw sensor or, of poses, the odometry marks as not
    #: valid, and those of poses before the first and after the last valid one of the odometry.
    explained: Mapping[str, tuple[int, int]]
    steps: Sequence[StepSummary]
    radar_speed: RadarSpeed | None
    sync: Sequence[SyncSummary]
    failed: Mapping[str, str]  #: outputs that were asked for and not made -> why.
    remarks: Sequence[Finding]  #: what a look at a few samples of the raw sensors found.
    reference: bool  #: whether a path came with the recording.
    radar: str  #: name of the main one, as is the lidar's.
    lidar: str
    one_chirp: bool  #: whether a frame of the radar is a single chirp, which measures no velocity.
    mounts: Sequence[tuple[str, str]]  #: sensors whose mount is not what `rig` says, and by how much.

    @property
    def empty(self) -> set[str]:
        """Raw sensors without samples."""
        return {each.name for each in self.raw if not each.samples and not each.error}


def find(evidence: Evidence, options: ReportOptions) -> list[Finding]:
    """All findings without repetitions, worst first; equally bad ones in the order of the page."""
    findings = [
        *_check_findings(evidence),
        *_missing(evidence),
        *_start_and_end(evidence, options),
        *(each for sensor in evidence.raw for each in _raw_sensor(evidence.trace, sensor, options)),
        *evidence.remarks,
        *_results(evidence, options),
    ]
    unique = list({(each.place, each.text): each for each in findings}.values())
    return sorted(unique, key=lambda each: _ORDER[each.severity])


def verdict(findings: Sequence[Finding]) -> Verdict:
    """The worst of the findings as one word."""
    severities = {each.severity for each in findings}
    return "bad" if "error" in severities else "fair" if "warning" in severities else "good"


def marks(sorted_findings: Sequence[Finding], steps: Sequence[StepSummary]) -> dict[str, Verdict]:
    """Places, their sensors, and `PLACE FIGURE` -> the verdict about each; what no finding is about is good. A result
    without a valid sample has to be looked at, whatever it follows from."""
    found: dict[str, Verdict] = {}
    doubts: dict[str, Verdict] = {
        each.sensor: "fair" for each in steps if each.left_out or 0 < each.samples == each.invalid
    }
    for each in sorted_findings:
        for place in (each.place, _sensor(each.place), *([f"{each.place} {each.figure}"] if each.figure else [])):
            found.setdefault(place, verdict([each]))
    return found | {name: mark for name, mark in doubts.items() if found.get(name) != "bad"}


def headline(findings: Sequence[Finding], raw: Sequence[SensorSummary], seconds: float) -> str:
    """The verdict as one sentence. A recording without raw sensors is a reference path."""
    errors = [each for each in findings if each.severity == "error"]
    warnings = [each for each in findings if each.severity == "warning"]
    places = join([_sensor(each.place) for each in errors or warnings])
    if errors:
        return f"Something is missing or cannot be used: look at {places}."
    if warnings:
        return f"Usable, with {counted(len(warnings), 'warning')} about {places}."
    what = counted(len(raw), "sensor") if raw else "a reference path"
    return f"Complete: {what} for {duration(seconds)}, and nothing wrong was found."


def _check_findings(evidence: Evidence) -> Iterator[Finding]:
    """What `check` says. Damaged raw sensors are errors; results are not, because they can be computed again."""
    undecodable: dict[str, list[str]] = {}
    for line in evidence.checked:
        place, text = _split(line, "trace")
        if _sensor(place) in evidence.empty:
            continue  # said once, of the sensor
        if place.startswith("_"):
            remedy = f"rover-pipeline run {evidence.trace} --outputs {_sensor(place)[1:]}"
            yield finding("warning", place, text, f"Make it again: {remedy}")
        elif _UNDECODABLE.match(text) and not place.endswith("/ts"):
            undecodable.setdefault(place, []).append(text)
        else:
            yield finding("warning" if line in evidence.repaired else "error", place, text)
    for place, texts in undecodable.items():
        more = f", and {counted(len(texts) - 1, 'more sample')} like it" if len(texts) > 1 else ""
        remedy = f"rover-pipeline run {evidence.trace} --config input='{{mark_corrupt: true}}'"
        yield finding("error", place, f"{texts[0]}{more}", f"To keep all other samples: {remedy}")


def _missing(evidence: Evidence) -> Iterator[Finding]:
    """Outputs that are not there, or were not made again, each with those that need it."""
    damaged = {_sensor(_split(line, "")[0]) for line in evidence.checked if line not in evidence.repaired}
    damaged |= {each.name for each in evidence.raw if each.error or not each.samples or each.whole < each.samples}
    roots: dict[str, list[str]] = {}
    for name in evidence.missing:
        first = next((root for root in roots if root in evidence.missing[name]), None)
        if first is None or name in evidence.failed:
            roots[name] = []
        else:
            roots[first].append(name)
    for name, others in roots.items():
        also = f", nor {join(others)}, which need{'s' if len(others) == 1 else ''} it" if others else ""
        causes = [each for each in sorted(evidence.missing[name]) if each in damaged and not each.startswith("_")]
        why = f"; {join(causes)} {'is' if len(causes) == 1 else 'are'} damaged, see there" if causes else ""
        if name in evidence.failed:
            why = f": {evidence.failed[name]}"
        command = f"rover-pipeline run {evidence.trace} --outputs {name[1:]}"
        advice = "" if name in evidence.failed else f"This makes it, or says why not: {command}"
        yield finding("error", name, f"was not made{also}{why}", advice)
    for name, reason in evidence.failed.items():
        if name not in roots:
            again = " again" if name in [each.sensor for each in evidence.steps] else ""
            yield finding("error", name, f"was not made{again}: {reason}")


def _sensor(place: str) -> str:
    return place.partition("/")[0]


def _split(line: str, otherwise: str) -> tuple[str, str]:
    """The parts of `place: text`; the place is `otherwise` if a line does not begin with one."""
    match = _LOCATED.match(line)
    return (match[1], match[2]) if match else (otherwise, line)


def _start_and_end(evidence: Evidence, options: ReportOptions) -> Iterator[Finding]:
    """Sensors that start later or end earlier than the others."""
    raw = evidence.raw
    if not raw:
        only = " but a path that came with it: there is nothing to make results of" if evidence.reference else ""
        yield finding("note" if evidence.reference else "error", "trace", f"holds no raw sensor{only}")
    if evidence.one_chirp:
        text = "sends one chirp a frame, which measures how far targets are and not how fast"
        yield finding("note", evidence.radar, text)
    running = [each for each in raw if each.start_s is not None]
    for each in running:
        late = (each.start_s or 0.0) - min(other.start_s or 0.0 for other in running)
        early = max(other.end_s or 0.0 for other in running) - (each.end_s or 0.0)
        if late > options.max_late_s:
            yield finding("warning", each.name, f"starts {duration(late)} after the first sensor")
        if early > options.max_late_s:
            advice = "Look for a lost connection or a full disk."
            yield finding("error", each.name, f"ends {duration(early)} before the recording does", advice)


def _raw_sensor(trace: str, sensor: SensorSummary, options: ReportOptions) -> Iterator[Finding]:
    """Whether the sensor can be read, is complete, valid and as fast as it was configured."""
    if sensor.error:
        yield finding("error", sensor.name, f"cannot be read: {sensor.error}")
        return
    if not sensor.samples:
        yield finding("error", sensor.name, "holds no samples")
        return
    if sensor.whole < sensor.samples:
        shortest = min(sensor.channels, key=lambda channel: channel.samples)
        text = f"was cut off: {shortest.name} has {sensor.whole:,} of {counted(sensor.samples, 'sample')}"
        remedy = f"rover-pipeline run {trace} --config input='{{truncate: true}}'"
        yield finding("error", sensor.name, text, f"To use the samples that are whole: {remedy}", figure="samples")
    share = sensor.lost / (sensor.samples + sensor.lost)
    lost = f"lost {counted(sensor.lost, 'sample')} ({percent(share)}) in {counted(sensor.gaps, 'gap')}"
    if sensor.longest_gap_s > options.max_gap_s:
        silent = f"is silent for {duration(sensor.longest_gap_s)}; {lost}"
        yield finding("error", sensor.name, silent, figure="longest_gap_s")
    elif sensor.lost:
        yield finding("warning" if share > options.max_lost_share else "note", sensor.name, lost, figure="lost")
    if sensor.invalid:
        share = sensor.invalid / sensor.samples
        text = f"has {sensor.invalid:,} of {counted(sensor.samples, 'sample')} not valid ({percent(share)})"
        above: Severity = "error" if share > TUNING.max_invalid_share else "warning"
        yield finding(above if share > options.max_invalid_share else "note", sensor.name, text, figure="invalid")
    if sensor.clock_ppm is not None and abs(sensor.clock_ppm) > 1e6 * options.max_rate_error:
        text = f"runs at {sensor.rate_hz:.2f} Hz where config.yaml asks for {sensor.nominal_hz:.2f} Hz"
        advice = "Samples may have been lost evenly, or the configuration is another recording's."
        yield finding("warning", sensor.name, text, advice, figure="rate_hz")


def _results(evidence: Evidence, options: ReportOptions) -> Iterator[Finding]:
    """What the steps noticed, and results with many invalid samples."""
    sweeps = next((each.samples for each in evidence.raw if each.name == evidence.lidar), 0)
    is_short = sweeps <= MIN_ALIGNED  # they agree with any path
    lost = next((each.invalid == each.samples for each in evidence.virtual if each.name == "_odom"), False)
    for step in evidence.steps:
        if step.left_out:
            # Without a valid pose there is no map, which the finding about the odometry says.
            yield finding("note" if is_short or lost else "error", step.sensor, f"is left out: {step.left_out}")
        for note in step.notes:
            place, text = _split(note, step.sensor)
            if text.startswith(tuple(f"{name}/" for name in evidence.empty)) or _UNTRUSTED in text:
                continue  # other findings say so
            inherited, outside = evidence.explained.get(step.sensor, (0, 0))
            if _NO_POSE in text and outside + inherited == step.samples:
                continue  # the finding about these samples says why
            # A remark about a file reports damage, however short the recording is.
            few = "/" not in place and any(
                each.name == _sensor(place) and each.samples < CLOCKS.rate_window for each in evidence.raw
            )
            yield finding("note" if few else "warning", place, text)
        if step.corrupt:
            text = f"{counted(step.corrupt, 'sample')} of its input cannot be decoded, or was not measured as a whole"
            yield finding("error", step.sensor, text, "`check` names those that cannot be decoded.")
        if step.dropped:
            text = f"{counted(step.dropped, 'sample')} of its input left out: not all channels have them"
            yield finding("warning", step.sensor, text)
    for sensor in evidence.virtual:
        if sensor.error:
            yield finding("error", sensor.name, f"cannot be read: {sensor.error}")
            continue
        inherited, outside = evidence.explained.get(sensor.name, (0, 0))
        own, others = sensor.invalid - inherited - outside, sensor.samples - inherited - outside
        share = own / max(1, others)
        if outside:
            text = f"{counted(outside, 'sample')} before the first or after the last pose: none is known there"
            yield finding("note", sensor.name, text)
        if evidence.one_chirp and sensor.name == f"_{evidence.radar}_velocity":
            continue
        if share > options.max_invalid_share:
            text = f"has {own:,} of {counted(others, 'sample')} not to be trusted ({percent(share)})"
            path = sensor.name == "_odom"
            useless = (path and share > TUNING.max_invalid_share) or own == sensor.samples > MIN_ALIGNED
            if path and useless and is_short:
                text = f"{text}: {counted(sweeps, 'sweep is', 'sweeps are')} too few for a trajectory"
                yield finding("note", sensor.name, text, figure="invalid")
            else:
                advice = 'The figures below, under "How good is the path?", show why.' if path else ""
                yield finding("error" if useless else "warning", sensor.name, text, advice, figure="invalid")
    speed = evidence.radar_speed
    if speed and speed.above_share:
        yield finding(
            "warning" if speed.above_share > options.max_invalid_share else "note",
            evidence.radar,
            f"is faster than its maximum Doppler, {speed.max_doppler_mps:.2f} m/s, for "
            f"{percent(speed.above_share)} of the time: what stands still ahead has a wrong speed in its spectra",
            figure="above_share",
        )
    if speed and speed.contradicted_mps and (speed.contradicted_share or 0.0) > options.max_invalid_share:
        ours, radars = speed.contradicted_mps
        moves = f"moves at {ours:.1f} m/s" if round(ours, 1) else "stands still"
        for_share = percent(speed.contradicted_share or 0.0)
        yield finding(
            "warning",
            "_odom",
            f"{moves} while the radar sees {radars:.1f} m/s, for {for_share} of the time",
            "One of them is wrong: look for smoke, dust, a tunnel or a crowd that moves along; `_radar_odom` does not "
            "need the lidar.",
        )
    for name, text in evidence.mounts:
        command = f"`rover-pipeline calibrate rig {evidence.trace} -o rig.yaml`"
        advice = f"{command} measures it; see first that the trajectory is right."
        yield finding("warning", name, text, advice)
    for each in evidence.sync:
        share = each.missing / max(1, each.matched + each.missing)
        if share > options.max_invalid_share:
            text = f"has no sample near in time for {percent(share)} of the reference's"
            yield finding("warning", f"_sync/{each.sensor}", text, figure="missing")
