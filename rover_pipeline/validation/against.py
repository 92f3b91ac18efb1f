"""`check --against`: the trajectories of a trace beside truths, poses and places that came with it or are given.

The truth of a simulation is known at the true instants of the samples of its own trace. Any other reference has times
of its own, between which it is interpolated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from rover_pipeline.engine.instances import instances
from rover_pipeline.errors import ConfigError, FormatError, describe, unless_damaged
from rover_pipeline.format.files import exists
from rover_pipeline.format.meta import META
from rover_pipeline.format.provenance import read_provenance
from rover_pipeline.format.rig import Rig
from rover_pipeline.format.sensor import TS, VALID, Sensor, time_problem
from rover_pipeline.importers.reference import REFERENCE, read_poses
from rover_pipeline.kinematics.mount import IDENTITY, Mount
from rover_pipeline.kinematics.state import Poses
from rover_pipeline.numerics.linear import matmul
from rover_pipeline.numerics.nearest import nearest_samples
from rover_pipeline.validation import accuracy as measures
from rover_pipeline.validation import rig
from rover_pipeline.validation.accuracy import Accuracy, Contradiction, Relative, are_rotations, contradictions

TRUTH, GNSS = "_truth", "gnss"
#: What is compared, of each sensor, and the type of the sensor whose poses it holds.
_TRAJECTORIES = {
    "_odom": "lidar",
    "_radar_odom": "radar",
    "_radar_pose": "radar",
    "_camera_pose": "camera",
    "_imu_pose": "imu",
}
#: Maximum ATE and RPE over a second, m, number of poses that are wrong and sure, and NEES, and minimum share of valid
#: poses: `ate`, `rpe`, `wrong`, `nees`, `valid`; None = anything goes.
Limits = Mapping[str, float | None]


class Against(NamedTuple):
    """What to compare with."""

    #: another trace, its `_truth` or `_reference`, or a file of poses, TUM or KITTI; None = the trace's own.
    path: Path | None = None
    offset: float = 0.0  #: seconds that are added to the times of the reference.
    limits: Limits = MappingProxyType({})  #: what a trajectory must keep to.


class Given(NamedTuple):
    """Poses to compare with."""

    name: str  #: for messages.
    body: str  #: what the poses are of: a sensor of the rig, or the name of another body.
    stamps: np.ndarray  #: times as they are recorded, f8 (N,), s.
    ts: np.ndarray  #: instants of the poses, f8 (N,), s: true ones in a simulation.
    poses: Poses  #: f8, valid ones only.
    #: f8 (N, 6, 6), as that of `_odom`, or of `gnss` (N, 3, 3), east-north-up; None = it states none.
    cov: np.ndarray | None = None
    places: bool = False  #: whether the rotations are not known.


def trajectories(trace: Path) -> dict[str, str]:
    """What there is to compare in a trace, and the sensor whose poses it holds."""
    names, found = Rig(trace), {}
    for declared, type in _TRAJECTORIES.items():
        for name in instances(declared, names):
            if exists(trace / name / META):
                roles = (read_provenance(trace / name) or {}).get("sensors")
                found[name] = str(roles.get(type, type)) if isinstance(roles, dict) else names.main(type)
    return found


class Comparison(NamedTuple):
    """One trajectory beside one reference."""

    sensor: str  #: for example `_odom`.
    against: str  #: the reference.
    accuracy: Accuracy | None  #: None where nothing could be compared.
    notes: tuple[str, ...] = ()  #: what the figures do not say.
    #: one line each: limits that are not kept, what is wrong and sure, why nothing could be compared.
    problems: tuple[str, ...] = ()
    contradictions: tuple[Contradiction, ...] = ()  #: of `_odom` and the reference.

    def as_json(self) -> dict[str, Any]:
        remarks = {"contradictions": [each._asdict() for each in self.contradictions], "notes": [*self.notes]}
        return {"against": self.against, **(plain(self.accuracy) or {}), **remarks}


def compare_trace(trace: Path, against: Against) -> Iterator[Comparison]:
    """All trajectories of a trace beside what there is to compare them with. Raises FormatError where there is nothing
    to compare with, or nothing to compare."""
    given, compared = list(references(trace, against)), False
    names = trajectories(trace)
    for name in names:
        done: set[str] = set()
        for each, carried, notes in fitting(trace, name, given):
            source = Path(each.name).name.partition(TRUTH)[1] or each.name
            if source not in done:
                found = _comparison(trace, name, each, carried, notes, {} if done else against.limits)
                if not done or found.contradictions or not found.problems:  # limits are about the best reference
                    yield found
                done.add(source)
                compared = True
    if not names:
        raise FormatError(f"{trace}: has none of {', '.join(_TRAJECTORIES)}; run the workflow first")
    if not compared:
        why = f"no `rig` says how their sensors are mounted to that of {given[0].name}"
        raise FormatError(f"{trace}: {', '.join(names)}: {why}")


def text_of(comparison: Comparison, trace: Path) -> str:
    """The figures for people, one line."""
    found, parts = comparison.accuracy, ["nothing could be compared"]
    if found is not None and found.ate_m is not None:
        parts = [f"ATE {found.ate_m:.4f} m RMS, {found.ate_max_m:.4f} m at most, {found.rotation_deg:.3f} deg"]
        for label, each in (("1 s", found.second), ("10 m", found.ten_metres)):
            if each:
                parts.append(f"RPE over {label} {each.translation_m:.4f} m, {each.rotation_deg:.3f} deg")
        parts += [f"{found.way_m:.1f} m of way", f"{found.valid} of {found.samples} valid, {found.compared} compared"]
        parts += [f"{found.wrong} wrong and sure", *([] if found.nees is None else [f"NEES {found.nees:.2f}"])]
        parts += comparison.notes
    return f"{trace / comparison.sensor} against {comparison.against}: {'; '.join(parts)}"


def fitting(trace: Path, name: str, given: list[Given]) -> Iterator[tuple[Given, Mount | None, tuple[str, ...]]]:
    """The references for a trajectory, the best first; how its sensor is mounted on their body, and notes."""
    sensor, main = trajectories(trace)[name], Rig(trace).main("lidar")
    for each in given:
        if each.body == sensor:
            yield each, None, ()
    for each in given:
        body, mount = body_mount(trace, name, each.body), body_mount(trace, name, sensor)
        if body and mount:
            mounted = each.body if sensor == main else sensor
            yield each, mount.seen_from(body), (f"by the mount of the {mounted} in `rig`",)
        elif name in ("_odom", "_radar_odom"):
            what = f"poses of {each.body}" if each.body else "poses of a body without a name"
            yield each, None, (f"{what}, whose distance from the {sensor} counts as error where it turns",)


def beside(
    trace: Path, name: str, given: Given, mount: Mount | None = None
) -> tuple[rig.SensorPoses, Poses, np.ndarray]:
    """The poses of a trajectory, those that are none not valid; the reference at their instants; where it is known."""
    found = rig.read_sensor_poses(trace / name)
    found = found._replace(valid=found.valid & are_poses(found.poses))
    wanted, known = _wanted(found.ts, rig.pose_delay(trace, name), given, mount)
    both = found.valid & known
    if given.places and both.sum() >= measures.MIN_ALIGNED:  # the receiver is taken to turn as the trajectory does
        arm = np.zeros(3) if mount is None else -matmul(mount.rotation.T, mount.translation)
        carried = found.poses.pos + matmul(found.poses.rot, arm)
        rot = matmul(measures.heading(found.ts[both], carried[both], wanted.pos[both]), found.poses.rot)
        wanted = Poses(rot, wanted.pos - matmul(rot, arm))
    return found, wanted, known


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
    both = found.valid & known
    total = _of_both(cov, both, given, found, wanted, mount)
    accuracy = measures.compare(found.ts, found.poses, found.valid, wanted, known, total, given.places)
    if accuracy.ate_m is None:
        why = (
            f"{trace / name}: {accuracy.compared} of {accuracy.valid} valid poses, from {found.ts[0]:.3f} to "
            f"{found.ts[-1]:.3f} s, lie within the times of {given.name}, {given.ts[0]:.3f} to {given.ts[-1]:.3f} s: "
            "three are needed; --offset S moves the times of the reference"
        )
        return Comparison(name, given.name, accuracy, notes, (why,))
    problems, contradicted = list(_beyond(trace / name, accuracy, limits)), []
    if cov is not None:
        chosen = both & np.isfinite(cov).all((1, 2))
        ts, ours, theirs = found.ts[chosen], found.poses.select(chosen), wanted.select(chosen)
        stated, imu = stated_by(given, ts, theirs.rot, mount), read_imu(trace, name)
        placed = mount is not None or given.body == trajectories(trace)[name]
        cov, exact = cov[chosen].astype("f8"), Path(given.name).name.startswith(TRUTH)
        contradicted = list(contradictions(ts, ours, cov, theirs, stated, imu, exact=exact, placed=placed))
    problems += [f"{trace / name}: {contradiction_text(each, given.name)}" for each in contradicted if each.wrong]
    notes += tuple(contradiction_text(each, given.name) for each in contradicted if not each.wrong)
    return Comparison(name, given.name, accuracy, notes, tuple(problems), tuple(contradicted))


def contradiction_text(found: Contradiction, against: str) -> str:
    """A contradiction for people, without the name of the trajectory."""
    verdict = "wrong and sure" if found.wrong else "the reference is wrong"
    if found.witness:
        verdict += f", as {found.witness} shows"
    elif not found.wrong:
        verdict = "either it or the reference is wrong, and no witness decides"
    return (
        f"moves {found.ours:.2f} m where {against} moves {found.theirs:.2f} m, {found.excess:.3g} times what both "
        f"deviations allow, from {found.begin:.3f} to {found.end:.3f} s: {verdict}"
    )


def own_comparisons(trace: Path) -> Iterator[Comparison]:
    """The comparisons of a trace with its own references, if there are any."""
    with unless_damaged(), suppress(ConfigError):  # of a rig, which the steps report
        yield from compare_trace(trace, Against())


def _wanted(stamps: np.ndarray, delay: float, given: Given, mount: Mount | None) -> tuple[Poses, np.ndarray]:
    """The reference at the instants of some poses, and where it is known."""
    ts, index = given.stamps, np.clip(np.searchsorted(given.stamps, stamps), 0, len(given.stamps) - 1)
    if np.array_equal(ts[index], stamps):  # the same samples: their true instants are known
        ts, times = given.ts, given.ts[index] + delay
    else:
        times = stamps + delay
    known = measures.covered(ts, times)
    rot, pos = np.full((len(times), 3, 3), np.nan), np.full((len(times), 3), np.nan)
    if known.any():
        rot[known] = measures.rotations_at(ts, given.poses.rot, times[known])
        pos[known] = measures.positions_at(ts, given.poses.pos, times[known])
    if mount is not None and not given.places:
        pos, rot = pos + matmul(rot, mount.translation), matmul(rot, mount.rotation)
    return Poses(rot, pos), known


def _beyond(place: Path, found: Accuracy, limits: Limits) -> Iterator[str]:
    """The limits that are not kept."""
    figures = {
        "ate": ("ATE", found.ate_m, " m"),
        "rpe": ("RPE over 1 s", found.second.translation_m if found.second else None, " m"),
        "wrong": ("number of wrong and sure poses", found.wrong, ""),
        "nees": ("NEES", found.nees, ""),
    }
    for name, (label, value, unit) in figures.items():
        limit = limits.get(name)
        if limit is None or (name == "nees" and place.name != "_odom"):
            continue
        option = f"--max-{name} {limit:g}"
        if value is None:
            yield f"{place}: {label} cannot be computed from {found.compared} poses, so {option} is not kept"
        elif not value <= limit:
            yield f"{place}: {label} is {value:.4g}{unit}, above {option}"
    share, minimum = found.valid / max(found.samples, 1), limits.get("valid")
    if minimum is not None and share < minimum:
        yield f"{place}: {100 * share:.3g}% of the poses are valid, below --min-valid {minimum:g}"


def plain(value: Accuracy | Relative | float | None) -> Any:
    """Figures as JSON can hold them; those that are not finite as null."""
    if isinstance(value, tuple):
        return {name: plain(each) for name, each in value._asdict().items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


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
    names = Rig(trace)
    clock = next((each for each in map(names.main, ("lidar", "radar")) if exists(trace / each / META)), None)
    stamps, states = read_poses(path, Sensor(trace / clock).recorded_times() if clock else np.empty(0))
    if problem := time_problem(stamps):
        raise FormatError(f"{path}: {problem}")
    poses = Poses(states["rot"], states["pos"])
    yield Given(str(path), clock or names.main("lidar"), stamps, stamps, poses), are_poses(poses)


def _of_folder(path: Path) -> Iterator[tuple[Given, np.ndarray]]:
    """The poses of a trace, or of a sensor, and which of them are valid."""
    is_sensor = exists(path / META)
    receivers = Rig(path.parent if is_sensor else path).of(GNSS)
    places = [path] if is_sensor and path.name in receivers else [path / name for name in receivers if not is_sensor]
    if is_sensor:
        folders = [path] * (not places)
    else:
        folders = [each for each in (path / TRUTH, *sorted(path.glob(f"{TRUTH}_*"))) if exists(each / META)]
        folders = [each for each in folders if {"pos", "rot"} <= set(Sensor(each).specs)]
        folders += [path / REFERENCE] * exists(path / REFERENCE / META)
    if not folders and not places:
        raise FormatError(f"{path}: has neither {TRUTH} nor {REFERENCE} to compare with; give a file: --against PATH")
    for folder in folders:
        stamps, poses, valid = rig.read_sensor_poses(folder)
        instants, sensor = stamps, Sensor(folder)
        if "true_ts" in sensor.specs:
            true = sensor.channel("true_ts").read_whole()
            instants = true if len(true) == len(stamps) and not time_problem(true) else stamps
        cov = np.zeros((len(stamps), 6, 6)) if folder.name.startswith(TRUTH) else None
        if "cov" in sensor.specs and sensor.specs["cov"].shape == (6, 6):
            cov = sensor.channel("cov").read_whole(len(stamps)).astype("f8")
        yield Given(str(folder), _body(folder), stamps, instants, poses, cov), valid & are_poses(poses)
    for place in places:
        channels = set(Sensor(place).specs)
        names = ("position",) if "position" in channels else ("lat", "lon", "alt")
        if {*names} <= channels:
            read = rig.whole_sensor(place, *names, *{"cov"} & channels)
            llh, ts = np.column_stack([read[name] for name in names]), read[TS]
            good = read[VALID].astype(bool) & np.isfinite(llh).all(1)
            if good.any() or not folders:
                poses = Poses(np.tile(np.eye(3), (len(ts), 1, 1)), measures.east_north_up(llh, int(np.argmax(good))))
                yield Given(str(place), place.name, ts, ts, poses, read.get("cov"), places=True), good


def are_poses(poses: Poses) -> np.ndarray:
    """Which poses have a plausible position and a rotation that is one, bool (N,)."""
    return np.asarray(rig.is_plausible(poses.pos).all(1) & are_rotations(poses.rot))


def _body(folder: Path) -> str:
    """What the poses of a sensor are of."""
    name, main = folder.resolve().name, Rig(folder.parent).main("lidar")
    if name == REFERENCE:
        return str(rig.made_with(folder.parent, folder.name).get("body", main))
    if name.startswith(f"{TRUTH}_"):
        return name.removeprefix(f"{TRUTH}_")
    return trajectories(folder.parent).get(name, main)


def body_mount(trace: Path, name: str, sensor: str) -> Mount | None:
    """A sensor's pose in the lidar frame by the rig that the poses `name` were made with, or else by the recording's.

    None where neither has it.
    """
    if sensor == Rig(trace).main("lidar"):
        return IDENTITY
    found = rig.sensor_mount(trace, sensor, name)
    return found if found.known else None


def stated_by(given: Given, ts: np.ndarray, rot: np.ndarray, mount: Mount | None) -> np.ndarray | None:
    """The covariances that a reference states, at the instants `ts` of its poses, f8 (N, 6, 6), as those of `_odom`."""
    if given.cov is None or not len(ts):
        return None
    cov = given.cov[nearest_samples(given.stamps, ts)]
    if given.places:
        cov = np.pad(matmul(np.swapaxes(rot, 1, 2), cov, rot), ((0, 0), (0, 3), (0, 3)), constant_values=np.nan)
    elif mount is not None:
        cov = matmul(np.kron(np.eye(2), mount.rotation.T), cov, np.kron(np.eye(2), mount.rotation))
    return cov if np.isfinite(cov[:, :3, :3]).all() else None


def _of_both(
    cov: np.ndarray | None, both: np.ndarray, given: Given, found: rig.SensorPoses, wanted: Poses, mount: Mount | None
) -> np.ndarray | None:
    """Covariances of the differences of poses from the reference, relative to the first one: of a place both deviate
    from the truth, and so they did at the first one."""
    ts, rot = found.ts[both], wanted.rot[both]
    if cov is None or not given.places:
        return cov
    total = cov.astype("f8")
    for times in (ts, np.full_like(ts, ts[0])) if len(ts) else ():
        stated = stated_by(given, times, rot, mount)
        total[both] += 0.0 if stated is None else np.nan_to_num(stated)
    return total


def read_imu(trace: Path, name: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Times, s, and specific force in the frame of the lidar, f8 (M, 3), m/s2, of the IMU, if there is one."""
    with unless_damaged():  # of an IMU that is not there, or without accelerations, too
        imu = Rig(trace).main("imu")
        read, mount = rig.whole_sensor(trace / imu, "acc"), body_mount(trace, name, imu) or IDENTITY
        good = read[VALID].astype(bool) & np.isfinite(read["acc"]).all(1)
        if good.any():
            return read[TS][good], matmul(read["acc"][good].astype("f8"), mount.rotation.T)
    return None
