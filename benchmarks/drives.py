"""Real sequences with a truth that nobody here made, through the command line, beside peers on the same points.

    python -m benchmarks.drives [--captures ../shared/data] [--evalio PYTHON] [--only NAME ...]

Each sequence is imported as the manual says, run, and compared with its truth. Figures go to `benchmarks/results.json`,
and the table of that file is printed. `tests/odometry/test_drives.py` fails where ours become worse by a tenth.
`PYTHON` is that of an environment with evalio, for CT-ICP, MAD-ICP and GenZ-ICP; without it their figures stay those
of the file.

The truth of a drive is its INS. It knows speeds, lengths and angles well, and positions to 0.1 m (city street) and
0.45 m (open road) only: an ATE of a few centimetres says nothing about which pipeline is better.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from benchmarks import results
from benchmarks.drives_others import imu_broad, imu_lio, radar_saic
from benchmarks.drives_peers import EVALIO_PIPELINES, Clouds, evalio_peer, kiss_icp
from benchmarks.results import Row
from benchmarks.rough import straight
from rover_pipeline.errors import RoverError
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.lidar.spin import share_of_turn

CAPTURES = Path(os.environ.get("ROVER_PIPELINE_DATA", Path(__file__).parents[2] / "shared" / "data"))
#: Units of the columns of the table.
UNITS = {
    "valid": "%", "ATE": "cm", "ATE of valid": "cm", "per 10 m": "%", "turn per 10 m": "degrees", "height": "cm",
    "length": "m", "length of INS": "m", "deviation of INS": "m", "speed": "cm/s",
    "wrong and sure": "%", "NEES 1 s": "", "NEES": "", "NEES 1 s with INS": "", "NEES with INS": "", "NEES of way": "",
}  # fmt: skip
#: What becomes better when it becomes larger; of all others the opposite is true, but lengths have no better.
LARGER_IS_BETTER = ("valid",)
NEITHER_IS_BETTER = ("length", "length of INS", "deviation of INS")
#: Time between two records of such an INS, s.
_RECORD_S = 0.01
#: Standard deviation of the angles of such an INS, rad, which its records do not say.
_INS_ANGLE = np.radians(0.1)


class Drive(NamedTuple):
    """A drive of a lidar with an INS.

    Attributes:
        folder: among the captures; of: what it is; count: number of sweeps.
    """

    folder: str
    of: str


DRIVES = {
    "open road": Drive("lidar_kitti_0027", "KITTI 0027, 50 sweeps, 16 to 20 m/s"),
    "city street": Drive("lidar_hdl64_straight", "KITTI 0048, 22 sweeps, 8 m/s"),
}
#: Ways to take a drive: options of `import kitti`, or None for `import clouds --compensated`, and of `run`.
WAYS: dict[str, tuple[tuple[str, ...] | None, bool, tuple[str, ...]]] = {
    "ours": ((), True, ()),
    "ours, elevations as published": (("--elevation", "0"), False, ()),
    "ours, points=30000": ((), True, ("odometry.points=30000",)),
    "ours, one instant": (None, True, ()),
    "ours, one instant, as published": (None, False, ()),
    "ours, one instant, points=30000": (None, True, ("odometry.points=30000",)),
}


class Truth(NamedTuple):
    """The lidar by the INS, at the instants at which it looked ahead.

    Attributes:
        ts: f8 (N,), s; pos, rot: f8 (N, 3) and (N, 3, 3); speed: f8 (N,), m/s.
        pos_sigma, vel_sigma: that the INS reports, m and m/s.
    """

    ts: np.ndarray
    pos: np.ndarray
    rot: np.ndarray
    speed: np.ndarray
    pos_sigma: float
    vel_sigma: float


class Poses(NamedTuple):
    """Poses at the instants of the truth; `cov` and `valid` are None of a pipeline that has none."""

    pos: np.ndarray
    rot: np.ndarray
    cov: np.ndarray | None = None
    valid: np.ndarray | None = None


def command(*words: str) -> None:
    """Run a command of the package; it must succeed."""
    done = subprocess.run([sys.executable, "-m", "rover_pipeline", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RoverError(f"rover-pipeline {' '.join(words)}: {done.stderr.strip()[-2000:]}")


def clouds_of(source: Path) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Points (N, 3), m, and reflectances (N,) of the sweeps of a folder of captures."""
    if not (source / "decode.py").exists():
        for path in sorted(source.glob("*.npz")):
            with np.load(path) as stored:
                yield stored["xyz_mm"] / 1000, stored["intensity_pct"] / 100
        return
    spec = importlib.util.spec_from_file_location("decode", source / "decode.py")
    assert spec is not None and spec.loader is not None
    decode = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(decode)
    for path in sorted(source.glob("*LIDAR.npz")) or sorted(source.glob("0*.npz")):
        yield decode.load(path)


