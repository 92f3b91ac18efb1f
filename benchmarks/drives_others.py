"""Real sequences without a lidar, for `benchmarks.drives`: two IMUs and a radar that sends points."""

from __future__ import annotations

import importlib.util
import itertools
import lzma
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation, Slerp

from rover_pipeline.format.meta import ChannelSpec
from rover_pipeline.format.sensor import TS, TS_SPEC, Sensor, SensorWriter
from tests.importers import bags

Command = Callable[..., None]


class Row(NamedTuple):
    """Figures of a sequence.

    Attributes:
        name: of the row; found: figures by column; units: of the columns; of: what the sequence is.
    """

    name: str
    found: dict[str, float]
    units: dict[str, str]
    of: str


_IMU_UNITS = {"valid": "%", "tilt": "degrees", "heading drift": "degrees"}
_RADAR_UNITS = {"valid": "%", "length": "m", "length of poses": "m", "direction": "degrees"}


def imu_broad(source: Path, folder: Path, command: Command) -> Iterator[Row]:
    """An IMU that is turned slowly by hand, with its orientation by optical motion capture."""
    if importlib.util.find_spec("h5py") is None:
        print("imu_broad is left out: it needs h5py (pip install h5py)")
        return
    import h5py

    (path,) = source.glob("*.hdf5")
    with h5py.File(path) as file:
        acc, avel, quat, movement = (np.asarray(file[each]) for each in ("imu_acc", "imu_gyr", "opt_quat", "movement"))
        rate = float(file.attrs["sampling_rate"])
    ts = 1.7e9 + np.arange(len(acc)) / rate
    good = movement.astype(bool) & np.isfinite(quat).all(1)
    found = _imu(folder / "imu_broad", ts, acc, avel, ts[good], quat[good][:, [1, 2, 3, 0]], command)
    yield Row("imu_broad", found, _IMU_UNITS, "BROAD 02, slow rotation by hand, 186 s, optical truth")


def imu_lio(source: Path, folder: Path, command: Command) -> Iterator[Row]:
    """A moving IMU beside a trajectory that lidar-inertial odometry made with it."""
    with lzma.open(source / "imu.txt.xz", "rt") as file:
        table = np.loadtxt(file)
    poses = np.loadtxt(source / "traj.txt")
    found = _imu(folder / "imu_lio", table[:, 0], table[:, 1:4], table[:, 4:7], poses[:, 0], poses[:, 4:8], command)
    of = "237 s of a calm IMU, beside a trajectory of lidar-inertial odometry that used it"
    yield Row("imu_lio", found, _IMU_UNITS, of)


def radar_saic(source: Path, folder: Path, command: Command) -> Iterator[Row]:
    """Four sequences of a car radar that sends points, beside coarse GNSS/INS poses."""
    kind = np.dtype([*((axis, "<f4") for axis in "xyz"), ("intensity", "<f4"), ("velocity", "<f4")])
    for path in sorted(source.glob("*.npz")):
        with np.load(path) as stored:
            arrays = {name: stored[name] for name in stored.files}
        offsets, poses = arrays["offsets"], np.asarray(arrays["pose"], "f8")
        interval = np.broadcast_to(np.asarray(arrays["interval_s"], "f8"), len(poses))
        ts = np.concatenate([[0.0], np.cumsum(interval[:-1])])
        sent = []
        for number, (first, last) in enumerate(itertools.pairwise(offsets.tolist())):
            points = np.zeros(last - first, kind)
            for name, field in (("x", "x"), ("y", "y"), ("z", "z"), ("power", "intensity"), ("v", "velocity")):
                points[field] = arrays[name][first:last]
            sent.append(bags.cloud("/radar", bags.START + round(1e9 * float(ts[number])), points))
        bag, trace = folder / f"{path.stem}.mcap", folder / f"radar-{path.stem}"
        bags.write_mcap(bag, sent)
        command("import", "ros", str(bag), "-o", str(trace))
        command("run", str(trace), "--outputs", "radar_velocity")
        made = Sensor(trace / "_radar_velocity")
        vel, valid = made.channel("vel").read().astype("f8"), made.channel("valid").read().astype(bool)
        # Steps of the poses scatter by half a metre: only the whole way and its direction can be compared.
        known = np.flatnonzero(valid)
        speed = np.stack([np.interp(np.arange(len(vel)), known, vel[known, axis]) for axis in range(3)], 1)
        moved = (speed[:-1] + speed[1:]) / 2 * interval[:-1, None]
        truth = np.asarray(arrays["pose_next"], "f8")[:-1] if "pose_next" in arrays else poses[1:]
        steps = np.einsum("nji,nj->ni", poses[:-1, :3, :3], truth[:, :3, 3] - poses[:-1, :3, 3])
        total, wanted = moved.sum(0)[:2], steps.sum(0)[:2]
        cosine = total @ wanted / np.linalg.norm(total) / np.linalg.norm(wanted)
        found = {
            "valid": 100 * float(valid.mean()),
            "length": float(np.linalg.norm(moved, axis=1).sum()),
            "length of poses": float(np.linalg.norm(steps.sum(0))),
            "direction": float(np.degrees(np.arccos(np.clip(cosine, -1, 1)))),
        }
        yield Row(f"radar_saic {path.stem}", found, _RADAR_UNITS, "a 4D car radar, 10 Hz, poses good to 0.5 m a step")


def _imu(
    trace: Path, ts: np.ndarray, acc: np.ndarray, avel: np.ndarray, true_ts: np.ndarray, quat: np.ndarray,
    command: Command,
) -> dict[str, float]:  # fmt: skip
    """Run `_imu_filtered`, and compare its orientation with the truth's, world (z up) from IMU, xyzw."""
    trace.mkdir()
    vector: dict[str, Any] = {"format": "raw", "type": "f4", "shape": (3,)}
    specs = {
        TS: TS_SPEC,
        "acc": ChannelSpec(**vector, desc="Acceleration, gravity included, m/s2. [xyz]"),
        "avel": ChannelSpec(**vector, desc="Angular velocity, rad/s. [xyz]"),
    }
    with SensorWriter(trace / "imu", specs) as writer:
        writer.append(ts=ts, acc=acc, avel=avel)
    (trace / "config.yaml").write_text("imu: {type: imu, args: {}}\n")
    command("run", str(trace), "--outputs", "imu_filtered")
    made = Sensor(trace / "_imu_filtered")
    valid = made.channel("valid").read().astype(bool)
    times, found = made.channel("ts").read()[valid], made.channel("quat").read()[valid]
    inside = (true_ts >= times[0]) & (true_ts <= times[-1])
    ours, truth = Slerp(times, Rotation.from_quat(found))(true_ts[inside]), Rotation.from_quat(quat[inside])
    up = np.sum(ours.inv().apply([0.0, 0.0, 1.0]) * truth.inv().apply([0.0, 0.0, 1.0]), axis=1)
    # What is left of the difference of two worlds with the same vertical is a turn about it.
    heading = np.unwrap((ours * truth.inv()).as_euler("ZYX")[:, 0])
    return {
        "valid": 100 * float(valid.mean()),
        "tilt": float(np.degrees(np.sqrt(np.mean(np.square(np.arccos(np.clip(up, -1, 1))))))),
        "heading drift": float(np.degrees(abs(heading[-1] - heading[0]))),
    }
