"""What comes before the frames of a recording: what is estimated once for all of them, and a look at some of them.

Estimated are the coupling of the antennas, and how coherent the array is. Looked at are the order of the samples and
whether the board is a guess.

Arguments mean the same as in `rover_pipeline.radar.steps`; others that a step has are not looked at.
"""

from __future__ import annotations

import json
from functools import partial
from typing import NamedTuple, TypedDict, Unpack

import numpy as np

from rover_pipeline.engine.shared import Shared
from rover_pipeline.engine.step import Inspection
from rover_pipeline.format.descriptions import AXES
from rover_pipeline.radar.angles import centred_sines
from rover_pipeline.radar.axes import bins_of_chirps, is_real, resolutions
from rover_pipeline.radar.boards import assumed_board, placed_board, recorded_board
from rover_pipeline.radar.detect import cell_pairs, imbalance
from rover_pipeline.radar.ego_motion import MIN_ECHOES
from rover_pipeline.radar.frames import find_coupling, make_transform
from rover_pipeline.radar.options import (
    CaptureOptions,
    PointsOptions,
    RangeAzimuthOptions,
    RangeDopplerOptions,
    SpectrumOptions,
)
from rover_pipeline.radar.points import PointFinder
from rover_pipeline.radar.spectrum import MAIN_LOBE_BINS, Coupling, RangeDoppler, decibel
from rover_pipeline.radar.tuning import TUNING


class Prepared(NamedTuple):
    """Estimates from frames of all the recording."""

    coupling: Coupling | None = None  #: of the antennas; None = it is not seen, or is to stay.
    calibrated: bool = False  #: whether the coupling is the one of the calibration.
    #: median over strong echoes of the power of the strongest beam over that of all antennas if they were in phase: 1
    #: for one target and a perfect array; NaN if there are too few strong echoes.
    coherence: float = float("nan")
    error: float = 0.0  #: share of an echo's power that the phases and gains of the array do not explain.
    imbalance: tuple[complex, ...] = (0.0,)  #: factors of the receivers; see `rover_pipeline.radar.detect`.


class Given(TypedDict, total=False):
    """What the engine gives every radar step beside samples and options; `rover_pipeline.radar.steps` explains it."""

    sidecar: str | None
    config: str | None
    prepared: Prepared | None


def prepare(
    iq: np.ndarray, *, options: CaptureOptions, shared: Shared | None = None, **given: Unpack[Given]
) -> Prepared:
    """The coupling, from the options' calibration or else from the frames, and for points the array's coherence.

    Args:
        shared: what other radar steps have estimated from the same frames.
    """
    sidecar = given.get("sidecar")
    real = is_real(iq.shape[-1], sidecar)
    size, mps = resolutions(sidecar) or (None, None)
    coupling, calibrated = None, False
    if options.coupling == "remove":
        samples = iq.shape[-1] // (1 if real else 2)
        coupling = _calibrated(options, size, samples, (iq.shape[2], iq.shape[3]))
        calibrated = coupling is not None
        if coupling is None:
            find = partial(find_coupling, iq, options.sample_order, real, size)
            coupling = find() if shared is None else shared.once(("coupling", options.sample_order, real, size), find)
    if not (isinstance(options, PointsOptions) and len(iq)):
        return Prepared(coupling, calibrated)
    board = placed_board(options, given.get("config"), iq.shape[1:])
    finder = PointFinder(board, options.model_copy(update={"estimator": "beam"}), bin_mps=mps)
    echoes, pairs = [], []
    for frame in map(make_transform(iq.shape[1:], options, real, coupling).spectrum_and_power, iq):
        echoes.append(finder.coherence(*frame))
        pairs.append(cell_pairs(*frame, finder.detect(frame[1]), TUNING.strong_snr))
    shares = (0.0,) if real else imbalance(pairs, 10 ** (options.threshold_db / 10))
    coherence = np.concatenate(echoes)
    if len(coherence) < MIN_ECHOES:
        return Prepared(coupling, calibrated, imbalance=shares)
    # A second target in a cell lowers the coherence of an echo too, so that what the array itself leaves unexplained
    # comes from the quarter of the echoes with the highest coherence.
    error = float(1 - np.quantile(coherence, 0.75))
    return Prepared(coupling, calibrated, float(np.median(coherence)), error, shares)


def _calibrated(options: CaptureOptions, bin_m: float | None, samples: int, pairs: tuple[int, int]) -> Coupling | None:
    """The coupling of the calibration, if that was made with the same chirps."""
    file = options.calibration
    tones = None if file is None else file.coupling
    if tones is None or bin_m is None or tones.samples != samples or len(tones.tones) != pairs[0] * pairs[1]:
        return None
    if not np.isclose(tones.range_resolution, bin_m) or tones.sample_order != options.sample_order:
        return None
    numbers = np.array(tones.tones).reshape(-1, 2)
    return Coupling(tones.bins, tuple((numbers[:, 0] + 1j * numbers[:, 1]).tolist()), pairs, tones.reach)


