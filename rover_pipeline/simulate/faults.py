"""Faults: damage that real recordings have, put into a simulated one to test how readers and steps handle it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rover_pipeline.format.meta import META, replace_file
from rover_pipeline.format.sensor import Sensor


@dataclass(frozen=True)
class Fault:
    """One kind of damage.

    Attributes:
        description: one line about what is wrong afterwards.
        damage: function that damages a trace.
    """

    description: str
    damage: Callable[[Path], None]


def _power_cut(trace: Path) -> None:
    kept = {"lidar/rng": 0.83, "lidar/rfl": 0.86, "lidar/nir": 0.81, "radar/iq": 0.87, "camera/video.avi": 0.79}
    for name, fraction in kept.items():
        os.truncate(trace / name, int((trace / name).stat().st_size * fraction) | 1)
    for name in ("rng_i", "rfl_i", "nir_i"):
        (trace / "lidar" / name).unlink()


def _corrupt_lidar(trace: Path) -> None:
    ends = np.fromfile(trace / "lidar" / "rng_i", "<u8")
    sample = (len(ends) - 1) // 2
    _overwrite(trace / "lidar" / "rng", int(ends[sample] + ends[sample + 1]) // 2, bytes(24))


def _corrupt_video(trace: Path) -> None:
    path = trace / "camera" / "video.avi"
    # A frame in an AVI is the name of its stream, four bytes of length, and a JPEG, which begins with FF D8 FF.
    frames = [match.end() - 3 for match in re.finditer(rb"00dc.{4}\xff\xd8\xff", path.read_bytes(), re.DOTALL)]
    _overwrite(path, frames[len(frames) // 2], bytes(16))


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
    sample = len(ts) // 2
    _overwrite(trace / "radar" / "ts", 8 * sample, ts[[sample + 1, sample]].tobytes())


def _overwrite(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


FAULTS: dict[str, Fault] = {
    "power-cut": Fault("every sensor ends within a sample, at its own time, and no index was written", _power_cut),
    "corrupt-lidar": Fault("one sample of lidar/rng cannot be decoded", _corrupt_lidar),
    "corrupt-video": Fault("one frame of camera/video.avi cannot be decoded", _corrupt_video),
    "missing-sidecars": Fault("lidar.json, radar.json and camera.json are missing", _missing_sidecars),
    "missing-index": Fault("lidar/rng_i is missing; the samples are whole", _missing_index),
    "missing-channel": Fault("meta.json lists radar/valid, which is missing", _missing_channel),
    "wrong-shape": Fault("meta.json gives lidar/rng half of its columns", _wrong_shape),
    "times-out-of-order": Fault("two consecutive times in radar/ts are exchanged", _times_out_of_order),
}
