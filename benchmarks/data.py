"""Recordings to measure on: a few simulated frames at full size, repeated to any length."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path

import numpy as np

from rover_pipeline.format.channels.jpeg import MjpgChannel
from rover_pipeline.format.sensor import TS, TS_SPEC, VALID, VALID_SPEC, Sensor, SensorWriter
from rover_pipeline.format.trace import new_trace
from rover_pipeline.simulate.record import simulate

FOLDER = Path("/tmp/rover_pipeline_benchmarks")
START_S = 1.7e9


def simulated() -> Path:
    """Two seconds of the indoor preset: lidar 128x2048 at 10 Hz, radar 64x3x4x256 at 20 Hz."""
    path = FOLDER / "indoor"
    if not path.exists():
        simulate(path, preset="indoor", duration=2.0)
    return path


def lidar_recording(frames: int) -> Path:
    """A trace with a lidar of `frames` sweeps: the simulated ones, over and over."""
    source = Sensor(simulated() / "lidar")
    path = FOLDER / f"lidar{frames}"
    if path.exists():
        return path
    names = ("rng", "rfl", "nir")
    with new_trace(path) as trace:
        specs = {TS: TS_SPEC, **{name: source.specs[name] for name in names}}
        stored = {name: _encoded(source.path / name) for name in names}
        with SensorWriter(trace / "lidar", specs) as writer:
            writer.append(ts=START_S + np.arange(frames) / 10)
            for name in names:
                for i in range(frames):
                    writer.append(**{name: stored[name][i % len(stored[name])]})
        shutil.copy(source.path / "lidar.json", trace / "lidar" / "lidar.json")
        (trace / "config.yaml").touch()
    return path


def radar_recording(frames: int) -> Path:
    """A trace with a radar of `frames` frames: the simulated ones, over and over."""
    source = Sensor(simulated() / "radar")
    path = FOLDER / f"radar_{frames}"
    if path.exists():
        return path
    iq = source.channel("iq").read()
    with new_trace(path) as trace:
        specs = {TS: TS_SPEC, VALID: VALID_SPEC, "iq": source.specs["iq"]}
        with SensorWriter(trace / "radar", specs) as writer:
            for i in range(frames):
                writer.append(ts=START_S + i / 20, valid=1, iq=iq[i % len(iq)][None])
        shutil.copy(source.path / "radar.json", trace / "radar" / "radar.json")
        shutil.copy(source.path.parent / "config.yaml", trace / "config.yaml")  # it names the board
    return path


def camera_recording(frames: int) -> Path:
    """A trace with a camera of `frames` 1080p pictures: the simulated ones, over and over."""
    source = Sensor(simulated() / "camera")
    path = FOLDER / f"camera{frames}"
    if path.exists():
        return path
    video = source.channel("video.avi")
    assert isinstance(video, MjpgChannel)
    with new_trace(path) as trace:
        with SensorWriter(trace / "camera", {TS: TS_SPEC, "video.avi": source.specs["video.avi"]}) as writer:
            writer.append(ts=START_S + np.arange(frames) / 30)
            for i in range(frames):
                writer.append(**{"video.avi": video.jpeg(i % len(video))})
        shutil.copy(source.path / "camera.json", trace / "camera" / "camera.json")
        (trace / "config.yaml").touch()
    return path


def many_traces(count: int) -> Path:
    """A folder of traces that have the files of a recording but next to nothing in them, for dry runs."""
    path = FOLDER / f"many{count}"
    if path.exists():
        return path
    scratch = path.with_name(f"{path.name}.new")
    shutil.rmtree(scratch, ignore_errors=True)
    for i in range(count):
        trace = scratch / f"day{i // 100}" / f"t{i:04d}"
        for sensor, channels in {"lidar": ("rng", "rfl", "nir"), "radar": ("iq", "valid")}.items():
            (trace / sensor).mkdir(parents=True)
            for name in (TS, *channels):
                (trace / sensor / name).write_bytes(b"x")
            (trace / sensor / "meta.json").write_text(json.dumps({}))
        (trace / "config.yaml").touch()
    scratch.rename(path)
    return path


def _encoded(path: Path) -> list[bytes]:
    """The samples of an `lzmaf` channel as they are stored."""
    offsets = np.fromfile(path.with_name(f"{path.name}_i"), "<u8").astype(int)
    data = path.read_bytes()
    return [data[begin:end] for begin, end in itertools.pairwise(offsets)]
