"""A park: undulating ground with grass, trees, bushes and people; and a field of nothing but bushes.

Nearly nothing here is a plane: two benches and a few plates.
"""

from __future__ import annotations

import numpy as np

from rover_pipeline.simulate.motion import ClosedPath
from rover_pipeline.simulate.scene.props import person, target_plates
from rover_pipeline.simulate.scene.terrain import on_terrain, terrain
from rover_pipeline.simulate.scene.world import CYLINDER, Body, Part, World, box, daylight, foliage

#: Metres by which the ground rises and falls, and half of its extent; height of the grass. Layout.
_UNDULATION, _HALF = 0.9, 75.0
_GRASS = 0.04


def _way(offset: float) -> ClosedPath:
    """A way around the middle of the park; `offset` metres to the right of the rig's."""
    angle = np.linspace(0, 2 * np.pi, 48, endpoint=False)
    radius = 15.0 + 2.5 * np.sin(2 * angle + 0.4) + 1.6 * np.sin(3 * angle) + offset
    return _on_ground(np.stack([1.35 * radius * np.cos(angle), radius * np.sin(angle)], -1))


def _on_ground(waypoints: np.ndarray) -> ClosedPath:
    return ClosedPath(on_terrain(waypoints, _UNDULATION))


#: The rig's path, about 110 m. Layout.
RIG_PATH = _way(0.0)


def world(leaf_depth: float) -> World:
    """Trees, bushes, benches, people; a ray gets `leaf_depth` metres into leaves on average."""
    rng = np.random.default_rng(1861)
    way = RIG_PATH.points(48)[:, :2]
    trees = _spots(rng, 46, 40.0, 3.0, way, 2.3)
    parts = [terrain(_HALF, _HALF, _UNDULATION, _GRASS, "grass")]
    for x, y, z in trees:
        parts += _tree(rng, x, y, z, leaf_depth)
    for x, y, z in _spots(rng, 70, 34.0, 1.8, np.concatenate([way, trees[:, :2]]), 2.4):
        parts += _bush(rng, x, y, z, leaf_depth)
    for angle in (0.9, 3.7):
        parts += _bench(1.35 * 11.0 * np.cos(angle), 11.0 * np.sin(angle), float(np.degrees(angle)))
    back, turn = ClosedPath(_way(1.7).points(48)[::-1]), np.linspace(0, 2 * np.pi, 16, endpoint=False)
    lawn = np.stack([3.0 + 4.0 * np.cos(turn), 2.0 + 2.5 * np.sin(turn)], -1)
    bodies = (
        person("walker that comes towards the rig", back, 1.3, coat="red cloth", start=70.0),
        person("walker ahead", _way(-1.5), 1.1, coat="coat", start=9.0),
        person("walker behind", _way(1.4), 1.25, coat="cloth", start=96.0),
        person("child on the lawn", _on_ground(lawn), 1.9, coat="red cloth"),
        person("runner", _way(3.4), 3.0, coat="coat", start=30.0),
    )
    return _lit(parts, bodies, way, (4, 16, 27, 38))


def bushes(leaf_depth: float) -> World:
    """The same ground with bushes on it and nothing else, but for two people."""
    rng = np.random.default_rng(1862)
    way = RIG_PATH.points(48)[:, :2]
    parts = [terrain(_HALF, _HALF, _UNDULATION, _GRASS, "grass")]
    for x, y, z in _spots(rng, 220, 34.0, 1.8, way, 2.4):
        parts += _bush(rng, x, y, z, leaf_depth)
    back = ClosedPath(_way(1.3).points(48)[::-1])
    bodies = (
        person("walker that comes towards the rig", back, 1.3, coat="red cloth", start=60.0),
        person("walker ahead", _way(-1.2), 1.1, coat="coat", start=8.0),
    )
    return _lit(parts, bodies, way, (4, 27))


