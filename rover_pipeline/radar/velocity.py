"""Virtual sensor `_radar_velocity`: the radar's own velocity (ego-motion) from the Doppler of static points.

`ego_motion` finds the velocity at which most points are at rest, and others that compete with it. Here follow its
covariance, and whether it can be trusted. Radar frame, front-left-up.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rover_pipeline.numerics.linear import inv, matmul
from rover_pipeline.numerics.robust import FALSE_ALARM
from rover_pipeline.radar.axes import bins_of_chirps, doppler_bin, max_doppler
from rover_pipeline.radar.ego_motion import (
    OUTLIER,
    Echoes,
    doppler_variance,
    find_velocities,
    largest_error,
    tangents,
    vertical_sigma,
)
from rover_pipeline.radar.options import VelocityOptions, VelocitySection
from rover_pipeline.radar.tuning import TUNING

#: Mean square of a standard normal variable truncated at `OUTLIER`. Noise: normal distribution.
_TRUNCATED_VARIANCE = 0.973


class Velocity(NamedTuple):
    """Estimate of one frame."""

    vel: np.ndarray  #: f8 (3,), m/s; NaN if there is no estimate at all.
    cov: np.ndarray  #: f8 (3, 3), m2/s2; NaN likewise.
    inliers: int  #: number of static points.
    #: whether enough points agree, their directions differ enough, and the others agree on nothing else.
    determined: bool


#: Layout.
_NOTHING = Velocity(np.full(3, np.nan), np.full((3, 3), np.nan), 0, False)


def velocity(
    xyz: np.ndarray,
    doppler: np.ndarray,
    count: np.ndarray,
    certain: np.ndarray,
    deviation: np.ndarray,
    *,
    options: VelocityOptions,
    sidecar: str,
    config: str | None = None,
) -> dict[str, np.ndarray]:
    """The radar's own velocity at each frame, from points at rest.

    Args:
        xyz: f4 (frame, point, 3), m; doppler: f4 (frame, point), m/s; count: u2 (frame,), points of each frame.
        certain: u1 (frame, point), 0 = the Doppler may be off by whole spans: nothing follows from the point.
        deviation: f4 (frame, point, 2), standard deviations of the sines of azimuth and elevation; NaN = not known.
        sidecar: `radar.json`, or `points.json` of a radar that sends points, which says how large Doppler bins are.
        config: `config.yaml`, whose chirps say it too. Speeds are as uncertain as both are apart.

    Returns:
        `vel` f4 (frame, 3), `cov` f4 (frame, 3, 3), NaN where there are too few points, `inliers` u2 (frame,), and
        `valid` = 0 where the points do not determine the velocity.
    """
    mps = doppler_bin(sidecar)
    if mps is None:
        raise ValueError("radar.json must give range_resolution and doppler_resolution, both above zero")
    limit, by_chirps = max_doppler(sidecar) or np.inf, bins_of_chirps(config, sidecar)
    apart = math.expm1(abs(math.log(by_chirps[1] / mps))) if mps and by_chirps else 0.0
    estimates = []
    for positions, speeds, n, sure, errors in zip(xyz, doppler, count, certain, deviation, strict=True):
        known = np.flatnonzero(sure[:n])
        direction = positions[known].astype("f8")
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        estimate = ego_velocity(direction, speeds[known].astype("f8"), mps, options, errors[known].astype("f8"), apart)
        # Where few points are certain, those that are need not stand for the others. Of a radar that is too fast for
        # its spans to be distinguished, only points at its sides are certain, whose directions then err to one side.
        enough = estimate.inliers >= options.min_share * n
        # Half a span beyond the largest speed that a point is believed to have, most points ahead are not certain.
        enough &= bool(np.linalg.norm(estimate.vel, axis=0) <= 2 * (options.max_folds + 1) * limit)
        estimates.append(estimate._replace(determined=estimate.determined and bool(enough)))
    return {
        "vel": np.array([each.vel for each in estimates], "f4"),
        "cov": np.array([each.cov for each in estimates], "f4"),
        "inliers": np.array([each.inliers for each in estimates], "u2"),
        "valid": np.array([each.determined for each in estimates], "u1"),
    }


def ego_velocity(
    direction: np.ndarray,
    doppler: np.ndarray,
    bin_mps: float,
    options: VelocitySection,
    deviation: np.ndarray | None = None,
    scale_error: float = 0.0,
) -> Velocity:
    """Velocity of the radar over ground.

    Args:
        direction: f8 (point, 3), unit vectors.
        doppler: f8 (point,), m/s, positive recedes.
        bin_mps: size of a Doppler bin, m/s: the scale of the errors of `doppler`.
        deviation: f8 (point, 2), standard deviations of the sines of azimuth and elevation; NaN, None = not known.
        scale_error: of `bin_mps`, as a share of it.

    Returns:
        Not `determined` either where another velocity explains the points about as well; see `ego_motion`.
    """
    if len(doppler) < options.min_inliers:
        return _NOTHING
    doppler_sigma = options.doppler_sigma(bin_mps)
    known = np.zeros((len(doppler), 2)) if deviation is None else np.where(np.isnan(deviation), 0, deviation)
    error = np.hypot(known, (options.azimuth_error, options.elevation_error))
    echoes = Echoes(direction[:, None], doppler[:, None], np.zeros((len(doppler), 1)), error)
    found = find_velocities(echoes, doppler_sigma, options)
    vel = found.vel[0]
    variance = doppler_variance(echoes, vel, doppler_sigma)[:, 0]
    residual = (doppler + matmul(direction, vel)) / np.sqrt(variance)
    static = np.abs(residual) < OUTLIER
    inliers = int(static.sum())
    if inliers < options.min_inliers:
        return _NOTHING
    # Scale the covariance by the variance of the residuals that was observed, relative to the one of the options.
    observed = max((residual[static] ** 2).sum(), 1e-9) / (_TRUNCATED_VARIANCE * max(inliers - 3, 1))
    observed = max(observed, _rounding(doppler[static], bin_mps) / doppler_sigma**2)
    # Tukey's biweight, as in the refinement.
    weight = np.where(static, (1 - (residual / OUTLIER) ** 2) ** 2, 0) / variance / observed
    # Information of 1e-6 s2/m2 (a standard deviation of 1 km/s) keeps the matrix regular.
    information = matmul(direction.T, direction * weight[:, None]) + 1e-6 * np.eye(3)
    information[2, 2] += 1 / vertical_sigma(vel, options.vertical, options.pitch) ** 2
    cov_of_noise = inv(information)
    # Where the array knows no elevation, all directions are level and the speed comes out too small by their cosine.
    scale = math.hypot(scale_error, TUNING.scale_error if direction[:, 2].any() else TUNING.scale_error_level)
    # Phases of the array that are off turn all directions alike: more points do not make their effect smaller.
    slopes = vel[1:] - vel[0] * tangents(direction)
    moved = matmul(cov_of_noise, matmul(slopes.T * weight, direction).T) * known[static].min(axis=0)
    cov = cov_of_noise + scale**2 * np.outer(vel, vel) + matmul(moved, moved.T)
    determined = inliers >= options.min_share * len(direction) and not (found.share[1:] > options.max_rival).any()
    level = (cov[0, 0] + cov[1, 1]) / 2 + math.hypot((cov[0, 0] - cov[1, 1]) / 2, cov[1, 0])  # the larger eigenvalue
    determined &= bool(level <= largest_error(vel, options) ** 2)
    return Velocity(vel, cov, inliers, bool(determined))


def _rounding(doppler: np.ndarray, bin_mps: float) -> float:
    """Variance of independent errors, m2/s2, as bad as the rounding of velocities to whole bins; 0 if they are not.

    A radar that sends points may round their velocities. Residuals do not show it where many points are in one bin: a
    radar that creeps by less than half a bin sees zero everywhere. Points of one bin are rounded together, so they
    count as one point.

    Args:
        doppler: f8 (point,), m/s, of points at rest.
    """
    if not bin_mps:
        return 0.0
    number = np.round(doppler / bin_mps)
    # A measured velocity lies anywhere: it is so near to a whole bin with the probability of a false alarm.
    if np.abs(doppler / bin_mps - number).max(initial=0.0) > FALSE_ALARM / 2:
        return 0.0
    return bin_mps**2 / 12 * len(number) / max(len(np.unique(number)), 1)
