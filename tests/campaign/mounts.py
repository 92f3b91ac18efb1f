"""`python -m tests.campaign mounts [--count N] [KIND ...]`: what pages say of mounts that are right, and of wrong ones.

Recordings of 30 s are simulated with small shapes. Their rigs are drawn: places, rotations, time offsets and speeds.
`config.yaml` declares what is true, so a finding of the page is false. Then what the page computes is computed again
with one component of one sensor declared 1 degree, 5 cm or 20 ms off. A line for each recording and sensor has

    NEES    of the observed components with the true mount declared, and, of radars, of all components with a declared
            mount that is drawn from its prior
    a sign for each of roll, pitch, yaw, x, y, z, time: `+` found, with the right sign and size; `X` found, and another
            component is named, or with a wrong size; `o` observed (± its deviation), and not found; `.` not observed
    !       the page has a false finding, or would have one if the estimate were adopted

With `--keep FOLDER` the recordings and what became of them stay there, and are used again. `--record` writes the
figures of all of them into the file of results.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml
from scipy.spatial.transform import Rotation

from benchmarks import results as figures
from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.errors import FormatError
from rover_pipeline.format.meta import META
from rover_pipeline.kinematics.mount import Mount, mount_entry
from rover_pipeline.kinematics.mounts import (
    COMPONENTS,
    PRIOR_SIGMA,
    UNITS,
    MountEstimate,
    changed,
    compare,
    difference,
)
from rover_pipeline.kinematics.trajectory import Trajectory
from rover_pipeline.poses.options import PosesSection
from rover_pipeline.report.read.contents import read_mounts
from rover_pipeline.simulate.presets import PRESETS, ROVER, Placed, Preset
from rover_pipeline.simulate.record import simulate
from rover_pipeline.simulate.rig import Rig, build
from rover_pipeline.table import find_step
from rover_pipeline.validation.mounts import ESTIMATES, Shown, shown_mounts
from rover_pipeline.validation.rig import read_trajectory

SECONDS = 30.0
KINDS = ("tiny", "smooth", "stairs", "outdoor", "park", "bushes", "crowd", "bike", "tunnel", "car")
#: What is declared wrongly in turn.
WRONG = np.array([np.radians(1.0)] * 3 + [0.05] * 3 + [0.02])
#: Steps before the radar's.
_ODOMETRY = ("_lidar_image", "_odom")


class Tried(NamedTuple):
    """What became of one sensor of one recording.

    Attributes:
        type: of the sensor; false: what the page says of the right mount, "" = nothing.
        squares: of the errors in the stated covariance, and degrees of freedom; wide: the same of all components from
            a start that is drawn.
        marks: a sign for each component that was declared wrongly.
        errors: of the components of the right mount, rad, m and s; None = not observed.
    """

    type: str
    false: str
    squares: tuple[float, int]
    wide: tuple[float, int]
    marks: str
    errors: tuple[float | None, ...]


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign mounts", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)}; all unless given")
    parser.add_argument("--count", type=int, default=4, help="recordings of each kind")
    parser.add_argument("--first", type=int, default=0, help="number of the first recording of each kind")
    parser.add_argument("--keep", type=Path, help="a folder in which all stays, and is used again")
    parser.add_argument("--whole", action="store_true", help="radars with all chirps and samples of their presets")
    parser.add_argument("--record", action="store_true", help="write the figures into the file of results")
    asked = parser.parse_args(argv)
    tried: list[Tried] = []
    for number in range(asked.first, asked.first + asked.count):
        for kind in asked.names or KINDS:
            with tempfile.TemporaryDirectory(prefix="mounts-") as scratch:
                trace = (asked.keep or Path(scratch)) / f"{kind}-{number}"
                tried += _tried(trace, kind, number, asked.whole)
    print("\n| sensors | false | NEES | from a start that is drawn | " + " | ".join(COMPONENTS) + " |")
    for type in ESTIMATES:
        if some := [each for each in tried if each.type == type]:
            columns = ["".join(each.marks[i] for each in some) for i in range(7)]
            signs = [" ".join(f"{sign}{each.count(sign)}" for sign in "+Xo." if sign in each) for each in columns]
            false = sum(bool(each.false) for each in some)
            nees = [_mean([getattr(each, name) for each in some]) for name in ("squares", "wide")]
            print(f"| {len(some)} {type} | {false} | {' | '.join((*nees, *signs))} |")
            if asked.record:
                kinds = ", ".join(asked.names or KINDS)
                of = f"{len(some)} sensors of {asked.count} recordings of 30 s each of {kinds}"
                of += "; 1 degree, 5 cm or 20 ms wrong" + asked.whole * "; radars with all chirps of the presets"
                room = "whole mounts" if asked.whole else "mounts"
                found = [f"{name} {each.count('+')} of {len(each.replace(' ', ''))}"
                         for name, each in zip(COMPONENTS, columns, strict=True) if each.strip()]  # fmt: skip
                figures.record(f"{room}/{type} false", f"{false} of {len(some)}", of=of)
                figures.record(f"{room}/{type} NEES", nees[0], of=of)
                figures.record(f"{room}/{type} found", ", ".join(found), of=of)
                figures.record(f"{room}/{type} RMS", ", ".join(_rms(some)), of=of)
    sys.exit(any(each.false for each in tried))


def _tried(trace: Path, kind: str, number: int, whole: bool) -> list[Tried]:
    """What became of the sensors of a recording, now or before."""
    known = trace.with_suffix(".json")
    if known.exists():
        return [Tried(**each) for each in json.loads(known.read_text())]
    begun, tried = time.monotonic(), []
    true = record(trace, kind, number, whole)
    for sensor, each, text in play(trace, true, np.random.default_rng([zlib.crc32(kind.encode()), number, 7])):
        tried.append(each)
        print(f"{kind} {number} {sensor}: {text}", flush=True)
    print(f"{kind} {number}: {time.monotonic() - begun:.0f} s", flush=True)
    known.write_text(json.dumps([each._asdict() for each in tried]))
    return tried


def _rms(some: Sequence[Tried]) -> list[str]:
    """Root mean squares of the errors that are observed, for people."""
    found = []
    for i, (name, (unit, factor)) in enumerate(zip(COMPONENTS, UNITS, strict=True)):
        errors = [error for each in some if (error := each.errors[i]) is not None]
        found += [f"{name} {factor * np.sqrt(np.mean(np.square(errors))):.2g} {unit}"] if errors else []
    return found


def record(trace: Path, kind: str, number: int, whole: bool = False) -> dict[str, Mount]:
    """Simulate a recording and its results, and declare its mounts rightly; the true mounts."""
    rng = np.random.default_rng([zlib.crc32(kind.encode()), number])
    preset = small(PRESETS[kind], rng, two=number % 2 == 1, whole=whole)
    seed, true = int(rng.integers(1 << 30)), {}

    def drawn(rig: Rig) -> Rig:
        main, *others = rig.sensors
        mounts = {name: _drawn(rig.mounts[name], preset.sensors != ROVER, rng) for name in others}
        clocks = {name: replace(rig.clocks[name], delay=rig.clocks[name].delay + rng.uniform(0, 0.03))
                  for name in others}  # fmt: skip
        for name in others:
            late = rig.clocks[main].delay - clocks[name].delay
            true[name] = mounts[name]._replace(time_offset=late, source="config.yaml")
        return replace(rig, mounts=rig.mounts | mounts, clocks=rig.clocks | clocks)

    used = [each.name for each in preset.sensors if each.type in ("lidar", "radar", "imu")]
    if trace.exists():
        drawn(build(preset, seed))
    else:
        simulate(trace, preset=preset, duration=SECONDS, seed=seed, threads=1, sensors=used, alter=drawn)
    true = {name: true[name] for name in used[1:]}
    declare(trace, true)
    for sensor in used:
        type = next(each.type for each in preset.sensors if each.name == sensor)
        for step in {"lidar": ("_lidar_image",), "radar": ("_radar_points", "_radar_velocity")}.get(type, ()):
            _make(trace, step, step.replace(type, sensor))
    _make(trace, "_odom", "_odom")
    return true


def small(preset: Preset, rng: np.random.Generator, two: bool, whole: bool = False) -> Preset:
    """A preset with few beams and chirps, another speed, and a second lidar where there are to be two.

    Args:
        whole: radars stay as they are.
    """
    changes: dict[str, Any] = {"speed": preset.speed * rng.uniform(0.8, 1.2)}
    if preset.sensors == ROVER:
        changes |= {"lidar": "OS-0-32", "columns": 512}
        chirps = preset.radar
        fewer = {"adc_samples": 64, "sample_rate": chirps.sample_rate * 64 // chirps.adc_samples, "frame_length": 32}
        if not whole:
            changes["radar"] = chirps.model_copy(update=fewer | {"frame_period": 100.0})
        if two:
            beside = Placed(name="lidar_rear", type="lidar", at=(-0.2, 0.1, -0.3), yaw=160.0, after=0.043)
            changes["sensors"] = (*preset.sensors, beside)
    return preset.model_copy(update=changes)


def _drawn(nominal: Mount, car: bool, rng: np.random.Generator) -> Mount:
    """A mount that is not the usual one: turned by up to 30 degrees, or by as much as 180 to a side, and moved."""
    size = 0.1 if car else 0.5
    turn = Rotation.from_euler("zyx", rng.uniform(-1, 1, 3) * [size, size / 2, size / 2]).as_matrix()
    return Mount(nominal.translation + rng.uniform(-0.15, 0.15, 3), turn @ nominal.rotation)


def declare(trace: Path, mounts: dict[str, Mount]) -> None:
    """Write section rig of `config.yaml`."""
    path = trace / "config.yaml"
    content = yaml.safe_load(path.read_text()) | {"rig": {name: mount_entry(each) for name, each in mounts.items()}}
    path.write_text(yaml.safe_dump(content, sort_keys=False))


def _make(trace: Path, step: str, output: str) -> None:
    if not (trace / output / META).is_file():
        run_step(find_step(step), trace, output, Request(), threads=1)


def play(trace: Path, true: dict[str, Mount], rng: np.random.Generator) -> Iterator[tuple[str, Tried, str]]:
    """Each sensor, what became of it, and what people read."""
    said = dict(read_mounts(trace)[1])
    try:
        trajectory = read_trajectory(trace, PosesSection().max_gap)
    except FormatError as problem:
        print(problem, flush=True)
        return
    for each in (each for each in shown_mounts(trace) if each.sensor in true):
        sensor, mount, found = each.sensor, true[each.sensor], each.estimate
        error, wide = difference(mount, found.mount), (0.0, 0)
        squares = _square(error, found.covariance, found.observed)
        errors = tuple(float(one) if seen else None for one, seen in zip(error, found.observed, strict=True))
        off, notes = compare(mount, found), list(found.remarks)
        if false := said.get(sensor) or (f"not adopted, {off}" if off.is_wrong else ""):
            notes.insert(0, f"! {false}")
        if each.type == "radar":
            start = _estimate(trace, each, changed(mount, rng.normal(0, PRIOR_SIGMA)), true, trajectory)
            wide = _square(difference(start.mount, mount), start.covariance, np.ones(7, bool))
        marks, chosen = "", rng.integers(7) if each.type == "lidar" else range(7)  # of a lidar each takes an odometry
        for i in range(7):
            if i not in np.atleast_1d(chosen):
                marks += " "
                continue
            error = np.eye(7)[i] * WRONG * rng.choice([-1, 1])
            declared = changed(mount, error)
            mark, text = _mark(i, error, declared, _estimate(trace, each, declared, true, trajectory))
            marks += mark
            notes += [text] if text else []
        nees = f"NEES {_mean([squares])} of {squares[1]}" + (f", {_mean([wide])}" if wide[1] else "")
        yield (
            sensor,
            Tried(each.type, false, squares, wide, marks, errors),
            f"{nees} {marks} {_sigma(found)} {'; '.join(notes)}",
        )


def _estimate(
    trace: Path, shown: Shown, declared: Mount, true: dict[str, Mount], trajectory: Trajectory
) -> MountEstimate:
    """What the recording shows of a sensor that is declared to have another mount."""
    if shown.type == "lidar":
        return _again(trace, true | {shown.sensor: declared}, shown.sensor)
    made = ESTIMATES[shown.type](trace, shown.sensor, declared, trajectory)
    assert made is not None
    return made[0]


def _again(trace: Path, mounts: dict[str, Mount], sensor: str) -> MountEstimate:
    """The estimate of another lidar by an odometry that was given some mounts."""
    with tempfile.TemporaryDirectory(prefix="mounts-", dir=trace.parent) as scratch:
        copy = Path(scratch) / trace.name
        shutil.copytree(trace, copy, ignore=shutil.ignore_patterns("_odom", "_radar*", "_truth*", "radar*"))
        declare(copy, mounts)
        _make(copy, "_odom", "_odom")
        return next(each.estimate for each in shown_mounts(copy) if each.sensor == sensor)


def _mark(i: int, error: np.ndarray, declared: Mount, found: MountEstimate) -> tuple[str, str]:
    """The sign of a component that was declared wrongly, and what is to be said of it."""
    off, (unit, factor), name = compare(declared, found), UNITS[i], COMPONENTS[i]
    if off.is_wrong and found.adopted:
        near = abs(off.error[i] + error[i]) < 4 * off.sigma[i]
        good = off.component == i and near and off.error[i] * error[i] < 0
        return ("+", "") if good else ("X", f"{name} {-factor * error[i]:+.3g} {unit} is called {off}")
    if not found.observed[i]:
        return ".", ""
    why = "" if found.adopted else f", {found.remarks}"
    return (
        "o",
        f"{name} {-factor * error[i]:+.3g}: {factor * off.error[i]:+.3g} ± {factor * off.sigma[i]:.2g} {unit}{why}",
    )


def _square(error: np.ndarray, covariance: np.ndarray, seen: np.ndarray) -> tuple[float, int]:
    part = error[seen]
    return float(part @ np.linalg.solve(covariance[np.ix_(seen, seen)], part)) if len(part) else 0.0, len(part)


def _mean(squares: Sequence[tuple[float, int]]) -> str:
    total, freedom = np.sum(squares, axis=0)
    return f"{total / freedom:.2f}" if freedom else "-"


def _sigma(found: MountEstimate) -> str:
    values = zip(UNITS, found.sigma, found.observed, strict=True)
    return "(" + " ".join(f"{factor * each:.2g}" if seen else "-" for (_, factor), each, seen in values) + ")"
