"""Damage on request: what goes wrong with real recordings, done to a simulated one to test how it is met."""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rover_pipeline.format.meta import META, read_meta, replace_file
from rover_pipeline.format.sensor import Sensor


@dataclass(frozen=True)
class Fault:
    """One kind of damage.

    Attributes:
        description: what is wrong afterwards, in a line.
        damage: does it to a trace.
    """

    description: str
    damage: Callable[[Path], None]


def _power_cut(trace: Path) -> None:
    cut = {"lidar/rng": 0.83, "lidar/rfl": 0.86, "lidar/nir": 0.81, "radar/iq": 0.87, "camera/video.avi": 0.79}
    for name, share in cut.items():
        os.truncate(trace / name, int((trace / name).stat().st_size * share) | 1)
    for name in ("rng_i", "rfl_i", "nir_i"):
        (trace / "lidar" / name).unlink()


def _corrupt_lidar(trace: Path) -> None:
    ends = np.fromfile(trace / "lidar" / "rng_i", "<u8")
    sample = (len(ends) - 1) // 2
    _overwrite(trace / "lidar" / "rng", int(ends[sample] + ends[sample + 1]) // 2, bytes(24))


def _corrupt_video(trace: Path) -> None:
    from rover_pipeline.format.channels.mjpg import MjpgChannel  # OpenCV, which a look-up of names need not wait for

    path = trace / "camera" / "video.avi"
    video = MjpgChannel(path, read_meta(trace / "camera")["video.avi"])
    frame = video.jpeg(len(video) // 2)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        at = content.find(frame)
    _overwrite(path, at, bytes(16))


def _missing_sidecars(trace: Path) -> None:
    for sensor in ("lidar", "radar", "camera"):
        (trace / sensor / f"{sensor}.json").unlink()


def _missing_index(trace: Path) -> None:
    (trace / "lidar" / "rng_i").unlink()


def _missing_channel(trace: Path) -> None:
    (trace / "radar" / "valid").unlink()


def _wrong_shape(trace: Path) -> None:
    path = trace / "lidar" / META
    meta = json.loads(path.read_text())
    meta["rng"]["shape"][1] //= 2
    replace_file(path, json.dumps(meta, indent=4) + "\n")


def _times_out_of_order(trace: Path) -> None:
    sensor = Sensor(trace / "radar")
    ts = sensor.channel("ts").read()
    at = len(ts) // 2
    _overwrite(trace / "radar" / "ts", 8 * at, ts[[at + 1, at]].tobytes())


def _overwrite(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


FAULTS: dict[str, Fault] = {
    "power-cut": Fault("every sensor ends within a sample, at its own time, and no index was written", _power_cut),
    "corrupt-lidar": Fault("one sample of lidar/rng cannot be decoded", _corrupt_lidar),
    "corrupt-video": Fault("one frame of camera/video.avi cannot be decoded", _corrupt_video),
    "missing-sidecars": Fault("lidar.json, radar.json and camera.json are not there", _missing_sidecars),
    "missing-index": Fault("lidar/rng_i is not there; the samples are", _missing_index),
    "missing-channel": Fault("meta.json lists radar/valid, which is not there", _missing_channel),
    "wrong-shape": Fault("meta.json gives lidar/rng half of its columns", _wrong_shape),
    "times-out-of-order": Fault("two neighbours in radar/ts have changed places", _times_out_of_order),
}
