"""Voxels against a plain sum by numpy; in any order; doubled."""

from __future__ import annotations

import numpy as np
import pytest

from rover_pipeline.mapping.voxels import Cloud, PointTable, VoxelMap

EDGE = 0.05


def some(count: int = 20_000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    points = rng.normal(0, 1.5, (count, 3))
    points[::17] = np.nan
    return points, rng.integers(0, 256, count).astype("u1")


def mapped(*parts: tuple[np.ndarray, np.ndarray], most: int = 10**9) -> VoxelMap:
    whole = VoxelMap(EDGE, most)
    for points, rfl in parts:
        table = PointTable(EDGE)
        table.add(points, rfl)
        whole.merge(table.rows())
    return whole


def assert_equal(found: Cloud, wanted: Cloud) -> None:
    for one, other in zip(found, wanted, strict=True):
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("edge", [EDGE, 4 * EDGE])
def test_a_voxel_holds_the_mean_of_its_points_also_after_doubling(edge: float) -> None:
    points, rfl = some()
    good = np.isfinite(points[:, 0])
    voxels, which, count = np.unique(
        np.floor(points[good] / edge), axis=0, return_inverse=True, return_counts=True
    )  # fmt: skip
    which = which.reshape(-1)  # NumPy 2.0.0 gives it another axis
    mean = np.stack([np.bincount(which, points[good, n]) for n in range(3)], -1) / count[:, None]
    found = mapped((points, rfl), most=10**9 if edge == EDGE else len(voxels))
    assert found.edge == edge
    cloud = found.cloud()
    assert len(voxels) > 100
    np.testing.assert_array_equal(cloud.counts, count)
    np.testing.assert_allclose(cloud.xyz, mean, atol=EDGE / 1024)
    np.testing.assert_allclose(cloud.intensity, np.bincount(which, rfl[good]) / count, rtol=1e-6)


@pytest.mark.parametrize("most", [10**9, 3000])
def test_the_order_and_the_parts_in_which_points_come_change_nothing(most: int) -> None:
    points, rfl = some()
    parts = [(points[start : start + 3000], rfl[start : start + 3000]) for start in range(0, len(points), 3000)]
    wanted = mapped((points, rfl), most=most)
    for order in (parts, parts[::-1], parts[3:] + parts[:3]):
        found = mapped(*order, most=most)
        assert found.level == wanted.level
        assert_equal(found.cloud(), wanted.cloud())
    assert (wanted.level > 0) == (most == 3000)
