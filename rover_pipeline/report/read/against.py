"""`check --against`: the trajectories of a trace beside a truth or a reference.

The truth of a simulation is known at the true instants of the samples of its own trace. Any other reference has times
of its own, between which it is interpolated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast, get_args

import numpy as np

from rover_pipeline.errors import FormatError, describe
from rover_pipeline.format.files import exists
from rover_pipeline.format.meta import META
from rover_pipeline.format.provenance import read_provenance
from rover_pipeline.format.sensor import Sensor, time_problem
from rover_pipeline.importers.reference import REFERENCE, read_poses
from rover_pipeline.kinematics.accuracy import (
    LEAST_ALIGNED,
    Accuracy,
    Relative,
    align,
    compare,
    covered,
    east_north_up,
    positions_at,
    rotations_at,
)
from rover_pipeline.kinematics.contradiction import Contradiction, contradictions
from rover_pipeline.kinematics.mount import IDENTITY, Mount
from rover_pipeline.kinematics.options import Mounted
from rover_pipeline.kinematics.state import Poses
from rover_pipeline.numerics.linear import matmul
from rover_pipeline.numerics.nearest import nearest_samples
from rover_pipeline.report.read.rig import SensorPoses, made_with, read_sensor_poses, sensor_mount, whole_sensor

TRUTH, GNSS = "_truth", "gnss"
#: What is compared, and the sensor whose poses it holds.
TRAJECTORIES = {
    "_odom": "lidar",
    "_radar_odom": "radar",
    "_radar_pose": "radar",
    "_camera_pose": "camera",
    "_imu_pose": "imu",
}
#: A rotation times its transpose differs by less from the identity.
_ORTHOGONAL = 1e-3
#: How long after its time a pose of a radar's frame is: what the step measured.
_INSTANT = "radar_instant_after_ts_s"


@dataclass(frozen=True)
class Limits:
    """What a trajectory must keep to; None = anything goes.

    Attributes:
        ate, rpe: largest errors, m: absolute, and of the motion over a second.
        wrong: most poses that are wrong and sure.
        nees: largest normalised error squared.
        valid: least share of valid poses.
    """

    ate: float | None = None
    rpe: float | None = None
    wrong: int | None = None
    nees: float | None = None
    valid: float | None = None


@dataclass(frozen=True)
class Against:
    """What to compare with.

    Attributes:
        path: another trace, its `_truth` or `_reference`, or a file of poses, TUM or KITTI; None = the trace's own.
        offset: seconds that are added to the times of the reference.
        limits: of the errors.
    """

    path: Path | None = None
    offset: float = 0.0
    limits: Limits = Limits()


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


class Comparison(NamedTuple):
    """One trajectory beside one reference.

    Attributes:
        sensor: for example `_odom`; against: the reference.
        accuracy: None where nothing could be compared.
        notes: what the figures do not tell.
        problems: one line each: limits that are not kept, what is wrong and sure, why nothing could be compared.
        contradictions: of `_odom` and the reference.
    """

    sensor: str
    against: str
    accuracy: Accuracy | None
    notes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    contradictions: tuple[Contradiction, ...] = ()

    def as_json(self) -> dict[str, Any]:
        figures = plain(self.accuracy) if self.accuracy else {}
        figures["contradictions"] = [each._asdict() for each in self.contradictions]
        return {"against": self.against, **figures, "notes": list(self.notes)}


def compare_trace(trace: Path, against: Against) -> Iterator[Comparison]:
    """All trajectories of a trace beside what there is to compare them with.

    Raises:
        FormatError: there is nothing to compare with, or nothing to compare.
    """
    given = list(references(trace, against))
    names = [name for name in TRAJECTORIES if exists(trace / name / META)]
    compared = False
    for name in names:
        done: set[str] = set()
        for each, carried, notes in fitting(trace, name, given):
            source = Path(each.name).name.partition(TRUTH)[1] or each.name
            if source not in done:
                found = _comparison(trace, name, each, carried, notes, Limits() if done else against.limits)
                if not done or found.contradictions or not found.problems:  # limits are about the best reference
                    yield found
                compared = bool(done.add(source) or done)
    if not names:
        raise FormatError(f"{trace}: has none of {', '.join(TRAJECTORIES)}; run the workflow first")
    if not compared:
        raise FormatError(
            f"{trace}: {', '.join(names)}: no `rig` tells how their sensors are mounted to that of {given[0].name}"
        )


def text_of(comparison: Comparison, trace: Path) -> str:
    """The figures for people, one line."""
    found = comparison.accuracy
    head = f"{trace / comparison.sensor} against {comparison.against}: "
    if found is None or found.ate_m is None or found.ate_max_m is None:
        return head + "nothing could be compared"
    parts = [f"ATE {found.ate_m:.4f} m RMS, {found.ate_max_m:.4f} m at most, {found.rotation_deg:.3f} deg"]
    for label, each in (("1 s", found.second), ("10 m", found.ten_metres)):
        if each:
            parts.append(f"RPE over {label} {each.translation_m:.4f} m, {each.rotation_deg:.3f} deg")
    parts += [f"{found.way_m:.1f} m of way", f"{found.valid} of {found.samples} valid, {found.compared} compared"]
    parts.append(f"{found.wrong} wrong and sure")
    if found.nees is not None:
        parts.append(f"NEES {found.nees:.2f}")
    return head + "; ".join([*parts, *comparison.notes])


def references(trace: Path, against: Against) -> Iterator[Given]:
    """What there is to compare with: the truths of all sensors, poses that came with them, and places of `gnss`."""
    path = against.path or trace
    if path.is_file():
        clock = next((each for each in ("lidar", "radar") if exists(trace / each / META)), None)
        ts = Sensor(trace / clock).recorded_times() if clock else np.empty(0)
        stamps, states = read_poses(path, ts)
        if problem := time_problem(stamps):
            raise FormatError(f"{path}: {problem}")
        poses = Poses(states["rot"], states["pos"])
        yield _shifted(Given(str(path), clock or "lidar", stamps, stamps, poses), _are_poses(poses), against)
        return
    if exists(path / META):
        folders = [path]
    else:
        folders = [each for each in (path / TRUTH, *sorted(path.glob(f"{TRUTH}_*"))) if exists(each / META)]
        folders = [each for each in folders if {"pos", "rot"} <= set(Sensor(each).specs)]
        folders += [path / REFERENCE] * exists(path / REFERENCE / META)
    places = path / GNSS if path.name != GNSS else path
    if exists(places / META):
        folders = [each for each in folders if each != places]
    elif not folders:
        raise FormatError(f"{path}: has no {TRUTH}, {REFERENCE} or {GNSS} to compare with; give a file: --against PATH")
    for folder in folders:
        found = read_sensor_poses(folder)
        stamps = instants = found.ts
        sensor = Sensor(folder)
        if "true_ts" in sensor.specs:
            true = sensor.channel("true_ts").read_whole()
            instants = true if len(true) == len(stamps) and not time_problem(true) else stamps
        cov = np.zeros((len(stamps), 6, 6)) if folder.name.startswith(TRUTH) else None
        if "cov" in sensor.specs and sensor.specs["cov"].shape == (6, 6):
            cov = sensor.channel("cov").read_whole(len(stamps)).astype("f8")
        good = found.valid & _are_poses(found.poses)
        yield _shifted(Given(str(folder), _body(folder), stamps, instants, found.poses, cov), good, against)
    if exists(places / META):
        names = ("position",) if "position" in Sensor(places).specs else ("lat", "lon", "alt")
        read = whole_sensor(places, *names, *{"cov"} & set(Sensor(places).specs))
        llh, ts = np.column_stack([read[name] for name in names]), read["ts"]
        good = read["valid"].astype(bool) & np.isfinite(llh).all(1)
        poses = Poses(np.tile(np.eye(3), (len(ts), 1, 1)), east_north_up(llh, good))
        yield _shifted(Given(str(places), GNSS, ts, ts, poses, read.get("cov")), good, against)


def _are_poses(poses: Poses) -> np.ndarray:
    """Which poses are finite and have a rotation that is one, bool (N,)."""
    finite = np.isfinite(poses.pos).all(1) & np.isfinite(poses.rot).all((1, 2))
    rot = np.where(finite[:, None, None], poses.rot, np.eye(3))
    apart = np.abs(rot @ np.swapaxes(rot, 1, 2) - np.eye(3)).max((1, 2))
    return np.asarray(finite & (apart < _ORTHOGONAL) & (np.linalg.det(rot) > 0))


def _shifted(given: Given, good: np.ndarray, against: Against) -> Given:
    if not good.any():
        raise FormatError(f"{given.name}: has no valid pose to compare with")
    stamps, ts = given.stamps[good] + against.offset, given.ts[good] + against.offset
    poses = Poses(given.poses.rot[good], given.poses.pos[good])
    return Given(given.name, given.body, stamps, ts, poses, None if given.cov is None else given.cov[good])


def _body(folder: Path) -> str:
    """What the poses of a sensor are of."""
    name = folder.resolve().name
    if name == REFERENCE:
        return str(made_with(folder.parent, folder.name).get("body", "lidar"))
    if name.startswith(f"{TRUTH}_"):
        return name.removeprefix(f"{TRUTH}_")
    return TRAJECTORIES.get(name, "lidar")


def fitting(trace: Path, name: str, given: list[Given]) -> Iterator[tuple[Given, Mount | None, tuple[str, ...]]]:
    """The references for a trajectory, the best first; how its sensor is mounted on their body, and notes."""
    sensor = TRAJECTORIES[name]
    for each in given:
        if each.body == sensor:
            yield each, None, ()
    for each in given:
        body, mount = _mount(trace, name, each.body), _mount(trace, name, sensor)
        if body and mount:
            mounted = each.body if sensor == "lidar" else sensor
            yield each, mount.seen_from(body), (f"by the mount of the {mounted} in `rig`",)
        elif name in ("_odom", "_radar_odom"):
            what = f"poses of {each.body}" if each.body else "poses of a body without a name"
            yield each, None, (f"{what}, whose distance from the {sensor} counts as error where it turns",)


def _mount(trace: Path, name: str, sensor: str) -> Mount | None:
    """A sensor's pose in the lidar frame by the rig that the poses `name` were made with, or else by the recording's.

    None where neither tells it.
    """
    if sensor == "lidar":
        return IDENTITY
    if sensor not in get_args(Mounted):
        return None
    found = sensor_mount(trace, cast(Mounted, sensor), name)
    return found if found.known else None


def beside(trace: Path, name: str, given: Given, mount: Mount | None = None) -> tuple[SensorPoses, Poses, np.ndarray]:
    """The poses of a trajectory, those that are none not valid; the reference at their instants; where it is known."""
    found = read_sensor_poses(trace / name)
    wanted, known = _wanted(found.ts, _delay(trace, name), given, mount)
    both = found.valid & known
    if given.body == GNSS and both.sum() >= LEAST_ALIGNED:  # it is taken to turn as the trajectory does
        wanted = wanted._replace(rot=matmul(align(found.poses.pos[both], wanted.pos[both]).rot, found.poses.rot))
    return found._replace(valid=found.valid & _are_poses(found.poses)), wanted, known


def _comparison(
    trace: Path, name: str, given: Given, mount: Mount | None, notes: tuple[str, ...], limits: Limits
) -> Comparison:
    try:
        found, wanted, known = beside(trace, name, given, mount)
        sensor = Sensor(trace / name)
        cov = sensor.channel("cov").read_whole() if name == "_odom" and "cov" in sensor.specs else None
    except (FormatError, OSError) as error:
        return Comparison(name, given.name, None, notes, (describe(error),))
    cov = cov if cov is not None and len(cov) == len(found.ts) else None
    accuracy = compare(found.ts, found.poses, found.valid, wanted, known, cov)
    if accuracy.ate_m is None:
        why = (
            f"{trace / name}: {accuracy.compared} of {accuracy.valid} valid poses, from {found.ts[0]:.3f} to "
            f"{found.ts[-1]:.3f} s, lie within the times of {given.name}, {given.ts[0]:.3f} to {given.ts[-1]:.3f} s: "
            "three are needed; --offset S moves the times of the reference"
        )
        return Comparison(name, given.name, accuracy, notes, (why,))
    problems, told = list(_beyond(trace / name, accuracy, limits)), []
    if cov is not None:
        chosen = found.valid & known & np.isfinite(cov).all((1, 2))
        ts, ours, theirs = (
            found.ts[chosen],
            *(Poses(each.rot[chosen], each.pos[chosen]) for each in (found.poses, wanted)),
        )
        stated = _stated(given, ts, theirs.rot, mount)
        placed = mount is not None or given.body == TRAJECTORIES[name]
        told = [*contradictions(ts, ours, cov[chosen].astype("f8"), theirs, stated, _imu(trace, name), placed=placed)]
    for each in told:
        line = f"moves {each.ours:.2f} m where {given.name} moves {each.theirs:.2f} m, from {each.begin:.3f} to "
        line += f"{each.end:.3f} s, {each.excess:.3g} times what the deviations of both allow"
        line += f"; {each.witness} tells" if each.witness else ""
        if each.wrong:
            problems.append(f"{trace / name}: {line}: wrong and sure")
        else:
            notes += (f"{line}: {'the reference is wrong' if each.witness else 'nobody knows which is wrong'}",)
    return Comparison(name, given.name, accuracy, notes, tuple(problems), tuple(told))


def _stated(given: Given, ts: np.ndarray, rot: np.ndarray, mount: Mount | None) -> np.ndarray | None:
    """The covariances that a reference states, at the instants `ts` of its poses, f8 (N, 6, 6), as those of `_odom`."""
    if given.cov is None or not len(ts):
        return None
    cov = given.cov[nearest_samples(given.stamps, ts)]
    if given.body == GNSS:
        cov = np.pad(matmul(np.swapaxes(rot, 1, 2), cov, rot), ((0, 0), (0, 3), (0, 3)), constant_values=np.nan)
    elif mount is not None:
        cov = matmul(np.kron(np.eye(2), mount.rotation.T), cov, np.kron(np.eye(2), mount.rotation))
    return cov if np.isfinite(cov[:, :3, :3]).all() else None


def _imu(trace: Path, name: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Times, s, and specific force in the frame of the lidar, f8 (M, 3), m/s2, of the IMU, if there is one."""
    if not exists(trace / "imu" / META):
        return None
    read, mount = whole_sensor(trace / "imu", "acc"), _mount(trace, name, "imu") or IDENTITY
    good = read["valid"].astype(bool) & np.isfinite(read["acc"]).all(1)
    return (read["ts"][good], matmul(read["acc"][good].astype("f8"), mount.rotation.T)) if good.any() else None


