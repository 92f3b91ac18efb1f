"""Faults: damage that real recordings have, put into a simulated one to test how readers and steps handle it.

Of several sensors of a type the main one is damaged.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np

from rover_pipeline.format.files import replace_file
from rover_pipeline.format.meta import META
from rover_pipeline.format.rig import Rig
from rover_pipeline.format.sensor import Sensor


def _power_cut(trace: Path) -> None:
    """Every sensor ends within a sample, at its own time, and no index was written."""
    kept = {"lidar/rng": 0.83, "lidar/rfl": 0.86, "lidar/nir": 0.81, "radar/iq": 0.87, "camera/video.avi": 0.79}
    for name, fraction in kept.items():
        path = _main(trace, name)
        os.truncate(path, int(path.stat().st_size * fraction) | 1)
    for name in ("rng_i", "rfl_i", "nir_i"):
        _main(trace, f"lidar/{name}").unlink()


def _corrupt_lidar(trace: Path) -> None:
    """One sample of lidar/rng cannot be decoded."""
    ends = np.fromfile(_main(trace, "lidar/rng_i"), "<u8")
    sample = (len(ends) - 1) // 2
    _overwrite(_main(trace, "lidar/rng"), int(ends[sample] + ends[sample + 1]) // 2, bytes(24))


def _corrupt_video(trace: Path) -> None:
    """One frame of camera/video.avi cannot be decoded."""
    path = _main(trace, "camera/video.avi")
    # A frame in an AVI is the name of its stream, four bytes of length, and a JPEG, which begins with FF D8 FF.
    frames = [match.end() - 3 for match in re.finditer(rb"00dc.{4}\xff\xd8\xff", path.read_bytes(), re.DOTALL)]
    _overwrite(path, frames[len(frames) // 2], bytes(16))


def _remove(*names: str) -> Callable[[Path], None]:
    """A function that removes files of a trace."""

    def damage(trace: Path) -> None:
        for name in names:
            _main(trace, name).unlink()

    return damage


def _wrong_shape(trace: Path) -> None:
    """The meta.json gives lidar/rng half of its columns."""
    path = _main(trace, f"lidar/{META}")
    meta = json.loads(path.read_text())
    meta["rng"]["shape"][1] //= 2
    replace_file(path, json.dumps(meta, indent=4) + "\n")


def _times_out_of_order(trace: Path) -> None:
    """Two consecutive times in radar/ts are exchanged."""
    path = _main(trace, "radar/ts")
    ts = Sensor(path.parent).channel("ts").read()
    sample = len(ts) // 2
    _overwrite(path, 8 * sample, ts[[sample + 1, sample]].tobytes())


def _main(trace: Path, name: str) -> Path:
    """A file of the main sensor of a type, by the name that it has where this is called like the type."""
    type, _, file = name.partition("/")
    sensor = Rig(trace).main(type)
    return trace / sensor / (f"{sensor}.json" if file == f"{type}.json" else file)


def _overwrite(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


#: Functions that damage a trace, by the name of the damage.
FAULTS: dict[str, Callable[[Path], None]] = {
    "power-cut": _power_cut,
    "corrupt-lidar": _corrupt_lidar,
    "corrupt-video": _corrupt_video,
    "missing-sidecars": _remove("lidar/lidar.json", "radar/radar.json", "camera/camera.json"),
    "missing-index": _remove("lidar/rng_i"),
    "missing-channel": _remove("radar/valid"),
    "wrong-shape": _wrong_shape,
    "times-out-of-order": _times_out_of_order,
}
