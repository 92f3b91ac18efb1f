"""Points that stand for surfaces in front of a radar: fixed to them, many to each, each with its cross-section."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rover_pipeline.simulate.materials import INDEX, RCS
from rover_pipeline.simulate.raycast import visible
from rover_pipeline.simulate.world import BOX, CYLINDER, Part, World

_PER_SQUARE_METRE = 5.0
_LEAST, _MOST = 6, 600
#: A surface seen face on shines: cross-section over the diffuse one, and the width of the flash (radians).
_FLASH, _FLASH_WIDTH = 25.0, 0.12


class Scatterers(NamedTuple):
    """Points on surfaces, in the frame of the scene or of the body they belong to.

    Attributes:
        point, normal: f8 (S, 3).
        amplitude: f8 (S,), square root of the cross-section face on, m.
        phase: f8 (S,), radians, of the reflection.
        body: i8 (S,), -1 for what stands still.
    """

    point: np.ndarray
    normal: np.ndarray
    amplitude: np.ndarray
    phase: np.ndarray
    body: np.ndarray


class Paths(NamedTuple):
    """Echoes as a moving radar sees them during one frame.

    Attributes:
        distance: f8 (4, S), metres at `nodes` of the frame.
        direction: f8 (2, S, 2), left and up components of the unit vector to it at the start and the end of the frame.
        amplitude: f8 (S,), of the echo, for one ADC count a metre of cross-section at a metre.
        phase: f8 (S,), radians.
    """

    distance: np.ndarray
    direction: np.ndarray
    amplitude: np.ndarray
    phase: np.ndarray


#: Instants of a frame at which distances are computed, as shares of its duration; a cubic runs between them.
NODES = np.array([0.0, 1 / 3, 2 / 3, 1.0])


def scatter(world: World, seed: int) -> Scatterers:
    """Points spread evenly at random over all surfaces of a world, their cross-sections exponentially distributed."""
    found = []
    for number, (part, owner) in enumerate(zip(world.parts, world.owner, strict=True)):
        rng = np.random.default_rng([seed, 0x5CA7, number])
        area = _area(part)
        count = int(np.clip(area * _PER_SQUARE_METRE, _LEAST, _MOST))
        point, normal = _on_surface(part, count, rng)
        # A road of thousands of square metres must not become a few hundred strong points.
        patch = min(area / count, 1 / _PER_SQUARE_METRE)
        rcs = RCS[INDEX[part.material]] * patch * rng.exponential(1.0, count)
        found.append((point, normal, np.sqrt(rcs), rng.uniform(0, 2 * np.pi, count), np.full(count, owner)))
    return Scatterers(*(np.concatenate(column) for column in zip(*found, strict=True)))


def paths(
    world: World, scatterers: Scatterers, times: np.ndarray, pos: np.ndarray, rot: np.ndarray, reach: float
) -> Paths:
    """Echoes of a frame from what the radar can see.

    Args:
        times: f8 (4,), seconds, the frame's `NODES`.
        pos, rot: f8 (4, 3) and (4, 3, 3), the radar's poses then, scene-from-radar.
        reach: farthest distance that is received, metres.
    """
    points = np.repeat(scatterers.point[None], len(times), 0)
    normal = scatterers.normal.copy()
    for number, body in enumerate(world.bodies):
        own = scatterers.body == number
        for node, time in enumerate(times):
            position, rotation, _ = body.at(float(time))
            points[node, own] = position + scatterers.point[own] @ rotation.T
        normal[own] = scatterers.normal[own] @ rotation.T
    away = np.einsum("nsi,nij->nsj", points - pos[:, None], rot)
    distance = np.linalg.norm(away, axis=-1)
    unit = away / distance[..., None]
    # In the middle of the frame: in front, facing the radar, near enough, then nothing in between.
    middle = points[1] - pos[1]
    facing = -np.einsum("si,si->s", normal, middle) / distance[1]
    keep = np.flatnonzero(
        (unit[1, :, 0] > 0.05) & (facing > 0.02) & (distance.max(0) < reach) & (distance.min(0) > 0.1)
    )
    keep = keep[visible(world.at(float(times[1])), pos[1], points[1, keep] + 1e-3 * normal[keep])]
    distance, unit, facing = distance[:, keep], unit[:, keep], facing[keep]
    flash = 1 + _FLASH * np.exp(-((np.arccos(np.minimum(facing, 1.0)) / _FLASH_WIDTH) ** 2))
    shine = np.sqrt(facing * flash)
    # One patch antenna each way: a broad beam in azimuth, a narrow one in elevation.
    beam = unit[1, :, 0] ** 1.5 * np.exp(-((unit[1, :, 2] / 0.5) ** 2))
    return Paths(
        distance=distance,
        direction=unit[[0, -1]][:, :, 1:],
        amplitude=scatterers.amplitude[keep] * shine * beam / distance[1] ** 2,
        phase=scatterers.phase[keep],
    )


def _area(part: Part) -> float:
    x, y, z = part.half
    if part.kind == BOX:
        return 8 * (x * y + y * z + z * x)
    if part.kind == CYLINDER:
        return 4 * np.pi * x * z + 2 * np.pi * x * x
    return 4 * x * y


def _on_surface(part: Part, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Random points on a primitive and the outward normals there, (count, 3) each."""
    half = np.array(part.half)
    spot = rng.uniform(-1, 1, (count, 3)) * half
    normal = np.zeros((count, 3))
    every = np.arange(count)
    if part.kind == BOX:
        faces = half[[1, 2, 0]] * half[[2, 0, 1]]
        axis = rng.choice(3, count, p=faces / faces.sum())
        side = rng.choice([-1.0, 1.0], count)
        spot[every, axis], normal[every, axis] = side * half[axis], side
    elif part.kind == CYLINDER:
        angle = rng.uniform(0, 2 * np.pi, count)
        normal[:, 0], normal[:, 1] = np.cos(angle), np.sin(angle)
        spot[:, :2] = half[0] * normal[:, :2]
    else:
        normal[:, 2] = 1.0
    return np.array(part.centre) + spot @ part.axes, normal @ part.axes
