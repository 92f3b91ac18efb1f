"""Phase and gain of every virtual antenna from echoes whose directions are known, or are found on the way.

An echo from a known direction gives the gains up to a common factor. Echoes of unknown directions give them too, if
there are many directions, but for a phase that grows along the array, which would be the same as turning the radar, and
for the distance of the antennas, which would be the same as stretching the angles. What moves the radar past static
echoes gives both: their Doppler is the velocity's component towards them. (Alternating estimation of directions and
gains as in B. Friedlander and A. J. Weiss, Eigenstructure methods for direction finding with sensor gain and phase
uncertainties, ICASSP 1988; the Doppler takes the place of their known directions.)

Directions are sines of azimuth (to the right) and elevation (up) in the radar frame.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from rover_pipeline.calibrate.tuning import TUNING
from rover_pipeline.kinematics.mounts import PRIOR_SIGMA, TOLERANCE
from rover_pipeline.numerics.linear import eigh, inv, matmul, solve
from rover_pipeline.radar.angles import coherence, plane_waves, unit_vectors, vertex
from rover_pipeline.radar.boards import Board
from rover_pipeline.radar.ego_motion import OUTLIER
from rover_pipeline.radar.options import PointsOptions

#: Prior standard deviation of a turn of the array (sine): to turn it is to turn its mount, which was declared. And of
#: its spacing, relative: a stretch of its angles moves what is at the side as far. And what directions and angles are
#: wrong by however many echoes there are, as the mount is.
#: Noise: tape measures and CAD, as `PRIOR_SIGMA` and `TOLERANCE` say.
TURN_PRIOR, _SYSTEMATIC = float(np.sin(PRIOR_SIGMA[0])), float(TOLERANCE[0])
#: Iterations of directions and gains: from the eighth on results change by a hundredth of their deviations. Schedule.
_ITERATIONS = 15


class Fit(NamedTuple):
    """Gains of an array."""

    gains: np.ndarray  #: c16 (antenna,), relative: their mean phase and their mean in dB are zero.
    #: f8 (antenna,), standard deviation of the phase, radians; of the logarithm of the gain too.
    phase_sigma: np.ndarray
    spacing: float  #: half wavelengths.
    spacing_sigma: float
    coherence: np.ndarray  #: f8 (echo,), of each echo with the gains.
    right: np.ndarray  #: f8 (echo,), the directions, as `up`.
    up: np.ndarray
    used: np.ndarray  #: bool (echo,).


class Passed(NamedTuple):
    """What is known of static echoes past which the radar moves."""

    doppler: np.ndarray  #: f8 (echo,), m/s, positive recedes, not aliased.
    velocity: np.ndarray  #: f8 (echo, 3), of the radar over ground in its own frame, m/s.
    sigma: np.ndarray  #: f8 (echo,), standard deviation of the Doppler less its prediction, m/s.

    def residual(self, right: np.ndarray, up: np.ndarray) -> np.ndarray:
        """The Doppler less its prediction in these directions, f8 (echo,), m/s."""
        return self.doppler + (unit_vectors(right, up) * self.velocity).sum(axis=1)


def fit_gains(board: Board, snapshots: np.ndarray, snr: np.ndarray, right: np.ndarray, up: np.ndarray) -> Fit:
    """Gains from echoes whose directions are known.

    Args:
        board: whose gains are left out of account.
        snapshots: c16 (echo, antenna), TDM-compensated.
        snr: f8 (echo,), power over noise of an antenna.
        right, up: f8 (echo,).
    """
    bare = replace(board, gains=())
    aligned = snapshots * plane_waves(bare, right, up).conj()
    gains, weight = _principal(aligned, snr)
    phase_sigma = np.hypot(_scatter(aligned, gains, weight, snr), TUNING.clutter_phase)
    fitted = coherence(replace(board, gains=tuple(gains.tolist())), snapshots, right, up)
    return Fit(gains, phase_sigma, board.spacing, np.inf, fitted, right, up, weight > 0)


def fit_moving(board: Board, snapshots: np.ndarray, snr: np.ndarray, passed: Passed) -> Fit:
    """Gains and spacing from static echoes of unknown directions, past which the radar moves with a known velocity.

    Args:
        snapshots, snr: as in `fit_gains`.
    """
    board, (rows, columns) = replace(board, gains=()), board.grid.T
    gains, used = np.ones(snapshots.shape[1], "c16"), np.ones(len(snapshots), bool)
    right, up = strongest_directions(board, snapshots)
    for _ in range(_ITERATIONS):
        current = replace(board, gains=tuple(gains.tolist()))
        unexplained = float(np.median(1 - coherence(current, snapshots, right, up)[used]))
        fit_weight = 1 / max(unexplained, 1 / float(np.median(snr)))
        right, up = _directions(current, snapshots, passed, fit_weight)
        aligned = snapshots * plane_waves(board, right, up).conj()
        used = np.abs(passed.residual(right, up)) < OUTLIER * passed.sigma
        gains, weight = _principal(np.where(used[:, None], aligned, 0), snr)
        turn, stretch, turn_sigma, stretch_sigma = _turn(right, up, passed, weight > 0)
        board = replace(board, spacing=board.spacing / (1 + stretch))
        cycles = board.spacing * columns * turn[0] + board.row_spacing * rows * turn[1]
        gains = _normalised(gains * np.exp(-1j * np.pi * cycles))
    right, up = right * (1 + stretch) + turn[0], up + turn[1]
    spacing_sigma = float(np.hypot(stretch_sigma, _SYSTEMATIC) * board.spacing)
    aligned = snapshots * plane_waves(board, right, up).conj()
    # The turn's own error is common to all antennas, in proportion to their distance from the middle.
    distance = np.stack([board.spacing * (columns - columns.mean()), board.row_spacing * (rows - rows.mean())])
    common = (np.pi * distance * np.hypot(turn_sigma, _SYSTEMATIC)[:, None]) ** 2
    phase_sigma = np.sqrt(_scatter(aligned, gains, weight, snr) ** 2 + common.sum(axis=0))
    calibrated = replace(board, gains=tuple(gains.tolist()))
    fitted = coherence(calibrated, snapshots, right, up)
    return Fit(gains, phase_sigma, board.spacing, spacing_sigma, fitted, right, up, used & (weight > 0))


def strongest_directions(board: Board, snapshots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sines of the strongest beam of each echo, by the gains of the board, f8 (echo,) each."""
    count = len(snapshots)
    return _directions(board, snapshots, Passed(np.zeros(count), np.zeros((count, 3)), np.ones(count)), 1.0)


