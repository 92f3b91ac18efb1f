"""The map of two minutes of a walk, and its memory for more of the same: `python -m benchmarks.mapping`.

Sweeps are 128x2048 at 10 Hz, those of twenty seconds over and over, placed with the truth.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
from pathlib import Path

import numpy as np

from benchmarks.data import FOLDER, START_S
from benchmarks.measure import Run, print_versions, run, step_command
from benchmarks.results import record
from rover_pipeline.format.provenance import PROVENANCE
from rover_pipeline.format.sensor import TS, TS_SPEC, VALID, VALID_SPEC, Sensor, SensorWriter
from rover_pipeline.format.trace import new_trace
from rover_pipeline.simulate.presets import PRESETS
from rover_pipeline.simulate.record import simulate

STEP = "_map"
STATE = ("pos", "rot", "vel", "acc", "avel")


def walked() -> Path:
    """Twenty seconds of the indoor preset; of the other sensors hardly anything."""
    path = FOLDER / "walk20"
    if not path.exists():
        radar = PRESETS["tiny"].radar.model_copy(update={"frame_period": 5000.0})
        others = {"radar": radar, "width": 64, "height": 36, "camera_rate": 1.0, "imu_rate": 1.0}
        simulate(path, preset=PRESETS["indoor"].model_copy(update=others), duration=20.0)
    return path


def recording(frames: int) -> Path:
    """A trace of `frames` sweeps of the walk with their poses."""
    path = FOLDER / f"map{frames}"
    if path.exists():
        return path
    lidar, truth = Sensor(walked() / "lidar"), Sensor(walked() / "_truth")
    ends = {name: np.fromfile(lidar.path / f"{name}_i", "<u8") for name in ("rng", "rfl", "nir")}
    stored = {name: (lidar.path / name).read_bytes() for name in ends}
    count = len(ends["rng"]) - 1
    which = np.arange(frames) % count
    ts = START_S + np.arange(frames) / 10
    with new_trace(path) as trace:
        (trace / "config.yaml").touch()
        with SensorWriter(trace / "lidar", {TS: TS_SPEC, **{name: lidar.specs[name] for name in ends}}) as writer:
            writer.append(ts=ts)
            for name, data in stored.items():
                for i in which:
                    writer.append(**{name: data[ends[name][i] : ends[name][i + 1]]})
        shutil.copy(lidar.path / "lidar.json", trace / "lidar" / "lidar.json")
        with SensorWriter(
            trace / "_odom", {TS: TS_SPEC, VALID: VALID_SPEC, **{name: truth.specs[name] for name in STATE}}
        ) as writer:
            states = {name: truth.channel(name).read()[which] for name in STATE}
            writer.append(ts=ts, valid=np.ones(frames, "u1"), **states)
    run(step_command("_lidar_image", path))
    return path


def timed(trace: Path) -> Run:
    """One run of the step on two threads."""
    shutil.rmtree(trace / "_map", ignore_errors=True)
    os.sync()  # or the writes of one process are waited for by the next
    files = ["--input", str(trace / "_lidar_image" / "meta.json"), "--output", str(trace / "_map" / "map.ply")]
    return run([sys.executable, "-m", "rover_pipeline", "step", STEP, *files, "--threads", "2"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--frames", type=int, default=1200, help="sweeps, 10 a second")
    arguments = parser.parse_args()
    print_versions("numpy", "numba", "ouster-sdk", "imagecodecs", "plyfile")
    trace, longer = recording(arguments.frames), recording(4 * arguments.frames)
    timed(trace)
    found = [timed(trace) for _ in range(arguments.rounds)]
    seconds = statistics.median(each.seconds for each in found)
    measured = json.loads((trace / "_map" / PROVENANCE).read_text())["measured"]
    record(
        "speed/map",
        f"{seconds:.1f} s, {arguments.frames / 10 / seconds:.1f}x real time, start-up included; "
        f"{found[0].peak_mib:.0f} MiB, of four times as many {timed(longer).peak_mib:.0f} MiB",
        of=f"`_map` of {arguments.frames} sweeps, {measured['sweeps']} used, {measured['points']} points",
    )
