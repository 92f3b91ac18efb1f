"""Compiled kernels of points: CFAR detection, directions, and the radar's own velocity."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rover_pipeline.numerics.compiled import compiled_with_fma, inlined
from rover_pipeline.radar.spectrum import add_scaled

# --- Detection ----------------------------------------------------------------------------------------------------


@compiled_with_fma
def few_from(
    # f4 (doppler + 2 * rows, range + 2 * edge), a map with as many rows and cells around it as training cells lie
    # beyond a cell.
    padded: np.ndarray,
    cells: np.ndarray,  # i8 (cell,), flat indices into the map.
    limits: np.ndarray,  # f4 (cell,).
    guard: tuple[int, int],  # numbers of guard cells on each side, along (doppler, range).
    train: tuple[int, int],  # the same of training cells.
    enough: int,
    few: np.ndarray,  # bool (cell,), result.
) -> None:
    """Whether fewer than `enough` of the training cells of each cell are not below its limit."""
    rows, edge = guard[0] + train[0], guard[1] + train[1]
    bins = padded.shape[1] - 2 * edge
    for cell in range(len(limits)):
        middle, r, limit = cells[cell] // bins + rows, cells[cell] % bins, limits[cell]
        # Rows without guard cells come first: most maxima of noise fail after a few of them.
        above, n = 0, 0
        while n <= rows and above < enough:
            d = (n + guard[0] + 1) % (rows + 1)
            for sign in range(1 if d == 0 else 2):
                near = padded[middle + (d if sign else -d)]
                if d > guard[0]:
                    above += _count_from(near[r : r + 2 * edge + 1], limit)
                else:
                    above += _count_from(near[r : r + train[1]], limit)
                    above += _count_from(near[r + edge + guard[1] + 1 : r + 2 * edge + 1], limit)
            n += 1
        few[cell] = above < enough


@compiled_with_fma
def _count_from(values: np.ndarray, limit: Any) -> Any:
    """Number of the values that are not below a limit."""
    count = np.int32(0)  # of the size of a value: twice as many at once as in Numba's own integers
    for n in range(len(values)):
        count = np.int32(count + np.int32(values[n] >= limit))
    return count


@compiled_with_fma
def measure_peaks(
    power: np.ndarray,  # (doppler, range); Doppler is periodic.
    noise: np.ndarray,  # f8 (peak,), of each cell.
    cells: np.ndarray,  # i8 (peak,), flat indices into (doppler, range).
    # Largest power of a sidelobe over that of its tone, f8, by distance along (doppler, range).
    sidelobes: tuple[np.ndarray, np.ndarray],
    snr: np.ndarray,  # f8 (peak,), result.
    position: np.ndarray,  # f8 (2, peak), result: bins of (doppler, range).
) -> None:
    """Power over noise of each peak, 0 if it may be a sidelobe of a stronger one, and its position between the bins."""
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


@inlined
def _vertex(before: Any, middle: Any, after: Any) -> Any:
    """Offset of the maximum of the parabola through the logarithms of three neighbours, -0.5 to 0.5 bins."""
    a, b, c = _log(before), _log(middle), _log(after)
    curvature = a - 2 * b + c
    return min(max(0.5 * (a - c) / curvature, -0.5), 0.5) if curvature < 0 else 0.0


@inlined
def _log(power: Any) -> Any:
    return math.log(max(np.float64(power), 1e-38))


# --- Directions ---------------------------------------------------------------------------------------------------


@compiled_with_fma
def strongest_beams(
    spectrum: np.ndarray,  # c8 (antenna, doppler, range).
    doppler: np.ndarray,  # i8 (peak,), bins in the spectrum's order.
    distance: np.ndarray,  # i8 (peak,), range bins.
    tdm_phases: np.ndarray,  # f8 (peak, antenna), phase that the peak gained until each antenna's chirp, radians.
    rows: np.ndarray,  # i8 (antenna,), row of the array.
    antenna_steering: np.ndarray,  # f4 (2, antenna, azimuth), real and imaginary parts of the weights along a row.
    row_steering: np.ndarray,  # c8 (elevation, row), weights of the rows.
    sines: tuple[np.ndarray, np.ndarray],  # f8 (azimuth,) and (elevation,), of the beams.
    out: np.ndarray,  # f8 (2, peak), sines of azimuth and elevation.
) -> None:
    """Sines of the direction of each peak: the strongest beam, refined between beams along both axes."""
    right, up = sines
    bins = len(right)
    row_real = np.empty((row_steering.shape[1], bins), np.float32)
    row_imag = np.empty_like(row_real)
    power = np.empty((len(up), bins), np.float32)
    visible = np.empty_like(power)  # 0 for pairs of sines that are no direction
    for e in range(len(up)):
        for n in range(bins):
            visible[e, n] = np.float32(1 if right[n] ** 2 + up[e] ** 2 <= 1 else 0)
    real, imag = np.empty(bins, np.float32), np.empty(bins, np.float32)
    for peak in range(out.shape[1]):
        row_real[:] = 0
        row_imag[:] = 0
        for a in range(len(rows)):
            phase = tdm_phases[peak, a]
            turn = np.complex64(complex(math.cos(phase), -math.sin(phase)))
            value = spectrum[a, doppler[peak], distance[peak]] * turn
            add_scaled(antenna_steering[0, a], antenna_steering[1, a], value, row_real[rows[a]], row_imag[rows[a]])
        elevation, azimuth, highest = 0, 0, np.float32(0)
        for e in range(len(up)):
            real[:] = 0
            imag[:] = 0
            for row in range(len(row_real)):
                add_scaled(row_real[row], row_imag[row], row_steering[e, row], real, imag)
            _masked_power(real, imag, visible[e], power[e])
            higher = np.int32(0)
            for n in range(bins):
                higher |= np.int32(power[e, n] > highest)
            if higher:  # vectors see at once that most lines are lower
                for n in range(bins):
                    if power[e, n] > highest:
                        elevation, azimuth, highest = e, n, power[e, n]
        out[0, peak] = _refine(right, azimuth, power[elevation])
        out[1, peak] = _refine(up, elevation, power[:, azimuth])


@inlined
def _masked_power(real: np.ndarray, imag: np.ndarray, mask: np.ndarray, power: np.ndarray) -> None:
    for n in range(len(power)):
        power[n] = (real[n] * real[n] + imag[n] * imag[n]) * mask[n]


@inlined
def _refine(sines: np.ndarray, beam: Any, power: np.ndarray) -> Any:
    """Sine at the vertex of the parabola through a beam and its two neighbours; the beam's own at the ends."""
    if 0 < beam < len(sines) - 1:
        return sines[beam] + _vertex(power[beam - 1], power[beam], power[beam + 1]) * (sines[1] - sines[0])
    return sines[beam]


