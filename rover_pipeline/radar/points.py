"""From the spectrum of a frame to points: CFAR detection, then the direction of each peak."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from rover_pipeline.radar.ambiguity import AmbiguityResolver
from rover_pipeline.radar.angles import coherence, deviations, unit_vectors, virtual_antennas
from rover_pipeline.radar.boards import Board
from rover_pipeline.radar.detect import Peaks, Search, ca_noise, caso_noise, find_artefacts, find_os_peaks, find_peaks
from rover_pipeline.radar.options import PointsOptions
from rover_pipeline.radar.point_kernels import strongest_beams
from rover_pipeline.radar.resolve import Resolver
from rover_pipeline.radar.tuning import TUNING


class Found(NamedTuple):
    """The points of a frame, strongest first.

    Attributes:
        peaks: their cells; `doppler` as measured.
        direction: f8 (point, 3), unit vectors, front-left-up.
        ambiguity: i8 (point,), ambiguity numbers, spans of Doppler to add.
        certain: bool (point,), whether that number is certain, the direction within the search, and the point a target.
        artefact: u1 (point,), see `find_artefacts`.
        deviation: f8 (point, 2), standard deviations of the sines of azimuth and elevation; NaN where the array does
            not measure them, or the direction is at an edge of the search.
    """

    peaks: Peaks
    direction: np.ndarray
    ambiguity: np.ndarray
    certain: np.ndarray
    artefact: np.ndarray
    deviation: np.ndarray


class _Beams(NamedTuple):
    """Beams and the weights of antennas that form them, as `strongest_beams` takes them."""

    sines: tuple[np.ndarray, np.ndarray]
    antennas: np.ndarray
    rows: np.ndarray


class PointFinder:
    """Detects the points of frames, one frame at a time.

    Args:
        blind: bool (range,), bins in which static cells are what is left of the coupling; None = none.
        array_error: share of an echo's power that the phases of the array do not explain, which is no second target.
        unwanted: by which artefacts are known, see `find_artefacts`.
        bin_mps: size of a Doppler bin, m/s, to find ambiguity numbers; None = Doppler is taken as it is.
    """

    def __init__(
        self,
        board: Board,
        options: PointsOptions,
        blind: np.ndarray | None = None,
        array_error: float = 0.0,
        bin_mps: float | None = None,
        unwanted: tuple[Sequence[complex], Any] = ((0.0,), 0.0),
    ) -> None:
        self._options, self._board, self._unwanted = options, board, unwanted
        windows = (options.doppler_window, options.range_window)
        self._search = Search(10 ** (options.threshold_db / 10), windows, options.first_bin, blind)
        # If rows are more than half a wavelength apart, elevations alias: limit them to the unambiguous ones.
        limit = min(1.0, 1 / board.row_spacing, float(np.sin(np.radians(options.max_elevation))))
        self._array_error = array_error
        self._fine, self._coarse = (_beams(board, limit, step) for step in (1, 2))
        self._rows = np.ascontiguousarray(board.grid[:, 0])
        self._resolve_ambiguity = None
        if bin_mps is not None and options.max_folds and options.compensate_tdm:
            self._resolve_ambiguity = AmbiguityResolver(board, bin_mps, options.max_folds)
        self._resolver = (
            None
            if options.estimator == "beam" or not Resolver.can_resolve(board)
            else Resolver(board, options.estimator, options.max_targets, limit, array_error)
        )

    def __call__(self, spectrum: np.ndarray, power: np.ndarray, guide: np.ndarray | None = None) -> Found:
        """The points of a frame.

        Args:
            spectrum: c8 (tx, rx, doppler, range), Doppler bins in FFT order.
            power: f4 (doppler, range), its mean over antennas, zero Doppler in the middle.
            guide: f8 (3,), velocity of the radar by odometry, m/s, in its own frame; None = not known.
        """
        max_points, bins = self._options.max_points, float(spectrum.shape[2])
        peaks = self.detect(power).select(slice(max_points))
        artefact = find_artefacts(spectrum, power, peaks, self._unwanted, self._search.threshold)
        artefact *= not self._board.real
        if self._resolve_ambiguity is not None:
            echoes = partial(self._echoes, spectrum)
            ambiguity, certain, direction = self._resolve_ambiguity(echoes, peaks, spectrum.shape[2], guide)
        else:
            ambiguity, certain = np.zeros(len(peaks.snr), "i8"), np.ones(len(peaks.snr), bool)
            direction = unit_vectors(*self._strongest(spectrum, peaks, self._fine))
        if self._resolver is not None:
            strength = power[peaks.doppler_bin, peaks.range_bin] / peaks.snr
            found = self._resolver(self.snapshots(spectrum, peaks.moved(ambiguity * bins)), strength)
            snr = found.power / strength[found.cell]
            # A second target is a point if it would be one on its own; the first one of a cell always is.
            order = np.lexsort((-snr, found.cell))
            first = np.zeros(len(snr), bool)
            first[np.unique(found.cell[order], return_index=True)[1]] = True
            kept = order[first | (snr[order] >= self._search.threshold)]
            kept = kept[np.argsort(-snr[kept], kind="stable")][:max_points]
            cell = found.cell[kept]
            peaks, direction = (
                peaks.select(cell)._replace(snr=snr[kept]),
                unit_vectors(found.right[kept], found.up[kept]),
            )
            ambiguity, certain, artefact = ambiguity[cell], certain[cell], artefact[cell]
        ahead, left, up = direction.T
        # At an edge of the search nothing says where the strongest beam would be.
        edge = np.isclose(ahead, 0)
        for value, sines in zip((left, up), self._fine.sines, strict=True):
            edge |= np.isclose(np.abs(value), sines[-1]) & (len(sines) > 1)
        snapshots = self.snapshots(spectrum, peaks.moved(ambiguity * bins))
        deviation = deviations(self._board, snapshots, peaks.snr, -left, up, self._array_error)
        deviation[edge] = np.nan
        return Found(peaks, direction, ambiguity, certain & ~edge & (artefact == 0), artefact, deviation)

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

    def coherence(self, spectrum: np.ndarray, power: np.ndarray, min_snr: float) -> np.ndarray:
        """Share of the power of each strong peak of a frame that a plane wave explains, f8 (peak,).

        Args:
            spectrum, power: as in `__call__`; min_snr: power over noise of a strong peak.
        """
        found = self(spectrum, power)
        strong = found.certain & (found.peaks.snr >= min_snr)
        peaks = found.peaks.moved(found.ambiguity * float(spectrum.shape[2])).select(strong)
        return self._echoes(spectrum, peaks, True)[1]

    def _tdm_phases(self, peaks: Peaks, bins: int) -> np.ndarray:
        """Phase that each peak gained until the chirp of each antenna, radians, f8 (peak, antenna)."""
        cycles = (peaks.doppler - bins // 2) / bins if self._options.compensate_tdm else 0 * peaks.doppler
        phases: np.ndarray = 2 * np.pi * cycles[:, None] * self._board.delays
        return phases

    def _echoes(self, spectrum: np.ndarray, peaks: Peaks, fine: bool) -> tuple[np.ndarray, np.ndarray]:
        """Unit vector to each peak, by the strongest beam, and the share of its power that the beam there explains."""
        sines = self._strongest(spectrum, peaks, self._fine if fine else self._coarse)
        return unit_vectors(*sines), coherence(self._board, self.snapshots(spectrum, peaks), *sines)

    def _strongest(self, spectrum: np.ndarray, peaks: Peaks, beams: _Beams) -> np.ndarray:
        """Sines of azimuth and elevation of the strongest beam, refined between beams, f8 (2, peak)."""
        antennas = virtual_antennas(spectrum)
        bins = antennas.shape[1]
        sines = np.empty((2, len(peaks.doppler)))
        strongest_beams(
            antennas,
            (peaks.doppler_bin - bins // 2) % bins,
            peaks.range_bin,
            self._tdm_phases(peaks, bins),
            self._rows,
            beams.antennas,
            beams.rows,
            beams.sines,
            sines,
        )
        return sines


def _beams(board: Board, limit: float, every: int) -> _Beams:
    """Beams of a board, one in so many, at elevations up to the sine `limit`."""
    rows, columns = board.grid.T
    # Some antennas of a board may be columns two half wavelengths apart, whose azimuths alias. One column, such as of
    # one TX and one RX, measures no azimuth: straight ahead is then the least wrong.
    step = int(np.gcd.reduce(columns))
    azimuth = np.linspace(-1, 1, TUNING.beams[0] // every + 1) / step if step else np.zeros(1)
    elevation = np.linspace(-limit, limit, TUNING.beams[1] // every + 1) if board.has_elevation else np.zeros(1)
    steering = np.exp(-1j * np.pi * board.spacing * azimuth * columns[:, None]) * board.corrections[:, None]
    phases = elevation[:, None] * board.row_spacing * np.arange(rows.max() + 1)
    return _Beams(
        (azimuth, elevation),
        np.stack([steering.real, steering.imag]).astype("f4"),
        np.exp(-1j * np.pi * phases).astype("c8"),
    )
