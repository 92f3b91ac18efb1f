"""The odometry beside KISS-ICP and ouster-sdk's SLAM on the same sweeps: `python -m benchmarks.odometry`.

For each simulated sequence, with the truth as the judge: errors of `_odom`, made without the IMU by the step that users
run, and of the peers at their defaults, and the time each takes for a sweep. That of ours holds the start of a process,
reading and writing. A peer does not say which instant of a sweep its poses refer to: it is given the one that suits it
best. Then the step at 128x2048: how many times real time it is on two threads, and what parts that are registered at
once cost and gain.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.spatial.transform import Rotation, RotationSpline
from threadpoolctl import threadpool_limits

from benchmarks.data import FOLDER
from benchmarks.measure import print_versions, run, step_command
from benchmarks.ouster_slam import OusterOdometry
from benchmarks.results import record
from rover_pipeline.clocks.sampling_times import smooth_times
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.kinematics.state import State
from rover_pipeline.lidar.geometry import returns, sensor_info, sweep_span
from rover_pipeline.simulate.presets import PRESETS
from rover_pipeline.simulate.record import simulate

SEQUENCES = {"walking": "indoor", "smooth": "smooth", "stairs": "stairs", "street": "outdoor"}


class Recording(NamedTuple):
    """Sweeps of a trace, and the truth about them."""

    rng: np.ndarray
    ts: np.ndarray
    metadata: str
    truth: State
    true_ts: np.ndarray


class Poses(NamedTuple):
    """Positions (N, 3) and rotations (N, 3, 3) at the sweeps, and seconds a sweep."""

    pos: np.ndarray
    rot: np.ndarray
    seconds: float


def recording(preset: str, seconds: float, columns: int) -> Path:
    """A simulated trace of lidar and IMU, made on the first run."""
    path = FOLDER / f"{preset}_{columns}_{seconds:g}s"
    if not path.exists():
        chosen = PRESETS[preset].model_copy(update={"columns": columns})
        simulate(path, preset=chosen, duration=seconds, sensors=("lidar", "imu"))
    return path


def load(trace: Path) -> Recording:
    lidar, truth = Sensor(trace / "lidar"), Sensor(trace / "_truth")
    state = State(*(truth.channel(name).read() for name in ("pos", "rot", "vel", "acc", "avel")))
    metadata = (trace / "lidar" / "lidar.json").read_text()
    ts = smooth_times(lidar.channel("ts").read()).smooth
    return Recording(lidar.channel("rng").read(), ts - ts[0], metadata, state, truth.channel("true_ts").read())


def kiss_icp(found: Recording, *, deskew: bool = True) -> Poses:
    """On all its threads, points already projected."""
    from kiss_icp.config import load_config
    from kiss_icp.kiss_icp import KissICP

    config = load_config(None)
    config.data.deskew = deskew
    odometry, poses, seconds = KissICP(config), [], 0.0
    for image in found.rng:
        points, column = returns(image, found.metadata)
        frame, share = points.astype("f8"), column / image.shape[1]
        start = time.perf_counter()
        odometry.register_frame(frame, share)
        seconds += time.perf_counter() - start
        poses.append(odometry.last_pose)
    matrices = np.stack(poses)
    return Poses(matrices[:, :3, 3], matrices[:, :3, :3], seconds / len(found.rng))


def ouster(found: Recording) -> tuple[Poses, Poses]:
    """Poses at the middle and at the last column."""
    odometry, poses = OusterOdometry(found.metadata), []
    _, period = sweep_span(sensor_info(found.metadata), "end")
    start = time.perf_counter()
    for image, end in zip(found.rng, found.ts, strict=True):
        columns = odometry.poses(image, np.array([end - period]))
        poses.append(columns[[len(columns) // 2, -1]])
    seconds = (time.perf_counter() - start) / len(found.rng)
    middle, last = np.swapaxes(np.stack(poses), 0, 1)
    return Poses(middle[:, :3, 3], middle[:, :3, :3], seconds), Poses(last[:, :3, 3], last[:, :3, :3], seconds)


def errors(poses: Poses, truth_pos: np.ndarray, truth_rot: np.ndarray) -> tuple[float, float, np.ndarray]:
    """Root mean squares of positions (m), aligned as ATE is (Umeyama without scale), and of rotations (degrees) in the
    world that suits them best; and the rotation that aligns."""
    here, there = poses.pos - poses.pos.mean(0), truth_pos - truth_pos.mean(0)
    turn, _ = Rotation.align_vectors(there, here)
    apart = turn.apply(here) - there
    world = Rotation.from_matrix(truth_rot @ np.swapaxes(poses.rot, 1, 2)).mean()
    angle = (Rotation.from_matrix(truth_rot).inv() * world * Rotation.from_matrix(poses.rot)).magnitude()
    matrix: np.ndarray = world.as_matrix()
    return float(np.sqrt((apart**2).sum(1).mean())), float(np.degrees(np.sqrt((angle**2).mean()))), matrix


def best_instant(poses: Poses, found: Recording) -> tuple[float, float]:
    """Errors of a peer against the truth at the begin, the middle or the end of the sweeps."""
    place = CubicSpline(found.true_ts, found.truth.pos)
    turned = RotationSpline(found.true_ts, Rotation.from_matrix(found.truth.rot))
    tried = []
    for back in (0.0, 0.05, 0.1):
        at = np.maximum(found.true_ts - back, found.true_ts[0])
        tried.append(errors(poses, place(at), turned(at).as_matrix())[:2])
    return min(tried)


def table(seconds: float, columns: int, names: list[str], *, timed: bool, alone: bool) -> None:
    """Errors of ours and of the peers, and milliseconds a sweep."""
    for name in names:
        of = f"{name}, {seconds:g} s of 128x{columns} at 10 Hz"
        trace = recording(SEQUENCES[name], seconds, columns)
        found, (took, _) = load(trace), step(trace, 1, imu=False)  # the peers know of no IMU
        mine = made(trace, took)
        pos, rot, world = errors(mine, found.truth.pos, found.truth.rot)
        moves = Sensor(trace / "_odom").channel("vel").read() @ world.T
        vel = float(np.sqrt(np.square(moves - found.truth.vel).sum(1).mean()))
        record(f"peers/{name}/ours: ATE", f"{1e3 * pos:.2f}", "mm", of=of)
        record(f"peers/{name}/rotation", f"{rot:.3f}", "degrees", of=of)
        record(f"peers/{name}/velocity", f"{100 * vel:.1f}", "cm/s", of=of)
        if alone:
            continue
        kiss, slam = kiss_icp(found), ouster(found)
        peers = {"KISS-ICP": (best_instant(kiss, found), kiss)}
        peers["ouster-sdk SLAM"] = (min(best_instant(each, found) for each in slam), slam[0])
        for peer, ((ate, angle), _) in peers.items():
            record(f"peers/{name}/{peer}: ATE", f"{1e3 * ate:.1f}", "mm", of=of)
            record(f"peers/{name}/{peer}: rotation", f"{angle:.2f}", "degrees", of=of)
        if timed:
            for who, poses in {"ours": mine, **{peer: found for peer, (_, found) in peers.items()}}.items():
                record(f"peer times/{name}/{who}", f"{1e3 * poses.seconds:.0f}", "ms", of=f"a sweep of {of}")


def step(trace: Path, threads: int, **options: Any) -> tuple[float, float]:
    """Wall seconds and ATE (m) of the step as a process."""
    shutil.rmtree(trace / "_odom", ignore_errors=True)
    if not (trace / "_lidar_image" / "meta.json").exists():
        run(step_command("_lidar_image", trace))
    os.sync()
    request = json.dumps({"options": options, "input": {}})
    took = run([*step_command("_odom", trace, threads), "--request", request]).seconds
    found = load(trace)
    return took, errors(made(trace, took), found.truth.pos, found.truth.rot)[0]


def made(trace: Path, took: float) -> Poses:
    """The poses of `_odom`, which took some seconds."""
    pos, rot = (Sensor(trace / "_odom").channel(name).read() for name in ("pos", "rot"))
    return Poses(pos, rot, took / len(pos))


def parts(seconds: float, columns: int, rounds: int) -> None:
    """What two parts at once gain and cost, at 128x2048 and on each sequence."""
    trace = recording("indoor", 2 * seconds, 2048)
    step(trace, 2)
    tried = []
    for _ in range(rounds):
        whole, at_once = step(trace, 1, segment=20 * seconds), step(trace, 2, segment=seconds)
        tried.append((at_once[0], whole[0] / at_once[0], at_once[1] / whole[1], whole[1], at_once[1]))
    took, speed, worse, alone, together = np.median(tried, axis=0)
    record(
        "speed/odom parts",
        f"{took:.1f} s, {2 * seconds / took:.1f}x real time, {speed:.2f}x as fast as one part in one process; "
        f"ATE {_beside(together, alone, worse)}",
        of=f"`_odom` of {2 * seconds:g} s of 128x2048 in two parts in two processes, files read and written",
    )
    for name, preset in SEQUENCES.items():
        trace = recording(preset, seconds, columns)
        alone, together = step(trace, 2, segment=10 * seconds)[1], step(trace, 2, segment=seconds / 2)[1]
        of = f"ATE of {name}, {seconds:g} s of 128x{columns}, in two parts beside one"
        record(f"parts/{name}", _beside(together, alone, together / alone), of=of)


def _beside(together: float, alone: float, worse: float) -> str:
    return f"{1e3 * together:.2f} mm beside {1e3 * alone:.2f} mm of one part: {worse:.2f}x"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--columns", type=int, default=1024, help="of the truth table")
    parser.add_argument("--rounds", type=int, default=3, help="of the times of two parts; 0 = errors alone, no times")
    parser.add_argument("--ours", action="store_true", help="errors of ours alone: those of peers stay as in the file")
    parser.add_argument("sequences", nargs="*", help=f"of {', '.join(SEQUENCES)}; all unless given")
    chosen = parser.parse_args()
    print_versions("small_gicp", "kiss-icp", "ouster-sdk", "numba", "numpy", "scipy")
    with threadpool_limits(1, user_api="blas"):
        names = chosen.sequences or list(SEQUENCES)
        table(chosen.seconds, chosen.columns, names, timed=chosen.rounds > 0, alone=chosen.ours)
    if chosen.rounds > 0:
        parts(chosen.seconds, chosen.columns, chosen.rounds)
