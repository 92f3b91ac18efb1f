"""Exports of datasets as the fault campaign disturbs them: a small recording with everything that a format reads."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np

from rover_pipeline.datasets.table import DATASETS
from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.export import dataset
from rover_pipeline.export.dataset import export_dataset
from rover_pipeline.format.sensor import TS, TS_SPEC, VALID, VALID_SPEC, SensorWriter
from rover_pipeline.mapping.ply import ply
from rover_pipeline.table import find_step
from tests.export.street import object_channels, write_sensor
from tests.kit import small_trace, spec_of, times, write_odometry

FRAMES = 14
_STEPS = ("_sync", "_radar_pose", "_camera_pose", "_radar_points", "_camera_depth", "_radar_range_azimuth")
#: The number of samples in a part of an export, so that a small recording has several parts.
_PART_ITEMS = 4
_OPTIONS: dict[str, dict[str, object]] = {
    "nerfstudio": {"every": 1, "points": 100},
    "rslearn": {"slice_s": 0.4, "every": 1, "tile_px": 64, "resolution": 0.5, "min_share": 1e-3},
    "mda": {"period": 0.2},
}
#: Below the folder in which the work is done.
RECORDING, RESULT = "rec", "new/out"


def prepare(folder: Path) -> None:
    """Make a recording with all that any of the formats reads."""
    trace = small_trace(folder / RECORDING, FRAMES, sensors=("lidar", "radar", "camera"), invalid={})
    write_odometry(trace)
    lens = {"fx": 9.0, "fy": 9.0, "cx": 11.5, "cy": 7.5, "k": [0.006, 0.008, -0.002, -0.023], "p": [0, 0]}
    (trace / "camera" / "camera.json").write_text(json.dumps(lens))
    run_step(find_step("_lidar_image"), trace, "_lidar_image", Request())
    for step in _STEPS:
        run_step(find_step(step), trace, step, Request())
    write_sensor(trace / "_objects", times(FRAMES), np.ones(FRAMES, "u1"), object_channels(times(FRAMES)))
    (trace / "_map").mkdir()
    (trace / "_map" / "map.ply").write_bytes(ply(np.random.default_rng(0).uniform(-5, 5, (300, 3))))
    labels = (np.arange(FRAMES * 32 * 64) % 8).reshape(FRAMES, 32, 64).astype("u1")
    with SensorWriter(trace / "_camera_model", {TS: TS_SPEC, VALID: VALID_SPEC, "labels": spec_of(labels)}) as writer:
        writer.append(ts=times(FRAMES), valid=np.ones(FRAMES, "u1"), labels=labels)
    (trace / "_camera_model" / "classes.json").write_text(json.dumps(["ceiling", "flat"]))


def run(name: str, folder: Path, stamp: str, threads: int) -> None:
    """Export the recording. Another stamp gives another dataset, which replaces the one that is there."""
    dataset.PART_ITEMS = _PART_ITEMS
    seed = int(stamp != ".options-0")
    splits: dict[str, object] = {"block_s": 0.4, "gap_s": 0.0, "seed": seed} if DATASETS[name].splits else {}
    options = _OPTIONS.get(name, {})
    if name == "l5kit":
        splits, options = {"by": "recording", "seed": seed}, {"min_frames": 2}
    export_dataset(
        name,
        [str(folder / RECORDING)],
        folder / RESULT,
        settings={"splits": splits, "options": options},
        threads=threads,
        replace=True,
        stamp=stamp,
    )


def runner(name: str) -> partial[None]:
    """`run` of one format."""
    return partial(run, name)
