"""Compiled kernels of points: CFAR detection, directions, and the velocity at which points with folds are at rest."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rover_pipeline.numerics.compiled import compiled_with_fma
from rover_pipeline.radar.kernels import add_scaled

# --- Detection ----------------------------------------------------------------------------------------------------


@compiled_with_fma
def few_from(
    padded: np.ndarray,
    cells: np.ndarray,
    limits: np.ndarray,
    guard: tuple[int, int],
    train: tuple[int, int],
    most: int,
    few: np.ndarray,
) -> None:
    """Whether fewer than `most` of the training cells of each cell are not below its limit.

    Args:
        padded: f4 (doppler + 2 * rows, range + 2 * edge), a map with as many rows and cells around it as training cells
            lie beyond a cell.
        cells: i8 (2, cell), (doppler, range) in the map; limits: f4 (cell,).
        guard, train: numbers of guard and training cells on each side, along (doppler, range).
        few: bool (cell,), result.
    """
    rows, edge = guard[0] + train[0], guard[1] + train[1]
    for cell in range(len(limits)):
        middle, r, limit = cells[0, cell] + rows, cells[1, cell], limits[cell]
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
                    above += _count_from(near[r + edge + guard[1] + 1 : r + 2 * edge + 1], limit)
            n += 1
        few[cell] = above < most


@compiled_with_fma
def _count_from(values: np.ndarray, limit: Any) -> Any:
    """Number of the values that are not below a limit."""
    count = 0
    for n in range(len(values)):
        count += values[n] >= limit
    return count


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
        cells: i8 (peak,), flat indices into (doppler, range).
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


# --- Velocities at which points are at rest, with folded Doppler --------------------------------------------------


@compiled_with_fma
def variance_at(vx: float, vy: float, errors: tuple[float, float]) -> Any:
    """Variance of the Doppler of a point at rest, m2/s2: of its own error, and of the direction's by the speed.

    Args:
        errors: variance of the Doppler, m2/s2, and of the direction, as a share of the squared speed.
    """
    return errors[0] + errors[1] * (vx * vx + vy * vy)


@compiled_with_fma
def rest_odds(variance: float, span: float) -> Any:
    """Logarithm of the odds that a point is at rest whose Doppler is just that of the velocity.

    A point that moves has any Doppler of the span. Without this, a fast velocity, which tells the Doppler of points
    less accurately, would explain any points.

    Args:
        variance: of the Doppler, m2/s2; span: of Doppler, m/s, times the odds that a point is at rest.
    """
    return max(math.log(span / math.sqrt(2 * math.pi * variance)), 0.0)


@compiled_with_fma
def rest_scores(
    direction: np.ndarray,
    doppler: np.ndarray,
    likelihood: np.ndarray,
    velocities: np.ndarray,
    errors: tuple[float, float],
    span: float,
    pitch: float,
    scores: np.ndarray,
) -> None:
    """How much better each velocity explains the points than that none of them is at rest.

    Args:
        direction: f8 (point, fold, 3), unit vectors; doppler, likelihood: f8 (point, fold), m/s, logarithm.
        velocities: f8 (velocity, 3), front-left-up, m/s.
        errors: see `variance_at`; span: see `rest_odds`.
        pitch: what the vertical velocity may be off by, as a share of the speed; 0 = it is known.
        scores: f8 (velocity,), result.
    """
    points, folds = doppler.shape
    for n in range(len(velocities)):
        vx, vy, vz = velocities[n, 0], velocities[n, 1], velocities[n, 2]
        variance = variance_at(vx, vy, errors)
        odds = rest_odds(variance, span)
        vertical = pitch * pitch * (vx * vx + vy * vy)
        total = 0.0
        for p in range(points):
            best = -odds
            for k in range(folds):
                if likelihood[p, k] > best:
                    up = direction[p, k, 2]
                    residual = doppler[p, k] + vx * direction[p, k, 0] + vy * direction[p, k, 1] + vz * up
                    square = residual * residual / (variance + vertical * up * up)
                    best = max(best, likelihood[p, k] - 0.5 * square)
            total += best + odds
        scores[n] = total


@compiled_with_fma
def refine_rest(
    direction: np.ndarray,
    doppler: np.ndarray,
    likelihood: np.ndarray,
    errors: tuple[float, float],
    span: float,
    vertical: float,
    velocity: np.ndarray,
) -> None:
    """Replaces a velocity, f8 (3,), by that of least squares over the points at rest at it; see `rest_scores`.

    Args:
        vertical: prior standard deviation of the vertical velocity, m/s.
    """
    points, folds = doppler.shape
    for _ in range(3):
        vx, vy, vz = velocity[0], velocity[1], velocity[2]
        variance = variance_at(vx, vy, errors)
        weight, odds = 0.5 / variance, rest_odds(variance, span)
        prior = variance / (vertical * vertical)
        # The prior of 1e-3 about the level velocity so far only keeps the matrix regular.
        xx, xy, yy, xz, yz, zz = 1e-3, 0.0, 1e-3, 0.0, 0.0, prior
        x, y, z, count = 0.0, 0.0, prior * vz, 0
        for p in range(points):
            least, at, off = odds, -1, 0.0
            for k in range(folds):
                residual = doppler[p, k] + vx * direction[p, k, 0] + vy * direction[p, k, 1] + vz * direction[p, k, 2]
                total = weight * residual * residual - likelihood[p, k]
                if total < least:
                    least, at, off = total, k, residual
            if at >= 0:
                a, b, c = direction[p, at, 0], direction[p, at, 1], direction[p, at, 2]
                xx += a * a
                xy += a * b
                yy += b * b
                xz += a * c
                yz += b * c
                zz += c * c
                x += a * off
                y += b * off
                z += c * off
                count += 1
        if count < 3:
            break
        # The vertical velocity is eliminated first: the prior keeps its diagonal above zero.
        xx, xy, yy = xx - xz * xz / zz, xy - xz * yz / zz, yy - yz * yz / zz
        x, y = x - xz * z / zz, y - yz * z / zz
        determinant = xx * yy - xy * xy
        forward, left = (yy * x - xy * y) / determinant, (xx * y - xy * x) / determinant
        velocity[0] -= forward
        velocity[1] -= left
        velocity[2] -= (z - xz * forward - yz * left) / zz
