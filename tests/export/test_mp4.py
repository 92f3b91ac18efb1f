"""The preview of a trace: a video in real time in which every sensor is drawn at its time and in its direction."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest

from rover_pipeline.errors import FormatError
from rover_pipeline.export import ExportOptions, mp4
from rover_pipeline.export.mp4 import HEIGHT, RATE, WIDTH, Picture, write
from rover_pipeline.export.recording import Recording
from rover_pipeline.format.sensor import TS, TS_SPEC, Sensor, SensorWriter
from tests.export.example import FRAMES, INVALID, example_trace
from tests.kit import START_S, small_trace, spec_of, times


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return example_trace(tmp_path_factory.mktemp("mp4") / "trace")


def read_video(path: Path) -> tuple[np.ndarray, float]:
    """All pictures as u1 RGB, and pictures a second."""
    capture = cv2.VideoCapture(str(path))
    assert capture.isOpened()
    pictures = []
    while (read := capture.read())[0]:
        pictures.append(read[1][..., ::-1])
    return np.stack(pictures), capture.get(cv2.CAP_PROP_FPS)


def there(panel: mp4.Panel | None) -> mp4.Panel:
    """A panel of something that the recording has."""
    assert panel
    return panel


def mean_difference(one: np.ndarray, other: np.ndarray) -> float:
    """Mean difference of the levels of two pictures, 0 to 255."""
    return float(np.abs(one.astype("f4") - other.astype("f4")).mean())


@pytest.mark.parametrize("every", [1, 2])
def test_the_preview_plays_in_real_time_and_shows_what_was_drawn(every: int, trace: Path, tmp_path: Path) -> None:
    write(trace, tmp_path / "x.mp4", ExportOptions(every=every, threads=2))
    rate = RATE / every
    pictures, played = read_video(tmp_path / "x.mp4")
    span = (FRAMES - 1) / 10
    assert pictures.shape == (int(span * rate + 1e-6) + 1, HEIGHT, WIDTH, 3)
    assert played == pytest.approx(rate)
    draw = Picture(trace, START_S)
    drawn = [draw(START_S + i / rate) for i in range(len(pictures))]
    for number, picture in enumerate(pictures):
        assert mean_difference(picture, drawn[number]) < 4
    assert mean_difference(drawn[0], drawn[-1]) > 8


def test_threads_change_no_byte(trace: Path, tmp_path: Path) -> None:
    for threads in (1, 3):
        write(trace, tmp_path / f"{threads}.mp4", ExportOptions(threads=threads))
    assert (tmp_path / "1.mp4").read_bytes() == (tmp_path / "3.mp4").read_bytes()


def test_an_ffmpeg_without_h264_makes_mpeg4(trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mp4, "_ENCODERS", (("no_such_encoder", {}), *mp4._ENCODERS[-1:]))
    write(trace, tmp_path / "x.mp4", ExportOptions())
    pictures, _ = read_video(tmp_path / "x.mp4")
    assert len(pictures) == FRAMES
    assert mean_difference(pictures[2], Picture(trace, START_S)(times(FRAMES)[2])) < 5


def test_the_camera_shows_its_last_valid_picture_and_says_when_there_is_none(trace: Path) -> None:
    show = there(mp4.camera_panel(Recording.of(trace), 24, 16))
    video = Sensor(trace / "camera").channel("video.avi").read()
    assert INVALID["camera"] == (4,)
    for at, expected in enumerate([0, 1, 2, 3, 3, 5]):
        np.testing.assert_array_equal(show(START_S + at / 10 + 0.01, 24, 16), video[expected])
    np.testing.assert_array_equal(show(START_S + 1.4, 24, 16), video[5])  # it may be silent for a second
    late, early = show(START_S + 1.6, 24, 16), show(START_S - 1, 24, 16)
    np.testing.assert_array_equal(late, early)


def target_trace(path: Path, direction: float) -> Path:
    """A lidar with a target 3 m away, so many degrees to the left of ahead, in front of walls 9 m away."""
    trace = small_trace(path, 1, sensors=("lidar",), beams=8, columns=512)
    info = json.loads((trace / "lidar" / "lidar.json").read_text())
    azimuth = np.array(info["beam_intrinsics"]["beam_azimuth_angles"])
    # The encoder counts clockwise from the rear, and a beam looks its azimuth angle clockwise of the encoder.
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
def test_a_lidar_target_is_drawn_in_its_direction(direction: float, tmp_path: Path) -> None:
    trace = target_trace(tmp_path / "trace", direction)
    image = there(mp4.range_image_panel(Recording.of(trace)))(START_S, 720, 64).astype("i4")
    level = image[..., 0].mean(axis=0)  # near is red
    assert level.max() > level.min() + 50
    assert np.average(np.arange(720), weights=level > level.max() - 20) == pytest.approx(360 - 2 * direction, abs=12)

    view = there(mp4.birds_eye_panel(Recording.of(trace), 5.0))(START_S, 400, 400).astype("i4")
    coloured = np.abs(view[..., 0] - view[..., 2]) > 40
    rows, columns = np.nonzero(coloured)
    near = np.hypot(rows - 200, columns - 200) < 40 * 3.3
    ahead, left = 200 - rows[near].mean(), 200 - columns[near].mean()
    assert np.degrees(np.arctan2(left, ahead)) == pytest.approx(direction, abs=4)


def write_sensor(trace: Path, name: str, **channels: np.ndarray) -> Path:
    """A trace whose only sensor has one sample, at `START_S`."""
    trace.mkdir()
    with SensorWriter(trace / name, {TS: TS_SPEC, **{key: spec_of(each) for key, each in channels.items()}}) as writer:
        writer.append(ts=times(1), **channels)
    return trace


def test_a_recording_whose_clock_was_set_is_refused(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "trace", 2, sensors=("radar",))
    (trace / "radar" / TS).write_bytes((START_S + np.array([0.0, 3600.0])).tobytes())
    with pytest.raises(FormatError, match="a clock was set"):
        write(trace, tmp_path / "x.mp4", ExportOptions())


@pytest.mark.parametrize(
    ("product", "column", "row"),
    [("range_doppler", 14.5 / 20, 2.5 / 10), ("range_azimuth", 7.5 / 10, 5.5 / 20)],
)
def test_the_strongest_radar_bin_is_bright_at_its_range_and_doppler_or_azimuth(
    product: str, column: float, row: float, tmp_path: Path
) -> None:
    power = np.full((1, 10, 20), -90.0, "f4")
    power[0, 7, 14] = 0  # Doppler or azimuth bin 7 of 10, range bin 14 of 20
    trace = write_sensor(tmp_path / "trace", f"_radar_{product}", power=power)
    brightness = there(mp4.power_panel(Recording.of(trace), product))(START_S, 600, 400).sum(axis=-1)
    rows, columns = np.nonzero(brightness > brightness.min() + 0.8 * np.ptp(brightness))
    assert (columns.mean() / 600, rows.mean() / 400) == pytest.approx((column, row), abs=0.01)
    assert len(rows) < 0.02 * brightness.size


def test_radar_points_are_drawn_in_their_direction_in_the_colour_of_their_velocity(tmp_path: Path) -> None:
    xyz = np.array([[[3, 2, 0], [-2, -4, 0], [9, 9, 9]]], "f4")
    doppler, count = np.array([[2, -2, 0]], "f4"), np.array([2], "u2")
    trace = write_sensor(tmp_path / "trace", "_radar_points", xyz=xyz, doppler=doppler, count=count)
    view = there(mp4.birds_eye_panel(Recording.of(trace), 5.0))(START_S, 500, 500).astype("i4")
    redness = view[..., 0] - view[..., 2]
    for mask, (ahead, left) in ((redness > 80, (3, 2)), (redness < -80, (-2, -4))):
        rows, columns = np.nonzero(mask)
        assert (250 - rows.mean(), 250 - columns.mean()) == pytest.approx((50 * ahead, 50 * left), abs=3)


def test_no_panel_of_a_trace_with_all_sensors_is_blank(trace: Path) -> None:
    draw = Picture(trace, START_S)
    picture = draw(START_S + 0.3).astype("i4")
    assert set(draw.areas) == {"camera", "birds_eye", "range_image", "range_doppler", "range_azimuth"}
    for name, (left, top, width, height) in draw.areas.items():
        panel = picture[top : top + height, left : left + width].reshape(-1, 3)
        coloured = panel[np.ptp(panel, axis=1) > 40]  # captions, messages and the background are grey
        assert len(np.unique(coloured, axis=0)) > 50, f"{name} shows no data"


def test_panels_fill_the_picture_whichever_are_shown() -> None:
    names = [name for _, row in mp4._ROWS for name in row]
    for count in range(1, len(names) + 1):
        for shown in itertools.combinations(names, count):
            covered = np.zeros((HEIGHT, WIDTH), int)
            areas = mp4.arrange(shown)
            assert set(areas) == set(shown)
            for left, top, width, height in areas.values():
                covered[top : top + height, left : left + width] += 1
            assert (covered == 1).all(), "no gap and no overlap"


@pytest.mark.parametrize(("sensor", "shown"), [("camera", {"camera"}), ("lidar", {"birds_eye", "range_image"})])
def test_a_recording_of_one_sensor_is_a_picture_of_that_sensor_alone(
    sensor: str, shown: set[str], tmp_path: Path
) -> None:
    trace = small_trace(tmp_path / "trace", 3, sensors=(sensor,))
    write(trace, tmp_path / "x.mp4", ExportOptions())
    pictures, _ = read_video(tmp_path / "x.mp4")
    assert len(pictures) == 3 and set(Picture(trace, START_S).areas) == shown
    assert mean_difference(pictures[1], Picture(trace, START_S)(times(3)[1])) < 6


def test_a_recording_without_anything_to_show_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="neither lidar, camera nor radar"):
        write(small_trace(tmp_path / "imu", sensors=("imu",)), tmp_path / "y.mp4", ExportOptions())
