"""`python -m tests.campaign hostile [--count N] [--seed N] [NAME ...]`: odometry in recordings that want to deceive it.

Each kind of recording is simulated a few times with parameters that the seed draws, spoiled where that is its nature,
and run through `_odom`. The truth judges: a pose is wrong and sure if it and another valid one up to two seconds away
(or the next one, across a longer gap) are both valid, and the motion between them is off by more than 5 cm and 3 % of
its length. No such pair may exist. How many poses are valid, and how well they fit, is printed beside it.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
import tempfile
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.errors import RoverError
from rover_pipeline.format.provenance import PROVENANCE
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.simulate.presets import PRESETS
from rover_pipeline.simulate.record import simulate
from rover_pipeline.table import find_step
from tests.campaign.hostile_kinds import KINDS, Hostile
from tests.campaign.hostile_raw import Raw

#: Seconds over which the motion is judged, and the error that is allowed: metres, and metres a metre.
WINDOW_S, ALLOWED, ALLOWED_SHARE = 2.0, 0.05, 0.03


class Verdict(NamedTuple):
    """What the truth says about a recording.

    Attributes:
        frames: number of sweeps; valid: of valid poses.
        wrong: of pairs of valid poses that are wrong and sure; pairs: of all that were judged.
        worst: largest error of a pair over what is allowed, metres; angle: largest error of a rotation, degrees.
        ate: root mean square error of the valid positions after alignment, metres; NaN with fewer than three.
        nees: normalised error squared of their covariances per degree of freedom.
        said: what the odometry said: its use of the gyroscope and its warnings, or the error that it ended with.
    """

    frames: int
    valid: int
    wrong: int
    pairs: int
    worst: float
    angle: float
    ate: float
    nees: float
    said: str


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign hostile")
    parser.add_argument("names", nargs="*", metavar="NAME", help="kinds of recordings; all unless given")
    parser.add_argument("--count", type=int, default=2, help="recordings of each kind")
    parser.add_argument("--first", type=int, default=0, help="number of the first recording of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a folder in which the recordings stay")
    arguments = parser.parse_args(argv)
    if unknown := set(arguments.names) - set(KINDS):
        parser.error(f"unknown {', '.join(sorted(unknown))}; there are {', '.join(KINDS)}")
    numbers = range(arguments.first, arguments.first + arguments.count)
    tables = []
    for name in arguments.names or KINDS:
        verdicts = []
        for number in numbers:
            begun = time.monotonic()
            verdict, drawn = play(name, number, arguments.seed, arguments.keep)
            verdicts.append(verdict)
            print(_line(name, number, drawn, verdict, time.monotonic() - begun), flush=True)
        tables.append((name, verdicts))
    print("\n| kind | recordings | valid | ATE, mm | wrong and sure, recordings | NEES a degree of freedom |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, verdicts in tables:
        print(_row(name, verdicts))
    every = [verdict for _, verdicts in tables for verdict in verdicts]
    print(_row("all", every))
    wrong = sum(verdict.wrong > 0 for verdict in every)
    print(f"\n{len(every)} recordings, {wrong} with a pose that is wrong and sure")
    sys.exit(1 if wrong else 0)


def play(name: str, number: int, seed: int, keep: Path | None = None) -> tuple[Verdict, str]:
    """Record one of a kind, run `_odom` on it and judge; and the parameters that were drawn."""
    rng = np.random.default_rng([seed, zlib.crc32(name.encode()), number])
    hostile = KINDS[name](rng)
    with tempfile.TemporaryDirectory(prefix="hostile-") as scratch:
        trace = (keep or Path(scratch)) / f"{name}-{seed}-{number}"
        if not trace.exists():
            record(hostile, trace, int(rng.integers(1 << 30)))
        return odometry(trace, hostile), hostile.drawn


def record(hostile: Hostile, trace: Path, seed: int) -> None:
    """Simulate and spoil a recording; its truth has a row for each sweep that is left."""
    preset = PRESETS[hostile.preset].model_copy(update=hostile.changes)
    alter = functools.partial(functools.reduce, lambda rig, change: change(rig), hostile.alter)
    simulate(
        trace, preset=preset, duration=hostile.seconds, seed=seed, faults=hostile.faults, threads=1,
        sensors=("lidar", "imu"), alter=alter,
    )  # fmt: skip
    raw = Raw.of(trace)
    for spoil in hostile.spoil:
        spoil(raw)
    if hostile.spoil:
        raw.write(trace)


def odometry(trace: Path, hostile: Hostile) -> Verdict:
    """Run `_odom` as users do, and judge it."""
    truth = {name: Sensor(trace / "_truth").channel(name).read() for name in ("true_ts", "pos", "rot")}
    frames = len(truth["true_ts"])
    try:
        for step, options in (("_lidar_image", {}), ("_odom", {"imu": hostile.imu})):
            run_step(find_step(step), trace, step, Request(options=options))
    except RoverError as error:
        return Verdict(frames, 0, 0, 0, 0.0, 0.0, np.nan, np.nan, str(error))
    made = {name: Sensor(trace / "_odom").channel(name).read() for name in ("pos", "rot", "cov", "valid")}
    provenance = json.loads((trace / "_odom" / PROVENANCE).read_text())
    said = [f"gyroscope {provenance['measured']['gyroscope']}", *(provenance.get("notes") or [])]
    return judge(made, truth, "; ".join(said))


def judge(made: dict[str, np.ndarray], truth: dict[str, np.ndarray], said: str = "") -> Verdict:
    """Compare `pos`, `rot`, `cov` and `valid` of `_odom` with `pos`, `rot` and `true_ts` of the truth."""
    valid = np.flatnonzero(made["valid"])
    times = truth["true_ts"] - truth["true_ts"][0]
    first, second = _pairs(times[valid])
    first, second = valid[first], valid[second]
    moved, turned = _motion(made["pos"], made["rot"], first, second)
    truly, truly_turned = _motion(truth["pos"], truth["rot"], first, second)
    over = np.linalg.norm(moved - truly, axis=1) - ALLOWED - ALLOWED_SHARE * np.linalg.norm(truly, axis=1)
    angles = np.degrees((turned.inv() * truly_turned).magnitude()) if len(first) else np.zeros(0)
    return Verdict(
        len(times), len(valid), int((over > 0).sum()), len(first), float(over.max(initial=-ALLOWED)),
        float(angles.max(initial=0)), _ate(made["pos"][valid], truth["pos"][valid]), _nees(made, truth, valid), said,
    )  # fmt: skip


def _pairs(times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the valid poses that are compared: each with the last one within the window, and with the next one."""
    here = np.arange(len(times))
    last = np.searchsorted(times, times + WINDOW_S + 0.5e-3, side="right") - 1
    following = np.minimum(here + 1, len(times) - 1)
    first, second = np.concatenate([here, here]), np.concatenate([last, following])
    return first[second > first], second[second > first]


