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
        out: f8 (2, lag, range): real and imaginary parts of antenna times conjugate of the other.
    """
    bins = spectrum.shape[2]
    real = np.empty((spectrum.shape[1], bins), np.float32)
    imag = np.empty((spectrum.shape[1], bins), np.float32)
    for d in range(spectrum.shape[0]):
        for a in range(spectrum.shape[1]):
            p, q = phases[d, a].real, phases[d, a].imag
            for r in range(bins):
                x = spectrum[d, a, r]
                real[a, r] = x.real * p - x.imag * q
                imag[a, r] = x.real * q + x.imag * p
        for n in range(len(pairs)):
            i, j, lag = pairs[n]
            for r in range(bins):
                out[0, lag, r] += real[i, r] * real[j, r] + imag[i, r] * imag[j, r]
                out[1, lag, r] += imag[i, r] * real[j, r] - real[i, r] * imag[j, r]


@compiled
def elevation_magnitudes(rows: np.ndarray, weights: np.ndarray, out: np.ndarray) -> None:
    """Magnitudes of a transform along the rows of the array, without ever writing the complex cube.

    Args:
        rows: c8 (row, azimuth, range).
        weights: c8 (elevation, row).
        out: f4 (elevation, azimuth, range).
    """
    bins = rows.shape[2]
    for a in range(rows.shape[1]):
        for e in range(len(weights)):
            real, imag = np.zeros(bins, np.float32), np.zeros(bins, np.float32)
            for row in range(len(rows)):
                p, q = weights[e, row].real, weights[e, row].imag
                for r in range(bins):
                    x = rows[row, a, r]
                    real[r] += x.real * p - x.imag * q
                    imag[r] += x.real * q + x.imag * p
            for r in range(bins):
                out[e, a, r] = np.sqrt(real[r] * real[r] + imag[r] * imag[r])
