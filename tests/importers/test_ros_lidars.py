"""Lidars whose drivers have messages of their own: packets of an Ouster, and the points of a Livox."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from ouster.sdk import core, open_packet_source

from rover_pipeline.cli import main
from rover_pipeline.errors import ConfigError, FormatError
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.importers.ouster import import_ouster
from rover_pipeline.importers.ros.record import import_ros
from rover_pipeline.validation.check import problems
from tests.importers import bags
from tests.importers.bags import START, Sent, header
from tests.kit import snapshot

TENTH = 100_000_000
SINGLE, DUAL = "OS-1-128_v2.3.0_1024x10_lb_n3", "OS-0-32-U1_v2.2.0_1024x10"
METADATA = {SINGLE: "OS-1-128_v2.3.0_1024x10.json", DUAL: "OS-0-32-U1_v2.2.0_1024x10.json"}


def taken(bag: Path, out: Path, **options: Any) -> tuple[dict[str, int], list[str]]:
    lines: list[str] = []
    samples = import_ros([bag], out, say=lines.append, **options)
    assert list(problems(out)) == []
    return samples, lines


def packets(folder: Path, name: str, package: str, *, metadata: bool = True, extra: bytes = b"") -> list[Sent]:
    """The packets of a capture as the driver publishes them, and its metadata."""
    sent = []
    kinds = {core.LidarPacket: "/ouster/lidar_packets", core.ImuPacket: "/ouster/imu_packets"}
    for _, packet in open_packet_source(str(folder / f"{name}.pcap"), meta=[str(folder / METADATA[name])]):
        data = np.frombuffer(packet.buf.tobytes() + extra, "u1")
        sent.append(Sent(kinds[type(packet)], f"{package}/msg/PacketMsg", packet.host_timestamp, (data,)))
    if metadata:
        text = (folder / METADATA[name]).read_text()
        sent.insert(0, Sent("/ouster/metadata", "std_msgs/msg/String", sent[0].time, (text,)))
    return sent


@pytest.mark.parametrize(
    ("name", "package", "extra", "write"),
    [
        (SINGLE, "ouster_sensor_msgs", b"", lambda folder, sent: bags.write_mcap(folder / "a.mcap", sent)),
        (DUAL, "ouster_ros", b"\0", lambda folder, sent: bags.write_ros1(folder / "a.bag", sent)),
    ],
    ids=["ros2", "old-driver"],
)
def test_packets_of_an_ouster_in_a_bag_give_the_bytes_that_its_capture_gives(
    captures: Path, tmp_path: Path, name: str, package: str, extra: bytes, write: Callable[[Path, list[Sent]], Path]
) -> None:
    folder = captures / "ouster"
    import_ouster(folder / f"{name}.pcap", tmp_path / "capture", folder / METADATA[name])
    samples, _ = taken(write(tmp_path, packets(folder, name, package, extra=extra)), tmp_path / "bag")
    wanted, found = snapshot(tmp_path / "capture"), snapshot(tmp_path / "bag")
    assert {"lidar/rng", "lidar/rfl", "lidar/ts", "lidar/lidar.json", "imu/acc", "imu/ts"} <= wanted.keys()
    assert found.keys() == wanted.keys()
    assert [path for path in wanted if found[path] != wanted[path]] == ["config.yaml"]
    assert samples == {sensor: Sensor(tmp_path / "capture" / sensor).length() for sensor in ("lidar", "imu")}
    configs = [yaml.safe_load((tmp_path / each / "config.yaml").read_text()) for each in ("capture", "bag")]
    assert configs[0]["rig"] == configs[1]["rig"]


def test_packets_without_metadata_say_what_to_give_and_are_taken_when_it_is_given(
    captures: Path, tmp_path: Path
) -> None:
    folder = captures / "ouster"
    sent = packets(folder, DUAL, "ouster_msgs", metadata=False)
    bag = bags.write_mcap(tmp_path / "a.mcap", sent)
    reason = r"lidar_packets: packets of an Ouster, whose metadata no std_msgs/String topic .*--meta FILE gives it"
    with pytest.raises(FormatError, match=reason) as caught:
        taken(bag, tmp_path / "trace")
    assert "\n" not in str(caught.value)
    with pytest.raises(ConfigError, match="--topic lidar=/ouster/lidar_packets: packets of an Ouster, whose metadata"):
        taken(bag, tmp_path / "trace", topic=["lidar=/ouster/lidar_packets"])
    with pytest.raises(FormatError, match=r"nothing\.json"):
        taken(bag, tmp_path / "trace", meta=tmp_path / "nothing.json")
    (tmp_path / "strange.json").write_text('{"lidar_data_format": 7}')
    with pytest.raises(FormatError, match=r"strange\.json: is no metadata of an Ouster"):
        taken(bag, tmp_path / "trace", meta=tmp_path / "strange.json")
    with pytest.raises(FormatError, match="its 64 packets are of another sensor than the metadata describes"):
        taken(bag, tmp_path / "trace", meta=folder / METADATA[SINGLE])
    cut = [each._replace(fields=(each.fields[0][:-5],)) for each in sent]
    with pytest.raises(FormatError, match=r"is a packet of 8,443 bytes; by the metadata of its sensor it has 8,448"):
        taken(bags.write_mcap(tmp_path / "c.mcap", cut), tmp_path / "trace", meta=folder / METADATA[DUAL])
    samples, _ = taken(bag, tmp_path / "trace", meta=folder / METADATA[DUAL])
    assert samples == {"lidar": 1, "imu": 10}

    beside = [*sent, *(bags.imu("/imu/data", sent[0].time + i * TENTH, (0, 0, 9.8)) for i in range(3))]
    samples, lines = taken(bags.write_mcap(tmp_path / "b.mcap", beside), tmp_path / "other")
    assert samples == {"imu": 3}
    assert any("left out: /ouster/lidar_packets: packets of an Ouster, whose metadata" in line for line in lines)


def test_packets_that_were_recorded_at_one_time_are_all_kept(captures: Path, tmp_path: Path) -> None:
    sent = packets(captures / "ouster", DUAL, "ouster_sensor_msgs")
    at_once = [each._replace(time=sent[i // 8 * 8].time) for i, each in enumerate(sent)]
    taken(bags.write_mcap(tmp_path / "a.mcap", at_once), tmp_path / "trace")
    taken(bags.write_mcap(tmp_path / "b.mcap", sent), tmp_path / "wanted")
    for channel in ("rng", "rfl2", "nir"):
        wanted = Sensor(tmp_path / "wanted" / "lidar").channel(channel).read()
        np.testing.assert_array_equal(Sensor(tmp_path / "trace" / "lidar").channel(channel).read(), wanted)


@pytest.mark.parametrize(
    ("package", "write"),
    [
        ("livox_ros_driver", lambda folder, sent: bags.write_ros1(folder / "a.bag", sent)),
        ("livox_ros_driver2", lambda folder, sent: bags.write_mcap(folder / "a.mcap", sent)),
    ],
    ids=["ros1", "ros2"],
)
def test_points_of_a_livox_have_their_instants_and_lines(
    tmp_path: Path, package: str, write: Callable[[Path, list[Sent]], Path]
) -> None:
    random = np.random.default_rng(0)
    sent, clouds = [], []
    for i in range(4):
        stamp, count = START + i * TENTH, 50 + i
        xyz = random.uniform(1, 20, (count, 3)).astype("f4")
        xyz[7] = 0  # no return
        offsets = np.sort(random.integers(0, TENTH, count))
        lines, strengths = np.arange(count) % 6, random.integers(0, 255, count)
        points = [
            (f"{package}/msg/CustomPoint", (int(offsets[k]), *xyz[k].tolist(), int(strengths[k]), 16, int(lines[k])))
            for k in range(count)
        ]
        values = (header(stamp, "livox_frame"), stamp, count, 0, np.zeros(3, "u1"), points)
        sent.append(Sent("/livox/lidar", f"{package}/msg/CustomMsg", stamp, values))
        clouds.append((np.delete(xyz, 7, 0), *(np.delete(each, 7) for each in (strengths, lines, offsets))))
    samples, _ = taken(write(tmp_path, sent), tmp_path / "trace")
    assert samples == {"lidar": 4}
    lidar = Sensor(tmp_path / "trace" / "lidar")
    for i, (xyz, strengths, rings, offsets) in enumerate(clouds):
        found = {
            name: lidar.channel(name).read(i, i + 1)[0][: len(xyz)] for name in ("xyz", "intensity", "ring", "time")
        }
        np.testing.assert_array_equal(found["xyz"], xyz)
        np.testing.assert_array_equal(found["intensity"], strengths)
        np.testing.assert_array_equal(found["ring"], rings)
        ts = lidar.times(4)[i]
        assert ts == pytest.approx((START + i * TENTH + offsets[-1]) / 1e9, abs=1e-6)
        np.testing.assert_allclose(found["time"], (offsets - offsets[-1]) / 1e9, rtol=0, atol=1e-8)


@pytest.mark.parametrize(("maker", "driver"), [("hesai", "HesaiLidar_ROS_2.0"), ("livox", "livox_ros_driver2")])
def test_captures_that_no_library_decodes_end_with_one_line_that_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], maker: str, driver: str
) -> None:
    assert main(["import", maker, str(tmp_path / "a.pcap"), "-o", str(tmp_path / "trace")]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert driver in line and "`rover-pipeline import ros BAG -o TRACE`" in line
    assert not list(tmp_path.iterdir())
