"""Compiled kernels of CFAR detection and of the directions of peaks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rover_pipeline.numerics.compiled import compiled_with_fma
from rover_pipeline.radar.kernels import add_scaled

# --- Detection ----------------------------------------------------------------------------------------------------


@compiled_with_fma
def smallest_of_averages(power: np.ndarray, guard: tuple[int, int], train: tuple[int, int], out: np.ndarray) -> None:
    """CASO-CFAR: along each axis the smaller of the means on the two sides of each cell, then the larger of the axes.

    Args:
        power: f4 (doppler, range). Doppler is periodic; beyond its ends the range axis is mirrored.
        guard, train: numbers of guard and training cells on each side, along (doppler, range).
        out: f8 (doppler, range).
    """
    dopplers, bins = power.shape
    before, after = np.empty(bins), np.empty(bins)
    edge = guard[1] + train[1]
    padded = np.empty(bins + 2 * edge)
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
            padded[edge + r] = power[doppler, r]
        for k in range(1, edge + 1):
            padded[edge - k] = power[doppler, min(k % mirror, -k % mirror)]
            padded[edge + bins - 1 + k] = power[doppler, min((bins - 1 + k) % mirror, -(bins - 1 + k) % mirror)]
        before[:] = 0
        after[:] = 0
        for k in range(train[1]):
            _add(padded[k : k + bins], before)
            _add(padded[edge + guard[1] + 1 + k : edge + guard[1] + 1 + k + bins], after)
        for r in range(bins):
            line[r] = max(line[r], min(before[r], after[r]) / train[1])


@compiled_with_fma
def _add(values: np.ndarray, total: np.ndarray) -> None:
    for r in range(len(total)):
        total[r] += values[r]


@compiled_with_fma
def local_maxima(power: np.ndarray, noise: np.ndarray, threshold: float, first_bin: int, cells: np.ndarray) -> int:
    """Find the cells that are above the noise and not below any of their neighbours; returns their number.

    Args:
        power, noise: (doppler, range); Doppler is periodic.
        threshold: minimum power over noise.
        first_bin: first range bin to search.
        cells: i8 (cell,), receives the flat index of each into (doppler, range), rising.
    """
    dopplers, bins = power.shape
    count = 0
    for doppler in range(dopplers):
        for r in range(first_bin, bins):
            value = power[doppler, r]
            if noise[doppler, r] > 0 and value > threshold * noise[doppler, r] and _is_peak(power, doppler, r):
                cells[count] = doppler * bins + r
                count += 1
    return count


@compiled_with_fma
def _is_peak(power: np.ndarray, doppler: Any, r: Any) -> Any:
    """Whether a cell is not below any of its neighbours."""
    dopplers, bins = power.shape
    value = power[doppler, r]
    for step in range(-1, 2):
        line = power[(doppler + step) % dopplers]
        for neighbour in range(max(r - 1, 0), min(r + 2, bins)):
            if line[neighbour] > value:
                return False
    return True


@compiled_with_fma
def maxima_above_rank(
    power: np.ndarray,
    guard: tuple[int, int],
    train: tuple[int, int],
    index: int,
    threshold: float,
    first_bin: int,
    cells: np.ndarray,
    noise: np.ndarray,
) -> int:
    """As `local_maxima` with the noise of OS-CFAR, which is computed only where a maximum is above it.

    A cell is above the noise if more than `index` of its training cells are below its power over the threshold: to
    count them takes a fraction of the time of sorting them.

    Args:
        index: rank of the training cell that is the noise, from 0.
        noise: f8 (cell,), receives the noise of each cell found.
    """
    dopplers, bins = power.shape
    rows, edge = guard[0] + train[0], guard[1] + train[1]
    ring = np.empty((2 * rows + 1) * (2 * edge + 1) - (2 * guard[0] + 1) * (2 * guard[1] + 1), np.float32)
    padded = np.empty((dopplers + 2 * rows, bins + 2 * edge), power.dtype)
    _extend(power, rows, edge, padded)
    most = len(ring) - index
    count = 0
    for doppler in range(dopplers):
        middle = doppler + rows
        before, line, after = padded[middle - 1], padded[middle], padded[middle + 1]
        for r in range(first_bin, bins):
            k = r + edge
            value = line[k]
            # As `_is_peak`: beyond its ends a line has the value of the cell at its end, which is not above it.
            if line[k - 1] > value or line[k + 1] > value or before[k] > value or after[k] > value:
                continue
            if before[k - 1] > value or before[k + 1] > value or after[k - 1] > value or after[k + 1] > value:
                continue
            limit = np.float32(value / threshold)
            # Rows without guard cells come first: most maxima of noise fail after a few of them.
            above, n = 0, 0
            while n <= rows and above < most:
                d = (n + guard[0] + 1) % (rows + 1)
                for sign in range(1 if d == 0 else 2):
                    near = padded[middle + (d if sign else -d)]
                    if d > guard[0]:
                        above += _count_from(near[r : r + 2 * edge + 1], limit)
                    else:
                        above += _count_from(near[r : r + train[1]], limit)
                        above += _count_from(near[k + guard[1] + 1 : k + edge + 1], limit)
                n += 1
            if above < most:
                n = 0
                for d in range(-rows, rows + 1):
                    near = padded[middle + d]
                    for j in range(-edge, edge + 1):
                        if abs(d) > guard[0] or abs(j) > guard[1]:
                            ring[n] = near[k + j]
                            n += 1
                level = _ranked(ring, index)
                if level > 0 and value > threshold * level:
                    cells[count] = doppler * bins + r
                    noise[count] = level
                    count += 1
    return count


@compiled_with_fma
def _extend(power: np.ndarray, rows: int, edge: int, padded: np.ndarray) -> None:
    """Copy a map with more rows and cells around it, (doppler + 2 * rows, range + 2 * edge).

    Doppler is periodic; the range axis is mirrored beyond its ends: d c b a | a b c d | d c b a.
    """
    dopplers, bins = power.shape
    for n in range(dopplers + 2 * rows):
        line, wide = power[(n - rows) % dopplers], padded[n]
        for r in range(bins):
            wide[edge + r] = line[r]
        for k in range(edge):
            m = (k - edge) % (2 * bins)
            wide[k] = line[m if m < bins else 2 * bins - 1 - m]
            m = (bins + k) % (2 * bins)
            wide[edge + bins + k] = line[m if m < bins else 2 * bins - 1 - m]


@compiled_with_fma
def _count_from(values: np.ndarray, limit: Any) -> Any:
    """Number of the values that are not below a limit."""
    count = 0
    for n in range(len(values)):
        count += values[n] >= limit
    return count


@compiled_with_fma
def _ranked(values: np.ndarray, rank: int) -> Any:
    """The value of a rank, from 0, by Hoare's quickselect, which reorders the values.

    `np.partition` gives the same, but takes ten seconds to compile.
    """
    left, right = 0, len(values) - 1
    while left < right:
        pivot = values[(left + right) // 2]
        i, j = left, right
        while i <= j:
            while values[i] < pivot:
                i += 1
            while pivot < values[j]:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if rank <= j:
            right = j
        elif rank >= i:
            left = i
        else:
            break
    return values[rank]


@compiled_with_fma
def measure_peaks(
    power: np.ndarray,
    noise: np.ndarray,
    cells: np.ndarray,
    sidelobes: tuple[np.ndarray, np.ndarray],
    snr: np.ndarray,
    position: np.ndarray,
) -> None:
    """Power over noise of each peak, 0 if it may be a sidelobe of a stronger one, and its position between the bins.

    Args:
        power: (doppler, range); Doppler is periodic.
        noise: f8 (peak,), of each cell.
        cells: i8 (peak,), as `local_maxima` gives them.
        sidelobes: largest power of a sidelobe over that of its tone, f8, by distance along (doppler, range).
        snr: f8 (peak,), result.
        position: f8 (2, peak), result: bins of (doppler, range).
    """
    dopplers, bins = power.shape
    doppler_lobes, range_lobes = sidelobes
    lines, columns, values = np.empty_like(cells), np.empty_like(cells), np.empty_like(noise)
    for peak in range(len(cells)):
        lines[peak], columns[peak] = cells[peak] // bins, cells[peak] % bins
        values[peak] = power[lines[peak], columns[peak]]
    for peak in range(len(cells)):
        doppler, r, value = lines[peak], columns[peak], values[peak]
        snr[peak] = value / noise[peak]
        for other in range(len(cells)):
            if values[other] > value:
                distance = abs(lines[other] - doppler)
                lobe = doppler_lobes[min(distance, dopplers - distance)] * range_lobes[abs(columns[other] - r)]
                if lobe * values[other] > value:
                    snr[peak] = 0
                    break
        before, after = power[(doppler - 1) % dopplers, r], power[(doppler + 1) % dopplers, r]
        position[0, peak] = doppler + _vertex(before, value, after)
        position[1, peak] = r + _vertex(power[doppler, max(r - 1, 0)], value, power[doppler, min(r + 1, bins - 1)])


@compiled_with_fma
def _vertex(before: Any, middle: Any, after: Any) -> Any:
    """Offset of the maximum of the parabola through the logarithms of three neighbours, -0.5 to 0.5 bins."""
    a, b, c = _log(before), _log(middle), _log(after)
    curvature = a - 2 * b + c
    return min(max(0.5 * (a - c) / curvature, -0.5), 0.5) if curvature < 0 else 0.0


@compiled_with_fma
def _log(power: Any) -> Any:
    return math.log(max(np.float64(power), 1e-38))


# --- Directions ---------------------------------------------------------------------------------------------------


@compiled_with_fma
def strongest_beams(
    spectrum: np.ndarray,
    doppler: np.ndarray,
    distance: np.ndarray,
    tdm_phases: np.ndarray,
    rows: np.ndarray,
    antenna_steering: np.ndarray,
    row_steering: np.ndarray,
    sines: tuple[np.ndarray, np.ndarray],
    out: np.ndarray,
) -> None:
    """Sines of the direction of each peak: the strongest beam, refined between beams along both axes.

    Args:
        spectrum: c8 (antenna, doppler, range).
        doppler, distance: i8 (peak,), bins in the spectrum's order.
        tdm_phases: f8 (peak, antenna), phase that the peak gained until each antenna's chirp, radians.
        rows: i8 (antenna,), row of the array.
        antenna_steering: f4 (2, antenna, azimuth), real and imaginary parts of the weights along a row.
        row_steering: c8 (elevation, row), weights of the rows.
        sines: f8 (azimuth,) and (elevation,), of the beams.
        out: f8 (2, peak), sines of azimuth and elevation.
    """
    right, up = sines
    row_real = np.empty((row_steering.shape[1], len(right)), np.float32)
    row_imag = np.empty_like(row_real)
    power = np.empty((len(up), len(right)), np.float32)
    visible = np.empty_like(power)  # 0 for pairs of sines that are no direction
    for e in range(len(up)):
        for n in range(len(right)):
            visible[e, n] = np.float32(1 if right[n] ** 2 + up[e] ** 2 <= 1 else 0)
    real, imag = np.empty(len(right), np.float32), np.empty(len(right), np.float32)
    for peak in range(out.shape[1]):
        row_real[:] = 0
        row_imag[:] = 0
        for a in range(len(rows)):
            phase = tdm_phases[peak, a]
            value = spectrum[a, doppler[peak], distance[peak]] * np.complex64(
                complex(math.cos(phase), -math.sin(phase))
            )
            add_scaled(antenna_steering[0, a], antenna_steering[1, a], value, row_real[rows[a]], row_imag[rows[a]])
        elevation, azimuth, highest = 0, 0, np.float32(0)
        for e in range(len(up)):
            real[:] = 0
            imag[:] = 0
            for row in range(len(row_real)):
                add_scaled(row_real[row], row_imag[row], row_steering[e, row], real, imag)
            _masked_power(real, imag, visible[e], power[e])
            line = power[e]
            for n in range(len(line)):
                if line[n] > highest:
                    elevation, azimuth, highest = e, n, line[n]
        out[0, peak] = _refine(right, azimuth, power[elevation])
        out[1, peak] = _refine(up, elevation, power[:, azimuth])


@compiled_with_fma
def _masked_power(real: np.ndarray, imag: np.ndarray, mask: np.ndarray, power: np.ndarray) -> None:
    for n in range(len(power)):
        power[n] = (real[n] * real[n] + imag[n] * imag[n]) * mask[n]


@compiled_with_fma
def _refine(sines: np.ndarray, beam: Any, power: np.ndarray) -> Any:
    """Sine at the vertex of the parabola through a beam and its two neighbours; the beam's own at the ends."""
    if 0 < beam < len(sines) - 1:
        return sines[beam] + _vertex(power[beam - 1], power[beam], power[beam + 1]) * (sines[1] - sines[0])
    return sines[beam]
