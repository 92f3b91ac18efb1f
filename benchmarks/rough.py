"""The odometry beside its peers where worlds are rough: `python -m benchmarks.rough --evalio PYTHON`.

For each simulated sequence (`benchmarks.drives` has the real ones): ATE of `_odom` with and without the IMU, its
share of valid poses, and the ATE of KISS-ICP with and without deskewing, of ouster-sdk's SLAM and of what evalio
bundles, on the same sweeps. A peer does not say which instant of a sweep its poses refer to, nor of which sensor they
are: it is given what suits it best. `PYTHON` is that of an environment with evalio, which needs another numpy.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation, Slerp

from benchmarks.data import FOLDER
from benchmarks.measure import print_versions
from benchmarks.odometry import Poses, Recording, best_instant, errors, kiss_icp, load, ouster
from benchmarks.results import record
from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.errors import RoverError
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.lidar.geometry import returns
from rover_pipeline.simulate.presets import PRESETS
from rover_pipeline.simulate.record import simulate
from rover_pipeline.table import find_step
from rover_pipeline.validation.accuracy import align

#: Preset, changes of it, and faults, by the name of the sequence.
SEQUENCES: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "indoor": ("indoor", {}, ()),
    "crowd": ("crowd", {}, ()),
    "park": ("park", {}, ()),
    "park, unkind": ("park", {}, ("unkind",)),
    "bushes, 0.05 m": ("bushes", {"leaf_depth": 0.05}, ("unkind",)),
    "bushes, 0.15 m": ("bushes", {"leaf_depth": 0.15}, ("unkind",)),
    "bushes, 0.3 m": ("bushes", {"leaf_depth": 0.3}, ("unkind",)),
}
PIPELINES = ("CTICP", "MadICP", "GenZICP", "DLIO")
#: Longest time that a pipeline may take for a sequence, seconds: one that never ends is a failure.
_PATIENCE_S = 600.0


def recording(name: str, seconds: float, lidar: str, columns: int) -> Path:
    """A simulated trace of lidar and IMU with its range images, made on the first run."""
    preset, changes, faults = SEQUENCES[name]
    path = FOLDER / f"rough_{name.replace(', ', '_').replace(' ', '')}_{lidar}_{columns}_{seconds:g}s"
    if not path.exists():
        chosen = PRESETS[preset].model_copy(update=changes | {"lidar": lidar, "columns": columns})
        simulate(path, preset=chosen, duration=seconds, sensors=("lidar", "imu"), faults=faults)
    if not (path / "_lidar_image").exists():
        run_step(find_step("_lidar_image"), path, "_lidar_image", Request())
    return path


def ours(trace: Path, found: Recording, imu: bool) -> tuple[float, float]:
    """ATE of all poses of `_odom`, mm, and the share of the valid ones, %."""
    run_step(find_step("_odom"), trace, "_odom", Request(options={"imu": imu}))
    odom = Sensor(trace / "_odom")
    poses = Poses(odom.channel("pos").read(), odom.channel("rot").read(), 0.0)
    ate = errors(poses, found.truth.pos, found.truth.rot)[0]
    return 1e3 * ate, 100 * float(odom.channel("valid").read().mean())


def sweeps_file(path: Path, trace: Path, found: Recording) -> None:
    """The sweeps and the IMU as `benchmarks/evalio_peer.py` reads them, with the true pose of the IMU."""
    points, seconds, ends = [], [], []
    period = 0.1
    for image in found.rng:
        cloud, column = returns(image, found.metadata)
        order = np.argsort(column, kind="stable")
        points.append(cloud[order].astype("f4"))
        seconds.append((column[order] * period / image.shape[1]).astype("f4"))
        ends.append(len(cloud))
    imu, truth = Sensor(trace / "imu"), json.loads((trace / "_truth" / "truth.json").read_text())
    mount = np.eye(4)
    mount[:3, :3], mount[:3, 3] = (truth["mounts"]["imu"][key] for key in ("rotation", "translation"))
    origin = Sensor(trace / "lidar").channel("ts").read()[0] - 2.0
    starts = found.ts + 2.0 - period
    np.savez(
        path, points=np.concatenate(points), seconds=np.concatenate(seconds), ends=np.cumsum(ends), starts=starts,
        shape=np.array(found.rng.shape[1:]), mount=mount, imu_ts=imu.channel("ts").read() - origin,
        avel=imu.channel("avel").read(), acc=imu.channel("acc").read(),
    )  # fmt: skip


def evalio(python: str, sweeps: Path, pipeline: str, found: Recording) -> float | str:
    """ATE of a pipeline in its best reading, mm, or why it has none."""
    out, script = sweeps.with_name(f"{pipeline}.npz"), Path(__file__).with_name("evalio_peer.py")
    command = [python, str(script), str(sweeps), pipeline, str(out)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    except subprocess.TimeoutExpired:
        return "no end"
    if done.returncode or not out.exists():
        return f"failed ({done.returncode})"
    made, mount = np.load(out), np.load(sweeps)["mount"]
    if len(made["ts"]) < 0.9 * len(found.ts):
        return f"{len(made['ts'])} of {len(found.ts)} poses"
    tried = []
    for poses in (made["poses"], made["poses"] @ np.linalg.inv(mount)):
        ts, kept = np.unique(made["ts"], return_index=True)
        at = np.clip(found.ts + 1.9, ts[0], ts[-1])
        pos = np.stack([np.interp(at, ts, poses[kept, axis, 3]) for axis in range(3)], 1)
        rot = Slerp(ts, Rotation.from_matrix(poses[kept, :3, :3]))(at).as_matrix()
        tried.append(best_instant(Poses(pos, rot, 0.0), found)[0])
    return 1e3 * min(tried)


def simulated(seconds: float, lidar: str, columns: int, python: str | None, names: list[str], *, alone: bool) -> None:
    pipelines = PIPELINES if python else ()
    of = f"{seconds:g} s of {lidar} x {columns} at 10 Hz"
    for name in names:
        trace = recording(name, seconds, lidar, columns)
        found = load(trace)

        def record_ate(what: str, ate: float | str, name: str = name) -> None:
            shown = (f"{ate:.1f}", "mm") if isinstance(ate, float) else (ate, "")
            record(f"rough/{name}/{what}", *shown, of=f"ATE of {name}, {of}")

        for what, imu in (("ours with IMU", True), ("ours without", False)):
            try:
                ate, valid = ours(trace, found, imu)
            except RoverError as error:
                record_ate(what, f"failed: {error}")
            else:
                record_ate(what, ate)
                record(f"rough/{name}/{what}: valid", f"{valid:.0f}", "%", of=f"{name}, {of}")
        if alone:
            continue
        record_ate("KISS-ICP", 1e3 * best_instant(kiss_icp(found), found)[0])
        record_ate("KISS-ICP, deskewing off", 1e3 * best_instant(kiss_icp(found, deskew=False), found)[0])
        record_ate("ouster-sdk SLAM", 1e3 * min(best_instant(each, found)[0] for each in ouster(found)))
        with tempfile.TemporaryDirectory(prefix="rough-") as folder:
            if python:
                sweeps_file(Path(folder) / "sweeps.npz", trace, found)
            for each in pipelines:
                record_ate(each, evalio(str(python), Path(folder) / "sweeps.npz", each, found))


def straight(pos: np.ndarray, truth: np.ndarray) -> float:
    """Root mean square distance after the fit of one rotation and translation, m."""
    return float(np.sqrt(np.mean(np.sum((align(pos, truth).of(pos) - truth) ** 2, axis=1))))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=6.0, help="of each sequence")
    parser.add_argument("--lidar", default="OS-1-64")
    parser.add_argument("--columns", type=int, default=1024)
    parser.add_argument("--evalio", help="a Python with evalio")
    parser.add_argument("--ours", action="store_true", help="ours alone: figures of peers stay those of the file")
    parser.add_argument("names", nargs="*", help="sequences; all unless given")
    chosen = parser.parse_args()
    print_versions("small_gicp", "kiss-icp", "ouster-sdk")
    names = chosen.names or list(SEQUENCES)
    simulated(chosen.seconds, chosen.lidar, chosen.columns, chosen.evalio, names, alone=chosen.ours)
