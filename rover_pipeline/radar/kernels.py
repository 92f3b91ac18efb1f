"""Compiled inner loops of the radar. Kernels that call one another belong in one file: see `compiled`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """`function` compiled at its first call, kept on disk, run without the GIL.

    Without fast-math: results must be the same bytes in any thread. Numba's cache on disk notices a changed file only
    for the kernel that Python calls.
    """
    return cast(F, numba.njit(cache=True, nogil=True, error_model="numpy")(function))


@compiled
def lag_products(spectrum: np.ndarray, phases: np.ndarray, pairs: np.ndarray, out: np.ndarray) -> None:
    """Adds the products of antennas in phase, summed over Doppler, by their distance.

    Args:
        spectrum: c8 (doppler, antenna, range).
        phases: c8 (doppler, antenna), factors of the antennas.
        pairs: i8 (pair, 3): antenna, other antenna, columns between them.
        out: f4 (2, lag, range): real and imaginary parts of antenna times conjugate of the other.
    """
    real = np.empty(spectrum.shape[1:], np.float32)
    imag = np.empty(spectrum.shape[1:], np.float32)
    for d in range(spectrum.shape[0]):
        for a in range(spectrum.shape[1]):
            _turn(spectrum[d, a], phases[d, a], real[a], imag[a])
        for n in range(len(pairs)):
            i, j, lag = pairs[n]
            _multiply(real[i], imag[i], real[j], imag[j], out[0, lag], out[1, lag])


@compiled
def elevation_magnitudes(rows: np.ndarray, weights: np.ndarray, first: int, out: np.ndarray) -> None:
    """Magnitudes of a transform along the rows of the array, without ever writing the complex cube.

    Args:
        rows: c8 (block, row, azimuth, range), some Doppler bins in FFT order, from `first` on.
        weights: c8 (elevation, row).
        out: f4 (doppler, elevation, azimuth, range), zero Doppler in the middle.
    """
    block, count, azimuths, bins = rows.shape
    doppler = len(out)
    # Parts apart, or the compiler does not use vector instructions.
    real, imag = np.empty((count, bins), np.float32), np.empty((count, bins), np.float32)
    sum_real, sum_imag = np.empty(bins, np.float32), np.empty(bins, np.float32)
    one = np.complex64(1)
    for d in range(block):
        shifted = (first + d + doppler // 2) % doppler
        for a in range(azimuths):
            for row in range(count):
                _turn(rows[d, row, a], one, real[row], imag[row])
            for e in range(len(weights)):
                sum_real[:] = 0
                sum_imag[:] = 0
                for row in range(count - 1):
                    _accumulate(real[row], imag[row], weights[e, row], sum_real, sum_imag)
                last = weights[e, count - 1]
                _finish(real[count - 1], imag[count - 1], last, sum_real, sum_imag, out[shifted, e, a])


@compiled
def _turn(values: np.ndarray, factor: Any, real: np.ndarray, imag: np.ndarray) -> None:
    p, q = factor.real, factor.imag
    for r in range(len(values)):
        x, y = values[r].real, values[r].imag
        real[r] = x * p - y * q
        imag[r] = x * q + y * p


@compiled
def _multiply(
    real: np.ndarray,
    imag: np.ndarray,
    other_real: np.ndarray,
    other_imag: np.ndarray,
    sum_real: np.ndarray,
    sum_imag: np.ndarray,
) -> None:
    for r in range(len(real)):
        sum_real[r] += real[r] * other_real[r] + imag[r] * other_imag[r]
        sum_imag[r] += imag[r] * other_real[r] - real[r] * other_imag[r]


@compiled
def _accumulate(
    real: np.ndarray, imag: np.ndarray, factor: complex, sum_real: np.ndarray, sum_imag: np.ndarray
) -> None:
    p, q = factor.real, factor.imag
    for r in range(len(real)):
        sum_real[r] += real[r] * p - imag[r] * q
        sum_imag[r] += real[r] * q + imag[r] * p


@compiled
def _finish(
    real: np.ndarray, imag: np.ndarray, factor: complex, sum_real: np.ndarray, sum_imag: np.ndarray, out: np.ndarray
) -> None:
    p, q = factor.real, factor.imag
    for r in range(len(real)):
        x = sum_real[r] + real[r] * p - imag[r] * q
        y = sum_imag[r] + real[r] * q + imag[r] * p
        out[r] = np.sqrt(x * x + y * y)


@compiled
def smaller_sides(power: np.ndarray, guard: int, train: int, out: np.ndarray) -> None:
    """The smaller of the means of the cells before and after each, along the first axis.

    Args:
        power: f8 (guard + train + cell + guard + train, column), padded.
        out: f8 (cell, column).
    """
    before, after = np.empty(power.shape[1]), np.empty(power.shape[1])
    for cell in range(len(out)):
        before[:] = 0
        after[:] = 0
        for k in range(train):
            _add(power[cell + k], before)
            _add(power[cell + train + 2 * guard + 1 + k], after)
        line = out[cell]
        for column in range(len(line)):
            line[column] = min(before[column], after[column]) / train


@compiled
def _add(values: np.ndarray, total: np.ndarray) -> None:
    for column in range(len(values)):
        total[column] += values[column]
