"""Several directions in one range-Doppler cell: Capon and MUSIC on smoothed covariances of the rows of the array.

Echoes of one cell have a fixed phase to one another, so that the covariance of a single frame has rank one. Spatial
smoothing restores its rank: parts of a row that are shifted against one another see the same echoes at other phases,
and so do their conjugates in reverse order (S. U. Pillai and B. H. Kwon, Forward/backward spatial smoothing techniques
for coherent signal identification, IEEE Transactions on Acoustics, Speech, and Signal Processing 37, 1989). All cells
of a frame are worked on at once.

**Model order.** The number of targets is the smallest one whose best fit leaves no more than noise would: the squared
residual of the rows is at most the `_CONFIDENCE` quantile of the noise that CFAR measured, plus what the errors of the
array account for, a share of the cell's power (a chi-squared test of the residual, as P. Stoica and Y. Selen call it in
Model-order selection, IEEE Signal Processing Magazine 21, 2004, with a known noise variance).
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from scipy.special import gammaincinv

from rover_pipeline.numerics.linear import eigh, inv, matmul, solve
from rover_pipeline.radar.boards import Board
from rover_pipeline.radar.tuning import TUNING

#: Probability that the noise is below the limit of the test of the model order. Noise: quantile of chi-squared.
_CONFIDENCE = 0.999
#: Maximum number of Gauss-Newton iterations that refine the directions, and the change of all of them, in widths of a
#: beam, below which they are found. Schedule.
_ITERATIONS, _CONVERGED = 12, 1e-3
#: Antennas that follow one another in a row, below which two targets cannot be distinguished: three for two targets.
#: Physics: Pillai and Kwon (above).
_MIN_ANTENNAS = 3


class Directions(NamedTuple):
    """Targets of some cells."""

    cell: np.ndarray  #: i8 (target,), index of the cell.
    right: np.ndarray  #: f8 (target,), sine of the azimuth.
    up: np.ndarray  #: f8 (target,), sine of the elevation.
    power: np.ndarray  #: f8 (target,), of each antenna.


class Resolver:
    """Finds the directions of the targets of cells.

    Args:
        method: of the search: peaks of Capon's spectrum, or of MUSIC's, refined by least squares.
        max_targets: of a cell.
        highest: sine of the largest elevation.
        array_error: share of the power of an echo that the array's model of phases and gains does not explain.
    """

    def __init__(
        self,
        board: Board,
        method: Literal["capon", "music"],
        max_targets: int,
        highest: float,
        array_error: float,
    ) -> None:
        columns = board.grid[:, 1]
        self._method, self._error = method, array_error
        self._corrections = board.corrections
        self._rows = [(line, columns[line]) for line in _rows(board)]
        runs = _longest_runs(board)
        size = max(len(run) for run in runs)
        #: The longest rows: (row, antenna). Their columns follow one another on every board of the table, but not those
        #: of some antennas of a board: then the longest part of each row that does.
        self._long = np.stack([run for run in runs if len(run) == size])
        self._columns = columns[self._long[0]] - columns[self._long[0]].min()
        self._spacing, self._row_spacing = board.spacing, board.row_spacing
        self._part = {"music": (size + 1) // 2 if size > 4 else size - 1, "capon": -(-3 * size // 4)}[method]
        self._max_order = min(max_targets, self._part - 1, size // 2)
        self._beam = 2 / (size * board.spacing)
        # Two directions that are nearer are one target whose phases the array's model does not fit.
        self._nearest = self._beam / TUNING.beam_steps
        limit = min(1.0, 1 / board.spacing)
        # Between two targets in one beam, the spectrum has a minimum of its own.
        self._grid = np.linspace(-limit, limit, 2 * board.beams[0] + 1)
        self._up = np.linspace(-highest, highest, board.beams[1] + 1) if board.has_elevation else np.zeros(1)

    @staticmethod
    def can_resolve(board: Board) -> bool:
        """Whether a row of the array has three antennas that follow one another, which two targets need."""
        return max(map(len, _longest_runs(board))) >= _MIN_ANTENNAS

    def __call__(self, snapshots: np.ndarray, noise: np.ndarray) -> Directions:
        """The targets of each cell.

        Args:
            snapshots: c16 (cell, antenna), TDM-compensated spectrum.
            noise: f8 (cell,), power of the noise of an antenna.
        """
        corrected = snapshots * self._corrections
        lines = corrected[:, self._long].transpose(0, 2, 1)  # (cell, column, row)
        total = (np.abs(lines) ** 2).sum(axis=(1, 2))
        unexplained = noise + self._error * total / lines[0].size
        best = np.full((len(lines), self._max_order), np.nan)
        left = np.arange(len(lines))
        for order in range(1, self._max_order + 1):
            if not len(left):
                break
            sines = self._search(lines[left], order, unexplained[left])
            apart = (np.diff(np.sort(sines, axis=1), axis=1) > self._nearest).all(axis=1)
            better = left[apart]
            best[better, :order] = sines[apart]
            _, residual = _fitted(self._steering(sines[apart]), lines[better])
            freedom = lines.shape[2] * (lines.shape[1] - order) - order / 2
            limit = noise[better] * gammaincinv(freedom, _CONFIDENCE) + self._error * total[better]
            left = better[residual > limit]
        amplitudes, _ = _fitted(self._steering(best), lines)
        power = (np.abs(amplitudes) ** 2).mean(axis=2)
        up = self._elevations(corrected, best)
        cell, target = np.nonzero(np.isfinite(best))
        return Directions(cell, best[cell, target], up[cell, target], power[cell, target])

    def _steering(self, sines: np.ndarray) -> np.ndarray:
        """Phases of the long rows, c16 (cell, column, target)."""
        return self._phases(sines, self._columns)

    def _phases(self, sines: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Phases at some columns, c16 (cell, column, target); zero for a target that was not found."""
        phases = np.pi * self._spacing * columns[:, None] * sines[:, None, :]
        return np.where(np.isfinite(phases), np.exp(1j * np.nan_to_num(phases)), 0)

    def _search(self, lines: np.ndarray, order: int, unexplained: np.ndarray) -> np.ndarray:
        """Sines of the azimuths of `order` targets, f8 (cell, target); NaN for those that are not there."""
        if order == 1:
            beams = np.exp(-1j * np.pi * self._spacing * np.outer(self._grid, self._columns))
            spectrum = (np.abs(matmul(beams, lines)) ** 2).sum(axis=2)
        else:
            spectrum = self.spectrum(lines, order, unexplained)
        sines = _highest(spectrum, self._grid, order)
        if self._method == "capon" and order > 1:
            return sines
        if order > 1:
            # Two targets may share one peak: they are then on both sides of it.
            lacking = ~np.isfinite(sines)
            sines = np.where(lacking, sines[:, :1] + self._beam / 4, sines)
            sines[:, 0] -= np.where(lacking.any(axis=1), self._beam / 4, 0)
        return self._refined(sines, lines)

    def spectrum(self, lines: np.ndarray, order: int, unexplained: np.ndarray) -> np.ndarray:
        """Capon's or MUSIC's spectrum over the azimuths, f8 (cell, azimuth).

        Args:
            lines: c16 (cell, column, row), corrected signals of the longest rows; order: number of targets, for MUSIC.
            unexplained: f8 (cell,), power of an antenna that is of no target, for Capon.
        """
        shifts = range(lines.shape[1] - self._part + 1)
        parts = np.concatenate([lines[:, shift : shift + self._part] for shift in shifts], axis=2)
        parts = np.concatenate([parts, parts[:, ::-1].conj()], axis=2)
        covariance = matmul(parts, parts.conj().transpose(0, 2, 1)) / parts.shape[2]
        if self._method == "music":
            noise = eigh(covariance)[1][:, :, : self._part - order]
            return 1 / np.maximum(self._quadratic(matmul(noise, noise.conj().transpose(0, 2, 1))), 1e-9)
        load = np.maximum(unexplained / parts.shape[2], 1e-30)  # by which the mean of the parts errs
        inverse = inv(covariance + load[:, None, None] * np.eye(self._part))
        return 1 / np.maximum(self._quadratic(inverse), 1e-30)

    def _quadratic(self, matrices: np.ndarray) -> np.ndarray:
        """a^H M a of Hermitian matrices for the steering vectors a of all azimuths, f8 (cell, azimuth).

        The phases depend on the distance of two antennas only, so that the diagonals of M can be summed first.
        """
        lags = np.arange(self._part)
        sums = np.stack([np.trace(matrices, offset=lag, axis1=1, axis2=2) for lag in lags], axis=1)
        sums[:, 1:] *= 2
        return matmul(sums, np.exp(1j * np.pi * self._spacing * np.outer(lags, self._grid))).real

    def _refined(self, sines: np.ndarray, lines: np.ndarray) -> np.ndarray:
        """Least squares: Gauss-Newton on the azimuths, with the amplitudes eliminated; never worse than the start."""
        best, step = sines, np.ones(len(sines))
        _, lowest = _fitted(self._steering(best), lines)
        for _ in range(_ITERATIONS):
            steering = self._steering(best)
            amplitudes, _ = _fitted(steering, lines)
            rest = lines - matmul(steering, amplitudes)
            slope = 1j * np.pi * self._spacing * self._columns[:, None] * steering
            # (cell, column and row, target), without what the amplitudes could take up.
            jacobian = slope[:, :, None, :] * amplitudes.transpose(0, 2, 1)[:, None]
            for row in range(lines.shape[2]):
                fitted, _ = _fitted(steering, jacobian[:, :, row])
                jacobian[:, :, row] -= matmul(steering, fitted)
            flat = jacobian.reshape(len(lines), -1, sines.shape[1])
            normal = matmul(flat.conj().transpose(0, 2, 1), flat).real
            gradient = matmul(flat.conj().transpose(0, 2, 1), rest.reshape(len(lines), -1, 1)).real[..., 0]
            size = np.trace(normal, axis1=1, axis2=2)[:, None, None] / sines.shape[1]
            change = _solved(normal + (1e-6 * size + 1e-30) * np.eye(sines.shape[1]), gradient[..., None])[..., 0]
            change = np.clip(change, -self._nearest, self._nearest)
            trial = np.clip(best + step[:, None] * change, self._grid[0], self._grid[-1])
            _, residual = _fitted(self._steering(trial), lines)
            better = residual < lowest
            best, lowest = np.where(better[:, None], trial, best), np.where(better, residual, lowest)
            step = np.where(better, np.minimum(2 * step, 1), step / 2)
            if np.abs(step[:, None] * change).max() < _CONVERGED * self._beam:
                break
        return best

    def _elevations(self, corrected: np.ndarray, sines: np.ndarray) -> np.ndarray:
        """Sine of the elevation of each target, f8 (cell, target): the strongest beam over the rows, refined."""
        if len(self._up) == 1:
            return np.zeros_like(sines)
        total = np.zeros((*sines.shape, len(self._up)), "c16")
        for row, (line, columns) in enumerate(self._rows):
            amplitudes, _ = _fitted(self._phases(sines, columns), corrected[:, line, None])
            total += len(line) * amplitudes * np.exp(-1j * np.pi * self._row_spacing * row * self._up)
        visible = self._up**2 + np.nan_to_num(sines)[..., None] ** 2 <= 1
        power = np.abs(total) ** 2
        best = np.where(visible, power, 0).argmax(axis=2)
        # The vertex of the parabola through the logarithms of the strongest beam and those beside it.
        beside = np.log(np.maximum(np.pad(power, ((0, 0), (0, 0), (1, 1)), mode="edge"), 1e-30))
        before, middle, after = (np.take_along_axis(beside, best[..., None] + n, axis=2)[..., 0] for n in range(3))
        curvature = np.minimum(before + after - 2 * middle, -1e-9)
        step = np.clip((before - after) / curvature / 2, -0.5, 0.5) * (self._up[1] - self._up[0])
        return np.asarray(np.clip(self._up[best] + step, self._up[0], self._up[-1]))