# --- The radar's own velocity -------------------------------------------------------------------------------------


@inlined
def _doppler_variance(tangent: Any, error: Any, v: Any, doppler_variance: float) -> Any:
    """Variance of the Doppler of a static target less its prediction, m2/s2: of the Doppler and of the direction.

    Args:
        tangent: f8 (2,) or a tuple, as `error` and `v`; left and up of the direction over ahead.
        error: f8 (2,), of the sines of azimuth and elevation.
        v: f8 (3,), velocity of the radar, m/s; doppler_variance: m2/s2.
    """
    left, up = error[0] * (v[1] - v[0] * tangent[0]), error[1] * (v[2] - v[0] * tangent[1])
    return doppler_variance + left * left + up * up


@compiled_with_fma
def ego_evidence(
    direction: np.ndarray,  # this and the next four: see `Echoes` of `rover_pipeline.radar.ego_motion`.
    tangent: np.ndarray,
    doppler: np.ndarray,
    likelihood: np.ndarray,
    error: np.ndarray,
    velocities: np.ndarray,  # f8 (velocity, 3), of the radar, front-left-up, m/s.
    doppler_variance: float,  # m2/s2.
    span: float,  # of the Doppler of targets that move, m/s.
    pitch: float,  # what the vertical velocity may be off by, as a share of the speed; 0 = it is known.
    evidence: np.ndarray,  # f8 (velocity, echo), result; further columns are left alone.
) -> None:
    """Logarithm of how much more likely each echo is if its target is at rest than if it moves, 0 or more."""
    echoes, ambiguities = doppler.shape
    highest = math.log(span / math.sqrt(2 * math.pi * doppler_variance))
    x, y, z = velocities[:, 0].copy(), velocities[:, 1].copy(), velocities[:, 2].copy()
    vertical, residual, variance = np.empty_like(x), np.empty_like(x), np.empty_like(x)
    best, near, some = np.empty_like(x), np.empty(len(x), np.bool_), np.empty(len(x), np.int64)
    for n in range(len(x)):
        vertical[n] = pitch * pitch * (x[n] * x[n] + y[n] * y[n])
    for p in range(echoes):
        best[:] = 0
        own = (error[p, 0], error[p, 1])
        for k in range(ambiguities):
            limit = highest + likelihood[p, k]
            if limit <= 0:
                continue
            a, b, c, speed = direction[p, k, 0], direction[p, k, 1], direction[p, k, 2], doppler[p, k]
            slope = (tangent[p, k, 0], tangent[p, k, 1])
            for n in range(len(x)):  # by vectors, for all velocities
                residual[n] = speed + x[n] * a + y[n] * b + z[n] * c
                variance[n] = _doppler_variance(slope, own, (x[n], y[n], z[n]), doppler_variance) + vertical[n] * c * c
                near[n] = 0.5 * residual[n] * residual[n] < limit * variance[n]
            count = 0
            for n in range(len(x)):  # without a branch, which no processor could predict
                some[count] = n
                count += near[n]
            for n in some[:count]:  # of others the logarithm need not be computed
                left = limit - best[n]
                if left > 0 and 0.5 * residual[n] * residual[n] < left * variance[n]:
                    less = math.log(variance[n] / doppler_variance) + residual[n] * residual[n] / variance[n]
                    best[n] = max(best[n], best[n] + left - 0.5 * less)
        for n in range(len(x)):
            evidence[n, p] = best[n]