def _delay(trace: Path, name: str) -> float:
    """Seconds from the time of a pose to its instant: a pose of `_radar_pose` is that in the middle of the chirps."""
    measured = (read_provenance(trace / name) or {}).get("measured") if name == "_radar_pose" else None
    value = measured.get(_INSTANT) if isinstance(measured, dict) else None
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else 0.0


def _wanted(stamps: np.ndarray, delay: float, given: Given, mount: Mount | None) -> tuple[Poses, np.ndarray]:
    """The reference at the instants of some poses, and where it is known."""
    ts, index = given.stamps, np.clip(np.searchsorted(given.stamps, stamps), 0, len(given.stamps) - 1)
    if np.array_equal(ts[index], stamps):  # the same samples: their true instants are known
        ts, times = given.ts, given.ts[index] + delay
    else:
        times = stamps + delay
    known = covered(ts, times)
    rot, pos = np.full((len(times), 3, 3), np.nan), np.full((len(times), 3), np.nan)
    if known.any():
        rot[known] = rotations_at(ts, given.poses.rot, times[known])
        pos[known] = positions_at(ts, given.poses.pos, times[known])
    if mount is not None:
        pos, rot = pos + rot @ mount.translation, rot @ mount.rotation
    return Poses(rot, pos), known


def _beyond(place: Path, found: Accuracy, limits: Limits) -> Iterator[str]:
    """The limits that are not kept."""
    rpe = found.second.translation_m if found.second else None
    figures = (
        ("ATE", found.ate_m, "m", limits.ate, "--max-ate"),
        ("RPE over 1 s", rpe, "m", limits.rpe, "--max-rpe"),
        ("number of wrong and sure poses", found.wrong, "", limits.wrong, "--max-wrong"),
        ("NEES", found.nees, "", limits.nees, "--max-nees"),
    )
    for label, value, unit, limit, option in figures:
        if limit is None or (label == "NEES" and place.name != "_odom"):
            continue
        if value is None:
            yield f"{place}: {label} cannot be computed from {found.compared} poses, so {option} {limit:g} is not kept"
        elif not value <= limit:
            yield f"{place}: {label} is {value:.4g}{' ' * bool(unit)}{unit}, above {option} {limit:g}"
    share = found.valid / max(found.samples, 1)
    if limits.valid is not None and share < limits.valid:
        yield f"{place}: {share:.1%} of the poses are valid, below --min-valid {limits.valid:g}"


def plain(value: Accuracy | Relative) -> dict[str, Any]:
    """Figures as JSON can hold them; those that are not finite as null."""
    figures: dict[str, Any] = {}
    for name, each in value._asdict().items():
        if isinstance(each, Relative):
            figures[name] = plain(each)
        else:
            figures[name] = None if isinstance(each, float) and not math.isfinite(each) else each
    return figures
