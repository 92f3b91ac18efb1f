"""A recording with several sensors of a kind becomes a trace with all of them, each with its own samples."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import yaml
from ouster.sdk import core, open_source, osf

from rover_pipeline.cli import main
from rover_pipeline.errors import ConfigError, FormatError
from rover_pipeline.format.rig import Rig
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.importers.ahead import AHEAD
from rover_pipeline.importers.origin import MAX_SENSORS, sensor_name
from rover_pipeline.importers.ouster import import_ouster
from rover_pipeline.importers.ros.record import import_ros
from rover_pipeline.importers.ros.sinks import CameraSink
from rover_pipeline.importers.velodyne import import_velodyne
from rover_pipeline.validation.check import problems
from tests.importers import bags
from tests.importers.bags import START, TOPICS, Sent, cloud, header, sample
from tests.importers.test_ros_lidars import DUAL, METADATA, SINGLE, packets
from tests.kit import pictures, snapshot

TENTH = 100_000_000
COUNTS = {name: 5 - (name in ("lidar_rear", "radar_rear", "imu_b")) for name in TOPICS}
XYZ = np.dtype([("x", "<f4"), ("y", "<f4"), ("z", "<f4")])


def taken(bag: Path, out: Path, **options: Any) -> tuple[dict[str, int], list[str]]:
    lines: list[str] = []
    samples = import_ros([bag], out, say=lines.append, **options)
    assert list(problems(out)) == []
    return samples, lines


def config_of(trace: Path) -> dict[str, Any]:
    return dict(yaml.safe_load((trace / "config.yaml").read_text()))


@pytest.mark.parametrize(
    "write",
    [
        lambda folder: bags.write_ros1(folder / "a.bag", bags.several(), "LZ4"),
        lambda folder: bags.write_ros2(folder / "a", bags.several()),
        lambda folder: bags.write_mcap(folder / "a.mcap", bags.several()),
    ],
    ids=["ros1", "ros2", "mcap"],
)
def test_every_topic_of_a_rig_becomes_a_sensor_with_each_of_its_samples(
    tmp_path: Path, write: Callable[[Path], Path]
) -> None:
    trace = tmp_path / "trace"
    samples, lines = taken(write(tmp_path), trace)
    assert samples == COUNTS and not any("left out" in line for line in lines)
    assert Rig(trace).types == {name: name.partition("_")[0] for name in sorted(TOPICS)}
    config = config_of(trace)
    for number, (name, (topic, _, place)) in enumerate(TOPICS.items()):
        assert config[name] == {"type": name.partition("_")[0], "args": {"topic": topic}}
        if name != "lidar":
            assert config["rig"][name]["translation"] == pytest.approx(place)
        sensor = Sensor(trace / name)
        wanted = START / 1e9 + np.arange(COUNTS[name]) / 10 + number / 1000
        np.testing.assert_allclose(sensor.times(COUNTS[name]), wanted, rtol=0, atol=1e-6)
        for i in range(COUNTS[name]):
            read = {each: sensor.channel(each).read(i, i + 1)[0] for each in sensor.specs if each != "ts"}
            _require_sample(config[name]["type"], read, sample(name, i))
    lenses = {name: trace / name / "camera.json" for name in ("camera", "camera_left", "camera_right")}
    focal = {name: json.loads(path.read_text())["fx"] for name, path in lenses.items() if path.exists()}
    assert focal == {"camera": 54, "camera_left": 55}
    assert any(line.startswith("camera_right: no CameraInfo") for line in lines)


def _require_sample(kind: str, read: dict[str, np.ndarray], wanted: np.ndarray) -> None:
    if kind in ("lidar", "radar"):
        assert read["count"] == len(wanted)
        np.testing.assert_array_equal(read["xyz"][: len(wanted)], wanted[:, :3])
        fourth = read["intensity"] if kind == "lidar" else read["doppler"]
        np.testing.assert_array_equal(fourth[: len(wanted)], wanted[:, 3])
    elif kind == "camera":
        np.testing.assert_allclose(read["video.avi"].astype("i4"), wanted, atol=3)
    elif kind == "imu":
        np.testing.assert_allclose(read["acc"], wanted[:3], rtol=1e-6)
    else:
        assert [read["lat"], read["lon"], read["alt"]] == wanted[:3].tolist()
        np.testing.assert_allclose(read["cov"], np.diag(wanted[3:]), rtol=1e-6)


def test_a_role_that_is_named_has_the_topics_that_are_named_for_it(tmp_path: Path) -> None:
    bag = bags.write_mcap(tmp_path / "a.mcap", bags.several())
    only = ["lidar=/rear/points", "camera=", "radar=/radar/rear/cloud", "radar=/radar/front/cloud", "imu=/imu/b/data"]
    samples, lines = taken(bag, tmp_path / "trace", topic=only)
    assert samples == {"lidar": 4, "radar": 4, "radar_front": 5, "imu": 4, "gnss": 5}
    assert "left out: /top/points: the lidar is /rear/points; --topic lidar=/top/points takes it instead" in lines
    config = config_of(tmp_path / "trace")
    assert config["rig"]["radar_front"]["translation"] == pytest.approx([3, 0, -0.5])  # in the frame of the main lidar
    with pytest.raises(ConfigError, match="imu was given before"):
        taken(bag, tmp_path / "other", topic=["imu=", "imu=/imu/b/data"])


@pytest.mark.parametrize(
    ("label", "main", "taken", "name"),
    [
        ("/camera/left/image", "/camera/front/image", ["camera"], "camera_left"),
        ("/Camera_Left/image_raw", "/camera_front/image_raw", ["camera"], "camera_left"),
        ("/left/cam", "/cam", ["camera", "camera_left"], "camera_left_cam"),
        ("/left/cam", "/cam", ["camera", "camera_left", "camera_left_cam"], "camera_2"),
        ("/cam", "/left/cam", ["camera"], "camera_cam"),
        ("/links/größe", "/links/tiefe", ["camera"], "camera_gr_e"),
        ("/左", "/右", ["camera"], "camera_2"),
        # `_camera_depth` and `_camera_left_pose` are results.
        ("/cam/depth", "/cam/rgb", ["camera"], "camera_cam_depth"),
        ("/left/pose", "/front", ["camera", "camera_left"], "camera_2"),
        ("/left", "/front", ["camera", "camera_left_pose", "camera_2"], "camera_3"),
        ("/x" * 300, "/a", ["camera"], "camera_" + "x_" * 30),
    ],
)
def test_a_sensor_is_called_after_what_differs_and_never_like_another_or_a_result(
    label: str, main: str, taken: list[str], name: str
) -> None:
    assert sensor_name("camera", label, main, taken) == name


def _picture(topic: str, i: int, form: str, data: bytes | None = None, frame: str = "cam") -> Sent:
    stamp = START + i * TENTH
    image = np.full((16, 24, 3), 90, "u1")
    if form == "raw":
        values: tuple[Any, ...] = (header(stamp, frame), 16, 24, "rgb8", 0, 72, image.ravel())
        return Sent(topic, "sensor_msgs/msg/Image", stamp, values)
    jpeg = cv2.imencode(".jpg", image)[1].tobytes() if data is None else data
    return Sent(
        topic, "sensor_msgs/msg/CompressedImage", stamp, (header(stamp, frame), form, np.frombuffer(jpeg, "u1"))
    )


def test_another_form_of_a_sensor_and_a_map_are_no_further_sensors(tmp_path: Path) -> None:
    points = np.ones(9, np.dtype([*XYZ.descr, ("ring", "<u2")]))
    scan = (header(START, "velodyne"), *(0.0, 1.0, 0.5, 0.0, 0.1, 0.1, 9.0), np.ones(3, "f4"), np.ones(3, "f4"))
    sent = [Sent("/scan", "sensor_msgs/msg/LaserScan", START, scan)]
    for i in range(3):
        sent += [cloud("/velodyne_points", START + i * TENTH, points, frame="velodyne")]
        sent += [cloud("/cloud_map", START + i * TENTH, np.ones(99, XYZ), frame="map")]
        sent += [_picture("/cam/image", i, "raw"), _picture("/cam/image/compressed", i, "jpeg")]
    bag = bags.write_ros1(tmp_path / "a.bag", sent)
    samples, lines = taken(bag, tmp_path / "trace")
    assert samples == {"lidar": 3, "camera": 3}
    mapped = "its frame 'map' is the world's, so it is a map and no sweep"
    wanted = {
        "/scan: it is another form of /velodyne_points; --topic lidar=/scan takes it instead",
        f"/cloud_map: {mapped}; --topic lidar=/cloud_map takes it instead",
        "/cam/image: it is another form of /cam/image/compressed; --topic camera=/cam/image takes it instead",
    }
    assert {line.removeprefix("left out: ") for line in lines if line.startswith("left out")} == wanted
    samples, _ = taken(bag, tmp_path / "both", topic=["lidar=/velodyne_points", "lidar=/scan"])
    assert samples == {"lidar": 3, "lidar_scan": 1, "camera": 3}


def test_a_further_topic_that_cannot_be_decoded_is_omitted_by_name_and_a_damaged_one_is_refused(tmp_path: Path) -> None:
    """No recording that has a good main sensor is refused for another one that can be none."""
    good = [_picture("/front/image", i, "raw") for i in range(4)]
    film = [_picture("/left/image/compressed", i, "h264", b"\0\0\0\1something") for i in range(3)]
    rings = np.ones(5, np.dtype([*XYZ.descr, ("ring", "<u2")]))
    strange = [cloud("/points", START + i * TENTH, rings) for i in range(9)]
    packet = ("velodyne_msgs/msg/VelodynePacket", (("builtin_interfaces/msg/Time", (0, 0)), np.zeros(1206, "u1")))
    scans = [(START + i * TENTH, (header(START + i * TENTH, "velodyne"), [packet] * 40)) for i in range(3)]
    strange += [cloud("/empty/points", START + i * TENTH, np.zeros(5, XYZ), frame="empty") for i in range(3)]
    strange += [Sent("/old/packets", "velodyne_msgs/msg/VelodyneScan", *each) for each in scans]
    bag = bags.write_mcap(tmp_path / "a.mcap", [*good, *film, *strange])
    samples, lines = taken(bag, tmp_path / "trace", topic=["camera=/front/image", "camera=/left/image/compressed"])
    assert samples == {"lidar": 9, "camera": 4}
    why = {line.split(": ")[1]: line for line in lines if line.startswith("left out")}
    assert "is a picture of the format 'h264'; JPEG and PNG can be read" in why["/left/image/compressed"]
    assert "packets of the unknown product 0x0" in why["/old/packets"]
    assert why["/empty/points"].endswith("it holds no sample")
    assert sorted(path.name for path in (tmp_path / "trace").iterdir()) == ["camera", "config.yaml", "lidar"]
    assert config_of(tmp_path / "trace").keys() == {"lidar", "camera", "imported"}
    damaged = [_picture("/left/image/compressed", i, "jpeg", b"\xff\xd8" if i == 2 else None) for i in range(4)]
    bag = bags.write_mcap(tmp_path / "b.mcap", [*good, *damaged])
    with pytest.raises(FormatError, match=r"/left/image/compressed: .*--partial leaves them out"):
        taken(bag, tmp_path / "other")
    assert taken(bag, tmp_path / "other", partial=True)[0] == {"camera": 3, "camera_front": 4}


def test_packets_of_two_ousters_are_decoded_each_by_its_own_metadata(captures: Path, tmp_path: Path) -> None:
    folder = captures / "ouster"
    left = [each._replace(topic=f"/left{each.topic}") for each in packets(folder, SINGLE, "ouster_sensor_msgs")]
    right = [each._replace(topic=f"/right{each.topic}") for each in packets(folder, DUAL, "ouster_sensor_msgs")]
    bag = bags.write_mcap(tmp_path / "a.mcap", [*left, *right])
    samples, lines = taken(bag, tmp_path / "trace")
    assert samples.keys() == {"lidar", "lidar_right", "imu", "imu_right"}
    for sensor, suffix, name in (("left", "", SINGLE), ("right", "_right", DUAL)):
        import_ouster(folder / f"{name}.pcap", tmp_path / sensor, folder / METADATA[name])
        for kind in ("lidar", "imu"):
            wanted = snapshot(tmp_path / sensor / kind)
            assert wanted and snapshot(tmp_path / "trace" / f"{kind}{suffix}") == wanted
    assert config_of(tmp_path / "trace")["rig"].keys() == {"imu"}  # nothing says where the right one is
    # A file is of the main one; the other has its own, or none.
    bag = bags.write_mcap(tmp_path / "b.mcap", [*left[1:], *right])
    assert taken(bag, tmp_path / "given", meta=folder / METADATA[SINGLE])[0] == samples
    bag = bags.write_mcap(tmp_path / "c.mcap", [*left, *right[1:]])
    alone, lines = taken(bag, tmp_path / "alone")
    assert alone.keys() == {"lidar", "imu"}
    assert any("/right/ouster/lidar_packets: packets of an Ouster, whose metadata" in line for line in lines)


def test_sensors_beyond_a_limit_are_omitted_so_that_open_files_are_bounded(tmp_path: Path) -> None:
    sent = [_picture(f"/cam{n:02}/image", 0, "raw", frame=f"cam{n}") for n in range(MAX_SENSORS + 2)]
    samples, lines = taken(bags.write_mcap(tmp_path / "a.mcap", sent), tmp_path / "trace")
    assert len(samples) == MAX_SENSORS
    assert sum("a trace has no more of a kind" in line for line in lines) == 2


def test_messages_that_are_worked_on_ahead_do_not_grow_with_the_number_of_topics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = [_picture(f"/cam{n}/image", i, "raw", frame=f"cam{n}") for i in range(6) for n in range(9)]
    waiting, largest = 0, 0
    prepare, add = CameraSink.prepare, CameraSink.add

    def counted(self: CameraSink, content: dict[str, Any]) -> Any:
        nonlocal waiting, largest
        waiting += 1
        largest = max(largest, waiting)
        return prepare(self, content)

    def used(self: CameraSink, ns: int, prepared: Any) -> None:
        nonlocal waiting
        waiting -= 1
        add(self, ns, prepared)

    monkeypatch.setattr(CameraSink, "prepare", counted)
    monkeypatch.setattr(CameraSink, "add", used)
    samples, _ = taken(bags.write_mcap(tmp_path / "a.mcap", sent), tmp_path / "trace")
    assert sum(samples.values()) == 54 and waiting == 0 and largest <= AHEAD


def test_each_lidar_of_a_capture_of_velodynes_has_the_sweeps_that_it_has_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = bags.write_capture(tmp_path / "both.pcap", addresses=(201, 202))
    assert import_velodyne(both, tmp_path / "trace") == {"lidar": 3, "lidar_202": 3}
    assert list(problems(tmp_path / "trace")) == []
    alone = bags.write_capture(tmp_path / "alone.pcap")
    assert import_velodyne(alone, tmp_path / "one") == 3
    wanted = snapshot(tmp_path / "one" / "lidar")
    found = snapshot(tmp_path / "trace" / "lidar")
    assert [path for path in wanted if found[path] != wanted[path]] == ["lidar.json"]  # which names the capture
    near, far = (Sensor(tmp_path / "trace" / name).channel("xyz").read()[1] for name in ("lidar", "lidar_202"))
    more = np.linalg.norm(far, axis=1) - np.linalg.norm(near, axis=1)
    np.testing.assert_allclose(more, 2, atol=1e-4)
    config = config_of(tmp_path / "trace")
    assert config["lidar_202"] == {"type": "lidar", "args": {"model": "VLP-16", "address": "192.168.1.202:2368"}}
    # One whose packets nobody knows is named and omitted; the first one is not.
    data = both.read_bytes()
    strange = data.replace(b"\x37\x22", b"\x37\x99")
    both.write_bytes(bytes(strange[i] if _of_second(data, i) else data[i] for i in range(len(data))))
    assert import_velodyne(both, tmp_path / "other") == 3
    said = capsys.readouterr().err
    assert "the lidar 192.168.1.202:2368 is left out: packets of the unknown product 0x99" in said
    assert sorted(path.name for path in (tmp_path / "other").iterdir()) == ["config.yaml", "lidar"]


def _of_second(data: bytes, place: int) -> bool:
    """Whether a byte of a capture of two lidars is of the second one, whose packets are every other one."""
    return (place - 24) // ((len(data) - 24) // 320) % 2 == 1


def test_all_sensors_of_an_osf_are_taken_and_their_poses_on_the_rig(captures: Path, tmp_path: Path) -> None:
    sources = [open_source(str(captures / "ouster" / f"{name}.pcap")) for name in (SINGLE, DUAL)]
    infos = [source.sensor_info[0] for source in sources]
    pose = np.eye(4)
    pose[:3, 3] = 0.5, -0.2, 0.1
    infos[1].sensor_to_body = pose
    several = tmp_path / "several.osf"
    with osf.Writer(str(several), infos) as writer:
        for number, source in enumerate(sources):
            for scan, *_ in source:
                assert isinstance(scan, core.LidarFrame)
                writer.save(number, scan)
    assert import_ouster(several, tmp_path / "trace") == {"lidar": 3, "lidar_992137000142": 1}
    assert list(problems(tmp_path / "trace")) == []
    for number, name in enumerate(("lidar", "lidar_992137000142")):
        import_ouster(several, tmp_path / name, sensor=str(number))
        assert snapshot(tmp_path / name / "lidar") == snapshot(tmp_path / "trace" / name)
    config = config_of(tmp_path / "trace")
    assert config["rig"]["lidar_992137000142"]["translation"] == pytest.approx([0.5, -0.2, 0.1])
    assert config["lidar_992137000142"]["args"]["sensor"] == "992137000142"


def test_folders_of_pictures_become_the_cameras_of_one_trace_by_the_names_that_are_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    images = pictures(4, 16, 24)
    for name in ("left", "right"):
        (tmp_path / name).mkdir()
        for number in range(2):
            cv2.imwrite(str(tmp_path / name / f"{number}.jpg"), images[number + 2 * (name == "right")])
    trace = tmp_path / "trace"
    common = ["--rate", "10", "--start", "1700000000", "-o", str(trace)]
    assert main(["import", "pictures", str(tmp_path / "left"), *common]) == 0
    assert main(["import", "pictures", str(tmp_path / "right"), *common, "--as", "camera_right"]) == 0
    assert list(problems(trace)) == [] and Rig(trace).of("camera") == ["camera", "camera_right"]
    for name, sensor in (("left", "camera"), ("right", "camera_right")):
        video: Any = Sensor(trace / sensor).channel("video.avi")
        assert [video.jpeg(i) for i in range(2)] == [(tmp_path / name / f"{i}.jpg").read_bytes() for i in range(2)]
    (tmp_path / "clouds").mkdir()
    np.arange(40, dtype="<f4").tofile(tmp_path / "clouds" / "0.bin")
    assert main(["import", "clouds", str(tmp_path / "clouds"), *common, "--as", "lidar_top"]) == 0
    assert Rig(trace).types["lidar_top"] == "lidar" and list(problems(trace)) == []
    for name in ("camera_depth", "_left", "a/b", "radar"):
        assert main(["import", "pictures", str(tmp_path / "left"), *common, "--as", name]) == 1
        assert f"--as {name}: is no name for a camera" in capsys.readouterr().err
