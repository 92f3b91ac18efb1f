"""`compare` says by how much two trajectories differ, and what differs between two runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from rover_pipeline.cli import main
from rover_pipeline.format.provenance import PROVENANCE
from rover_pipeline.format.sensor import Sensor
from tests.report.scene import provenance

#: Every pose of the wrong trajectory is beside the true one by this much, m: up for one half, down for the other.
WAVE_M = 0.03


@pytest.fixture
def runs(drive: Path, tmp_path: Path) -> tuple[Path, Path]:
    """Two runs of one recording: the truth as `_odom`, and the same in another world with an error that is known."""
    a, b = tmp_path / "a" / "walk", tmp_path / "b" / "walk"
    for run in (a, b):
        shutil.copytree(drive, run)
        (run / "_odom" / PROVENANCE).unlink(missing_ok=True)
        provenance(run / "_odom", samples=Sensor(run / "_odom").length(), invalid=0, source="lidar")
    odom = Sensor(a / "_odom")
    pos, rot = odom.channel("pos").read_whole(), odom.channel("rot").read_whole()
    world = Rotation.from_euler("z", 40, degrees=True).as_matrix()
    wave = WAVE_M * np.where(np.arange(len(pos)) % 2 == 0, 1.0, -1.0)
    moved = (pos + wave[:, None] * rot[:, :, 2]) @ world.T + [3.0, -2.0, 1.0]
    moved.astype("<f8").tofile(a / "_odom" / "pos")
    (world @ rot).astype("<f8").tofile(a / "_odom" / "rot")
    return a, b


def figures(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    assert main(["compare", *map(str, arguments), "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_known_error_is_measured_after_both_worlds_are_aligned(
    runs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = runs
    assert main(["export", "tum", str(b), "-o", str(tmp_path / "truth.txt")]) == 0
    capsys.readouterr()
    for other in (b, b / "_odom", b / "_truth", tmp_path / "truth.txt"):
        (recording,) = figures(capsys, a, other)["recordings"]
        found = recording["trajectories"]["_odom"]
        assert found["ate_m"] == pytest.approx(WAVE_M, rel=0.02)
        assert found["ate_max_m"] == pytest.approx(WAVE_M, rel=0.2)
        assert found["turned_deg"] == pytest.approx(40, abs=0.5) and found["rotation_deg"] < 0.01
        # Neighbours in the wave differ by nothing or by twice its height.
        assert all(each["translation_m"] < 2.1 * WAVE_M for each in found["relative"].values())
    same = figures(capsys, b, b)["recordings"][0]["trajectories"]["_odom"]
    assert same["ate_m"] < 1e-9


def test_what_differs_between_two_runs_is_named(runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    a, b = runs
    content = json.loads((a / "_odom" / PROVENANCE).read_text())
    changed = {"options": {"gain": 4}, "version": 9, "packages": {"numpy": "9"}, "invalid": 3}
    (a / "_odom" / PROVENANCE).write_text(json.dumps(content | changed))
    shutil.copytree(a / "_odom", a / "_extra")
    (recording,) = figures(capsys, a.parent, b.parent)["recordings"]
    assert recording["recording"] == "walk" and recording["only_a"] == ["_extra"] and recording["only_b"] == []
    odom = recording["results"]["_odom"]
    assert odom["files_that_differ"] == ["pos", "rot"]
    assert odom["options"] == {"gain": [4, 3]}
    assert odom["versions"] == {"step": [9, 2], "numpy": ["9", "2.4.6"]}
    assert odom["valid"] == [1 - 3 / content["samples"], 1.0]


def test_the_page_holds_both_paths_and_the_errors_and_needs_no_network(
    runs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = runs
    out = tmp_path / "page.html"
    assert main(["compare", str(a.parent), str(b.parent), "-o", str(out)]) == 0
    assert capsys.readouterr().out == f"{out}\n"
    page = out.read_text()
    assert "30 mm" in page and "turned by 40.0" in page and page.count("<svg") >= 4
    assert 'src="http' not in page and 'href="http' not in page
    assert main(["compare", str(a), str(b), "-o", str(out)]) == 1
    assert "already exists" in capsys.readouterr().err and out.read_text() == page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("{a}", "{b}"), "give a file for the page"),
        (("{a}", "{a}/nothing", "--json"), "no such file or folder"),
        (("{a}/_odom", "{b}", "--json"), "the first one must be a recording"),
        (("{a}", "{a}/lidar", "--json"), "holds no poses"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_one_line(
    runs: tuple[Path, Path], arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [each.replace("{a}", str(runs[0])).replace("{b}", str(runs[1])) for each in arguments]
    assert main(["compare", *words]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
