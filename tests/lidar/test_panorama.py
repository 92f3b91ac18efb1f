"""Images made of points have the beams and the shots of the lidar that the points came from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rover_pipeline.lidar.geometry import projection, sensor_info
from rover_pipeline.lidar.panorama import Panorama


def shots(elevations: np.ndarray, columns: int, distance: float) -> np.ndarray:
    """A sweep whose beams all hit something, f4 (point, 3), in random order."""
    azimuth, elevation = np.meshgrid(2 * np.pi * np.arange(columns) / columns, elevations)
    flat = np.cos(elevation)
    xyz = distance * np.stack([flat * np.cos(azimuth), flat * np.sin(azimuth), np.sin(elevation)], axis=-1)
    return np.random.default_rng(0).permutation(xyz.reshape(-1, 3).astype("f4"))


@pytest.mark.parametrize(("beams", "columns"), [(16, 1800), (32, 1088), (64, 2048)])
def test_rows_and_columns_are_those_of_the_lidar_also_where_half_of_the_sky_gives_no_returns(
    beams: int, columns: int
) -> None:
    elevations = np.radians(np.linspace(15, -15, beams))
    sweep = shots(elevations, columns, 20.0)
    azimuth, elevation = np.arctan2(sweep[:, 1], sweep[:, 0]), np.arcsin(sweep[:, 2] / 20)
    for sky in (np.zeros(len(sweep), bool), (np.abs(azimuth) < 1.5) & (elevation > 0)):
        seen = np.concatenate([sweep[~sky], 2 * sweep[~sky]])  # two returns of each beam
        found = Panorama.of([seen, np.full((10, 3), np.nan, "f4")])
        assert found is not None
        assert len(found.elevation) == pytest.approx(beams, rel=0.05)
        assert found.columns == pytest.approx(columns, rel=0.03)
        np.testing.assert_allclose(found.elevation[[0, -1]], elevations[[0, -1]], atol=np.radians(0.2))
        image = found.image(seen)
        hit = image[image > 0]
        np.testing.assert_allclose(hit, 20_000, atol=1)  # the nearer one of both returns
        assert np.count_nonzero(image) > 0.93 * (~sky).sum()


def test_ranges_of_an_image_are_projected_to_where_the_points_are() -> None:
    sweep = shots(np.radians(np.linspace(10, -20, 40)), 1024, 8.0) * np.array([1.0, 0.7, 1.0], "f4")
    sweep += np.array([0.3, 0.2, 0.0], "f4")
    panorama = Panorama.of([sweep])
    assert panorama is not None
    image, metadata = panorama.image(sweep), panorama.metadata()
    assert sensor_info(metadata).format.pixels_per_column == len(panorama.elevation)
    places = projection(metadata)(image.astype("u4"))[image > 0]
    apart = np.array([np.linalg.norm(sweep - place, axis=1).min() for place in places[::97]])
    # Half of a pixel in both directions at 8 m.
    assert apart.max() < 8.5 * np.hypot(np.pi / panorama.columns, panorama.tilt / 2) + 0.01
    ahead = image[:, panorama.columns // 2]
    assert np.median(ahead[ahead > 0]) > 7000 and image[:, 0].any()


def test_a_real_sweep_of_64_beams_fills_its_image(captures: Path) -> None:
    sweep = np.load(captures / "lidar_hdl64_straight" / "0000000000.npz")["xyz_mm"].astype("f4") / 1000
    panorama = Panorama.of([sweep])
    assert panorama is not None
    assert 45 <= len(panorama.elevation) <= 80 and 1600 <= panorama.columns <= 2048
    image = panorama.image(sweep)
    assert np.count_nonzero(image) > 0.6 * len(sweep)


def test_a_sweep_without_points_makes_no_image() -> None:
    assert Panorama.of([np.full((5, 3), np.nan, "f4"), np.zeros((4, 3), "f4")]) is None
    flat = Panorama.of([np.array([[1.0, 0.01 * i, 0.0] for i in range(50)], "f4")])
    assert flat is not None and np.count_nonzero(flat.image(np.array([[1.0, 0.0, 0.0]]))) == 1
