"""Polar occupancy compared with a direct construction, and depth compared with the simulator's world."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from ouster.sdk import core
from scipy.spatial.transform import Rotation

from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.errors import RoverError
from rover_pipeline.format.meta import read_meta
from rover_pipeline.format.provenance import PROVENANCE
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.kinematics.state import Poses
from rover_pipeline.occupancy.options import OccupancyOptions
from rover_pipeline.occupancy.polar import PolarGrid, edges, share_kept
from rover_pipeline.occupancy.steps import inspect_cells
from rover_pipeline.simulate.presets import PRESETS
from rover_pipeline.simulate.rig import EPOCH, MOUNTS, build
from rover_pipeline.simulate.scene.materials import MATERIAL_TABLE
from rover_pipeline.simulate.scene.raycast import RAYS, points_of_a_tile
from rover_pipeline.simulate.sensors.lidar import Echoes, Rays, cast_rays, column_times
from rover_pipeline.table import find_step

FRAMES = (0, 9, 23)


@pytest.fixture(scope="module")
def walk(drive: Path) -> Path:
    run_step(find_step("_lidar_image"), drive, "_lidar_image", Request())
    return drive


def made(trace: Path, sensor: str, *, name: str = "", **options: object) -> Sensor:
    """A virtual sensor of the trace, under another name when one is given."""
    run_step(find_step(sensor), trace, name or sensor, Request(options), threads=2)
    return Sensor(trace / (name or sensor))


def returns(trace: Path, frame: int, sensor: str = "lidar", instant: float | None = None) -> np.ndarray:
    """Points of a sweep by ouster-sdk in double precision, moved by the simulator's motion, f8 (N, 3).

    Args:
        sensor: in whose frame they are.
        instant: of that frame, s since the start; that of the sweep's time stamp unless given.
    """
    rig = build(PRESETS["tiny"], 1)
    info = core.SensorInfo((trace / "lidar" / "lidar.json").read_text())
    rng = Sensor(trace / "lidar").channel("rng").read(frame, frame + 1)[0]
    end = float(Sensor(trace / "_truth").channel("true_ts").read()[frame]) - EPOCH
    columns = rig.motion.at(column_times(end, 1 / rig.preset.lidar_rate, rng.shape[1]))
    world = np.einsum("cij,bcj->bci", columns.rot, core.XYZLut(info)(rng.astype("u4"))) + columns.pos
    seen = rig.mounted(sensor).at(np.array([end if instant is None else instant]))
    points: np.ndarray = ((world - seen.pos[0]) @ seen.rot[0])[(rng > 0) & (rng < 65535)]
    return points


def occupied_cells(points: np.ndarray, trace: Path, z: tuple[float, float]) -> np.ndarray:
    """Occupied cells of points in the grid's frame, u1 (elevation, azimuth, range), with the default bins."""
    sidecar = json.loads((trace / "radar" / "radar.json").read_text())
    bins = sidecar["shape"][-1]
    out = np.zeros((32, 128, bins), "u1")
    x, y, up = points.T
    distance = np.sqrt(x * x + y * y + up * up)
    slant = np.rint(distance / sidecar["range_resolution"]).astype(int)
    azimuth = np.floor((np.degrees(np.arctan2(-y, x)) + 90) / 180 * 128).astype(int)
    elevation = np.floor((np.degrees(np.arctan2(up, np.hypot(x, y))) + 45) / 90 * 32).astype(int)
    inside = (slant < bins) & (azimuth >= 0) & (azimuth < 128) & (elevation >= 0) & (elevation < 32)
    inside &= (up >= z[0]) & (up <= z[1])
    out[elevation[inside], azimuth[inside], slant[inside]] = 1
    return out


def differing(found: np.ndarray, wanted: np.ndarray) -> float:
    """Number of cells that differ, as a share of those that are wanted."""
    assert found.shape == wanted.shape and found.dtype == wanted.dtype
    return float((found != wanted).sum() / wanted.sum())


