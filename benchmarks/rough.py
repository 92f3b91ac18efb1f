"""The odometry beside its peers where worlds are rough: `python -m benchmarks.rough --evalio PYTHON`.

For each simulated sequence, and for the real drive among the captures: ATE of `_odom` with and without the IMU, its
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
from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.errors import RoverError
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.importers.clouds import import_clouds
from rover_pipeline.lidar.geometry import returns
from rover_pipeline.lidar.spin import share_of_turn
from rover_pipeline.simulate import PRESETS
from rover_pipeline.simulate.record import simulate
from rover_pipeline.table import find_step

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


def ours(trace: Path, found: Recording, imu: bool) -> str:
    """ATE of all poses of `_odom`, and the share of the valid ones."""
    run_step(find_step("_odom"), trace, "_odom", Request(options={"imu": imu}))
    odom = Sensor(trace / "_odom")
    poses = Poses(odom.channel("pos").read(), odom.channel("rot").read(), 0.0)
    ate = errors(poses, found.truth.pos, found.truth.rot)[0]
    return f"{1e3 * ate:.1f} ({odom.channel('valid').read().mean():.0%})"


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


def evalio(python: str, sweeps: Path, pipeline: str, found: Recording) -> str:
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
    return f"{1e3 * min(tried):.1f}"


def simulated(seconds: float, lidar: str, columns: int, python: str | None, names: list[str]) -> None:
    pipelines = PIPELINES if python else ()
    print(f"\n{seconds:g} s of {lidar} x {columns} at 10 Hz; ATE in mm, and the share of valid poses of ours")
    header = ["sequence", "ours with IMU", "ours without", "KISS-ICP", "its deskewing off", "ouster-sdk SLAM"]
    print("| " + " | ".join([*header, *pipelines]) + " |\n" + "| --- " * (6 + len(pipelines)) + "|")
    for name in names:
        trace = recording(name, seconds, lidar, columns)
        found = load(trace)
        cells = [name]
        for imu in (True, False):
            try:
                cells.append(ours(trace, found, imu))
            except RoverError as error:
                cells.append(f"failed: {error}")
        cells += [f"{1e3 * best_instant(kiss_icp(found, deskew=deskew), found)[0]:.1f}" for deskew in (True, False)]
        cells.append(f"{1e3 * min(best_instant(each, found)[0] for each in ouster(found)):.1f}")
        with tempfile.TemporaryDirectory(prefix="rough-") as folder:
            if python:
                sweeps_file(Path(folder) / "sweeps.npz", trace, found)
                cells += [evalio(python, Path(folder) / "sweeps.npz", each, found) for each in pipelines]
        print("| " + " | ".join(cells) + " |", flush=True)


def drive(captures: Path, python: str | None) -> None:
    """22 sweeps of a car through `import clouds` and `_odom`, beside the INS, and the peers.

    The motion within the sweeps is not undone. Points have no times: their instants are by azimuth, as the beams turn
    clockwise. Peers are given the sweeps with these instants, and with one instant for all points.
    """
    from kiss_icp.config import load_config
    from kiss_icp.kiss_icp import KissICP

    source = captures / "lidar_hdl64_straight"
    poses = source / "truth_poses_ins.txt"
    truth = np.loadtxt(poses).reshape(-1, 3, 4)[:, :, 3]

    def told(name: str, pos: np.ndarray) -> None:
        way = np.linalg.norm(np.diff(pos, axis=0), axis=1).sum()
        print(f"{name}: ATE {1e3 * straight(pos, truth):.1f} mm, path {way:.2f} m", flush=True)

    with tempfile.TemporaryDirectory(prefix="drive-") as scratch:
        folder = Path(scratch) / "clouds"
        folder.mkdir()
        files = sorted(source.glob("*.npz"))
        for path in files:
            (folder / path.name).symlink_to(path)
        for turning in ("clockwise", None):
            trace = Path(scratch) / f"trace-{turning}"
            import_clouds(folder, trace, rate=10, start=1.3e9, poses=poses, turning=turning, compensated=not turning)
            run_step(find_step("_odom"), trace, "_odom", Request())
            odom = Sensor(trace / "_odom")
            valid = odom.channel("valid").read().sum()
            # Ours are at the ends of sweeps, and the INS where the lidar looks ahead.
            after = odom.channel("ts").read() - 1.3e9 - 0.1 * np.arange(len(files))
            pos = odom.channel("pos").read() - after[:, None] * odom.channel("vel").read()
            told(f"ours, {turning or 'at one instant'}, {valid} of {len(files)} valid", pos)
        clouds = [np.load(path)["xyz_mm"] / 1000 for path in files]
        shares = [share_of_turn(cloud, "clockwise") + 0.5 for cloud in clouds]
        for deskew in (True, False):
            config = load_config(None)
            config.data.deskew = deskew
            odometry, made = KissICP(config), []
            for cloud, share in zip(clouds, shares, strict=True):
                odometry.register_frame(cloud, share)
                made.append(odometry.last_pose)
            told(f"KISS-ICP, deskewing {'as by default' if deskew else 'off'}", np.stack(made)[:, :3, 3])
        for turning in ("clockwise", "at one instant") if python else ():
            for pipeline in ("CTICP", "MadICP", "GenZICP"):
                sweeps, out = Path(scratch) / "sweeps.npz", Path(scratch) / "out.npz"
                points, seconds, none = [], [], np.zeros((0, 3))
                for cloud, share in zip(clouds, shares, strict=True):
                    order = np.argsort(share, kind="stable")
                    points.append(cloud[order].astype("f4"))
                    seconds.append(0.1 * share[order].astype("f4") * (turning == "clockwise"))
                np.savez(
                    sweeps, points=np.concatenate(points), seconds=np.concatenate(seconds),
                    ends=np.cumsum([len(cloud) for cloud in clouds]), starts=2.0 + 0.1 * np.arange(len(clouds)),
                    shape=np.array([64, 2000]), mount=np.eye(4), imu_ts=none[:, 0], avel=none, acc=none,
                )  # fmt: skip
                script = Path(__file__).with_name("evalio_peer.py")
                command = [str(python), str(script), str(sweeps), pipeline, str(out)]
                subprocess.run(command, capture_output=True, check=True, timeout=_PATIENCE_S)
                found = np.load(out)
                _, kept = np.unique(found["ts"], return_index=True)
                told(f"{pipeline}, {turning}", found["poses"][kept][: len(clouds), :3, 3])


def straight(pos: np.ndarray, truth: np.ndarray) -> float:
    """Root mean square distance after the fit of one rotation and translation, m."""
    moved, wanted = pos - pos.mean(0), truth - truth.mean(0)
    rotation, _ = Rotation.align_vectors(wanted, moved)
    return float(np.sqrt(np.mean(np.sum((rotation.apply(moved) - wanted) ** 2, axis=1))))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=6.0, help="of each sequence; 0 = only the real drive")
    parser.add_argument("--lidar", default="OS-1-64")
    parser.add_argument("--columns", type=int, default=1024)
    parser.add_argument("--evalio", help="a Python with evalio")
    parser.add_argument("--captures", type=Path, help="the folder of the real captures")
    parser.add_argument("names", nargs="*", help="sequences; all unless given")
    chosen = parser.parse_args()
    print_versions("small_gicp", "kiss-icp", "ouster-sdk")
    if chosen.captures:
        drive(chosen.captures, chosen.evalio)
    if chosen.seconds > 0:
        simulated(chosen.seconds, chosen.lidar, chosen.columns, chosen.evalio, chosen.names or list(SEQUENCES))
