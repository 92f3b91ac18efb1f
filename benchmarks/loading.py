"""Synced samples through torch's DataLoader, beside roverd's reader and LitData: `python -m benchmarks.loading`.

The samples are camera, lidar image, radar power and bird's-eye view at the same instants, at the real rig's shapes, in
a random order; the program compares the radar's arrays. torch and litdata live in an environment of their own, which is
made on the first run, or is given: `--python /path/to/python`.

roverd is not on the package index, so that its part is a re-statement of what its version 0.3.5 does for a sample:
every channel is opened, sought and read; a picture is taken from a newly opened `cv2.VideoCapture`, which is set to one
frame before the wanted one and read twice. Its checks of types at run time are left out. LitData reads the same samples
from its own chunks, in which pictures are the recorded JPEG, decoded by the same library as ours.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
from pathlib import Path

import cv2
import numpy as np

from benchmarks.data import FOLDER, START_S
from benchmarks.measure import print_versions
from benchmarks.results import record
from rover_pipeline.format.meta import ChannelSpec, Format
from rover_pipeline.format.sensor import TS, TS_SPEC, VALID, VALID_SPEC, SensorWriter
from rover_pipeline.format.trace import new_trace
from rover_pipeline.numerics.nearest import nearest_samples
from tests.conftest import CHECKOUT
from tests.consumers.environments import consumer_python
from tests.consumers.test_torch import CPU_INDEX, REQUIREMENTS

SECONDS = 15
#: What is read of each sensor.
CHANNELS = {
    "camera": ("video.avi",),
    "_lidar_image": ("rng", "rfl", "nir"),
    "_radar_range_azimuth": ("power",),
    "_bev": ("occupancy",),
}
READERS = ("ours", "roverd", "litdata")


def recording() -> Path:
    """A recording of random surfaces at the real rig's shapes and rates, with results and `_sync`."""
    path = FOLDER / f"loading{SECONDS}"
    if path.exists():
        return path
    FOLDER.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    ts = {name: START_S + first + np.arange(SECONDS * rate) / rate for name, rate, first in _CLOCKS}
    with new_trace(path) as trace:
        (trace / "config.yaml").touch()
        kept = [_picture(rng) for _ in range(20)]  # 20 pictures in turn: making them takes longer than writing
        pictures = np.stack([kept[at % len(kept)] for at in range(len(ts["camera"]))])
        _write(trace / "camera", ts["camera"], "mjpg", **{"video.avi": pictures})
        count = len(ts["lidar"])
        _write(trace / "lidar", ts["lidar"], "raw")
        _write(trace / "radar", ts["radar"], "raw")
        images = {"rng": "u2", "rfl": "u1", "nir": "u2"}
        drawn = {name: rng.integers(0, 250, (count, 128, 2048)).astype(type) for name, type in images.items()}
        _write(trace / "_lidar_image", ts["lidar"], "raw", **drawn)
        _write(trace / "_bev", ts["lidar"], "raw", occupancy=rng.integers(0, 2, (count, 128, 256)).astype("u1"))
        power = rng.normal(40, 10, (len(ts["radar"]), 128, 256)).astype("f4")
        _write(trace / "_radar_range_azimuth", ts["radar"], "raw", power=power)
        nearest = {name: nearest_samples(own, ts["lidar"]).astype("i4") for name, own in ts.items()}
        dt = {f"{name}_dt": (ts[name][at] - ts["lidar"]).astype("f4") for name, at in nearest.items()}
        _write(trace / "_sync", ts["lidar"], "raw", **nearest, **dt)
    return path


_CLOCKS = (("lidar", 10, 0.1), ("radar", 20, 0.02), ("camera", 30, 0.007))


def _picture(rng: np.random.Generator) -> np.ndarray:
    """A 1080p picture of soft surfaces with some noise: a JPEG of it has as many bytes as one of the rig's."""
    coarse = rng.integers(0, 255, (68, 120, 3)).astype("u1")
    smooth = cv2.resize(coarse, (1920, 1080), interpolation=cv2.INTER_CUBIC).astype("i2")
    return np.clip(smooth + rng.integers(-4, 5, smooth.shape), 0, 255).astype("u1")


def _write(folder: Path, ts: np.ndarray, format: Format, **channels: np.ndarray) -> None:
    specs = {TS: TS_SPEC, VALID: VALID_SPEC}
    for name, values in channels.items():
        kind = f"{values.dtype.kind}{values.dtype.itemsize}"
        specs[name] = ChannelSpec(format=format, type=kind, shape=values.shape[1:])
    with SensorWriter(folder, specs) as writer:
        writer.append(**{TS: ts, VALID: np.ones(len(ts), "u1")}, **channels)


def measure(python: Path, rounds: int, workers: int) -> dict[str, list[dict[str, float]]]:
    """`rounds` passes of each reader in turn; milliseconds of wall and of processor time for a sample."""
    found: dict[str, list[dict[str, float]]] = {reader: [] for reader in READERS}
    script = Path(__file__).with_name("loading_peers.py")
    for _ in range(rounds):
        for reader in READERS:
            command = [str(python), str(script), str(CHECKOUT), str(recording()), reader, str(workers)]
            command += [json.dumps(CHANNELS)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise SystemExit(f"{reader}: {done.stderr}")
            found[reader].append(json.loads(done.stdout.splitlines()[-1]))
    checked = {run["digest"] for runs in found.values() for run in runs}
    if len(checked) > 1:
        raise SystemExit(f"the readers do not give the same arrays: {found}")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", type=Path, help="an interpreter with torch, litdata and our libraries")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 2])
    asked = parser.parse_args()
    print_versions("numpy", "opencv-python-headless", "simplejpeg")
    python = asked.python or consumer_python("loading", (*CPU_INDEX, *REQUIREMENTS, "litdata"))
    for workers in asked.workers:
        runs = measure(python, asked.rounds, workers)
        medians = {
            reader: {key: statistics.median(run[key] for run in each) for key in ("wall_ms", "processor_ms")}
            for reader, each in runs.items()
        }
        for reader, each in medians.items():
            ratio = each["wall_ms"] / medians["ours"]["wall_ms"]
            cost = each["processor_ms"] / medians["ours"]["processor_ms"]
            wall = f"{each['wall_ms']:.1f} ms of wall time ({ratio:.2f}x)"
            shown = f"{each['processor_ms']:.1f} ms ({cost:.2f}x ours); {wall}"
            of = f"processor time of a synced sample through torch's DataLoader with {workers} workers, {reader}"
            record(f"speed/loading {workers} {reader}", shown, of=of)
