"""Materials of surfaces: their response to visible light, a lidar at 865 nm and a radar at 77 GHz, and their textures.

Textures are compiled functions of two surface coordinates, without stored images.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rover_pipeline.numerics.compiled import compiled, inlined

#: Types of numbers of 32 bits in kernels, where they are plain numbers to mypy. Layout.
f4: Any = np.float32
u4: Any = np.uint32
i4: Any = np.int32
#: Patterns. Layout.
PLAIN, SPECKLE, BRICK, PLANK, TILE, STRIPE = range(6)


@dataclass(frozen=True)
class Material:
    """A surface."""

    colour: tuple[float, float, float]  #: linear RGB albedo, 0 to 1.
    reflectivity: float  #: for the lidar, of a Lambertian surface, 0 to 1; a surface above 1 is retroreflective.
    rcs: float  #: radar cross-section per area at normal incidence, m²/m².
    texture: int = SPECKLE  #: pattern on the surface, one of the constants of this module.
    grain: float = 0.15  #: size of the pattern, metres.
    contrast: float = 0.25  #: fraction of the reflectivity that the pattern takes away where it is darkest, 0 to 1.
    glow: float = 0.0  #: light that the surface emits, as a fraction of white.


#: By name. Layout.
MATERIALS: dict[str, Material] = {
    "plaster": Material((0.72, 0.68, 0.60), 0.75, 0.05, SPECKLE, 0.30, 0.15),
    "blue plaster": Material((0.34, 0.44, 0.56), 0.60, 0.05, SPECKLE, 0.30, 0.15),
    "green plaster": Material((0.42, 0.53, 0.38), 0.60, 0.05, SPECKLE, 0.30, 0.15),
    "ceiling": Material((0.80, 0.80, 0.78), 0.80, 0.02, TILE, 0.60, 0.18),
    "parquet": Material((0.45, 0.28, 0.15), 0.40, 0.02, PLANK, 0.14, 0.45),
    "carpet": Material((0.38, 0.10, 0.09), 0.25, 0.02, STRIPE, 0.20, 0.55),
    "tiles": Material((0.55, 0.55, 0.52), 0.45, 0.02, TILE, 0.40, 0.45),
    "wood": Material((0.50, 0.31, 0.16), 0.45, 0.10, PLANK, 0.08, 0.35),
    "white wood": Material((0.75, 0.74, 0.70), 0.70, 0.10, SPECKLE, 0.20, 0.10),
    "cloth": Material((0.12, 0.22, 0.38), 0.30, 0.08, SPECKLE, 0.05, 0.45),
    "red cloth": Material((0.55, 0.10, 0.08), 0.45, 0.08, SPECKLE, 0.05, 0.45),
    "metal": Material((0.45, 0.46, 0.48), 0.50, 2.00, SPECKLE, 0.25, 0.15),
    "black plastic": Material((0.03, 0.03, 0.035), 0.05, 0.15, PLAIN),
    "books": Material((0.45, 0.20, 0.12), 0.35, 0.10, STRIPE, 0.045, 0.70),
    "picture": Material((0.25, 0.42, 0.62), 0.50, 0.05, STRIPE, 0.17, 0.65),
    "leaf": Material((0.10, 0.30, 0.07), 0.55, 0.15, SPECKLE, 0.09, 0.75),
    "bark": Material((0.20, 0.14, 0.09), 0.30, 0.20, PLANK, 0.06, 0.50),
    "lamp": Material((1.0, 0.97, 0.88), 0.80, 0.05, PLAIN, glow=1.0),
    "window": Material((0.62, 0.76, 0.92), 0.02, 0.15, PLAIN, glow=0.75),
    "glass": Material((0.10, 0.14, 0.18), 0.02, 0.30, PLAIN),
    "skin": Material((0.62, 0.38, 0.27), 0.55, 0.60, PLAIN),
    "coat": Material((0.62, 0.42, 0.08), 0.40, 0.70, SPECKLE, 0.06, 0.35),
    "jeans": Material((0.06, 0.10, 0.22), 0.25, 0.60, SPECKLE, 0.04, 0.35),
    "brick": Material((0.48, 0.20, 0.13), 0.45, 0.12, BRICK, 0.25, 0.45),
    "stone": Material((0.55, 0.50, 0.42), 0.50, 0.12, BRICK, 0.60, 0.30),
    "render": Material((0.66, 0.58, 0.42), 0.60, 0.10, SPECKLE, 0.70, 0.20),
    "asphalt": Material((0.13, 0.13, 0.14), 0.15, 0.02, SPECKLE, 0.12, 0.40),
    "paving": Material((0.42, 0.41, 0.39), 0.35, 0.03, TILE, 0.50, 0.40),
    "paint": Material((0.82, 0.82, 0.80), 0.90, 0.02, PLAIN),
    "car red": Material((0.48, 0.03, 0.03), 0.45, 3.00, PLAIN),
    "car blue": Material((0.04, 0.10, 0.36), 0.30, 3.00, PLAIN),
    "car white": Material((0.75, 0.75, 0.75), 0.80, 3.00, PLAIN),
    "sign": Material((0.75, 0.06, 0.05), 2.50, 4.00, PLAIN),
    "target": Material((0.95, 0.0, 0.95), 1.80, 0.50, PLAIN, glow=0.85),
    "grass": Material((0.16, 0.30, 0.08), 0.45, 0.06, SPECKLE, 0.10, 0.55),
    "concrete": Material((0.50, 0.49, 0.46), 0.40, 0.04, TILE, 0.60, 0.20),
    "smooth concrete": Material((0.42, 0.41, 0.40), 0.30, 0.03, PLAIN),
}
INDEX = {name: number for number, name in enumerate(MATERIALS)}


class MaterialTable(NamedTuple):
    """The materials as arrays for compiled kernels, by index. Fields and units as in `Material`."""

    colour: np.ndarray
    reflectivity: np.ndarray
    rcs: np.ndarray
    texture: np.ndarray
    grain: np.ndarray
    contrast: np.ndarray
    glow: np.ndarray


MATERIAL_TABLE = MaterialTable(
    *(np.array([getattr(m, name) for m in MATERIALS.values()]) for name in MaterialTable._fields)
)


@inlined
def _cell(i: int, j: int) -> float:
    """A fixed random number in [0, 1) for a cell of the integer grid, f4."""
    # Numbers of 32 bits are enough. Each step has to be one: vector instructions for longer ones take twice as long.
    along, across = u4(u4(i) * u4(374761393)), u4(u4(j) * u4(668265263))
    h = u4(along + across)
    h = u4(h ^ u4(h >> u4(13)))
    h = u4(h * u4(1274126177))
    h = u4(h ^ u4(h >> u4(16)))
    return f4(i4(h & u4(0xFFFF))) * f4(1.0 / 65536.0)


@inlined
def _noise(i: int, j: int, x: float, y: float) -> float:
    """Value noise: a smooth random field in [0, 1) with features of size 1, at (x, y), f4, in a cell. f4."""
    x, y = x * x * (f4(3.0) - f4(2.0) * x), y * y * (f4(3.0) - f4(2.0) * y)
    low = _cell(i, j) * (f4(1.0) - x) + _cell(i + 1, j) * x
    high = _cell(i, j + 1) * (f4(1.0) - x) + _cell(i + 1, j + 1) * x
    return low * (f4(1.0) - y) + high * y


@compiled
def _noise_along(
    u: np.ndarray, v: np.ndarray, scale_u: float, scale_v: float, count: int, cell: np.ndarray, inside: np.ndarray,
    out: np.ndarray,
) -> None:  # fmt: skip
    """Value noise of `count` points for `out`, f4 (N,), in loops without branches: vector instructions. `cell` and
    `inside`, i4 (2, N) and f4 (2, N), take the cells and the places in them."""
    for n in range(count):
        x, y = scale_u * u[n], scale_v * v[n]
        i, j = np.floor(x), np.floor(y)
        cell[0, n], cell[1, n] = i4(i), i4(j)
        inside[0, n], inside[1, n] = x - i, y - j
    # A loop on numbers of 32 bits only is twice as fast as one on both kinds.
    for n in range(count):
        out[n] = _noise(cell[0, n], cell[1, n], inside[0, n], inside[1, n])


# How dark textures are, f4, 0 to 1, given the noise at a point: at surface coordinates (u, v) in units of the grain.


@inlined
def _dark_plank(u: float, v: float, fibres: float) -> float:
    row = np.floor(v)
    along = u / 7.0 + _cell(i4(row), 3)
    plank = np.floor(along)
    joint = (v - row < 0.06) | (along - plank < 0.01)
    return 1.0 if joint else 0.5 * _cell(i4(row), i4(plank)) + 0.5 * fibres


@inlined
def _dark_brick(u: float, v: float, speckle: float) -> float:
    row = np.floor(3.0 * v)
    along = u + 0.5 * (i4(row) & 1)
    brick = np.floor(along)
    joint = (3.0 * v - row < 0.12) | (along - brick < 0.04)
    return 0.0 if joint else 0.35 + 0.45 * _cell(i4(brick), i4(row)) + 0.2 * speckle


@compiled
def shade_along(
    texture: int, grain: float, contrast: np.ndarray, u: np.ndarray, v: np.ndarray, count: int, rough: np.ndarray,
    cell: np.ndarray,
) -> None:  # fmt: skip
    """Replace the contrasts of `count` points by what their texture leaves of the surface's reflectivity there.

    Args:
        texture, grain: as in `Material`.
        contrast: f4 (N,), as in `Material`; becomes `1 - contrast` to 1.
        u, v: f8 (N,), surface coordinates, metres.
        rough, cell: f4 (4, N) and i4 (2, N), memory.
    """
    if texture == PLAIN:
        contrast[:count] = 1.0
        return
    fine, coarse, inside, per_metre = rough[0], rough[1], rough[2:], 1.0 / grain
    if texture == PLANK:
        _noise_along(u, v, 0.6 * per_metre, 9.0 * per_metre, count, cell, inside, fine)
        for n in range(count):
            contrast[n] = f4(1.0) - contrast[n] * f4(_dark_plank(u[n] * per_metre, v[n] * per_metre, fine[n]))
        return
    _noise_along(u, v, 4.1 * per_metre, 4.1 * per_metre, count, cell, inside, fine)
    _noise_along(u, v, per_metre, per_metre, count, cell, inside, coarse)
    for n in range(count):
        dark = f4(0.6) * coarse[n] + f4(0.4) * fine[n]
        if texture == STRIPE:
            dark = f4(0.75) * _cell(cell[0, n], 7) + f4(0.25) * dark
        elif texture == TILE:
            joint = (inside[0, n] < f4(0.035)) | (inside[1, n] < f4(0.035))
            dark = f4(1.0) if joint else f4(0.4) * _cell(cell[0, n], cell[1, n]) + f4(0.3) * dark
        elif texture == BRICK:
            dark = f4(_dark_brick(u[n] * per_metre, v[n] * per_metre, dark))
        contrast[n] = f4(1.0) - contrast[n] * dark
