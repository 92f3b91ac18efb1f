"""Compiled inner loops of detection and of directions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rover_pipeline.numerics.compiled import compiled_with_fma as compiled

# --- Detection ----------------------------------------------------------------------------------------------------


@compiled
def smallest_sides(power: np.ndarray, guard: tuple[int, int], train: tuple[int, int], out: np.ndarray) -> None:
    """The smaller of the means of the cells on both sides of each, along either axis; then the larger of the two.

    Args:
        power: f4 (doppler, range). Doppler is a circle; beyond its ends the range axis is mirrored.
        guard, train: cells along (doppler, range) to leave out, and beyond them to average.
        out: f8 (doppler, range).
    """
    dopplers, bins = power.shape
    before, after = np.empty(bins), np.empty(bins)
    reach = guard[1] + train[1]
    padded = np.empty(bins + 2 * reach)
    mirror = max(1, 2 * (bins - 1))
    for doppler in range(dopplers):
        line = out[doppler]
        before[:] = 0
        after[:] = 0
        for k in range(guard[0] + 1, guard[0] + train[0] + 1):
            _add(power[(doppler - k) % dopplers], before)
            _add(power[(doppler + k) % dopplers], after)
        for r in range(bins):
            line[r] = min(before[r], after[r]) / train[0]
        for r in range(bins):
            padded[reach + r] = power[doppler, r]
        for k in range(1, reach + 1):
            padded[reach - k] = power[doppler, min(k % mirror, -k % mirror)]
            padded[reach + bins - 1 + k] = power[doppler, min((bins - 1 + k) % mirror, -(bins - 1 + k) % mirror)]
        before[:] = 0
        after[:] = 0
        for k in range(train[1]):
            _add(padded[k : k + bins], before)
            _add(padded[reach + guard[1] + 1 + k : reach + guard[1] + 1 + k + bins], after)
        for r in range(bins):
            line[r] = max(line[r], min(before[r], after[r]) / train[1])


@compiled
def _add(values: np.ndarray, total: np.ndarray) -> None:
    for r in range(len(total)):
        total[r] += values[r]


@compiled
def local_maxima(power: np.ndarray, noise: np.ndarray, threshold: float, first_bin: int, cells: np.ndarray) -> int:
    """Cells that are above the noise and not below any of their neighbours; their number.

    Args:
        power, noise: (doppler, range); Doppler is a circle.
        threshold: least power over noise.
        first_bin: nearest range bin that counts.
        cells: i8 (cell,), gets Doppler bin times range bins plus range bin of each, rising.
    """
    dopplers, bins = power.shape
    count = 0
    for doppler in range(dopplers):
        for r in range(first_bin, bins):
            value = power[doppler, r]
            if noise[doppler, r] > 0 and value > threshold * noise[doppler, r]:
                found = True
                for step in range(-1, 2):
                    for neighbour in range(max(r - 1, 0), min(r + 2, bins)):
                        found = found and value >= power[(doppler + step) % dopplers, neighbour]
                if found:
                    cells[count] = doppler * bins + r
                    count += 1
    return count


@compiled
def measure_peaks(
    power: np.ndarray,
    noise: np.ndarray,
    cells: np.ndarray,
    lobes: tuple[np.ndarray, np.ndarray],
    snr: np.ndarray,
    at: np.ndarray,
) -> None:
    """Power over noise of some peaks, 0 of those that may be sidelobes of a stronger one, and their place between bins.

    Args:
        power, noise: (doppler, range); Doppler is a circle.
        cells: i8 (peak,), as `local_maxima` gives them.
        lobes: power of sidelobes over that of their tone, f8, by distance along (doppler, range).
        snr: f8 (peak,).
        at: f8 (2, peak), bins of (doppler, range).
    """
    dopplers, bins = power.shape
    across, along = lobes
    for peak in range(len(cells)):
        doppler, r = cells[peak] // bins, cells[peak] % bins
        value = np.float64(power[doppler, r])
        snr[peak] = value / noise[doppler, r]
        for other in cells:
            i, j = other // bins, other % bins
            stronger = np.float64(power[i, j])
            if stronger > value:
                away = abs(i - doppler)
                if across[min(away, dopplers - away)] * along[abs(j - r)] * stronger > value:
                    snr[peak] = 0
        before, after = power[(doppler - 1) % dopplers, r], power[(doppler + 1) % dopplers, r]
        at[0, peak] = doppler + _vertex(before, value, after)
        at[1, peak] = r + _vertex(power[doppler, max(r - 1, 0)], value, power[doppler, min(r + 1, bins - 1)])


@compiled
def _vertex(before: Any, at: Any, after: Any) -> Any:
    """Where the parabola through the decibels of three neighbours is highest, -0.5 to 0.5 steps from the middle one."""
    a, b, c = _log(before), _log(at), _log(after)
    bend = a - 2 * b + c
    return min(max(0.5 * (a - c) / bend, -0.5), 0.5) if bend < 0 else 0.0


@compiled
def _log(power: Any) -> Any:
    return math.log(max(np.float64(power), 1e-38))


# --- Directions ---------------------------------------------------------------------------------------------------


@compiled
def strongest_beams(
    spectrum: np.ndarray,
    doppler: np.ndarray,
    distance: np.ndarray,
    turns: np.ndarray,
    rows: np.ndarray,
    across: np.ndarray,
    upward: np.ndarray,
    sines: tuple[np.ndarray, np.ndarray],
    out: np.ndarray,
) -> None:
    """Sines of the direction that each peak comes from: the strongest beam, refined between beams along both axes.

    Args:
        spectrum: c8 (antenna, doppler, range).
        doppler, distance: i8 (peak,), bins in the spectrum's order.
        turns: f8 (peak, antenna), radians that its transmitter's delay turned it by.
        rows: i8 (antenna,), row of the array.
        across: f4 (2, antenna, azimuth), real and imaginary parts of the weights along a row.
        upward: c8 (elevation, row), weights of the rows.
        sines: f8 (azimuth,) and (elevation,), of the beams.
        out: f8 (2, peak), sines of azimuth and elevation.
    """
    right, up = sines
    row_real = np.empty((upward.shape[1], len(right)), np.float32)
    row_imag = np.empty_like(row_real)
    power = np.empty((len(up), len(right)), np.float32)
    seen = np.empty_like(power)
    for e in range(len(up)):
        for n in range(len(right)):
            seen[e, n] = np.float32(1 if right[n] ** 2 + up[e] ** 2 <= 1 else 0)
    real, imag = np.empty(len(right), np.float32), np.empty(len(right), np.float32)
    for peak in range(out.shape[1]):
        row_real[:] = 0
        row_imag[:] = 0
        for a in range(len(rows)):
            turn = np.complex64(complex(math.cos(turns[peak, a]), -math.sin(turns[peak, a])))
            value = spectrum[a, doppler[peak], distance[peak]] * turn
            _weigh(across[0, a], across[1, a], value, row_real[rows[a]], row_imag[rows[a]])
        level, side, most = 0, 0, np.float32(0)
        for e in range(len(up)):
            real[:] = 0
            imag[:] = 0
            for row in range(len(row_real)):
                _weigh(row_real[row], row_imag[row], upward[e, row], real, imag)
            _seen_power(real, imag, seen[e], power[e])
            line = power[e]
            for n in range(len(line)):
                if line[n] > most:
                    level, side, most = e, n, line[n]
        out[0, peak] = _between(right, side, power[level])
        out[1, peak] = _between(up, level, power[:, side])


@compiled
def _seen_power(real: np.ndarray, imag: np.ndarray, seen: np.ndarray, power: np.ndarray) -> None:
    for n in range(len(power)):
        power[n] = (real[n] * real[n] + imag[n] * imag[n]) * seen[n]


# As in `kernels`, where Numba's cache would not notice a change of it for the kernels here.
@compiled
def _weigh(a: np.ndarray, b: np.ndarray, w: Any, real: np.ndarray, imag: np.ndarray) -> None:
    p, q = w.real, w.imag
    for n in range(len(real)):
        real[n] += a[n] * p - b[n] * q
        imag[n] += a[n] * q + b[n] * p


@compiled
def _between(sines: np.ndarray, at: Any, power: np.ndarray) -> Any:
    """Sine at the vertex of the parabola through a beam and its neighbours, where it has both."""
    if 0 < at < len(sines) - 1:
        return sines[at] + _vertex(power[at - 1], power[at], power[at + 1]) * (sines[1] - sines[0])
    return sines[at]
