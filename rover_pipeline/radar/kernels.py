"""Compiled inner loops of the radar: from samples to spectra and directions.

Rows of bins are handed to small functions as one-dimensional arrays, real and imaginary parts apart: only then does the
compiler use vector instructions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rover_pipeline.numerics.compiled import compiled_with_fma as compiled

# --- From samples to spectra --------------------------------------------------------------------------------------


@compiled
def taper_complex(
    frame: np.ndarray, tx: int, rx: int, chirps: np.ndarray, samples: np.ndarray, out: np.ndarray
) -> None:
    """Complex samples of one antenna, tapered.

    Args:
        frame: (chirp, tx, rx, word), `Q Q I I` groups.
        chirps, samples: f4 (chirp,) and (sample,), weights.
        out: f4 (chirp, word), real and imaginary parts in turn; longer along both axes when padded.
    """
    for chirp in range(frame.shape[0]):
        _taper_pairs(frame[chirp, tx, rx], chirps[chirp], samples, out[chirp])


@compiled
def _taper_pairs(words: np.ndarray, weight: Any, samples: np.ndarray, out: np.ndarray) -> None:
    for pair in range(len(samples) // 2):
        first, second = weight * samples[2 * pair], weight * samples[2 * pair + 1]
        out[4 * pair] = np.float32(words[4 * pair + 2]) * first
        out[4 * pair + 1] = np.float32(words[4 * pair]) * first
        out[4 * pair + 2] = np.float32(words[4 * pair + 3]) * second
        out[4 * pair + 3] = np.float32(words[4 * pair + 1]) * second


@compiled
def taper_real(frame: np.ndarray, tx: int, rx: int, chirps: np.ndarray, samples: np.ndarray, out: np.ndarray) -> None:
    """The same of real samples: frame (chirp, tx, rx, sample)."""
    for chirp in range(frame.shape[0]):
        words, line = frame[chirp, tx, rx], out[chirp]
        for sample in range(len(samples)):
            line[2 * sample] = np.float32(words[sample]) * (chirps[chirp] * samples[sample])
            line[2 * sample + 1] = 0


# --- From antennas to directions ----------------------------------------------------------------------------------


@compiled
def lag_products(spectrum: np.ndarray, phases: np.ndarray, pairs: np.ndarray, out: np.ndarray) -> None:
    """Adds the products of antennas in phase, summed over Doppler, by their distance.

    Args:
        spectrum: c8 (antenna, doppler, range).
        phases: c8 (doppler, antenna), factors of the antennas.
        pairs: i8 (pair, 3): antenna, other antenna, columns between them; best by rising distance.
        out: f4 (2, lag, range): real and imaginary parts of antenna times conjugate of the other.
    """
    antennas, dopplers, bins = spectrum.shape
    real, imag = np.empty((antennas, bins), np.float32), np.empty((antennas, bins), np.float32)
    for doppler in range(dopplers):
        for a in range(antennas):
            _turn(spectrum[a, doppler], phases[doppler, a], real[a], imag[a])
        n = 0
        while n < len(pairs):
            i, j, lag = pairs[n]
            # Two products at a time where they can: the sums are read and written half as often.
            if n + 1 < len(pairs) and pairs[n + 1, 2] == lag:
                k, m, _ = pairs[n + 1]
                _multiply_two(
                    real[i], imag[i], real[j], imag[j], real[k], imag[k], real[m], imag[m], out[0, lag], out[1, lag]
                )
                n += 2
            else:
                _multiply(real[i], imag[i], real[j], imag[j], out[0, lag], out[1, lag])
                n += 1


@compiled
def _turn(values: np.ndarray, factor: Any, real: np.ndarray, imag: np.ndarray) -> None:
    p, q = factor.real, factor.imag
    for r in range(len(values)):
        x, y = values[r].real, values[r].imag
        real[r] = x * p - y * q
        imag[r] = x * q + y * p


@compiled
def _multiply(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray, real: np.ndarray, imag: np.ndarray) -> None:
    for r in range(len(real)):
        real[r] += a[r] * c[r] + b[r] * d[r]
        imag[r] += b[r] * c[r] - a[r] * d[r]


@compiled
def _multiply_two(
    a: np.ndarray,
    b: np.ndarray,
    c: np.ndarray,
    d: np.ndarray,
    e: np.ndarray,
    f: np.ndarray,
    g: np.ndarray,
    h: np.ndarray,
    real: np.ndarray,
    imag: np.ndarray,
) -> None:
    for r in range(len(real)):
        real[r] += (a[r] * c[r] + b[r] * d[r]) + (e[r] * g[r] + f[r] * h[r])
        imag[r] += (b[r] * c[r] - a[r] * d[r]) + (f[r] * g[r] - e[r] * h[r])


@compiled
def angle_magnitudes(
    spectrum: np.ndarray,
    phases: np.ndarray,
    fours: np.ndarray,
    azimuth: np.ndarray,
    elevation: np.ndarray,
    out: np.ndarray,
) -> None:
    """Magnitudes of the transforms along columns and rows of the array, without ever writing the complex cube.

    Args:
        spectrum: c8 (antenna, doppler, range), Doppler bins in FFT order.
        phases: c8 (doppler, antenna), factors of the antennas.
        fours: i8 (four, 5), a row of the array and antennas in it.
        azimuth: c8 (azimuth, four, 4), weights of the antennas.
        elevation: c8 (elevation, row), weights of two rows or more; those of the first are one.
        out: f4 (doppler, elevation, azimuth, range), zero Doppler in the middle.
    """
    antennas, dopplers, bins = spectrum.shape
    count = elevation.shape[1]
    real, imag = np.empty((antennas, bins), np.float32), np.empty((antennas, bins), np.float32)
    row_real, row_imag = np.empty((count, bins), np.float32), np.empty((count, bins), np.float32)
    x, y = np.empty(bins, np.float32), np.empty(bins, np.float32)
    for doppler in range(dopplers):
        shifted = (doppler + dopplers // 2) % dopplers
        for antenna in range(antennas):
            _turn(spectrum[antenna, doppler], phases[doppler, antenna], real[antenna], imag[antenna])
        for a in range(len(azimuth)):
            row_real[:] = 0
            row_imag[:] = 0
            for n in range(len(fours)):
                row, i, j, k, m = fours[n]
                v = azimuth[a, n]
                _weigh_two(real[i], imag[i], v[0], real[j], imag[j], v[1], row_real[row], row_imag[row])
                _weigh_two(real[k], imag[k], v[2], real[m], imag[m], v[3], row_real[row], row_imag[row])
            for e in range(len(elevation)):
                others_real, others_imag = row_real[0], row_imag[0]
                if count > 2:
                    _copy(row_real[0], row_imag[0], x, y)
                    for row in range(1, count - 1):
                        _weigh(row_real[row], row_imag[row], elevation[e, row], x, y)
                    others_real, others_imag = x, y
                w = elevation[e, count - 1]
                _magnitude(others_real, others_imag, row_real[count - 1], row_imag[count - 1], w, out[shifted, e, a])


@compiled
def _copy(a: np.ndarray, b: np.ndarray, real: np.ndarray, imag: np.ndarray) -> None:
    for r in range(len(real)):
        real[r] = a[r]
        imag[r] = b[r]


@compiled
def _weigh(a: np.ndarray, b: np.ndarray, w: Any, real: np.ndarray, imag: np.ndarray) -> None:
    p, q = w.real, w.imag
    for r in range(len(real)):
        real[r] += a[r] * p - b[r] * q
        imag[r] += a[r] * q + b[r] * p


@compiled
def _weigh_two(
    a: np.ndarray, b: np.ndarray, w: Any, c: np.ndarray, d: np.ndarray, v: Any, real: np.ndarray, imag: np.ndarray
) -> None:
    p, q, s, t = w.real, w.imag, v.real, v.imag
    for r in range(len(real)):
        real[r] += (a[r] * p - b[r] * q) + (c[r] * s - d[r] * t)
        imag[r] += (a[r] * q + b[r] * p) + (c[r] * t + d[r] * s)


@compiled
def _magnitude(x: np.ndarray, y: np.ndarray, a: np.ndarray, b: np.ndarray, w: Any, out: np.ndarray) -> None:
    p, q = w.real, w.imag
    for r in range(len(out)):
        real = x[r] + a[r] * p - b[r] * q
        imag = y[r] + a[r] * q + b[r] * p
        out[r] = np.sqrt(real * real + imag * imag)
