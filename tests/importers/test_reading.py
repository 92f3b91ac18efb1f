"""How bags are read: a few chunks ahead, each topic in its order, and no more than once what takes long."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest

from rover_pipeline.errors import FormatError
from rover_pipeline.format.channels.jpeg import marker_problem
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.importers.ahead import worked_ahead
from rover_pipeline.importers.ros import rosbag1
from rover_pipeline.importers.ros.bags import Recording
from rover_pipeline.importers.ros.record import import_ros
from tests.importers import bags
from tests.importers.bags import START, Sent, header


def test_results_of_threads_come_in_order_and_an_error_after_the_items_before_it() -> None:
    def items() -> Iterator[int]:
        yield from range(20)
        raise ValueError("the file ends")

    def work(item: int) -> int:
        time.sleep(0.002 * (item % 3))
        return item * item

    got = []
    with pytest.raises(ValueError, match="the file ends"):
        for item, result in worked_ahead(work, items(), lambda item: 1 << 25):
            got.append((item, result))
    assert got == [(item, item * item) for item in range(20)]


@pytest.mark.parametrize("name", ["a.bag", "bz2.bag", "a.mcap", "two", "packed"])
def test_reading_the_wanted_topics_gives_their_messages_as_reading_all_does(tmp_path: Path, name: str) -> None:
    sent = bags.rig(40)
    # The last topic stands alone in its chunks, which are then skipped.
    sent += [bags.imu("/late", START + 10**10 + i, (0, 0, 9.8)) for i in range(3000)]
    write = {
        "a.bag": lambda path: bags.write_ros1(path, sent),
        "bz2.bag": lambda path: bags.write_ros1(path, sent, "BZ2"),
        "a.mcap": lambda path: bags.write_mcap(path, sent),
        "two": lambda path: bags.write_ros2(path, sent),
        "packed": lambda path: bags.write_ros2(path, sent, "MESSAGE"),
    }[name]
    with (tmp_path / "scratch").open("x+b", buffering=0) as scratch:
        recording = Recording([write(tmp_path / name)], False, scratch)
        everything = [(each.topic, each.time, bytes(each.data)) for each in recording.messages()]
        heads = [(each.topic, each.time, bytes(each.data)) for each in recording.messages(heads=True)]
        assert heads == everything  # no message is longer than a head
        assert len(everything) == len(sent)
        for wanted in ({"/points", "/radar"}, {"/late"}, {"/none"}):
            found = [(each.topic, each.time, bytes(each.data)) for each in recording.messages(wanted=wanted)]
            assert found == [each for each in everything if each[0] in wanted]


def test_a_chunk_of_bz2_is_decompressed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bag = bags.write_ros1(tmp_path / "a.bag", bags.rig(40), "BZ2")
    kinds: list[str] = []
    plain = rosbag1.decompressed

    def counted(kind: str, data: memoryview, size: int, at: int) -> memoryview:
        kinds.append(kind)
        return plain(kind, data, size, at)

    monkeypatch.setattr(rosbag1, "decompressed", counted)
    import_ros([bag], tmp_path / "trace", say=lambda line: None)
    assert kinds.count("bz2") == kinds.count("none") > 0
    assert sorted(path.name for path in (tmp_path / "trace").iterdir() if path.is_file()) == ["config.yaml"]


def _jpeg(seed: int = 0, restarts: bool = False) -> bytes:
    """A picture of noise; with restart markers, as some cameras write them."""
    picture = np.random.default_rng(seed).integers(0, 255, (96, 128, 3), dtype="u1")
    options = [cv2.IMWRITE_JPEG_RST_INTERVAL, 4] if restarts else []
    return bytes(cv2.imencode(".jpg", picture, options)[1])


def test_markers_tell_damaged_pictures_from_whole_ones() -> None:
    whole, other = _jpeg(), _jpeg(1)
    picture = np.random.default_rng(2).integers(0, 255, (64, 64, 3), dtype="u1")
    progressive = bytes(cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_PROGRESSIVE, 1])[1])
    restarted = _jpeg(restarts=True)
    for good in (whole, progressive, restarted, whole + b"\0" * 8):
        assert marker_problem(good) == ""
    middle = len(whole) // 2
    places = [i for i in range(len(restarted) - 1) if restarted[i] == 0xFF and 0xD0 <= restarted[i + 1] <= 0xD7]
    assert len(places) > 8
    for bad in (
        whole[:-2] + b"\0\0",  # no end
        whole[:middle] + other,  # another picture begins within it
        whole[:middle] + b"\xff\xc4" + whole[middle:],
        whole[:2] + whole[40:],  # its headers lack a piece
        restarted[: places[3]] + restarted[places[5] :],  # two of its parts are lost
        whole[:20] + whole[-2:],
    ):
        assert marker_problem(bad)


def test_each_picture_of_a_bag_is_looked_at_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    pictures = [_jpeg(i) for i in range(14)]
    pictures[11] = pictures[11][: len(pictures[11]) // 2] + pictures[12]  # of those that are not decoded
    sent = []
    for i, data in enumerate(pictures):
        stamp = START + i * 10**8
        values = (header(stamp), "jpeg", np.frombuffer(data, "u1"))
        sent.append(Sent("/cam/compressed", "sensor_msgs/msg/CompressedImage", stamp, values))
    bag = bags.write_mcap(tmp_path / "a.mcap", sent)
    with pytest.raises(FormatError, match=r"/cam/compressed: the message at 1700000001\.1\d+ s is a JPEG whose "):
        import_ros([bag], tmp_path / "trace", say=lambda line: None)
    lines: list[str] = []
    assert import_ros([bag], tmp_path / "trace", partial=True, say=lines.append) == {"camera": 13}
    channel = Sensor(tmp_path / "trace" / "camera").channel("video.avi")
    kept = [data for i, data in enumerate(pictures) if i != 11]
    assert [channel.jpeg(i) for i in range(13)] == kept  # type: ignore[attr-defined]
    assert any("left out: 1 message that cannot be decoded" in line for line in lines)
