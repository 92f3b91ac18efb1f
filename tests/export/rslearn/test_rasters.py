"""rslearn: what stands to the north is in the upper rows, to the east in the right columns, and at the right metre."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from rover_pipeline.export.objects import Objects
from rover_pipeline.export.rslearn.dataset import cut_slices
from rover_pipeline.export.rslearn.windows import (
    Tile,
    collection,
    geotiff,
    ground_crs,
    height,
    iso_time,
    metadata,
    occupancy,
    path_feature,
    radar_power,
    tiles_of,
    track_features,
    window_name,
)
from rover_pipeline.mapping.grid import CellCounts, Extent
from rover_pipeline.objects.options import CLASSES
from tests.kit import START_S

EXTENT = Extent(-20, -30, 60, 80, 0.1)
UNKNOWN_DB = -9999.0


def world(row: int, column: int, tile: Tile) -> tuple[float, float]:
    """Where the centre of a pixel is, m, by the formula of GeoTIFF with the bounds of the window."""
    left, top, _, _ = tile.bounds
    return (left + column + 0.5) * tile.resolution, -(top + row + 0.5) * tile.resolution


@pytest.mark.parametrize("place", [(3.14, 4.71), (-1.95, 4.0), (3.9, -2.99), (-0.05, -0.05)])
def test_a_cell_of_the_grid_is_the_pixel_at_its_place(place: tuple[float, float]) -> None:
    grid = np.zeros(EXTENT.shape, "u1")
    column, row = (
        int(np.floor(value / 0.1)) - low for value, low in zip(place, (EXTENT.left, EXTENT.bottom), strict=True)
    )
    grid[row, column] = 7
    (tile,) = tiles_of(grid > 0, EXTENT, 32, 1 / 32**2)
    found = np.argwhere(tile.cut(grid, EXTENT, 255) == 7)
    assert len(found) == 1
    row, column = found[0].tolist()
    assert world(row, column, tile) == pytest.approx(place, abs=0.0501)


def test_tiles_cover_the_grid_once_and_what_lies_outside_of_it_is_unknown() -> None:
    grid = np.arange(EXTENT.width * EXTENT.height, dtype="i8").reshape(EXTENT.shape)
    cuts = [tile.cut(grid, EXTENT, -1) for tile in tiles_of(grid >= 0, EXTENT, 32, 1e-9)]
    values = np.concatenate([cut.ravel() for cut in cuts])
    assert np.array_equal(np.sort(values[values >= 0]), grid.ravel())
    assert (values == -1).sum() == len(cuts) * 32**2 - grid.size


def test_tiles_that_were_hardly_seen_are_left_out() -> None:
    observed = np.zeros(EXTENT.shape, bool)
    observed[:40, :20] = True
    assert [(tile.x, tile.y) for tile in tiles_of(observed, EXTENT, 32, 0.5)] == [(-1, -1)]
    assert window_name(3, Tile(-1, 12, 32, 0.1)) == "00003_x-001_y+012"


def test_a_geotiff_has_exactly_the_grid_of_its_window() -> None:
    rasterio = pytest.importorskip("rasterio")
    tile, crs = Tile(-2, 3, 64, 0.1), ground_crs(0, 0)
    raster = np.random.default_rng(0).normal(size=(64, 64)).astype("f4")
    data = geotiff(raster, tile, crs, UNKNOWN_DB)
    assert data == geotiff(raster, tile, crs, UNKNOWN_DB)
    with rasterio.MemoryFile(data) as memory, memory.open() as file:
        assert file.read(1).tobytes() == raster.tobytes() and file.nodata == UNKNOWN_DB
        assert file.crs == rasterio.crs.CRS.from_string(crs)
        for row, column in ((0, 0), (63, 63), (10, 50)):
            assert file.xy(row, column) == pytest.approx(world(row, column, tile), abs=1e-9)
        assert file.bounds.left == pytest.approx(-12.8) and file.bounds.top == pytest.approx(25.6)


def test_occupancy_is_a_share_and_height_is_above_the_floor() -> None:
    cells = np.array([5, 70, 200])
    counts = CellCounts(
        cells, np.array([3, 0, 0], "u2"), np.array([1, 4, 0], "u2"), np.array([128, 0, 1], "u1"), np.zeros(2), 3
    )
    percent, metres = occupancy(counts, EXTENT).ravel(), height(counts, EXTENT, 2.54).ravel()
    assert percent[cells].tolist() == [75, 0, 255] and (np.delete(percent, cells) == 255).all()
    assert metres[cells] == pytest.approx([1.27, -9999, 0], abs=1e-5)


@pytest.mark.parametrize("heading", [0.0, 90.0, -135.0])
def test_power_to_the_right_of_the_radar_is_drawn_to_its_right(heading: float) -> None:
    azimuth, ranges = np.arcsin(np.linspace(-0.9, 0.9, 37)), np.arange(40) * 0.1
    power = np.full((37, 40), 10.0)
    target = 27  # half a right angle to the right, 2.5 m away
    power[target, 25] = 60.0
    pos, rot = np.array([0.7, -0.4, 1.0]), Rotation.from_euler("z", heading, degrees=True).as_matrix()
    extent = Extent(-60, -60, 120, 120, 0.1)
    grid = radar_power(extent, azimuth, ranges, [(power, pos, rot)], 3.5, np.radians(60))
    row, column = np.argwhere(grid == grid.max()).mean(0)
    found = np.array([column, row]) * 0.1 - 5.95
    angle = np.radians(heading) - azimuth[target]
    assert azimuth[target] > 0.4
    assert np.hypot(*(found - pos[:2] - 2.5 * np.array([np.cos(angle), np.sin(angle)]))) < 0.1
    behind = pos[:2] - 2 * rot[:2, 0]
    assert grid[int((behind[1] + 6) / 0.1), int((behind[0] + 6) / 0.1)] == UNKNOWN_DB
    frames = [(power, pos, rot), (power - 300, pos, rot)]
    mean = radar_power(extent, azimuth, ranges, frames, 3.5, np.radians(60))
    assert mean.max() == pytest.approx(60 - 10 * np.log10(2), abs=1e-3)


def test_a_slice_of_time_has_one_split_and_a_gap_ends_it() -> None:
    ts = START_S + 0.1 * np.arange(60)
    splits = np.r_[np.zeros(25), np.full(5, -1), np.ones(30)].astype("i1")
    slices = cut_slices(ts, np.arange(60), splits, 2.0)
    assert [(each.numbers[0], each.numbers[-1], each.split) for each in slices] == [
        (0, 19, 0), (20, 24, 0), (30, 39, 1), (40, 59, 1),
    ]  # fmt: skip
    assert [each.number for each in slices] == [0, 1, 2, 3]


def test_a_rig_that_stands_still_is_a_point_and_times_are_those_of_the_corners() -> None:
    ts = START_S + np.array([0.0, 0.5, 1.0])
    still = path_feature(ts, np.zeros((3, 3)), {"kind": "rig"})
    assert still["geometry"] == {"type": "Point", "coordinates": [0.0, 0.0]}
    moving = path_feature(ts, np.array([[0, 0, 0], [0, 0.001, 0], [1, -2, 0]]), {"kind": "rig"})
    assert moving["geometry"]["coordinates"] == [[0.0, 0.0], [1.0, -2.0]]
    assert moving["properties"]["times"] == [iso_time(START_S), "2023-11-14T22:13:21.000000+00:00"]
    content = collection([moving], ground_crs(1, 2))
    assert content["properties"] == {"crs": ground_crs(1, 2), "x_resolution": 1, "y_resolution": 1}


def test_a_track_has_its_way_and_its_box() -> None:
    yaw = np.pi / 6
    objects = Objects(
        ts=START_S + np.array([0.0, 0.1]),
        centre=np.array([[1.0, 2.0, 0.5], [2.0, 2.0, 0.5]]),
        extent=np.tile([4.0, 2.0, 1.5], (2, 1)),
        yaw=np.full(2, yaw),
        vel=np.tile([10.0, 0.0, 0.0], (2, 1)),
        track=np.array([5, 5]),
        probability=np.tile([0.7, 0.1, 0.1, 0.1], (2, 1)),
    )
    way, box = track_features(objects, CLASSES)
    assert way["geometry"]["coordinates"] == [[1, 2], [2, 2]]
    assert way["properties"]["label"] == "car" and way["properties"]["speed_mps"] == 10
    front_left = np.array(box["geometry"]["coordinates"][0][0]) - (2, 2)
    assert np.hypot(*front_left) == pytest.approx(np.hypot(2, 1), abs=1e-3)
    assert np.arctan2(front_left[1], front_left[0]) == pytest.approx(yaw + np.arctan2(1, 2), abs=1e-3)


def test_times_of_windows_have_an_offset_and_bounds_are_integers() -> None:
    content = metadata(Tile(0, -1, 256, 0.1), ground_crs(0, 0), START_S, START_S + 1, {"split": "val"})
    assert content["bounds"] == [0, 0, 256, 256] and content["options"] == {"split": "val"}
    assert content["projection"]["y_resolution"] == -0.1
    assert content["time_range"][0] == "2023-11-14T22:13:20.000000+00:00"
