"""References of a trace: truths, poses and places that came with it or are given, and the IMU as a witness."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, cast, get_args

import numpy as np

from rover_pipeline.errors import FormatError, unless_damaged
from rover_pipeline.format.files import exists
from rover_pipeline.format.meta import META
from rover_pipeline.format.sensor import TS, VALID, Sensor, time_problem
from rover_pipeline.importers.reference import REFERENCE, read_poses
from rover_pipeline.kinematics.mount import IDENTITY, Mount
from rover_pipeline.kinematics.options import Mounted
from rover_pipeline.kinematics.rotation import obliqueness
from rover_pipeline.kinematics.state import Poses
from rover_pipeline.numerics.linear import matmul
from rover_pipeline.numerics.nearest import nearest_samples
from rover_pipeline.report.read.rig import made_with, read_sensor_poses, sensor_mount, whole_sensor
from rover_pipeline.validation.accuracy import east_north_up

TRUTH, GNSS = "_truth", "gnss"
#: What is compared, and the sensor whose poses it holds.
TRAJECTORIES = {
    "_odom": "lidar",
    "_radar_odom": "radar",
    "_radar_pose": "radar",
    "_camera_pose": "camera",
    "_imu_pose": "imu",
}
#: Largest ATE and RPE over a second, m, number of poses that are wrong and sure, and NEES, and the least share of valid
#: poses: `ate`, `rpe`, `wrong`, `nees`, `valid`; None = anything goes.
Limits = Mapping[str, float | None]
#: A rotation times its transpose differs by less from the identity.
_ORTHOGONAL = 1e-3


class Against(NamedTuple):
    """What to compare with.

    Attributes:
        path: another trace, its `_truth` or `_reference`, or a file of poses, TUM or KITTI; None = the trace's own.
        offset: seconds that are added to the times of the reference.
        limits: what a trajectory must keep to.
    """

    path: Path | None = None
    offset: float = 0.0
    limits: Limits = MappingProxyType({})


class Given(NamedTuple):
    """Poses to compare with.

    Attributes:
        name: for messages.
        body: what the poses are of: a sensor of the rig, or the name of another body.
        stamps, ts: f8 (N,), s: times as they are recorded, and the instants of the poses: true ones in a simulation.
        poses: f8, valid ones only.
        cov: f8 (N, 6, 6), as that of `_odom`, or of `gnss` (N, 3, 3), east-north-up; None = it states none.
    """

    name: str
    body: str
    stamps: np.ndarray
    ts: np.ndarray
    poses: Poses
    cov: np.ndarray | None = None


def references(trace: Path, against: Against) -> Iterator[Given]:
    """What there is to compare with: the truths of all sensors, poses that came with them, and places of `gnss`."""
    path = against.path or trace
    for each, good in _of_file(path, trace) if path.is_file() else _of_folder(path):
        if not good.any():
            raise FormatError(f"{each.name}: has no valid pose to compare with")
        stamps, ts = (times[good] + against.offset for times in (each.stamps, each.ts))
        cov = None if each.cov is None else each.cov[good]
        yield each._replace(stamps=stamps, ts=ts, poses=each.poses.select(good), cov=cov)


def _of_file(path: Path, trace: Path) -> Iterator[tuple[Given, np.ndarray]]:
    """The poses of a file, and which of them are valid."""
    clock = next((each for each in ("lidar", "radar") if exists(trace / each / META)), None)
    stamps, states = read_poses(path, Sensor(trace / clock).recorded_times() if clock else np.empty(0))
    if problem := time_problem(stamps):
        raise FormatError(f"{path}: {problem}")
    poses = Poses(states["rot"], states["pos"])
    yield Given(str(path), clock or "lidar", stamps, stamps, poses), are_poses(poses)


def _of_folder(path: Path) -> Iterator[tuple[Given, np.ndarray]]:
    """The poses of a trace, or of a sensor, and which of them are valid."""
    places = path / GNSS if path.name != GNSS else path
    if exists(path / META):
        folders = [path] * (path != places)
    else:
        folders = [each for each in (path / TRUTH, *sorted(path.glob(f"{TRUTH}_*"))) if exists(each / META)]
        folders = [each for each in folders if {"pos", "rot"} <= set(Sensor(each).specs)]
        folders += [path / REFERENCE] * exists(path / REFERENCE / META)
    channels = set(Sensor(places).specs) if exists(places / META) else set()
    if not folders and not channels:
        raise FormatError(f"{path}: has neither {TRUTH} nor {REFERENCE} to compare with; give a file: --against PATH")
    for folder in folders:
        stamps, poses, valid = read_sensor_poses(folder)
        instants, sensor = stamps, Sensor(folder)
        if "true_ts" in sensor.specs:
            true = sensor.channel("true_ts").read_whole()
            instants = true if len(true) == len(stamps) and not time_problem(true) else stamps
        cov = np.zeros((len(stamps), 6, 6)) if folder.name.startswith(TRUTH) else None
        if "cov" in sensor.specs and sensor.specs["cov"].shape == (6, 6):
            cov = sensor.channel("cov").read_whole(len(stamps)).astype("f8")
        yield Given(str(folder), _body(folder), stamps, instants, poses, cov), valid & are_poses(poses)
    names = ("position",) if "position" in channels else ("lat", "lon", "alt")
    if {*names} <= channels:
        read = whole_sensor(places, *names, *{"cov"} & channels)
        llh, ts = np.column_stack([read[name] for name in names]), read[TS]
        good = read[VALID].astype(bool) & np.isfinite(llh).all(1)
        if good.any() or not folders:
            poses = Poses(np.tile(np.eye(3), (len(ts), 1, 1)), east_north_up(llh, int(np.argmax(good))))
            yield Given(str(places), GNSS, ts, ts, poses, read.get("cov")), good


def are_poses(poses: Poses) -> np.ndarray:
    """Which poses are finite and have a rotation that is one, bool (N,)."""
    return np.asarray(np.isfinite(poses.pos).all(1) & (obliqueness(poses.rot) < _ORTHOGONAL))


def _body(folder: Path) -> str:
    """What the poses of a sensor are of."""
    name = folder.resolve().name
    if name == REFERENCE:
        return str(made_with(folder.parent, folder.name).get("body", "lidar"))
    if name.startswith(f"{TRUTH}_"):
        return name.removeprefix(f"{TRUTH}_")
    return TRAJECTORIES.get(name, "lidar")


def body_mount(trace: Path, name: str, sensor: str) -> Mount | None:
    """A sensor's pose in the lidar frame by the rig that the poses `name` were made with, or else by the recording's.

    None where neither tells it.
    """
    if sensor == "lidar":
        return IDENTITY
    if sensor not in get_args(Mounted):
        return None
    found = sensor_mount(trace, cast(Mounted, sensor), name)
    return found if found.known else None


def stated_by(given: Given, ts: np.ndarray, rot: np.ndarray, mount: Mount | None) -> np.ndarray | None:
    """The covariances that a reference states, at the instants `ts` of its poses, f8 (N, 6, 6), as those of `_odom`."""
    if given.cov is None or not len(ts):
        return None
    cov = given.cov[nearest_samples(given.stamps, ts)]
    if given.body == GNSS:
        cov = np.pad(matmul(np.swapaxes(rot, 1, 2), cov, rot), ((0, 0), (0, 3), (0, 3)), constant_values=np.nan)
    elif mount is not None:
        cov = matmul(np.kron(np.eye(2), mount.rotation.T), cov, np.kron(np.eye(2), mount.rotation))
    return cov if np.isfinite(cov[:, :3, :3]).all() else None


def read_imu(trace: Path, name: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Times, s, and specific force in the frame of the lidar, f8 (M, 3), m/s2, of the IMU, if there is one."""
    with unless_damaged():  # of an IMU that is not there, or without accelerations, too
        read, mount = whole_sensor(trace / "imu", "acc"), body_mount(trace, name, "imu") or IDENTITY
        good = read[VALID].astype(bool) & np.isfinite(read["acc"]).all(1)
        if good.any():
            return read[TS][good], matmul(read["acc"][good].astype("f8"), mount.rotation.T)
    return None
