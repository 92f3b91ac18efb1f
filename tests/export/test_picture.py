"""Pictures of radar products show each value where it is, in metres, metres a second and degrees."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import QuadMesh
from matplotlib.patches import Polygon

import rover_pipeline as rp
from rover_pipeline.cli import main
from rover_pipeline.draw.theme import APPROACHING, RECEDING
from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.errors import ConfigError, FormatError
from rover_pipeline.export.picture import draw, save_picture
from rover_pipeline.format.descriptions import AXES
from rover_pipeline.format.meta import META
from rover_pipeline.format.sensor import TS, TS_SPEC, Sensor, SensorWriter
from rover_pipeline.format.trace import CONFIG
from rover_pipeline.table import TABLE, find_step
from tests.kit import SMALL_FILES, environment, small_trace, spec_of, times, write_odometry

STEPS = ("range_doppler", "range_azimuth", "spectrum", "points", "velocity")


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small trace with every radar product."""
    path = small_trace(tmp_path_factory.mktemp("picture") / "trace", sensors=("radar",))
    for name in STEPS:
        run_step(find_step(f"_radar_{name}"), path, f"_radar_{name}", Request())
    return path


def write_product(trace: Path, name: str, axes: dict[str, tuple[str, np.ndarray]], **channels: np.ndarray) -> Path:
    """Give a trace a radar product with the given values; axes are name -> unit and value of each bin."""
    trace.mkdir()
    (trace / CONFIG).touch()
    specs = {TS: TS_SPEC, **{channel: spec_of(values) for channel, values in channels.items()}}
    with SensorWriter(trace / name, specs) as writer:
        writer.append(**{TS: times(len(next(iter(channels.values()))))}, **channels)
    content = {axis: {"unit": unit, "values": values.tolist()} for axis, (unit, values) in axes.items()}
    (trace / name / AXES).write_text(json.dumps(content))
    return trace


def rendered_plots(trace: Path, name: str) -> list[np.ndarray]:
    """The plot areas of a saved PNG without their labels, u1 RGB, colour bars last."""
    save_picture(trace, name, trace / "picture.png")
    picture = cv2.imread(str(trace / "picture.png"))
    assert picture is not None
    figure: Any = draw(trace, name)
    figure.set_dpi(120)
    figure.draw_without_rendering()
    FigureCanvasAgg(figure).draw()
    boxes = [plot.get_window_extent() for plot in figure.axes]
    rows = len(picture)
    return [picture[round(rows - box.y1) : round(rows - box.y0), round(box.x0) : round(box.x1), ::-1] for box in boxes]


def centre_of(plot: np.ndarray, colour: tuple[int, int, int], tolerance: int = 60) -> np.ndarray:
    """Middle of the pixels of about a colour, as fractions of the plot to the right and upward."""
    rows, columns = np.nonzero(np.abs(plot.astype("i4") - colour).max(-1) < tolerance)
    assert len(rows), f"the picture has no pixel of colour {colour}"
    return np.array([columns.mean() / plot.shape[1], 1 - rows.mean() / plot.shape[0]])


YELLOW, BLACK = (252, 255, 164), (0, 0, 4)  # the ends of the colours of power
RED, BLUE = RECEDING, APPROACHING
RANGE, DOPPLER = ("m", 0.5 * np.arange(20)), ("m/s", 0.25 * (np.arange(10) - 5))
AZIMUTH = ("rad", np.radians(np.linspace(-70, 70, 10)))


@pytest.mark.parametrize(("product", "axis"), [("range_doppler", DOPPLER), ("range_azimuth", AZIMUTH)])
def test_the_strongest_bin_is_bright_at_its_range_to_the_right_and_its_other_axis_upward(
    product: str, axis: tuple[str, np.ndarray], tmp_path: Path
) -> None:
    power = np.full((1, 10, 20), -90.0, "f4")
    power[0, 7, 14] = 0
    axes = {"range": RANGE, product.removeprefix("range_"): axis}
    trace = write_product(tmp_path / "trace", f"_radar_{product}", axes, power=power)
    plot, _ = rendered_plots(trace, f"_radar_{product}")
    np.testing.assert_allclose(centre_of(plot, YELLOW), [14.5 / 20, 7.5 / 10], atol=0.01)
    assert (np.abs(plot.astype("i4") - BLACK).max(-1) < 20).mean() > 0.9


def test_the_strongest_bin_of_a_spectrum_is_bright_in_both_of_its_plots(tmp_path: Path) -> None:
    spectrum = np.full((1, 10, 2, 10, 20), 1e-4, "f4")
    spectrum[0, 2, 1, 8, 5] = 1
    axes = {"range": RANGE, "doppler": DOPPLER, "azimuth": AZIMUTH}
    trace = write_product(tmp_path / "trace", "_radar_spectrum", axes, spectrum=spectrum)
    doppler, azimuth, *_ = rendered_plots(trace, "_radar_spectrum")
    np.testing.assert_allclose(centre_of(doppler, YELLOW), [5.5 / 20, 2.5 / 10], atol=0.01)
    np.testing.assert_allclose(centre_of(azimuth, YELLOW), [5.5 / 20, 8.5 / 10], atol=0.01)