def truth_of(source: Path) -> Truth:
    """The truth of a drive.

    Where the times of its sweeps are unknown, they are counted: a sweep has the record of the INS that is nearest to
    it, which writes one each 10 ms, so that the way between two sweeps, by its speed, takes a whole number of these.
    """
    (poses,) = source.glob("truth_poses*.txt")
    matrices = np.loadtxt(poses).reshape(-1, 3, 4)
    (oxts,) = source.glob("*oxts_25col.txt")
    records, stamps = np.loadtxt(oxts), source / "timestamps_ns.txt"
    speed = np.linalg.norm(records[:, [6, 7, 10]], axis=1)  # north, east and up
    way = np.linalg.norm(np.diff(matrices[:, :, 3], axis=0), axis=1)
    period = _RECORD_S * np.round(way / ((speed[1:] + speed[:-1]) / 2) / _RECORD_S).mean()
    ts = np.loadtxt(stamps) / 1e9 if stamps.exists() else 1317046450.0 + period * np.arange(len(matrices))
    return Truth(ts, matrices[:, :, 3], matrices[:, :, :3], speed, *records[:, 23:25].mean(0).tolist())


def as_kitti(captures: Path, name: str, day: Path) -> Path:
    """The drive in KITTI's layout, as it was published."""
    source, truth = captures / DRIVES[name].folder, truth_of(captures / DRIVES[name].folder)
    drive = day / f"2011_09_26_drive_{'0027' if name == 'open road' else '0048'}_sync"
    lines = [f"{datetime.datetime.fromtimestamp(t, datetime.UTC):%Y-%m-%d %H:%M:%S.%f}000" for t in truth.ts.tolist()]
    for part in ("velodyne_points", "oxts"):
        (drive / part / "data").mkdir(parents=True)
        (drive / part / "timestamps.txt").write_text("\n".join(lines) + "\n")
    for number, (xyz, reflectance) in enumerate(clouds_of(source)):
        cloud = np.column_stack([xyz, reflectance]).astype("<f4")
        cloud.tofile(drive / "velodyne_points" / "data" / f"{number:010d}.bin")
    (oxts,) = source.glob("*oxts_25col.txt")
    for number, line in enumerate(oxts.read_text().splitlines()):
        (drive / "oxts" / "data" / f"{number:010d}.txt").write_text(f"{line}\n")
    # Both drives are of one day, whose calibration only one of the captures has.
    calibration = captures / DRIVES["open road"].folder / "calib_imu_to_velo.txt"
    (day / calibration.name).write_text(calibration.read_text())
    return drive


def imported(captures: Path, name: str, way: str, folder: Path) -> Path:
    """The trace of a drive, made on the first call for each way to take it."""
    options, raised, _ = WAYS[way]
    trace = folder / f"{name}-{'instant' if options is None else 'dated'}-{'raised' if raised else 'published'}"
    if trace.exists():
        return trace
    if options is not None:
        drives = list((folder / f"{name}-kitti").glob("*_sync"))
        drive = drives[0] if drives else as_kitti(captures, name, folder / f"{name}-kitti")
        command("import", "kitti", str(drive), "-o", str(trace), *options)
        return trace
    clouds = folder / f"{name}-clouds-{raised}"
    clouds.mkdir()
    dated = Sensor(imported(captures, name, "ours" if raised else "ours, elevations as published", folder) / "lidar")
    for number, count in enumerate(dated.channel("count").read().tolist()):
        points = dated.channel("xyz").read(number, number + 1)[0][:count]
        np.column_stack([points, np.zeros(count)]).astype("<f4").tofile(clouds / f"{number:06d}.bin")
    (clouds / "timestamps.txt").write_text("\n".join(f"{t:.9f}" for t in truth_of_drive(captures, name).ts) + "\n")
    command("import", "clouds", str(clouds), "-o", str(trace), "--compensated")
    return trace


