"""The preview of a trace: a video that plays everywhere, with every sensor at its time and place."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest

from rover_pipeline.errors import FormatError
from rover_pipeline.export import mp4, panels
from rover_pipeline.export.mp4 import HEIGHT, WIDTH, Picture, PreviewOptions, write_preview
from rover_pipeline.format.sensor import TS, TS_SPEC, Sensor, SensorWriter
from tests.export.shown import FRAMES, INVALID, shown_trace
from tests.kit import START_S, small_trace, spec_of, times


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shown_trace(tmp_path_factory.mktemp("mp4") / "trace")


def decoded(path: Path) -> tuple[np.ndarray, float]:
    """All pictures as u1 RGB, and pictures a second."""
    capture = cv2.VideoCapture(str(path))
    assert capture.isOpened()
    found = []
    while (read := capture.read())[0]:
        found.append(read[1][..., ::-1])
    return np.stack(found), capture.get(cv2.CAP_PROP_FPS)


def far(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.abs(one.astype("f4") - other.astype("f4")).mean())


@pytest.mark.parametrize("rate", [10.0, 25.0])
def test_the_preview_plays_in_real_time_and_shows_what_was_drawn(rate: float, trace: Path, tmp_path: Path) -> None:
    write_preview(trace, tmp_path / "x.mp4", PreviewOptions(rate=rate), threads=2)
    pictures, played = decoded(tmp_path / "x.mp4")
    span = (FRAMES - 1) / 10
    assert pictures.shape == (int(span * rate + 1e-6) + 1, HEIGHT, WIDTH, 3)
    assert played == pytest.approx(rate)
    draw = Picture(trace, PreviewOptions(), START_S)
    drawn = [draw(START_S + i / rate) for i in range(len(pictures))]
    for number, picture in enumerate(pictures):
        assert far(picture, drawn[number]) < 4
    assert far(drawn[0], drawn[-1]) > 8


def test_threads_change_no_byte(trace: Path, tmp_path: Path) -> None:
    for threads in (1, 3):
        write_preview(trace, tmp_path / f"{threads}.mp4", threads=threads)
    assert (tmp_path / "1.mp4").read_bytes() == (tmp_path / "3.mp4").read_bytes()


def test_an_ffmpeg_without_h264_makes_mpeg4(trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mp4, "_ENCODERS", (("no_such_encoder", {}), *mp4._ENCODERS[-1:]))
    write_preview(trace, tmp_path / "x.mp4")
    pictures, _ = decoded(tmp_path / "x.mp4")
    assert len(pictures) == FRAMES
    assert far(pictures[2], Picture(trace, PreviewOptions(), START_S)(times(FRAMES)[2])) < 5


def test_the_camera_shows_its_last_valid_picture_and_says_when_there_is_none(trace: Path) -> None:
    show = panels.camera(trace, 24, 16)
    video = Sensor(trace / "camera").channel("video.avi").read()
    shown = [0, 1, 2, 3, 3, 5]
    assert INVALID["camera"] == (4,)
    for at, wanted in enumerate(shown):
        np.testing.assert_array_equal(show(START_S + at / 10 + 0.01, 24, 16), video[wanted])
    late, early = show(START_S + 9, 24, 16), show(START_S - 1, 24, 16)
    np.testing.assert_array_equal(late, early)


def target_trace(path: Path, direction: float) -> Path:
    """A lidar that sees one thing, 3 m away, so many degrees to the left of ahead."""
    trace = small_trace(path, 1, sensors=("lidar",), beams=8, columns=512)
    info = json.loads((trace / "lidar" / "lidar.json").read_text())
    azimuth = np.array(info["beam_intrinsics"]["beam_azimuth_angles"])
    # The encoder turns clockwise from behind; a beam looks so many degrees clockwise of it.
    ranges = np.full((1, 8, 512), 9000, "u2")
    for beam in range(8):
        column = round((180 - direction - azimuth[beam]) / 360 * 512) % 512
        ranges[0, beam, np.arange(column - 3, column + 4) % 512] = 3000
    sidecar = (trace / "lidar" / "lidar.json").read_text()
    shutil.rmtree(trace / "lidar")
    with SensorWriter(trace / "lidar", {TS: TS_SPEC, "rng": spec_of(ranges, "lzmaf")}) as writer:
        writer.append(ts=times(1), rng=ranges)
    (trace / "lidar" / "lidar.json").write_text(sidecar)
    return trace


@pytest.mark.parametrize("direction", [0.0, 90.0, -45.0])
def test_what_is_ahead_is_in_the_middle_and_above(direction: float, tmp_path: Path) -> None:
    trace = target_trace(tmp_path / "trace", direction)
    image = panels.ranges(trace)(START_S, 720, 64).astype("i4")
    near_by = image[..., 1].mean(axis=0)
    assert near_by.max() > near_by.min() + 50
    assert np.average(np.arange(720), weights=near_by > near_by.max() - 20) == pytest.approx(
        360 - 2 * direction, abs=12
    )

    seen = panels.from_above(trace, 5.0)(START_S, 400, 400).astype("i4")
    coloured = np.abs(seen[..., 0] - seen[..., 2]) > 40
    rows, columns = np.nonzero(coloured)
    near = np.hypot(rows - 200, columns - 200) < 40 * 3.3
    ahead, left = 200 - rows[near].mean(), 200 - columns[near].mean()
    assert np.degrees(np.arctan2(left, ahead)) == pytest.approx(direction, abs=4)


def test_sensors_that_are_not_there_say_so(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "trace", 3, sensors=("camera",))
    write_preview(trace, tmp_path / "x.mp4")
    assert len(decoded(tmp_path / "x.mp4")[0]) == 3
    made: list[Callable[..., panels.Panel]] = [panels.ranges, lambda path: panels.power(path, "range_doppler")]
    for panel in made:
        assert len(np.unique(panel(trace)(START_S, 320, 100))) < 120
    with pytest.raises(FormatError, match="neither lidar, camera nor radar"):
        write_preview(small_trace(tmp_path / "imu", sensors=("imu",)), tmp_path / "y.mp4")
