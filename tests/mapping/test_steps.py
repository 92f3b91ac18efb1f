"""The step `_map`: its result is whole or absent and the same for any number of threads, and bad inputs are errors."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest
from plyfile import PlyData

from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.errors import RoverError
from rover_pipeline.format.provenance import PROVENANCE, omission, read_provenance
from rover_pipeline.format.sensor import TS, TS_SPEC, VALID, VALID_SPEC, Sensor, SensorWriter
from rover_pipeline.table import find_step
from rover_pipeline.validation.check import problems
from tests.kit import STAMP, WHOLE, check_virtual_sensor, small_trace, spec_of, write_lidar_image
from tests.references import check_reference

STEP = "_map"


def trace_with_odometry(path: Path, frames: int = 6, invalid: tuple[int, ...] = (3,)) -> Path:
    """The small trace, whose lidar moves along x at 1 m/s and rotates to the left at 0.5 rad/s."""
    trace = small_trace(path, frames)
    ts = Sensor(trace / "lidar").times(frames)
    angle = 0.5 * (ts - ts[0])
    cos, sin, zero, one = np.cos(angle), np.sin(angle), np.zeros(frames), np.ones(frames)
    rot = np.stack([cos, -sin, zero, sin, cos, zero, zero, zero, one], -1).reshape(frames, 3, 3)
    arrays = {
        "pos": np.outer(ts - ts[0], [1.0, 0, 0]),
        "rot": rot,
        "vel": np.tile([1.0, 0, 0], (frames, 1)),
        "acc": np.zeros((frames, 3)),
        "avel": np.tile([0, 0, 0.5], (frames, 1)),
    }
    valid = np.ones(frames, "u1")
    valid[list(invalid)] = 0
    specs = {TS: TS_SPEC, VALID: VALID_SPEC, **{name: spec_of(array) for name, array in arrays.items()}}
    with SensorWriter(trace / "_odom", specs) as writer:
        writer.append(**{TS: ts, VALID: valid}, **arrays)
    write_lidar_image(trace)
    return trace


def test_a_map_obeys_the_contract(tmp_path: Path) -> None:
    trace = trace_with_odometry(tmp_path / "trace")
    options = {"every": 1, "lidar_height": 1.5, "max_range": 10.0, "resolution": 0.2, "voxel": 0.5}
    check_virtual_sensor(STEP, trace, "_map", options, kills=6 if WHOLE else 0)


def test_maps_change_only_with_the_version_of_the_step(tmp_path: Path) -> None:
    trace = trace_with_odometry(tmp_path / "trace")
    run_step(find_step(STEP), trace, "_map", Request({"every": 1}))
    vertices = PlyData.read(str(trace / "_map" / "map.ply"))["vertex"].data
    arrays = {name: np.array(vertices[name]) for name in vertices.dtype.names}
    cells = cv2.imread(str(trace / "_map" / "occupancy.pgm"), cv2.IMREAD_UNCHANGED)
    assert cells is not None
    check_reference("_map", {**arrays, "cells": cells})


def test_a_map_that_no_sweep_gives_is_left_out_with_the_reason_and_replaces_an_older_one(tmp_path: Path) -> None:
    trace = trace_with_odometry(tmp_path / "trace")
    assert run_step(find_step(STEP), trace, "_map", Request({"every": 1})).omitted == ""
    shutil.rmtree(trace / "_odom")
    shutil.copytree(trace_with_odometry(tmp_path / "bad", invalid=tuple(range(6))) / "_odom", trace / "_odom")
    result = run_step(find_step(STEP), trace, "_map", Request(), stamps=(STAMP,))
    assert result.omitted == "none of 6 sweeps is valid in lidar and _odom: a map needs poses"
    assert sorted(os.listdir(trace / "_map")) == [STAMP, PROVENANCE], "a map of other poses must not stay"
    assert omission(read_provenance(trace / "_map")) == result.omitted
    assert [line for line in problems(trace) if "/_map" in line and "/_lidar_image" not in line] == []


def test_odometry_of_other_sweeps_is_an_error(tmp_path: Path) -> None:
    trace = trace_with_odometry(tmp_path / "trace")
    other = trace_with_odometry(tmp_path / "other", frames=5)
    shutil.rmtree(trace / "_odom")
    shutil.copytree(other / "_odom", trace / "_odom")
    with pytest.raises(RoverError, match=r"_odom/ts differs from that of the lidar"):
        run_step(find_step(STEP), trace, "_map", Request())
    assert not (trace / "_map").exists()
