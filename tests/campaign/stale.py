"""`python -m tests.campaign stale [--count N] [--preset car]`: whether anything still shows what is not true any more.

A recording has virtual sensors, a page and exports. Then one file is changed: a channel, a sidecar, `config.yaml`, a
channel of a result, or the options that the recording remembers. Bytes are flipped, cut off or added, with a time of
last change that is later, earlier or, where the size differs, the same. Afterwards the workflow has to make again what
was made from the file, the page has to be written again and to name it, and `synced` and every export that reads what
was made from it have to refuse in one line. What does not depend on the file has to be as it was.

Not tried is a file of the same size and the same time: that nobody can see without reading every byte, as `check` does
for the first, the last and 14 more blocks of each file.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import rover_pipeline as rp
from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.engine.instances import instances
from rover_pipeline.errors import RoverError
from rover_pipeline.export import ExportOptions, export
from rover_pipeline.format.failures import MEMORY, write_memory
from rover_pipeline.format.provenance import PROVENANCE
from rover_pipeline.format.rig import Rig
from rover_pipeline.report.fleet import make_report, write_fleet
from rover_pipeline.report.templating import SUMMARY
from rover_pipeline.simulate.record import simulate
from rover_pipeline.table import TABLE, find_step
from rover_pipeline.workflow.flow import Flow
from rover_pipeline.workflow.needs import untrue
from tests.kit import small_trace, write_odometry

MADE = (
    *("_lidar_image", "_lidar_points", "_radar_range_doppler", "_radar_range_azimuth", "_radar_points", "_sync"),
    *("_radar_pose", "_camera_pose", "_imu_pose", "_camera_frames", "_imu_filtered", "_bev"),
)
#: Reads -> how it is shown or handed on.
EXPORTS = {"_camera_pose": "tum", "_radar_pose": "kitti-poses", "_lidar_points": "ply"}
SYNCED = ("_lidar_image", "_radar_points")
#: Made besides of a rig with several sensors of a kind, in this order, with their options.
OF_RIGS: dict[str, dict[str, Any]] = {
    **{"_lidar_image": {}, "_odom": {}, "_map": {}, "_lidar_points": {"compensate": True}, "_bev": {}},
    **{"_radar_points": {}, "_radar_velocity": {}, "_imu_filtered": {}, "_radar_odom": {}},
}
STAMP = ".options-0"
#: Option that a recording may come to remember -> results that it changes.
OPTIONS = {
    ("radar.range_doppler.range_window", "none"): {"_radar_range_doppler"},
    ("sync.tolerance", 0.01): {"_sync"},
    ("odometry.world", "gravity"): {"_odom"},
}
_DAY_NS = 86_400 * 10**9


class Case(NamedTuple):
    """A change: of a file of the recording, or, where `kind` is the name of an option, of what it remembers."""

    file: str
    kind: str
    time: str


class Laboratory:
    """A recording with results, and what each was made from, by the provenance of before the change."""

    def __init__(self, folder: Path, preset: str = "") -> None:
        self.trace, made = folder / "base", {**OF_RIGS} if preset else {}
        if preset:
            simulate(self.trace, preset=preset, seed=0, duration=1.6)
            for truth in self.trace.glob("_truth*"):
                shutil.rmtree(truth)
        else:
            small_trace(self.trace, 12, sensors=("lidar", "radar", "camera", "imu"), invalid={})
            (self.trace / "camera/camera.json").write_text(json.dumps({"fx": 20.0, "fy": 20.0, "cx": 12.0, "cy": 8.0}))
            write_odometry(self.trace)
        rig, made = Rig(self.trace), {**made, **{name: made.get(name, {}) for name in MADE}}
        self.steps = {name: find_step(product) for product in made for name in instances(product, rig)}
        for name, step in self.steps.items():
            run_step(step, self.trace, name, Request(options=made[step.sensor]), stamps=(STAMP,))
        #: Sensors that are exported -> the format, and those that `synced` gives: of each type the last one.
        self.shown = {instances(name, rig)[-1]: how for name, how in EXPORTS.items()}
        self.synced = tuple(instances(name, rig)[-1] for name in SYNCED)
        run_step(find_step("_report"), self.trace, "_report", Request({"instants": 0}), stamps=(STAMP,))
        self.inputs = {name: set(self._provenance(name)["inputs"]) for name in (*self.steps, "_report")}
        raw = [path for path in sorted(self.trace.rglob("*")) if path.is_file()]
        names = [str(path.relative_to(self.trace)) for path in raw]
        self.files = [
            each for each in names if each.split("/")[-1] not in (STAMP, PROVENANCE) and "_report" not in each
        ]
        self.exports = self._exported(self.trace, folder / "exported")

    def _provenance(self, name: str) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.trace / name / PROVENANCE).read_text())
        return content

    def made_from(self, file: str) -> set[str]:
        """Results that were made from a file, at once or from one another."""
        found = {name for name in self.steps if file in self.inputs[name]}
        while (
            more := {name for name in self.steps if any(each.partition("/")[0] in found for each in self.inputs[name])}
            - found
        ):
            found |= more
        return found

    def _exported(self, trace: Path, out: Path) -> dict[str, bytes | str]:
        """Bytes of each export, or the line that refuses it."""
        shown: dict[str, bytes | str] = {}
        for sensor, name in self.shown.items():
            to = out / f"{name}{sensor}"
            to.parent.mkdir(parents=True, exist_ok=True)
            call = _calling(export, name, [str(trace)], to, ExportOptions(sensor))
            shown[f"{name} {sensor}"] = call or b"".join(
                path.read_bytes() for path in ([to] if to.is_file() else sorted(to.iterdir()))
            )
        shown["synced"] = _calling(lambda: [*rp.open(trace).synced(*(name[1:] for name in self.synced))])
        return shown

    def cases(self, seed: int) -> Iterator[Case]:
        """Changes in an order that the seed gives, without end."""
        rng = np.random.default_rng(seed)
        while True:
            if rng.random() < 0.03:
                yield Case(MEMORY, str(rng.choice([name for name, _ in OPTIONS])), "")
                continue
            kind = str(rng.choice(["flip", "cut", "100 bytes", "add"]))
            times = ["earlier", "later", *(["the same"] if kind != "flip" else [])]
            yield Case(str(rng.choice(self.files)), kind, str(rng.choice(times)))

    def play(self, case: Case, folder: Path) -> list[str]:
        """Make a change to a copy of the recording; what is wrong afterwards."""
        trace = folder / "rec"
        shutil.copytree(self.trace, trace)
        if case.file == MEMORY:
            return _remembered(trace, case.kind)
        if not _change(trace / case.file, case):
            return []
        stale = self.made_from(case.file)
        wrong = []
        for name, step in self.steps.items():
            known = untrue(trace / name / STAMP, step, trace)
            if bool(known) != (case.file in self.inputs[name]) and not known.endswith("is missing"):
                wrong.append(f"run: {name}: {known or 'is not made again'}")
        for what, shown in self._exported(trace, folder / "out").items():
            reads = {*self.synced, "_sync"} if what == "synced" else {what.split()[1]}
            # A result is matched with the raw sensor of the same times, so that `synced` opens all of them.
            touched = case.file.partition("/")[0] in reads or (what == "synced" and case.file.endswith("/meta.json"))
            if reads & stale and not (isinstance(shown, str) and "rover-pipeline run" in shown and "\n" not in shown):
                wrong.append(f"{what}: is shown although {sorted(reads & stale)} are stale: {shown!r:.200}")
            elif not reads & stale and not touched and shown != self.exports[what]:
                wrong.append(f"{what}: differs or is refused, and does not depend on it: {shown!r:.200}")
        before = (trace / "_report" / PROVENANCE).read_bytes()
        fleet = _calling(lambda: write_fleet([str(trace)], folder / "fleet"))
        summary = json.loads((trace / "_report" / SUMMARY).read_text())
        if fleet or (trace / "_report" / PROVENANCE).read_bytes() == before:
            wrong.append(f"report: the page stays: {fleet}")
        named = {each["place"].partition("/")[0] for each in summary["findings"]} | self._unnamed(summary)
        if (summary["verdict"] == "good" and stale) or not {
            name for name in stale if case.file in self.inputs[name]
        } <= named:
            wrong.append(f"report: names {sorted(named)} where {sorted(stale)} are stale")
        make_report(trace)
        return wrong

    def _unnamed(self, summary: dict[str, Any]) -> set[str]:
        """Results that an error of the page is about, whatever its place."""
        texts = " ".join(f"{each['place']} {each['text']}" for each in summary["findings"])
        return {name for name in self.steps if name in texts}


def _calling(function: Callable[..., object], *arguments: object) -> str:
    """The error of a call; "" where it succeeds."""
    try:
        function(*arguments)
    except RoverError as error:
        return str(error)
    return ""


def _change(path: Path, case: Case) -> bool:
    """Change a file; False where there is nothing to change."""
    data, status = path.read_bytes(), path.stat()
    new = {
        "flip": lambda: bytes(byte ^ 1 if at % 97 == 0 else byte for at, byte in enumerate(data)),
        "cut": lambda: data[: len(data) // 2],
        "100 bytes": lambda: data[:100],
        "add": lambda: data + data[:64],
    }[case.kind]()
    path.write_bytes(new)
    moved = {"earlier": -_DAY_NS, "later": _DAY_NS, "the same": 0}[case.time]
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + moved))
    return new != data


def _remembered(trace: Path, option: str) -> list[str]:
    """What is wrong with what would be made of a recording that comes to remember an option."""
    value = dict(OPTIONS.keys())[option]

    def stamps() -> dict[str, str]:
        flow = Flow({"traces": str(trace)})
        names = [name for name, step in TABLE.items() if step.shown.needs_option is None]
        for name in names:
            flow.makes(name)
        return dict(flow.made)

    before = stamps()
    write_memory(trace, {option: value})
    after = stamps()
    changed = {name for name in before if before[name] != after[name]}
    expected = next(results for (name, _), results in OPTIONS.items() if name == option)
    return [] if expected <= changed else [f"run: {option} changes {sorted(changed)}, not {sorted(expected)}"]


def campaign(count: int, seed: int, preset: str = "") -> tuple[int, list[str]]:
    """Play cases. Returns how many, and what was found."""
    findings: list[str] = []
    with tempfile.TemporaryDirectory(prefix="stale-") as scratch:
        laboratory = Laboratory(Path(scratch), preset)
        for number, case in zip(range(count), laboratory.cases(seed), strict=False):
            with tempfile.TemporaryDirectory(dir=scratch) as folder:
                findings += [f"{number} {case}: {wrong}" for wrong in laboratory.play(case, Path(folder))]
            if number % 50 == 49:
                print(f"{number + 1} changes, {len(findings)} findings so far", flush=True)
    return count, findings


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign stale")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--preset", default="", help="of the recording, such as car; default: one sensor of each kind")
    arguments = parser.parse_args(argv)
    count, findings = campaign(arguments.count, arguments.seed, arguments.preset)
    print("\n".join(findings))
    print(f"{count} changes, {len(findings)} findings")
    sys.exit(1 if findings else 0)
