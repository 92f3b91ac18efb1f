"""Each rule about results is broken once, and `check` reports it in one line that names the file."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rover_pipeline.cli import main
from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.format.meta import META
from rover_pipeline.format.provenance import MADE_BY, PROVENANCE, fingerprint
from rover_pipeline.format.sensor import TS, TS_SPEC, VALID, VALID_SPEC, SensorWriter
from rover_pipeline.table import find_step
from rover_pipeline.validation.check import problems
from tests.kit import small_trace, spec_of, times

COUNT = 5
INVALID = 1


def test_a_channel_that_several_checks_read_is_told_once(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "rec", COUNT)
    (trace / "radar" / "valid").unlink()
    (trace / "lidar" / "ts").unlink()
    lines = list(problems(trace))
    assert len(lines) == len(set(lines)) and all(any(name in line for line in lines) for name in ("valid", "lidar/ts"))


def test_sensors_and_products_of_a_users_own_steps_are_accepted(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "rec", COUNT)
    for step, name in (("tests.toy:folder", "_folder"), ("tests.toy:segments", "_radar_segments")):
        run_step(find_step(step), trace, name, Request())
    (trace / "_mine").mkdir()
    (trace / "_mine" / "table.csv").write_text("a,b\n")  # a folder of somebody else
    assert list(problems(trace)) == []
    (trace / "_folder" / "sum.txt").unlink()
    assert [line for line in problems(trace) if "_folder/sum.txt: is missing" in line]


def test_a_rig_with_a_sensor_that_is_not_there_or_a_pose_that_is_none_is_named_with_the_nearest_key(
    tmp_path: Path,
) -> None:
    trace = small_trace(tmp_path / "rec", COUNT)
    config = trace / "config.yaml"
    before = config.read_text()
    for rig, said in (
        ("{radr: {}, prism: {}, gnss: {}}", "rig.radr: names no sensor; did you mean 'radar'?"),
        ("{radar: {trans: [0, 0, 0]}}", "rig.radar.trans: unknown key; did you mean 'translation'?"),
        ("{own: [{rang: 1}]}", "rig.own.0.rang: unknown key; did you mean 'range'?"),
    ):
        config.write_text(f"{before}\nrig: {rig}\n")
        (line,) = problems(trace)
        assert line.startswith(f"{config}: {said}")


def test_inputs_of_a_result_that_have_changed_are_one_line(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "rec", COUNT)
    run_step(find_step("_lidar_image"), trace, "_lidar_image", Request())
    for name in ("valid", "ts"):
        array = np.fromfile(trace / "lidar" / name, "u1")
        (trace / "lidar" / name).write_bytes(np.append(array, array[:8] * 0).tobytes())
    (line,) = (line for line in problems(trace) if "was made from other bytes of" in line)
    assert "lidar/ts" in line and "lidar/valid" in line


def ours(place: Path, channels: dict[str, np.ndarray], inputs: tuple[str, ...]) -> None:
    """A virtual sensor as our writer publishes it, at the lidar's times, with its invalid sample."""
    valid = np.ones(COUNT, "u1")
    valid[INVALID] = 0
    specs = {TS: TS_SPEC, VALID: VALID_SPEC}
    for name, values in channels.items():
        axes = ", ".join("abcd"[: values.ndim - 1])
        specs[name] = spec_of(values).model_copy(update={"desc": f"Something. [{axes}]" if axes else "Something."})
    with SensorWriter(place, specs) as writer:
        writer.append(**{TS: times(COUNT), VALID: valid}, **channels)
    write_provenance(place, inputs, sorted(specs))


