"""A small recording that every format of datasets can be made of, and how to make one."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import yaml

from rover_pipeline.datasets.table import DATASETS
from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.export.dataset import export_dataset
from rover_pipeline.format.meta import ChannelSpec, read_meta, write_meta
from rover_pipeline.format.sensor import TS, TS_SPEC, Sensor, SensorWriter
from rover_pipeline.table import find_step
from tests.export.objects import write_objects
from tests.kit import small_trace, spec_of, write_odometry

#: Steps whose results the formats read, in the order in which they can be made.
_STEPS = ("_lidar_image", "_sync", "_camera_pose", "_radar_pose", "_radar_range_azimuth", "_radar_points")
#: Options of a format, where its own are made for longer recordings.
_OPTIONS: dict[str, dict[str, object]] = {
    "edgefirst": {"files": ["camera.jpeg", "radar.png", "radar.pcd", "lidar.pcd", "lidar.png"]},
    "nerfstudio": {"every": 1, "points": 0},
    "l5kit": {"rate": 50.0},
    "mda": {"sensor": "camera"},
    "rslearn": {"resolution": 2.0, "tile_px": 16, "every": 1},
}
#: Formats that need an optional library -> the library.
_NEEDS = {"edgefirst": "pyarrow", "rslearn": "rasterio"}
FORMATS = tuple(name for name in DATASETS if name not in _NEEDS or importlib.util.find_spec(_NEEDS[name]))


def dataset_trace(path: Path) -> Path:
    """A trace with all raw sensors, and with everything that the formats of `FORMATS` read."""
    trace = small_trace(path, 4, sensors=("lidar", "radar", "camera", "imu"))
    lens = {"fx": 9.0, "fy": 9.0, "cx": 12.0, "cy": 8.0, "k": [0.006, 0.008, -0.002, -0.023], "p": [0.0, 0.0]}
    (trace / "camera" / "camera.json").write_text(json.dumps(lens))
    turn = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    rig = {name: {"translation": [0.1, 0.0, -0.1], "rotation": turn} for name in ("radar", "imu", "camera")}
    config = yaml.safe_load((trace / "config.yaml").read_text())
    (trace / "config.yaml").write_text(json.dumps({**config, "rig": rig}))
    write_whole_odometry(trace)
    for name in _STEPS:
        run_step(find_step(name), trace, name, Request())
    _write_truth(trace)
    write_objects(trace)
    return trace


def _write_truth(trace: Path) -> None:
    """One body that walks past the lidar."""
    ts = Sensor(trace / "lidar").channel(TS).read()
    bodies = np.array([[[1.0 + t, 2.0, 0.0, 1.0, 0.0, 0.0]] for t in ts - ts[0]])
    with SensorWriter(trace / "_truth", {TS: TS_SPEC, "bodies": spec_of(bodies)}) as writer:
        writer.append(ts=ts, bodies=bodies)


def write_whole_odometry(trace: Path, *, invalid: tuple[int, ...] = ()) -> None:
    """A motion with all the channels that odometry makes."""
    write_odometry(trace, invalid=invalid)
    folder = trace / "_odom"
    specs = read_meta(folder)
    samples = (folder / "ts").stat().st_size // 8
    for name, output in find_step("_odom").outputs.items():
        shape = tuple(size or 1 for size in output.shape)
        spec = ChannelSpec(format="raw", type=output.type, shape=shape, desc=output.desc)
        if name not in specs:
            np.ones((samples, *shape), spec.dtype).tofile(folder / name)
        specs[name] = spec
    write_meta(folder, specs)


def make_dataset(name: str, trace: Path, out: Path) -> Path:
    """Export a trace to a format. Returns the folder of the dataset, which for `roverp` is the trace itself."""
    settings = {"splits": {"by": "recording"}, "options": _OPTIONS.get(name, {})}
    return export_dataset(name, [str(trace)], out, settings=settings)