def truth_of_drive(captures: Path, name: str) -> Truth:
    return truth_of(captures / DRIVES[name].folder)


def ours(captures: Path, name: str, way: str, folder: Path) -> dict[str, float]:
    """Figures of `_odom`, through the command line."""
    trace, truth = imported(captures, name, way, folder), truth_of_drive(captures, name)
    command("run", str(trace), "--outputs", "odom", *(("--config", *WAYS[way][2]) if WAYS[way][2] else ()))
    odom = Sensor(trace / "_odom")
    ts, pos, rot, vel, avel, cov, valid = (
        odom.channel(each).read() for each in ("ts", "pos", "rot", "vel", "avel", "cov", "valid")
    )
    # Poses are at the ends of sweeps, or where the lidar looks ahead, and the truth is where it looks ahead.
    back = (ts - truth.ts)[:, None]
    turned = rot @ Rotation.from_rotvec(-back * avel).as_matrix()
    return figures(Poses(pos - back * vel, turned, cov, valid.astype(bool)), truth)


def figures(poses: Poses, truth: Truth) -> dict[str, float]:
    """What the truth says about poses."""
    found = {
        "ATE": 100 * straight(poses.pos, truth.pos),
        "length": float(np.linalg.norm(np.diff(poses.pos, axis=0), axis=1).sum()),
        "length of INS": float(_way(truth)[-1]),
        "deviation of INS": float(truth.vel_sigma * (truth.ts[-1] - truth.ts[0])),
        "speed": _speed_error(poses, truth),
        "height": 100 * abs(_risen(poses.pos, poses.rot) - _risen(truth.pos, truth.rot)),
    }
    found["per 10 m"], found["turn per 10 m"] = _per_way(poses, truth, 10.0)
    if poses.cov is None or poses.valid is None:
        return found
    found["valid"] = 100 * float(poses.valid.mean())
    found["ATE of valid"] = 100 * straight(poses.pos[poses.valid], truth.pos[poses.valid])
    found["wrong and sure"] = _wrong(poses, truth)
    at = np.flatnonzero(poses.valid)
    second = np.searchsorted(truth.ts, truth.ts[at] + 1 - 0.05)
    pairs = [(i, j) for i, j in zip(at.tolist(), second.tolist(), strict=True) if j < len(truth.ts) and poses.valid[j]]
    found["NEES 1 s"] = _nees(poses, truth, pairs, 0.0, both=True)
    found["NEES 1 s with INS"] = _nees(poses, truth, pairs, truth.vel_sigma, both=True)
    found["NEES of way"] = _nees_of_way(poses, truth, pairs)
    whole = [(int(at[0]), j) for j in at[1:].tolist()] if len(at) else []
    found["NEES"] = _nees(poses, truth, whole, 0.0, both=False)
    found["NEES with INS"] = _nees(poses, truth, whole, np.sqrt(2) * truth.pos_sigma, both=False)
    return found


def _risen(pos: np.ndarray, rot: np.ndarray) -> float:
    """How far the last pose is above the first one, in the frame of that, m."""
    return float((pos[-1] - pos[0]) @ rot[0, :, 2])


def _wrong(poses: Poses, truth: Truth) -> float:
    """Share of the pairs of valid poses 1 and 2 s apart whose distance is off by more than 5 cm and 3 %, in %."""
    assert poses.valid is not None
    wrong = []
    for seconds in (1.0, 2.0):
        steps = round(seconds / float(np.median(np.diff(truth.ts))))
        gone, truly = (np.linalg.norm(pos[steps:] - pos[:-steps], axis=1) for pos in (poses.pos, truth.pos))
        both = poses.valid[steps:] & poses.valid[:-steps]
        wrong += (np.abs(gone - truly) > 0.05 + 0.03 * truly)[both].tolist()
    return 100 * float(np.mean(wrong)) if wrong else 0.0


