"""The page of a ten-minute recording with every default output, in a process of its own: `python -m benchmarks.report`.

The recording has the files of the `indoor` preset at full length. They are sparse: real frames stand where the page
looks, which is all that it reads of the large channels.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import struct
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from benchmarks.data import FOLDER, START_S, simulated
from benchmarks.measure import print_versions, run
from benchmarks.results import record
from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.format.channels.jpeg import MjpgChannel
from rover_pipeline.format.meta import ChannelSpec, write_meta
from rover_pipeline.format.sensor import TS, TS_SPEC, VALID, VALID_SPEC, Sensor
from rover_pipeline.format.trace import new_trace
from rover_pipeline.report.templating import PAGE, REPORT, SUMMARY
from rover_pipeline.table import find_step

STEP = "_report"
RATES = {"lidar": 10, "radar": 20, "camera": 30, "imu": 100}
#: What the page shows by default: frames near the middle of each sixth.
INSTANTS = 6
STEPS = {
    "_lidar_image": "_lidar_image",
    "_radar_range_doppler": "_radar_range_doppler",
    "_radar_range_azimuth": "_radar_range_azimuth",
    "_radar_points": "_radar_points",
    "_radar_velocity": "_radar_velocity",
}


def long_recording(seconds: int) -> Path:
    """A recording of the indoor preset with its default outputs, `seconds` long."""
    path = FOLDER / f"report{seconds}"
    if path.exists():
        return path
    source = simulated()
    for made, step in STEPS.items():
        if not (source / made).exists():
            run_step(find_step(step), source, made, Request(), threads=2)
    rng = np.random.default_rng(0)
    times = {name: _times(rng, rate, seconds) for name, rate in RATES.items()}
    with new_trace(path) as trace:
        shutil.copy(source / "config.yaml", trace / "config.yaml")
        for name, ts in times.items():
            _stretch(source / name, trace / name, ts, rng)
        for made in STEPS:
            _stretch(source / made, trace / made, times[made.split("_")[1]], rng)
        _moved(trace, times, rng)
    return path


def _times(rng: np.random.Generator, rate: int, seconds: int) -> np.ndarray:
    """Times with jitter and some samples lost."""
    ts = START_S + rng.uniform(0, 0.1) + np.arange(seconds * rate) / rate + rng.normal(0, 2e-4, seconds * rate)
    return np.sort(ts[rng.random(len(ts)) > 0.001])


def _stretch(source: Path, target: Path, ts: np.ndarray, rng: np.random.Generator) -> None:
    """A sensor with as many samples as `ts`, most of them holes in the files."""
    sensor = Sensor(source)
    target.mkdir()
    specs = {**sensor.specs, VALID: VALID_SPEC}
    for name, spec in sensor.specs.items():
        if name in (TS, VALID):
            continue
        if spec.format == "raw":
            _sparse_raw(target / name, spec, sensor.channel(name).read(), len(ts))
        elif spec.format == "lzmaf":
            # Nothing decodes it: the page shows the destaggered images.
            sizes = np.diff(np.fromfile(source / f"{name}_i", "<u8").astype(int))
            offsets = np.concatenate([[0], np.cumsum(np.resize(sizes, len(ts)))]).astype("<u8")
            offsets.tofile(target / f"{name}_i")
            os.truncate(_touched(target / name), int(offsets[-1]))
        else:
            _sparse_avi(target / name, MjpgChannel(source / name, spec), len(ts))
    ts.astype("<f8").tofile(target / TS)
    (rng.random(len(ts)) > 0.01).astype("u1").tofile(target / VALID)
    for file in source.glob("*.json"):
        if file.name not in ("meta.json", "provenance.json"):
            shutil.copy(file, target / file.name)
    provenance = source / "provenance.json"
    if provenance.exists():
        content = {**json.loads(provenance.read_text()), "inputs": {}, "samples": len(ts)}
        (target / "provenance.json").write_text(json.dumps(content))
    write_meta(target, specs)


def _looked_at(count: int) -> np.ndarray:
    """Samples near those that the page shows."""
    middles = (np.arange(INSTANTS) + 0.5) / INSTANTS * count
    return np.unique(np.concatenate([np.arange(-40, 40) + int(at) for at in middles]).clip(0, count - 1))


def _sparse_raw(path: Path, spec: ChannelSpec, real: np.ndarray, count: int) -> None:
    small = spec.sample_bytes <= 1 << 12
    with path.open("wb") as file:
        for at in range(count) if small else _looked_at(count):
            file.seek(int(at) * spec.sample_bytes)
            file.write(real[int(at) % len(real)].tobytes())
        file.truncate(count * spec.sample_bytes)


def _sparse_avi(path: Path, source: MjpgChannel, count: int) -> None:
    """Chunks of an AVI, each with its header; their content is there for the frames that are looked at."""
    size = max(len(source.jpeg(i)) for i in range(len(source)))
    size += size % 2
    seen = set(_looked_at(count).tolist())
    with path.open("wb") as file:
        file.write(b"RIFF" + struct.pack("<I", 0) + b"AVI LIST" + struct.pack("<I", 0) + b"movi")
        begin = file.tell()
        for at in range(count):
            file.seek(begin + at * (8 + size))
            file.write(b"00dc" + struct.pack("<I", size))
            if at in seen:
                file.write(source.jpeg(at % len(source)).ljust(size, b"\0"))
        file.truncate(begin + count * (8 + size))


def _moved(trace: Path, times: Mapping[str, np.ndarray], rng: np.random.Generator) -> None:
    """`_odom`, the poses, `_sync` and `_bev` of a long walk."""
    for name, clock in {"_odom": "lidar", "_radar_pose": "radar", "_camera_pose": "camera", "_imu_pose": "imu"}.items():
        ts = times[clock]
        angle = (ts - START_S) / 7
        pos = np.stack([30 * np.sin(angle / 9), 20 * np.sin(angle / 5), 0.02 * np.sin(9 * angle)], axis=1)
        vel = np.gradient(pos, ts, axis=0)
        extra = {} if name != "_odom" else {"inlier_ratio": rng.normal(0.9, 0.02, len(ts)).astype("f4")}
        extra |= {} if name != "_odom" else {"residual": rng.gamma(2, 0.01, len(ts)).astype("f4")}
        rot = np.broadcast_to(np.eye(3), (len(ts), 3, 3)).copy()
        _write(trace / name, ts, {"pos": pos, "rot": rot, "vel": vel, "acc": np.zeros_like(pos), **extra})
    lidar = times["lidar"]
    matches: dict[str, np.ndarray] = {}
    for name in ("radar", "camera", "imu"):
        index = np.searchsorted(times[name], lidar).clip(0, len(times[name]) - 1)
        matches |= {name: index.astype("i4"), f"{name}_dt": (times[name][index] - lidar).astype("f4")}
    _write(trace / "_sync", lidar, matches)
    _write(trace / "_bev", lidar, {"occupancy": (rng.random((len(lidar), 64, 256)) > 0.97).astype("u1")})


def _write(folder: Path, ts: np.ndarray, channels: Mapping[str, np.ndarray]) -> None:
    folder.mkdir()
    specs = {TS: TS_SPEC, VALID: VALID_SPEC}
    for name, values in channels.items():
        values.tofile(folder / name)
        specs[name] = ChannelSpec(format="raw", type=values.dtype.str[1:], shape=values.shape[1:], desc=name)
    ts.tofile(folder / TS)
    np.ones(len(ts), "u1").tofile(folder / VALID)
    write_meta(folder, specs)


def _touched(path: Path) -> Path:
    path.touch()
    return path


def page(seconds: int, rounds: int) -> None:
    """Time, memory and size of the page."""
    trace = long_recording(seconds)
    outputs = [str(trace / REPORT / name) for name in (PAGE, SUMMARY)]
    inputs = [str(trace / "lidar" / TS)]
    command = [sys.executable, "-m", "rover_pipeline", "step", STEP, "--input", *inputs, "--output", *outputs]
    runs = [run(command, before=lambda: shutil.rmtree(trace / REPORT, ignore_errors=True)) for _ in range(rounds)]
    took, peak = (statistics.median(column) for column in zip(*runs, strict=True))
    size = (trace / REPORT / PAGE).stat().st_size
    counts = {name: len(np.fromfile(trace / name / TS, "f8")) for name in RATES}
    held = ", ".join(f"{count} of {name}" for name, count in counts.items())
    of = f"`_report` of {seconds} s of `indoor` with every default output ({held})"
    record(f"speed/report {seconds}", f"{took:.1f} s, a page of {size / 1e6:.2f} MB, {peak:.0f} MiB", of=of)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    print_versions("jinja2", "matplotlib", "numpy", "opencv-python-headless")
    page(60, rounds)
    page(600, rounds)
