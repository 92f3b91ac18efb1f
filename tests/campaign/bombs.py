"""`python -m tests.campaign bombs`: files that are far larger than they look, never end, or stretch over years.

Each is put into a small trace, and `check`, `info` and steps (with `--run` the whole workflow too) are run on it as
real commands. None may need a gigabyte, print a traceback, or take more than 20 seconds to refuse it. Time and peak
memory of every command are printed.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import resource
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rover_pipeline.format.channels.jpeg import encode
from rover_pipeline.format.sensor import TS, TS_SPEC, SensorWriter
from tests.campaign.forked import LIMIT_BYTES, LIMIT_S
from tests.kit import START_S, environment, pictures, small_trace, spec_of, times

_HUGE = 6 << 30
#: Commands that are done with a bomb, because it is none for them, may take this long.
_PATIENCE_S = 120.0


class Bomb(NamedTuple):
    """A trap in a trace: how it is put there, and what reads it besides `check` and `info`."""

    build: Callable[[Path], object]
    steps: tuple[str, ...] = ()
    #: A command instead of these, where `{}` is the trace.
    command: tuple[str, ...] = ()


def _sparse(trace: Path, file: str, start: bytes = b"", size: int = _HUGE) -> None:
    with (trace / file).open("wb") as opened:
        opened.write(start)
        opened.truncate(size)


def _fifo(trace: Path, file: str) -> None:
    (trace / file).unlink(missing_ok=True)
    os.mkfifo(trace / file)


def _device(trace: Path, file: str) -> None:
    (trace / file).unlink(missing_ok=True)
    (trace / file).symlink_to("/dev/zero")


def _socket(trace: Path, file: str) -> None:
    (trace / file).unlink(missing_ok=True)
    folder = os.open((trace / file).parent, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"/proc/self/fd/{folder}/{Path(file).name}")
    os.close(folder)


def _change(trace: Path, file: str, **values: Any) -> None:
    content = json.loads((trace / file).read_text())
    (trace / file).write_text(json.dumps({**content, **values}))


def _aliases(trace: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    (trace / "config.yaml").write_text("\n".join(lines))


def _many_channels(trace: Path) -> None:
    entry = '{"format": "raw", "type": "u1", "shape": []}'
    with (trace / "radar/meta.json").open("w") as file:
        file.write("{" + ",".join(f'"c{i}": {entry}' for i in range(1_000_000)) + "}")


def _empty_frames(trace: Path, count: int = 10_000_000) -> None:
    head = b"RIFF\0\0\0\0AVI LIST\0\0\0\0movi"
    (trace / "camera/video.avi").write_bytes(head + b"00dc\0\0\0\0" * count)


def _long_frame(trace: Path) -> None:
    _sparse(
        trace, "camera/video.avi", b"RIFF\0\0\0\0AVI LIST\0\0\0\0movi00dc" + struct.pack("<I", 4 << 30 - 1), 5 << 30
    )


def _large_picture(trace: Path) -> None:
    images = pictures(1, 16, 24)
    with SensorWriter(trace / "stills", {TS: TS_SPEC, "image": spec_of(images, "jpg")}) as writer:
        writer.append(ts=times(1), image=images)
    data = bytearray(encode(images[0]))
    at = data.index(b"\xff\xc0") + 5
    data[at : at + 4] = struct.pack(">HH", 18_000, 18_000)
    (trace / "stills/image/000000.jpg").write_bytes(data)
    meta = json.loads((trace / "stills/meta.json").read_text())
    meta["image"]["shape"] = [18_000, 18_000, 3]
    (trace / "stills/meta.json").write_text(json.dumps(meta))


def _entries(trace: Path, folder: str, count: int = 1_000_000) -> None:
    """Very many empty files: links to one file are made faster than files."""
    (trace / folder).mkdir(parents=True, exist_ok=True)
    first = trace / folder / "000000.jpg"
    first.touch()
    for number in range(1, count):
        # A file has at most 65,000 names on some file systems.
        if number % 50_000 == 0:
            first = trace / folder / f"{number:06d}.jpg"
            first.touch()
        else:
            os.link(first, trace / folder / f"{number:06d}.jpg")


def _million_pictures(trace: Path) -> None:
    _large_picture(trace)
    shutil.rmtree(trace / "stills/image")
    _entries(trace, "stills/image")


def _compressed(trace: Path, format: str) -> None:
    """Zeros, a thousand times smaller than what they decompress to."""
    meta = json.loads((trace / "radar/meta.json").read_text())
    meta["iq"]["format"] = format
    (trace / "radar/meta.json").write_text(json.dumps(meta))
    if format == "npz":
        (trace / "radar/iq").unlink()
        (trace / "radar/iq").mkdir()
        with (
            zipfile.ZipFile(trace / "radar/iq/000000.npz", "w", zipfile.ZIP_DEFLATED) as archive,
            archive.open("data.npy", "w", force_zip64=True) as member,
        ):
            for _ in range(3000):
                member.write(bytes(1 << 20))
        return
    packer = lzma.LZMACompressor(preset=0)
    with (trace / "radar/iq").open("wb") as file:
        for _ in range(3000):
            file.write(packer.compress(bytes(1 << 20)))
        file.write(packer.flush())


def _nested(trace: Path) -> None:
    (trace / "_x").mkdir()
    (trace / "_x/provenance.json").write_text('{"made_by": "rover_pipeline", "a": ' + "[" * 100_000 + "}")


def _jump(trace: Path, by: float, first: int | None = None) -> None:
    """All sensors have long times, in which the clock is set: from the middle on, or only before sample `first`."""
    for sensor in ("lidar", "radar", "camera", "imu"):
        ts = np.fromfile(trace / sensor / "ts", "<f8")
        if first is None:
            ts[len(ts) // 2 :] += by
        else:
            ts[:first] = np.arange(first) * 0.1
        ts.tofile(trace / sensor / "ts")


def _scattered(trace: Path) -> None:
    """Samples an hour from one another."""
    for sensor in ("lidar", "radar", "camera", "imu"):
        count = (trace / sensor / "ts").stat().st_size // 8
        (START_S + np.arange(count) * 3600.0).tofile(trace / sensor / "ts")


def _clip_shape(trace: Path) -> None:
    layout = json.loads((trace / "lidar/lidar.json").read_text())
    layout["lidar_data_format"] |= {"pixels_per_column": 1 << 31, "columns_per_frame": 1 << 31}
    (trace / "lidar/lidar.json").write_text(json.dumps(layout))


#: Steps that lay out something over time, each after those that it reads from.
_TIMED = ("_lidar_image", "_odom", "_sync", "_imu_filtered", "_imu_pose", "_lidar_times", "_report")
BOMBS: dict[str, Bomb] = {
    **{
        f"sparse 6 GB {file}": Bomb(partial(_sparse, file=file, start=start), steps)
        for file, start, steps in (
            ("lidar/ts", b"", ("_lidar_image", "_sync")),
            ("radar/valid", b"", ("_radar_range_doppler",)),
            ("radar/meta.json", b"{", ("_radar_range_doppler",)),
            ("config.yaml", b"", ("_radar_range_doppler",)),
            ("radar/radar.json", b"{", ("_radar_range_doppler",)),
            ("lidar/lidar.json", b"{", ("_lidar_image",)),
            ("camera/camera.json", b"{", ()),
            ("lidar/rng_i", b"", ("_lidar_image",)),
            ("lidar/rng", b"\xfd7zXZ\0", ("_lidar_image",)),
            ("radar/iq", b"", ("_radar_range_doppler",)),
            ("imu/acc", b"", ("_imu_filtered",)),
            ("camera/video.avi", b"RIFF\0\0\0\0AVI ", ("_camera_frames",)),
        )
    },
    "6 GB that a frame claims": Bomb(_long_frame, ("_camera_frames",)),
    "aliases that explode": Bomb(_aliases, ("_radar_range_doppler",)),
    "a million channels": Bomb(_many_channels, ("_radar_range_doppler",)),
    "ten million empty frames": Bomb(_empty_frames, ("_camera_frames",)),
    "a picture of 18,000 x 18,000": Bomb(_large_picture),
    "a lidar of 2^31 x 2^31": Bomb(_clip_shape, ("_lidar_image", "_lidar_points")),
    "a million pictures of no bytes": Bomb(_million_pictures),
    "a million files in the trace": Bomb(partial(_entries, folder="."), ("_lidar_image",)),
    "a million files in a folder of the trace": Bomb(partial(_entries, folder="_x"), ("_lidar_image",)),
    "an lzma of 3 GB of zeros": Bomb(partial(_compressed, format="lzma"), ("_radar_range_doppler",)),
    "an npz of 3 GB of zeros": Bomb(partial(_compressed, format="npz"), ("_radar_range_doppler",)),
    "provenance nested 100,000 deep": Bomb(_nested, ("_lidar_image", "_report")),
    "a clock set by 10 days": Bomb(partial(_jump, by=864_000.0), _TIMED),
    "a clock set by a year": Bomb(partial(_jump, by=31_536_000.0), _TIMED),
    "two samples of 1970": Bomb(partial(_jump, by=0.0, first=2), _TIMED),
    "samples an hour from one another": Bomb(_scattered, _TIMED),
    **{
        f"{kind} as {file}": Bomb(partial(build, file=file), steps)
        for kind, build in (("a named pipe", _fifo), ("a device", _device), ("a socket", _socket))
        for file, steps in (
            ("config.yaml", ("_radar_range_doppler",)),
            ("radar/meta.json", ("_radar_range_doppler",)),
            ("radar/radar.json", ("_radar_range_doppler",)),
            ("radar/iq", ("_radar_range_doppler",)),
            ("radar/ts", ("_sync",)),
            ("lidar/rng", ("_lidar_image",)),
            ("lidar/rng_i", ("_lidar_image",)),
            ("camera/video.avi", ("_camera_frames",)),
        )
    },
    "a simulation of 30,000 years": Bomb(
        lambda trace: None, command=("simulate", "{}/new", "--preset", "tiny", "--duration", "1e12")
    ),
    "a sparse configuration of a capture": Bomb(
        partial(_sparse, file="x.json"),
        command=("import", "dca1000", "{}/radar/iq", "--config", "{}/x.json", "-o", "{}/o"),
    ),
    "a named pipe as a capture": Bomb(
        partial(_fifo, file="x.bin"),
        command=("import", "dca1000", "{}/x.bin", "--config", "{}/config.yaml", "-o", "{}/o"),
    ),
    "sparse metadata of a lidar": Bomb(
        partial(_sparse, file="x.json"),
        command=("import", "ouster", "{}/radar/iq", "--meta", "{}/x.json", "-o", "{}/o"),
    ),
    "a link to itself among traces": Bomb(
        lambda trace: (trace.parent / "loop").symlink_to("loop"), command=("info", "{}/..")
    ),
}


class Outcome(NamedTuple):
    """What a command did: exit status, seconds, peak memory in bytes, what is wrong, and what it printed."""

    status: int
    seconds: float
    memory: int
    problem: str
    printed: str


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign bombs")
    parser.add_argument("--only", default="", help="bombs with one of these texts, separated by commas, in their name")
    parser.add_argument("--run", action="store_true", help="run the whole workflow on each, too")
    arguments = parser.parse_args(argv)
    bad, count = 0, 0
    for name, bomb in BOMBS.items():
        if not any(text in name for text in arguments.only.split(",")):
            continue
        with tempfile.TemporaryDirectory(prefix="bombs-") as folder:
            for command, done in explode(bomb, Path(folder), workflow=arguments.run):
                count += 1
                bad += bool(done.problem)
                figures = f"{done.seconds:6.2f} s {done.memory >> 20:5} MiB exit {done.status}"
                print(f"{name:45} {command:22} {figures} {done.problem}", flush=True)
                if done.problem:
                    print(done.printed[-2000:], flush=True)
    print(f"{count} commands, {bad} findings")
    sys.exit(1 if bad else 0)


def explode(bomb: Bomb, folder: Path, *, workflow: bool = False) -> list[tuple[str, Outcome]]:
    """Put a bomb into a new trace in `folder` and run the commands on it."""
    trace = small_trace(folder / "rec", 200, sensors=("lidar", "radar", "camera", "imu"))
    (trace / "camera/camera.json").write_text(json.dumps({"fx": 20.0, "fy": 20.0, "cx": 12.0, "cy": 8.0}))
    bomb.build(trace)
    if bomb.command:
        return [(bomb.command[0], _command([part.format(trace) for part in bomb.command]))]
    outcomes = [(name, _command([name, str(trace)])) for name in ("check", "info")]
    for step in bomb.steps:
        last = "index.html" if step == "_report" else "meta.json"
        output = str(trace / step / last)
        outcomes.append((f"step {step}", _command(["step", step, "--trace", str(trace), "--output", output])))
    if workflow:
        outcomes.append(("run", _command(["run", str(trace), "--cores", "1"], folder, one_line=False)))
    return outcomes


def _command(argv: Sequence[str], folder: Path | None = None, one_line: bool = True) -> Outcome:
    begun = time.monotonic()
    with tempfile.TemporaryFile("w+") as printed:
        process = subprocess.Popen(
            [sys.executable, "-m", "rover_pipeline", *argv],
            env=environment(), cwd=folder, stdout=printed, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30)),
        )  # fmt: skip
        while (waited := os.wait4(process.pid, os.WNOHANG))[0] == 0:
            if time.monotonic() > begun + _PATIENCE_S:
                process.kill()
                waited = os.wait4(process.pid, 0)
                break
            time.sleep(0.01)
        _, code, usage = waited
        process.returncode = os.waitstatus_to_exitcode(code)
        seconds = time.monotonic() - begun
        printed.seek(0)
        text = printed.read(100_000)
    status, memory = process.returncode, usage.ru_maxrss * 1024
    problems = []
    if status not in (0, 1, 2):
        problems.append(f"exit status {status}")
    if "Traceback" in text or "(unexpected;" in text:
        problems.append("a traceback")
    if status and seconds > LIMIT_S and argv[0] != "run":
        problems.append("slow")
    if memory > LIMIT_BYTES:
        problems.append("large")
    if status and one_line and argv[0] in ("step", "import", "simulate") and text.count("rover-pipeline: ") != 1:
        problems.append("not one line")
    return Outcome(status, seconds, memory, ", ".join(problems), text)
