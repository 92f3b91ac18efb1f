"""From the spectra of a frame to points: detection, then the direction of each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rover_pipeline.radar.boards import Board
from rover_pipeline.radar.detect import (
    Peaks,
    cell_averaging,
    find_peaks,
    ordered_statistic,
    smallest_of,
)
from rover_pipeline.radar.options import PointsOptions

#: Bins of the sine over its whole range: fine enough for a parabola between them.
_AZIMUTHS, _ELEVATIONS = 64, 17


class Points(NamedTuple):
    """Points of a frame, the strongest against its noise first.

    Attributes:
        direction: f8 (point, 3), unit vector, front-left-up.
        range_at, doppler_at: f8 (point,), bins; zero velocity at `doppler // 2`.
        snr: f8 (point,), power over noise.
    """

    direction: np.ndarray
    range_at: np.ndarray
    doppler_at: np.ndarray
    snr: np.ndarray


class PointFinder:
    """Points of one frame after the other."""

    def __init__(self, board: Board, options: PointsOptions) -> None:
        self._options = options
        self._fires = np.repeat(np.arange(len(board.tx)) / len(board.tx), len(board.rx))
        self._azimuth = np.linspace(-1, 1, _AZIMUTHS + 1)
        # Rows further apart than half a wavelength see the same at sines that differ by less than two.
        limit = min(1.0, 1 / board.row_spacing, np.sin(np.radians(options.max_elevation)))
        self._elevation = np.linspace(-limit, limit, _ELEVATIONS) if board.has_elevation else np.zeros(1)
        rows, columns = board.grid.T
        along_rows = np.exp(-1j * np.pi * self._azimuth * columns[:, None]) * board.signs[:, None]
        self._across = np.stack([along_rows.real, along_rows.imag]).astype("f4")
        turns = self._elevation[:, None] * board.row_spacing * np.arange(rows.max() + 1)
        self._upward = np.exp(-1j * np.pi * turns).astype("c8")
        self._rows = np.ascontiguousarray(rows)

    def __call__(self, spectrum: np.ndarray, power: np.ndarray) -> Points:
        """Points of a frame.

        Args:
            spectrum: c8 (tx, rx, doppler, range), Doppler bins in FFT order.
            power: f4 (doppler, range), its mean over antennas, zero Doppler in the middle.
        """
        options = self._options
        windows = (options.doppler_window, options.range_window)
        threshold = 10 ** (options.threshold_db / 10)
        peaks = find_peaks(power, self.noise(power), threshold, windows, options.first_bin)
        peaks = Peaks(*(values[: options.max_points] for values in peaks))
        return Points(self.directions(spectrum, peaks), peaks.range_at, peaks.doppler_at, peaks.snr)

    def noise(self, power: np.ndarray) -> np.ndarray:
        """The noise that each cell is held against, f8 (doppler, range)."""
        options = self._options
        if options.cfar == "os":
            return ordered_statistic(power, options.guard, options.train, options.rank)
        estimate = cell_averaging if options.cfar == "ca" else smallest_of
        return estimate(power, options.guard, options.train)

    def directions(self, spectrum: np.ndarray, peaks: Peaks) -> np.ndarray:
        """Unit vector to each peak, f8 (peak, 3): the strongest beam, refined between beams along both axes."""
        from rover_pipeline.radar.point_kernels import strongest_beams

        antennas = spectrum.reshape(-1, *spectrum.shape[2:])
        doppler = antennas.shape[1]
        cycles = (peaks.doppler_at - doppler // 2) / doppler if self._options.compensate_tdm else 0 * peaks.doppler_at
        sines = np.empty((2, len(cycles)))
        strongest_beams(
            antennas,
            (peaks.doppler - doppler // 2) % doppler,
            peaks.range,
            2 * np.pi * cycles[:, None] * self._fires,
            self._rows,
            self._across,
            self._upward,
            (self._azimuth, self._elevation),
            sines,
        )
        right, up = sines
        ahead = np.sqrt(np.maximum(1 - right**2 - up**2, 0))
        direction = np.stack([ahead, -right, up], axis=-1)
        return direction / np.linalg.norm(direction, axis=-1, keepdims=True)