def _speed_error(poses: Poses, truth: Truth) -> float:
    """Root mean square difference of the speeds of 1 s, cm/s. Single steps are as short as the clock's errors."""
    span = min(10, len(truth.ts) - 1)
    took = truth.ts[span:] - truth.ts[:-span]
    way = _way(truth)
    gone = np.linalg.norm(poses.pos[span:] - poses.pos[:-span], axis=1)
    return float(100 * np.sqrt(np.mean(np.square((gone - (way[span:] - way[:-span])) / took))))


def _way(truth: Truth) -> np.ndarray:
    """The way since the first pose by the speeds of the INS, f8 (N,), m."""
    return np.concatenate([[0.0], np.cumsum((truth.speed[1:] + truth.speed[:-1]) / 2 * np.diff(truth.ts))])


def _per_way(poses: Poses, truth: Truth, metres: float) -> tuple[float, float]:
    """Mean error of motions over a way, in % of it, and of their rotations, degrees."""
    way = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(truth.pos, axis=0), axis=1))])
    last = np.searchsorted(way, way + metres)
    first = np.flatnonzero(last < len(way))
    if not len(first):
        return np.nan, np.nan
    last = last[first]
    moved, turned = _motion(poses.pos, poses.rot, first, last)
    truly, truly_turned = _motion(truth.pos, truth.rot, first, last)
    share = np.linalg.norm(moved - truly, axis=1) / (way[last] - way[first])
    return float(100 * share.mean()), float(np.degrees((turned.inv() * truly_turned).magnitude()).mean())


def _motion(pos: np.ndarray, rot: np.ndarray, first: np.ndarray, last: np.ndarray) -> tuple[np.ndarray, Rotation]:
    back = np.swapaxes(rot[first], 1, 2)
    return np.einsum("nij,nj->ni", back, pos[last] - pos[first]), Rotation.from_matrix(back @ rot[last])


def _nees(poses: Poses, truth: Truth, pairs: list[tuple[int, int]], ins: float, *, both: bool) -> float:
    """Mean normalised error squared of the motions between pairs of poses, per degree of freedom.

    Args:
        ins: standard deviation of the motion by the INS, m; 0 = it is taken for exact.
        both: the covariances of both poses count, as if they were independent, which makes the figure too small where
            they have errors in common; else that of the second one, of which the first one is the origin.
    """
    assert poses.cov is not None
    if not pairs:
        return np.nan
    first, last = np.array(pairs).T
    moved, turned = _motion(poses.pos, poses.rot, first, last)
    truly, truly_turned = _motion(truth.pos, truth.rot, first, last)
    back = turned.inv()
    error = np.concatenate([back.apply(truly - moved), (back * truly_turned).as_rotvec()], 1)
    cov = _cov_of_motion(poses.cov, moved, back, first, last) if both else poses.cov[last].astype("f8")
    if ins:
        cov = cov + np.diag([ins**2] * 3 + [2 * _INS_ANGLE**2] * 3)
    if not np.isfinite(cov).all():
        return np.inf
    return float(np.einsum("ni,nij,nj->n", error, np.linalg.pinv(cov, hermitian=True), error).mean() / 6)


def _nees_of_way(poses: Poses, truth: Truth, pairs: list[tuple[int, int]]) -> float:
    """Mean normalised error squared of the ways between pairs of poses by the speed of the INS, with its deviation.

    Its speed over a second is one measurement, whose errors do not become less by taking the mean of records.
    """
    assert poses.cov is not None
    if not pairs:
        return np.nan
    first, last = np.array(pairs).T
    moved, turned = _motion(poses.pos, poses.rot, first, last)
    cov, gone = _cov_of_motion(poses.cov, moved, turned.inv(), first, last), np.linalg.norm(moved, axis=1)
    along = turned.inv().apply(moved) / np.maximum(gone, 1e-9)[:, None]
    took, way = truth.ts[last] - truth.ts[first], _way(truth)
    variance = np.einsum("ni,nij,nj->n", along, cov[:, :3, :3], along) + (truth.vel_sigma * took) ** 2
    return float(np.mean((gone - (way[last] - way[first])) ** 2 / variance))


