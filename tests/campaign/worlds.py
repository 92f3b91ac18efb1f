"""`python -m tests.campaign worlds [--count N] [NAME ...]`: odometry in worlds of another generator.

A generator that shares no line with the simulator (`make.py` in the folder of `ROVER_PIPELINE_WORLDS`, default
`../shared/worlds`) records parks, halls and corridors, in which people walk along and sensors have faults. The command
line makes `_odom`, and `score.py` of the same folder, which knows nothing of the project, judges it: a pair of valid
poses one or two seconds apart is wrong and sure if their distance is off by more than 5 cm and 3 %.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tests.conftest import CHECKOUT

FOLDER = Path(os.environ.get("ROVER_PIPELINE_WORLDS", CHECKOUT.parent / "shared" / "worlds"))
#: Most seconds of a command.
_PATIENCE_S = 3600


def _with(kind: str, *words: str) -> tuple[str, ...]:
    return ("--kind", kind, *words)


_ALONG = ("--fault", "companions=1")
#: Arguments of `make.py` by the name of the world.
WORLDS: dict[str, tuple[str, ...]] = {
    "park": _with("park"),
    **{f"park_{beams}": _with("park", "--beams", str(beams)) for beams in (64, 32, 16)},
    "park_loop": _with("park", "--path", "loop", "--frames", "160"),
    "park_start": _with("park", "--path", "start"),
    "hall": _with("hall"),
    "hall_people": _with("hall", "--beams", "32", "--people", "40", "--no-imu"),
    "hall_slow": _with("hall", "--beams", "32", "--sweep", "0.2", "--turn", "3", "--no-imu"),
    "park_slow": _with("park", "--beams", "16", "--sweep", "0.2", "--turn", "3", "--no-imu"),
    "hall_fast": _with("hall", "--beams", "32", "--sweep", "0.05", "--turn", "3", "--no-imu"),
    "hall_loop": _with("hall", "--path", "loop", "--frames", "160"),
    "hall_mirror": _with("hall", "--fault", "mirror=7"),
    **{f"corridor_{beams}": _with("corridor", "--beams", str(beams), *_ALONG) for beams in (128, 64, 32, 16)},
    **{
        f"corridor_{beams}_no_imu": _with("corridor", "--beams", str(beams), "--no-imu", *_ALONG)
        for beams in (128, 64, 32, 16)
    },
    "corridor_alone": _with("corridor", "--no-imu", "--fault", "alone=1"),
    **{
        f"park_{fault.partition('=')[0]}": _with("park", "--beams", "32", "--fault", fault)
        for fault in (
            "lift=0.2", "scale=0.003", "walk=0.03", "rain=0.4", "gscale=0.02", "gsens=0.002", "tdrift=0.0005",
            "motor=0.003", "mixed=0.6", "tilt=1",
        )
    },
}  # fmt: skip
#: Seeds that are played besides those of the count, because they were wrong and sure, or not valid without need.
KNOWN: dict[str, tuple[int, ...]] = {
    "corridor_128": (304,), "corridor_128_no_imu": (207, 304), "hall_slow": (409, 410), "park_16": (415,),
}  # fmt: skip


class Score(NamedTuple):
    """What `score.py` says of a recording.

    Attributes:
        valid: share of valid poses; ate: of them, m; NaN where `score.py` gives none.
        wrong, pairs: pairs that are wrong and sure, of all pairs; worst: largest error of a pair, m.
        nees: mean normalised error squared per degree of freedom.
        said: the line of `score.py`, or why there is no `_odom`.
    """

    valid: float
    ate: float
    wrong: int
    pairs: int
    worst: float
    nees: float
    said: str


def play(name: str, seed: int, folder: Path, *more: str) -> Score:
    """Make a world with further arguments of `make.py`, run the command line, and score `_odom`."""
    out = folder / f"{name}-{seed}"
    if not (out / "trace" / "config.yaml").exists():
        _run([sys.executable, str(FOLDER / "make.py"), str(out), "--seed", str(seed), *WORLDS[name], *more])
    command = [sys.executable, "-m", "rover_pipeline", "run", str(out / "trace"), "--outputs", "odom"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    if done.returncode:
        return Score(0.0, np.nan, 0, 0, 0.0, np.nan, done.stderr.strip().rpartition("\n")[2])
    return read_score(_run([sys.executable, str(FOLDER / "score.py"), str(out / "trace"), str(out)]))


def read_score(line: str) -> Score:
    """The figures of the line that `score.py` prints."""
    line = " ".join(line.split())
    figures = re.search(r"ATE (\S+) cm .* wrong (\d+)/(\d+) worst (\S+) cm NEES mean (\S+)", line)
    valid = re.search(r"valid (\d+)%", line)
    if valid is None:
        raise ValueError(f"score.py says: {line}")
    share = int(valid[1]) / 100
    if figures is None:  # too few valid poses to align
        return Score(share, np.nan, 0, 0, 0.0, np.nan, line)
    ate, wrong, pairs, worst, nees = figures.groups()
    return Score(share, float(ate) / 100, int(wrong), int(pairs), float(worst) / 100, float(nees), line)


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign worlds")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(WORLDS)}; all unless given")
    parser.add_argument("--count", type=int, default=20, help="seeds of each world")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--keep", type=Path, help="a folder in which the recordings stay")
    arguments = parser.parse_args(argv)
    if unknown := set(arguments.names) - set(WORLDS):
        parser.error(f"unknown {', '.join(sorted(unknown))}; there are {', '.join(WORLDS)}")
    if not (FOLDER / "make.py").exists():
        parser.error(f"no generator of worlds in {FOLDER}; set ROVER_PIPELINE_WORLDS")
    tables: dict[str, list[Score]] = {}
    for name in arguments.names or WORLDS:
        for seed in (*range(arguments.first, arguments.first + arguments.count), *KNOWN.get(name, ())):
            begun = time.monotonic()
            with tempfile.TemporaryDirectory(prefix="worlds-") as scratch:
                score = play(name, seed, arguments.keep or Path(scratch))
            tables.setdefault(name, []).append(score)
            verdict = f"WRONG AND SURE {score.wrong} of {score.pairs}" if score.wrong else "right"
            print(f"{name} {seed}: {verdict}, {score.said}, {time.monotonic() - begun:.0f} s", flush=True)
    print("\n| world | recordings | valid | ATE, cm | wrong and sure, recordings | NEES a degree of freedom |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, scores in tables.items():
        valid, wrong = np.mean([each.valid for each in scores]), sum(each.wrong > 0 for each in scores)
        ate, nees = (_median([getattr(each, key) for each in scores]) for key in ("ate", "nees"))
        print(f"| {name} | {len(scores)} | {valid:.0%} | {100 * ate:.2f} | {wrong} | {nees:.2f} |")
    every = [each for scores in tables.values() for each in scores]
    wrong = sum(each.wrong > 0 for each in every)
    print(f"\n{len(every)} recordings, {wrong} with a pose that is wrong and sure")
    sys.exit(1 if wrong else 0)


def _median(values: Sequence[float]) -> float:
    finite = np.array(values)[np.isfinite(values)]
    return float(np.median(finite)) if len(finite) else np.nan


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
