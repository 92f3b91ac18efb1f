"""What moves leaves the map, and what stands stays."""

from __future__ import annotations

import io

import numpy as np
import pytest
from plyfile import PlyData

from tests.mapping.scene import INTERVAL, Scene, walk


def true_objects(scene: Scene, count: int) -> dict[str, np.ndarray]:
    """Channels of `_objects` that hold the bodies of the scene."""
    bodies = scene.rig.world.bodies
    found: dict[str, np.ndarray] = {
        "ts": scene.sweeps.ts,
        "count": np.full(count, len(bodies), "u2"),
        **{name: np.full((count, len(bodies) + 2, 3), np.nan, "f4") for name in ("centre", "extent", "vel")},
        "yaw": np.full((count, len(bodies) + 2), np.nan, "f4"),
    }
    for sweep in range(count):
        for row, body in enumerate(bodies):
            pos, rot, vel = body.at(0.4 + INTERVAL * sweep)
            middle, extent = body.box()
            ahead = rot[:, 0] @ scene.rotation
            found["centre"][sweep, row] = (pos + rot @ middle - scene.origin) @ scene.rotation
            found["extent"][sweep, row] = extent
            found["vel"][sweep, row] = vel @ scene.rotation
            found["yaw"][sweep, row] = np.arctan2(ahead[1], ahead[0])
    return found


def cloud(files: dict[str, bytes]) -> np.ndarray:
    """Points of map.ply, f8 (N, 3), and in the last column how many returns each stands for."""
    vertices = PlyData.read(io.BytesIO(files["map.ply"]))["vertex"].data
    return np.column_stack([vertices[name].astype("f8") for name in ("x", "y", "z", "count")])


def test_what_moves_leaves_the_map_and_what_stands_stays() -> None:
    scene = walk(16, bodies=True)
    objects = true_objects(scene, 16)
    (with_bodies, _), (without, figures) = (
        scene.build_map(every=1), scene.build_map(objects, every=1, remove_moving=True)
    )  # fmt: skip
    before, after = cloud(with_bodies), cloud(without)
    # Points farther from every body than a step are the same, and beside them only those of bodies are gone.
    boxes = objects["centre"][:, : len(scene.rig.world.bodies)].reshape(-1, 3)
    near_before, near_after = (
        np.linalg.norm(points[:, None, :2] - boxes[None, :, :2], axis=-1).min(axis=1) < 0.8
        for points in (before, after)
    )
    np.testing.assert_array_equal(before[~near_before], after[~near_after])
    lost = before[:, 3].sum() - after[:, 3].sum()
    assert lost == figures["returns_left_out"] > 100
    # A column of the space through which a body walked is empty above the ground.
    walked = [scene.in_scene(points[near, :3]) for points, near in ((before, near_before), (after, near_after))]
    path = np.array([scene.rig.world.bodies[0].at(0.4 + INTERVAL * sweep)[0] for sweep in range(16)])
    inside = [
        int((
            (np.linalg.norm(points[:, None, :2] - path[None, :, :2], axis=-1).min(axis=1) < 0.3)
            & (points[:, 2] > 0.3) & (points[:, 2] < 1.7)
        ).sum())
        for points in walked
    ]  # fmt: skip
    assert inside[0] > 50 and inside[1] < 0.1 * inside[0]


def test_things_that_were_never_seen_to_move_stay() -> None:
    scene = walk(4, bodies=True)
    objects = true_objects(scene, 4)
    objects["vel"][:] = np.where(np.isfinite(objects["vel"]), 0, np.nan)
    _, figures = scene.build_map(objects, every=1, remove_moving=True)
    assert figures["returns_left_out"] == 0


def test_objects_of_other_sweeps_are_an_error() -> None:
    scene = walk(4, bodies=True)
    objects = true_objects(scene, 4)
    objects["ts"] = objects["ts"] + 1
    with pytest.raises(ValueError, match=r"_objects/ts differs"):
        scene.build_map(objects, every=1, remove_moving=True)
