"""Cells of a moving rig compared with the world at one instant, which the simulator's scene is cast for."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
import pytest
import yaml
from scipy.spatial.transform import Rotation

from rover_pipeline.kinematics.state import Poses, State
from rover_pipeline.lidar.geometry import destagger, rays, sensor_info
from rover_pipeline.lidar.sweeps import Sweep
from rover_pipeline.occupancy.options import OccupancyOptions
from rover_pipeline.occupancy.polar import PolarGrid, edges
from rover_pipeline.occupancy.steps import occupancy
from rover_pipeline.simulate.presets import PRESETS
from rover_pipeline.simulate.rig import MOUNTS, Rig, build
from rover_pipeline.simulate.scene.materials import MATERIAL_TABLE
from rover_pipeline.simulate.scene.raycast import RAYS, points_of_a_tile
from rover_pipeline.simulate.sensors import lidar
from tests.kit import ouster_metadata

PERIOD = 0.1
#: Heights of `_bev`, m, and the default edges of its azimuths, degrees.
HEIGHTS, AZIMUTHS = (-0.5, 1.0), np.linspace(-90, 90, 129)


class Ride(NamedTuple):
    """A rig at speed, with sweeps that end at `ts` and have no noise.

    Attributes:
        ranges: u2 (sweep, beam, column), mm, staggered.
    """

    rig: Rig
    ts: np.ndarray
    ranges: np.ndarray
    metadata: str
    texts: dict[str, Any]
    odometry: dict[str, np.ndarray]


@pytest.fixture(scope="module", params=["indoor", "bike"])
def ride(request: pytest.FixtureRequest) -> Ride:
    preset = PRESETS[request.param].model_copy(update={"columns": 1024, "lidar": "OS-0-32"})
    rig, ts = build(preset, 1), 6.0 + PERIOD * np.arange(12)
    chirps, beams = preset.radar, lidar.rays(rig.beams, preset.columns)
    sweeps = [lidar.sweep(rig.world, rig.motion, beams, end, PERIOD).distance for end in ts[[4, 8]]]
    mm = np.rint(1000 * (np.stack(sweeps) + beams.range_offset))
    sidecar = {
        "shape": list(chirps.shape),
        "range_resolution": chirps.range_resolution,
        "doppler_resolution": chirps.doppler_resolution,
    }
    texts = {"config": yaml.safe_dump(rig.config()), "sidecar": json.dumps(sidecar)}
    metadata = json.dumps(lidar.metadata(rig.beams, preset.columns, preset.lidar_rate))
    odometry = known(rig.motion.at(ts), ts)
    return Ride(rig, ts, np.where(mm < 65535, mm, 0).astype("u2"), metadata, texts, odometry)


def known(states: State, ts: np.ndarray) -> dict[str, np.ndarray]:
    """The channels of an `_odom`."""
    return {"ts": ts, "valid": np.ones(len(ts), "u1"), **states._asdict()}


def cells_of(points: np.ndarray, resolution: float, bins: int) -> np.ndarray:
    """Occupied cells of points in the frame of the grid, bool (azimuth, range)."""
    out = np.zeros((128, bins), bool)
    distance = np.rint(np.linalg.norm(points, axis=1) / resolution).astype(int)
    azimuth = np.digitize(np.degrees(np.arctan2(-points[:, 1], points[:, 0])), AZIMUTHS) - 1
    inside = (distance < bins) & (azimuth >= 0) & (azimuth < 128)
    inside &= (points[:, 2] >= HEIGHTS[0]) & (points[:, 2] <= HEIGHTS[1])
    out[azimuth[inside], distance[inside]] = True
    return out


def overlap(a: np.ndarray, b: np.ndarray) -> float:
    """Intersection over union."""
    return float((a & b).sum() / (a | b).sum())


def rendered(ride: Ride, sweep: int, end: float, instant: float) -> np.ndarray:
    """Cells of the simulator's scene as it is at an instant, from the rig's true pose then, bool (azimuth, range).

    Rays are cast to where the returns of the sweep are then. Those of a rig that stands still would meet other spots:
    a table or the ground at a small angle has returns on rings that are many cells from one another.
    """
    rig, preset = ride.rig, ride.rig.preset
    start, direction = rays(ride.metadata)
    mm = ride.ranges[sweep, ..., None].astype("f8")
    columns = rig.motion.at(lidar.column_times(end, PERIOD, preset.columns))
    seen = rig.motion.at(np.full(preset.columns, instant))
    points = np.einsum("cij,bcj->bci", columns.rot, start + mm * direction) + columns.pos - seen.pos[0]
    aims = points @ seen.rot[0]
    aims = np.where(mm > 0, aims / np.linalg.norm(aims, axis=-1, keepdims=True), [1.0, 0.0, 0.0])
    images = lidar.Echoes.empty(mm.shape[:2])
    beams = lidar.Rays(np.zeros((preset.columns, 3)), np.ascontiguousarray(aims), 0.0)
    poses = Poses(seen.rot, seen.pos)
    world, lag, memory = rig.world.at(instant), np.zeros(preset.columns), points_of_a_tile(RAYS)
    lidar.cast_rays(world, MATERIAL_TABLE, rig.world.light, beams, poses, lag, memory, images)
    hit = (mm[..., 0] > 0) & np.isfinite(images.distance)
    mount = MOUNTS["radar"]
    radar = (aims[hit] * images.distance[hit][:, None] - mount.translation) @ mount.rotation
    return cells_of(radar, preset.radar.range_resolution, preset.radar.adc_samples)


def labels(ride: Ride, sweep: int, end: float, ts: float | None = None, **options: Any) -> np.ndarray:
    """Cells by the step from one of the sweeps, bool (azimuth, range).

    Args:
        ts: time stamp of the radar's frame; None = the frame is the sweep.
    """
    frames: dict[str, Any] = {}
    if ts is not None:
        frames = {"ts": np.array([ts]), "radar_ts": ride.ts[0] + 0.05 * np.arange(20)}
    rng = destagger(ride.ranges[sweep : sweep + 1], sensor_info(ride.metadata))
    chosen = OccupancyOptions.model_validate({"bev_z": HEIGHTS, **options})
    odometry = ride.odometry if chosen.motion else None
    result = occupancy(
        np.array([end]),
        rng=rng,
        **frames,
        flat=True,
        options=chosen,
        metadata=ride.metadata,
        odometry=odometry,
        **ride.texts,
    )
    assert result["valid"].tolist() == [True]
    return result["occupancy"][0].astype(bool)


def test_cells_agree_with_the_world_at_the_instant_of_the_sweeps_time_stamp(ride: Ride) -> None:
    for sweep, end in enumerate(ride.ts[[4, 8]].tolist()):
        world = rendered(ride, sweep, end, end)
        assert world.sum() > 300
        assert overlap(labels(ride, sweep, end), world) > 0.9
        assert overlap(labels(ride, sweep, end, motion=False), world) < 0.7


def test_cells_agree_with_the_world_in_the_middle_of_the_radars_chirps(ride: Ride) -> None:
    half = ride.rig.preset.radar.duration / 2
    for sweep, end in enumerate(ride.ts[[4, 8]].tolist()):
        # Early, late and in the middle of the sweep.
        for ts in (end - 0.09, end - 0.05, end - 0.005):
            world = rendered(ride, sweep, end, ts + half)
            found = labels(ride, sweep, end, ts, at="radar")
            assert overlap(found, world) > 0.9


def test_returns_of_the_rig_itself_do_not_become_cells_when_the_rig_moves() -> None:
    # The handlebar is 0.25 m ahead whenever it is measured. A wall is 2 m ahead, and the rig comes 0.5 m nearer.
    grid = PolarGrid(edges((-90, 90), 8), edges((-90, 90), 1), 0.25, 16, (-1.0, 1.0), min_range=0.4)
    ranges, points = np.array([[250, 2000]], "u2"), np.array([[[0.25, 0.0, 0.0], [2.0, 0.1, 0.0]]], "f4")
    for moved in (0.5, -0.5):
        poses = Poses(np.tile(np.eye(3), (2, 1, 1)), np.tile([moved, 0.0, 0.0], (2, 1)))
        found = grid.occupied(Sweep(points, ranges), poses, np.zeros(3))
        assert np.argwhere(found.any(axis=(0, 1))).ravel().tolist() == [8 + 4 * moved]


@pytest.mark.parametrize("reference", ["start", "middle", "end"])
@pytest.mark.parametrize(
    ("vel", "avel"),
    [((6.0, 0.0, 0.0), (0.0, 0.0, 0.0)), ((-3.0, 1.0, 0.2), (0.4, -0.3, 2.0)), ((0.0, 0.0, 0.0), (0.0, 0.0, -4.0))],
    ids=["straight", "turning", "on the spot"],
)
def test_a_world_at_rest_has_the_same_cells_whatever_the_motion_within_the_sweep(
    vel: tuple[float, ...], avel: tuple[float, ...], reference: str
) -> None:
    """Every column meets points of the world from its own pose. They are in the cells that a rig at rest sees."""
    beams, columns, metres = 16, 256, 0.2
    metadata = json.dumps(ouster_metadata(beams, columns))
    ts = 10.0 + PERIOD * np.arange(5)
    since = {"start": 0.0, "middle": -0.5, "end": -1.0}[reference] + np.arange(columns) / columns
    moved = Rotation.from_rotvec(PERIOD * since[:, None] * np.array(avel)).as_matrix()
    shifted = PERIOD * since[:, None] * np.array(vel)
    states = State(
        pos=(ts - ts[2])[:, None] * np.array(vel),
        rot=Rotation.from_rotvec((ts - ts[2])[:, None] * np.array(avel)).as_matrix(),
        vel=np.tile(vel, (5, 1)),
        acc=np.zeros((5, 3)),
        avel=np.tile(avel, (5, 1)),
    )
    start, direction = rays(metadata)
    mm = np.random.default_rng(0).integers(2000, 12_000, (beams, columns, 1)).astype("f8")
    points = np.einsum("cij,bcj->bci", moved, start + mm * direction) + shifted
    azimuth = np.degrees(np.arctan2(-points[..., 1], points[..., 0]))
    distance = np.linalg.norm(points, axis=-1) / metres
    # A millimetre of the stored range and the straight lines between 64 poses cannot move these to another cell.
    clear = (np.abs(distance % 1 - 0.5) > 0.02) & (np.abs(azimuth[..., None] - AZIMUTHS).min(axis=-1) > 0.02)
    clear &= np.abs(points[..., 2, None] - HEIGHTS).min(axis=-1) > 0.005
    ranges = np.where(clear, mm[..., 0], 0).astype("u2")
    wanted = cells_of(points[clear], metres, 60)
    assert wanted.sum() > 500
    rng = destagger(ranges[None], sensor_info(metadata))
    found = []
    for motion in (True, False):
        options = OccupancyOptions.model_validate({
            "origin": "lidar", "range_resolution": metres, "range_bins": 60, "bev_z": HEIGHTS, "motion": motion,
            "lidar": {"ts_reference": reference},
        })  # fmt: skip
        given = known(states, ts) if motion else None
        result = occupancy(ts[2:3], rng=rng, flat=True, options=options, metadata=metadata, odometry=given)
        found.append(result["occupancy"][0].astype(bool))
    assert (found[0] == wanted).all()
    assert overlap(found[1], wanted) < 0.7