def test_points_ahead_are_above_and_points_to_the_left_are_left_and_receding_points_are_red(tmp_path: Path) -> None:
    xyz = np.full((1, 4, 3), np.nan, "f4")
    xyz[0, :2] = [[6, 2, 0], [3, -2, 0]]
    values = np.array([[1.0, -1.0, np.nan, np.nan]], "f4")
    channels = {"xyz": xyz, "doppler": values, "snr": 80 * np.abs(values), "count": np.array([2], "u2")}
    trace = write_product(tmp_path / "trace", "_radar_points", {}, **channels)
    plot, _ = rendered_plots(trace, "_radar_points")
    inside = plot[6:-6, 6:-6]  # without the black frame
    receding, approaching, radar = (centre_of(inside, colour, 40) for colour in (RED, BLUE, (0, 0, 0)))
    assert receding[0] < approaching[0] and receding[1] > approaching[1] + 0.2
    assert approaching[1] > radar[1] + 0.2


def test_a_velocity_that_rises_is_drawn_as_a_rising_line(tmp_path: Path) -> None:
    vel = np.stack([np.linspace(0, 2, 12), np.full(12, -1.0), np.full(12, 0.5)], -1).astype("f4")
    cov = np.tile(1e-4 * np.eye(3, dtype="f4"), (12, 1, 1))
    trace = write_product(tmp_path / "trace", "_radar_velocity", {}, vel=vel, cov=cov)
    (plot,) = rendered_plots(trace, "_radar_velocity")
    middle = plot.shape[1] // 2
    left, right = (centre_of(part, (31, 119, 180), 40) for part in (plot[:, :middle], plot[:, middle:]))
    assert right[1] > left[1] + 0.2
    assert centre_of(plot, (255, 127, 14), 40)[1] < 0.15  # to the left: -1 m/s, the lowest line


