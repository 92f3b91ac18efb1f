"""Bags of ROS become traces with the values that rosbags reads, whatever the container, the layout and the clock."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import yaml
from rosbags.highlevel import AnyReader
from rosbags.rosbag1 import Reader as Reader1
from scipy.spatial.transform import Rotation

from rover_pipeline.errors import ConfigError, FormatError
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.importers.ros.record import import_ros
from rover_pipeline.importers.ros.sinks import GnssSink, ImuSink, Sink
from rover_pipeline.validation.check import problems
from tests.importers import bags
from tests.importers.bags import START, STORE1, Sent, cloud, header, imu
from tests.kit import snapshot

TENTH = 100_000_000
XYZ = np.dtype([("x", "<f4"), ("y", "<f4"), ("z", "<f4")])


def taken(bag: Path | list[Path], out: Path, **options: Any) -> tuple[dict[str, int], list[str]]:
    """Samples of each sensor, and the lines that were told; `check` must find the trace whole."""
    lines: list[str] = []
    samples = import_ros(bag if isinstance(bag, list) else [bag], out, say=lines.append, **options)
    assert list(problems(out)) == []
    return samples, lines


def points(count: int, dtype: np.dtype[Any] = XYZ, seed: int = 0) -> np.ndarray:
    made = np.zeros(count, dtype)
    for i, name in enumerate("xyz"):
        made[name] = np.random.default_rng(seed + i).uniform(1, 20, count)
    return made


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("embag.bag", {"lidar": 5, "lidar_base_scan": 5, "_reference": 5}),
        ("rl_test2.bag", {"imu": 3061, "_reference": 3060}),
        ("imutools_ardrone_imu.bag", {"imu": 4308}),
        ("ti_mmwave_radar_imu.bag", {"radar": 412, "imu": 8270}),
        ("evo_nav2.mcap", {"_reference": 2639}),
        ("pj_rosbag2_test_0.db3", {"imu": 1565, "_reference": 1565}),
        ("vlp16/1673400471837873222", {"lidar": 5}),
    ],
)
def test_every_real_bag_becomes_a_whole_trace_with_all_of_its_messages(
    captures: Path, tmp_path: Path, name: str, wanted: dict[str, int]
) -> None:
    assert taken(captures / "bags" / name, tmp_path / "trace")[0] == wanted


def test_a_bag_without_anything_for_a_trace_is_refused_in_one_line_that_lists_its_topics(
    captures: Path, tmp_path: Path
) -> None:
    with pytest.raises(FormatError, match=r"holds no cloud.*its topics: /rosout \(rosgraph_msgs/Log\)"):
        taken(captures / "bags" / "fg_example-lz4.bag", tmp_path / "trace")
    assert not list(tmp_path.iterdir())


def test_values_of_imu_and_odometry_are_those_that_rosbags_reads(captures: Path, tmp_path: Path) -> None:
    bag = captures / "bags" / "rl_test2.bag"
    taken(bag, tmp_path / "trace")
    imu, reference = Sensor(tmp_path / "trace" / "imu"), Sensor(tmp_path / "trace" / "_reference")
    with Reader1(bag) as reader:
        messages: dict[str, list[Any]] = {}
        for connection, _, raw in reader.messages():
            messages.setdefault(connection.topic, []).append(STORE1.deserialize_ros1(raw, connection.msgtype))
    sent = messages["/imu/data"]
    for channel, field in {"acc": "linear_acceleration", "avel": "angular_velocity"}.items():
        wanted = np.array([[getattr(getattr(each, field), axis) for axis in "xyz"] for each in sent], "f4")
        np.testing.assert_array_equal(imu.channel(channel).read(), wanted)
    stamps = [each.header.stamp.sec + each.header.stamp.nanosec / 1e9 for each in sent]
    np.testing.assert_allclose(imu.times(len(sent)), stamps, rtol=0, atol=1e-9)
    quaternions = [[getattr(each.orientation, axis) for axis in "xyzw"] for each in sent]
    rot = Rotation.from_euler("XYZ", imu.channel("rot").read())
    assert (rot.inv() * Rotation.from_quat(quaternions)).magnitude().max() < 1e-5

    poses = [each.pose.pose for each in messages["/jackal_velocity_controller/odom"]]
    position = [[getattr(each.position, axis) for axis in "xyz"] for each in poses]
    np.testing.assert_array_equal(reference.channel("pos").read(), position)
    turned = [[getattr(each.orientation, axis) for axis in "xyzw"] for each in poses]
    np.testing.assert_allclose(reference.channel("rot").read(), Rotation.from_quat(turned).as_matrix(), atol=1e-12)


def test_points_of_a_real_cloud_with_gaps_in_its_layout_have_their_values_and_their_own_instants(
    captures: Path, tmp_path: Path
) -> None:
    bag = captures / "bags" / "embag.bag"
    taken(bag, tmp_path / "trace")
    lidar = Sensor(tmp_path / "trace" / "lidar")
    with Reader1(bag) as reader:
        clouds = [
            STORE1.deserialize_ros1(raw, connection.msgtype)
            for connection, _, raw in reader.messages()
            if connection.topic == "/luminar_pointcloud"
        ]
    for i, sent in enumerate(clouds):
        table = sent.data.reshape(-1, sent.point_step)  # type: ignore[attr-defined]
        count = int(lidar.channel("count").read(i, i + 1)[0])
        assert count == len(table)
        xyz = lidar.channel("xyz").read(i, i + 1)[0][:count]
        np.testing.assert_array_equal(xyz, np.ascontiguousarray(table[:, :12]).view("<f4"))
        intensity = lidar.channel("intensity").read(i, i + 1)[0][:count]
        np.testing.assert_array_equal(intensity, np.ascontiguousarray(table[:, 16:20]).view("<f4")[:, 0])
        instants = np.ascontiguousarray(table[:, 20:28]).view("<u4").astype("f8") @ [1, 1e-9]
        ts = lidar.times(5)[i]
        assert ts == pytest.approx(instants.max(), abs=1e-6)
        np.testing.assert_allclose(ts + lidar.channel("time").read(i, i + 1)[0][:count], instants, rtol=0, atol=1e-6)


def test_a_bag_of_ros_1_and_its_conversion_to_ros_2_give_the_same_bytes(captures: Path, tmp_path: Path) -> None:
    for name in ("ti_mmwave_radar_imu.bag", "embag.bag"):
        bag = captures / "bags" / name
        taken(bag, tmp_path / name / "one")
        taken(bags.as_ros2(bag, tmp_path / name / "ros2"), tmp_path / name / "two")
        ignored = ("time", "provenance.json", "config.yaml")
        one, two = (snapshot(tmp_path / name / each) for each in ("one", "two"))
        kept = [path for path in one if not path.endswith(ignored)]
        assert kept and one.keys() == two.keys()
        assert all(one[path] == two[path] for path in kept)


def _recording(count: int = 40) -> list[Sent]:
    """Clouds, an IMU and pictures that are JPEG already."""
    picture = np.random.default_rng(0).integers(0, 255, (48, 64, 3), dtype="u1")
    jpeg = cv2.imencode(".jpg", picture)[1].ravel()
    messages = []
    for i in range(count):
        stamp = START + i * TENTH
        messages.append(cloud("/points", stamp, points(50 + i, seed=i)))
        messages.append(imu("/imu", stamp + 1000, (0.0, 0.1, 9.8)))
        messages.append(
            Sent("/cam/compressed", "sensor_msgs/msg/CompressedImage", stamp, (header(stamp), "jpeg", jpeg))
        )
    return messages


@pytest.mark.parametrize(
    "write",
    [
        lambda folder, sent: bags.write_ros1(folder / "a.bag", sent),
        lambda folder, sent: bags.write_ros1(folder / "a.bag", sent, "BZ2"),
        lambda folder, sent: bags.write_ros1(folder / "a.bag", sent, "LZ4"),
        lambda folder, sent: bags.write_ros2(folder / "a", sent),
        lambda folder, sent: bags.write_ros2(folder / "a", sent, "MESSAGE"),
        lambda folder, sent: next(bags.write_ros2(folder / "a", sent).glob("*.db3")),
        lambda folder, sent: bags.write_mcap(folder / "a.mcap", sent),
        lambda folder, sent: bags.write_mcap(folder / "a.mcap", sent, "LZ4"),
        lambda folder, sent: bags.write_mcap(folder / "a.mcap", sent, "NONE"),
    ],
    ids=["bag", "bz2", "lz4", "ros2", "zstd-messages", "db3", "mcap", "mcap-lz4", "mcap-plain"],
)
def test_every_container_and_compression_gives_the_same_sensors(
    tmp_path: Path, write: Callable[[Path, list[Sent]], Path]
) -> None:
    samples, _ = taken(write(tmp_path, _recording()), tmp_path / "trace")
    assert samples == {"lidar": 40, "camera": 40, "imu": 40}
    lidar = Sensor(tmp_path / "trace" / "lidar")
    np.testing.assert_array_equal(lidar.channel("count").read(), 50 + np.arange(40))
    wanted = points(57, seed=7)
    found = lidar.channel("xyz").read(7, 8)[0]
    np.testing.assert_array_equal(found[:57], np.stack([wanted[name] for name in "xyz"], axis=1))


def test_pictures_that_are_jpeg_are_stored_with_the_same_bytes(tmp_path: Path) -> None:
    recording = _recording(3)
    taken(bags.write_ros1(tmp_path / "a.bag", recording), tmp_path / "trace")
    channel: Any = Sensor(tmp_path / "trace" / "camera").channel("video.avi")
    assert [channel.jpeg(i) for i in range(3)] == [recording[2].fields[2].tobytes()] * 3


@pytest.mark.parametrize(
    ("name", "dtype", "instants"),
    [
        ("t", "<u4", lambda seconds, start: seconds * 1e9),
        ("time", "<f4", lambda seconds, start: seconds),
        ("time", "<f4", lambda seconds, start: seconds - 0.1),
        ("offset_time", "<u4", lambda seconds, start: seconds * 1e6),
        ("timestamp", "<f8", lambda seconds, start: seconds + start),
        ("timestamp", "<f8", lambda seconds, start: (seconds + start) * 1e9),
        ("timestamp", "<f8", lambda seconds, start: seconds + 55.5),
    ],
    ids=["ns", "s", "s-before", "us", "epoch-s", "epoch-ns", "other-clock"],
)
def test_the_unit_of_point_times_is_found_and_the_sweep_ends_at_its_last_point(
    tmp_path: Path, name: str, dtype: str, instants: Callable[[np.ndarray, float], np.ndarray]
) -> None:
    kind = np.dtype([*((axis, "<f4") for axis in "xyz"), ("pad", "<f4"), (name, dtype), ("ring", "<u2")])
    sent = []
    for i in range(5):
        made = points(300, kind)
        seconds = np.linspace(0, 0.0999, 300)
        stamp = START + i * TENTH
        made[name] = instants(seconds, stamp / 1e9)
        made["ring"] = np.arange(300) % 16
        sent.append(cloud("/points", stamp, made))
    taken(bags.write_mcap(tmp_path / "a.mcap", sent), tmp_path / "trace")
    lidar = Sensor(tmp_path / "trace" / "lidar")
    time = lidar.channel("time").read(2, 3)[0]
    np.testing.assert_allclose(time, np.linspace(-0.0999, 0, 300), atol=2e-6)
    late = float(instants(np.array([0.0999]), START / 1e9)[0]) if name == "time" else 0.0999
    if name == "timestamp" and instants(np.zeros(1), 0.0)[0] == 55.5:
        late = 0.0  # its header stamp is taken for the end
    assert lidar.times(5)[2] == pytest.approx((START + 2 * TENTH) / 1e9 + late, abs=2e-6)
    np.testing.assert_array_equal(lidar.channel("ring").read(2, 3)[0], np.arange(300) % 16)


def test_header_stamps_of_another_clock_are_replaced_by_bag_times_of_the_same_clock_as_the_others(
    tmp_path: Path,
) -> None:
    # A recording that was played a year later. The lidar counts since it was switched on.
    moved = 31_536_000 * 10**9
    sent = []
    for i in range(20):
        stamp = START + i * TENTH
        sent.append(cloud("/points", 77 * 10**9 + i * TENTH, points(9), time=stamp + moved))
        sent.append(imu("/imu", stamp, (0, 0, 9.8), time=stamp + moved))
    _, lines = taken(bags.write_ros1(tmp_path / "a.bag", sent), tmp_path / "trace")
    wanted = START / 1e9 + np.arange(20) / 10
    np.testing.assert_allclose(Sensor(tmp_path / "trace" / "imu").times(20), wanted, rtol=0, atol=1e-6)
    np.testing.assert_allclose(Sensor(tmp_path / "trace" / "lidar").times(20), wanted, rtol=0, atol=1e-6)
    assert any("/points: its header stamps are of another clock" in line for line in lines)
    recorded = yaml.safe_load((tmp_path / "trace" / "config.yaml").read_text())["imported"]["options"]["topics"]
    assert (recorded["imu"]["times"], recorded["lidar"]["times"]) == ("header", "bag+offset")


def test_a_header_stamp_years_away_is_no_time_where_the_recorder_shows_no_jump(tmp_path: Path) -> None:
    sent = [imu("/imu", START + i * TENTH, (0, 0, 9.8), time=START + i * TENTH) for i in range(20)]
    sent += [
        cloud("/points", START + i * TENTH + 3 * 10**17 * (i == 19), points(9), time=START + i * TENTH)
        for i in range(20)
    ]
    _, lines = taken(bags.write_ros1(tmp_path / "a.bag", sent), tmp_path / "trace")
    wanted = START / 1e9 + np.arange(20) / 10
    np.testing.assert_allclose(Sensor(tmp_path / "trace" / "lidar").times(20), wanted, rtol=0, atol=1e-6)
    assert any("/points: its header stamps jump where the recorder's times do not" in line for line in lines)


def test_messages_that_come_late_are_put_in_order_and_repeated_ones_are_left_out(tmp_path: Path) -> None:
    order = [0, 1, 3, 2, *range(4, 200), 199]
    sent = [imu("/imu", START + n * TENTH, (n, 0, 9.8), time=START + i * TENTH) for i, n in enumerate(order)]
    samples, lines = taken(bags.write_ros1(tmp_path / "a.bag", sent), tmp_path / "trace")
    assert samples == {"imu": 200}
    assert Sensor(tmp_path / "trace" / "imu").channel("acc").read()[:, 0].tolist() == list(range(200))
    assert any("left out: 1 message of 201" in line for line in lines)


def test_static_transforms_become_the_extrinsics_of_the_rig(tmp_path: Path) -> None:
    half = np.sqrt(0.5)
    tree = [
        bags.transform(START, "base", "lidar", (0, 0, 1), (0, 0, 0, 1)),
        bags.transform(START, "base", "imu", (1, 2, 3), (0, 0, half, half)),
    ]
    sent = [Sent("/tf_static", "tf2_msgs/msg/TFMessage", START, (tree,))]
    for i in range(3):
        sent += [cloud("/points", START + i * TENTH, points(5)), imu("/imu", START + i * TENTH, (0, 0, 9.8))]
    taken(bags.write_ros2(tmp_path / "a", sent), tmp_path / "trace")
    rig = yaml.safe_load((tmp_path / "trace" / "config.yaml").read_text())["rig"]
    assert rig["imu"]["translation"] == pytest.approx([1, 2, 2])
    np.testing.assert_allclose(rig["imu"]["rotation"], [[0, -1, 0], [1, 0, 0], [0, 0, 1]], atol=1e-9)


def _camera_info(stamp: int, model: str, d: list[float]) -> Sent:
    k, r = np.array([500, 0, 320, 0, 510, 240, 0, 0, 1.0]), np.eye(3).ravel()
    p = np.array([400, 0, 300, 0, 0, 410, 230, 0, 0, 0, 1, 0.0])
    roi = ("sensor_msgs/msg/RegionOfInterest", (0, 0, 0, 0, False))
    values = (header(stamp), 48, 64, model, np.array(d), k, r, p, 0, 0, roi)
    return Sent("/cam/camera_info", "sensor_msgs/msg/CameraInfo", stamp, values)


@pytest.mark.parametrize(
    ("model", "d", "wanted"),
    [
        ("plumb_bob", [0.1, 0.2, 0.3, 0.4, 0.5], {"model": "brown", "k": [0.1, 0.2, 0.5], "p": [0.3, 0.4]}),
        ("equidistant", [0.1, 0.2, 0.3, 0.4], {"model": "fisheye", "k": [0.1, 0.2, 0.3, 0.4], "p": []}),
        ("plumb_bob", [0.0] * 5, {"model": "pinhole", "k": [], "p": []}),
        ("rational_polynomial", [0.1] * 8, None),
    ],
)
def test_raw_pictures_become_jpeg_and_their_lens_is_described(
    tmp_path: Path, model: str, d: list[float], wanted: dict[str, Any] | None
) -> None:
    ramp = np.zeros((48, 64, 3), "u1")
    ramp[:, :, 0] = np.arange(64) * 4  # red grows to the right
    sent = []
    for i in range(3):
        stamp = START + i * TENTH
        values = (header(stamp), 48, 64, "bgr8", 0, 64 * 3, ramp[:, :, ::-1].ravel())
        sent += [Sent("/cam/image_raw", "sensor_msgs/msg/Image", stamp, values), _camera_info(stamp, model, d)]
    _, lines = taken(bags.write_mcap(tmp_path / "a.mcap", sent), tmp_path / "trace")
    picture = Sensor(tmp_path / "trace" / "camera").channel("video.avi").read(1, 2)[0]
    assert np.abs(picture.astype("i4") - ramp).max() < 12
    file = tmp_path / "trace" / "camera" / "camera.json"
    if wanted is None:
        assert not file.exists() and any("denominator" in line for line in lines)
    else:
        lens = yaml.safe_load(file.read_text())
        assert {name: lens[name] for name in wanted} == wanted
        assert (lens["fx"], lens["cy"], lens["width"]) == (500, 240, 64)


def test_a_laser_scan_is_a_lidar_in_a_plane_whose_sweep_ends_with_its_last_ray(tmp_path: Path) -> None:
    sent = []
    for i in range(4):
        stamp = START + i * TENTH
        ranges = np.array([1, 2, np.inf, 0.01, 3], "f4")
        limits = (0.0, np.pi, np.pi / 4, 0.01, 0.1, 0.1, 10.0)
        sent.append(
            Sent("/scan", "sensor_msgs/msg/LaserScan", stamp, (header(stamp), *limits, ranges, np.ones(5, "f4")))
        )
    taken(bags.write_ros1(tmp_path / "a.bag", sent), tmp_path / "trace")
    lidar = Sensor(tmp_path / "trace" / "lidar")
    xyz = lidar.channel("xyz").read(0, 1)[0]
    np.testing.assert_allclose(xyz, [[1, 0, 0], [np.sqrt(2), np.sqrt(2), 0], [-3, 0, 0]], atol=1e-6)
    np.testing.assert_allclose(lidar.channel("time").read(0, 1)[0], [-0.04, -0.03, 0], atol=1e-6)
    assert lidar.times(4)[0] == pytest.approx(START / 1e9 + 0.04, abs=1e-6)


def test_a_topic_is_chosen_by_name_and_an_unknown_one_is_named_with_the_nearest(tmp_path: Path) -> None:
    sent = [
        each
        for i in range(3)
        for each in (cloud("/a", START + i * TENTH, points(4)), cloud("/b", START + i * TENTH, points(5)))
    ]
    bag = bags.write_ros1(tmp_path / "a.bag", sent)
    assert taken(bag, tmp_path / "one")[0] == {"lidar": 3, "lidar_b": 3}
    samples, lines = taken(bag, tmp_path / "two", topic=["lidar=b"])
    assert samples == {"lidar": 3}
    assert any("left out: /a: the lidar is /b; --topic lidar=/a takes it" in line for line in lines)
    assert Sensor(tmp_path / "two" / "lidar").channel("count").read().tolist() == [5, 5, 5]
    taken(bag, tmp_path / "both", topic=["lidar=/b", "lidar=/a"])
    assert Sensor(tmp_path / "both" / "lidar_a").channel("count").read().tolist() == [4, 4, 4]
    with pytest.raises(ConfigError, match=r"/a was given before"):
        taken(bag, tmp_path / "three", topic=["lidar=/a", "lidar=/a"])
    with pytest.raises(ConfigError, match=r"has no topic /bb; did you mean '/b'"):
        taken(bag, tmp_path / "three", topic=["lidar=/bb"])
    with pytest.raises(ConfigError, match=r"is a sensor_msgs/PointCloud2 .*which is no imu"):
        taken(bag, tmp_path / "three", topic=["imu=/a"])
    with pytest.raises(ConfigError, match=r"did you mean 'lidar'"):
        taken(bag, tmp_path / "three", topic=["lida=/a"])


@pytest.mark.parametrize(
    "write",
    [
        lambda folder: bags.write_ros1(folder / "a.bag", _recording(400)),
        lambda folder: bags.write_ros1(folder / "a.bag", _recording(400), "LZ4"),
        lambda folder: bags.write_mcap(folder / "a.mcap", _recording(400)),
    ],
    ids=["bag", "lz4", "mcap"],
)
def test_a_truncated_bag_is_refused_in_one_line_and_its_whole_messages_are_used_when_asked(
    tmp_path: Path, write: Callable[[Path], Path]
) -> None:
    bag = write(tmp_path)
    data = bag.read_bytes()
    bag.write_bytes(data[: len(data) * 6 // 10])
    with pytest.raises(FormatError, match=r"byte \d+: .*truncated; .* repairs it, or --partial takes") as caught:
        taken(bag, tmp_path / "trace")
    assert "\n" not in str(caught.value) and not (tmp_path / "trace").exists()
    samples, lines = taken(bag, tmp_path / "trace", partial=True)
    assert 100 < samples["lidar"] < 400
    assert "truncated" in lines[0]


def test_bags_of_one_recording_are_joined_in_the_order_of_their_times(tmp_path: Path) -> None:
    sent = [imu("/imu", START + i * TENTH, (i, 0, 9.8)) for i in range(10)]
    parts = [bags.write_ros1(tmp_path / f"{name}.bag", part) for name, part in (("b", sent[:5]), ("a", sent[5:]))]
    taken(sorted(parts), tmp_path / "trace")
    assert Sensor(tmp_path / "trace" / "imu").channel("acc").read()[:, 0].tolist() == list(range(10))


def test_any_reader_of_rosbags_counts_the_same_messages(captures: Path, tmp_path: Path) -> None:
    folder = captures / "bags" / "vlp16" / "1673400471837873222"
    with AnyReader([captures / "bags" / "embag.bag"]) as reader:
        counts = {topic: each.msgcount for topic, each in reader.topics.items()}
    assert counts["/luminar_pointcloud"] == taken(captures / "bags" / "embag.bag", tmp_path / "a")[0]["lidar"]
    assert taken(folder, tmp_path / "b")[0]["lidar"] == 5  # 4 messages hold 4 revolutions and the start of the next one


def test_a_cloud_that_claims_more_points_than_it_has_bytes_takes_no_memory(tmp_path: Path) -> None:
    sent = [cloud("/points", START + i * TENTH, points(9)) for i in range(4)]
    huge = list(sent[2].fields)
    huge[1], huge[2] = 60_000, 60_000
    sent[2] = sent[2]._replace(fields=tuple(huge))
    bag = bags.write_ros1(tmp_path / "a.bag", sent)
    with pytest.raises(FormatError, match=r"/points, message 2: claims 3,600,000,000 points .*--partial leaves it out"):
        taken(bag, tmp_path / "trace")
    assert taken(bag, tmp_path / "trace", partial=True)[0] == {"lidar": 3}


@pytest.mark.parametrize(
    ("make", "fields"),
    [
        (ImuSink, {"values": (37,)}),
        (GnssSink, {"position": (3,), "covariance": (9,), "covariance_type": (), "status": ()}),
    ],
)
def test_small_samples_that_wait_for_others_do_not_keep_the_chunk_of_the_bag_that_they_came_in(
    tmp_path: Path, make: Callable[[Path], Sink], fields: dict[str, tuple[int, ...]]
) -> None:
    chunk = bytearray(1000)
    values = np.frombuffer(chunk, "f8")
    content: dict[str, Any] = {name: values[: shape[0]] if shape else 1 for name, shape in fields.items()}
    sink = make(tmp_path / "sensor")
    sink.add(1_000_000_000, content)
    del content, values
    chunk.extend(b"more")  # raises BufferError as long as anybody looks into it
    assert sink.count == 1


def test_a_database_whose_journal_still_holds_messages_is_not_read_without_them(tmp_path: Path) -> None:
    sent = [imu("/imu", START + i * TENTH, (0, 0, 9.8)) for i in range(3)]
    database = next(bags.write_ros2(tmp_path / "a", sent).glob("*.db3"))
    database.with_name(f"{database.name}-wal").write_bytes(b"messages")
    with pytest.raises(FormatError, match=r"-wal beside it holds messages .*wal_checkpoint"):
        taken(database, tmp_path / "trace")
    assert taken(database, tmp_path / "trace", partial=True)[0] == {"imu": 3}


def test_a_database_whose_damage_is_no_text_is_refused_in_one_line(tmp_path: Path) -> None:
    """SQLite quotes the damage in its message, which is then no UTF-8 either."""
    database = next(bags.write_ros2(tmp_path / "a", [imu("/imu", START, (0, 0, 9.8))]).glob("*.db3"))
    content = database.read_bytes()
    assert content.count(b"CREATE TABLE topics") == 1
    database.write_bytes(content.replace(b"CREATE TABLE topics", b"CREATE T\x94BLE topics"))
    with pytest.raises(FormatError, match=r"is a damaged or truncated database .*--partial"):
        taken(database, tmp_path / "trace")


ENDLESS = "with recursive n(i) as (values(1) union all select i + 1 from n)"


@pytest.mark.parametrize(
    "statements",
    [
        f"drop table topics; create view topics as {ENDLESS} select i as id, 'a' as name, 'b' as type, 'cdr' as "
        "serialization_format from n",
        f"drop table messages; create view messages as {ENDLESS} select i as id, 1 as topic_id, i as timestamp, "
        "zeroblob(100000) as data from n",
        "drop table messages; create table messages(id integer primary key, topic_id integer, timestamp integer, "
        "data blob as (zeroblob(900000000))); insert into messages(id, topic_id, timestamp) values (1, 1, 1)",
        "drop table messages; create virtual table messages using fts5(id, topic_id, timestamp, data)",
    ],
    ids=["topics", "messages", "computed", "virtual"],
)
@pytest.mark.parametrize("partial", [False, True])
def test_a_database_whose_tables_are_none_is_refused_at_once(statements: str, partial: bool, tmp_path: Path) -> None:
    database = next(bags.write_ros2(tmp_path / "a", [imu("/imu", START, (0, 0, 9.8))]).glob("*.db3"))
    with closing(sqlite3.connect(database)) as opened:
        opened.executescript(statements)
    with pytest.raises(FormatError, match=r"is no plain table|holds no|nothing"):
        taken(database, tmp_path / "trace", partial=partial)
    assert not (tmp_path / "trace").exists()


def test_a_database_that_computes_for_long_without_a_row_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = [imu("/imu", START + i * TENTH, (0, 0, 9.8)) for i in range(300)]
    database = next(bags.write_ros2(tmp_path / "a", sent).glob("*.db3"))
    monkeypatch.setattr("rover_pipeline.importers.ros.database._MIN_STEPS", -(10**6))
    with pytest.raises(FormatError, match="interrupted"):
        taken(database, tmp_path / "trace")


def test_accelerations_in_g_become_metres_per_second_squared(tmp_path: Path) -> None:
    sent = [imu("/imu", START + i * TENTH, (0.01, 0, 1.0)) for i in range(30)]
    _, lines = taken(bags.write_mcap(tmp_path / "a.mcap", sent), tmp_path / "trace")
    acc = Sensor(tmp_path / "trace" / "imu").channel("acc").read()
    np.testing.assert_allclose(acc, np.tile([0.0980665, 0, 9.80665], (30, 1)), rtol=1e-6)
    assert any("taken for g" in line for line in lines)
