"""The radar beside xwr's numpy classes, frame by frame in one process: `python -m benchmarks.radar`.

Ours on two threads and on one; xwr's classes share a buffer per plan, so theirs run on one. Then the default radar
outputs of two minutes of the indoor preset, as processes that read and write files, beside real time.
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
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits
from xwr.rsp import iq_from_iiqq
from xwr.rsp.numpy import AWR1843Boost
from xwr.rsp.numpy.spectrum import CACFAR

from benchmarks.data import radar_recording
from benchmarks.measure import print_versions, run, step_command
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.radar.angles import Magnitudes
from rover_pipeline.radar.boards import BOARDS
from rover_pipeline.radar.detect import cell_averaging
from rover_pipeline.radar.spectrum import RangeDoppler

FRAMES = 40
OUTPUTS = {
    "_radar_range_doppler": ("range_doppler", "radar"),
    "_radar_range_azimuth": ("range_azimuth", "radar"),
    "_radar_points": ("points", "radar"),
    "_radar_velocity": ("velocity", "_radar_points"),
}
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


def compare(what: str, ours: Work, theirs: Work, frames: np.ndarray, rounds: int) -> None:
    for work in (ours, theirs):
        work(frames[0])
    found = [(rate(ours, frames, 2), rate(ours, frames, 1), rate(theirs, frames, 1)) for _ in range(rounds)]
    two, one, peer = (statistics.median(column) for column in zip(*found, strict=True))
    ratio = statistics.median(mine / other for mine, _, other in found)
    print(f"{what}: ours {two:.0f} frames/s on two threads, {one:.0f} on one, xwr {peer:.0f}: {ratio:.1f}x")


def spectra(iq: np.ndarray, rounds: int) -> None:
    board, shape = BOARDS["AWR1843"], iq.shape[1:]
    transform = RangeDoppler(shape, "hann", "hann")
    plain = AWR1843Boost(window=True)
    compare(
        "range-Doppler", transform.spectrum, lambda frame: plain.doppler_range(iq_from_iiqq(frame[None])), iq, rounds
    )
    for what, bins in (("4-D spectrum", (0, 0)), ("4-D spectrum padded to 8 x 32", (8, 32))):
        magnitudes = Magnitudes(board, shape[0], bins, ("hann", "hann"), False)
        size: Any = {"elevation": bins[0], "azimuth": bins[1]} if bins[0] else {}
        peer = AWR1843Boost(window=True, size=size)
        mine = magnitudes(transform.spectrum(iq[0]))
        gain = shape[0] * shape[3] // 2 * 12
        error = np.abs(mine - np.abs(peer(iq[:1])[0]) / gain).max() / mine.max()
        print(f"{what}: largest difference {error:.1e} of the largest value")
        compare(
            f"{what}, magnitudes",
            lambda frame, magnitudes=magnitudes: magnitudes(transform.spectrum(frame)),  # type: ignore[misc]
            lambda frame, peer=peer: np.abs(peer(frame[None])),  # type: ignore[misc]
            iq,
            rounds,
        )


def detection(iq: np.ndarray, rounds: int) -> None:
    transform = RangeDoppler(iq.shape[1:], "hann", "hann")
    maps = np.sqrt(np.stack([transform.power(frame) for frame in iq])).astype("f4")
    detector = CACFAR(guard=(3, 2), train=(8, 4), snr_thresh=6.0, discard_range=(0, 0))

    def ours(amplitude: np.ndarray) -> np.ndarray:
        power = amplitude**2 + 1
        return power > 6.0 * cell_averaging(power, (2, 3), (4, 8), wrap=False)

    def theirs(amplitude: np.ndarray) -> np.ndarray:
        return detector(amplitude[None]).mask[0].T

    differ = sum(int((ours(each) != theirs(each)).sum()) for each in maps)
    print(f"cell averaging: {differ} of {maps.size} cells differ")
    compare("cell averaging", ours, theirs, maps, rounds)


def recording(frames: int, rounds: int) -> None:
    """The default radar outputs of a recording at 20 Hz, one process after the other."""
    trace = radar_recording(frames)
    sums = []
    for _ in range(rounds):
        for made in OUTPUTS:
            shutil.rmtree(trace / made, ignore_errors=True)
        os.sync()
        runs = {
            made: run(step_command(f"rover_pipeline.radar.steps:{name}", trace, source, made))
            for made, (name, source) in OUTPUTS.items()
        }
        sums.append(sum(each.seconds for each in runs.values()))
        parts = ", ".join(f"{made} {each.seconds:.2f} s {each.peak_mib:.0f} MiB" for made, each in runs.items())
        print(f"  {parts}")
    seconds = statistics.median(sums)
    print(f"four outputs of {frames} frames: {seconds:.1f} s, {frames / 20 / seconds:.1f} times real time")
    for made in OUTPUTS:
        shutil.rmtree(trace / made, ignore_errors=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    print_versions("numba", "numpy", "pyfftw", "xwr")
    recording(2400, 3)
    stored = Sensor(radar_recording(FRAMES) / "radar").channel("iq").read()
    repeated = np.stack(list(itertools.islice(itertools.cycle(stored), FRAMES)))
    with threadpool_limits(1):
        spectra(repeated, rounds)
        detection(repeated, rounds)