def check_order(iq: np.ndarray, *, options: RangeDopplerOptions, **given: Unpack[Given]) -> Inspection:
    """Measure the energy at negative beat frequencies; warn when I and Q seem swapped or the board is a guess.

    And what was prepared: how strong the coupling is, and how coherent the array.
    """
    shape, prepared = iq.shape[1:], given.get("prepared") or Prepared()
    warnings = []
    if type(options) is not RangeDopplerOptions and not (options.board or recorded_board(given.get("config"))):
        warnings.append(
            f"config.yaml names no radar.args.radar.device; taken for {assumed_board(shape)}, which has {shape[1]} TX "
            f"and {shape[2]} RX too. Set radar.board if it is another"
        )
    stated, by_chirps = resolutions(given.get("sidecar")), bins_of_chirps(given.get("config"), given.get("sidecar"))
    if stated and by_chirps and not np.allclose(stated, by_chirps, rtol=TUNING.scale_error):
        warnings.append(
            "radar.json says that bins are {:.4g} m and {:.4g} m/s, the chirps in config.yaml say {:.4g} m and {:.4g} "
            "m/s: distances or speeds are wrong if it is radar.json that is".format(*stated, *by_chirps)
        )
    measured: dict[str, object] = {}
    real = is_real(shape[-1], given.get("sidecar"))
    if prepared.coupling is not None:
        samples = shape[-1] // (1 if real else 2)
        measured["coupling_db"] = round(float(decibel(prepared.coupling.power(samples, real)).max()), 1)
        measured["coupling_from"] = "calibration" if prepared.calibrated else "recording"
    if np.isfinite(prepared.coherence):
        measured["array_coherence"] = round(prepared.coherence, 3)
        if prepared.coherence < TUNING.incoherent and options.calibration is None:
            warnings.append(
                f"the coherence of the array is {prepared.coherence:.2f}: its phases are not those of its design, or "
                'cells hold several targets; the manual says under "Calibrate a radar" how to measure them'
            )
    if not len(iq) or real:
        return Inspection(measured, warnings)
    share, seems_swapped = _mirrored_energy_ratio(iq, make_transform(shape, options, False))
    measured["mirrored_range_energy"] = float(f"{share:.3g}") if np.isfinite(share) else None
    if seems_swapped:
        other = "iiqq" if options.sample_order == "qqii" else "qqii"
        warnings.append(
            f"radar/iq: the mirrored half of the range spectrum holds {share:.1f} times the energy of the other; "
            f"unless all there is lies beyond half of the range, I and Q seem swapped: try radar.sample_order: {other}"
        )
    return Inspection(measured, warnings)


def _mirrored_energy_ratio(frames: np.ndarray, transform: RangeDoppler) -> tuple[float, bool]:
    """Energy at negative beat frequencies over energy at positive ones, and whether I and Q seem swapped.

    Then what is near lies at the end of the spectrum: its last quarter has more energy than the one before, and more
    than all positive frequencies. A room whose walls are all beyond half of the range has there 0.2 to 0.5 of the
    energy in the quarter before; with swapped words a real room had 31 times as much.

    Args:
        frames: i2, (frame, chirp, tx, rx, word), complex samples.

    Returns:
        The ratio, NaN if there is no energy; and whether they do.
    """
    profile = sum(transform.spectrum_and_power(frame)[1].sum(axis=0, dtype="f8") for frame in frames)
    half = transform.samples // 2
    # At both ends there are the leakage of the antenna coupling, and the edge of the ADC's filter: a lobe is left out.
    edge = min(2 * MAIN_LOBE_BINS, half // 4)
    middle = half + half // 2
    before, last = (float(np.sum(profile[a:b])) for a, b in ((half + edge, middle), (middle, 2 * half - edge)))
    positive = float(np.sum(profile[1 + edge : half - edge]))
    return (before + last) / positive if positive > 0 else float("nan"), max(before, positive) < last


def inspect_spectra(iq: np.ndarray, *, options: RangeDopplerOptions, **given: Unpack[Given]) -> Inspection:
    """The check of the order, and the values of the product's bins in `axes.json`: m, m/s and radians.

    They are null where `radar.json` does not give the size of bins.
    """
    shape, sidecar = iq.shape[1:], given.get("sidecar")
    transform = make_transform(shape, options, is_real(shape[-1], sidecar))
    metres, mps = resolutions(sidecar) or (None, None)
    axes: dict[str, tuple[str, str, np.ndarray | None]] = {}
    if isinstance(options, RangeAzimuthOptions):
        axes["azimuth"] = "rad", "right", _angles(options.azimuth_bins)
    else:
        bins = transform.doppler_bins
        velocity = None if mps is None else (np.arange(bins) - bins // 2) * mps * transform.chirps / bins
        axes["doppler"] = "m/s", "recedes", velocity
    if isinstance(options, SpectrumOptions):
        board = placed_board(options, given.get("config"), shape)
        rows, columns = (board.grid.max(axis=0) + 1).tolist()
        axes["elevation"] = "rad", "up", _angles(options.elevation_bins or rows, board.row_spacing)
        axes["azimuth"] = "rad", "right", _angles(options.azimuth_bins or columns, board.spacing)
    distance = None
    if metres is not None:
        bias = options.calibration.range_bias.value if options.calibration else 0.0
        distance = np.arange(transform.range_bins) * metres * transform.samples / transform.fft_length - bias
    axes["range"] = "m", "away", distance
    described = {}
    for name, (unit, positive, values) in axes.items():
        rounded = None if values is None else [round(each, 6) for each in values.tolist()]
        described[name] = {"unit": unit, "positive": positive, "values": rounded}
    checked = check_order(iq, options=options, **given)
    return checked._replace(files={AXES: json.dumps(described) + "\n"})


def _angles(bins: int, spacing: float = 1.0) -> np.ndarray:
    """Angle at each bin, radians; bins beyond the sines that are angles have a right angle."""
    return np.arcsin(np.clip(centred_sines(bins, spacing), -1, 1))
