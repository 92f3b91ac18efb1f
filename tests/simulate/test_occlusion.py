"""Occlusion: what is nearer hides what is behind it, from every sensor and at the instant of the measurement.

All three sensors see a body that walks between them and a wall, or behind the wall. Which lines of sight the body
blocks is computed here with NumPy, not with the kernels of the simulator.
"""

from __future__ import annotations

import numpy as np
import pytest

from rover_pipeline.camera.lens import Lens
from rover_pipeline.simulate.motion import ClosedPath, Gait, Motion, ellipse
from rover_pipeline.simulate.presets import PRESETS
from rover_pipeline.simulate.rig import build
from rover_pipeline.simulate.scene.world import Body, Light, World, box
from rover_pipeline.simulate.sensors import camera, lidar
from rover_pipeline.simulate.sensors.radar import NODES, Paths, Scatterers, paths, scatter

LIGHT = Light(np.array([0.0, 0.0, 1.0]), 0.0, np.zeros((0, 3)), 0.3, (0.0, 0.0, 0.0), 100.0)
#: Half extents of the body and height of its centre, x of the wall's front and its half extents; metres.
HALF, HEIGHT, WALL, WALL_HALF = np.array([0.3, 0.3, 0.9]), 0.9, 6.0, (4.5, 4.0)
EYE = np.array([0.0, 0.0, 1.3])
TIMES = pytest.mark.parametrize("time", [0.5, 2.0, 3.5])


def body(x: float) -> Body:
    """A box that walks round an ellipse, which at `x` = 3 is in front of the wall and at `x` = 9 behind it."""
    part = box((0.0, 0.0, HEIGHT), tuple(2 * HALF), "black plastic")
    return Body("walker", (part,), ellipse(x, 0.0, 0.5, 1.5), 1.2)


def world(*bodies: Body) -> World:
    return World([box((WALL + 0.1, 0.0, 0.0), (0.2, 2 * WALL_HALF[0], 2 * WALL_HALF[1]), "target")], LIGHT, bodies)


def distance_to_body(walker: Body, time: float, origin: np.ndarray, direction: np.ndarray) -> np.ndarray:
    """Metres along unit rays, (..., 3), to the body at an instant by the slab method; infinite where they miss it."""
    position, rotation, _ = walker.at(time)
    start = (origin - position - [0.0, 0.0, HEIGHT]) @ rotation
    slabs = (np.stack([-HALF, HALF]).reshape(2, *[1] * (direction.ndim - 1), 3) - start) / (direction @ rotation)
    enter, leave = slabs.min(0).max(-1), slabs.max(0).min(-1)
    return np.where((enter <= leave) & (enter > 0), enter, np.inf)


@TIMES
@pytest.mark.parametrize("x", [3.0, 9.0])
def test_the_lidar_measures_the_first_surface_at_each_columns_instant(x: float, time: float) -> None:
    walker, rays = body(x), lidar.rays(lidar.BEAMS["OS-0-32"], 512)
    motion = Motion(ClosedPath(np.array([[0.0, 0], [4, 1], [3, 5], [-1, 3]])), 1.0, EYE[2], Gait(), stand=1e9)
    distance = lidar.sweep(world(walker), motion, rays, time, 0.1).distance
    pose = motion.at(np.array([time]))
    origin, direction = pose.pos[0] + rays.origin @ pose.rot[0].T, rays.direction @ pose.rot[0].T
    with np.errstate(divide="ignore"):
        wall = np.where(direction[..., 0] > 0, (WALL - origin[:, 0]) / direction[..., 0], np.inf)
    hit = origin[:, 1:] + np.where(np.isfinite(wall), wall, 0.0)[..., None] * direction[..., 1:]
    wall[(np.abs(hit) > WALL_HALF).any(-1)] = np.inf
    first = np.array([
        np.minimum(wall[:, column], distance_to_body(walker, instant, origin[column], direction[:, column]))
        for column, instant in enumerate(lidar.column_times(time, 0.1, 512))
    ]).T  # fmt: skip
    assert ((first < wall).sum() > 100) == (x < WALL)
    # Rays that graze an edge may fall on either side of it.
    assert np.isclose(distance, first, rtol=0, atol=0.01).mean() > 0.999


@TIMES
@pytest.mark.parametrize("x", [3.0, 9.0])
def test_the_camera_sees_the_wall_except_where_the_body_is_in_front_of_it(x: float, time: float) -> None:
    focal = 160 / np.tan(np.radians(35.0))
    walker, lens = body(x), Lens(320, 180, focal, focal, 159.5, 89.5)
    image = camera.picture(world(walker), lens, time, EYE, np.eye(3))
    u, v = np.meshgrid(np.arange(320), np.arange(180))
    direction = np.stack([np.ones(u.shape), (lens.cx - u) / lens.fx, (lens.cy - v) / lens.fy], -1)
    # With a front of 1 instead of length 1, the parameter of a ray is x.
    hidden = distance_to_body(walker, time, EYE, direction) < WALL
    assert (hidden.sum() > 1000) == (x < WALL)
    assert ((image[..., 0] < 150) != hidden).mean() < 0.001


def radar_paths(world: World, scatterers: Scatterers, time: float) -> Paths:
    times = time + 0.01 * NODES
    return paths(world, scatterers, times, np.tile(EYE, (4, 1)), np.tile(np.eye(3), (4, 1, 1)), 20.0)


@TIMES
def test_the_radar_receives_no_echo_from_what_a_moving_body_hides(time: float) -> None:
    walker = body(3.0)
    points = scatter(world(walker), 1)
    # The phases are random, so they identify the scatterers.
    received = np.isin(points.phase, radar_paths(world(walker), points, time).phase)
    without = np.isin(points.phase, radar_paths(world(), scatter(world(), 1), time).phase)
    line = points.point - EYE
    length = np.linalg.norm(line, axis=1)
    nearest = distance_to_body(walker, time + 0.01 * NODES[1], EYE, line / length[:, None])
    hidden = without & (nearest < length)
    assert hidden.sum() > 10 and (without & ~hidden).sum() > 50
    np.testing.assert_array_equal(received & (points.body < 0), without & ~hidden)
    assert (received & (points.body == 0)).any()


@TIMES
def test_the_radar_receives_no_echo_from_a_body_behind_a_wall(time: float) -> None:
    points = scatter(world(body(9.0)), 1)
    received = np.isin(points.phase, radar_paths(world(body(9.0)), points, time).phase)
    assert received.any() and not (received & (points.body == 0)).any()


@pytest.mark.parametrize("preset", ["indoor", "stairs", "outdoor"])
def test_in_the_scenes_a_sweep_measures_the_nearer_of_bodies_and_still_surfaces(preset: str) -> None:
    rig = build(PRESETS[preset], 0)
    still = [part for part, owner in zip(rig.world.parts, rig.world.owner, strict=True) if owner < 0]
    rays, in_front, behind = lidar.rays(rig.beams, 512), 0, 0
    for end in (2.0, 9.0, 16.0, 23.0):
        distances = [
            lidar.sweep(scene, rig.motion, rays, end, 0.1).distance
            for scene in (rig.world, World(still, rig.world.light), World([], rig.world.light, rig.world.bodies))
        ]
        both, surfaces, bodies = distances
        np.testing.assert_array_equal(both, np.minimum(surfaces, bodies))
        in_front += int((bodies < surfaces).sum())
        behind += int((np.isfinite(bodies) & (surfaces < bodies)).sum())
    assert in_front > 50 and behind > 50
