"""Exports of recordings whose world is tilted: boxes stand upright in them, and what is flat lies in x and y."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from rover_pipeline.datasets.options import SplitOptions
from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.export.dataset import export_dataset
from rover_pipeline.export.l5kit.dataset import read_whole
from rover_pipeline.export.l5kit.records import AGENT, FRAME
from rover_pipeline.export.objects import ObjectReader, Objects, enclosing, world_up
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.kinematics.state import Poses
from rover_pipeline.mapping.floor import levelling
from rover_pipeline.mapping.ply import ply, read_ply
from rover_pipeline.table import find_step
from tests.export.rules import problems
from tests.export.street import object_channels, rig_state, street, times, write_sensor

#: The frame of a lidar that leans by 12 degrees, of one that lies on its side, and of one that hangs upside down.
TILTS = {"leans": [20, 12, 0], "lies": [-50, 5, 89.9], "hangs": [35, 0, 180]}


def tilted_street(path: Path, world: np.ndarray) -> Path:
    """The recording of the street in a world whose axes are the columns of `world`, (3, 3). The person is wider than
    long, and the car's box is described in one way."""
    street(path, objects=False)
    ts = times(8.0)
    state = rig_state(ts)
    state |= {name: state[name] @ world for name in ("pos", "vel", "acc")} | {"rot": world.T @ state["rot"]}
    shutil.rmtree(path / "_odom")
    write_sensor(path / "_odom", ts, np.ones(len(ts), "u1"), state)
    (path / "_odom" / "up.json").write_text(json.dumps({"up": world[2].tolist()}))
    boxes = object_channels(ts)
    person = boxes["track"] == 7
    boxes["extent"][person], boxes["extent"][boxes["track"] == 41] = (0.3, 0.6, 1.75), (4.4, 1.8, 1.6)
    boxes["yaw"][boxes["track"] == 41] = 0.5
    ahead = np.stack([np.cos(boxes["yaw"]), np.sin(boxes["yaw"]), 0 * boxes["yaw"]], -1) @ world
    boxes |= {name: (boxes[name] @ world).astype("f4") for name in ("centre", "vel")}
    boxes["yaw"] = np.arctan2(ahead[..., 1], ahead[..., 0]).astype("f4")
    write_sensor(path / "_objects", ts, np.ones(len(ts), "u1"), boxes)
    return path


@pytest.mark.parametrize("tilt", [[0, 0, 0], *TILTS.values()], ids=["level", *TILTS])
def test_agents_head_where_they_go_and_are_as_far_away_as_on_the_ground(tilt: list[float], tmp_path: Path) -> None:
    world = Rotation.from_euler("ZYX", tilt, degrees=True).as_matrix()
    splits = SplitOptions(by="recording", train=1, validation=0, test=0).model_dump()
    out = tmp_path / "street.zarr"
    export_dataset("l5kit", [str(tilted_street(tmp_path / "street", world))], out, settings={"splits": splits})
    frames, agents = read_whole(out / "frames", FRAME), read_whole(out / "agents", AGENT)
    truth = rig_state(frames["timestamp"] / 1e9)
    assert np.abs(frames["ego_translation"][:, 2] - truth["pos"][:, 2]).max() < 1e-4, "z is up"
    assert np.abs(frames["ego_rotation"][:, 2, 2] - 1).max() < 1e-6
    way, true = (
        np.linalg.norm(np.diff(pos[:, :2], axis=0), axis=1).sum() for pos in (frames["ego_translation"], truth["pos"])
    )
    assert abs(way / true - 1) < 1e-4
    turn = agents["yaw"] - np.arctan2(agents["velocity"][:, 1], agents["velocity"][:, 0])
    assert np.abs((turn + np.pi) % (2 * np.pi) - np.pi).max() < 2e-3
    person = agents["extent"][:, 2] > 1.7
    assert person.sum() > 60 and np.allclose(agents["extent"][person], [0.3, 0.6, 1.75])
    assert np.allclose(np.linalg.norm(agents["velocity"][person], axis=1), 1.3, atol=1e-4)
    assert np.allclose(agents["extent"][~person], [4.4, 1.8, 1.6])


