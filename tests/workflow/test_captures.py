"""A capture in the place of a recording is imported beside itself, once."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from rover_pipeline.cli import main
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.workflow import launch
from rover_pipeline.workflow.launch import kind_of, trace_of
from tests.importers import bags
from tests.importers.bags import START, Sent, header
from tests.kit import small_trace


def bag(path: Path, count: int = 40) -> Path:
    """A bag of ROS 1 with measurements of an IMU."""
    vector = ("geometry_msgs/msg/Vector3", (0.0, 0.0, 9.8))
    turn, zeros = ("geometry_msgs/msg/Quaternion", (0.0, 0.0, 0.0, 1.0)), np.zeros(9)
    stamps = (START + number * 10_000_000 for number in range(count))
    sent = [
        Sent("/imu", "sensor_msgs/msg/Imu", stamp, (header(stamp), turn, zeros, vector, zeros, vector, zeros))
        for stamp in stamps
    ]
    return bags.write_ros1(path, sent)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What Snakemake would be given as `traces`, of each run."""
    given: list[list[str]] = []

    def run(command: list[str], environment: object, folder: Path) -> int:
        given.append(json.loads(next(word for word in command if word.startswith("traces=")).removeprefix("traces=")))
        return 0

    monkeypatch.setattr(launch, "run_group", run)
    return given


def test_captures_are_known_by_their_content_or_their_ending(tmp_path: Path, captures: Path) -> None:
    assert kind_of(captures / "bags" / "sample_velodyne_vlp16_gps.pcap") == "velodyne"
    assert kind_of(captures / "ouster" / "OS-0-32-U1_v2.2.0_1024x10.pcap") == "ouster"
    assert (
        kind_of(captures / "bags" / "evo_nav2.mcap")
        == kind_of(captures / "bags" / "vlp16" / "1673400471837873222")
        == "ros"
    )
    (tmp_path / "drive" / "velodyne_points").mkdir(parents=True)
    assert kind_of(tmp_path / "drive") == "kitti"
    assert kind_of(small_trace(tmp_path / "trace")) == kind_of(tmp_path) == kind_of(tmp_path / "gone.bag") == ""


def test_a_capture_is_imported_once_and_again_only_where_the_import_is_gone(
    tmp_path: Path, asked: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    capture, trace = bag(tmp_path / "walk.bag"), tmp_path / "walk.trace"
    assert trace_of(capture, None) == trace
    assert main(["run", str(capture), "-n"]) == 0 and not trace.exists()
    assert f"would import {capture} as {trace}" in capsys.readouterr().err
    assert main(["run", str(capture)]) == 0
    state = (trace / "imu").stat().st_mtime_ns
    assert main(["run", str(capture)]) == 0
    assert asked == [[str(trace)], [str(trace)]] and (trace / "imu").stat().st_mtime_ns == state
    assert Sensor(trace / "imu").length() == 40


def test_what_was_imported_from_another_capture_is_named_and_not_used(
    tmp_path: Path, asked: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    capture = bag(tmp_path / "walk.bag")
    assert main(["run", str(capture)]) == 0
    capture.unlink()
    bag(capture, 50)
    assert main(["run", str(capture)]) == 1 and len(asked) == 1
    assert f"{tmp_path / 'walk.trace'}: was not imported from {capture} as it is now" in capsys.readouterr().err


def test_of_a_capture_that_is_cut_off_the_import_is_named_that_takes_what_is_whole_and_then_the_run_goes_on(
    tmp_path: Path, asked: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    capture = bag(tmp_path / "walk.bag", 4000)
    data = capture.read_bytes()
    capture.write_bytes(data[: len(data) * 6 // 10])
    assert main(["run", str(capture)]) == 1 and not asked
    (command,) = re.findall(r"`rover-pipeline ([^`]+ --partial)`", capsys.readouterr().err)
    assert main(shlex.split(command)) == 0
    assert main(["run", str(capture)]) == 0 and len(asked) == 1


def test_beside_a_capture_that_is_read_only_the_way_out_is_named_and_an_output_root_is_taken(
    tmp_path: Path, asked: list[list[str]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    capture = bag(tmp_path / "walk.bag")
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path)
    assert main(["run", str(capture)]) == 1
    assert "--config output_root=DIR" in capsys.readouterr().err
    root = tmp_path / "results"
    root.mkdir()
    assert main(["run", str(capture), "--config", f"output_root={root}"]) == 0
    assert asked == [[str(root / "walk.trace")]]


def test_a_capture_without_the_metadata_of_its_sensor_is_one_line(
    tmp_path: Path, captures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lonely.pcap").symlink_to(captures / "ouster" / "OS-0-32-U1_v2.2.0_1024x10.pcap")
    assert main(["run", str(tmp_path / "lonely.pcap")]) == 1
    told = capsys.readouterr().err
    assert "put it beside the capture as lonely.json" in told and told.count("\n") == 1
