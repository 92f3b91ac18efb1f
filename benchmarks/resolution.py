"""Two targets in one range-Doppler cell, how often and how fast they are resolved: `python -m benchmarks.resolution`.

Cells of an AWR1843 with two equal targets of any phases. The distance is in widths of the beam of its eight columns at
half of its power; resolved = two directions, each within half of the distance of its target. Speed beside loops over
cells as OpenRadar's `aoa_capon` and `aoa_music` go: one covariance, one inverse or eigendecomposition, and one spectrum
after another, of the same smoothed covariances and the same number of directions.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Literal

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.measure import print_versions
from benchmarks.results import record
from rover_pipeline.radar.angles import plane_waves
from rover_pipeline.radar.boards import BOARDS
from rover_pipeline.radar.resolve import Resolver

BOARD = BOARDS["AWR1843"]
BEAM = 0.886 * 2 / 8
ROW = np.flatnonzero(BOARD.grid[:, 0] == BOARD.grid[:, 0].max())
Method = Literal["capon", "music"]
_NAMES = {"capon": "Capon", "music": "MUSIC"}


def cells(distance: float, snr_db: float, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Snapshots c16 (cell, antenna) with noise of power one, and the sines of both targets, f8 (cell, 2)."""
    rng = np.random.default_rng(0)
    sines = rng.uniform(-0.5, 0.5, (count, 1)) + np.array([-0.5, 0.5]) * distance
    noise = rng.standard_normal((2, count, len(BOARD.grid))) / np.sqrt(2)
    snapshots = noise[0] + 1j * noise[1]
    for n in range(2):
        phase = np.exp(2j * np.pi * rng.uniform(size=(count, 1)))
        snapshots += 10 ** (snr_db / 20) * phase * plane_waves(BOARD, sines[:, n], np.zeros(count))
    return snapshots, sines


def resolved(method: Method, widths: float, snr_db: float, count: int) -> float:
    """Share of cells in which both targets are found."""
    snapshots, sines = cells(widths * BEAM, snr_db, count)
    found = Resolver(BOARD, method, 2, 0.6, 0.0)(snapshots, np.ones(count))
    good = 0
    for cell in range(count):
        right = np.sort(found.right[found.cell == cell])
        good += len(right) == 2 and bool((np.abs(right - sines[cell]) < widths * BEAM / 2).all())
    return good / count


def one_by_one(method: Method, snapshots: np.ndarray, part: int, directions: int) -> list[np.ndarray]:
    """The spectrum of each cell, as a loop over cells gives it."""
    grid = np.linspace(-1, 1, directions)
    steering = np.exp(1j * np.pi * np.outer(np.arange(part), grid))
    spectra = []
    for cell in snapshots:
        row = cell[ROW]
        covariance = np.zeros((part, part), "c16")
        for shift in range(len(row) - part + 1):
            forward = row[shift : shift + part]
            backward = forward[::-1].conj()
            covariance += np.outer(forward, forward.conj()) + np.outer(backward, backward.conj())
        if method == "capon":
            inverse = np.linalg.inv(covariance + 1e-2 * np.trace(covariance).real / part * np.eye(part))
            spectrum = 1 / np.einsum("ij,ij->j", steering.conj(), inverse @ steering).real
        else:
            noise = np.linalg.eigh(covariance)[1][:, : part - 2]
            spectrum = 1 / (np.abs(noise.conj().T @ steering) ** 2).sum(axis=0)
        spectra.append(spectrum)
    return spectra


def seconds(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def speed(method: Method, part: int, rounds: int) -> None:
    snapshots, _ = cells(BEAM, 20.0, 128)
    find, noise = Resolver(BOARD, method, 2, 0.6, 0.0), np.ones(len(snapshots))
    lines = snapshots[:, ROW, None]
    found = [
        (
            seconds(lambda: find.spectrum(lines, 2, np.ones(len(lines)))),
            seconds(lambda: find(snapshots, noise)),
            seconds(lambda: one_by_one(method, snapshots, part, 2 * BOARD.beams[0] + 1)),
        )
        for _ in range(rounds + 1)
    ][1:]
    spectra, whole, loop = (statistics.median(column) * 1e3 for column in zip(*found, strict=True))
    record(
        f"speed/{method}",
        f"{loop / spectra:.1f}x ({spectra:.2f} ms against {loop:.2f} ms; with model order, refinement and elevation "
        f"{whole:.2f} ms)",
        of=f"{_NAMES[method]}, spectra of 128 cells beside a loop over cells as OpenRadar's, processor time; at least "
        "5x is required",
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cells", type=int, default=120)
    arguments = parser.parse_args()
    print_versions("numpy")
    with threadpool_limits(1):
        methods: tuple[tuple[Method, int], ...] = (("music", 4), ("capon", 6))
        for method, _ in methods:
            for snr_db in (10.0, 20.0, 30.0):
                for widths in (0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.5):
                    share = resolved(method, widths, snr_db, arguments.cells)
                    record(
                        f"resolution/{_NAMES[method]}, {snr_db:.0f} dB/{widths:.1f}",
                        f"{100 * share:.0f}",
                        "%",
                        of=f"two equal targets {widths:.1f} beam widths apart at {snr_db:.0f} dB, share of "
                        f"{arguments.cells} cells of an AWR1843 in which both are found",
                    )
        for method, part in (("music", 4), ("capon", 6)):
            speed(method, part, arguments.rounds)
