"""From the spectrum of a frame to points: CFAR detection, then the direction of each peak."""

from __future__ import annotations

import numpy as np

from rover_pipeline.radar.angles import virtual_antennas
from rover_pipeline.radar.boards import Board
from rover_pipeline.radar.detect import Peaks, ca_noise, caso_noise, find_peaks, os_noise
from rover_pipeline.radar.options import PointsOptions
from rover_pipeline.radar.point_kernels import strongest_beams

#: Intervals of azimuth beams and number of elevation beams, equally spaced in the sine: fine enough to refine the
#: strongest beam by a parabola.
_AZIMUTHS, _ELEVATIONS = 64, 17


class PointFinder:
    """Detects the points of frames, one frame at a time."""

    def __init__(self, board: Board, options: PointsOptions) -> None:
        self._options = options
        #: When each virtual antenna is fired within a loop, 0 to 1.
        self._delays = np.repeat(np.arange(len(board.tx)) / len(board.tx), len(board.rx))
        azimuth = np.linspace(-1, 1, _AZIMUTHS + 1)
        # If rows are more than half a wavelength apart, elevations alias: limit them to the unambiguous ones.
        limit = min(1.0, 1 / board.row_spacing, np.sin(np.radians(options.max_elevation)))
        elevation = np.linspace(-limit, limit, _ELEVATIONS) if board.has_elevation else np.zeros(1)
        self._sines = azimuth, elevation
        rows, columns = board.grid.T
        steering = np.exp(-1j * np.pi * azimuth * columns[:, None]) * board.signs[:, None]
        self._antenna_steering = np.stack([steering.real, steering.imag]).astype("f4")
        phases = elevation[:, None] * board.row_spacing * np.arange(rows.max() + 1)
        self._row_steering = np.exp(-1j * np.pi * phases).astype("c8")
        self._rows = np.ascontiguousarray(rows)

    def __call__(self, spectrum: np.ndarray, power: np.ndarray) -> tuple[Peaks, np.ndarray]:
        """The peaks of a frame and their directions, unit vectors, front-left-up, f8 (peak, 3).

        Args:
            spectrum: c8 (tx, rx, doppler, range), Doppler bins in FFT order.
            power: f4 (doppler, range), its mean over antennas, zero Doppler in the middle.
        """
        options = self._options
        windows = (options.doppler_window, options.range_window)
        threshold = 10 ** (options.threshold_db / 10)
        peaks = find_peaks(power, self.noise(power), threshold, windows, options.first_bin)
        peaks = Peaks(*(values[: options.max_points] for values in peaks))
        return peaks, self.directions(spectrum, peaks)

    def noise(self, power: np.ndarray) -> np.ndarray:
        """The noise estimate of each cell by the CFAR of the options, f8 (doppler, range)."""
        options = self._options
        if options.cfar == "os":
            return os_noise(power, options.guard, options.train, options.rank)
        estimate = ca_noise if options.cfar == "ca" else caso_noise
        return estimate(power, options.guard, options.train)

    def directions(self, spectrum: np.ndarray, peaks: Peaks) -> np.ndarray:
        """Unit vector to each peak, f8 (peak, 3): the strongest beam, refined between beams along both axes."""
        antennas = virtual_antennas(spectrum)
        bins = antennas.shape[1]
        cycles = (peaks.doppler - bins // 2) / bins if self._options.compensate_tdm else 0 * peaks.doppler
        sines = np.empty((2, len(cycles)))
        strongest_beams(
            antennas,
            (peaks.doppler_bin - bins // 2) % bins,
            peaks.range_bin,
            2 * np.pi * cycles[:, None] * self._delays,
            self._rows,
            self._antenna_steering,
            self._row_steering,
            self._sines,
            sines,
        )
        right, up = sines
        ahead = np.sqrt(np.maximum(1 - right**2 - up**2, 0))
        direction = np.stack([ahead, -right, up], axis=-1)
        return direction / np.linalg.norm(direction, axis=-1, keepdims=True)
