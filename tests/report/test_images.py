"""Pictures show things where they are."""

from __future__ import annotations

import base64
import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest

from rover_pipeline.format.meta import read_meta, write_meta
from rover_pipeline.format.trace import Trace
from rover_pipeline.report.maps import read_floor_plan
from rover_pipeline.report.options import ReportOptions
from rover_pipeline.report.pictures import encoded, fan, fitted
from rover_pipeline.report.recorded import read_sensors
from rover_pipeline.report.strip import nearest, strip
from tests.kit import START_S, small_trace
from tests.report.scene import lidar_times, walk


@pytest.mark.parametrize(("degrees", "metres"), [(30, 8), (-45, 5), (0, 9), (60, 3)])
def test_a_target_stands_in_its_direction_at_its_distance(degrees: float, metres: float) -> None:
    azimuth, ranges = np.radians(np.arange(-80, 81)), np.arange(0, 10.1, 0.1)
    values = np.zeros((161, 101))
    values[80 + int(degrees), int(metres * 10)] = 1
    image, inside = fan(values, azimuth, ranges, 800)
    rows, columns = np.nonzero(image * inside)
    metres_a_pixel = 2 * np.sin(np.radians(80)) * 10 / 800
    right = (columns.mean() + 0.5) * metres_a_pixel - np.sin(np.radians(80)) * 10
    ahead = 10 - (rows.mean() + 0.5) * metres_a_pixel
    assert np.hypot(right, ahead) == pytest.approx(metres, abs=0.1)
    assert np.degrees(np.arctan2(right, ahead)) == pytest.approx(degrees, abs=1)


def test_a_fan_is_as_wide_on_both_sides() -> None:
    azimuth = np.arcsin((np.arange(64) - 32) / 32)  # the radar's: from -90 degrees to 75.6
    _, inside = fan(np.ones((64, 10)), azimuth, np.arange(10.0), 400)
    assert (inside == inside[:, ::-1]).all()


def test_what_is_all_around_is_shown_all_around() -> None:
    azimuth = np.radians(np.arange(-180, 180, 2))
    _, inside = fan(np.ones((180, 50)), azimuth, np.arange(50.0), 200)
    assert inside.shape == (200, 200)
    assert inside.mean() == pytest.approx(np.pi / 4, abs=0.02)


def test_a_floor_plan_lies_where_its_yaml_says(scene: Path) -> None:
    plan = read_floor_plan(scene / "_map")
    assert plan is not None
    np.testing.assert_allclose(plan.low, [-1, -2], atol=1e-9)
    np.testing.assert_allclose(plan.high, [5, 4], atol=1e-9)
    walls = plan.image[..., 3] > 128
    assert walls[0].all() and walls[-1].all() and walls[:, 0].all() and walls[:, -1].all()
    assert not walls[1:-1, 1:-1].any()


def test_a_map_that_is_damaged_is_left_out(tmp_path: Path) -> None:
    assert read_floor_plan(tmp_path) is None
    (tmp_path / "occupancy.yaml").write_text("resolution: 0.1\norigin: [0, 0, 0]\n")
    (tmp_path / "occupancy.pgm").write_bytes(b"P5 nothing")
    assert read_floor_plan(tmp_path) is None


def test_instants_are_evenly_spaced_and_frames_are_the_nearest_ones(scene: Path) -> None:
    recorded = {each.name: each for each in read_sensors(Trace(scene))}
    shown = strip(Trace(scene), recorded, START_S, ReportOptions(instants=5, picture_width=64))
    ts = lidar_times() - START_S
    for i, instant in enumerate(shown):
        wanted = ts[0] + (i + 0.5) / 5 * (ts[-1] - ts[0])
        assert abs(instant.time - wanted) == pytest.approx(np.abs(ts - wanted).min(), abs=1e-6)
        frames = {frame.title: frame for frame in instant.frames}
        assert list(frames) == ["camera", "lidar", "range-Doppler", "range-azimuth", "occupancy"]
        assert frames["lidar"].away == 0
        radar = recorded["_radar_range_doppler"].ts - START_S - instant.time
        assert frames["range-Doppler"].away == pytest.approx(radar[np.abs(radar).argmin()], abs=1e-6)


def test_samples_that_are_not_valid_say_so_and_those_that_cannot_be_decoded_are_named(tmp_path: Path) -> None:
    trace = walk(tmp_path / "walk")
    valid = np.zeros(40, "u1")
    valid.tofile(trace / "_radar_range_azimuth" / "valid")
    data = bytearray((trace / "camera" / "video.avi").read_bytes())
    at = data.index(b"\xff\xd8")
    while at >= 0:
        data[at : at + 2] = b"\0\0"
        at = data.find(b"\xff\xd8", at)
    (trace / "camera" / "video.avi").write_bytes(data)
    recorded = {each.name: each for each in read_sensors(Trace(trace))}
    (instant,) = strip(Trace(trace), recorded, START_S, ReportOptions(instants=1, picture_width=64))
    frames = {frame.title: frame for frame in instant.frames}
    assert frames["range-azimuth"].doubtful and not frames["lidar"].doubtful
    assert frames["camera"].picture is None and frames["lidar"].picture is not None


def test_nearest_of_two_as_near_is_the_earlier_one() -> None:
    assert nearest(np.array([0.0, 1, 2]), np.array([-5, 0.5, 1.4, 1.6, 9])).tolist() == [0, 0, 1, 2, 2]
    assert nearest(np.array([7.0]), np.array([1.0, 9])).tolist() == [0, 0]


def test_pictures_are_small_enough_and_keep_their_colours() -> None:
    image = np.zeros((300, 900, 3), "u1")
    image[:, :450] = (200, 40, 90)
    picture = encoded(fitted(image, 300))
    assert (picture.width, picture.height) == (300, 100)
    data = np.frombuffer(base64.b64decode(picture.url.partition(",")[2]), "u1")
    decoded = cv2.imdecode(data, cv2.IMREAD_COLOR_RGB)
    assert decoded is not None
    assert np.abs(decoded[50, 50].astype(int) - [200, 40, 90]).max() < 12
    assert np.abs(decoded[50, 250].astype(int)).max() < 12


def test_the_anonymised_video_of_a_public_trace_is_shown(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "public", 6, sensors=("camera", "imu"), invalid={})
    shutil.copytree(trace / "camera", trace / "_camera")
    (trace / "camera" / "video.avi").unlink()
    only_ts = {name: spec for name, spec in read_meta(trace / "camera").items() if name == "ts"}
    write_meta(trace / "camera", only_ts)
    recorded = {each.name: each for each in read_sensors(Trace(trace))}
    shown = strip(Trace(trace), recorded, START_S, ReportOptions(instants=2, picture_width=64))
    assert [[frame.title for frame in instant.frames] for instant in shown] == [["camera"], ["camera"]]
    assert all(frame.picture for instant in shown for frame in instant.frames)
