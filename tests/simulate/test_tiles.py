"""Tiles of rays: what is computed for many rays at once is what each of them gets alone."""

from __future__ import annotations

import numpy as np
import pytest

from rover_pipeline.simulate.presets import PRESETS
from rover_pipeline.simulate.rig import build
from rover_pipeline.simulate.scene.materials import BRICK, PLAIN, PLANK, SPECKLE, STRIPE, TILE, shade_along
from rover_pipeline.simulate.scene.raycast import NOTHING, RAYS, cull, first_hits, pyramid, visible
from tests.simulate.one_ray import nearest, shade


@pytest.mark.parametrize("preset", ["indoor", "park"])
def test_the_rays_of_a_tile_meet_what_each_of_them_meets_alone(preset: str) -> None:
    rig, random = build(PRESETS[preset], 0), np.random.default_rng(7)
    solids, everything = rig.world.at(3.0), np.arange(len(rig.world.parts))
    pos = rig.motion.at(np.array([3.0])).pos[0]
    candidates, bounds = np.empty(len(everything), "i8"), np.empty(len(everything))
    frame, spread = np.empty((3, 3)), np.empty(4)
    distance, index, kinds = np.empty(RAYS), np.empty(RAYS, "i8"), set()
    for _ in range(30):
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
        for n in range(0, RAYS - 5, 17):
            assert (distance[n], index[n]) == nearest(solids, origins[n // 16], rays[:, n], lags[n // 16])
            kinds.add(int(solids.kind[index[n]]) if index[n] >= 0 else NOTHING)
    assert len(kinds) >= 3


def test_points_are_visible_where_their_own_ray_meets_nothing_before_them() -> None:
    rig, random = build(PRESETS["park"], 0), np.random.default_rng(3)
    solids, eye = rig.world.at(3.0), rig.motion.at(np.array([3.0])).pos[0]
    # More points than a tile has rays; some are on what their ray meets, some before it or behind it.
    rays = random.standard_normal((RAYS + 44, 3)) * [1.0, 1.0, 0.2]
    rays /= np.linalg.norm(rays, axis=1)[:, None]
    met = np.array([nearest(solids, eye, ray, 0.0)[0] for ray in rays])
    at = np.minimum(met, 60.0) * random.choice([0.9, 1.0, 1.1], len(met))
    seen = visible(solids, eye, eye + at[:, None] * rays)
    np.testing.assert_array_equal(seen, met > at - 0.02)
    assert 0.2 < seen.mean() < 0.9


def test_a_texture_is_the_same_for_many_points_as_for_each_of_them() -> None:
    random = np.random.default_rng(3)
    u, v, contrast = random.uniform(-9, 9, 200), random.uniform(-9, 9, 200), random.random(200).astype("f4")
    for texture in (PLAIN, SPECKLE, BRICK, PLANK, TILE, STRIPE):
        shaded, rough, cell = contrast.copy(), np.empty((4, 200), "f4"), np.empty((2, 200), "i4")
        shade_along(texture, 0.3, shaded, u, v, 200, rough, cell)
        alone = [shade(texture, 0.3, float(c), x, y) for c, x, y in zip(contrast, u, v, strict=True)]
        np.testing.assert_allclose(shaded, alone, atol=1e-6)
        assert (np.ptp(shaded) > 0.3) == (texture != PLAIN)


def test_bounds_of_candidates_are_what_every_ray_has_to_go_at_least_and_no_ray_meets_what_is_no_candidate() -> None:
    rig, random = build(PRESETS["indoor"], 0), np.random.default_rng(11)
    solids, everything = rig.world.at(3.0), np.arange(len(rig.world.parts))
    eye, now = rig.motion.at(np.array([3.0])).pos[0], np.zeros(1)
    frame, spread, distance, index = np.empty((3, 3)), np.empty(4), np.empty(RAYS), np.empty(RAYS, "i8")
    later = 0
    for _ in range(20):
        axis = random.standard_normal(3) * [1.0, 1.0, 0.4]
        rays = axis / np.linalg.norm(axis) + random.uniform(-0.02, 0.02, (RAYS, 3))
        rays = np.ascontiguousarray((rays / np.linalg.norm(rays, axis=1)[:, None]).T)
        pyramid(rays, frame, spread)
        bounds = np.empty(len(everything))
        near = cull(solids, everything, eye, 0.0, frame, spread, 0.0, np.empty(len(everything), "i8"), bounds)
        for i in everything:
            first_hits(solids, np.array([i]), np.zeros(1), eye[None], now, rays, distance, index)
            found = np.flatnonzero(near == i)
            assert len(found) or np.isinf(distance).all()
            if len(found) and np.isfinite(distance.min()):
                assert bounds[found[0]] <= distance.min()
                # Nearer to a wall or the floor than its bound, as rays along it need longer than the way across.
                across = np.maximum(np.abs(solids.axes[i] @ (solids.centre[i] - eye)) - solids.half[i], 0)
                later += bool(bounds[found[0]] > np.linalg.norm(across) + 0.5)
    assert later > 20
