"""Contradictions between the odometry and references of a recording, and who of them is to blame."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from benchmarks import drives
from rover_pipeline.cli import main
from rover_pipeline.format.sensor import TS, TS_SPEC, VALID, VALID_SPEC, SensorWriter
from rover_pipeline.importers.reference import write_reference
from rover_pipeline.options import PageOptions
from rover_pipeline.report.page import summarise
from tests.kit import small_trace, spec_of, times

FRAMES, SIGMA = 120, 0.01
START = times(1)[0]


def write(folder: Path, ts: np.ndarray, **channels: np.ndarray) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    specs = {TS: TS_SPEC, VALID: VALID_SPEC, **{name: spec_of(values) for name, values in channels.items()}}
    with SensorWriter(folder, specs) as writer:
        writer.append(ts=ts, valid=np.ones(len(ts), "u1"), **channels)


def truth(ts: np.ndarray, *, stands: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Positions and rotations on a circle of 5 m at 2 m/s, or of a rig that stands."""
    angle = 0 * ts if stands else 0.4 * (ts - START)
    pos = 5 * np.stack([np.sin(angle), 1 - np.cos(angle), 0 * angle], axis=-1)
    return pos, Rotation.from_euler("z", angle[:, None]).as_matrix()


def slips(ts: np.ndarray, metres: float, *, over: float = 1e-3) -> np.ndarray:
    """A shift along x that begins after five seconds."""
    return metres * np.clip((ts - START - 5) / over, 0, 1)[:, None] * [1.0, 0, 0]


def recording(path: Path, *, imu: bool, stands: bool = False, odometry: float = 0.0) -> Path:
    """`_odom` with noise of its covariance, and an IMU with noise at 100 Hz."""
    trace, rng = small_trace(path, FRAMES, invalid={}), np.random.default_rng(0)
    ts = times(FRAMES)
    pos, rot = truth(ts, stands=stands)
    noise = rng.normal(0, SIGMA, (FRAMES, 6))
    noise[0] = 0
    rot = rot @ Rotation.from_rotvec(noise[:, 3:]).as_matrix()
    cov = np.tile(SIGMA**2 * np.eye(6, dtype="f4"), (FRAMES, 1, 1))
    write(trace / "_odom", ts, pos=pos + noise[:, :3] + slips(ts, odometry, over=0.5), rot=rot, cov=cov)
    shutil.rmtree(trace / "imu", ignore_errors=True)
    if imu:
        fine = np.arange(ts[0] - 0.1, ts[-1] + 0.1, 0.01)
        acc = np.array([0.0, 0 if stands else 0.8, 9.81]) + rng.normal(0, 0.05, (len(fine), 3))
        write(trace / "imu", fine, acc=acc.astype("f4"), avel=np.zeros((len(fine), 3), "f4"))
    return trace


def refer(trace: Path, *, sigma: float | None, jump: float = 0.0, over: float = 1e-3, stands: bool = False) -> None:
    """A `_reference` at 25 Hz with noise of the deviation that it states."""
    ts = START - 0.31 + np.arange(320) / 25
    pos, rot = truth(ts, stands=stands)
    pos = pos + np.random.default_rng(1).normal(0, sigma or SIGMA, pos.shape) + slips(ts, jump, over=over)
    states = {"pos": pos, "rot": rot}
    if sigma:
        states["cov"] = np.tile(np.diag([sigma**2] * 3 + [1e-6] * 3), (len(ts), 1, 1))
    shutil.rmtree(trace / "_reference", ignore_errors=True)
    write_reference(trace, ts, states, command="import clouds", source="poses")


def place(trace: Path, sigma: float, jump: float = 0.0) -> None:
    """A receiver 0.4 m from the lidar with fixes at 5 Hz, near Zurich."""
    ts = START + np.arange(58) / 5
    pos, rot = truth(ts)
    pos = pos + slips(ts, jump) + rot @ [0.4, 0, 0.2] + np.random.default_rng(2).normal(0, sigma, pos.shape)
    north, east = 111_177.0, 111_320.0 * np.cos(np.radians(47.4))
    cov = np.tile(sigma**2 * np.eye(3, dtype="f4"), (len(ts), 1, 1))
    write(trace / "gnss", ts, lat=47.4 + pos[:, 1] / north, lon=8.5 + pos[:, 0] / east, alt=400 + pos[:, 2], cov=cov)


def judged(trace: Path, capsys: pytest.CaptureFixture[str]) -> tuple[list[str], dict[str, Any]]:
    """Lines that make `check` fail because of a reference, and what it says of each comparison of `_odom`."""
    capsys.readouterr()
    main(["check", str(trace), "--against", "--json"])
    (found,) = json.loads(capsys.readouterr().out).values()
    return [line for line in found["problems"] if "wrong and sure" in line], found["against"]


def test_noise_of_the_stated_deviations_contradicts_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = recording(tmp_path / "rec", imu=True)
    for sigma in (0.02, 0.5, None):
        refer(trace, sigma=sigma)
        place(trace, 1.0)
        problems, found = judged(trace, capsys)
        assert not problems
        assert [each["contradictions"] for each in found.values()] == [[], []], "of the reference and of the receiver"


