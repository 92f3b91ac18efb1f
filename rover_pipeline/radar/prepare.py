"""What is estimated once for all frames of a recording: the coupling of its antennas, and how coherent its array is.

Arguments mean the same as in `rover_pipeline.radar.steps`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from rover_pipeline.engine.shared import Shared
from rover_pipeline.radar.artefacts import cell_pairs, imbalance
from rover_pipeline.radar.axes import resolutions
from rover_pipeline.radar.boards import Board, find_board
from rover_pipeline.radar.calibration import CalibrationFile
from rover_pipeline.radar.coupling import Coupling, find_coupling
from rover_pipeline.radar.options import CaptureOptions, PointsOptions, RangeDopplerOptions
from rover_pipeline.radar.points import PointFinder
from rover_pipeline.radar.sidecar import is_real
from rover_pipeline.radar.spectrum import RangeDoppler
from rover_pipeline.radar.waveform import centre_frequency

#: Echoes this much above the noise have a phase at each antenna that the noise does not change by more than 3 degrees.
STRONG_DB = 25.0
#: Strong echoes that are needed to say how coherent the array is.
_MIN_ECHOES = 5
#: Largest relative difference of range bins for which a calibrated coupling is that of a recording.
_SAME_BINS = 1e-3


class Prepared(NamedTuple):
    """Estimates from frames of all the recording.

    Attributes:
        coupling: of the antennas; None = it is not seen, or is to stay.
        calibrated: whether the coupling is the one of the calibration.
        coherence: of the array; NaN if there are too few strong echoes. See `array_coherence`.
        error: share of an echo's power that the phases and gains of the array do not explain.
        imbalance: factors of the receivers; see `rover_pipeline.radar.artefacts`.
    """

    coupling: Coupling | None = None
    calibrated: bool = False
    coherence: float = float("nan")
    error: float = 0.0
    imbalance: tuple[complex, ...] = (0.0,)


def prepare(
    iq: np.ndarray,
    *,
    options: CaptureOptions,
    sidecar: str | None = None,
    config: str | None = None,
    whole: np.ndarray | None = None,
    ts: np.ndarray | None = None,
    odometry: Mapping[str, np.ndarray] | None = None,
    shared: Shared | None = None,
) -> Prepared:
    """The coupling, from the options' calibration or else from the frames, and for points the array's coherence.

    Args:
        shared: what other radar steps have estimated from the same frames.
    """
    real = is_real(iq.shape[-1], sidecar)
    coupling, calibrated = None, False
    if options.coupling == "remove":
        bins = resolutions(sidecar)
        size = None if bins is None else bins[0]
        samples = iq.shape[-1] // (1 if real else 2)
        coupling = _calibrated(options, size, samples, (iq.shape[2], iq.shape[3]))
        calibrated = coupling is not None
        if coupling is None:
            find = partial(find_coupling, iq, options.sample_order, real, size)
            coupling = find() if shared is None else shared.once(("coupling", options.sample_order, real, size), find)
    if not (isinstance(options, PointsOptions) and len(iq)):
        return Prepared(coupling, calibrated)
    board, bins = placed_board(options, config, iq.shape[1:]), resolutions(sidecar)
    finder = PointFinder(board, options.model_copy(update={"estimator": "beam"}), bin_mps=bins[1] if bins else None)
    least, echoes, pairs = 10 ** (STRONG_DB / 10), [], []
    for frame in map(make_transform(iq.shape[1:], options, real, coupling).spectrum_and_power, iq):
        echoes.append(finder.coherence(*frame, least))
        pairs.append(cell_pairs(*frame, finder.detect(frame[1]), least))
    shares = (0.0,) if real else imbalance(pairs, 10 ** (options.threshold_db / 10))
    return Prepared(coupling, calibrated, *array_coherence(np.concatenate(echoes)), shares)


def _calibrated(options: CaptureOptions, bin_m: float | None, samples: int, pairs: tuple[int, int]) -> Coupling | None:
    """The coupling of the calibration, if that was made with the same chirps."""
    file = options.calibration
    tones = None if file is None else file.coupling
    if tones is None or bin_m is None or tones.samples != samples or len(tones.tones) != pairs[0] * pairs[1]:
        return None
    if abs(tones.range_resolution / bin_m - 1) > _SAME_BINS or tones.sample_order != options.sample_order:
        return None
    numbers = np.array(tones.tones).reshape(-1, 2)
    return Coupling(tones.bins, tuple((numbers[:, 0] + 1j * numbers[:, 1]).tolist()), pairs, tones.reach)


@lru_cache(maxsize=8)
def placed_board(options: CaptureOptions, config: str | None, shape: tuple[int, ...]) -> Board:
    """The board with its antennas at the recording's centre frequency, and with the gains of the calibration.

    Raises:
        ConfigError: the board is unknown, or the calibration is of another one.
    """
    board = find_board(options.board, config, shape)
    hertz = centre_frequency(config)
    return calibrated_board(board.placed(hertz), hertz, options.calibration)


def calibrated_board(board: Board, hertz: float | None, file: CalibrationFile | None) -> Board:
    """A board with the gains and the spacing of a calibration, which scales with the centre frequency."""
    if file is None:
        return board
    scale = 1.0 if hertz is None else hertz / (file.centre_ghz * 1e9)
    return board.calibrated(file.gains(len(board.tx), len(board.rx)), file.spacing.value * scale)


def array_coherence(echoes: np.ndarray) -> tuple[float, float]:
    """How coherent the array is, and the share of an echo's power that its model does not explain.

    The coherence of an echo is the power of the strongest beam over that of all antennas if they were in phase: 1 for
    one target and a perfect array. A second target in the cell lowers it too, so the share of unexplained power comes
    from the quarter of the echoes with the highest coherence.

    Returns:
        The median over strong echoes, f8 (echo,), and the error; NaN and 0 if there are too few echoes.
    """
    if len(echoes) < _MIN_ECHOES:
        return float("nan"), 0.0
    return float(np.median(echoes)), float(1 - np.quantile(echoes, 0.75))


def make_transform(
    shape: tuple[int, ...], options: RangeDopplerOptions, real: bool, coupling: Coupling | None = None
) -> RangeDoppler:
    """The range-Doppler transform of a step: the same object for all steps whose transform is the same."""
    return _transform(
        shape,
        (options.range_window, options.doppler_window),
        real,
        options.sample_order,
        (getattr(options, "doppler_bins", 0), getattr(options, "range_bins", 0)),
        getattr(options, "remove_static", False),
        coupling,
    )


@lru_cache(maxsize=8)
def _transform(
    shape: tuple[int, ...],
    windows: tuple[str, str],
    real: bool,
    order: str,
    bins: tuple[int, int],
    remove_static: bool,
    coupling: Coupling | None,
) -> RangeDoppler:
    samples = shape[-1] // (1 if real else 2)
    signal = None if coupling is None else coupling.signal(samples, real)
    return RangeDoppler(shape, *windows, real, order=order, bins=bins, remove_static=remove_static, coupling=signal)