@pytest.mark.parametrize("tilt", TILTS.values(), ids=TILTS)
def test_a_box_along_the_axes_of_a_tilted_lidar_holds_the_whole_body(tilt: list[float], tmp_path: Path) -> None:
    world = Rotation.from_euler("ZYX", tilt, degrees=True).as_matrix()
    reader = ObjectReader(tilted_street(tmp_path / "street", world))
    level = levelling(reader.up)
    boxes = reader.read(30, 31, reader.ts).levelled(reader.up, level)
    odom = Sensor(tmp_path / "street" / "_odom")
    pose = Poses(odom.channel("rot").sample(30), odom.channel("pos").sample(30))
    found = enclosing(boxes, pose.rotated(level))
    state, ts = rig_state(times(8.0)[30:31]), times(8.0)
    given = object_channels(ts)
    for row, track in enumerate(boxes.track.tolist()):
        at = int(np.flatnonzero(given["track"][30] == track)[0])
        yaw = 0.5 if track == 41 else given["yaw"][30, at]
        corners = np.stack(np.meshgrid(*[[-0.5, 0.5]] * 3), -1).reshape(-1, 3) * boxes.extent[row]
        upright = corners @ Rotation.from_euler("z", yaw).as_matrix().T + given["centre"][30, at]
        seen = (upright - state["pos"][0]) @ state["rot"][0]
        low, high = seen.min(0), seen.max(0)
        np.testing.assert_allclose(found[row], [*(low + high) / 2, *(high - low)], atol=2e-3)


def test_a_heading_is_known_however_the_world_is_turned() -> None:
    rng = np.random.default_rng(0)
    for turn in Rotation.random(200, rng=rng):
        world, yaw = turn.as_matrix(), rng.uniform(-np.pi, np.pi, 20)
        ahead = np.stack([np.cos(yaw), np.sin(yaw), 0 * yaw], 1) @ world
        given = np.arctan2(ahead[:, 1], ahead[:, 0])
        zero = np.zeros((20, 3))
        boxes = Objects(zero[:, 0], zero, zero, given, ahead, zero[:, 0], zero)
        found = boxes.levelled(world[2], levelling(world[2]))
        heads = np.arctan2(found.vel[:, 1], found.vel[:, 0])
        assert np.abs(found.vel[:, 2]).max() < 1e-9
        assert np.abs((found.yaw - heads + np.pi) % (2 * np.pi) - np.pi).max() < 1e-6


def test_the_floor_of_the_boxes_comes_before_gravity(tmp_path: Path) -> None:
    trace = tilted_street(tmp_path / "street", Rotation.from_euler("y", 12, degrees=True).as_matrix())
    by_gravity = world_up(trace, boxes=True)
    np.testing.assert_allclose(by_gravity, world_up(trace))
    measured = {"made_by": "rover_pipeline", "measured": {"up": [0.2, 0.0, np.sqrt(0.96)]}}
    (trace / "_objects" / "provenance.json").write_text(json.dumps(measured))
    np.testing.assert_allclose(world_up(trace, boxes=True), measured["measured"]["up"])  # type: ignore[index]
    np.testing.assert_allclose(world_up(trace), by_gravity)


def test_a_scene_of_a_lidar_that_hangs_has_cameras_and_points_the_right_way_up(drive: Path, tmp_path: Path) -> None:
    trace, hangs = tmp_path / "walk", np.diag([1.0, -1.0, -1.0])
    shutil.copytree(drive, trace)
    (trace / "_map").mkdir()
    points = np.array([[3.0, 0.5, 1.0], [4.0, -1.0, 0.2], [5.0, 0.3, -0.4]])
    found = []
    for number, (world, up) in enumerate([(np.eye(3), 1.0), (hangs, -1.0)]):
        shutil.rmtree(trace / "_camera_pose", ignore_errors=True)
        run_step(find_step("_camera_pose"), trace, "_camera_pose", Request())
        pose = Sensor(trace / "_camera_pose")
        turned = {"pos": pose.channel("pos").read() @ world, "rot": world.T @ pose.channel("rot").read()}
        ts, valid = pose.channel("ts").read(), pose.channel("valid").read()
        shutil.rmtree(trace / "_camera_pose")
        write_sensor(trace / "_camera_pose", ts, valid, turned)
        (trace / "_map" / "map.ply").write_bytes(ply(points @ world))
        (trace / "_odom" / "up.json").write_text(json.dumps({"up": [0.0, 0.0, up]}))
        out = export_dataset(
            "nerfstudio", [str(trace)], tmp_path / f"scene{number}", settings={"options": {"every": 2}}
        )
        assert list(problems("nerfstudio", out)) == []
        found.append([each["transform_matrix"] for each in json.loads((out / "transforms.json").read_text())["frames"]])
        np.testing.assert_allclose(read_ply(out / "seed.ply")[0], points, atol=1e-6)
    np.testing.assert_allclose(found[0], found[1], atol=1e-9)
