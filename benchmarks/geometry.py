"""What is made from poses and times of two minutes of a recording, as processes that read and write files, beside real
time: `python -m benchmarks.geometry`. Sweeps are 128x2048 at 10 Hz, pictures come at 30 Hz, IMU samples at 100 Hz."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
from pathlib import Path

import numpy as np

from benchmarks.data import FOLDER, START_S, simulated
from benchmarks.measure import print_versions, run
from benchmarks.results import record
from rover_pipeline.format.meta import ChannelSpec
from rover_pipeline.format.sensor import TS, TS_SPEC, VALID, VALID_SPEC, Sensor, SensorWriter
from rover_pipeline.format.trace import new_trace
from rover_pipeline.lidar.geometry import destagger, sensor_info
from rover_pipeline.simulate.presets import PRESETS
from rover_pipeline.simulate.rig import build

SECONDS = 120
RATES = {"radar": 20, "camera": 30, "imu": 100}
STEPS = {
    "_bev": "occupancy.steps:bev",
    "_occupancy": "occupancy.steps:occupancy",
    "_camera_depth": "occupancy.depth_steps:depth",
    "_radar_pose": "poses.steps:radar",
    "_camera_pose": "poses.steps:camera",
    "_imu_pose": "poses.steps:imu",
    "_sync": "sync.steps:to_lidar",
    "_imu_times": "sync.steps:imu_times",
}


def recording() -> Path:
    """Times of every sensor, poses, and destaggered ranges: the simulated sweeps, over and over."""
    path = FOLDER / "geometry"
    if path.exists():
        return path
    source = simulated()
    metadata = (source / "lidar" / "lidar.json").read_text()
    sweeps = destagger(Sensor(source / "lidar").channel("rng").read(), sensor_info(metadata))
    ts = START_S + np.arange(10 * SECONDS) / 10
    with new_trace(path) as trace:
        shutil.copy(source / "config.yaml", trace / "config.yaml")
        for name, rate in {"lidar": 10, **RATES}.items():
            specs = {TS: TS_SPEC}
            with SensorWriter(trace / name, specs) as writer:
                writer.append(ts=START_S + 0.013 + np.arange(rate * SECONDS) / rate if name != "lidar" else ts)
        for sidecar in ("lidar/lidar.json", "radar/radar.json", "camera/camera.json", "camera/meta.json"):
            shutil.copy(source / sidecar, trace / sidecar)
        ranges = ChannelSpec(format="raw", type="u2", shape=sweeps.shape[1:])
        with SensorWriter(trace / "_lidar_image", {TS: TS_SPEC, "rng": ranges}) as writer:
            for number, time in enumerate(ts):
                writer.append(ts=time, rng=sweeps[number % len(sweeps)][None])
        state = build(PRESETS["indoor"], 0).motion.at(ts - START_S)._asdict()
        specs = {name: ChannelSpec(format="raw", type="f8", shape=values.shape[1:]) for name, values in state.items()}
        with SensorWriter(trace / "_odom", {TS: TS_SPEC, VALID: VALID_SPEC, **specs}) as writer:
            writer.append(ts=ts, valid=np.ones(len(ts)), **state)
    return path


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    print_versions("numpy", "numba", "ouster-sdk", "scipy")
    trace = recording()
    for made, name in STEPS.items():
        command = [
            sys.executable,
            "-m",
            "rover_pipeline",
            "step",
            f"rover_pipeline.{name}",
            "--request",
            json.dumps({}),
        ]
        command += ["--input", str(trace / "lidar" / "meta.json"), "--output", str(trace / made / "meta.json")]
        found = []
        for _ in range(rounds):
            shutil.rmtree(trace / made, ignore_errors=True)
            os.sync()  # or the writes of one process are waited for by the next
            found.append(run([*command, "--threads", "2"]))
        seconds = statistics.median(each.seconds for each in found)
        peak = max(each.peak_mib for each in found)
        shown = f"{seconds:.2f} s, {SECONDS / seconds:.0f}x real time, {peak:.0f} MiB"
        record(f"speed/geometry {made}", shown, of=f"`{made}` of {SECONDS} s at the shapes of `indoor`")
        shutil.rmtree(trace / made, ignore_errors=True)