def _directions(
    board: Board, snapshots: np.ndarray, passed: Passed, fit_weight: float
) -> tuple[np.ndarray, np.ndarray]:
    """The most likely direction of each echo, by its phases and its Doppler, refined between the tried ones."""
    limit = min(1.0, 1 / board.spacing)
    highest = min(np.sin(np.radians(PointsOptions().max_elevation)), 1 / board.row_spacing)
    azimuth = np.linspace(-limit, limit, board.beams[0] + 1)
    elevation = np.linspace(-highest, highest, board.beams[1] + 1) if board.has_elevation else np.zeros(1)
    right, up = (each.ravel() for each in np.meshgrid(azimuth, elevation, indexing="ij"))
    visible = right**2 + up**2 <= 1
    beams = plane_waves(board, right, up).conj()
    corrected = snapshots * board.corrections * board.signs
    in_phase = np.maximum((board.corrections != 0).sum() * (np.abs(corrected) ** 2).sum(axis=1), 1e-30)
    fit = np.abs(matmul(corrected, beams.T)) ** 2 / in_phase[:, None]
    along = matmul(passed.velocity, unit_vectors(right, up).T)
    residual = (passed.doppler[:, None] + along) / passed.sigma[:, None]
    # A residual beyond the outlier's counts no more: the echo may move.
    score = fit_weight * fit - np.minimum(residual**2, OUTLIER**2 * 4) / 2
    shape = (len(snapshots), len(azimuth), len(elevation))
    best = np.where(visible, score, -np.inf).argmax(axis=1)
    i, j = np.divmod(best, len(elevation))
    # The Doppler chooses between directions that the phases do not distinguish, but it must not pull on the chosen
    # one: what is left between both is what determines the turn and the spacing of the array.
    fit = np.where(visible, fit, -np.inf).reshape(shape)
    every = np.arange(len(snapshots))
    moves = True
    while moves:
        right_of = _uphill(*(fit[every, np.clip(i + k, 0, shape[1] - 1), j] for k in (-1, 0, 1)))
        i = i + right_of
        above = _uphill(*(fit[every, i, np.clip(j + k, 0, shape[2] - 1)] for k in (-1, 0, 1)))
        j = j + above
        moves = bool(right_of.any() or above.any())
    by_azimuth = vertex(*(fit[every, np.clip(i + k, 0, shape[1] - 1), j] for k in (-1, 0, 1)))
    by_elevation = vertex(*(fit[every, i, np.clip(j + k, 0, shape[2] - 1)] for k in (-1, 0, 1)))
    step = elevation[1] - elevation[0] if len(elevation) > 1 else 0.0
    return azimuth[i] + by_azimuth * (azimuth[1] - azimuth[0]), elevation[j] + by_elevation * step


