"""The map compared with the simulated flat: positions of walls, occupied and free cells, files that others read."""

from __future__ import annotations

import io

import cv2
import numpy as np
import pytest
import yaml
from plyfile import PlyData

from rover_pipeline.errors import UnfitError
from rover_pipeline.mapping.floor import levelling
from tests.mapping.scene import Scene, distance_to_solids, walk

#: Inner faces of the outer walls: axis, its value, and the observed interval along the other axis, m.
WALLS = {"left": (0, 0.0, (2.4, 7.6)), "back": (1, 8.0, (1.0, 7.0)), "corridor": (1, 0.0, (1.5, 4.5))}


@pytest.fixture(scope="module")
def scene() -> Scene:
    return walk()


@pytest.fixture(scope="module")
def made(scene: Scene) -> dict[str, bytes]:
    return scene.build_map(every=1)[0]


def points_of(files: dict[str, bytes]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points (N, 3), intensities and counts of a map, as plyfile reads them."""
    vertices = PlyData.read(io.BytesIO(files["map.ply"]))["vertex"]
    return np.stack([vertices[axis] for axis in "xyz"], -1), vertices["intensity"], vertices["count"]


def read_map(files: dict[str, bytes]) -> tuple[np.ndarray, np.ndarray]:
    """Centres of the cells, f8 (row, column, 2) m, and their occupancy as map_server reads it: 0, 100, or -1."""
    about = yaml.safe_load(files["occupancy.yaml"])
    magic, size, depth, pixels = files[about["image"]].split(b"\n", 3)
    assert (magic, depth, about["mode"], about["negate"]) == (b"P5", b"255", "trinary", 0)
    width, height = map(int, size.split())
    # map_server: the first row of the picture is the one with the greatest y.
    image = np.frombuffer(pixels, "u1").reshape(height, width)[::-1]
    occupancy = (255 - image.astype("f8")) / 255
    cells = np.full(image.shape, -1)
    cells[occupancy > about["occupied_thresh"]] = 100
    cells[occupancy < about["free_thresh"]] = 0
    x = about["origin"][0] + (np.arange(width) + 0.5) * about["resolution"]
    y = about["origin"][1] + (np.arange(height) + 0.5) * about["resolution"]
    return np.stack(np.meshgrid(x, y), -1), cells


def wall_errors(scene: Scene, files: dict[str, bytes], wall: str) -> np.ndarray:
    """Median distance of the map's points to the true wall, by half metres along it, m."""
    axis, value, (start, stop) = WALLS[wall]
    points = scene.in_scene(points_of(files)[0])
    near = (np.abs(points[:, axis] - value) < 0.12) & (points[:, 2] > 2.1) & (points[:, 2] < 2.6)
    off, along = points[near, axis] - value, points[near, 1 - axis]
    pieces = np.arange(start, stop, 0.5)
    errors = [off[(along >= piece) & (along < piece + 0.5)] for piece in pieces]
    return np.array([np.median(piece) for piece in errors if len(piece) > 20])


@pytest.mark.parametrize("wall", WALLS)
def test_walls_are_straight_and_within_two_centimetres_of_where_they_are(
    scene: Scene, made: dict[str, bytes], wall: str
) -> None:
    errors = wall_errors(scene, made, wall)
    assert len(errors) >= 5
    assert np.abs(errors).max() < 0.02
    assert np.ptp(errors) < 0.01


def test_columns_placed_at_the_wrong_instant_bend_the_walls(scene: Scene) -> None:
    files, _ = scene.build_map(every=1, lidar={"ts_reference": "start"})
    worst = max(np.ptp(wall_errors(scene, files, wall)) for wall in WALLS)
    assert worst > 0.02


def test_nearly_all_points_of_the_map_lie_on_a_surface(scene: Scene, made: dict[str, bytes]) -> None:
    points, intensity, count = points_of(made)
    distance = distance_to_solids(scene.rig.world, scene.in_scene(points[::5]))
    assert np.quantile(np.abs(distance), 0.95) < 0.02
    assert count.min() >= 1 and intensity.min() >= 0 and intensity.max() <= 255
    assert intensity.std() > 5


def heights_in_band(scene: Scene, centres: np.ndarray) -> np.ndarray:
    """Minimum distance to a solid between heights of 0.3 and 1.8 m above cells, (N, 2) m in the map: (N,)."""
    up = levelling(np.array(scene.build_map(every=1)[1]["up"]))
    best = np.full(len(centres), np.inf)
    for height in np.arange(0.3, 1.801, 0.1):
        column = np.column_stack([centres, np.zeros(len(centres))]) @ up
        points = scene.in_scene(column)
        points[:, 2] = height
        best = np.minimum(best, distance_to_solids(scene.rig.world, points))
    return best


def test_occupied_cells_lie_on_what_stands_there_and_free_cells_outside_of_it(
    scene: Scene, made: dict[str, bytes]
) -> None:
    centres, cells = read_map(made)
    occupied = heights_in_band(scene, centres[cells == 100])
    free = heights_in_band(scene, centres[cells == 0][::10])
    assert len(occupied) > 1000 and len(free) > 1000
    assert np.mean(occupied < 0.05) > 0.98, "half a cell's diagonal and the noise of a range"
    assert np.mean(free > -0.05) > 0.995


def test_the_path_of_the_lidar_is_free_and_outside_of_the_flat_is_unknown(scene: Scene, made: dict[str, bytes]) -> None:
    centres, cells = read_map(made)
    corner, edge = centres[0, 0] - 0.025, 0.05
    path = scene.states["pos"][:, :2]
    column, row = np.floor((path - corner) / edge).astype(int).T
    assert (cells[row, column] == 0).all()
    points = scene.in_scene(np.column_stack([centres.reshape(-1, 2), np.zeros(cells.size)]))
    outside = (points[:, 0] < -3.3) | (points[:, 1] > 8.3) | (points[:, 1] < -0.3)
    assert outside.sum() > 1000 and (cells.ravel()[outside] == -1).all()


def test_a_person_who_walks_on_is_no_obstacle() -> None:
    scene = walk(16, bodies=True)
    files, _ = scene.build_map(every=1)
    centres, cells = read_map(files)
    body = scene.rig.world.bodies[0]
    times = 0.4 + 0.25 * np.arange(16)
    path = np.array([body.at(time)[0] for time in times[:12]])
    world = (path - scene.origin) @ scene.rotation
    corner = centres[0, 0] - 0.025
    column, row = np.floor((world[:, :2] - corner) / 0.05).astype(int).T
    assert np.mean(cells[row, column] == 0) > 0.7


def test_the_picture_shows_the_path_in_red(made: dict[str, bytes]) -> None:
    image = cv2.imdecode(np.frombuffer(made["bev.png"], "u1"), cv2.IMREAD_COLOR)
    assert image is not None
    assert 900 <= image.shape[1] <= 2000
    blue, green, red = (image[:, :, n].astype(int) for n in range(3))
    assert np.sum((red > 180) & (green < 90) & (blue < 90)) > 200


def test_a_band_without_points_is_an_error_that_names_the_heights_of_the_points(scene: Scene) -> None:
    with pytest.raises(ValueError, match=r"z_min = 4 to map.z_max = 5 m.* points are from -0\.\d+ to 2\.7\d m"):
        scene.build_map(z_min=4.0, z_max=5.0)


def test_limits_of_range_without_points_are_an_error(scene: Scene) -> None:
    with pytest.raises(UnfitError, match=r"^12 sweeps have no return from map.min_range = 39 to"):
        scene.build_map(min_range=39.0)


def test_sweeps_without_a_valid_pose_are_left_out_and_none_at_all_is_an_error(scene: Scene) -> None:
    bad = scene._replace(states={**scene.states, "valid": np.zeros(len(scene.sweeps.ts), "u1")})
    with pytest.raises(UnfitError, match=r"^none of 24 sweeps is valid in lidar and _odom"):
        bad.build_map()
    some = np.ones(len(scene.sweeps.ts), "u1")
    some[4:20] = 0
    wrong = np.where(some[:, None] == 1, scene.states["pos"], 500.0)
    files, measured = scene._replace(states={**scene.states, "valid": some, "pos": wrong}).build_map(every=1)
    assert measured["sweeps"] == 8
    assert np.abs(points_of(files)[0]).max() < 25


def test_every_nth_is_counted_among_the_sweeps_that_can_be_used(scene: Scene) -> None:
    valid = np.ones(len(scene.sweeps.ts), "u1")
    valid[::4] = 0
    _, measured = scene._replace(states={**scene.states, "valid": valid}).build_map(every=4)
    assert measured["sweeps"] == 5, "18 of 24 can be used"


def test_cells_and_voxels_become_larger_when_there_would_be_too_many(scene: Scene) -> None:
    files, measured = scene.build_map(max_voxels=10_000, max_cells=500_000, max_range=20.0)
    assert measured["points"] <= 10_000 and measured["voxel_m"] in (0.1, 0.2, 0.4)
    assert measured["resolution_m"] == 0.1 and yaml.safe_load(files["occupancy.yaml"])["resolution"] == 0.1
    assert len(measured["warnings"]) == 2
    distance = distance_to_solids(scene.rig.world, scene.in_scene(points_of(files)[0]))
    assert np.quantile(np.abs(distance), 0.5) < 0.02
