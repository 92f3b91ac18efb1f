"""All default outputs of one recording, beside real time and beside liblzma alone: `python -m benchmarks.whole`.

The recording is two minutes of the preset `indoor`, which is simulated once, or the one that `--trace` names, which is
only read. A run on `--cores` processors gives wall time and processor time, start-up included. Then liblzma alone
decodes the same frames, as the lidar's reader does, and encodes those samples of the outputs that are stored that way.
What is left of the processor time is everything else. A second run, on one processor, shows how much longer the run
takes than its steps, each of which says in its provenance how long it took. At last each step is made once more, alone
on one thread (`benchmarks/spent.py`), which gives its processor seconds by what they are spent on; and the kernels of
the default outputs are compiled into an empty cache.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from imagecodecs import lzma_decode

from benchmarks.data import FOLDER
from benchmarks.measure import Run, print_versions, run
from benchmarks.results import record
from rover_pipeline.format.sensor import TS, Sensor
from rover_pipeline.simulate.record import simulate
from rover_pipeline.table import TABLE

OUT = FOLDER / "whole"


def recording(seconds: float) -> Path:
    """A recording of the preset `indoor`: lidar 128x2048, radar 64x3x4x256, 1080p camera, IMU."""
    path = FOLDER / f"indoor_{seconds:g}"
    if not path.exists():
        simulate(path, preset="indoor", duration=seconds)
    return path


def whole_run(trace: Path, cores: int) -> Run:
    """All default outputs from nothing, into `OUT`: the recording itself is only read."""

    def clean() -> None:
        shutil.rmtree(OUT, ignore_errors=True)
        OUT.mkdir(parents=True)
        os.sync()  # or the writes of one process are waited for by the next

    options = ["--cores", str(cores), "--config", f"output_root={OUT}"]
    return run([sys.executable, "-m", "rover_pipeline", "run", str(trace), *options], before=clean)


def provenances() -> dict[Path, Any]:
    """What says how each output was made, by its directory."""
    found = {path.parent: json.loads(path.read_text()) for path in sorted(OUT.rglob("_*/provenance.json"))}
    return {folder: made for folder, made in found.items() if folder.name in TABLE and not folder.is_symlink()}


def own_seconds() -> dict[str, float]:
    """Wall seconds of each step, by its outputs. What one pass makes together has the time of the pass."""
    passes: dict[str, list[tuple[str, float]]] = {}
    for folder, made in provenances().items():
        step, seconds = TABLE[folder.name], made["time"]["seconds"]
        passes.setdefault(step.run.shares or folder.name, []).append((folder.name, seconds))
    return {" ".join(name for name, _ in each): max(seconds for _, seconds in each) for each in passes.values()}


def decoding(trace: Path) -> tuple[int, float]:
    """Number of samples that liblzma decodes, and its seconds of a processor."""
    count, seconds = 0, 0.0
    for sensor in (Sensor(path.parent) for path in sorted(trace.glob("[!_]*/meta.json"))):
        for name, spec in sensor.specs.items():
            if spec.format != "lzmaf":
                continue
            for stored in _stored(sensor.path / name):
                begin = time.process_time()
                lzma_decode(stored, out=spec.sample_bytes + 1)
                seconds += time.process_time() - begin
                count += 1
    return count, seconds


def encoding() -> tuple[int, float]:
    """Number of samples of the outputs that liblzma encodes, and its seconds of a processor."""
    count, seconds = 0, 0.0
    for sensor in (Sensor(folder) for folder in provenances() if (folder / TS).exists()):
        for name, spec in sensor.specs.items():
            if spec.format != "lzmaf":
                continue
            channel = sensor.channel(name)
            for number in range(len(channel)):
                sample = channel.read(number, number + 1).tobytes()
                begin = time.process_time()
                lzma.compress(sample, preset=0)
                seconds += time.process_time() - begin
            count += len(channel)
    return count, seconds


def _stored(path: Path) -> Iterator[bytes]:
    """The samples of an `lzmaf` channel as they are stored."""
    sizes = np.diff(np.fromfile(path.with_name(f"{path.name}_i"), "<u8").astype(int))
    with path.open("rb") as file:
        for size in sizes.tolist():
            yield file.read(size)


def duration(trace: Path) -> float:
    """Seconds from the first sample of the recording to its last one."""
    spans = [np.fromfile(path, "<f8")[[0, -1]] for path in trace.glob("[!_]*/ts")]
    return float(max(last for _, last in spans) - min(first for first, _ in spans))


def compare(trace: Path, cores: int) -> None:
    """A run, beside real time and liblzma."""
    length, made = duration(trace), whole_run(trace, cores)
    (decoded, first), (encoded, second) = decoding(trace), encoding()
    alone = first + second
    steps = ", ".join(f"{outputs} {seconds:.1f} s" for outputs, seconds in own_seconds().items())
    record(
        "speed/whole",
        f"{made.seconds:.1f} s, {length / made.seconds:.2f}x real time, {made.processor:.1f} s of processors; "
        f"liblzma alone {alone:.1f} s of them for {decoded} samples decoded and {encoded} encoded, everything else "
        f"{made.processor / alone - 1:.2f} times that. {steps}",
        of=f"all default outputs of {length:.0f} s of `{trace.name}` on {cores} processors, start-up included",
    )


def spent(trace: Path, whole: Run) -> None:
    """Processor seconds of each step by what they are spent on, beside those of a whole run, and of compiling."""
    jobs: dict[str, list[str]] = {}
    for folder in provenances():
        run_of = TABLE[folder.name].run
        jobs.setdefault(run_of.shares or ("brief" if run_of.brief else folder.name), []).append(folder.name)
    total, of = 0.0, f"processor seconds of the steps of {duration(trace):.0f} s of `{trace.name}`, alone on one thread"
    for names in jobs.values():
        command = [sys.executable, "-m", "benchmarks.spent", str(OUT / trace.name), *names]
        made = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
        seconds = made["seconds"]
        total += (own := seconds["start-up"] + seconds["user"] + seconds["system"])
        for column, value in {"processor": own, **seconds}.items():
            record(f"spent/{' '.join(names)}/{column}", f"{value:.1f}", "s", of=of)
        print("  kernels:", ", ".join(f"{name} {value:.2f} s" for name, value in made["kernels"].items()))
    if whole.processor > total:  # else what runs beside it has made the steps slow
        record("spent/Snakemake and its jobs/processor", f"{whole.processor - total:.1f}", "s", of=of)
    with tempfile.TemporaryDirectory() as cache:
        command = ["/usr/bin/env", f"NUMBA_CACHE_DIR={cache}", sys.executable, "-m", "rover_pipeline.numerics.prepare"]
        record("spent/compiling all kernels, once/processor", f"{run(command).processor:.1f}", "s", of=of)


def overhead(trace: Path) -> None:
    """How much longer a run on one processor takes than its steps."""
    made, steps = whole_run(trace, 1), sum(own_seconds().values())
    record(
        "speed/whole one processor",
        f"{made.seconds:.1f} s, steps {steps:.1f} s, overhead {made.seconds / steps - 1:.1%}",
        of=f"all default outputs of `{trace.name}` on one processor",
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0, help="of the simulated recording")
    parser.add_argument("--trace", type=Path, help="a recording, instead of the simulated one")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--only", choices=("compare", "overhead", "spent"), help="one of these")
    given = parser.parse_args()
    print_versions("imagecodecs", "numba", "numpy", "snakemake")
    source = given.trace.resolve() if given.trace else recording(given.seconds)
    if given.only in (None, "compare"):
        compare(source, given.cores)
    if given.only in (None, "overhead"):
        overhead(source)
    if given.only in (None, "spent"):
        spent(source, whole_run(source, given.cores))
    shutil.rmtree(OUT, ignore_errors=True)