def _cov_of_motion(
    cov: np.ndarray, moved: np.ndarray, back: Rotation, first: np.ndarray, last: np.ndarray
) -> np.ndarray:
    """Covariances of motions between pairs of poses, f8 (N, 6, 6), in the frames of the second ones."""
    cross = np.zeros((len(first), 3, 3))
    for (i, j), sign in {(0, 1): -1, (1, 0): 1, (0, 2): 1, (2, 0): -1, (1, 2): -1, (2, 1): 1}.items():
        cross[:, i, j] = sign * moved[:, 3 - i - j]
    lever = np.zeros((len(first), 6, 6))
    lever[:, :3, :3] = lever[:, 3:, 3:] = back.as_matrix()
    lever[:, :3, 3:] = -back.as_matrix() @ cross
    found: np.ndarray = cov[last].astype("f8") + lever @ cov[first].astype("f8") @ np.swapaxes(lever, 1, 2)
    return found


def peers(captures: Path, name: str, folder: Path, python: str | None) -> Iterator[tuple[str, dict[str, float]]]:
    """Figures of other pipelines on the points that ours are made of, raised and dated."""
    lidar, truth = Sensor(imported(captures, name, "ours", folder) / "lidar"), truth_of_drive(captures, name)
    counts = lidar.channel("count").read().tolist()
    points = [lidar.channel("xyz").read(i, i + 1)[0][:count].astype("f8") for i, count in enumerate(counts)]
    clouds = Clouds(points, [share_of_turn(each, "clockwise") + 0.5 for each in points])
    runs: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
        "KISS-ICP, one instant": lambda: kiss_icp(clouds, deskew=False),
        "KISS-ICP, deskewed": lambda: kiss_icp(clouds, deskew=True),
    }
    for pipeline, called in EVALIO_PIPELINES.items() if python else ():
        for dated in (False, True):
            label = f"{called}, {'dated' if dated else 'one instant'}"
            runs[label] = functools.partial(evalio_peer, str(python), pipeline, clouds, folder, dated=dated)
    for label, run in runs.items():
        try:
            pos, rot = run()
        except (OSError, subprocess.SubprocessError) as error:
            print(f"{name}: {label} failed: {error}", flush=True)
            continue
        if len(pos) != len(truth.ts):
            print(f"{name}: {label} has {len(pos)} of {len(truth.ts)} poses", flush=True)
            continue
        # A peer does not say which instant of a sweep its poses are of: it is given what suits it best.
        vel = np.gradient(pos, truth.ts, axis=0)
        tried = [figures(Poses(pos + shift * vel, rot), truth) for shift in (-0.05, 0.0, 0.05)]
        yield label, min(tried, key=lambda each: each["ATE"])


def few_sweeps(captures: Path, folder: Path) -> dict[str, float]:
    """Three sweeps of another rig, 1 s apart, with the poses of its makers."""
    source = captures / "lidar_camera_dgp"
    scene = json.loads((source / "scene.json").read_text())
    known = {each["file"]: each["pose"] for each in scene["data"]}
    files = sorted(source.glob("*_LIDAR.npz"))
    clouds = folder / "dgp"
    clouds.mkdir()
    for path, (xyz, intensity) in zip(files, clouds_of(source), strict=True):
        np.column_stack([xyz, intensity]).astype("<f4").tofile(clouds / f"{path.stem}.bin")
    ts = [int(path.stem.partition("_")[0]) / 1e7 for path in files]
    (clouds / "timestamps.txt").write_text("\n".join(f"{t:.7f}" for t in ts) + "\n")
    command("import", "clouds", str(clouds), "-o", str(folder / "dgp-trace"), "--compensated")
    command("run", str(folder / "dgp-trace"), "--outputs", "odom")
    odom = Sensor(folder / "dgp-trace" / "_odom")
    truth = np.array([known[path.name] for path in files])
    pos, valid = odom.channel("pos").read(), odom.channel("valid").read()
    return {
        "valid": 100 * float(valid.mean()),
        "ATE": 100 * straight(pos, truth[:, :3, 3]),
        "length": float(np.linalg.norm(np.diff(pos, axis=0), axis=1).sum()),
        "length of INS": float(np.linalg.norm(np.diff(truth[:, :3, 3], axis=0), axis=1).sum()),
    }