def _uphill(low: np.ndarray, middle: np.ndarray, high: np.ndarray) -> np.ndarray:
    """-1, 0 or 1: to the highest of three neighbours; at an end the middle one stands for what is beyond."""
    return np.where((low > middle) & (low >= high), -1, np.where(high > middle, 1, 0))


def _principal(aligned: np.ndarray, snr: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gains c16 (antenna,) that fit most echoes, and the weight of each echo, f8 (echo,).

    Echoes count by how well they fit: a cell with two targets fits no gains. Noise leaves 1 / `snr` of the power
    unexplained, so that none can decide alone.
    """
    power = (np.abs(aligned) ** 2).sum(axis=1)
    unit = aligned / np.sqrt(np.maximum(power, 1e-30))[:, None]
    weight, noise = (power > 0).astype("f8"), 1 / np.maximum(snr, 1.0)
    gains = np.ones(aligned.shape[1], "c16")
    for _ in range(10):
        covariance = matmul((unit * weight[:, None]).T, unit.conj())
        gains = eigh(covariance)[1][:, -1]
        rest = 1 - np.abs(matmul(unit, gains.conj())) ** 2
        # The share of echoes that fit worst is left out, but never more than half of them.
        typical = 2 * float(np.median(rest[power > 0])) if (power > 0).any() else 0.0
        weight = np.where((power > 0) & (rest <= typical + noise), 1 / (rest + noise), 0)
    return _normalised(gains), weight


def _normalised(gains: np.ndarray) -> np.ndarray:
    """Gains with a mean phase and a mean in dB of zero."""
    size = np.maximum(np.abs(gains), 1e-6)
    phase = np.angle((gains / size).sum())
    return gains / np.exp(np.log(size).mean()) * np.exp(-1j * phase)


def _scatter(aligned: np.ndarray, gains: np.ndarray, weight: np.ndarray, snr: np.ndarray) -> np.ndarray:
    """Standard deviation of the phase of each gain, f8 (antenna,), radians: of the mean over the echoes."""
    used = weight > 0
    noise = np.sqrt(1 / np.maximum(2 * snr[used], 1e-9))
    of_noise = 1 / np.sqrt(np.maximum((1 / noise**2).sum(), 1e-9))
    amplitude = matmul(aligned[used], gains.conj() / (np.abs(gains) ** 2).sum())
    ratio = aligned[used] / amplitude[:, None] / gains
    deviation = np.angle(ratio)
    share = weight[used] / weight[used].sum()
    spread: np.ndarray = np.sqrt((share[:, None] * deviation**2).sum(axis=0) * (share**2).sum())
    return np.maximum(spread, of_noise)


def _turn(
    right: np.ndarray, up: np.ndarray, passed: Passed, used: np.ndarray
) -> tuple[np.ndarray, float, np.ndarray, float]:
    """Turn of the array (sines right and up) and stretch of its angles that fit the Doppler best, with deviations."""
    ahead = np.sqrt(np.maximum(1 - right**2 - up**2, 0.05))
    by_right = -right / ahead * passed.velocity[:, 0] - passed.velocity[:, 1]
    by_up = -up / ahead * passed.velocity[:, 0] + passed.velocity[:, 2]
    design = np.stack([by_right, by_up, by_right * right], axis=1) / passed.sigma[:, None]
    target = -passed.residual(right, up) / passed.sigma
    prior = np.eye(3) * TURN_PRIOR**-2
    solution, information = np.zeros(3), prior
    for _ in range(8):
        rest = target - matmul(design, solution)
        weight = np.where(used & (np.abs(rest) < OUTLIER), (1 - (rest / OUTLIER) ** 2) ** 2, 0)
        information = prior + matmul(design.T, design * weight[:, None])
        solution = solve(information, matmul(design.T, weight * target))
    kept = weight > 0
    scale = max(1.0, float((weight * rest**2).sum() / max(weight.sum(), 1e-9))) if kept.any() else 1.0
    deviation = np.sqrt(np.diag(inv(information)) * scale)
    return solution[:2], float(solution[2]), deviation[:2], float(deviation[2])
