"""Scatterers, points on surfaces that stand for them in front of a radar, and the propagation paths to them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rover_pipeline.numerics.linear import matmul
from rover_pipeline.simulate.scene.materials import INDEX, MATERIAL_TABLE
from rover_pipeline.simulate.scene.raycast import visible
from rover_pipeline.simulate.scene.terrain import height
from rover_pipeline.simulate.scene.world import BOX, CYLINDER, FOLIAGE, TERRAIN, Part, World

#: Scatterers of a square metre, and the smallest and largest number of them on one primitive. Layout.
_PER_SQUARE_METRE = 5.0
_MINIMUM, _MAXIMUM = 6, 600
#: Instants of a frame at which distances are computed, as fractions of its duration; a cubic runs between them. Layout.
NODES = np.array([0.0, 1 / 3, 2 / 3, 1.0])
#: The node at which visibility, incidence and the antenna pattern are evaluated, once for the whole frame. Layout.
_REFERENCE = 1
#: Specular reflection near normal incidence: cross-section over the diffuse one, and width of the peak, rad. Layout.
_SPECULAR, _SPECULAR_WIDTH = 25.0, 0.12
#: Metres that a scatterer is lifted off its surface, so that this surface does not hide it. Layout.
_LIFT = 1e-3


class Scatterers(NamedTuple):
    """Points on surfaces, in the frame of the scene or of the body they belong to."""

    point: np.ndarray  #: f8 (S, 3).
    normal: np.ndarray  #: f8 (S, 3).
    amplitude: np.ndarray  #: f8 (S,), square root of the diffuse cross-section at normal incidence, m.
    phase: np.ndarray  #: f8 (S,), radians, of the reflection.
    body: np.ndarray  #: i8 (S,), index of the body, -1 for what stands still.


def scatter(world: World, seed: int) -> Scatterers:
    """Points at random on all surfaces of a world, uniformly, with exponentially distributed cross-sections."""
    parts = []
    for number, (part, owner) in enumerate(zip(world.parts, world.owner, strict=True)):
        rng = np.random.default_rng([seed, 0x5CA7, number])
        area = _area(part)
        count = int(np.clip(area * _PER_SQUARE_METRE, _MINIMUM, _MAXIMUM))
        point, normal = _on_surface(part, count, rng)
        # A road of thousands of square metres must not become a few hundred strong points.
        patch = min(area / count, 1 / _PER_SQUARE_METRE)
        rcs = MATERIAL_TABLE.rcs[INDEX[part.material]] * patch * rng.exponential(1.0, count)
        parts.append((point, normal, np.sqrt(rcs), rng.uniform(0, 2 * np.pi, count), np.full(count, owner)))
    return Scatterers(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _area(part: Part) -> float:
    x, y, z = part.half
    if part.kind == BOX:
        return 8 * (x * y + y * z + z * x)
    if part.kind == CYLINDER:
        return 4 * np.pi * x * z + 2 * np.pi * x * x
    if part.kind == FOLIAGE:
        # Thomsen's approximation of the surface of an ellipsoid, within 1.1 per cent.
        power = 1.6075
        means = ((x * y) ** power + (y * z) ** power + (z * x) ** power) / 3
        return float(4 * np.pi * means ** (1 / power))
    return 4 * x * y


def _on_surface(part: Part, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Random points on a primitive and the outward normals there, (count, 3) each; on a cylinder's side only.

    Foliage reflects from its outermost leaves, and terrain from the tips of its grass.
    """
    half = np.array(part.half)
    point = rng.uniform(-1, 1, (count, 3)) * half
    normal = np.zeros((count, 3))
    every = np.arange(count)
    if part.kind == BOX:
        faces = half[[1, 2, 0]] * half[[2, 0, 1]]
        axis = rng.choice(3, count, p=faces / faces.sum())
        side = rng.choice([-1.0, 1.0], count)
        point[every, axis], normal[every, axis] = side * half[axis], side
    elif part.kind == CYLINDER:
        angle = rng.uniform(0, 2 * np.pi, count)
        normal[:, 0], normal[:, 1] = np.cos(angle), np.sin(angle)
        point[:, :2] = half[0] * normal[:, :2]
    elif part.kind == FOLIAGE:
        direction = rng.standard_normal((count, 3))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        point, normal = direction * half, direction / half
        normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    elif part.kind == TERRAIN:
        ground = np.array([height(float(x), float(y)) for x, y in point[:, :2]]) * half[2]
        point[:, 2] = ground[:, 0] + part.depth
        normal = np.column_stack([-ground[:, 1:], np.ones(count)])
        normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    else:
        normal[:, 2] = 1.0
    return np.array(part.centre) + matmul(point, part.axes), matmul(normal, part.axes)