def load() -> dict[str, Row]:
    """Rows of the drives in the file of results by their keys, `drives/SEQUENCE, WHO/COLUMN`."""
    return {key: row for key, row in results.load().items() if key.startswith("drives/")}


def record(row: str, found: dict[str, float], of: str, units: dict[str, str] | None = None) -> None:
    """Write the figures of a row of the table into the file of results, in place of those that were measured before."""
    units = {**UNITS, **(units or {})}
    for column, value in found.items():
        # A length is shown with two digits: what counts is its small difference from the length of the INS.
        digits = f"{value:.2f}" if column in NEITHER_IS_BETTER else shown(value)
        results.record(f"drives/{row}/{column}", digits, units[column], of=of, world="real")


def shown(value: float) -> str:
    """Three digits, and all of those before the point."""
    if not np.isfinite(value):
        return f"{value}"
    return (
        f"{value:.0f}"
        if abs(value) >= 1000 or value == int(value)
        else f"{value:.3g}"
        if value < 100
        else f"{value:.4g}"
    )


def table() -> str:
    """The rows of the file as a table."""
    rows = load()
    names = list(dict.fromkeys(key.split("/")[1] for key in rows))
    columns = [each for each in UNITS if any(key.endswith(f"/{each}") for key in rows)]
    lines = ["| | " + " | ".join(f"{each}, {UNITS[each]}" if UNITS[each] else each for each in columns) + " |"]
    lines.append("| --- " * (1 + len(columns)) + "|")
    others = []
    for name in names:
        cells = [getattr(rows.get(f"drives/{name}/{column}"), "value", "") for column in columns]
        if any(cells):
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
        own = {key.split("/")[2]: row for key, row in rows.items() if key.startswith(f"drives/{name}/")}
        extra = [f"{key} {row}" for key, row in own.items() if key not in UNITS]
        if extra:
            others.append(f"- {name}: {', '.join(extra)}")
    return "\n".join([*lines, "", *others])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--captures", type=Path, default=CAPTURES)
    parser.add_argument("--evalio", metavar="PYTHON")
    parser.add_argument("--only", nargs="+", default=[], help="sequences; all unless given")
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS, help="to take a drive; all unless given")
    parser.add_argument("--ours", action="store_true", help="ours alone: figures of peers stay those of the file")
    parser.add_argument("--table", action="store_true", help="only print the table of the file")
    given = parser.parse_args()
    if given.table:
        print(table())
        return
    chosen = given.only or [*DRIVES, "few sweeps", "imu_broad", "imu_lio", "radar_saic"]
    with tempfile.TemporaryDirectory(prefix="drives-") as scratch:
        folder = Path(scratch)
        for name in (each for each in DRIVES if each in chosen):
            for way in given.ways:
                record(f"{name}, {way}", ours(given.captures, name, way, folder), DRIVES[name].of)
            others = () if given.ours else peers(given.captures, name, folder, given.evalio)
            for label, found in others:
                record(f"{name}, {label}", found, DRIVES[name].of)
        if "few sweeps" in chosen:
            of = "DDAD's rig, three sweeps 1 s apart, 1.3 m/s, poses of its makers"
            record("few sweeps, ours, one instant", few_sweeps(given.captures, folder), of)
        for name, measure in {"imu_broad": imu_broad, "imu_lio": imu_lio, "radar_saic": radar_saic}.items():
            if name in chosen:
                for row in measure(given.captures / name, folder, command):
                    record(row.name, row.found, row.of, row.units)
    print(f"\n{table()}")


if __name__ == "__main__":
    main()
