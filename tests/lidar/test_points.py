"""Points of sweeps: those of ouster-sdk, NaN without a return, and without the motion after a deskew."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ouster.sdk import core

from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.lidar.options import PointsOptions
from rover_pipeline.lidar.points_step import points
from rover_pipeline.simulate.presets import PRESETS
from rover_pipeline.simulate.rig import build
from rover_pipeline.table import find_step
from tests.kit import ouster_metadata


def images(beams: int, columns: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    ranges = rng.integers(300, 60_000, (3, beams, columns)).astype("u2")
    ranges[:, :, ::5], ranges[:, :, 1::7] = 0, 65535
    return {"rng": ranges, "rfl": (ranges % 251).astype("u1"), "nir": ranges // 3}


def projected(beams: int, metadata: str) -> dict[str, np.ndarray]:
    """Points of the images, without undoing any motion."""
    given = images(beams, 512)
    return points(given["rng"], given["rfl"], given["nir"], np.zeros(3), options=PointsOptions(), metadata=metadata)


def old_firmware(metadata: dict[str, Any]) -> dict[str, Any]:
    """The metadata as sensors wrote it before firmware 2.0: one level, and the beams' offset as a single length."""
    flat = {key: value for section in metadata.values() for key, value in section.items()}
    for key in ("beam_to_lidar_transform", "udp_profile_lidar", "column_window"):
        flat.pop(key)
    return {**flat, "data_format": {k: v for k, v in metadata["lidar_data_format"].items() if k != "udp_profile_lidar"}}


@pytest.mark.parametrize("beams", [8, 64])
def test_points_are_those_of_ouster_sdk_and_nan_without_a_return(beams: int) -> None:
    text = json.dumps(ouster_metadata(beams, 512))
    found = projected(beams, text)
    ranges = images(beams, 512)["rng"]
    project = core.XYZLut(core.SensorInfo(text), use_extrinsics=False)
    for sweep, image in zip(found["xyz"], ranges, strict=True):
        gone = (image == 0) | (image == 65535)
        assert np.isnan(sweep[gone]).all()
        np.testing.assert_allclose(sweep[~gone], project(image.astype("u4"))[~gone], atol=2e-5)
    np.testing.assert_array_equal(found["rfl"], images(beams, 512)["rfl"])
    np.testing.assert_array_equal(found["nir"], images(beams, 512)["nir"])


def test_the_sidecar_of_old_firmware_gives_the_same_points() -> None:
    metadata = ouster_metadata(64, 512)
    new = projected(64, json.dumps(metadata))
    old = projected(64, json.dumps(old_firmware(metadata)))
    np.testing.assert_allclose(old["xyz"], new["xyz"], atol=2e-5)


@pytest.mark.parametrize("compensate", [False, True])
def test_a_ceiling_is_flat_only_after_a_deskew(compensate: bool, drive: Path) -> None:
    name = f"_lidar_points_{compensate}"
    run_step(find_step("_lidar_points"), drive, name, Request({"compensate": compensate}))
    made, truth = Sensor(drive / name), Sensor(drive / "_odom")
    assert made.channel("valid").read().all()
    first = build(PRESETS["tiny"], 1).motion.at(np.array([0.137]))
    off = []
    for frame in range(14, 24):
        xyz = made.channel("xyz").read(frame, frame + 1)[0]
        pos, rot = (truth.channel(key).read(frame, frame + 1)[0] for key in ("pos", "rot"))
        x, y, height = np.moveaxis((xyz @ rot.T + pos) @ first.rot[0].T + first.pos[0], -1, 0)
        inside = (x > 0.1) & (x < 7.8) & (y > 2.3) & (y < 7.9) & (np.abs(height - 2.7) < 0.1)
        lamp = (abs(x - 4.0) < 0.7) & (abs(y - 5.0) < 0.3)
        off.append(height[inside & ~lamp] - 2.7)
    spread = np.concatenate(off).std()
    assert len(np.concatenate(off)) > 10_000
    assert spread < 0.0045 if compensate else spread > 0.006


def test_deskewed_sweeps_without_a_known_motion_are_not_valid(drive: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    for name in ("lidar", "_odom"):
        shutil.copytree(drive / name, trace / name)
    valid = np.ones(24, "u1")
    valid[[5, 6]] = 0
    (trace / "_odom" / "valid").write_bytes(valid.tobytes())
    run_step(find_step("_lidar_points"), trace, "_lidar_points", Request({"compensate": True}))
    np.testing.assert_array_equal(Sensor(trace / "_lidar_points").channel("valid").read(), valid)