@compiled_with_fma
def refine_ego_velocity(
    direction: np.ndarray,  # this and the next four: see `Echoes` of `rover_pipeline.radar.ego_motion`.
    tangent: np.ndarray,
    doppler: np.ndarray,
    likelihood: np.ndarray,
    error: np.ndarray,
    doppler_variance: float,  # m2/s2.
    vertical: float,  # prior standard deviation of the vertical velocity, m/s.
    pitch: float,  # the same as a share of the level speed.
    outlier: float,  # standard deviations above which a target moves.
    velocity: np.ndarray,
) -> None:
    """Replaces a velocity, f8 (3,), by that of iteratively reweighted least squares over the echoes at rest at it.

    Weights are Tukey's biweight: the larger a residual, the smaller its weight.
    """
    # More iterations follow the errors of elevations: a radar that is carried by hand, and back to where it began, ends
    # 1.8, 3.0, 3.7 and 4.7 % of its way from there with 3, 4, 6 and 20 of them.
    for _ in range(3):
        prior = 1 / (vertical**2 + pitch**2 * (velocity[0] ** 2 + velocity[1] ** 2))
        # Information of 1e-6 s2/m2 (a standard deviation of 1 km/s) keeps the matrix regular.
        xx, xy, yy, xz, yz, zz = 1e-6, 0.0, 1e-6, 0.0, 0.0, 1e-6 + prior
        x, y, z, count = 0.0, 0.0, 0.0, 0
        for p in range(len(doppler)):
            lowest, at, square, variance = 0.5 * outlier * outlier, -1, 0.0, 1.0
            for k in range(doppler.shape[1]):
                u = direction[p, k]
                residual = doppler[p, k] + velocity[0] * u[0] + velocity[1] * u[1] + velocity[2] * u[2]
                own = _doppler_variance(tangent[p, k], error[p], velocity, doppler_variance)
                cost = 0.5 * residual * residual / own - likelihood[p, k]
                if cost < lowest:
                    lowest, at, square, variance = cost, k, residual * residual / own, own
            if at >= 0:
                a, b, c = direction[p, at, 0], direction[p, at, 1], direction[p, at, 2]
                weight = (1 - square / (outlier * outlier)) ** 2 / variance
                xx += weight * a * a
                xy += weight * a * b
                yy += weight * b * b
                xz += weight * a * c
                yz += weight * b * c
                zz += weight * c * c
                x -= weight * a * doppler[p, at]
                y -= weight * b * doppler[p, at]
                z -= weight * c * doppler[p, at]
                count += 1
        if count < 3:
            break
        # The vertical velocity is eliminated first: the prior keeps its diagonal above zero.
        x, y = x - xz * z / zz, y - yz * z / zz
        axx, axy, ayy = xx - xz * xz / zz, xy - xz * yz / zz, yy - yz * yz / zz
        determinant = axx * ayy - axy * axy
        ahead, left = (ayy * x - axy * y) / determinant, (axx * y - axy * x) / determinant
        change = abs(ahead - velocity[0]) + abs(left - velocity[1])
        velocity[0], velocity[1], velocity[2] = ahead, left, (z - xz * ahead - yz * left) / zz
        if change < 1e-5:
            break