def test_occupied_cells_are_those_of_a_direct_construction_in_the_radars_frame(walk: Path) -> None:
    found = made(walk, "_occupancy").channel("occupancy").read()
    for frame in FRAMES:
        wanted = occupied_cells(returns(walk, frame, "radar"), walk, (-100, 100))
        assert wanted.sum() > 1000
        # An interpolation between ten states a second moves points by tenths of a millimetre, few of them to another
        # cell.
        assert differing(found[frame], wanted) < 0.01


def test_cells_can_be_made_as_if_the_rig_stood_still_without_odometry_and_say_so(walk: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    shutil.copytree(walk, trace, ignore=shutil.ignore_patterns("_odom", "camera", "_*pose"))
    with pytest.raises(RoverError, match=r"_odom: no such sensor"):
        made(trace, "_bev")
    sensor = made(trace, "_occupancy", motion=False)
    info = core.SensorInfo((trace / "lidar" / "lidar.json").read_text())
    rng = Sensor(trace / "lidar").channel("rng").read(9, 10)[0]
    points = core.XYZLut(info)(rng.astype("u4"))[(rng > 0) & (rng < 65535)]
    mount = MOUNTS["radar"]
    wanted = occupied_cells((points - mount.translation) @ mount.rotation, trace, (-100, 100))
    assert differing(sensor.channel("occupancy").read(9, 10)[0], wanted) < 0.001
    assert sensor.valid(24).all()
    assert "motion within sweeps is not undone" in str(read_meta(sensor.path)["occupancy"].desc)
    measured = json.loads((sensor.path / PROVENANCE).read_text())["measured"]
    assert measured["motion"] == "none: as if the rig stood still"


def test_cells_for_the_radar_are_those_in_the_middle_of_its_chirps_with_its_times(walk: Path) -> None:
    sensor, radar = made(walk, "_occupancy", name="_at_radar", at="radar"), Sensor(walk / "radar")
    cells, ts, valid = (sensor.channel(name).read() for name in ("occupancy", "ts", "valid"))
    stamps = Sensor(walk / "lidar").channel("ts").read()
    assert (ts == radar.channel("ts").read()).all()
    middle = PRESETS["tiny"].radar.duration / 2
    # The pose is known between the first state of the odometry and the last one.
    known = (ts + middle >= stamps[0]) & (ts + middle <= stamps[-1])
    assert (valid == (known & (radar.valid(len(ts)) > 0))).all() and valid.sum() > 15
    assert not cells[valid == 0].any()
    true_ts = Sensor(walk / "_truth_radar").channel("true_ts").read() - EPOCH
    for frame in np.flatnonzero(valid)[3::6]:
        sweep = int(np.searchsorted(stamps, ts[frame]))  # the one under way, which ends after the frame's begin
        points = returns(walk, sweep, "radar", true_ts[frame] + middle)
        # Clocks have latencies of a millisecond that cannot be known.
        assert differing(cells[frame], occupied_cells(points, walk, (-100, 100))) < 0.05
    measured = json.loads((sensor.path / PROVENANCE).read_text())["measured"]
    assert measured["radar_instant_after_ts_s"] == pytest.approx(middle, abs=1e-6)
    assert measured["radar_frame_duration_from"] == "config.yaml"


@pytest.mark.parametrize("late", [0.04, 1.5])
def test_cells_for_a_radar_whose_clock_is_late_are_those_of_its_own_instants(
    late: float, walk: Path, tmp_path: Path
) -> None:
    trace = shutil.copytree(walk, tmp_path / "trace", ignore=shutil.ignore_patterns("_radar*", "_bev"))
    stamps = np.fromfile(trace / "radar" / "ts")
    (stamps + late).tofile(trace / "radar" / "ts")
    rig = {"radar": {**_entry("radar"), "time_offset": -late}}
    found = made(trace, "_bev", at="radar", rig=rig)
    usual = made(walk, "_bev", name="_usual", at="radar")
    cells, wanted = (sensor.channel("occupancy").read() for sensor in (found, usual))
    both = (found.channel("valid").read() > 0) & (usual.channel("valid").read() > 0)
    assert both.sum() > 10
    assert (found.channel("valid").read() == usual.channel("valid").read()).all()
    same = np.array([differing(a, b) for a, b in zip(cells[both], wanted[both], strict=True)])
    assert same.max() < 0.02


def _entry(sensor: str) -> dict[str, object]:
    return {"translation": MOUNTS[sensor].translation.tolist(), "rotation": MOUNTS[sensor].rotation.tolist()}


def test_frames_whose_cells_the_mount_leaves_open_are_not_valid(walk: Path) -> None:
    for degrees, valid in ((0.05, True), (5.0, False)):
        sigma = np.array([np.radians(degrees)] * 3 + [0.002] * 3 + [0.001])
        rig = {"radar": {**_entry("radar"), "covariance": np.diag(sigma**2).tolist()}}
        sensor = made(walk, "_bev", name="_uncertain", rig=rig)
        assert sensor.channel("valid").read().any() == valid and sensor.channel("occupancy").read().any()
        measured = json.loads((sensor.path / PROVENANCE).read_text())["measured"]
        assert measured["extrinsics_sigma"] == [degrees, 0.002, 0.001]


def test_the_share_of_returns_that_stay_in_their_cells_is_that_of_draws() -> None:
    rng = np.random.default_rng(2)
    grid = PolarGrid(edges((-90, 90), 128), edges((-45, 45), 32), 0.1, 200, (-100, 100))
    cells = (rng.random(grid.shape) < 0.002).astype("u1")
    elevation, azimuth, number = np.nonzero(cells)
    root = rng.normal(size=(6, 6)) * np.repeat([0.01, 0.002], 3)[:, None]
    stayed = []
    for error in rng.normal(size=(200, 6)) @ root.T:
        up = np.radians(-45 + 90 / 32 * (elevation + rng.random(len(number))))
        left = np.radians(90 - 180 / 128 * (azimuth + rng.random(len(number))))
        away = 0.1 * (number - 0.5 + rng.random(len(number)))
        points = away[:, None] * np.stack([np.cos(up) * np.cos(left), np.cos(up) * np.sin(left), np.sin(up)], -1)
        x, y, z = (Rotation.from_rotvec(error[3:]).inv().apply(points - error[:3])).T
        level = np.hypot(x, y)
        same = np.floor((np.degrees(np.arctan2(-y, x)) + 90) / 180 * 128) == azimuth
        same &= np.floor((np.degrees(np.arctan2(z, level)) + 45) / 90 * 32) == elevation
        stayed.append((same & (np.rint(np.hypot(level, z) / 0.1) == number)).mean())
    assert share_kept(cells, grid, root @ root.T) == pytest.approx(np.mean(stayed), abs=0.02)
    assert 0.4 < np.mean(stayed) < 0.9 and share_kept(cells, grid, 0 * root) == 1


def test_frames_of_the_radar_far_from_every_sweep_have_no_cells(walk: Path) -> None:
    sensor = made(walk, "_bev", name="_near", at="radar", motion=False, tolerance=0.03)
    cells, ts, valid = (sensor.channel(name).read() for name in ("occupancy", "ts", "valid"))
    stamps = Sensor(walk / "lidar").channel("ts").read()
    sweep = stamps[np.minimum(np.searchsorted(stamps, ts), len(stamps) - 1)] - 0.05
    near = np.abs(sweep - ts - PRESETS["tiny"].radar.duration / 2) <= 0.03
    assert (valid == (near & (Sensor(walk / "radar").valid(len(ts)) > 0))).all() and 0 < valid.sum() < len(valid)
    assert not cells[valid == 0].any() and cells[valid == 1].any(axis=(1, 2)).all()


def test_the_birds_eye_view_holds_the_cells_between_its_heights_at_all_elevations(walk: Path) -> None:
    found = made(walk, "_bev", bev_z=(-0.3, 0.4)).channel("occupancy").read()
    cells = made(walk, "_occupancy", z=(-0.3, 0.4), elevation=(-90, 90)).channel("occupancy").read()
    assert (found == cells.any(axis=1)).all() and found.any()
    for frame in FRAMES:
        points = returns(walk, frame, "radar")
        wanted = occupied_cells(points, walk, (-0.3, 0.4)).any(axis=0).astype("u1")
        near = np.abs(points[:, 2]) / np.linalg.norm(points, axis=1) < np.sin(np.radians(45))
        assert near[(points[:, 2] > -0.3) & (points[:, 2] < 0.4)].mean() > 0.9
        assert (wanted & ~found[frame]).sum() <= 0.01 * wanted.sum()


def test_axes_and_origin_are_stored_beside_the_cells(walk: Path) -> None:
    sensor = made(walk, "_bev")
    axes = json.loads((sensor.path / "axes.json").read_text())
    bins = json.loads((walk / "radar" / "radar.json").read_text())
    assert list(axes) == ["azimuth", "range"] and axes["azimuth"]["positive"] == "right"
    np.testing.assert_allclose(axes["range"]["values"], np.arange(64) * bins["range_resolution"], atol=1e-6)
    assert axes["azimuth"]["values"][0] == pytest.approx(np.radians(-90 + 180 / 256), abs=1e-6)
    measured = json.loads((sensor.path / PROVENANCE).read_text())["measured"]
    assert (measured["origin"], measured["extrinsics"]) == ("radar", "config.yaml")


def test_cells_can_be_in_the_lidar_frame_all_round_without_a_radar(walk: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    shutil.copytree(walk, trace, ignore=shutil.ignore_patterns("radar", "camera", "_*pose"))
    found = made(trace, "_bev", azimuth=(-180, 180), azimuth_bins=90, origin="lidar", min_range=1.0)
    cells, points = found.channel("occupancy").read(5, 6)[0], returns(trace, 5)
    distance, height = np.linalg.norm(points, axis=1), points[:, 2]
    keep = (distance >= 1.0) & (height >= -0.5) & (height <= 1.0)
    angle = np.degrees(np.arctan2(-points[keep, 1], points[keep, 0]))
    wanted = np.zeros((90, 256), "u1")
    wanted[np.floor((angle + 180) / 4).astype(int) % 90, np.rint(distance[keep] / 0.1).astype(int)] = 1
    # Columns of the lidar lie exactly on edges of bins here, so that rounding puts each into one bin or the other.
    assert differing(cells, wanted) < 0.05
    assert (cells.any(axis=1) == wanted.any(axis=1)).all() and wanted.any(axis=1).all()


def test_a_level_grid_does_not_tilt_with_the_rig(walk: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    shutil.copytree(walk, trace)
    # The world frame of a recording that begins with a tilted rig is rotated.
    rotation = Rotation.from_euler("xyz", [9, -14, 40], degrees=True).as_matrix()
    rot = Sensor(walk / "_odom").channel("rot").read()
    for name in ("pos", "vel", "acc"):
        (Sensor(walk / "_odom").channel(name).read() @ rotation.T).tofile(trace / "_odom" / name)
    (rotation @ rot).tofile(trace / "_odom" / "rot")
    up = rotation @ json.loads((walk / "_truth" / "truth.json").read_text())["up"]

    sensor = made(trace, "_occupancy", level=True, z=(-0.6, 0.6))
    measured = json.loads((sensor.path / PROVENANCE).read_text())["measured"]
    assert measured["up_from"] == "imu"
    assert np.degrees(np.linalg.norm(np.cross(measured["up"], up))) < 0.5
    found = sensor.channel("occupancy").read()
    for frame in FRAMES:
        world = rotation @ rot[frame] @ MOUNTS["radar"].rotation
        front = world[:, 0] - world[:, 0] @ np.array(measured["up"]) * np.array(measured["up"])
        axes = np.stack(
            [front / np.linalg.norm(front), np.cross(measured["up"], front / np.linalg.norm(front)), measured["up"]]
        )
        points = returns(walk, frame, "radar") @ world.T @ axes.T
        wanted = occupied_cells(points, walk, (-0.6, 0.6))
        assert differing(found[frame], wanted) < 0.015  # `up` is stored with five digits
    shutil.rmtree(trace / "imu")
    sensor = made(trace, "_bev", level=True)
    assert json.loads((sensor.path / PROVENANCE).read_text())["measured"]["up_from"] == "first pose"


def test_frames_whose_odometry_is_not_valid_are_not_valid_and_have_no_cells(walk: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    shutil.copytree(walk, trace)
    valid = Sensor(walk / "_odom").channel("valid").read().copy()
    valid[[3, 4]] = 0
    valid.tofile(trace / "_odom" / "valid")
    for level, motion in ((False, True), (True, True), (True, False)):
        found = made(trace, "_bev", level=level, motion=motion)
        assert (found.channel("valid").read() == valid).all()
        assert (found.channel("occupancy").read().any(axis=(1, 2)) == valid).all()
    # Between the sweeps beside those two, where the rig was is not known.
    found, stamps = made(trace, "_bev", at="radar"), Sensor(trace / "lidar").channel("ts").read()
    at = found.channel("ts").read() + PRESETS["tiny"].radar.duration / 2
    unknown = (at > stamps[2] + 0.002) & (at < stamps[5] - 0.002)
    assert unknown.sum() >= 2 and not found.channel("valid").read()[unknown].any()


def test_a_pose_of_nan_gives_no_cells_and_is_not_valid(walk: Path, tmp_path: Path) -> None:
    trace = shutil.copytree(walk, tmp_path / "trace")
    rot = np.fromfile(trace / "_odom" / "rot").reshape(-1, 9)
    rot[3] = np.nan
    rot.tofile(trace / "_odom" / "rot")
    found = made(trace, "_occupancy", name="_level", level=True)
    cells = found.channel("occupancy").read()
    assert not cells[3].any() and cells[2].any() and cells[4].any()
    assert found.valid(len(cells)).tolist() == [1, 1, 1, 0, *[1] * (len(cells) - 4)]


def test_a_radar_sidecar_without_the_size_of_bins_is_an_error(walk: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    shutil.copytree(walk, trace)
    (trace / "radar" / "radar.json").write_text("{}")
    with pytest.raises(RoverError, match=r"radar\.json must give"):
        made(trace, "_bev")


def true_depth(frame: int, trace: Path) -> np.ndarray:
    """Depth of each pixel of a picture of 240 x 135 in the simulator's world, f8 metres, infinite without a surface."""
    rig = build(PRESETS["tiny"], 1)
    lens = json.loads((trace / "camera" / "camera.json").read_text())
    pixels = np.meshgrid((np.arange(240) + 0.5) * 256 / 240 - 0.5, (np.arange(135) + 0.5) * 144 / 135 - 0.5)
    matrix = np.array([[lens["fx"], 0, lens["cx"]], [0, lens["fy"], lens["cy"]], [0, 0, 1]])
    x, y = np.moveaxis(cv2.fisheye.undistortPoints(np.stack(pixels, -1), matrix, np.array(lens["k"])), -1, 0)
    rays = np.stack([np.ones_like(x), -x, -y], -1)
    length = np.linalg.norm(rays, axis=-1)
    time = Sensor(trace / "_truth_camera").channel("true_ts").read()[frame] - EPOCH
    state = rig.mounted("camera").at(np.full(240, time))
    images = Echoes.empty((135, 240))
    beams = Rays(np.zeros((240, 3)), np.ascontiguousarray(rays / length[..., None]), 0.0)
    poses, world, points = Poses(state.rot, state.pos), rig.world, points_of_a_tile(RAYS)
    cast_rays(world.at(time), MATERIAL_TABLE, world.light, beams, poses, np.zeros(240), points, images)
    depth: np.ndarray = images.distance / length
    return depth


def depth_errors(walk: Path, motion: bool) -> tuple[np.ndarray, np.ndarray]:
    """Errors of the depths of walls, m, and the fraction of each picture's pixels with a depth."""
    sensor = made(walk, "_camera_depth", width=240, height=135, motion=motion)
    valid = sensor.channel("valid").read()
    errors, filled = [], []
    for frame in np.flatnonzero(valid)[5::4]:
        depth, true = sensor.channel("depth").read(frame, frame + 1)[0] / 1000, true_depth(frame, walk)
        # The lidar is beside the camera. At edges of depth it observes surfaces that the camera does not.
        smooth = np.ones(true.shape, bool)
        smooth[1:-1, 1:-1] = (
            sum(np.abs(np.roll(true, by, (0, 1)) - true) for by in ((1, 0), (-1, 0), (0, 1), (0, -1)))[1:-1, 1:-1]
            < 0.15
        )
        errors.append((depth - true)[(depth > 0) & smooth & np.isfinite(true)])
        filled.append((depth > 0).mean())
    return np.concatenate(errors), np.array(filled)


def test_depths_of_walls_are_those_of_the_simulators_world(walk: Path) -> None:
    errors, filled = depth_errors(walk, motion=True)
    assert len(errors) > 5000 and filled.min() > 0.05
    assert abs(np.median(errors)) < 0.004
    assert np.quantile(np.abs(errors), 0.9) < 0.03


def test_depths_are_nearer_to_the_truth_with_the_motion_between_sweep_and_picture(walk: Path) -> None:
    moving, still = (np.abs(depth_errors(walk, motion)[0]).mean() for motion in (True, False))
    # What is left is mostly the footprint of a pixel, which is half a degree wide.
    assert moving < 0.75 * still


def test_pictures_without_a_sweep_in_the_tolerance_or_a_known_pose_have_no_depth(walk: Path, tmp_path: Path) -> None:
    trace = shutil.copytree(walk, tmp_path / "trace")
    lost = Sensor(walk / "_odom").channel("valid").read().copy()
    lost[8] = 0
    lost.tofile(trace / "_odom" / "valid")
    lidar, ts = (Sensor(walk / name).channel("ts").read() for name in ("lidar", "camera"))
    # The sweep that is under way, by its middle: sweeps end at their time stamps.
    apart = np.abs(lidar[np.minimum(np.searchsorted(lidar, ts), len(lidar) - 1)] - 0.05 - ts)
    tolerance = float(np.median(apart)) + 1e-6
    sensor = made(trace, "_camera_depth", width=48, height=27, tolerance=tolerance)
    depth, valid = (sensor.channel(name).read() for name in ("depth", "valid"))
    known = (ts >= lidar[0]) & (ts <= lidar[-1]) & ~((ts > lidar[7]) & (ts < lidar[9]))
    assert (valid == ((apart <= tolerance) & known)).all()
    assert 0 < valid.sum() < known.sum() < len(ts)
    assert not depth[valid == 0].any() and depth[valid == 1].any(axis=(1, 2)).all()


def test_depths_of_a_camera_whose_clock_is_late_are_those_of_its_own_instants(walk: Path, tmp_path: Path) -> None:
    trace = shutil.copytree(walk, tmp_path / "trace", ignore=shutil.ignore_patterns("_camera*"))
    (np.fromfile(trace / "camera" / "ts") + 1.5).tofile(trace / "camera" / "ts")
    rig = {"camera": {**_entry("camera"), "time_offset": -1.5}}
    found = made(trace, "_camera_depth", width=48, height=27, rig=rig)
    usual = made(walk, "_camera_depth", name="_usual_depth", width=48, height=27)
    (depth, valid), (wanted, known) = (
        [each.channel(name).read() for name in ("depth", "valid")] for each in (found, usual)
    )
    assert (valid == known).all() and valid.sum() > 10
    assert ((depth > 0) & (wanted > 0) & (np.abs(depth.astype(int) - wanted) > 10)).mean() < 0.001


def test_depth_comes_with_its_size_and_lens(walk: Path) -> None:
    path = made(walk, "_camera_depth", motion=False).path
    specs: dict[str, Any] = read_meta(path)
    assert (specs["depth"].type, specs["depth"].shape) == ("u2", (270, 480))
    lens, recorded = (json.loads((walk / name / "camera.json").read_text()) for name in (path.name, "camera"))
    assert lens["fx"] == pytest.approx(recorded["fx"] * 480 / 256)
    measured = json.loads((path / PROVENANCE).read_text())["measured"]
    assert (measured["extrinsics"], measured["lens"], measured["lens_from"]) == ("config.yaml", "fisheye", "numbers")
    assert lens["model"] == "fisheye" and lens["k"] == recorded["k"]


def test_the_radars_power_is_high_in_cells_with_lidar_returns(walk: Path) -> None:
    run_step(find_step("_radar_range_azimuth"), walk, "_radar_range_azimuth", Request())
    radar, grid = Sensor(walk / "_radar_range_azimuth"), made(walk, "_bev")
    angles = [
        np.array(json.loads((sensor.path / "axes.json").read_text())["azimuth"]["values"]) for sensor in (radar, grid)
    ]
    same = np.abs(angles[0] - angles[1][:, None]).argmin(axis=1)
    radar_ts, lidar_ts = (sensor.channel("ts").read() for sensor in (radar, grid))
    power, occupied = radar.channel("power").read()[:, same], grid.channel("occupancy").read().astype(bool)
    means = []
    for frame, time in enumerate(lidar_ts):
        image = power[np.abs(radar_ts - time).argmin()]
        image = image - np.median(image, axis=0)  # relative to the other azimuths in the same range bin
        cells = occupied[frame]
        front = np.zeros_like(cells)
        front[20:-20, 4:] = True  # the radar's field of view, beyond the coupling between its antennas
        means.append((image[cells & front].mean(), image[cells[::-1] & front].mean()))
    direct, mirrored = np.mean(means, axis=0)
    assert direct > 2.0 and mirrored < 0.0  # dB


def test_up_is_measured_at_the_times_of_the_clocks_and_not_at_those_of_arrival() -> None:
    rng = np.random.default_rng(5)
    sweeps, samples = EPOCH + 0.1 * np.arange(400), EPOCH + 0.01 * np.arange(3900)
    # After 20 s the rig rolls about its front by 1.5 rad/s. Sweeps arrive 6 ms late in the mean: half a degree.
    front, speed, up = np.array([1.0, 0.0, 0.0]), 1.5, np.array([0.0, 0.6, 0.8])
    rot = Rotation.from_rotvec(np.outer((speed * (sweeps - EPOCH - 20)).clip(0), front)).as_matrix()
    turned = Rotation.from_rotvec(np.outer((speed * (samples - EPOCH - 20)).clip(0), front))
    still = np.zeros((400, 3))
    odometry = {
        "ts": sweeps + rng.exponential(0.006, 400).clip(0, 0.05),
        "pos": still,
        "rot": rot,
        "vel": still,
        "acc": still,
        "avel": np.outer(speed * (sweeps > EPOCH + 20), front),
        "valid": np.ones(400, "u1"),
    }
    found = inspect_cells(
        flat=True,
        options=OccupancyOptions(level=True, origin="lidar"),
        odometry=odometry,
        imu={
            "ts": samples + rng.exponential(0.0003, 3900).clip(0, 0.005),
            "acc": 9.81 * turned.inv().apply(up),
            "valid": np.ones(3900, "u1"),
        },
    )
    assert found.measured["up_from"] == "imu"
    assert np.degrees(np.linalg.norm(np.cross(found.measured["up"], up))) < 0.06
