"""How long sweeps are, and the motion that points without times still hold: of a real drive, and once it is undone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.errors import RoverError
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.importers.clouds import import_clouds
from rover_pipeline.lidar.spin import Turning, share_of_turn
from rover_pipeline.table import find_step
from tests.odometry.test_odom import copied
from tests.odometry.test_odom import run as odometry_of
from tests.odometry.truth import errors, state_of

COUNT = 22
#: Way of the car in a sweep by the speed of its INS, m.
WAY = 16.89 / (COUNT - 1)


def drive(
    captures: Path,
    folder: Path,
    change: Callable[[np.ndarray], np.ndarray] = lambda points: points,
    *,
    turning: Turning | None = None,
) -> Path:
    """The real drive with its points changed, imported and registered."""
    (folder / "clouds").mkdir(parents=True)
    for path in sorted((captures / "lidar_hdl64_straight").glob("*.npz")):
        with np.load(path) as stored:
            points = change(stored["xyz_mm"] / 1000)
        np.savez(folder / "clouds" / path.name, xyz_mm=np.round(points * 1000).astype("i4"))
    trace = folder / "trace"
    import_clouds(folder / "clouds", trace, rate=10, start=1.7e9, compensated=turning is None, turning=turning)
    run_step(find_step("_odom"), trace, "_odom", Request())
    return trace


def length(trace: Path, *, valid: bool = True) -> float:
    odometry = Sensor(trace / "_odom")
    assert (odometry.valid(COUNT) == valid).all()
    return float(np.linalg.norm(odometry.channel("pos").read()[-1]))


def told(trace: Path) -> dict[str, float | str]:
    measured = json.loads((trace / "_odom" / "provenance.json").read_text())["measured"]
    return dict(measured["motion_in_sweeps"])


def mirrored(points: np.ndarray) -> np.ndarray:
    return points * np.array([1.0, -1.0, 1.0])


def undone(points: np.ndarray) -> np.ndarray:
    """Points as seen when the beams look ahead: later ones are farther ahead, because the car was."""
    return points + WAY * share_of_turn(points, "clockwise")[:, None] * np.array([1.0, 0.0, 0.0])


@pytest.mark.parametrize("turning", ["clockwise", "counterclockwise"])
def test_a_drive_that_is_called_compensated_and_is_not_is_told_with_what_to_do(
    captures: Path, tmp_path: Path, turning: Turning, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = drive(captures, tmp_path, mirrored if turning == "counterclockwise" else lambda points: points)
    found = told(trace)
    assert found["turning"] == turning and 0.5 < float(found["share"]) < 1.3
    said = capsys.readouterr().err
    assert "of the motion within their sweeps" in said and f"--turning {turning} and without --compensated" in said


def test_nothing_is_said_of_a_drive_whose_motion_is_undone(
    captures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert float(told(drive(captures, tmp_path, undone))["share"]) < 0.25
    assert "motion within their sweeps" not in capsys.readouterr().err


def test_both_sides_of_a_drive_tell_the_same_way_once_points_are_dated(captures: Path, tmp_path: Path) -> None:
    # As measured at one instant the left half tells 16.70 m, and the right one 16.94 m.
    sides: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "left": lambda points: points[points[:, 1] > 0],
        "right": lambda points: points[points[:, 1] < 0],
    }
    # What is on one side alone may be a train. The left half sees enough of what is ahead, and the right one does not.
    ways = [
        length(drive(captures, tmp_path / name, side, turning="clockwise"), valid=name == "left")
        for name, side in sides.items()
    ]
    assert abs(ways[0] - ways[1]) < 0.06


def test_sweeps_longer_or_shorter_than_the_sidecar_says_are_refused_with_what_to_do(tiny: Path, tmp_path: Path) -> None:
    for rate in (5, 20):
        trace = copied(tiny, tmp_path / str(rate))
        sidecar = trace / "lidar" / "lidar.json"
        mode = json.loads(sidecar.read_text())
        mode["lidar_data_format"]["fps"] = rate
        sidecar.write_text(json.dumps(mode))
        with pytest.raises(RoverError, match=f"{rate} sweeps a second, but they come every 0.1 s.*correct lidar_mode"):
            odometry_of(trace)


def test_sweeps_of_which_every_second_one_is_missing_are_as_long_as_the_sidecar_says(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odometry = odometry_of(copied(tiny, tmp_path / "trace", keep=np.arange(0, 24, 2)))
    assert "others to be missing between them" in capsys.readouterr().err
    truth = state_of(tiny / "_truth", np.arange(0, 24, 2))
    assert errors(state_of(odometry), truth).pos < 0.01
