"""Compiled kernels of the radar: from samples to spectra and directions, and to half precision.

Rows of bins are passed to small functions as one-dimensional arrays, with separate real and imaginary parts: only then
does the compiler use vector instructions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rover_pipeline.numerics.compiled import compiled, compiled_with_fma

#: One value for each range bin: f4 (range,), or c8.
Row = np.ndarray
#: Bits of single-precision values: infinity, the smallest one that half precision takes for infinity whatever the
#: rounding, the smallest one that is a normal number there, and 0.5, whose last bit is worth the smallest subnormal
#: one. Physics: IEEE 754.
_INFINITY, _TOO_LARGE, _NORMAL, _HALF = 0x7F800000, 0x47800000, 0x38800000, 0x3F000000

# --- From samples to spectra --------------------------------------------------------------------------------------


@compiled_with_fma
def window_complex(
    frame: np.ndarray,
    tx: int,
    rx: int,
    chirps: np.ndarray,
    samples: np.ndarray,
    coupling: np.ndarray,
    out: np.ndarray,
) -> None:
    """Complex samples of one antenna, without its coupling, times the windows over chirps and samples.

    Args:
        frame: (chirp, tx, rx, word), `Q Q I I` groups.
        chirps, samples: windows, f4 (chirp,) and (sample,).
        coupling: f4 (2 * sample,), real and imaginary parts interleaved, which is subtracted from every chirp.
        out: f4 (chirp, 2 * sample), real and imaginary parts interleaved; longer along both axes for zero padding.
    """
    for chirp in range(frame.shape[0]):
        _window_pairs(frame[chirp, tx, rx], chirps[chirp], samples, coupling, out[chirp])


@compiled_with_fma
def _window_pairs(words: np.ndarray, weight: Any, samples: np.ndarray, coupling: np.ndarray, out: np.ndarray) -> None:
    for pair in range(len(samples) // 2):
        first, second = weight * samples[2 * pair], weight * samples[2 * pair + 1]
        out[4 * pair] = (np.float32(words[4 * pair + 2]) - coupling[4 * pair]) * first
        out[4 * pair + 1] = (np.float32(words[4 * pair]) - coupling[4 * pair + 1]) * first
        out[4 * pair + 2] = (np.float32(words[4 * pair + 3]) - coupling[4 * pair + 2]) * second
        out[4 * pair + 3] = (np.float32(words[4 * pair + 1]) - coupling[4 * pair + 3]) * second


@compiled_with_fma
def window_real(
    frame: np.ndarray,
    tx: int,
    rx: int,
    chirps: np.ndarray,
    samples: np.ndarray,
    coupling: np.ndarray,
    out: np.ndarray,
) -> None:
    """As `window_complex`, for real samples: frame (chirp, tx, rx, sample), coupling f4 (sample,)."""
    for chirp in range(frame.shape[0]):
        words, line = frame[chirp, tx, rx], out[chirp]
        for sample in range(len(samples)):
            line[2 * sample] = (np.float32(words[sample]) - coupling[sample]) * (chirps[chirp] * samples[sample])
            line[2 * sample + 1] = 0


# --- From antennas to directions ----------------------------------------------------------------------------------


@compiled_with_fma
def lag_products(spectrum: np.ndarray, phases: np.ndarray, pairs: np.ndarray, out: np.ndarray) -> None:
    """Add the products of pairs of antennas to the sum of their lag, over all Doppler bins.

    Args:
        spectrum: c8 (antenna, doppler, range).
        phases: c8 (doppler, antenna), factors of the antennas.
        pairs: i8 (pair, 3): antenna, other antenna, lag (columns between them); fastest when sorted by lag.
        out: f4 (2, lag, range): real and imaginary parts of one antenna times the conjugate of the other.
    """
    antennas, dopplers, bins = spectrum.shape
    real, imag = np.empty((antennas, bins), np.float32), np.empty((antennas, bins), np.float32)
    for doppler in range(dopplers):
        for a in range(antennas):
            _rotate(spectrum[a, doppler], phases[doppler, a], real[a], imag[a])
        n = 0
        while n < len(pairs):
            i, j, lag = pairs[n]
            # Two products of one lag at a time: the sums are read and written half as often.
            if n + 1 < len(pairs) and pairs[n + 1, 2] == lag:
                k, m, _ = pairs[n + 1]
                _add_two_pairs(
                    real[i], imag[i], real[j], imag[j], real[k], imag[k], real[m], imag[m], out[0, lag], out[1, lag]
                )
                n += 2
            else:
                _add_pair(real[i], imag[i], real[j], imag[j], out[0, lag], out[1, lag])
                n += 1


@compiled_with_fma
def _rotate(values: Row, factor: Any, real: Row, imag: Row) -> None:
    p, q = factor.real, factor.imag
    for r in range(len(values)):
        x, y = values[r].real, values[r].imag
        real[r] = x * p - y * q
        imag[r] = x * q + y * p


@compiled_with_fma
def _add_pair(a: Row, b: Row, c: Row, d: Row, real: Row, imag: Row) -> None:
    for r in range(len(real)):
        real[r] += a[r] * c[r] + b[r] * d[r]
        imag[r] += b[r] * c[r] - a[r] * d[r]


@compiled_with_fma
def _add_two_pairs(a: Row, b: Row, c: Row, d: Row, e: Row, f: Row, g: Row, h: Row, real: Row, imag: Row) -> None:
    for r in range(len(real)):
        real[r] += (a[r] * c[r] + b[r] * d[r]) + (e[r] * g[r] + f[r] * h[r])
        imag[r] += (b[r] * c[r] - a[r] * d[r]) + (f[r] * g[r] - e[r] * h[r])


@compiled_with_fma
def angle_magnitudes(
    spectrum: np.ndarray,
    phases: np.ndarray,
    groups: np.ndarray,
    azimuth: np.ndarray,
    elevation: np.ndarray,
    out: np.ndarray,
) -> None:
    """Magnitudes of the transforms along columns and rows of the array, without storing the complex cube.

    Args:
        spectrum: c8 (antenna, doppler, range), Doppler bins in FFT order.
        phases: c8 (doppler, antenna), factors of the antennas.
        groups: i8 (group, 5), a row of the array and four antennas of it.
        azimuth: c8 (azimuth, group, 4), weights of the antennas.
        elevation: c8 (elevation, row), weights of two rows or more; the weights of the first row are one.
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
            _rotate(spectrum[antenna, doppler], phases[doppler, antenna], real[antenna], imag[antenna])
        for a in range(len(azimuth)):
            row_real[:] = 0
            row_imag[:] = 0
            for n in range(len(groups)):
                row, i, j, k, m = groups[n]
                v = azimuth[a, n]
                _add_two_scaled(real[i], imag[i], v[0], real[j], imag[j], v[1], row_real[row], row_imag[row])
                _add_two_scaled(real[k], imag[k], v[2], real[m], imag[m], v[3], row_real[row], row_imag[row])
            for e in range(len(elevation)):
                sum_real, sum_imag = row_real[0], row_imag[0]
                if count > 2:
                    _copy(row_real[0], row_imag[0], x, y)
                    for row in range(1, count - 1):
                        add_scaled(row_real[row], row_imag[row], elevation[e, row], x, y)
                    sum_real, sum_imag = x, y
                w = elevation[e, count - 1]
                _magnitude(sum_real, sum_imag, row_real[count - 1], row_imag[count - 1], w, out[shifted, e, a])


