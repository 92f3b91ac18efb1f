"""A recording with images and samples as one whose lidar and radar send points."""

from __future__ import annotations

import json
import shutil
from fnmatch import fnmatch
from pathlib import Path

import numpy as np

from rover_pipeline.format.sensor import TS, TS_SPEC, VALID, VALID_SPEC, Sensor, SensorWriter
from rover_pipeline.importers.points import Cloud, PointsWriter
from rover_pipeline.lidar.geometry import returns, sensor_info, sweep_span
from tests.kit import spec_of


def lidar_of_points(images: Path, lidar: Path) -> None:
    """Write the sensor `lidar` with the returns of another recording, in random order, each with its instant."""
    source, text = Sensor(images / "lidar"), (images / "lidar" / "lidar.json").read_text()
    count, columns = source.length(), source.specs["rng"].shape[1]
    begin, period = sweep_span(sensor_info(text), "end")
    with PointsWriter(lidar, unit="0 to 255") as writer:
        for number, (ts, valid) in enumerate(zip(source.times(count), source.valid(count), strict=True)):
            rng, rfl = (source.channel(name).read(number, number + 1)[0] for name in ("rng", "rfl"))
            points, column = returns(rng, text)
            bright, since = rfl[(rng > 0) & (rng < 65535)], begin + period * column / columns
            order = np.random.default_rng(number).permutation(len(points))
            writer.append(ts, Cloud(points[order], bright[order], time=since[order]), valid=bool(valid))


def radar_of_points(samples: Path, radar: Path, strength: str = "intensity") -> None:
    """Write the sensor `radar` with the `_radar_points` of another recording, as `import ros` does."""
    source = Sensor(samples / "_radar_points")
    count = source.length()
    channels = {name: source.channel(name).read() for name in ("xyz", "doppler", "count")}
    channels[strength] = 10 * source.channel("snr").read()
    specs = {TS: TS_SPEC, VALID: VALID_SPEC, **{name: spec_of(values) for name, values in channels.items()}}
    with SensorWriter(radar, specs) as writer:
        writer.append(ts=source.times(count), valid=source.valid(count), **channels)
    described = {"max_points": channels["xyz"].shape[1], "doppler_resolution": None, "source": "a test"}
    (radar / "points.json").write_text(json.dumps(described))


def of_points(recording: Path, out: Path, *, radar: bool = True) -> Path:
    """The same recording, with its `_odom`, truth and camera, whose lidar, and radar, send points."""
    kept = ("_odom", "_truth*", "camera", "imu", *(() if radar else ("radar",)))
    out.mkdir(parents=True)
    shutil.copy(recording / "config.yaml", out)
    for folder in recording.iterdir():
        if any(fnmatch(folder.name, pattern) for pattern in kept):
            shutil.copytree(folder, out / folder.name)
    lidar_of_points(recording, out / "lidar")
    if radar:
        radar_of_points(recording, out / "radar")
    return out
