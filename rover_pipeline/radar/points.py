"""From the spectrum of a frame to points: CFAR detection, then the direction and the ambiguity number of each peak.

**Doppler ambiguity**: how many spans of Doppler (twice the largest one) have to be added to that of each peak.
A target that is faster than the largest Doppler appears at another Doppler, a whole number of spans away. TDM
compensation with the wrong number leaves a phase step from transmitter to transmitter, which spoils the beam. So each
number is a hypothesis, and three observations distinguish them:

1. How much of an echo's power its best beam explains under the hypothesis (F. Roos et al., Enhancement of Doppler
   unambiguity for chirp-sequence modulated TDM-MIMO radars, ICMIM 2018). How far the array is from a perfect one is
   estimated from the strong echoes of the frame itself: on a board that is not calibrated the phases say less. Numbers
   that differ by the number of transmitters have the same phases.
2. The world at rest: one velocity of the radar must explain the Doppler of most echoes (`ego_motion`). Over a wide
   field of view it cannot do so with wrong numbers. It may be far beyond the limit, so more numbers are tried for it
   than a single target is believed to have. All velocities that explain the echoes about as well must agree on an
   echo.
3. The velocity by odometry, where there is one.

What these leave open is not certain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from rover_pipeline.radar.angles import coherence, deviations, in_beams, unit_vectors, virtual_antennas
from rover_pipeline.radar.boards import Board
from rover_pipeline.radar.detect import Peaks, Search, ca_noise, find_artefacts, find_os_peaks, find_peaks
from rover_pipeline.radar.ego_motion import CERTAIN, MIN_ECHOES, Echoes, doppler_variance, find_velocities
from rover_pipeline.radar.options import PointsOptions, VelocitySection
from rover_pipeline.radar.point_kernels import strongest_beams
from rover_pipeline.radar.resolve import Resolver
from rover_pipeline.radar.tuning import TUNING


class Found(NamedTuple):
    """The points of a frame, strongest first."""

    peaks: Peaks  #: their cells; `doppler` as measured.
    direction: np.ndarray  #: f8 (point, 3), unit vectors, front-left-up.
    ambiguity: np.ndarray  #: i8 (point,), ambiguity numbers, spans of Doppler to add.
    #: bool (point,), whether that number is certain, the direction within the search, and the point a target.
    certain: np.ndarray
    artefact: np.ndarray  #: u1 (point,), see `find_artefacts`.
    #: f8 (point, 2), standard deviations of the sines of azimuth and elevation; NaN where the array does not measure
    #: them, or the direction is at an edge of the search.
    deviation: np.ndarray
    spread: np.ndarray  #: f8 (point, 2), see `in_beams`; NaN likewise.


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
        self._resolver = None
        if options.estimator != "beam" and Resolver.can_resolve(board):
            self._resolver = Resolver(board, options.estimator, options.max_targets, limit, array_error)

    def __call__(self, spectrum: np.ndarray, power: np.ndarray, guide: np.ndarray | None = None) -> Found:
        """The points of a frame.

        Args:
            spectrum: c8 (tx, rx, doppler, range), Doppler bins in FFT order.
            power: f4 (doppler, range), its mean over antennas, zero Doppler in the middle.
            guide: f8 (3,), velocity of the radar by odometry, m/s, in its own frame; None = not known.
        """
        max_points, bins = self._options.max_points, float(spectrum.shape[2])
        peaks = self.detect(power).select(slice(max_points))
        artefact = np.zeros(len(peaks.snr), "u1")
        if not self._board.real:  # real samples have neither I and Q nor a range axis that wraps
            artefact = find_artefacts(spectrum, power, peaks, self._unwanted, self._search.threshold)
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
            peaks = peaks.select(cell)._replace(snr=snr[kept])
            direction = unit_vectors(found.right[kept], found.up[kept])
            ambiguity, certain, artefact = ambiguity[cell], certain[cell], artefact[cell]
        # At an edge of the search nothing says where the strongest beam would be.
        ends = [0.0, *(sines[-1] if len(sines) > 1 else np.nan for sines in self._fine.sines)]
        edge = np.isclose(np.abs(direction), ends).any(axis=1)
        cells = tuple(self.snapshots(spectrum, peaks.moved(ambiguity * bins, k)) for k in (-1, 0, 1))
        sines = -direction[:, 1], direction[:, 2]
        deviation = deviations(self._board, cells[1], peaks.snr, *sines, self._array_error)
        offset, spread = in_beams(self._board, cells, *sines)
        deviation[edge] = spread[edge] = np.nan
        peaks = peaks._replace(doppler=peaks.doppler_bin + offset)
        return Found(peaks, direction, ambiguity, certain & ~edge & (artefact == 0), artefact, deviation, spread)

    def detect(self, power: np.ndarray) -> Peaks:
        """The peaks of a map of power, by the CFAR of the options."""
        options = self._options
        if options.cfar == "os":
            return find_os_peaks(power, options.guard, options.train, options.rank, self._search)
        return find_peaks(power, ca_noise(power, options.guard, options.train), self._search)

    def snapshots(self, spectrum: np.ndarray, peaks: Peaks) -> np.ndarray:
        """What the antennas received of each peak, TDM-compensated, c16 (peak, antenna)."""
        antennas = virtual_antennas(spectrum)
        bins = antennas.shape[1]
        cells = antennas[:, (peaks.doppler_bin - bins // 2) % bins, peaks.range_bin].T
        turns = np.exp(-1j * self._tdm_phases(peaks, bins)[:, :: spectrum.shape[1]])  # all receivers have the same
        return cells * turns.repeat(spectrum.shape[1], axis=1)

    def coherence(self, spectrum: np.ndarray, power: np.ndarray) -> np.ndarray:
        """Share of the power of each strong peak of a frame that a plane wave explains, f8 (peak,)."""
        found = self(spectrum, power)
        strong = found.certain & (found.peaks.snr >= TUNING.strong_snr)
        peaks = found.peaks.moved(found.ambiguity * float(spectrum.shape[2])).select(strong)
        return self._echoes(spectrum, peaks)[1][:, 0]

    def _tdm_phases(self, peaks: Peaks, bins: int) -> np.ndarray:
        """Phase that each peak gained until the chirp of each antenna, radians, f8 (peak, antenna)."""
        cycles = (peaks.doppler - bins // 2) / bins if self._options.compensate_tdm else 0 * peaks.doppler
        return 2 * np.pi * cycles[:, None] * self._board.delays

    def _echoes(
        self, spectrum: np.ndarray, peaks: Peaks, added: Sequence[float] = (0.0,)
    ) -> tuple[np.ndarray, np.ndarray]:
        """See `Beams`."""
        moved = [peaks.moved(bins) for bins in added]
        beams = [self._fine, *(self._coarse for _ in moved[1:])]
        sines = np.concatenate([self._strongest(spectrum, *each) for each in zip(moved, beams, strict=True)], axis=1)
        every = Peaks(*map(np.concatenate, zip(*moved, strict=True)))
        explained = coherence(self._board, self.snapshots(spectrum, every), *sines)
        shape = len(added), len(peaks.snr)
        direction = unit_vectors(*sines).reshape(*shape, 3).transpose(1, 0, 2)
        return np.ascontiguousarray(direction), np.ascontiguousarray(explained.reshape(shape).T)

    def _strongest(self, spectrum: np.ndarray, peaks: Peaks, beams: _Beams) -> np.ndarray:
        """Sines of azimuth and elevation of the strongest beam, refined between beams, f8 (2, peak)."""
        antennas = virtual_antennas(spectrum)
        bins = antennas.shape[1]
        sines = np.empty((2, len(peaks.doppler)))
        cells, phases = ((peaks.doppler_bin - bins // 2) % bins, peaks.range_bin), self._tdm_phases(peaks, bins)
        strongest_beams(antennas, *cells, phases, self._rows, beams.antennas, beams.rows, beams.sines, sines)
        return sines


def _beams(board: Board, limit: float, every: int) -> _Beams:
    """Beams of a board, one in so many, at elevations up to the sine `limit`."""
    rows, columns = board.grid.T
    # Some antennas of a board may be columns two half wavelengths apart, whose azimuths alias. One column, such as of
    # one TX and one RX, measures no azimuth: straight ahead is then the least wrong.
    step = int(np.gcd.reduce(columns))
    azimuth = np.linspace(-1, 1, board.beams[0] // every + 1) / step if step else np.zeros(1)
    elevation = np.linspace(-limit, limit, board.beams[1] // every + 1) if board.has_elevation else np.zeros(1)
    steering = np.exp(-1j * np.pi * board.spacing * azimuth * columns[:, None]) * board.corrections[:, None]
    antennas = np.stack([steering.real, steering.imag]).astype("f4")
    phases = elevation[:, None] * board.row_spacing * np.arange(rows.max() + 1)
    return _Beams((azimuth, elevation), antennas, np.exp(-1j * np.pi * phases).astype("c8"))


# --- Doppler ambiguity ---------------------------------------------------------------------------------------------

#: Errors of echoes and the prior of the vertical velocity are those that `_radar_velocity` has by default.
_ERRORS = VelocitySection()

#: Gives, for numbers of bins that are added to the Doppler of peaks, which may then lie beyond the bins, the directions
#: of the strongest beams, f8 (peak, number, 3), and the shares of the peaks' power that the beams there explain, f8
#: (peak, number). Directions are accurate for the first number.
Beams = Callable[[Peaks, Sequence[float]], tuple[np.ndarray, np.ndarray]]


class AmbiguityResolver:
    """Finds the ambiguity numbers of the Doppler of peaks.

    Args:
        bin_mps: size of a Doppler bin, m/s.
        max_number: largest ambiguity number of a target, 1 or more.
    """

    def __init__(self, board: Board, bin_mps: float, max_number: int) -> None:
        self._bin_mps = bin_mps
        #: Zero comes first: of equally likely numbers the first is taken. The radar may be as fast as `velocity`
        #: believes, and then the numbers of what is at rest go one beyond those of a target.
        tried = range(1, max_number + 2)
        self._numbers = np.array([0, *(sign * n for n in tried for sign in (-1, 1))])
        self._believed = np.abs(self._numbers) <= max_number
        # The phases are those of as many chirps as there are transmitters, so that numbers with the same remainder look
        # the same. Remainders are counted from that of zero.
        self._remainder = self._numbers % len(board.tx)
        self._antennas = int((board.corrections != 0).sum())

    def __call__(
        self, beams: Beams, peaks: Peaks, bins: int, guide: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The ambiguity numbers of a frame's peaks, which has `bins` Doppler bins; guide: as of `PointFinder`.

        Returns:
            i8 (peak,), spans of Doppler (all of the bins) to add, bool (peak,), whether that number is certain, and
            f8 (peak, 3), the directions, unit vectors.
        """
        directions, shares = beams(peaks, [n * float(bins) for n in range(self._remainder.max() + 1)])
        likelihood = _phase_likelihood(shares, peaks.snr, self._antennas)
        echoes = Echoes(
            directions[:, self._remainder],
            (peaks.doppler[:, None] - bins // 2 + self._numbers * float(bins)) * self._bin_mps,
            likelihood[:, self._remainder],
            np.tile((_ERRORS.azimuth_error, _ERRORS.elevation_error), (len(shares), 1)),
        )
        choice, certain = self._decide(echoes, bins * self._bin_mps, guide)
        numbers, direction = self._numbers[choice], directions[:, 0]
        some = np.flatnonzero(numbers)
        if len(some):
            direction[some] = beams(peaks.moved(numbers * float(bins)).select(some), (0.0,))[0][:, 0]
        return numbers, certain, direction

    def _decide(self, echoes: Echoes, span: float, guide: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """The ambiguity number of each echo, as an index into its hypotheses, and whether it is certain.

        Args:
            span: of Doppler, m/s; guide: as of `PointFinder`.
        """
        count = len(echoes.doppler)
        alone = np.where(self._believed, echoes.likelihood, -np.inf)
        if not count or (count < MIN_ECHOES and guide is None):
            return _smallest(alone), _certain(alone)
        sigma = _ERRORS.doppler_sigma(self._bin_mps)
        found = find_velocities(echoes, sigma, _ERRORS, guide)
        if found.evidence < TUNING.evidence_per_echo * count:
            # Echoes that are at rest at no velocity may be of a radar that is faster than any that was tried.
            return _smallest(alone), np.zeros(count, bool)
        choices = []
        moving = np.where(self._believed, 1 / (self._believed.sum() * span), 0)
        for velocity in found.vel[found.share > _ERRORS.max_rival]:
            variance = doppler_variance(echoes, velocity, sigma)
            squares = (echoes.doppler + (echoes.direction * velocity).sum(axis=2)) ** 2 / variance
            density = np.exp(-0.5 * squares) / np.sqrt(2 * np.pi * variance)
            static = (density * np.exp(echoes.likelihood)).max(axis=1) > 1 / span
            share = (np.count_nonzero(static) + 1) / (count + 2)
            # A target that moves may have any Doppler of the believed numbers.
            likelihood = echoes.likelihood + np.log(share * density + (1 - share) * moving + 1e-30)
            choices.append((_smallest(likelihood), _certain(likelihood)))
        first = choices[0][0]
        certain = np.all([sure & (choice == first) for choice, sure in choices], axis=0)
        believed = self._believed[first]
        return np.where(believed, first, _smallest(alone)), believed & certain


def _phase_likelihood(explained: np.ndarray, snr: np.ndarray, antennas: int) -> np.ndarray:
    """Logarithm of the likelihood of each ambiguity number by the phases, f8 (echo, number), 0 for the most likely.

    Args:
        explained: f8 (echo, number), share of the echo's power that the best beam explains.
        snr: f8 (echo,), power over noise of one antenna.
        antennas: number of virtual antennas.
    """
    best = explained.max(axis=1)
    strong = snr > TUNING.strong_snr
    misfit = float(np.mean(1 - best[strong])) if np.count_nonzero(strong) >= MIN_ECHOES else 0.0
    # What no number explains, such as a second target in the cell, speaks for none of them.
    unexplained = 1 / snr + np.maximum(misfit, 1 - best)
    return np.maximum(antennas * (explained - best[:, None]) / unexplained[:, None], -CERTAIN)


def _smallest(likelihood: np.ndarray) -> np.ndarray:
    """The first, and so smallest, ambiguity number of each echo that is not far less likely than the best one."""
    return (likelihood > likelihood.max(axis=1, keepdims=True) - CERTAIN).argmax(axis=1)


def _certain(likelihood: np.ndarray) -> np.ndarray:
    ordered = np.sort(likelihood, axis=1)
    return ordered[:, -1] - ordered[:, -2] >= CERTAIN
