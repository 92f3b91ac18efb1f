"""Whether a map shows how good a trajectory is where there is no truth: its walls and its entropy beside ATE.

    python -m benchmarks.consistency [--worlds 20] [--keep FOLDER]

Worlds are those of the generator in `ROVER_PIPELINE_WORLDS` (default `../shared/worlds`). A fifth of the returns of
each recording, chosen at random, is taken out before any odometry sees it. The maps are made from this fifth: by the
truth, by `_odom`, by `_odom` with errors of known size, and by KISS-ICP. Two figures of each map:

- wall thickness: root of the median of the smallest eigenvalue of the covariance of a plane's points, cm;
- mean map entropy: of points around a point, ln(det(2 pi e C)) / 2 (J. Razlaw et al., Evaluation of registration
  methods for sparse 3D laser scans, ECMR 2015).

Both take the points within 0.3 m of the same 2,000 points, where eight sweeps or more saw them. Rank correlations
(Spearman, Kendall) are those of a figure and ATE over the trajectories of a world.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import ouster.sdk.core as oc
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation, Slerp
from scipy.stats import kendalltau, spearmanr

from benchmarks.drives import command
from benchmarks.drives_peers import Clouds, kiss_icp
from benchmarks.results import record
from benchmarks.rough import straight
from rover_pipeline.format.sensor import Sensor

WORLDS = Path(os.environ.get("ROVER_PIPELINE_WORLDS", Path(__file__).parents[2] / "shared" / "worlds"))
KINDS, FRAMES, BEAMS = ("park", "hall"), 40, 32
#: Share of the returns that no odometry sees; radius of a neighbourhood, m; minimum of sweeps and of points in it.
HELD, RADIUS_M, MIN_SWEEPS, MIN_POINTS = 0.2, 0.3, 8, 20
QUERIES = 2000
#: A neighbourhood is a plane where its smallest eigenvalue is below this share of the middle one.
FLAT = 0.1


class Path6(NamedTuple):
    """Poses at the ends of sweeps: pos, f8 (N, 3), m; rot, f8 (N, 3, 3)."""

    pos: np.ndarray
    rot: np.ndarray


class Recording(NamedTuple):
    """A recording without the returns that are held out.

    Attributes:
        trace: it; truth: at the ends of sweeps.
        seen, held: f8 (K, 3) of each sweep, m, in the frame of the lidar when they were measured; their shares: f8 (K,)
            of the sweep's time when that was.
    """

    trace: Path
    truth: Path6
    seen: list[np.ndarray]
    seen_shares: list[np.ndarray]
    held: list[np.ndarray]
    held_shares: list[np.ndarray]


def module(name: str) -> ModuleType:
    """A module of the generator of worlds."""
    sys.path.insert(0, str(WORLDS))
    spec = importlib.util.spec_from_file_location(name, WORLDS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def make(kind: str, seed: int, folder: Path) -> Recording:
    """A world and the recording of what is not held out."""
    files, score = module("files"), module("score")
    words = ["--kind", kind, "--seed", str(seed), "--frames", str(FRAMES), "--beams", str(BEAMS)]
    subprocess.run([sys.executable, str(WORLDS / "make.py"), str(folder), *words], check=True, capture_output=True)
    ranges, whole, trace = np.load(folder / "rng.npy"), folder / "trace", folder / "held-out"
    info = oc.SensorInfo((whole / "lidar" / "lidar.json").read_text())
    out = (np.random.default_rng(seed).random(ranges.shape) < HELD) & (ranges > 0)
    kept = np.where(out, 0, ranges)
    lidar = Sensor(whole / "lidar")
    ts, rfl = lidar.channel("ts").read(), lidar.channel("rfl").read()
    files.lidar(trace / "lidar", ts, {"rng": kept, "rfl": np.where(kept > 0, rfl, 0), "nir": kept * 0 + 100}, info)
    for name in ("imu", "config.yaml"):
        (shutil.copytree if (whole / name).is_dir() else shutil.copy)(whole / name, trace / name)
    known = score.Truth(folder / "truth.npz")
    at = known.at(known.frame_t + known.sweep)
    lut = oc.XYZLut(info)
    share = np.broadcast_to(np.arange(info.w) / info.w, ranges.shape[1:])
    clouds: list[Any] = [[], [], [], []]
    for image, mask in zip(ranges, out, strict=True):
        # Columns are in the order of time; the look-up table is of such images.
        xyz = lut(image.astype("u4"))
        for number, chosen in enumerate(((image > 0) & ~mask, mask)):
            clouds[2 * number].append(xyz[chosen])
            clouds[2 * number + 1].append(share[chosen])
    return Recording(trace, Path6(at["pos"], at["rot"]), *clouds)


def ours(recording: Recording) -> Path6 | None:
    """Of `_odom`, through the command line; None where a pose is not valid."""
    command("run", str(recording.trace), "--outputs", "odom")
    odom = Sensor(recording.trace / "_odom")
    pos, rot, valid = (odom.channel(name).read() for name in ("pos", "rot", "valid"))
    return Path6(pos, rot) if valid.all() else None


def perturbed(path: Path6, seed: int) -> dict[str, Path6]:
    """A path with errors of known size: noise of each pose, a smooth drift at its end, a turn at its end, and scale."""
    rng, count = np.random.default_rng(seed), len(path.pos)
    along, found = np.linspace(0, 1, count)[:, None], {}
    for cm in (0.5, 1, 2, 4):
        found[f"noise {cm} cm"] = Path6(path.pos + rng.normal(0, cm / 173.2, (count, 3)), path.rot)
    for cm in (2, 5, 10, 20):
        direction = rng.normal(size=3)
        shift = along**1.5 * direction / np.linalg.norm(direction) * cm / 100
        found[f"drift {cm} cm"] = Path6(path.pos + shift, path.rot)
    for degrees in (0.2, 0.5, 1.0):
        turn = Rotation.from_euler("z", degrees * along, degrees=True)
        steps = np.einsum("nij,nj->ni", turn.as_matrix()[1:], np.diff(path.pos, axis=0))
        pos = np.vstack([path.pos[:1], path.pos[0] + np.cumsum(steps, axis=0)])
        found[f"turn {degrees} degrees"] = Path6(pos, turn.as_matrix() @ path.rot)
    for percent in (1, 3):
        found[f"scale {percent} %"] = Path6(path.pos * (1 + percent / 100), path.rot)
    return found


def peer(recording: Recording) -> Path6:
    """KISS-ICP, at the instant of the sweep that suits it best: its poses are moved along its own motion."""
    pos, rot = kiss_icp(Clouds(recording.seen, recording.seen_shares), deskew=True)
    choices = []
    for later in (0.0, 0.5, 1.0):
        step = np.einsum("nji,nj->ni", rot[:-1], np.diff(pos, axis=0))
        turn = Rotation.from_matrix(np.swapaxes(rot[:-1], 1, 2) @ rot[1:]).as_rotvec()
        step, turn = np.vstack([step[:1], step]), np.vstack([turn[:1], turn])
        moved = pos + np.einsum("nij,nj->ni", rot, later * step)
        choices.append(Path6(moved, rot @ Rotation.from_rotvec(later * turn).as_matrix()))
    return min(choices, key=lambda each: straight(each.pos, recording.truth.pos))


def mapped(recording: Recording, path: Path6) -> tuple[np.ndarray, np.ndarray]:
    """The points held out in the world of a path, f8 (K, 3), m, and their sweeps; the first sweep has no motion."""
    turns = Slerp(np.arange(len(path.pos)), Rotation.from_matrix(path.rot))
    made, sweeps = [], []
    for number in range(1, len(path.pos)):
        share = recording.held_shares[number]
        pos = path.pos[number - 1] + share[:, None] * (path.pos[number] - path.pos[number - 1])
        made.append(turns(number - 1 + share).apply(recording.held[number]) + pos)
        sweeps.append(np.full(len(share), number))
    return np.concatenate(made), np.concatenate(sweeps)


def figures(points: np.ndarray, sweeps: np.ndarray, queries: np.ndarray) -> tuple[float, float]:
    """Wall thickness, cm, and mean map entropy of a map."""
    near = cKDTree(points).query_ball_point(points[queries], RADIUS_M)
    spread, entropy = [], []
    for each in near:
        if len(each) < MIN_POINTS or len(np.unique(sweeps[each])) < MIN_SWEEPS:
            continue
        values = np.linalg.eigvalsh(np.cov(points[each].T))
        entropy.append(0.5 * math.log((2 * math.pi * math.e) ** 3 * max(float(values.prod()), 1e-18)))
        if values[0] < FLAT * values[1]:
            spread.append(values[0])
    return 100 * float(np.sqrt(np.median(spread))), float(np.mean(entropy))


def play(kind: str, seed: int, folder: Path) -> dict[str, tuple[float, float, float]] | None:
    """ATE, cm, wall thickness, cm, and entropy of each trajectory; None where `_odom` has poses that are not valid."""
    recording = make(kind, seed, folder)
    if (found := ours(recording)) is None:
        return None
    paths = {"truth": recording.truth, "ours": found, "KISS-ICP": peer(recording), **perturbed(found, seed)}
    queries = np.random.default_rng(seed).choice(sum(map(len, recording.held[1:])), QUERIES, replace=False)
    return {
        name: (100 * straight(path.pos, recording.truth.pos), *figures(*mapped(recording, path), queries))
        for name, path in paths.items()
    }


def report(tables: list[dict[str, tuple[float, float, float]]]) -> None:
    """Record the rank correlations, and what the figures say of ours, the truth and KISS-ICP."""
    of = f"{len(tables)} worlds that the simulator did not make, {len(tables[0])} trajectories each"
    for column, figure in ((1, "wall thickness"), (2, "map entropy")):
        key = f"consistency/{figure}"
        for name, rank in (("Spearman", spearmanr), ("Kendall", kendalltau)):
            columns = [np.array(list(table.values())).T for table in tables]
            ranks = [rank(each[0], each[column])[0] for each in columns]
            low, middle, high = np.quantile(ranks, (0, 0.5, 1))
            record(f"{key}, {name}", f"{middle:.2f}", of=f"rank correlation with ATE, median of {of}")
            record(f"{key}, {name}, range", f"{low:.2f} to {high:.2f}", of=f"rank correlation with ATE, of {of}")
        alone = np.array([table["ours"] for table in tables]).T
        across = spearmanr(alone[0], alone[column])[0]
        what = "rank correlation (Spearman) with ATE of ours alone, each in a world of its own"
        record(f"{key}, across worlds", f"{across:.2f}", of=f"{what}, {of}")
        better = sum(each["ours"][column] < each["truth"][column] for each in tables)
        record(f"{key}, ours before truth", f"{better} of {len(tables)}", of=f"worlds where it calls ours better, {of}")
        for name in tables[0]:
            if name not in ("truth", "ours"):
                worse = [each for each in tables if each[name][0] > each["ours"][0]]
                seen = sum(each[name][column] > each["ours"][column] for each in worse)
                what = f"worlds where {name} has the larger ATE than ours, and it says so, {of}"
                record(f"{key}, {name}", f"{seen} of {len(worse)}", of=what)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.consistency")
    parser.add_argument("--worlds", type=int, default=20)
    parser.add_argument("--keep", type=Path, help="a folder in which the recordings stay")
    arguments = parser.parse_args()
    tables: list[dict[str, tuple[float, float, float]]] = []
    begun, seed = time.monotonic(), 0
    while len(tables) < arguments.worlds:
        kind, seed = KINDS[seed % len(KINDS)], seed + 1
        with tempfile.TemporaryDirectory(prefix="consistency-") as scratch:
            table = play(kind, seed, (arguments.keep or Path(scratch)) / f"{kind}-{seed}")
        print(f"{kind} {seed}: {'not all of our poses are valid' if table is None else ''}", flush=True)
        for name, row in (table or {}).items():
            print(f"    {name:18} ATE {row[0]:7.2f} cm, walls {row[1]:6.3f} cm, entropy {row[2]:7.4f}", flush=True)
        tables += [table] if table else []
    report(tables)
    print(f"{time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
