"""From the spectrum of a frame to points: CFAR detection, then the direction of each peak."""

from __future__ import annotations

import numpy as np

from rover_pipeline.radar.angles import virtual_antennas
from rover_pipeline.radar.boards import Board
from rover_pipeline.radar.detect import Peaks, Search, ca_noise, caso_noise, find_os_peaks, find_peaks
from rover_pipeline.radar.options import PointsOptions
from rover_pipeline.radar.point_kernels import strongest_beams
from rover_pipeline.radar.resolve import Resolver

#: Intervals of azimuth beams and number of elevation beams, equally spaced in the sine: fine enough to refine the
#: strongest beam by a parabola.
_AZIMUTHS, _ELEVATIONS = 64, 17


class PointFinder:
    """Detects the points of frames, one frame at a time.

    Args:
        blind: bool (range,), bins in which static cells are what is left of the coupling; None = none.
        array_error: share of an echo's power that the phases of the array do not explain, which is no second target.
    """

    def __init__(
        self, board: Board, options: PointsOptions, blind: np.ndarray | None = None, array_error: float = 0.0
    ) -> None:
        self._options = options
        windows = (options.doppler_window, options.range_window)
        self._search = Search(10 ** (options.threshold_db / 10), windows, options.first_bin, blind)
        #: When each virtual antenna is fired within a loop, 0 to 1.
        self._delays = np.repeat(np.arange(len(board.tx)) / len(board.tx), len(board.rx))
        rows, columns = board.grid.T
        # Some antennas of a board may be columns two half wavelengths apart, whose azimuths alias. One column, such as
        # of one TX and one RX, tells no azimuth: straight ahead is then the least wrong.
        step = int(np.gcd.reduce(columns))
        azimuth = np.linspace(-1, 1, _AZIMUTHS + 1) / step if step else np.zeros(1)
        # If rows are more than half a wavelength apart, elevations alias: limit them to the unambiguous ones.
        limit = min(1.0, 1 / board.row_spacing, np.sin(np.radians(options.max_elevation)))
        elevation = np.linspace(-limit, limit, _ELEVATIONS) if board.has_elevation else np.zeros(1)
        self._sines = azimuth, elevation
        steering = np.exp(-1j * np.pi * board.spacing * azimuth * columns[:, None]) * board.corrections[:, None]
        self._antenna_steering = np.stack([steering.real, steering.imag]).astype("f4")
        phases = elevation[:, None] * board.row_spacing * np.arange(rows.max() + 1)
        self._row_steering = np.exp(-1j * np.pi * phases).astype("c8")
        self._rows = np.ascontiguousarray(rows)
        self._resolver = (
            None
            if options.estimator == "beam" or not Resolver.can_resolve(board)
            else Resolver(board, options.estimator, options.max_targets, float(limit), array_error)
        )

    def __call__(self, spectrum: np.ndarray, power: np.ndarray) -> tuple[Peaks, np.ndarray]:
        """The peaks of a frame and their directions, unit vectors, front-left-up, f8 (peak, 3).

        Args:
            spectrum: c8 (tx, rx, doppler, range), Doppler bins in FFT order.
            power: f4 (doppler, range), its mean over antennas, zero Doppler in the middle.
        """
        most = self._options.max_points
        peaks = self.detect(power)
        peaks = Peaks(*(values[:most] for values in peaks))
        if self._resolver is None:
            return peaks, self.directions(spectrum, peaks)
        strength = power[peaks.doppler_bin, peaks.range_bin] / peaks.snr
        found = self._resolver(self.snapshots(spectrum, peaks), strength)
        snr = found.power / strength[found.cell]
        # A second target is a point if it would be one on its own; the first one of a cell always is.
        order = np.lexsort((-snr, found.cell))
        first = np.zeros(len(snr), bool)
        first[np.unique(found.cell[order], return_index=True)[1]] = True
        kept = order[first | (snr[order] >= self._search.threshold)]
        kept = kept[np.argsort(-snr[kept], kind="stable")][:most]
        expanded = Peaks(*(values[found.cell[kept]] for values in peaks))._replace(snr=snr[kept])
        return expanded, _unit_vectors(found.right[kept], found.up[kept])

    def detect(self, power: np.ndarray) -> Peaks:
        """The peaks of a map of power, by the CFAR of the options."""
        options = self._options
        if options.cfar == "os":
            return find_os_peaks(power, options.guard, options.train, options.rank, self._search)
        estimate = ca_noise if options.cfar == "ca" else caso_noise
        return find_peaks(power, estimate(power, options.guard, options.train), self._search)

    def snapshots(self, spectrum: np.ndarray, peaks: Peaks) -> np.ndarray:
        """What the antennas received of each peak, TDM-compensated, c16 (peak, antenna)."""
        antennas = virtual_antennas(spectrum)
        bins = antennas.shape[1]
        cells = antennas[:, (peaks.doppler_bin - bins // 2) % bins, peaks.range_bin].T
        return cells * np.exp(-1j * self._tdm_phases(peaks, bins))

    def _tdm_phases(self, peaks: Peaks, bins: int) -> np.ndarray:
        """Phase that each peak gained until the chirp of each antenna, radians, f8 (peak, antenna)."""
        cycles = (peaks.doppler - bins // 2) / bins if self._options.compensate_tdm else 0 * peaks.doppler
        phases: np.ndarray = 2 * np.pi * cycles[:, None] * self._delays
        return phases

    def directions(self, spectrum: np.ndarray, peaks: Peaks) -> np.ndarray:
        """Unit vector to each peak, f8 (peak, 3): the strongest beam, refined between beams along both axes."""
        antennas = virtual_antennas(spectrum)
        bins = antennas.shape[1]
        sines = np.empty((2, len(peaks.doppler)))
        strongest_beams(
            antennas,
            (peaks.doppler_bin - bins // 2) % bins,
            peaks.range_bin,
            self._tdm_phases(peaks, bins),
            self._rows,
            self._antenna_steering,
            self._row_steering,
            self._sines,
            sines,
        )
        return _unit_vectors(*sines)


def _unit_vectors(right: np.ndarray, up: np.ndarray) -> np.ndarray:
    """Unit vectors front-left-up, f8 (point, 3), of sines."""
    ahead = np.sqrt(np.maximum(1 - right**2 - up**2, 0))
    direction = np.stack([ahead, -right, up], axis=-1)
    return direction / np.linalg.norm(direction, axis=-1, keepdims=True)
