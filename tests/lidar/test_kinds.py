"""The same sweeps as range images and as points give the same results."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.errors import FormatError
from rover_pipeline.export import ExportOptions
from rover_pipeline.export.points import read_map, write_ply
from rover_pipeline.format.provenance import PROVENANCE
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.importers.points import Cloud, PointsWriter
from rover_pipeline.lidar.geometry import returns
from rover_pipeline.lidar.sweeps import lidar_reader
from rover_pipeline.table import find_step
from rover_pipeline.validation.check import problems
from tests.kit import small_trace, write_odometry
from tests.odometry.room import COLUMNS, write_room
from tests.test_virtual_sensors import write_lens

_CELLS: dict[str, object] = {"range_bins": 128, "range_resolution": 0.1}
OPTIONS: dict[str, dict[str, object]] = {
    "_bev": _CELLS,
    "_occupancy": _CELLS,
    "_camera_depth": {"width": 24, "height": 16},
    "_lidar_points": {"compensate": True},
}


def with_points(images: Path, trace: Path, *, time: bool = True, compensated: bool = False) -> Path:
    """The recording with its lidar as points, in an order that has nothing to do with their instants."""
    shutil.copytree(images, trace)
    for folder in (trace / "lidar", *trace.glob("_*")):
        if folder.name != "_odom":
            shutil.rmtree(folder)
    lidar, text = Sensor(images / "lidar"), (images / "lidar" / "lidar.json").read_text()
    count = lidar.length()
    random = np.random.default_rng(0)
    with PointsWriter(trace / "lidar", unit="0 to 255", compensated=compensated) as writer:
        for number, (ts, valid) in enumerate(zip(lidar.times(count), lidar.valid(count), strict=True)):
            rng, rfl = (lidar.channel(name).read(number, number + 1)[0] for name in ("rng", "rfl"))
            xyz, column = returns(rng, text)
            bright = rfl[(rng > 0) & (rng < 65535)]
            order = random.permutation(len(xyz))
            since = (-0.1 + 0.1 * column / COLUMNS)[order]
            cloud = Cloud(xyz[order], bright[order], time=since if time else None)
            writer.append(ts, cloud, valid=bool(valid))
    return trace


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    trace = small_trace(tmp_path_factory.mktemp("kinds") / "images", 8, sensors=("lidar", "radar", "camera"))
    write_room(trace)
    write_lens(trace)
    write_odometry(trace, invalid=(5,))
    for sensor in ("_lidar_image", "_bev", "_occupancy", "_camera_depth", "_lidar_points"):
        run_step(find_step(sensor), trace, sensor, Request(OPTIONS.get(sensor, {})))
    return trace


@pytest.fixture(scope="module")
def points(images: Path) -> Path:
    trace = with_points(images, images.parent / "points")
    for sensor in ("_bev", "_occupancy", "_camera_depth", "_lidar_points"):
        run_step(find_step(sensor), trace, sensor, Request(OPTIONS.get(sensor, {})))
    return trace


def both(images: Path, points: Path, sensor: str, channel: str) -> tuple[np.ndarray, np.ndarray]:
    one, two = Sensor(images / sensor), Sensor(points / sensor)
    np.testing.assert_array_equal(one.valid(8), two.valid(8))
    return one.channel(channel).read(), two.channel(channel).read()


@pytest.mark.parametrize("sensor", ["_bev", "_occupancy"])
def test_cells_are_those_of_the_images(images: Path, points: Path, sensor: str) -> None:
    one, two = both(images, points, sensor, "occupancy")
    # A point next to the edge of a cell may be on the other side: instants of points are rounded to 0.1 ms.
    assert one.sum() > 1000 and (one != two).sum() < 0.002 * one.sum()


def test_depths_are_those_of_the_images(images: Path, points: Path) -> None:
    one, two = both(images, points, "_camera_depth", "depth")
    assert (one > 0).sum() > 500 and (np.abs(one.astype(int) - two) > 2).mean() < 0.01


def test_deskewed_points_are_those_of_the_images(images: Path, points: Path) -> None:
    one, two = both(images, points, "_lidar_points", "xyz")
    for image, cloud in zip(one, two, strict=True):
        wanted, found = (each.reshape(-1, 3)[np.isfinite(each).reshape(-1, 3).all(1)] for each in (image, cloud))
        assert len(wanted) == len(found) > 1000
        np.testing.assert_allclose(
            wanted[np.lexsort(wanted.round(1).T)].mean(0), found[np.lexsort(found.round(1).T)].mean(0), atol=1e-4
        )


def test_the_map_of_points_has_the_points_and_the_brightness_of_that_of_images(images: Path, points: Path) -> None:
    made = {}
    for trace in (images, points):
        run_step(find_step("_map"), trace, "_map", Request({"lidar_height": 1.2, "every": 1}))
        made[trace] = json.loads((trace / "_map" / PROVENANCE).read_text())["measured"]
    one, two = made[images], made[points]
    assert one["sweeps"] == two["sweeps"] == 6
    # Points have twice as many rays that free cells, as the image has only 512 columns.
    for name, tolerance in (("points", 0.001), ("occupied_cells", 0.1), ("free_cells", 0.3)):
        assert two[name] == pytest.approx(one[name], rel=tolerance)
    clouds = [read_map(trace) for trace in (images, points)]
    assert clouds[1][1]["intensity"].mean() == pytest.approx(clouds[0][1]["intensity"].mean(), rel=0.01)


def test_odometry_of_points_agrees_with_that_of_images(images: Path, tmp_path: Path) -> None:
    found = []
    for trace in (shutil.copytree(images, tmp_path / "images"), with_points(images, tmp_path / "points")):
        shutil.rmtree(trace / "_odom")
        run_step(find_step("_odom"), trace, "_odom", Request({"max_range": 30}))
        odometry = Sensor(trace / "_odom")
        np.testing.assert_array_equal(odometry.valid(8), Sensor(images / "lidar").valid(8))
        found.append(odometry.channel("pos").read())
    assert np.linalg.norm(found[0] - found[1], axis=1).max() < 0.01
    assert list(problems(trace, decode=lambda name: False)) == []


def test_points_without_times_are_taken_as_compensated_only_where_the_source_says_so(
    images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = with_points(images, tmp_path / "said", time=False, compensated=True)
    unknown = with_points(images, tmp_path / "unknown", time=False)
    for trace, note in ((said, False), (unknown, True)):
        for sensor in ("_bev", "_lidar_points"):
            run_step(find_step(sensor), trace, sensor, Request(OPTIONS.get(sensor, {})))
            assert ("nothing says that the motion" in capsys.readouterr().err) == note
        assert Sensor(trace / "_bev").valid(8).sum() == 6
        assert Sensor(trace / "_lidar_points").valid(8).any() != note


def test_a_point_whose_instant_is_damaged_is_used_for_nothing(points: Path) -> None:
    lidar = Sensor(points / "lidar")
    reader = lidar_reader((points / "lidar" / "lidar.json").read_text(), "end")
    stored = {name: lidar.channel(name).read(0, 1)[0] for name in ("xyz", "count", "time")}
    whole = reader.sweep(stored)
    stored["time"][:50] = np.nan
    damaged = reader.sweep(stored)
    assert (whole.rng > 0).sum() - (damaged.rng > 0).sum() == 50
    with pytest.raises(ValueError, match="no channel time"):
        reader.sweep({name: stored[name] for name in ("xyz", "count")})


def test_what_needs_an_image_says_so_in_one_line(points: Path) -> None:
    with pytest.raises(FormatError, match=r"points: has a lidar of points and no range image .* _lidar_image needs"):
        run_step(find_step("_lidar_image"), points, "_lidar_image", Request())


def test_sweeps_of_points_are_exported_with_their_brightness(points: Path, tmp_path: Path) -> None:
    for name, sensor in (("raw", "lidar"), ("made", "_lidar_points")):
        write_ply(points, tmp_path / name, ExportOptions(sensor=sensor))
        files = sorted((tmp_path / name).iterdir())
        count = int(Sensor(points / "lidar").channel("count").read()[0])
        header = files[0].read_bytes()[:400]
        assert len(files) == 7 - (name == "made") and f"element vertex {count}\n".encode() in header
        assert b"property float intensity" in header


def test_check_accepts_all_that_was_made_of_points(points: Path) -> None:
    shutil.rmtree(points / "_odom", ignore_errors=True)
    found = [line for line in problems(points) if "_odom" not in line]
    assert found == []
