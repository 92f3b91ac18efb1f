"""Charts show the data at its true position: a blank or mirrored chart fails here."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import cv2
import numpy as np
import pytest

from rover_pipeline.draw.charts import LEFT, NARROW, RIGHT, WIDE, Chart, themed_svg
from rover_pipeline.draw.charts import path as draw_path
from rover_pipeline.draw.map_view import FloorPlan
from rover_pipeline.draw.theme import COLOURS
from rover_pipeline.report import frames
from rover_pipeline.report.fleet import Row
from rover_pipeline.report.read.motion import QualityChannel, SpeedCurve, Track
from rover_pipeline.report.read.sensors import Residuals, SensorRecord
from rover_pipeline.report.summary import Motion, SensorSummary, Summary
from tests.kit import START_S, times

SECONDS = 10.0
SPAN = (START_S, START_S + SECONDS)
TS = times(101)
#: A value at a quarter of the time is larger than all others.
PEAK = np.where(np.arange(101) == 25, 3.0, 1.0)


class Shape(NamedTuple):
    """A path of a chart: its vertices in pixels, f8 (vertex, 2), rightward and downward, and its CSS."""

    vertices: np.ndarray
    style: str


def shapes(svg: str, colour: str, kind: str = "stroke") -> list[Shape]:
    """Paths that are drawn, or filled, in a colour of the page. Markers are left out."""
    root = ElementTree.fromstring(svg)
    found = []
    for path in root.findall(".//g/path"):
        style = path.get("style", "")
        if f"{kind}: var(--{colour})" in style:
            numbers = [float(token) for token in path.attrib["d"].split() if not token.isalpha()]
            found.append(Shape(np.reshape(numbers, (-1, 2)), style))
    return found


def curve(svg: str, colour: str) -> np.ndarray:
    """The longest line in a colour, f8 (vertex, 2), pixels."""
    return max((shape.vertices for shape in shapes(svg, colour)), key=len)


def at_time(narrow: bool, seconds: float) -> float:
    """Horizontal position of a time in a chart over the whole recording, pixels."""
    return LEFT + seconds / SECONDS * ((NARROW if narrow else WIDE) - LEFT - RIGHT)


def assert_peak_at_a_quarter(chart: Chart | None, colour: str) -> None:
    """The only extreme of the curve is at a quarter of the time, and it points upward."""
    assert chart is not None
    for narrow, svg in ((False, chart.wide), (True, chart.narrow)):
        x, y = curve(svg, colour).T
        assert x.min() == pytest.approx(at_time(narrow, 0), abs=1)
        assert x.max() == pytest.approx(at_time(narrow, SECONDS), abs=1)
        assert x[y.argmin()] == pytest.approx(at_time(narrow, 2.5), abs=1)
        assert np.median(y) - y.min() > 20 and y.max() - np.median(y) < 10


def record(name: str, ts: np.ndarray = TS, valid: np.ndarray | None = None) -> SensorRecord:
    return SensorRecord(SensorSummary(name=name), ts, np.ones(len(ts), "u1") if valid is None else valid)


def test_the_timeline_shows_when_a_sensor_ran_lost_samples_and_was_invalid() -> None:
    ts = np.delete(TS, range(20, 30))  # lost from 2 s to 3 s
    valid = np.ones(len(ts), "u1")
    valid[-30:-20] = 0  # from 7.1 s to 8.1 s
    chart = frames.timeline([record("lidar", ts, valid), record("_odom")], SPAN)
    for svg, left, right in ((chart.wide, 16 + 7 * 5, WIDE - RIGHT), (chart.narrow, 14, NARROW - RIGHT)):
        (bar,), (other,), (gap,), (invalid,) = (
            shapes(svg, colour, "fill") for colour in ("lidar", "derived", "bad", "fair")
        )
        scale = (right - left) / SECONDS
        for shape, begin, end in ((bar, 0, 10.1), (gap, 2, 3), (invalid, 7.1, 8.1)):
            assert shape.vertices[:, 0].min() == pytest.approx(left + begin * scale, abs=2)
            assert shape.vertices[:, 0].max() == pytest.approx(left + end * scale, abs=2)
        assert other.vertices[:, 1].min() > bar.vertices[:, 1].max()


def test_single_samples_of_a_fast_sensor_are_small_marks_on_the_timeline() -> None:
    ts = np.delete(START_S + np.arange(10_000) / 1000, 2500)
    valid = np.arange(9999) != 7500
    chart = frames.timeline([record("imu", ts, valid)], SPAN)
    for svg in (chart.wide, chart.narrow):
        (bar,), (gap,), (invalid,) = (shapes(svg, colour, "fill") for colour in ("imu", "bad", "fair"))
        (top, bottom), (gap_top, gap_bottom), (invalid_top, invalid_bottom) = (
            (shape.vertices[:, 1].min(), shape.vertices[:, 1].max()) for shape in (bar, gap, invalid)
        )
        assert (gap_top, invalid_bottom) == (top, bottom), "gaps hang from the upper edge"
        heights = np.array([gap_bottom - gap_top, invalid_bottom - invalid_top])
        np.testing.assert_allclose(heights, (bottom - top) / 4, atol=0.1)


def test_a_late_sample_is_a_peak_of_the_jitter() -> None:
    assert_peak_at_a_quarter(frames.jitter([record("imu", TS + 0.005 * (PEAK - 1))], SPAN), "imu")


def test_a_fast_moment_is_a_peak_of_the_speed_below_the_maximum_doppler() -> None:
    chart = frames.speed(SpeedCurve(TS, PEAK), SpeedCurve(TS, 0.9 * PEAK), 4.0, SPAN)
    assert_peak_at_a_quarter(chart, "lidar")
    assert_peak_at_a_quarter(chart, "radar")
    assert chart is not None
    (limit,) = (shape.vertices[:, 1] for shape in shapes(chart.wide, "bad"))
    y = curve(chart.wide, "lidar")[:, 1]
    metre = (y.max() - y.min()) / 2  # per second, pixels
    assert y.min() - limit[0] == pytest.approx(metre, abs=0.1)


def test_quality_channels_are_drawn_and_stripes_mark_invalid_poses() -> None:
    valid = np.arange(101) != 70
    track = Track(TS, PEAK, np.zeros((101, 3)), valid, [QualityChannel("score", "", PEAK)])
    chart = frames.quality(track, SPAN)
    assert_peak_at_a_quarter(chart, "lidar")
    assert chart is not None
    (stripe,) = shapes(chart.wide, "fair", "fill")
    assert stripe.vertices[:, 0].min() == pytest.approx(at_time(False, 7), abs=1)


def test_a_late_partner_is_a_peak_of_the_residuals_and_a_missing_one_interrupts_the_curve() -> None:
    nearest = np.where(np.arange(101) == 50, -1, np.arange(101))
    chart = frames.residuals({"radar": Residuals(nearest, PEAK / 1000)}, TS, SPAN)
    assert_peak_at_a_quarter(chart, "radar")
    assert len(curve(chart.wide, "radar")) == 100


def test_the_path_goes_right_along_x_and_up_along_y_and_lies_on_the_floor_plan() -> None:
    x, y = np.minimum(np.arange(101), 60) / 10, np.maximum(np.arange(101) - 60, 0) / 10
    track = Track(TS, PEAK, np.stack([x, y, 0 * x], axis=1), np.ones(101, bool))
    image = np.full((5, 7, 4), 128, "u1")
    image[0, 6] = 255  # the cell with the largest x and y, whose centre is (6, 4) m: the end of the path
    chart = draw_path(TS, track.pos[:, :2], track.valid, FloorPlan(image, np.array([-0.5, -0.5]), np.array([6.5, 4.5])))
    for svg in (chart.wide, chart.narrow):
        line = curve(svg, "accent")
        (first, corner, last), scale = line[[0, 60, 100]], (line[60, 0] - line[0, 0]) / 6
        np.testing.assert_allclose(corner - first, [6 * scale, 0], atol=0.1)
        np.testing.assert_allclose(last - corner, [0, -4 * scale], atol=0.1)
        assert scale > 20
        (element,) = ElementTree.fromstring(svg).findall(".//image")
        a, _, _, d, left, top = map(float, element.attrib["transform"].removeprefix("matrix(").rstrip(")").split())
        data = np.frombuffer(base64.b64decode(element.attrib["href"].partition(",")[2]), "u1")
        pixels = cv2.imdecode(data, cv2.IMREAD_UNCHANGED)
        assert pixels is not None
        rows, columns = np.nonzero(pixels[..., 3] == 255)
        centre = left + a * (columns.mean() + 0.5), top + d * (rows.mean() + 0.5)
        np.testing.assert_allclose(centre, last, atol=1)
        texts = {text.text: float(text.attrib["x"]) for text in ElementTree.fromstring(svg).iter("text")}
        assert texts["start"] < texts["end"]


def test_the_small_path_of_a_fleet_page_goes_right_along_x_and_up_along_y() -> None:
    motion = Motion(
        distance_m=2, extent_m=(1, 1, 0), end_to_start_m=1, max_speed_mps=1, median_speed_mps=1, invalid=0, samples=3,
        path_m=((0, 0), (1, 0), (1, 1)),
    )  # fmt: skip
    summary = Summary(trace="trace", verdict="good", headline="", motion=motion)
    points = Row("trace", Path(), "", summary).path_svg
    assert points == "3.0,41.0 41.0,41.0 41.0,3.0"


@pytest.mark.parametrize(
    ("style", "themed"),
    [
        (
            f"fill: none; stroke: {COLOURS['lidar']}; stroke-width: 2",
            "fill: none; stroke: var(--lidar); stroke-width: 2",
        ),
        (f"font-size: 9px; font-family: 'DejaVu Sans'; fill: {COLOURS['ink']}", "font-size: 9px; fill: var(--ink)"),
        ("font: 700 12px 'DejaVu Sans', sans-serif", "font-weight: 700; font-size: 12px"),
        ("fill: #123456", "fill: #123456"),
    ],
)
def test_placeholder_colours_become_variables_and_the_font_that_of_the_page(style: str, themed: str) -> None:
    svg = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 40 20" width="40pt" height="20pt">'
    svg += f'<defs><style>* {{}}</style></defs><g id="figure_1"><path d="M 1.23456 2" style="{style}"/></g></svg>'
    root = ElementTree.fromstring(themed_svg(svg.encode()))
    assert root.attrib == {"viewBox": "0 0 40 20", "width": "40", "height": "20"}
    ((path,),) = root
    assert path.attrib == {"d": "M 1.23 2", "style": themed}