@compiled_with_fma
def _copy(a: Row, b: Row, real: Row, imag: Row) -> None:
    for r in range(len(real)):
        real[r] = a[r]
        imag[r] = b[r]


@compiled_with_fma
def add_scaled(a: Row, b: Row, w: Any, real: Row, imag: Row) -> None:
    """Add the complex row a + ib times the complex factor w to the row in `real` and `imag`."""
    p, q = w.real, w.imag
    for r in range(len(real)):
        real[r] += a[r] * p - b[r] * q
        imag[r] += a[r] * q + b[r] * p


@compiled_with_fma
def _add_two_scaled(a: Row, b: Row, w: Any, c: Row, d: Row, v: Any, real: Row, imag: Row) -> None:
    p, q, s, t = w.real, w.imag, v.real, v.imag
    for r in range(len(real)):
        real[r] += (a[r] * p - b[r] * q) + (c[r] * s - d[r] * t)
        imag[r] += (a[r] * q + b[r] * p) + (c[r] * t + d[r] * s)


@compiled_with_fma
def _magnitude(x: Row, y: Row, a: Row, b: Row, w: Any, out: Row) -> None:
    p, q = w.real, w.imag
    for r in range(len(out)):
        real = x[r] + a[r] * p - b[r] * q
        imag = y[r] + a[r] * q + b[r] * p
        out[r] = np.sqrt(real * real + imag * imag)


# --- To half precision --------------------------------------------------------------------------------------------


def as_half(values: np.ndarray) -> np.ndarray:
    """f4 of any shape as f2, rounded to nearest, ties to even; the bits are those of `values.astype("f2")`.

    NumPy converts one value at a time. This works on bits without branches, so that the compiler uses vector
    instructions. It follows F. Giesen's `float_to_half_fast3_rtne` (https://gist.github.com/rygorous/2156668), and
    keeps of a NaN what NumPy keeps.

    Args:
        values: f4, contiguous. Values beyond 65504 become infinite, without NumPy's warning.
    """
    halves = np.empty(values.shape, "u2")
    flat = np.ascontiguousarray(values, "f4").reshape(-1)
    _convert(flat, flat.view("u4"), halves.reshape(-1))
    return halves.view("f2")


@compiled
def _convert(values: np.ndarray, bits: np.ndarray, halves: np.ndarray) -> None:
    """Bits of half precision. Args: values f4, bits u4 of the same memory, halves u2; (value,)."""
    for n in range(len(bits)):
        sign = bits[n] & np.uint32(0x80000000)
        magnitude = bits[n] ^ sign
        # A subnormal number: the sum with 0.5 rounds to its last bit.
        small = np.float32(abs(values[n]) + np.float32(0.5)).view(np.uint32) - np.uint32(_HALF)
        odd = (magnitude >> np.uint32(13)) & np.uint32(1)
        # The exponent has another bias, and the sum of the rest carries into the 14th bit where it rounds up.
        normal = (magnitude - np.uint32(0x38000000) + np.uint32(0xFFF) + odd) >> np.uint32(13)
        payload = (magnitude & np.uint32(0x7FFFFF)) >> np.uint32(13)
        nan = np.uint32(0x7C00) + (payload if payload != 0 else np.uint32(1))
        half = small if magnitude < np.uint32(_NORMAL) else normal
        half = np.uint32(0x7C00) if magnitude >= np.uint32(_TOO_LARGE) else half
        half = nan if magnitude > np.uint32(_INFINITY) else half
        halves[n] = half | (sign >> np.uint32(16))