def test_an_odometry_that_slips_by_more_than_both_deviations_is_wrong_and_sure_if_a_witness_tells(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = recording(tmp_path / "rec", imu=True, odometry=1.0)
    refer(trace, sigma=0.02)
    (problem,), found = judged(trace, capsys)
    (each,) = found["_odom"]["contradictions"]
    assert "as the IMU shows" in problem
    assert each["begin"] < START + 5 < each["end"] < START + 7 and each["excess"] > 3
    refer(trace, sigma=1.0)
    assert not judged(trace, capsys)[0], "a reference that is off by a metre cannot decide"


@pytest.mark.parametrize("name", ["_reference", "_truth"])
def test_without_a_witness_a_reference_is_not_believed_more_than_the_odometry_but_a_truth_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    trace = recording(tmp_path / "rec", imu=False, odometry=1.0)
    refer(trace, sigma=0.02)
    if name == "_truth":
        shutil.rmtree(trace / name, ignore_errors=True)
        write(trace / name, times(FRAMES), **dict(zip(("pos", "rot"), truth(times(FRAMES)), strict=True)))
    problems, found = judged(trace, capsys)
    (each,) = found["_odom"]["contradictions"]
    assert each["witness"] == "" and each["wrong"] is bool(problems) is (name == "_truth")
    if name == "_reference":
        assert "either it or the reference is wrong, and no witness decides" in " ".join(found["_odom"]["notes"])
        findings = summarise(trace, PageOptions()).findings
        assert [each.severity for each in findings if "no witness decides" in each.text] == ["warning"]


def test_a_receiver_that_jumps_while_it_moves_does_not_make_the_odometry_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = recording(tmp_path / "rec", imu=True)
    place(trace, 0.5, jump=50.0)
    problems, found = judged(trace, capsys)
    assert not problems and [each["witness"] for each in found["_odom"]["contradictions"]] == ["the IMU"]


def test_a_receiver_in_the_recording_is_a_reference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = recording(tmp_path / "rec", imu=True, odometry=12.0)
    place(trace, 0.5)
    (problem,), found = judged(trace, capsys)
    assert "gnss" in problem and list(found) == ["_odom"]
    refer(trace, sigma=0.02)
    assert {"_odom", "_odom against gnss"} == set(judged(trace, capsys)[1])


@pytest.mark.parametrize(("sigma", "over"), [(0.02, 1e-3), (None, 1e-3), (0.02, 6.0), (None, 6.0)])
def test_a_rig_stands_while_its_reference_drives_50_m_and_the_imu_tells_who_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], sigma: float | None, over: float
) -> None:
    trace = recording(tmp_path / "rec", imu=True, stands=True)
    refer(trace, sigma=sigma, jump=50.0, over=over, stands=True)
    problems, found = judged(trace, capsys)
    (each,) = found["_odom"]["contradictions"]
    assert not problems and each["witness"] == "the IMU" and each["ours"] < 0.1 and each["theirs"] > 8
    assert "the reference is wrong, as the IMU shows" in " ".join(found["_odom"]["notes"])
    (finding,) = [each for each in summarise(trace, PageOptions()).findings if "the reference is wrong" in each.text]
    assert finding.severity == "warning" and finding.place == "_odom"


@pytest.mark.parametrize("sigma", [0.02, None])
def test_the_imu_tells_who_drifts_off_by_a_metre_a_second(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], sigma: float | None
) -> None:
    trace = recording(tmp_path / "rec", imu=True)
    refer(trace, sigma=sigma, jump=6.0, over=6.0)
    problems, found = judged(trace, capsys)
    assert not problems and [each["witness"] for each in found["_odom"]["contradictions"]] == ["the IMU"]
    pos = np.fromfile(trace / "_odom/pos").reshape(-1, 3) + slips(times(FRAMES), 6.0, over=6.0)
    pos.tofile(trace / "_odom/pos")
    refer(trace, sigma=sigma)
    problems, found = judged(trace, capsys)
    assert len(problems) == 1 and "as the IMU shows" in problems[0]


def test_without_an_imu_a_jump_is_known_by_its_acceleration_and_a_slow_one_by_nobody(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = recording(tmp_path / "rec", imu=False, stands=True)
    refer(trace, sigma=0.02, jump=50.0, stands=True)
    problems, found = judged(trace, capsys)
    assert not problems and found["_odom"]["contradictions"][0]["witness"] == "its acceleration"
    refer(trace, sigma=None, jump=20.0, over=6.0, stands=True)
    problems, found = judged(trace, capsys)
    assert not problems and "no witness decides" in " ".join(found["_odom"]["notes"])


def test_the_page_calls_a_recording_bad_whose_odometry_is_wrong_and_sure(tmp_path: Path) -> None:
    trace = recording(tmp_path / "rec", imu=True, odometry=1.0)
    refer(trace, sigma=0.02)
    found = [each for each in summarise(trace, PageOptions()).findings if "wrong and sure" in each.text]
    assert [(each.severity, each.place) for each in found] == [("error", "_odom")]


@pytest.mark.system
def test_a_real_drive_and_its_ins_agree_until_one_of_them_jumps_or_stands_and_its_imu_tells_which(
    captures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = drives.imported(captures, "city street", "ours", tmp_path)
    drives.command("run", str(trace), "--outputs", "odom")
    problems, found = judged(trace, capsys)
    assert not problems and found["_odom"]["contradictions"] == [], "the INS states 0.1 m"
    for name, is_wrong in (("_odom", True), ("_reference", False)):
        for fault in ("jump", "stand"):
            changed = tmp_path / name / fault
            shutil.copytree(trace, changed)
            ts, pos = np.fromfile(changed / name / TS), np.fromfile(changed / name / "pos").reshape(-1, 3)
            half = len(ts) // 2
            pos[half:] = pos[half:] + np.array([3.0, 0, 0]) if fault == "jump" else pos[half]
            pos.tofile(changed / name / "pos")
            problems, found = judged(changed, capsys)
            (each,) = found["_odom"]["contradictions"]
            assert (each["witness"], each["wrong"], bool(problems)) == ("the IMU", is_wrong, is_wrong), (name, fault)
