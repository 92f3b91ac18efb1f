"""Every real capture is imported by the command that users type, and `check` finds nothing wrong with the trace.

What a capture cannot be is refused in one line.
"""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from rover_pipeline.cli import main
from rover_pipeline.format.sensor import Sensor

_OUSTER, _FAN, _STILL, _CAR = (
    "{}/ouster/",
    "{}/radar_awr1642_fan/",
    "{}/radar_iwr6843_3tx4rx/",
    "{}/lidar_hdl64_straight",
)
#: Capture -> the arguments of `import`, with the folder of captures in place of `{}`; a sensor that it gives; samples.
CAPTURES: dict[str, tuple[str, str, int]] = {
    "bags/embag.bag": ("ros {}/bags/embag.bag", "lidar", 5),
    "bags/rl_test2.bag": ("ros {}/bags/rl_test2.bag", "imu", 3061),
    "bags/imutools_ardrone_imu.bag": ("ros {}/bags/imutools_ardrone_imu.bag", "imu", 4308),
    "bags/evo_nav2.mcap": ("ros {}/bags/evo_nav2.mcap", "_reference", 2639),
    "bags/pj_rosbag2_test_0.db3": ("ros {}/bags/pj_rosbag2_test_0.db3", "imu", 1565),
    "bags/ti_mmwave_radar_imu.bag": ("ros {}/bags/ti_mmwave_radar_imu.bag", "radar", 412),
    "bags/vlp16": ("ros {}/bags/vlp16/1673400471837873222", "lidar", 5),
    "bags/sample_velodyne_vlp16_gps.pcap": ("velodyne {}/bags/sample_velodyne_vlp16_gps.pcap", "lidar", 5),
    "ouster/OS-1-128_v2.3.0_1024x10_lb_n3.pcap": (f"ouster {_OUSTER}OS-1-128_v2.3.0_1024x10_lb_n3.pcap", "lidar", 3),
    "ouster/OS-1-128_v2.3.0_1024x10_lb_n3.osf": (f"ouster {_OUSTER}OS-1-128_v2.3.0_1024x10_lb_n3.osf", "lidar", 3),
    "ouster/OS-0-32-U1_v2.2.0_1024x10.pcap": (f"ouster {_OUSTER}OS-0-32-U1_v2.2.0_1024x10.pcap", "lidar", 1),
    "radar_iwr6843_3tx4rx": (f"dca1000 {_STILL}adc_data.bin --config {_STILL}mmwaveDevice.mmwave.json", "radar", 1),
    "radar_awr1642_fan": (f"dca1000 adc.bin --config {_FAN}pipe_LogFile.txt", "radar", 1000),
    "lidar_hdl64_straight": (
        f"clouds {_CAR} --rate 10 --start 1700000000 --turning clockwise --poses {_CAR}/truth_poses_ins.txt",
        "lidar",
        22,
    ),
}
#: Those that take seconds.
SLOW = {"lidar_hdl64_straight", "bags/embag.bag", "bags/imutools_ardrone_imu.bag", "radar_awr1642_fan"}
REFUSED = {
    "bags/fg_example-lz4.bag": ("ros {}/bags/fg_example-lz4.bag", "holds no cloud"),
    "radar_openradar_2tx4rx": (
        "dca1000 {}/radar_openradar_2tx4rx/doppler_example_1.npy --config " + f"{_STILL}mmwaveDevice.mmwave.json",
        "doppler_example_1.npy",
    ),
}
#: Captures that are no import's: motion capture in a format of its own, read by a test with h5py.
#: Sequences with a truth, which the benchmarks judge (`benchmarks.drives`, `benchmarks.captures`).
OTHERS = {
    *("imu_broad", "imu_lio", "lidar_camera_dgp", "lidar_camera_kitti_object", "lidar_kitti_0027", "lidar_radar_vod"),
    "radar_saic",
}


def typed(text: str, captures: Path, folder: Path) -> list[str]:
    """The command; a capture that is packed is unpacked first."""
    words = text.split()
    if "adc.bin" in words:
        packed = captures / "radar_awr1642_fan" / "fan_on.bin.xz"
        (folder / "adc.bin").write_bytes(lzma.decompress(packed.read_bytes()))
        words = [str(folder / each) if each == "adc.bin" else each for each in words]
    return ["import", *(each.replace("{}", str(captures)) for each in words), "-o", str(folder / "trace")]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.system] if name in SLOW else []) for name in CAPTURES]
)
def test_what_is_imported_is_whole(
    captures: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments, sensor, samples = CAPTURES[name]
    assert main(typed(arguments, captures, tmp_path)) == 0
    assert Sensor(tmp_path / "trace" / sensor).length() == samples
    capsys.readouterr()
    assert main(["check", str(tmp_path / "trace"), "--threads", "1"]) == 0, capsys.readouterr().out
    assert main(["info", str(tmp_path / "trace")]) == 0


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_imported_is_refused_in_one_line_and_leaves_nothing(
    captures: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments, message = REFUSED[name]
    assert main(typed(arguments, captures, tmp_path)) == 1
    (line,) = capsys.readouterr().err.splitlines()[-1:]
    assert message in line
    assert not list(tmp_path.iterdir())


def test_no_capture_is_forgotten(captures: Path) -> None:
    known = {*CAPTURES, *REFUSED, *OTHERS}
    for folder in captures.iterdir():
        entries = [folder] if folder.name not in ("bags", "ouster") else list(folder.iterdir())
        for entry in entries:
            name = str(entry.relative_to(captures))
            assert name in known or entry.suffix in (".md", ".json", ".txt"), name
