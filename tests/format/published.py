"""A small recording as the published roverd package writes it, made without this project's writers.

`python -m tests.format.published FOLDER` writes the trace that is stored in `fixtures/`; see the README there.
"""

from __future__ import annotations

import json
import lzma
import sys
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from tests.kit import ouster_metadata

START_S = 1_700_000_000.25
FRAMES = 5
BEAMS, COLUMNS = 8, 32
RADAR_SIDECAR = {"shape": [4, 2, 4, 16], "range_resolution": 0.0439, "doppler_resolution": 0.1218}
#: meta.json by sensor. A recorded sensor's `ts` is described by `description` and everything else by `desc`.
META: dict[str, dict[str, dict[str, Any]]] = {
    "lidar": {
        "rfl": {"format": "lzmaf", "type": "u1", "shape": [BEAMS, COLUMNS], "desc": "Object NIR reflectivity"},
        "nir": {"format": "lzmaf", "type": "u2", "shape": [BEAMS, COLUMNS], "desc": "Near infrared ambient photons"},
        "rng": {"format": "lzmaf", "type": "u2", "shape": [BEAMS, COLUMNS], "desc": "Range, in millimeters"},
    },
    "radar": {
        "iq": {"format": "raw", "type": "i2", "shape": [4, 2, 4, 32], "desc": "Raw I/Q stream"},
        "valid": {"format": "raw", "type": "u1", "shape": [], "desc": "True if this frame is complete"},
    },
    "camera": {"video.avi": {"format": "mjpg", "type": "u1", "shape": [48, 64, 3], "desc": "Camera video"}},
    "imu": {
        "rot": {"format": "raw", "type": "f4", "shape": [3], "desc": "Rotation in radians"},
        "acc": {"format": "raw", "type": "f4", "shape": [3], "desc": "Linear acceleration"},
        "avel": {"format": "raw", "type": "f4", "shape": [3], "desc": "Angular velocity"},
    },
    "_camera": {
        "segment": {"format": "lzmaf", "type": "u1", "shape": [16, 16], "desc": "Segmentation classes"},
        "mask": {"format": "lzma", "type": "u1", "shape": [16, 16]},
        "depth": {"format": "npz", "type": "f4", "shape": [6, 8], "desc": "Depth, m", "args": {"compress": True}},
        "flow": {"format": "npz", "type": "i2", "shape": [6, 8, 2], "args": {"workers": 2}},
        "still": {"format": "jpg", "type": "u1", "shape": [48, 64, 3], "description": "Pictures"},
    },
}
_TS = {"format": "raw", "type": "f8", "shape": [], "description": "Timestamp, in seconds."}
for _channels in META.values():
    _channels["ts"] = _TS


def samples(sensor: str, channel: str) -> np.ndarray:
    """What a channel holds, (frame, *shape): plain arithmetic, so that it is the same with every version of numpy."""
    spec = META[sensor][channel]
    dtype, shape = np.dtype(spec["type"]), (FRAMES, *spec["shape"])
    count = np.arange(np.prod(shape), dtype="i8").reshape(shape)
    if channel == "ts":
        return START_S + count / 10
    if channel == "valid":
        return (count != 2).astype(dtype)
    if spec["format"] in ("mjpg", "jpg"):  # smooth, as JPEG needs it: each colour rises along an axis of its own
        frame, row, column, colour = np.indices(shape)
        return np.choose(colour, [2 * row + 9 * frame, 3 * column, 250 - 2 * row - column]).astype(dtype)
    if dtype.kind == "f":
        return ((count % 4001 - 2000) / 64).astype(dtype)  # exact in f4
    return (count * 7919 % 65536).astype("u2").astype(dtype)


def write(trace: Path) -> None:
    """Write the trace with numpy, lzma, json and OpenCV only."""
    trace.mkdir()
    (trace / "config.yaml").write_text("lidar: {type: lidar}\nradar: {type: radar}\n")
    for sensor, channels in META.items():
        folder = trace / sensor
        folder.mkdir()
        (folder / "meta.json").write_text(json.dumps(channels, indent=4))
        for name, spec in channels.items():
            _WRITERS[spec["format"]](folder / name, samples(sensor, name), spec.get("args", {}))
    (trace / "lidar" / "lidar.json").write_text(json.dumps(ouster_metadata(BEAMS, COLUMNS)))
    (trace / "radar" / "radar.json").write_text(json.dumps(RADAR_SIDECAR, indent=4))


def _raw(path: Path, data: np.ndarray, args: dict[str, Any]) -> None:
    data.tofile(path)


def _lzma(path: Path, data: np.ndarray, args: dict[str, Any]) -> None:
    path.write_bytes(lzma.compress(data.tobytes()))


def _lzmaf(path: Path, data: np.ndarray, args: dict[str, Any]) -> None:
    streams = [lzma.compress(sample.tobytes(), lzma.FORMAT_XZ, preset=0) for sample in data]
    path.write_bytes(b"".join(streams))
    np.cumsum([0, *map(len, streams)], dtype="<u8").tofile(f"{path}_i")


def _mjpg(path: Path, data: np.ndarray, args: dict[str, Any]) -> None:
    video = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), 10.0, (data.shape[2], data.shape[1]))
    for picture in data:
        video.write(np.ascontiguousarray(picture[..., ::-1]))
    video.release()


def _npz(path: Path, data: np.ndarray, args: dict[str, Any]) -> None:
    path.mkdir()
    save = np.savez_compressed if args.get("compress") else np.savez
    for number, sample in enumerate(data):
        save(path / f"{number:06d}.npz", data=sample)


def _jpg(path: Path, data: np.ndarray, args: dict[str, Any]) -> None:
    path.mkdir()
    for number, picture in enumerate(data):
        assert cv2.imwrite(str(path / f"{number:06d}.jpg"), np.ascontiguousarray(picture[..., ::-1]))


_WRITERS = {"raw": _raw, "lzma": _lzma, "lzmaf": _lzmaf, "mjpg": _mjpg, "npz": _npz, "jpg": _jpg}

if __name__ == "__main__":
    write(Path(sys.argv[1]))
