"""Imports in MB of recording a second, beside rosbags reading the same messages: `python -m benchmarks.imports`.

A made-up drive in every container: a lidar of 64 beams (PointCloud2 of 65,536 points, 2.1 MB) and a raw camera (Image
of 1280x720, 2.8 MB) at 10 Hz, and an IMU at 200 Hz; a VLP-16's packets; folders of clouds. The peer only reads: it
writes nothing, checks nothing and encodes no picture.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from mcap.writer import CompressionType
from mcap.writer import Writer as McapWriter
from rosbags.rosbag1 import Writer as Writer1
from rosbags.rosbag2 import Writer as Writer2

from benchmarks.data import FOLDER
from benchmarks.measure import Run, interleaved, print_versions
from benchmarks.results import record
from tests.importers.bags import START, STORE1, STORE2, Sent, build, cloud, header, imu, write_capture

HZ, IMU_HZ = 10, 200
POINT = np.dtype(
    {
        "names": ["x", "y", "z", "intensity", "t", "ring"],
        "formats": ["<f4", "<f4", "<f4", "<f4", "<u4", "<u2"],
        "offsets": [0, 4, 8, 16, 20, 24],
        "itemsize": 32,
    }
)
KINDS = ("plain.bag", "lz4.bag", "bz2.bag", "zstd.mcap", "lz4.mcap", "plain.mcap", "folder", "single.db3", "packed")


def drive(seconds: int) -> Iterator[Sent]:
    """Messages in the order of their times. Values vary as real ones do, so that they compress as little."""
    random = np.random.default_rng(0)
    sweeps, pictures = [_sweep(i, random) for i in range(HZ)], [_picture(i, random) for i in range(HZ)]
    for i in range(seconds * HZ):
        stamp = START + i * (10**9 // HZ)
        yield cloud("/points", stamp, sweeps[i % HZ])
        values = (header(stamp), 720, 1280, "bgr8", 0, 1280 * 3, pictures[i % HZ].ravel())
        yield Sent("/camera/image_raw", "sensor_msgs/msg/Image", stamp, values)
        for k in range(IMU_HZ // HZ):
            acc = (float(random.normal(0, 0.1)), float(random.normal(0, 0.1)), float(random.normal(9.8, 0.1)))
            yield imu("/imu/data", stamp + k * (10**9 // IMU_HZ), acc)


def _sweep(number: int, random: np.random.Generator) -> np.ndarray:
    """64 beams of a room of 20 x 12 x 4 m, with 1 cm of noise."""
    azimuth, elevation = np.linspace(0, 2 * np.pi, 1024, False)[:, None], np.radians(np.linspace(-22, 22, 64))
    ray = np.stack(np.broadcast_arrays(np.cos(azimuth), np.sin(azimuth), np.tan(elevation)[None]), -1)
    limits = np.array([10 + 0.05 * (number % 40), 6, 2])
    reach = (limits / np.maximum(np.abs(ray), 1e-6)).min(axis=-1) + random.normal(0, 0.01, (1024, 64))
    points = np.zeros((1024, 64), POINT)
    for axis, name in enumerate("xyz"):
        points[name] = ray[..., axis] * reach
    points["intensity"] = random.integers(0, 255, (1024, 64))
    points["t"] = (np.arange(1024) * 97_656)[:, None]
    points["ring"] = np.arange(64)
    return points.ravel()


def _picture(number: int, random: np.random.Generator) -> np.ndarray:
    """Gradients and edges with the noise of a sensor, u1 (720, 1280, 3)."""
    rows, columns = np.mgrid[:720, :1280]
    plain = 96 + 48 * np.sin((columns + 8 * number) / 40) + 32 * ((rows // 45 + columns // 80) % 2)
    noise = random.integers(-4, 5, (720, 1280, 3), dtype="i2")
    return np.clip(plain[..., None] + noise + [0, 10, 20], 0, 255).astype("u1")


def recording(kind: str, seconds: int) -> tuple[Path, int]:
    """A recording in a container, and the bytes of its messages."""
    path = FOLDER / f"bags{seconds}" / kind
    path.parent.mkdir(parents=True, exist_ok=True)
    size = path.parent / f"{kind}.bytes"
    if size.exists():
        return path, int(size.read_text())
    if kind == "single.db3":
        folder, total = recording("folder", seconds)
        os.link(next(folder.glob("*.db3")), path)
    else:
        container, compression = kind.partition(".")[::2][::-1] if "." in kind else ("ros2", kind)
        total = {"bag": _bag1, "mcap": _mcap, "ros2": _bag2}[container](path, compression, seconds)
    size.write_text(str(total))
    return path, total


def _bag1(path: Path, compression: str, seconds: int) -> int:
    writer = Writer1(path)
    if compression != "plain":
        writer.set_compression(Writer1.CompressionFormat[compression.upper()])
    return _filled(writer, STORE1, lambda message, type: STORE1.serialize_ros1(message, type), seconds)


def _bag2(path: Path, compression: str, seconds: int) -> int:
    writer = Writer2(path)
    if compression == "packed":
        writer.set_compression(Writer2.CompressionMode.MESSAGE, Writer2.CompressionFormat.ZSTD)
    return _filled(writer, STORE2, lambda message, type: STORE2.serialize_cdr(message, type), seconds)


def _filled(writer: Any, store: Any, serialize: Callable[[Any, str], Any], seconds: int) -> int:
    """Bytes of the messages of the drive, after they are written."""
    total = 0
    with writer:
        connections: dict[str, Any] = {}
        for sent in drive(seconds):
            if sent.topic not in connections:
                connections[sent.topic] = writer.add_connection(sent.topic, sent.type, typestore=store)
            raw = bytes(serialize(build(store, sent.type, sent.fields), sent.type))
            writer.write(connections[sent.topic], sent.time, raw)
            total += len(raw)
    return total


def _mcap(path: Path, compression: str, seconds: int) -> int:
    total = 0
    with path.open("wb") as file:
        names = {"plain": "NONE"}
        writer = McapWriter(file, compression=CompressionType[names.get(compression, compression.upper())])
        writer.start()
        channels: dict[str, int] = {}
        for sent in drive(seconds):
            if sent.topic not in channels:
                schema = writer.register_schema(sent.type, "ros2msg", b"")
                channels[sent.topic] = writer.register_channel(sent.topic, "cdr", schema)
            raw = bytes(STORE2.serialize_cdr(build(STORE2, sent.type, sent.fields), sent.type))
            writer.add_message(channels[sent.topic], sent.time, raw, sent.time)
            total += len(raw)
        writer.finish()
    return total


def others(seconds: int) -> dict[str, tuple[list[str], Path]]:
    """Imports of files that are no bags: name -> command without its output, and what it reads."""
    folder = FOLDER / f"clouds{seconds}"
    if not folder.exists():
        random = np.random.default_rng(0)
        for name in ("pcd", "bin"):
            (folder / name).mkdir(parents=True)
        for i in range(seconds * HZ):
            points = _sweep(i, random)
            table = np.stack([points[name] for name in ("x", "y", "z", "intensity")], 1)
            table.tofile(folder / "bin" / f"{i:06d}.bin")
            sizes = f"SIZE 4 4 4 4\nTYPE F F F F\nCOUNT 1 1 1 1\nWIDTH {len(table)}\nHEIGHT 1\n"
            head = f"VERSION .7\nFIELDS x y z intensity\n{sizes}POINTS {len(table)}\nDATA binary\n"
            (folder / "pcd" / f"{i:06d}.pcd").write_bytes(head.encode() + table.tobytes())
        write_capture(folder / "vlp16.pcap", 754 * 10 * seconds)
    command = [sys.executable, "-m", "rover_pipeline", "import"]
    return {
        "clouds, .bin": ([*command, "clouds", str(folder / "bin"), "--rate", "10"], folder / "bin"),
        "clouds, .pcd": ([*command, "clouds", str(folder / "pcd"), "--rate", "10"], folder / "pcd"),
        "velodyne": ([*command, "velodyne", str(folder / "vlp16.pcap")], folder / "vlp16.pcap"),
    }


def stored_bytes(path: Path) -> int:
    return sum(each.stat().st_size for each in path.iterdir()) if path.is_dir() else path.stat().st_size


def record_speed(name: str, runs: list[Run], held: int, stored: int) -> None:
    wall = statistics.median(run.seconds for run in runs)
    processor = statistics.median(run.processor for run in runs)
    record(
        f"speed/import {name}",
        f"{held / 1e6 / wall:.0f} MB/s of messages, {stored / 1e6 / wall:.0f} MB/s of file; "
        f"{processor:.2f} s of processor, {max(run.peak_mib for run in runs):.0f} MiB",
        of=f"import of {name}, {held / 1e6:.0f} MB in {stored / 1e6:.0f} MB, two processors",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=FOLDER / "imported")
    parser.add_argument("--others", action="store_true", help="clouds and captures too")
    arguments = parser.parse_args()
    print_versions("rosbags", "imagecodecs")

    def clean() -> None:
        shutil.rmtree(arguments.out, ignore_errors=True)

    for kind in filter(None, arguments.kinds.split(",")):
        path, held = recording(kind, arguments.seconds)
        ours = [sys.executable, "-m", "rover_pipeline", "import", "ros", str(path), "-o", str(arguments.out)]
        commands = {"ours": ours, "rosbags": [sys.executable, "-m", "benchmarks.peers", "bag", str(path), str(FOLDER)]}
        if kind in ("single.db3", *(each for each in KINDS if each.endswith(".mcap"))):
            del commands["rosbags"]  # versions that ouster-sdk allows read neither
        found = interleaved(arguments.rounds, commands, before=clean)
        stored = stored_bytes(path)
        for name, runs in found.items():
            record_speed(kind if name == "ours" else f"{kind} by {name}", runs, held, stored)
        if "rosbags" in found:
            both = zip(found["ours"], found["rosbags"], strict=True)
            ratio = statistics.median(ours.processor / theirs.processor for ours, theirs in both)
            print(f"  processor time over that of rosbags: {ratio:.2f}")
    for name, (command, path) in (others(arguments.seconds) if arguments.others else {}).items():
        runs = interleaved(arguments.rounds, {name: [*command, "-o", str(arguments.out)]}, before=clean)[name]
        record_speed(name, runs, stored_bytes(path), stored_bytes(path))
    clean()


if __name__ == "__main__":
    main()