class Paths(NamedTuple):
    """Propagation paths to S visible scatterers during one frame."""

    distance: np.ndarray  #: f8 (4, S), metres at the `NODES` of the frame, one way.
    #: f8 (2, S, 2), left and up in the radar frame of unit vectors to the scatterers, when the frame starts and ends.
    direction: np.ndarray
    #: f8 (S,), of the echo; 1 for a square metre of cross-section at one metre on the antenna's axis.
    amplitude: np.ndarray
    phase: np.ndarray  #: f8 (S,), radians, of the reflection.


def paths(
    world: World, scatterers: Scatterers, times: np.ndarray, pos: np.ndarray, rot: np.ndarray, max_range: float
) -> Paths:
    """Propagation paths of a frame. There is one reflection on each; `radar_errors` adds ghosts.

    A scatterer counts for the whole frame if at its second node it is in front of the radar, faces it, and no solid,
    a moving body included, hides it. There is no diffraction.

    Args:
        times: f8 (4,), seconds, the frame's `NODES`.
        pos, rot: f8 (4, 3) and (4, 3, 3), the radar's poses then, scene-from-radar.
        max_range: metres; scatterers that are farther away at any node are left out.
    """
    points = np.repeat(scatterers.point[None], len(times), 0)
    normal = scatterers.normal.copy()
    for number, body in enumerate(world.bodies):
        own = scatterers.body == number
        for node, time in enumerate(times):
            position, rotation, _ = body.at(float(time))
            points[node, own] = position + matmul(scatterers.point[own], rotation.T)
        normal[own] = matmul(scatterers.normal[own], rotation.T)  # Of the last node: bodies hardly rotate in a frame.
    to_point = np.einsum("nsi,nij->nsj", points - pos[:, None], rot)
    distance = np.linalg.norm(to_point, axis=-1)
    unit = to_point / distance[..., None]
    line_of_sight = points[_REFERENCE] - pos[_REFERENCE]
    cos_incidence = -np.einsum("si,si->s", normal, line_of_sight) / distance[_REFERENCE]
    in_front, in_range = unit[_REFERENCE, :, 0] > 0.05, (distance.max(0) < max_range) & (distance.min(0) > 0.1)
    keep = np.flatnonzero(in_front & (cos_incidence > 0.02) & in_range)
    lifted = points[_REFERENCE, keep] + _LIFT * normal[keep]
    keep = keep[visible(world.at(float(times[_REFERENCE])), pos[_REFERENCE], lifted)]
    distance, unit, cos_incidence = distance[:, keep], unit[:, keep], cos_incidence[keep]
    incidence = np.arccos(np.minimum(cos_incidence, 1.0))
    reflection = np.sqrt(cos_incidence * (1 + _SPECULAR * np.exp(-((incidence / _SPECULAR_WIDTH) ** 2))))
    # Transmitter and receiver are patch antennas: a broad beam in azimuth, a narrow one in elevation.
    pattern = unit[_REFERENCE, :, 0] ** 1.5 * np.exp(-((unit[_REFERENCE, :, 2] / 0.5) ** 2))
    amplitude = scatterers.amplitude[keep] * reflection * pattern / distance[_REFERENCE] ** 2
    return Paths(distance, unit[[0, -1]][:, :, 1:], amplitude, scatterers.phase[keep])
