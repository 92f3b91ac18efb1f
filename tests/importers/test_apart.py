"""Imports whose decoders are ended by what they decode end with one line, and leave nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path

import pytest

from rover_pipeline.cli import main
from rover_pipeline.lidar.captures import PacketDecoder
from rover_pipeline.lidar.geometry import sensor_info
from tests.importers import bags
from tests.importers.bags import START, imu
from tests.kit import small_trace


@pytest.mark.parametrize("end", [signal.SIGFPE, signal.SIGKILL, None], ids=str)
def test_a_decoder_that_is_ended_is_an_error_of_one_line(
    end: signal.Signals | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bag = bags.write_mcap(tmp_path / "a.mcap", [imu("/imu", START + i * 10**8, (0, 0, 9.8)) for i in range(30)])

    def ended(*values: object) -> None:
        assert list((tmp_path / "out").glob(".partial/*")), "it has begun"
        os.kill(os.getpid(), end) if end else os._exit(3)

    with monkeypatch.context() as patched:
        patched.setattr("rover_pipeline.importers.ros.sinks.ImuSink.add", ended)
        (tmp_path / "out").mkdir()
        assert main(["import", "ros", str(bag), "-o", str(tmp_path / "out" / "trace")]) == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith(f"rover-pipeline: {bag}: the process that decodes it ended")
    assert (f"by {end.name}" if end else "with status 3") in said
    assert os.listdir(tmp_path / "out") == [], "nothing of it is left"
    assert main(["import", "ros", str(bag), "-o", str(tmp_path / "out" / "trace")]) == 0


def test_errors_of_an_import_are_those_of_its_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bag").write_bytes(b"no bag")
    assert main(["import", "ros", str(tmp_path / "bag"), "-o", str(tmp_path / "out")]) == 1
    assert "neither a ROS 1 bag" in capsys.readouterr().err
    assert main(["import", "hesai", "x.pcap", "-o", str(tmp_path / "out")]) == 1
    assert "no kept Python library" in capsys.readouterr().err
    assert main(["--debug", "import", "ros", str(tmp_path / "bag"), "-o", str(tmp_path / "out")]) == 1
    assert "bags.py" in capsys.readouterr().err, "--debug shows where"


@pytest.mark.parametrize("name", ["columns_per_packet", "columns_per_frame", "pixels_per_column"])
@pytest.mark.parametrize("value", [0, -1, 1 << 32, 1 << 63, 1e300, 0.5, True, "16", None, 100_000])
def test_numbers_that_ouster_sdk_would_divide_by_are_looked_at_before(
    name: str, value: object, tmp_path: Path, captures: Path
) -> None:
    sidecar = json.loads((captures / "ouster" / "OS-0-32-U1_v2.2.0_1024x10.json").read_text())
    sidecar["data_format"][name] = value
    with pytest.raises(ValueError, match=f"{name} is .*, must be a whole number from 1 to"):
        sensor_info(json.dumps(sidecar))
    with pytest.raises(ValueError, match=f"{name} is .*, must be a whole number from 1 to"):
        PacketDecoder(json.dumps(sidecar))


@pytest.mark.parametrize("given", [True, False], ids=["as --meta", "beside the capture"])
def test_a_capture_with_such_metadata_is_an_error_of_one_line(
    given: bool, tmp_path: Path, captures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "OS-0-32-U1_v2.2.0_1024x10"
    shutil.copyfile(captures / "ouster" / f"{name}.pcap", tmp_path / f"{name}.pcap")
    sidecar = json.loads((captures / "ouster" / f"{name}.json").read_text())
    sidecar["data_format"]["columns_per_packet"] = 4294967296
    # The library itself takes this name for that of the capture's metadata.
    (tmp_path / f"{name}_.json").write_text(json.dumps(sidecar))
    meta = ["--meta", str(tmp_path / f"{name}_.json")] if given else []
    command = ["import", "ouster", str(tmp_path / f"{name}.pcap"), "-o", str(tmp_path / "out" / "trace"), *meta]
    assert main(command) == 1
    said = capsys.readouterr().err.splitlines()
    assert "columns_per_packet is 4294967296" in said[-1]
    assert not (tmp_path / "out").exists() or os.listdir(tmp_path / "out") == []


def test_a_recording_with_such_metadata_is_an_error_of_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = small_trace(tmp_path / "trace", sensors=("lidar",))
    sidecar = trace / "lidar" / "lidar.json"
    content = json.loads(sidecar.read_text())
    layout = content.get("lidar_data_format") or content["data_format"]
    layout["columns_per_packet"] = 1 << 32
    sidecar.write_text(json.dumps(content))
    request = ["step", "_lidar_image", "--request", "{}", "--trace", str(trace)]
    assert main([*request, "--output", str(trace / "_lidar_image" / "meta.json")]) == 1
    assert "columns_per_packet is 4294967296" in capsys.readouterr().err
