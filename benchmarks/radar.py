"""The radar beside xwr's numpy classes, frame by frame in one process: `python -m benchmarks.radar`.

Ours on two threads and on one; xwr's classes share a buffer per plan, so theirs run on one. Ratios are medians over
rounds in which both were run, one after the other, and stand beside the ratio that is required.

Then the default radar outputs of two minutes of the indoor preset, as processes that read and write files, two at once
as the workflow runs them on two cores; and their peak memory, which must not grow with the recording.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits
from xwr.rsp import iq_from_iiqq
from xwr.rsp.numpy import AWR1843Boost
from xwr.rsp.numpy.spectrum import CACFAR

from benchmarks.data import radar_recording
from benchmarks.measure import Run, print_versions, run, step_command
from benchmarks.results import record
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.radar.angles import Magnitudes
from rover_pipeline.radar.boards import BOARDS
from rover_pipeline.radar.detect import ca_noise
from rover_pipeline.radar.spectrum import RangeDoppler

FRAMES = 40
#: Output -> step and what it reads, the longest first.
OUTPUTS = ("_radar_points", "_radar_range_azimuth", "_radar_range_doppler", "_radar_velocity")
Work = Callable[[np.ndarray], object]


def rate(work: Work, frames: np.ndarray, threads: int) -> float:
    """Frames a second."""
    begin = time.perf_counter()
    if threads == 1:
        for frame in frames:
            work(frame)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, frames))
    return len(frames) / (time.perf_counter() - begin)


def compare(what: str, required: float, ours: Work, theirs: Work, frames: np.ndarray, rounds: int) -> None:
    for work in (ours, theirs):
        work(frames[0])
    found = [(rate(ours, frames, 2), rate(ours, frames, 1), rate(theirs, frames, 1)) for _ in range(rounds)]
    two, one, peer = (statistics.median(column) for column in zip(*found, strict=True))
    ratio = statistics.median(mine / other for mine, _, other in found)
    shown = f"{ratio:.1f}x (ours {two:.0f} frames/s on two threads, {one:.0f} on one, xwr {peer:.0f})"
    record(f"speed/radar {what}", shown, of=f"the radar beside xwr: {what}; at least {required:.0f}x is required")


def spectra(iq: np.ndarray, rounds: int) -> None:
    board, shape = BOARDS["AWR1843"], iq.shape[1:]
    transform = RangeDoppler(shape, "hann", "hann")
    plain = AWR1843Boost(window=True)
    compare(
        "range-Doppler",
        4,
        transform.spectrum_and_power,
        lambda frame: plain.doppler_range(iq_from_iiqq(frame[None])),
        iq,
        rounds,
    )
    for what, bins, required in (("4-D spectrum", (0, 0), 4), ("4-D spectrum padded to 8 x 32", (8, 32), 12)):
        magnitudes = Magnitudes(board, shape[0], bins, ("hann", "hann"), False)
        size: Any = {"elevation": bins[0], "azimuth": bins[1]} if bins[0] else {}
        peer = AWR1843Boost(window=True, size=size)
        mine = magnitudes(transform.spectrum_and_power(iq[0])[0])
        gain = shape[0] * shape[3] // 2 * 12
        error = np.abs(mine - np.abs(peer(iq[:1])[0]) / gain).max() / mine.max()
        print(f"{what}: largest difference {error:.1e} of the largest value")
        compare(
            f"{what}, magnitudes",
            required,
            lambda frame, magnitudes=magnitudes: magnitudes(transform.spectrum_and_power(frame)[0]),  # type: ignore[misc]
            lambda frame, peer=peer: np.abs(peer(frame[None])),  # type: ignore[misc]
            iq,
            rounds,
        )


def detection(iq: np.ndarray, rounds: int) -> None:
    transform = RangeDoppler(iq.shape[1:], "hann", "hann")
    maps = np.sqrt(np.stack([transform.spectrum_and_power(frame)[1] for frame in iq])).astype("f4")
    detector = CACFAR(guard=(3, 2), train=(8, 4), snr_thresh=6.0, discard_range=(0, 0))

    def ours(amplitude: np.ndarray) -> np.ndarray:
        power = amplitude**2 + 1
        return power > 6.0 * ca_noise(power, (2, 3), (4, 8))

    def theirs(amplitude: np.ndarray) -> np.ndarray:
        return detector(amplitude[None]).mask[0].T

    # The Doppler axis of xwr is not periodic.
    differ = sum(int((ours(each) != theirs(each))[6:-6].sum()) for each in maps)
    print(f"cell averaging: {differ} of {maps[:, 6:-6].size} cells differ")
    compare("cell averaging", 50, ours, theirs, maps, rounds)


def outputs(trace: Path) -> dict[str, Run]:
    """The default radar outputs of a recording, each by a process on one thread, at most two of them at once."""

    def make(made: str) -> Run:
        return run(step_command(made, trace, threads=1))

    for made in OUTPUTS:
        shutil.rmtree(trace / made, ignore_errors=True)
    os.sync()
    with ThreadPoolExecutor(2) as pool:
        runs = {made: pool.submit(make, made) for made in OUTPUTS[:3]}
        runs["_radar_points"].result()  # the velocity is made from them
        runs["_radar_velocity"] = pool.submit(make, "_radar_velocity")
        return {made: future.result() for made, future in runs.items()}


def recording(frames: int, rounds: int) -> None:
    """The four outputs of a recording at 20 Hz, and of a tenth of it."""
    totals, found = [], {}
    for _ in range(rounds):
        begin = time.perf_counter()
        found = outputs(radar_recording(frames))
        totals.append(time.perf_counter() - begin)
        parts = (f"{made} {each.seconds:.2f} s ({each.processor:.2f} s)" for made, each in found.items())
        print(f"  {totals[-1]:.1f} s (processor time {sum(each.processor for each in found.values()):.1f} s): ", end="")
        print(*parts, sep=", ")
    seconds = statistics.median(totals)
    speed = frames / 20 / seconds
    record(
        "speed/radar outputs",
        f"{seconds:.1f} s, {speed:.1f}x real time",
        of=f"the radar's four default outputs of {frames} frames, two at once; at least 20x is required",
    )
    short = outputs(radar_recording(frames // 10))
    for made, each in found.items():
        before, after = short[made].peak_mib, each.peak_mib
        print(
            f"{made}: peak {before:.0f} MiB on {frames // 10} frames, {after:.0f} MiB on {frames}: "
            f"{after / before:.2f}x, at most 1.1x is required"
        )
        for trace in (radar_recording(frames), radar_recording(frames // 10)):
            shutil.rmtree(trace / made, ignore_errors=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    print_versions("numba", "numpy", "opencv-python-headless", "xwr")
    recording(2400, 3)
    stored = Sensor(radar_recording(FRAMES) / "radar").channel("iq").read()
    repeated = np.stack(list(itertools.islice(itertools.cycle(stored), FRAMES)))
    with threadpool_limits(1):
        spectra(repeated, rounds)
        detection(repeated, rounds)