def _rows(board: Board) -> list[np.ndarray]:
    """Numbers of the antennas of each row of the array, in the order of their columns, i8 (antenna,)."""
    rows, columns = board.grid.T
    lines = [np.flatnonzero(rows == row) for row in range(rows.max() + 1)]
    return [line[np.argsort(columns[line])] for line in lines]


def _longest_runs(board: Board) -> list[np.ndarray]:
    """The longest part of each row whose columns follow one another without a gap, i8 (antenna,)."""
    columns = board.grid[:, 1]
    return [max(np.split(line, np.flatnonzero(np.diff(columns[line]) != 1) + 1), key=len) for line in _rows(board)]


def _fitted(steering: np.ndarray, lines: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Amplitudes c16 (cell, target, row) by least squares, and the squared residual f8 (cell,).

    Args:
        steering: c16 (cell, column, target); lines: c16 (cell, column, row).
    """
    adjoint = steering.conj().transpose(0, 2, 1)
    normal = matmul(adjoint, steering)
    # A target that was not found has zeros, and an amplitude of zero.
    ridge = np.sqrt(np.finfo("f8").eps) * lines.shape[1] * np.eye(normal.shape[1])
    amplitudes = _solved(normal + ridge, matmul(adjoint, lines))
    residual = (np.abs(lines - matmul(steering, amplitudes)) ** 2).sum(axis=(1, 2))
    return amplitudes, residual


def _solved(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solutions of many small systems, (cell, n, m); for one and two unknowns many times faster than LAPACK."""
    size = matrix.shape[-1]
    if size == 1:
        return right / matrix
    if size > 2:
        return solve(matrix, right)
    a, b, c, d = (matrix[:, i, j, None] for i in (0, 1) for j in (0, 1))
    first, second = right[:, 0], right[:, 1]
    return np.stack([d * first - b * second, a * second - c * first], axis=1) / (a * d - b * c)[:, None]


def _highest(spectrum: np.ndarray, sines: np.ndarray, count: int) -> np.ndarray:
    """Sines of the highest peaks of each spectrum, f8 (cell, count); NaN where there are fewer."""
    padded = np.pad(spectrum, ((0, 0), (1, 1)))
    is_peak = (spectrum > padded[:, :-2]) & (spectrum >= padded[:, 2:])
    heights = np.where(is_peak, spectrum, 0)
    order = np.argsort(-heights, axis=1, kind="stable")[:, :count]
    return np.where(np.take_along_axis(heights, order, axis=1) > 0, sines[order], np.nan)