def write_provenance(place: Path, inputs: tuple[str, ...], files: list[str], step: str = "tests:made") -> None:
    content = {
        "made_by": MADE_BY, "sensor": place.name, "step": step, "version": 1, "files": files,
        "inputs": {name: fingerprint(place.parent / name) for name in inputs},
    }  # fmt: skip
    (place / PROVENANCE).write_text(json.dumps(content))


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace with results of ours and without any problem."""
    trace = small_trace(
        tmp_path_factory.mktemp("promises") / "rec", COUNT, sensors=("lidar", "radar", "imu"),
        invalid={"lidar": (INVALID,), "radar": (INVALID,)},
    )  # fmt: skip
    for name in ("_lidar_image", "_radar_points", "_radar_range_doppler"):
        run_step(find_step(name), trace, name, Request())
    vectors, eye = np.zeros((COUNT, 3)), np.tile(np.eye(3), (COUNT, 1, 1))
    lidar = (f"lidar/{TS}", f"lidar/{VALID}", "lidar/rng")
    fit = {"inliers": np.ones(COUNT, "f4"), "residual": np.zeros(COUNT, "f4"), "information": np.ones(COUNT)}
    fit["cov"] = np.tile(np.eye(6, dtype="f4"), (COUNT, 1, 1))
    ours(trace / "_odom", {**dict.fromkeys(("pos", "vel", "acc", "avel"), vectors), "rot": eye, **fit}, lidar)
    ours(
        trace / "_radar_pose",
        {**dict.fromkeys(("pos", "vel", "acc"), vectors), "rot": eye, "cov": fit["cov"]},
        ("radar/ts", "_odom/pos"),
    )
    velocity = {"vel": vectors.astype("f4"), "cov": eye.astype("f4"), "inliers": np.full(COUNT, 9, "u2")}
    ours(trace / "_radar_velocity", velocity, ("radar/ts", "_radar_points/xyz"))
    quat = np.tile(np.array([0, 0, 0, 1], "f4"), (COUNT, 1))
    ours(trace / "_imu_filtered", {**dict.fromkeys(("acc", "avel"), vectors.astype("f4")), "quat": quat}, ("imu/ts",))
    match, residual = np.arange(COUNT, dtype="i4"), np.zeros(COUNT, "f4")
    match[3], residual[3] = -1, np.nan
    ours(trace / "_sync", {"radar": match, "radar_dt": residual}, ("lidar/ts", "radar/ts"))
    (trace / "_map").mkdir()
    files = ["map.ply", "occupancy.pgm", "occupancy.yaml", "bev.png"]
    for file in files:
        (trace / "_map" / file).write_text("something")
    write_provenance(trace / "_map", (*lidar, "_odom/pos"), files)
    (trace / "_slam").mkdir()  # of another program, so that no rule of ours applies
    return trace


@pytest.fixture
def trace(clean: Path, tmp_path: Path) -> Path:
    return shutil.copytree(clean, tmp_path / "rec")


def put(place: str, type: str, at: int, value: object, *shape: int) -> Callable[[Path], None]:
    """Change the sample `at` of a raw channel whose samples have this shape."""

    def damage(trace: Path) -> None:
        values = np.fromfile(trace / place, type).reshape(COUNT, *shape)
        values[at] = value
        values.tofile(trace / place)

    return damage


def meta(sensor: str, change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def damage(trace: Path) -> None:
        content = json.loads((trace / sensor / META).read_text())
        change(content)
        (trace / sensor / META).write_text(json.dumps(content))

    return damage


def remove(place: str) -> Callable[[Path], None]:
    return lambda trace: (trace / place).unlink()


def radar_points(name: str, at: int, value: float) -> Callable[[Path], None]:
    """Change the last point of a sample, which is past its count."""

    def damage(trace: Path) -> None:
        values = np.fromfile(trace / "_radar_points" / name, "f4").reshape(COUNT, -1)
        values[at, -1] = value
        values.tofile(trace / "_radar_points" / name)

    return damage


def fewer(trace: Path) -> None:
    path = trace / "_odom" / "vel"
    path.write_bytes(path.read_bytes()[:-24])


RULES: dict[str, tuple[Callable[[Path], object], str]] = {
    "equal counts": (fewer, "_odom/vel: has 4 samples where ts has 5"),
    "times rise": (put("_odom/ts", "f8", 2, times(COUNT)[0]), "_odom/ts: sample 2 at byte 16"),
    "times are finite": (put("imu/ts", "f8", 2, np.nan), "imu/ts: sample 2 at byte 16: is nan, not a time"),
    "times are of our time": (
        lambda t: np.arange(COUNT, dtype="f8").tofile(t / "imu/ts"), "imu/ts: runs from 0.000 to 4.000",
    ),
    "valid is 0 or 1": (put("_odom/valid", "u1", 3, 2), "_odom/valid: sample 3 at byte 3: is 2, must be 0 or 1"),
    "valid is there": (meta("_odom", lambda m: m.pop("valid")), "_odom: has a provenance.json of ours but no channel"),
    "provenance is there": (remove("_odom/provenance.json"), "_odom: has no provenance.json of ours"),
    "channels are there": (meta("_odom", lambda m: m.pop("avel")), "_odom: lacks the channel avel, f8 of [3]"),
    "types": (
        meta("_imu_filtered", lambda m: m["acc"].update(type="i4")),
        "_imu_filtered/acc: is i4 of [3], must be f4 of [3]",
    ),
    "shapes": (
        meta("_radar_velocity", lambda m: m["cov"].update(shape=[9])),
        "_radar_velocity/cov: is f4 of [9], must be f4 of [3, 3]",
    ),
    "the pair of a match": (meta("_sync", lambda m: m.pop("radar_dt")), "_sync: lacks the channel radar_dt, f4 of []"),
    "descriptions": (meta("_odom", lambda m: m["pos"].pop("desc")), "_odom/pos: has no desc in meta.json"),
    "axes": (
        meta("_odom", lambda m: m["rot"].update(desc="Rotation.")),
        "_odom/rot: its desc does not list the axes of [3, 3] in brackets",
    ),
    "published files": (
        remove("_radar_range_doppler/axes.json"), "_radar_range_doppler/axes.json: is missing although provenance",
    ),
    "same inputs": (put("lidar/valid", "u1", 0, 0), "_lidar_image: was made from other bytes of lidar/valid"),
    "same sidecars": (
        lambda t: (t / "lidar/lidar.json").write_text((t / "lidar/lidar.json").read_text() + " "),
        "_lidar_image: was made from other bytes of lidar/lidar.json",
    ),
    "invalid stays invalid": (
        put("_lidar_image/valid", "u1", INVALID, 1), "_lidar_image/valid: sample 1 is 1, it is 0 in lidar",
    ),
    "times are the parent's": (
        put("_lidar_image/ts", "f8", 4, times(COUNT)[4] + 0.01), "_lidar_image/ts: differs from that of lidar",
    ),
    "rotations": (put("_odom/rot", "f8", 2, np.diag([1, 1, 1.1]), 3, 3), "_odom: sample 2: rot is no rotation"),
    "rotations of other poses": (
        put("_radar_pose/rot", "f8", 2, np.nan, 3, 3), "_radar_pose: sample 2: rot is no rotation",
    ),
    "rotations are no reflections": (
        put("_odom/rot", "f8", 3, np.diag([1, 1, -1]), 3, 3), "_odom: sample 3: rot is a reflection",
    ),
    "poses are finite": (put("_odom/pos", "f8", 4, np.inf, 3), "_odom: sample 4: pos is not finite although valid"),
    "count fits": (put("_radar_points/count", "u2", 2, 60000), "_radar_points: sample 2: count is more than the"),
    "NaN past count": (radar_points("snr", 4, 3.0), "_radar_points: sample 4: snr is not NaN past count"),
    "covariances": (
        put("_radar_velocity/cov", "f4", 0, np.diag([1, 1, -1]), 3, 3),
        "_radar_velocity: sample 0: cov is no covariance",
    ),
    "quaternions": (put("_imu_filtered/quat", "f4", 2, 1.0, 4), "_imu_filtered: sample 2: quat is no rotation"),
    "matches exist": (put("_sync/radar", "i4", 2, 99), "_sync/radar: sample 2: is 99, radar has samples 0 to 4"),
    "matches are not below none": (put("_sync/radar", "i4", 2, -2), "_sync/radar: sample 2: is -2, radar has"),
    "residuals": (put("_sync/radar_dt", "f4", 2, np.nan), "_sync/radar_dt: sample 2: is not finite although there is"),
    "products are whole": (remove("_map/bev.png"), "_map/bev.png: is missing although provenance"),
    "products hold something": (lambda t: (t / "_map/map.ply").write_bytes(b""), "_map/map.ply: is empty"),
    "products are of their inputs": (
        put("_odom/pos", "f8", 0, 1.0, 3), "_map: was made from other bytes of _odom/pos",
    ),
    "sensors keep meta.json": (remove("_lidar_image/meta.json"), "_lidar_image: lost its meta.json"),
    "nothing is unfinished": (
        lambda t: (t / ".partial" / f"_map.1-{'0' * 16}").mkdir(parents=True),
        "_map: is unfinished",
    ),
    "readable provenance": (
        lambda t: (t / "_map" / PROVENANCE).write_text('{"made_by": "rover_pipeline", "inputs": 3}'),
        "_map/provenance.json: is damaged",
    ),
}  # fmt: skip


def test_a_trace_that_obeys_every_rule_has_no_problem(clean: Path) -> None:
    assert list(problems(clean)) == []


@pytest.mark.parametrize(("damage", "message"), RULES.values(), ids=RULES)
def test_a_broken_rule_is_reported_in_one_line(
    damage: Callable[[Path], object], message: str, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(trace)
    assert main(["check", str(trace), "--threads", "1"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [f"rec/{message}" in line for line in lines].count(True) == 1, lines


def test_results_of_other_programs_are_checked_only_by_the_rules_of_the_format(trace: Path) -> None:
    with SensorWriter(trace / "_camera", {TS: TS_SPEC, "segment": spec_of(np.zeros((3, 4, 4), "u1"))}) as writer:
        writer.append(ts=times(3), segment=np.zeros((3, 4, 4), "u1"))
    assert list(problems(trace)) == []


@pytest.mark.parametrize("step", ["../..", ".x:y", "a b:c", "x", "", 5, None, ["x:y"]])
def test_a_provenance_with_a_step_that_is_no_name_is_a_finding(step: object, tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "rec", 3)
    (trace / "_x").mkdir()
    (trace / "_x" / "provenance.json").write_text(json.dumps({"made_by": "rover_pipeline", "step": step}))
    assert list(problems(trace)) == [f"{trace}/_x: lost its meta.json; run the workflow again"]
