"""`_lidar_points` beside a projection in numpy as roverd writes it: `python -m benchmarks.points`.

First both functions in turn in one process, on the same sweeps of 128x2048; then the step as a whole process, which
reads and writes files.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import shutil
import statistics
import time
from collections.abc import Callable, Sequence

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.data import lidar_recording
from benchmarks.measure import interleaved, median_seconds, print_versions, step_command
from benchmarks.results import record
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.lidar.options import PointsOptions
from rover_pipeline.lidar.points_step import points

SWEEPS, FRAMES = 50, 200


class NumpyProjection:
    """Ranges to points in numpy as roverd's transform does: a table of directions in double precision, then single, and
    of these the points that are any."""

    def __init__(self, metadata: str) -> None:
        content = json.loads(metadata)
        intrinsics = content["beam_intrinsics"]
        columns = content["lidar_data_format"]["columns_per_frame"]
        altitude = np.radians(intrinsics["beam_altitude_angles"])[:, None]
        to_lidar = np.reshape(intrinsics["beam_to_lidar_transform"], (4, 4))
        encoder = 2 * np.pi * (1 - np.arange(columns) / columns)[None]
        azimuth = encoder - np.radians(intrinsics["beam_azimuth_angles"])[:, None]
        flat = np.zeros_like(azimuth)
        length = np.hypot(to_lidar[0, 3], to_lidar[2, 3])
        arm = [to_lidar[0, 3] * np.cos(encoder) + flat, to_lidar[0, 3] * np.sin(encoder) + flat, to_lidar[2, 3] + flat]
        level = np.cos(altitude)
        direction = np.stack([level * np.cos(azimuth), level * np.sin(azimuth), np.sin(altitude) + flat], -1)
        to_sensor = np.reshape(content["lidar_intrinsics"]["lidar_to_sensor_transform"], (4, 4)).astype("f8")
        offset = np.stack(arm, -1) - length * direction
        self.direction = direction @ to_sensor[:3, :3].T / 1000
        self.offset = (offset @ to_sensor[:3, :3].T + to_sensor[:3, 3]) / 1000

    def image(self, rng: np.ndarray) -> np.ndarray:
        """Points f4 (beam, column, 3), m, of ranges u2 (beam, column), mm; (0, 0, 0) without a return."""
        xyz = rng[..., None] * self.direction + self.offset
        xyz[rng == 0] = 0
        return xyz.astype("f4")

    def __call__(self, rng: np.ndarray) -> np.ndarray:
        """The points that are any, f4 (N, 3), m."""
        xyz = self.image(rng)
        valid = np.any(xyz != 0, axis=-1) & np.all(~np.isnan(xyz), axis=-1)
        return xyz.reshape(-1, 3)[valid.reshape(-1)]


def seconds(work: Callable[..., object], blocks: Sequence[tuple[np.ndarray, ...]]) -> float:
    """For a block; results are dropped at once, as by whoever writes them to a file."""
    begin = time.perf_counter()
    for block in blocks:
        work(*block)
    return (time.perf_counter() - begin) / len(blocks)


def functions(rounds: int) -> None:
    lidar = lidar_recording(FRAMES) / "lidar"
    metadata = (lidar / "lidar.json").read_text()
    rng, rfl, nir = (Sensor(lidar).channel(name).read(0, SWEEPS) for name in ("rng", "rfl", "nir"))
    project = NumpyProjection(metadata)
    ts, options = np.zeros(len(rng)), PointsOptions()
    mine = points(rng, rfl, nir, ts, options=options, metadata=metadata)["xyz"]
    theirs = np.stack([project.image(image) for image in rng])
    seen = (rng > 0) & (rng < 65535)
    print(f"largest difference {np.abs(mine[seen] - theirs[seen]).max():.1e} m")
    # The runner hands over blocks of a few megabytes: one sweep of this size.
    singles = [(rng[i : i + 1], rfl[i : i + 1], nir[i : i + 1], ts[:1]) for i in range(SWEEPS)]
    images = [(image,) for image in rng]
    step = functools.partial(points, options=options, metadata=metadata)
    found = [(seconds(step, singles), seconds(project, images)) for _ in range(rounds)]
    ratio = statistics.median(theirs / ours for ours, theirs in found)
    ours, peer = (statistics.median(column) for column in zip(*found, strict=True))
    shown = f"{ours * 1e3:.2f} ms, {ratio:.0f}x (numpy {peer * 1e3:.2f} ms)"
    record(
        "speed/points sweep",
        shown,
        of="`_lidar_points`, a sweep of 128x2048 on one thread, beside numpy as roverd does it",
    )


def step(rounds: int) -> None:
    trace, single = lidar_recording(FRAMES), lidar_recording(1)
    made = "_lidar_points"

    def clean() -> None:
        for place in (trace, single):
            shutil.rmtree(place / made, ignore_errors=True)
        os.sync()

    commands = {
        "all": step_command(made, trace),
        "one": step_command(made, single),
    }
    found = interleaved(rounds, commands, before=clean)
    whole, start = median_seconds(found["all"]), median_seconds(found["one"])
    peak = max(run.peak_mib for run in found["all"])
    rate = FRAMES / (whole - start)
    shown = f"{whole:.2f} s, {rate:.0f} frames/s without start-up of {start:.2f} s, {peak:.0f} MiB"
    record("speed/points step", shown, of=f"`{made}`, {FRAMES} frames of 128x2048, files read and written")
    clean()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    print_versions("numba", "numpy", "ouster-sdk")
    with threadpool_limits(1):
        functions(rounds)
    step(rounds)
