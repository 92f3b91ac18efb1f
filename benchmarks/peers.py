"""What people write without us: a plain loop over the frames of a channel. Run as a process by the benchmarks.

python -m benchmarks.peers lidar TRACE OUT        standard library's lzma, numpy destagger
python -m benchmarks.peers radar TRACE OUT        xwr's numpy class, frame by frame
python -m benchmarks.peers spectra TRACE OUT      the same, range-Doppler power and the four-dimensional spectrum
python -m benchmarks.peers camera TRACE OUT       OpenCV's video reader, as roverd uses it, and its resize
python -m benchmarks.peers bag BAG OUT            rosbags, which decodes every message and writes nothing
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np


def lidar(trace: Path, out: Path) -> None:
    import lzma

    layout = json.loads((trace / "lidar" / "lidar.json").read_text())["lidar_data_format"]
    shape = (layout["pixels_per_column"], layout["columns_per_frame"])
    columns = (np.arange(shape[1]) - np.asarray(layout["pixel_shift_by_row"])[:, None]) % shape[1]
    for name, dtype in (("rng", "<u2"), ("rfl", "u1"), ("nir", "<u2")):
        offsets = np.fromfile(trace / "lidar" / f"{name}_i", "<u8").astype(int)
        with (trace / "lidar" / name).open("rb") as source, (out / name).open("wb") as target:
            for size in np.diff(offsets):
                image = np.frombuffer(lzma.decompress(source.read(size)), dtype).reshape(shape)
                target.write(np.take_along_axis(image, columns, axis=1).tobytes())


def radar(trace: Path, out: Path) -> None:
    from xwr.rsp import iq_from_iiqq
    from xwr.rsp.numpy import AWR1843Boost

    shape = json.loads((trace / "radar" / "meta.json").read_text())["iq"]["shape"]
    transform = AWR1843Boost(window={"range": True, "doppler": True})
    with (trace / "radar" / "iq").open("rb") as source, (out / "power").open("wb") as target:
        while words := source.read(2 * int(np.prod(shape))):
            iq = iq_from_iiqq(np.frombuffer(words, "<i2").reshape(1, *shape))
            spectrum = transform.doppler_range(iq)[0] / (shape[0] * shape[3] // 2)
            power = (np.abs(spectrum) ** 2).mean(axis=(1, 2))
            target.write((10 * np.log10(np.maximum(power, 1e-10))).astype("f4").tobytes())


def spectra(trace: Path, out: Path) -> None:
    from xwr.rsp import iq_from_iiqq
    from xwr.rsp.numpy import AWR1843Boost

    shape = json.loads((trace / "radar" / "meta.json").read_text())["iq"]["shape"]
    transform = AWR1843Boost(window={"range": True, "doppler": True, "azimuth": True, "elevation": False})
    gain = shape[0] * shape[3] // 2
    files = [(trace / "radar" / "iq").open("rb"), (out / "power").open("wb"), (out / "spectrum").open("wb")]
    while words := files[0].read(2 * int(np.prod(shape))):
        antennas = transform.doppler_range(iq_from_iiqq(np.frombuffer(words, "<i2").reshape(1, *shape)))
        power = (np.abs(antennas[0] / gain) ** 2).mean(axis=(1, 2))
        files[1].write((10 * np.log10(np.maximum(power, 1e-10))).astype("f4").tobytes())
        cube = transform.elevation_azimuth(antennas)[0]
        files[2].write((np.abs(cube) / (gain * shape[1] * shape[2])).astype("f2").tobytes())
    for file in files:
        file.close()


def camera(trace: Path, out: Path) -> None:
    import cv2

    capture = cv2.VideoCapture(str(trace / "camera" / "video.avi"))
    with (out / "image").open("wb") as target:
        while True:
            there, frame = capture.read()
            if not there:
                break
            rgb = frame[..., ::-1]  # what roverd hands over
            target.write(cv2.resize(rgb, (480, 270), interpolation=cv2.INTER_AREA).tobytes())


def bag(path: Path, out: Path) -> None:
    from rosbags.highlevel import AnyReader

    with AnyReader([path]) as reader:
        for connection, _, raw in reader.messages():
            reader.deserialize(raw, connection.msgtype)


if __name__ == "__main__":
    work, trace, out = sys.argv[1:]
    Path(out).mkdir(parents=True, exist_ok=True)
    works = {"lidar": lidar, "radar": radar, "spectra": spectra, "camera": camera, "bag": bag}
    works[work](Path(trace), Path(out))
