"""The points of the 3-D view are those of the map, where they are, within the step that they are rounded to."""

from __future__ import annotations

import base64
from pathlib import Path

import numpy as np
import pytest

from rover_pipeline.draw.map_view import View3d
from rover_pipeline.mapping.ply import ply
from rover_pipeline.report.read.motion import Track, read_view


def decoded(text: str, view: View3d) -> np.ndarray:
    numbers = np.frombuffer(base64.b64decode(text), "<u2").reshape(-1, 3)
    return np.array(view.low) + view.step * numbers


def track(pos: np.ndarray) -> Track:
    return Track(np.arange(len(pos), dtype="f8"), np.zeros(len(pos)), pos, np.ones(len(pos), bool))


def test_points_and_path_are_where_they_are_in_the_map(tmp_path: Path) -> None:
    xyz = np.random.default_rng(0).uniform([-30, 10, -2], [50, 40, 8], (5000, 3))
    (tmp_path / "map.ply").write_bytes(ply(xyz))
    path = np.linspace([0, 20, 0], [60, 20, 1], 400)  # leaves the map
    view = read_view(tmp_path, track(path))
    assert view is not None and (view.shown, view.whole) == (5000, 5000)
    found = decoded(view.points, view)
    order, wanted = np.lexsort(found.T[::-1]), xyz[np.lexsort(xyz.T[::-1])]
    np.testing.assert_allclose(np.sort(found, axis=0), np.sort(xyz, axis=0), atol=view.step)
    assert len(order) == len(wanted) and view.step < 0.002
    np.testing.assert_allclose(decoded(view.path, view), path, atol=view.step)
    assert view.ceiling == pytest.approx(1.6)


def test_a_large_map_takes_few_bytes_and_keeps_its_density_and_a_damaged_one_is_left_out(tmp_path: Path) -> None:
    near, far = np.random.default_rng(1).random((2, 150_000, 3))
    (tmp_path / "map.ply").write_bytes(ply(np.concatenate([near, far[:50_000] + 10])))
    view = read_view(tmp_path, None)
    assert view is not None and view.whole == 200_000
    assert len(view.points) + len(view.path) < 300_000
    assert (decoded(view.points, view)[:, 0] > 5).mean() == pytest.approx(0.25, abs=0.02)
    assert view.ceiling is None
    data = (tmp_path / "map.ply").read_bytes()
    for damaged in (
        b"",
        data[:40],
        data[:4000],
        data.replace(b"element vertex 200000", b"element vertex 2000000000000"),
    ):
        (tmp_path / "map.ply").write_bytes(damaged)
        assert read_view(tmp_path, None) is None
    (tmp_path / "map.ply").unlink()
    assert read_view(tmp_path, None) is None
