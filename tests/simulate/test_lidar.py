"""The lidar against ouster-sdk: its metadata, its projection, and walls that stay in place when the sensor moves."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from ouster.sdk import core
from scipy.interpolate import CubicHermiteSpline
from scipy.spatial.transform import Rotation, RotationSpline

from rover_pipeline.format.trace import Trace
from rover_pipeline.lidar.ranges import CLIPPED
from rover_pipeline.simulate.motion import ClosedPath, Gait, Motion
from rover_pipeline.simulate.presets import PRESETS
from rover_pipeline.simulate.rig import build
from rover_pipeline.simulate.scene.world import Body, Light, World, box
from rover_pipeline.simulate.sensors import lidar

DARK = Light(np.array([0.0, 0.0, 1.0]), 0.0, np.zeros((0, 3)), 0.3, (0.0, 0.0, 0.0), 100.0)
COLUMNS = 1024
ALL_BEAMS = pytest.mark.parametrize("product", list(lidar.BEAMS))


def sdk_points(beams: lidar.Beams, columns: int, rng: np.ndarray) -> np.ndarray:
    """Points of a staggered range image in the sensor frame by ouster-sdk, (beam, column, 3), metres."""
    info = core.SensorInfo(json.dumps(lidar.metadata(beams, columns, 10)))
    points: np.ndarray = core.XYZLut(info)(rng.astype(np.uint32))
    return points


def still(height: float = 1.3) -> Motion:
    return Motion(ClosedPath(np.array([[0.0, 0], [4, 1], [3, 5], [-1, 3]])), 1.0, height, Gait(), stand=1e9)


@ALL_BEAMS
def test_the_sdk_reads_the_metadata_as_that_product(product: str) -> None:
    beams = lidar.BEAMS[product]
    info = core.SensorInfo(json.dumps(lidar.metadata(beams, COLUMNS, 10)))
    assert info.prod_line == product
    assert (info.format.pixels_per_column, info.format.columns_per_frame) == (beams.count, COLUMNS)
    assert (info.beam_altitude_angles == beams.altitude).all()


@ALL_BEAMS
def test_walls_of_a_room_are_flat_and_in_place_through_the_sdks_projection(product: str) -> None:
    beams = lidar.BEAMS[product]
    walls = [
        box((5.1, 0.0, 0.0), (0.2, 20.0, 20.0), "plaster"), box((-3.1, 0.0, 0.0), (0.2, 20.0, 20.0), "plaster"),
        box((0.0, 4.1, 0.0), (20.0, 0.2, 20.0), "plaster"), box((0.0, -2.6, 0.0), (20.0, 0.2, 20.0), "plaster"),
    ]  # fmt: skip
    motion, rays = still(), lidar.rays(beams, COLUMNS)
    echoes = lidar.sweep(World(walls, DARK), motion, rays, 1.0, 0.1)
    scan = lidar.measure(echoes, rays, beams.detection_range, 100.0, np.random.default_rng(0))
    pose = motion.at(np.array([1.0]))
    points = sdk_points(beams, COLUMNS, scan.rng)[scan.rng > 0] @ pose.rot[0].T + pose.pos[0]
    assert len(points) > 0.95 * scan.rng.size
    offsets = np.stack([points[:, 0] - 5.0, points[:, 0] + 3.0, points[:, 1] - 4.0, points[:, 1] + 2.5])
    offsets = offsets[np.argmin(np.abs(offsets), axis=0), np.arange(len(points))]
    assert abs(offsets.mean()) < 0.001
    assert offsets.std() < 0.005
    assert np.quantile(np.abs(offsets), 0.97) < 0.01


@ALL_BEAMS
def test_a_post_stands_in_one_column_once_the_sdk_has_destaggered_the_image(product: str) -> None:
    beams = lidar.BEAMS[product]
    post = box((6.0, 0.0, 0.0), (0.1, 0.1, 40.0), "plaster")
    motion = Motion(ClosedPath(np.array([[0.0, 0], [4, 0], [4, 4], [0, 4]])), 1.0, 1.3, Gait(), stand=1e9)
    echoes = lidar.sweep(World([post], DARK), motion, lidar.rays(beams, COLUMNS), 1.0, 0.1)
    info = core.SensorInfo(json.dumps(lidar.metadata(beams, COLUMNS, 10)))
    hits = core.destagger(info, np.isfinite(echoes.distance).astype(np.uint8))
    columns = np.nonzero(hits.any(axis=0))[0]
    assert 0 < len(columns) <= 6


def test_the_ceiling_is_flat_once_the_truth_deskews_each_column_of_a_moving_sweep(tiny: Path) -> None:
    trace, rig = Trace(tiny), build(PRESETS["tiny"], 1)
    truth, sensor = trace.sensor("_truth"), trace.sensor("lidar")
    times, pos, rot, vel = (truth.channel(name).read() for name in ("true_ts", "pos", "rot", "vel"))
    times = times - times[0]
    position, rotation = CubicHermiteSpline(times, pos, vel), RotationSpline(times, Rotation.from_matrix(rot))
    first = rig.motion.at(np.array([rig.clocks["lidar"].start]))
    scans = sensor.channel("rng").read()
    beams, columns = scans.shape[1:]

    def ceiling_errors(frame: int, deskew: bool) -> np.ndarray:
        instants = times[frame] - 0.1 + 0.1 * np.arange(columns) / columns if deskew else np.full(columns, times[frame])
        points = sdk_points(rig.beams, columns, scans[frame])
        world = np.einsum("cij,bcj->bci", rotation(instants).as_matrix(), points) + position(instants)
        x, y, height = np.moveaxis(world @ first.rot[0].T + first.pos[0], -1, 0)
        inside = (x > 0.1) & (x < 7.8) & (y > 2.3) & (y < 7.9)
        lamp = (abs(x - 4.0) < 0.7) & (abs(y - 5.0) < 0.3)
        errors: np.ndarray = height[(scans[frame] > 0) & (abs(height - 2.7) < 0.1) & inside & ~lamp] - 2.7
        assert len(errors) > 0.05 * beams * columns
        return errors

    frames = range(12, len(scans))
    deskewed = np.concatenate([ceiling_errors(frame, True) for frame in frames])
    assert abs(deskewed.mean()) < 0.001
    assert deskewed.std() < 0.005
    assert np.quantile(np.abs(deskewed), 0.97) < 0.01
    assert np.concatenate([ceiling_errors(frame, False) for frame in frames]).std() > 0.005


def test_each_column_measures_a_moving_body_at_its_own_instant() -> None:
    # A wall drives towards the lidar at 10 m/s: at the end of the sweep it is a metre nearer than at its start.
    path = ClosedPath(np.array([[0.0, 0], [300, 0], [600, 0], [600, -300], [0, -300]]))
    wall = Body("wall", (box((0.0, 0.0, 0.0), (0.2, 200.0, 50.0), "plaster"),), path, 10.0, start=100.0)
    motion = Motion(ClosedPath(np.array([[120.0, 0], [130, 0], [130, 10], [120, 10]])), 1.0, 1.3, Gait(), stand=1e9)
    beams, rays = lidar.BEAMS["OS-1-64"], lidar.rays(lidar.BEAMS["OS-1-64"], COLUMNS)
    echoes = lidar.sweep(World([], DARK, (wall,)), motion, rays, 0.5, 0.1)
    hit = np.isfinite(echoes.distance)
    points = sdk_points(beams, COLUMNS, np.where(hit, (echoes.distance + rays.range_offset) * 1000, 0))
    pose = motion.at(np.array([0.5]))
    points = points @ pose.rot[0].T + pose.pos[0]
    offsets = []
    for column, time in enumerate(lidar.column_times(0.5, 0.1, COLUMNS)):
        position, rotation, _ = wall.at(time)
        # The front of the wall is 0.1 m ahead of its centre, in its own frame.
        offsets.append(((points[:, column] - position) @ rotation[:, 0])[hit[:, column]] - 0.1)
    assert np.abs(np.concatenate(offsets)).max() < 0.01
    assert len(np.concatenate(offsets)) > 1000


def test_ranges_past_65_m_are_clipped_as_the_recorder_clips_them() -> None:
    wall = box((70.1, 0.0, 0.0), (0.2, 50.0, 50.0), "sign")
    rays = lidar.rays(lidar.BEAMS["OS-1-64"], COLUMNS)
    echoes = lidar.sweep(World([wall], DARK), still(), rays, 1.0, 0.1)
    scan = lidar.measure(echoes, rays, 90.0, 100.0, np.random.default_rng(0))
    assert set(np.unique(scan.rng[np.isfinite(echoes.distance)])) <= {0, CLIPPED}
    assert (scan.rng == CLIPPED).any()


def test_dark_and_distant_surfaces_are_detected_less_often() -> None:
    shape = (64, 512)
    rays = lidar.rays(lidar.BEAMS["OS-1-64"], 512)

    def share_detected(distance: float, reflectivity: float) -> float:
        full = np.ones(shape, "f4")
        echoes = lidar.Echoes(distance * full, reflectivity * full, full, np.full(full.shape, -1, "i2"))
        return float((lidar.measure(echoes, rays, 90.0, 100.0, np.random.default_rng(0)).rng > 0).mean())

    assert share_detected(90.0, 0.1) == pytest.approx(0.5, abs=0.02)
    assert share_detected(20.0, 0.5) > 0.99
    assert share_detected(60.0, 0.02) < 0.2