def _motion(pos: np.ndarray, rot: np.ndarray, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, Rotation]:
    """Translation, in the first one's lidar frame, and rotation between poses."""
    moved = np.einsum("nji,nj->ni", rot[first], pos[second] - pos[first])
    return moved, Rotation.from_matrix(np.swapaxes(rot[first], 1, 2) @ rot[second]) if len(first) else Rotation(
        [0, 0, 0, 1]
    )


def _ate(pos: np.ndarray, truth: np.ndarray) -> float:
    if len(pos) < 3:
        return np.nan
    here, there = pos - pos.mean(0), truth - truth.mean(0)
    left, _, right = np.linalg.svd(there.T @ here)
    turn = left @ np.diag([1.0, 1.0, np.linalg.det(left @ right)]) @ right
    return float(np.sqrt(np.square(here @ turn.T - there).sum(1).mean()))


def _nees(made: dict[str, np.ndarray], truth: dict[str, np.ndarray], valid: np.ndarray) -> float:
    """Mean normalised error squared of the valid poses relative to the first one, per degree of freedom."""
    if len(valid) < 2:
        return np.nan
    origin, later = valid[0], valid[1:]
    world = made["rot"][origin] @ truth["rot"][origin].T
    pos = (truth["pos"][later] - truth["pos"][origin]) @ world.T + made["pos"][origin]
    back = np.swapaxes(made["rot"][later], 1, 2)
    moved = np.einsum("nij,nj->ni", back, pos - made["pos"][later])
    turned = Rotation.from_matrix(back @ world @ truth["rot"][later]).as_rotvec()
    error = np.concatenate([moved, turned], 1)
    cov = made["cov"][later].astype("f8")
    if not np.isfinite(cov).all():
        return np.inf
    return float(np.einsum("ni,nij,nj->n", error, np.linalg.pinv(cov, hermitian=True), error).mean() / 6)


def _line(name: str, number: int, drawn: str, verdict: Verdict, seconds: float) -> str:
    sure = f"WRONG AND SURE {verdict.wrong} of {verdict.pairs}" if verdict.wrong else "right"
    figures = (
        f"valid {verdict.valid}/{verdict.frames}, ATE {1e3 * verdict.ate:.1f} mm, "
        f"worst {verdict.worst + ALLOWED:.3f} m {verdict.angle:.2f} deg, NEES {verdict.nees:.2f}, {seconds:.0f} s"
    )
    said = f"\n    {verdict.said}" if verdict.wrong or verdict.valid < 0.5 * verdict.frames else ""
    return f"{name} {number}: {sure}: {figures} [{drawn}]{said}"


def _row(name: str, verdicts: Sequence[Verdict]) -> str:
    valid = sum(verdict.valid for verdict in verdicts) / max(1, sum(verdict.frames for verdict in verdicts))
    ate, nees = (np.array([getattr(verdict, key) for verdict in verdicts]) for key in ("ate", "nees"))
    wrong = sum(verdict.wrong > 0 for verdict in verdicts)
    return f"| {name} | {len(verdicts)} | {valid:.0%} | {1e3 * _median(ate):.1f} | {wrong} | {_median(nees):.2f} |"


def _median(values: np.ndarray) -> float:
    return float(np.median(values[np.isfinite(values)])) if np.isfinite(values).any() else np.nan
