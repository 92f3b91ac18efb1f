"""Tiles of rays: what is computed for many rays at once is what each of them gets alone."""

from __future__ import annotations

import numpy as np
import pytest

from rover_pipeline.simulate import PRESETS
from rover_pipeline.simulate.rig import build
from rover_pipeline.simulate.scene.materials import BRICK, PLAIN, PLANK, SPECKLE, STRIPE, TILE, shade, shade_along
from rover_pipeline.simulate.scene.raycast import cull, nearest, pyramid
from rover_pipeline.simulate.scene.tiles import NOTHING, RAYS, first_hits


@pytest.mark.parametrize("preset", ["indoor", "park"])
def test_the_rays_of_a_tile_meet_what_each_of_them_meets_alone(preset: str) -> None:
    rig, random = build(PRESETS[preset], 0), np.random.default_rng(7)
    solids, everything = rig.world.at(3.0), np.arange(len(rig.world.parts))
    pos = rig.motion.at(np.array([3.0])).pos[0]
    candidates, bounds = np.empty(len(everything), "i8"), np.empty(len(everything))
    frame, spread = np.empty((3, 3)), np.empty(4)
    distance, index, kinds = np.empty(RAYS), np.empty(RAYS, "i8"), set()
    for _ in range(60):
        # Sixteen groups of rays, as the columns of a lidar that moves: each has its own origin and its own instant.
        origins, lags = pos + random.uniform(-0.02, 0.02, (16, 3)), random.uniform(-0.01, 0.01, 16)
        axis = random.standard_normal(3) * [1.0, 1.0, 0.4]
        rays = axis / np.linalg.norm(axis) + random.uniform(-0.15, 0.15, (RAYS, 3))
        rays = np.ascontiguousarray((rays / np.linalg.norm(rays, axis=1)[:, None]).T)
        rays[:, -5:] = np.nan
        assert pyramid(rays, frame, spread)
        slack = float(np.linalg.norm(origins - origins[0], axis=1).max())
        near = cull(solids, everything, origins[0], slack, frame, spread, 0.01, candidates, bounds)
        first_hits(solids, near, bounds, origins, lags, rays, distance, index)
        assert (index[-5:] == NOTHING).all()
        for n in range(0, RAYS - 5, 7):
            alone = nearest(solids, everything, origins[n // 16], np.ascontiguousarray(rays[:, n]), lags[n // 16])
            assert (distance[n], index[n]) == alone
            kinds.add(int(solids.kind[index[n]]) if index[n] >= 0 else NOTHING)
    assert len(kinds) >= 3


def test_a_texture_is_the_same_for_many_points_as_for_each_of_them() -> None:
    random = np.random.default_rng(3)
    u, v, contrast = random.uniform(-9, 9, 200), random.uniform(-9, 9, 200), random.random(200).astype("f4")
    for texture in (PLAIN, SPECKLE, BRICK, PLANK, TILE, STRIPE):
        shaded, memory = contrast.copy(), np.empty((2, 200))
        shade_along(texture, 0.3, shaded, u.copy(), v.copy(), 200, *memory)
        alone = [shade(texture, 0.3, float(c), x, y) for c, x, y in zip(contrast, u, v, strict=True)]
        np.testing.assert_allclose(shaded, alone, atol=1e-6)
        assert (np.ptp(shaded) > 0.3) == (texture != PLAIN)
