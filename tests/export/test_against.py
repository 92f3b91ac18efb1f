"""`check --against`: the trajectories of a trace beside its truth, its reference, another trace, or a file of poses."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from scipy.spatial.transform import Rotation

from rover_pipeline.cli import main
from rover_pipeline.export import ExportOptions
from rover_pipeline.export.trajectory import write_kitti, write_tum
from rover_pipeline.format.provenance import PROVENANCE
from rover_pipeline.format.sensor import TS, TS_SPEC, VALID, VALID_SPEC, Sensor, SensorWriter
from rover_pipeline.format.trace import CONFIG
from rover_pipeline.importers.reference import write_reference
from rover_pipeline.validation.rig import pose_delay
from tests.kit import small_trace, spec_of, times

FRAMES = 60
ARM = np.array([0.5, 0.2, -0.1])
TURN = Rotation.from_euler("z", 30, degrees=True)


def curve(ts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions and rotations of a drive on a circle, 2 m/s."""
    angle = (ts - times(1)[0]) * 0.4
    pos = 5 * np.stack([np.sin(angle), 1 - np.cos(angle), 0 * angle], axis=-1)
    return pos, Rotation.from_euler("z", angle[:, None]).as_matrix()


def write_poses(folder: Path, ts: np.ndarray, pos: np.ndarray, rot: np.ndarray, **more: np.ndarray) -> None:
    channels = {"pos": pos, "rot": rot, **more}
    specs = {name: spec_of(values) for name, values in channels.items()}
    with SensorWriter(folder, {TS: TS_SPEC, VALID: VALID_SPEC, **specs}) as writer:
        writer.append(ts=ts, valid=np.ones(len(ts), "u1"), **channels)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A drive whose `_odom` is off by 2 cm in every second pose, in a world of its own."""
    trace = small_trace(tmp_path / "rec", FRAMES, invalid={})
    ts = times(FRAMES)
    pos, rot = curve(ts)
    pos[::2] += [0, 0, 0.02]
    world = Rotation.from_euler("xyz", [10, 20, 30], degrees=True)
    cov = np.tile(0.01**2 * np.eye(6, dtype="f4"), (FRAMES, 1, 1))
    write_poses(trace / "_odom", ts, world.apply(pos) + np.array([1, 2, 3]), world.as_matrix() @ rot, cov=cov)
    return trace


def give_reference(trace: Path, body: str = "lidar") -> None:
    """A reference at 25 Hz, which begins before the sweeps and ends after them, with a clock of its own."""
    ts = times(1)[0] - 0.31 + np.arange(200) / 25
    pos, rot = curve(ts)
    write_reference(trace, ts, {"pos": pos, "rot": rot}, command="import clouds", source="poses", body=body)


def checked(*arguments: Any, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any], list[str]]:
    """Exit status, what was found of each trajectory, and the problems that are about it."""
    capsys.readouterr()
    status = main(["check", *map(str, arguments), "--json"])
    (found,) = json.loads(capsys.readouterr().out).values()
    of_poses = [line for line in found["problems"] if "provenance.json of ours" not in line]
    return status, found["against"], [line for line in of_poses if "desc" not in line]


def test_two_centimetres_to_and_fro_are_one_centimetre_of_ate_against_any_kind_of_reference(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    give_reference(trace)
    other = small_trace(tmp_path / "other", FRAMES, invalid={})
    write_poses(other / "_truth", times(FRAMES), *curve(times(FRAMES)))
    write_tum(other, tmp_path / "tum.txt", ExportOptions(sensor="_truth"))
    write_kitti(other, tmp_path / "kitti.txt", ExportOptions(sensor="_truth"))
    for path in (
        "",
        trace,
        trace / "_reference",
        other,
        other / "_truth",
        tmp_path / "tum.txt",
        tmp_path / "kitti.txt",
    ):
        _, found, problems = checked(trace, "--against", *([path] if path else []), capsys=capsys)
        odom = found["_odom"]
        assert odom["ate_m"] == pytest.approx(0.01, abs=2e-4), path
        assert odom["second"]["translation_m"] < 0.002, "poses a second apart are off by the same"
        assert (odom["valid"], odom["compared"], odom["wrong"]) == (FRAMES, FRAMES, 0)
        assert odom["nees"] > 0 and not problems


def test_the_line_for_people_has_the_figures_and_limits_make_the_exit_status(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    give_reference(trace)
    main(["check", str(trace), "--against"])
    line = next(each for each in capsys.readouterr().out.splitlines() if "ATE" in each)
    assert line.startswith(f"{trace / '_odom'} against {trace / '_reference'}: ATE 0.0100 m RMS")
    assert "60 of 60 valid, 60 compared; 0 wrong and sure; NEES" in line
    for limit, kept in (("--max-ate", 0.02), ("--max-rpe", 0.01), ("--max-wrong", 0), ("--max-nees", 99)):
        assert not checked(trace, "--against", limit, kept, capsys=capsys)[2]
    for limit, broken in (("--max-ate", 0.009), ("--max-rpe", 1e-12), ("--max-nees", 0.01), ("--min-valid", 1.01)):
        status, _, problems = checked(trace, "--against", limit, broken, capsys=capsys)
        assert status == 1 and len(problems) == 1 and limit in problems[0]


def test_the_radar_is_compared_through_its_mount_at_the_instant_its_poses_are_of(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    give_reference(trace)
    pos, rot = curve(times(FRAMES) + 0.025)
    write_poses(trace / "_radar_pose", times(FRAMES), pos + rot @ ARM, rot @ TURN.as_matrix())
    (trace / "_radar_pose" / PROVENANCE).write_text(
        json.dumps({"made_by": "rover_pipeline", "measured": {"radar_instant_after_ts_s": 0.025}})
    )
    assert "_radar_pose" not in checked(trace, "--against", capsys=capsys)[1], "nothing tells the mount"
    config = yaml.safe_load((trace / CONFIG).read_text())
    rig = {"radar": {"translation": ARM.tolist(), "rotation": TURN.as_matrix().tolist()}}
    (trace / CONFIG).write_text(yaml.safe_dump({**config, "rig": rig}))
    found = checked(trace, "--against", capsys=capsys)[1]["_radar_pose"]
    assert found["ate_m"] < 3e-4 and found["second"]["translation_m"] < 5e-4
    assert found["notes"] == ["by the mount of the radar in `rig`"]
    for name in ("_radar_pose", "_nose_pose", "_radar_odom"):  # whatever the radar is called; `_radar_odom` is at `ts`
        provenance = {"made_by": "rover_pipeline", "measured": {"radar_instant_after_ts_s": 0.025}}
        (trace / name).mkdir(exist_ok=True)
        (trace / name / PROVENANCE).write_text(json.dumps(provenance))
        assert pose_delay(trace, name) == (0.0 if name == "_radar_odom" else 0.025)


def test_poses_of_another_body_are_compared_with_a_note(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    give_reference(trace, body="base_link")
    odom = checked(trace, "--against", capsys=capsys)[1]["_odom"]
    assert odom["ate_m"] == pytest.approx(0.01, abs=2e-4)
    assert odom["notes"] == ["poses of base_link, whose distance from the lidar counts as error where it turns"]


def test_a_simulation_is_compared_at_the_true_instants_of_its_samples(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(trace / "_odom")
    true = times(FRAMES) - 0.05 + np.random.default_rng(0).normal(0, 0.005, FRAMES)
    for name in ("_truth", "_odom"):
        write_poses(trace / name, times(FRAMES), *curve(true), **({"true_ts": true} if name == "_truth" else {}))
    assert checked(trace, "--against", capsys=capsys)[1]["_odom"]["ate_max_m"] < 1e-9


def test_what_cannot_be_compared_is_one_line_and_no_success(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def lines(*arguments: Any) -> str:
        assert main(["check", *map(str, arguments)]) == 1
        return "\n".join(capsys.readouterr())

    assert f"{trace}: has neither _truth nor _reference to compare with; give a file" in lines(trace, "--against")
    give_reference(trace)
    assert "0 of 60 valid poses" in lines(trace, "--against", "--offset", "1000")
    assert lines(trace, "--against", gone := tmp_path / "none") == f"\nrover-pipeline: {gone}: no such file or folder\n"
    assert "--max-ate is about a reference; give --against too" in lines(trace, "--max-ate", "1")
    other = small_trace(tmp_path / "other", 3)
    assert "is of one trace, and 2 are given" in lines(trace, other, "--against", trace)
    give_reference(other)
    assert "has none of _odom" in lines(other, "--against")
    (tmp_path / "bad.txt").write_text("1 2 3\n")
    assert "must have 8 numbers a line" in lines(trace, "--against", tmp_path / "bad.txt")
    ts = Sensor(trace / "_odom").channel(TS).read()
    np.savetxt(tmp_path / "back.txt", np.column_stack([ts[::-1], np.zeros((FRAMES, 6)), np.ones(FRAMES)]))
    assert "does not come after" in lines(trace, "--against", tmp_path / "back.txt")
