"""Scatterers: points on surfaces that stand for them in front of a radar, each with its radar cross-section."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rover_pipeline.simulate.scene.materials import INDEX, MATERIAL_TABLE
from rover_pipeline.simulate.scene.world import BOX, CYLINDER, Part, World

_PER_SQUARE_METRE = 5.0
#: Numbers of scatterers of one primitive.
_MINIMUM, _MAXIMUM = 6, 600


class Scatterers(NamedTuple):
    """Points on surfaces, in the frame of the scene or of the body they belong to.

    Attributes:
        point, normal: f8 (S, 3).
        amplitude: f8 (S,), square root of the diffuse cross-section at normal incidence, m.
        phase: f8 (S,), radians, of the reflection.
        body: i8 (S,), index of the body, -1 for what stands still.
    """

    point: np.ndarray
    normal: np.ndarray
    amplitude: np.ndarray
    phase: np.ndarray
    body: np.ndarray


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
    return 4 * x * y


def _on_surface(part: Part, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Random points on a primitive and the outward normals there, (count, 3) each; on a cylinder's side only."""
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
    else:
        normal[:, 2] = 1.0
    return np.array(part.centre) + point @ part.axes, normal @ part.axes