def _lit(parts: list[Part], bodies: tuple[Body, ...], way: np.ndarray, numbers: tuple[int, ...]) -> World:
    """The world in daylight, with plates at head height outside of some waypoints, which face the middle."""
    points = on_terrain(1.12 * way[list(numbers)], _UNDULATION)
    points[:, 2] += 1.5
    targets, plates = target_plates(0.25, [(_point(point), "-x" if point[0] > 0 else "+x") for point in points])
    return World(parts + plates, daylight(0.35, -0.45), bodies, targets)


def _spots(
    rng: np.random.Generator, count: int, reach: float, apart: float, taken: np.ndarray, clearance: float
) -> np.ndarray:
    """Places on the ground at random, (count, 3), `apart` from one another and with `clearance` from points, metres."""
    spots = np.zeros((0, 2))
    while len(spots) < count:
        spot = rng.uniform(-reach, reach, 2)
        far_from_spots = np.linalg.norm(spots - spot, axis=1).min(initial=np.inf) > apart
        if far_from_spots and np.linalg.norm(taken - spot, axis=1).min() > clearance:
            spots = np.concatenate([spots, spot[None]])
    return on_terrain(spots, _UNDULATION)


def _tree(rng: np.random.Generator, x: float, y: float, z: float, leaf_depth: float) -> list[Part]:
    """A leaning trunk, two branches and a crown of four parts that begins above head height."""
    tall, thick = rng.uniform(6.0, 11.0), rng.uniform(0.12, 0.3)
    foot = np.array([x, y, z - 0.2])
    crown = np.array([x + rng.uniform(-0.5, 0.5), y + rng.uniform(-0.5, 0.5), z + 0.55 * tall])
    parts = [_limb(foot, crown, thick)]
    for _ in range(2):
        parts.append(_limb(crown - [0, 0, 0.12 * tall], crown + rng.uniform([-2, -2, 1.0], [2, 2, 2.5]), 0.4 * thick))
    for _ in range(4):
        half = rng.uniform(0.14, 0.24, 3) * tall
        centre = crown + rng.uniform(-0.16, 0.16, 3) * tall + [0.0, 0.0, 0.18 * tall]
        half[2] = min(half[2], centre[2] - z - 2.3)
        parts.append(foliage(_point(centre), _point(half), leaf_depth))
    return parts


def _bush(rng: np.random.Generator, x: float, y: float, z: float, leaf_depth: float) -> list[Part]:
    """Three parts that overlap and reach into the ground."""
    size = rng.uniform(0.5, 1.3)
    parts = []
    for _ in range(3):
        half = size * rng.uniform([0.5, 0.5, 0.6], [0.9, 0.9, 1.2])
        shift = size * rng.uniform(-0.45, 0.45, 2)
        parts.append(foliage((x + shift[0], y + shift[1], z + 0.6 * half[2]), _point(half), leaf_depth))
    return parts


def _limb(start: np.ndarray, end: np.ndarray, radius: float) -> Part:
    """A round piece of wood between two points."""
    along = end - start
    length = float(np.linalg.norm(along, axis=0))
    along = along / length
    across = np.cross(along, [0.0, 1.0, 0.0])
    across /= np.linalg.norm(across, axis=0)
    axes = np.stack([across, np.cross(along, across), along])
    return Part(CYLINDER, _point((start + end) / 2), (radius, radius, length / 2), "bark", axes)


def _bench(x: float, y: float, yaw: float) -> list[Part]:
    z = float(on_terrain([[x, y]], _UNDULATION)[0, 2])
    back = np.array([np.cos(np.radians(yaw)), np.sin(np.radians(yaw))]) * 0.22
    return [
        box((x, y, z + 0.42), (0.42, 1.6, 0.05), "wood", yaw),
        box((x - back[0], y - back[1], z + 0.68), (0.04, 1.6, 0.35), "wood", yaw),
        box((x, y, z + 0.15), (0.3, 1.3, 0.5), "metal", yaw),
    ]


def _point(values: np.ndarray) -> tuple[float, float, float]:
    return float(values[0]), float(values[1]), float(values[2])