@pytest.mark.parametrize("name", STEPS)
def test_every_radar_product_has_a_picture(name: str, trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / f"{name}.png"
    assert main(["picture", str(trace), f"radar_{name}", "-o", str(out), "--frame", "3"]) == 0
    assert out.read_bytes().startswith(b"\x89PNG")


def test_nothing_is_overwritten_and_a_full_disk_leaves_no_picture(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "mine.png"
    out.write_text("precious")
    assert main(["picture", str(trace), "radar_points", "-o", str(out)]) == 1
    assert f"{out}: already exists" in capsys.readouterr().err and out.read_text() == "precious"
    command = [sys.executable, "-m", "rover_pipeline", "picture", str(trace), "radar_points"]
    limited = [
        *SMALL_FILES,
        *command,
        "-o",
        str(tmp_path / "new.png"),
    ]
    done = subprocess.run(limited, env=environment(), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and f"{tmp_path}/new.png: cannot be written: File too large" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine.png"]


def test_axes_are_in_metres_and_metres_a_second(trace: Path) -> None:
    plot = draw(trace, "_radar_range_doppler").axes[0]
    assert plot.get_xlabel() == "range (m), positive: away" and "m/s" in plot.get_ylabel()
    power = Sensor(trace / "_radar_range_doppler").channel("power").read(0, 1)[0]
    sidecar = json.loads((trace / "radar" / "radar.json").read_text())
    # Cells are drawn around the values of their bins.
    assert np.mean(plot.get_xlim()) == pytest.approx((power.shape[1] - 1) / 2 * sidecar["range_resolution"])
    assert plot.get_ylim()[0] == pytest.approx(-2.5 * sidecar["doppler_resolution"])


def test_azimuth_is_in_degrees_to_the_right(trace: Path) -> None:
    plot = draw(trace, "radar_range_azimuth").axes[0]
    assert "degrees" in plot.get_ylabel() and "right" in plot.get_ylabel()
    assert -90 <= plot.get_ylim()[0] < -85 and 70 < plot.get_ylim()[1] <= 90  # there are no directions beyond


def test_a_frame_that_is_not_valid_is_called_so(trace: Path) -> None:
    for frame, doubt in ((1, False), (2, True)):
        figure = draw(trace, "_radar_points", frame)
        assert ("not valid" in figure.get_suptitle()) == doubt


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small trace with all raw sensors, a motion, and what can be made of them in no time."""
    path = small_trace(tmp_path_factory.mktemp("all") / "trace", sensors=("lidar", "radar", "camera", "imu"))
    write_odometry(path, invalid=(1,))
    for name in ("_lidar_image", "_lidar_points", "_sync", "_imu_pose", "_bev"):
        run_step(find_step(name), path, name, Request())
    return path


@pytest.mark.parametrize(
    "name", ["lidar", "radar", "camera", "imu", "lidar_image", "lidar_points", "sync", "imu_pose", "bev", "odom"]
)
def test_every_sensor_has_a_picture_raw_or_virtual(name: str, everything: Path, tmp_path: Path) -> None:
    out = tmp_path / f"{name}.png"
    assert main(["picture", str(everything), name, "-o", str(out), "--frame", "2"]) == 0
    picture = cv2.imread(str(out))
    assert picture is not None and picture.std() > 5
    edges = np.concatenate([picture[0], picture[-1], picture[:, 0], picture[:, -1]])
    assert edges.min() > 200, "no label is cut off at an edge"


def test_a_picture_is_a_png_a_pdf_or_an_svg_with_the_same_bytes_each_time(everything: Path, tmp_path: Path) -> None:
    for ending, begin in ((".pdf", b"%PDF"), (".svg", b"<?xml"), (".PNG", b"\x89PNG")):
        first, second = (tmp_path / f"{name}{ending}" for name in ("first", "second"))
        for out in (first, second):
            save_picture(everything, "odom", out)
        assert first.read_bytes().startswith(begin) and first.read_bytes() == second.read_bytes()
    with pytest.raises(ConfigError, match=r"picture\.jpg: must end with \.png, \.pdf, \.svg"):
        save_picture(everything, "odom", tmp_path / "picture.jpg")


def test_a_cell_to_the_right_is_drawn_to_the_right_and_a_path_to_the_left_goes_up(tmp_path: Path) -> None:
    cells = np.zeros((1, 10, 20), "u1")
    cells[0, 9, 10] = 1
    axes = {"range": RANGE, "azimuth": AZIMUTH}
    plot, *_ = rendered_plots(write_product(tmp_path / "bev", "_bev", axes, occupancy=cells), "_bev")
    assert centre_of(plot[6:-6, 6:-6], (254, 232, 56), 40)[0] > 0.7
    pos = np.stack([np.zeros(12), np.linspace(0, 3, 12), np.zeros(12)], -1)  # to the left
    path = write_product(tmp_path / "odom", "_odom", {}, pos=pos)
    line = draw(path, "_odom").axes[0].lines[0]
    assert np.max(line.get_ydata()) == 3 and not np.any(line.get_xdata())


def test_a_body_is_drawn_where_it_is_in_its_size_and_goes_where_its_arrow_points(tmp_path: Path) -> None:
    count = 12
    channels = {
        "count": np.ones(count, "u2"),
        "centre": np.stack([np.full(count, 4.0), np.arange(count) - 11.0, np.zeros(count)], -1)[:, None],
        "extent": np.full((count, 1, 3), [4.0, 2.0, 1.5]),
        "yaw": np.full((count, 1), np.pi / 2),
        "vel": np.full((count, 1, 3), [0.0, 10.0, 0.0]),
        "track": np.full((count, 1), 7, "u4"),
        "probability": np.full((count, 1, 4), [0.1, 0.1, 0.7, 0.1], "f4"),
    }
    path = write_product(tmp_path / "bodies", "_objects", {}, **channels)
    meta = json.loads((path / "_objects" / META).read_text())
    desc = TABLE["_objects"].outputs["probability"].desc
    meta["probability"]["desc"] = desc
    (path / "_objects" / META).write_text(json.dumps(meta))
    plot = draw(path, "objects", count - 1).axes[0]
    box = next(each for each in plot.patches if isinstance(each, Polygon)).get_xy()
    np.testing.assert_allclose([box.min(axis=0), box.max(axis=0)], [[3, -2], [5, 2]], atol=1e-6)  # 4 m along +y
    assert [text.get_text() for text in plot.texts if ":" in text.get_text()] == ["7: cyclist 70%, 10.0 m/s"]
    arrow: Any = next(text for text in plot.texts if text.get_text() == "")
    np.testing.assert_allclose([arrow.xyann, arrow.xy], [[4, 0], [4, 10]], atol=1e-6)
    way = np.asarray(plot.lines[0].get_xydata())
    assert way[0, 1] < -2 and (way[-1] == [4, 0]).all()


def test_what_is_empty_says_so_and_one_sample_shows(tmp_path: Path) -> None:
    nothing = {"xyz": np.full((1, 4, 3), np.nan, "f4"), "count": np.array([0], "u2")}
    values = np.full((1, 4), np.nan, "f4")
    points = write_product(tmp_path / "points", "_radar_points", {}, doppler=values, snr=values, **nothing)
    assert "no points in this frame" in [text.get_text() for text in draw(points, "radar_points").axes[0].texts]
    one = write_product(tmp_path / "one", "imu", {}, acc=np.ones((1, 3), "f4"))
    assert draw(one, "imu").axes[0].lines[0].get_marker() == "."


def test_errors_name_what_there_is(trace: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean '_radar_points'"):
        draw(trace, "_radar_point")
    with pytest.raises(ConfigError, match="has 6 frames; there is no frame 6"):
        draw(trace, "_radar_points", 6)
    with pytest.raises(FormatError, match="--outputs radar_points"):
        draw(small_trace(tmp_path / "bare", sensors=("radar",)), "radar_points")


def test_a_radar_of_one_chirp_a_frame_has_a_curve_over_range(tmp_path: Path) -> None:
    power = np.random.default_rng(1).normal(size=(3, 1, 20)).astype("f4")
    axes = {"range": RANGE, "doppler": ("m/s", np.zeros(1))}
    figure = draw(
        write_product(tmp_path / "trace", "_radar_range_doppler", axes, power=power), "radar_range_doppler", 1
    )
    plot: Any = figure.axes[0]
    np.testing.assert_allclose(plot.lines[0].get_xydata(), np.stack([RANGE[1], power[1, 0]], -1), rtol=1e-6)
    assert plot.get_xlabel() == "range (m)" and plot.get_ylabel() == "dB re one squared ADC count"


#: Shape of a sample of a user's channel, with what it says of itself -> what is drawn, and the label of its axis.
CHANNELS: dict[str, tuple[tuple[int, ...], str, str, str]] = {
    "scalar": ((), "Temperature, degrees.", "curves", "mine (degrees)"),
    "few": ((5,), "Counts of something.", "curves", "mine"),
    "row": ((60,), "Energy of each range bin, dB. [range]", "waterfall", "range (number, counted from 0)"),
    "unnamed": ((60,), "", "waterfall", "axis 1 (number, counted from 0)"),
    "matrix": ((12, 30), "Power, dB. [doppler, range]", "image", "doppler (number, counted from 0)"),
    "cube": ((4, 12, 30), "Power, dB. [elevation, azimuth, range]", "image", "azimuth (number, counted from 0)"),
}


@pytest.mark.parametrize("name", CHANNELS)
@pytest.mark.parametrize("type", ["f4", "u2", "c8"])
def test_any_channel_of_numbers_is_drawn_with_its_axes_and_unit(tmp_path: Path, name: str, type: str) -> None:
    shape, desc, kind, label = CHANNELS[name]
    mine = np.random.default_rng(1).uniform(1, 90, (12, *shape)).astype(type)
    trace = write_product(tmp_path / "trace", "_mine", {}, mine=mine)
    meta = json.loads((trace / "_mine" / META).read_text())
    meta["mine"]["desc"] = desc
    (trace / "_mine" / META).write_text(json.dumps(meta))
    figures: Any = draw(trace, "mine", 5), rp.open(trace)["mine"].mine.plot(5)
    for figure in figures:
        labels = [text for plot in figure.axes for text in (plot.get_xlabel(), plot.get_ylabel())]
        assert label in labels
        meshes: list[Any] = [mesh for plot in figure.axes for mesh in plot.collections if isinstance(mesh, QuadMesh)]
        assert (len(figure.axes[0].lines) >= (shape or (1,))[0]) if kind == "curves" else meshes
        drawn = np.abs(mine[5]).max(axis=0) if name == "cube" else np.abs(mine[5])
        if kind == "image":
            np.testing.assert_allclose(meshes[0].get_array(), drawn, rtol=1e-6)
            assert any("dB" in text and "mine" in text for text in labels)
        if kind == "waterfall":
            np.testing.assert_allclose(figure.axes[0].lines[0].get_ydata(), drawn, rtol=1e-6)
            np.testing.assert_allclose(meshes[0].get_array(), np.abs(mine).T, rtol=1e-6)


def test_a_channel_with_axes_json_is_drawn_in_its_units(tmp_path: Path) -> None:
    energy = np.random.default_rng(1).uniform(1, 90, (12, 20)).astype("f4")
    trace = write_product(tmp_path / "trace", "_mine", {"range": RANGE}, energy=energy)
    meta = json.loads((trace / "_mine" / META).read_text())
    meta["energy"]["desc"] = "Energy, dB. [range]"
    (trace / "_mine" / META).write_text(json.dumps(meta))
    figure: Any = draw(trace, "mine")
    curve, over_time, _ = figure.axes
    assert (curve.get_xlabel(), curve.get_ylabel()) == ("range (m)", "energy (dB)")
    np.testing.assert_allclose(curve.lines[0].get_xdata(), RANGE[1])
    assert over_time.get_xlabel() == "time (s)" and over_time.get_ylim() == pytest.approx((-0.25, 9.75))
