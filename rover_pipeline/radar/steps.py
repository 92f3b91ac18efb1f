"""Virtual sensors made from the radar's I/Q samples: spectra, points and how far a frame can be trusted.

Arguments mean the same in all functions:
    iq: i2, (frame, chirp, tx, rx, word), the words of complex samples as `Q Q I I`.
    sidecar: `radar.json`; its `shape` says whether samples are real. Without it they are what the board makes.
    config: `config.yaml`, which names the board.
    prepared: what `rover_pipeline.radar.prepare` estimated for all the recording; None = nothing is removed.
    shared: what other radar steps have computed from the same frame; None = the step is made alone.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Unpack

import numpy as np

from rover_pipeline.engine.shared import Shared
from rover_pipeline.errors import ConfigError
from rover_pipeline.radar.angles import Magnitudes, RangeAzimuth
from rover_pipeline.radar.axes import is_real, resolutions
from rover_pipeline.radar.boards import Board, placed_board
from rover_pipeline.radar.ego_motion import MIN_ECHOES
from rover_pipeline.radar.frames import Frames, near_zero
from rover_pipeline.radar.health import antenna_power, find_bursts, interfered_share
from rover_pipeline.radar.options import PointsOptions, RangeAzimuthOptions, RangeDopplerOptions, SpectrumOptions
from rover_pipeline.radar.points import PointFinder
from rover_pipeline.radar.prepare import Given, Prepared
from rover_pipeline.radar.spectrum import decibel

#: Channels of points -> further axes, or types, by what they hold where there is no point. Layout.
_NAN: dict[str, tuple[int, ...]] = {"xyz": (3,), "doppler": (), "snr": (), "deviation": (2,), "spread": (2,)}
_ZERO = {"folds": "i1", "certain": "u1", "artefact": "u1"}


def range_doppler(
    iq: np.ndarray, *, options: RangeDopplerOptions, shared: Shared | None = None, **given: Unpack[Given]
) -> np.ndarray:
    """Range-Doppler power of each frame, f4 (frame, doppler, range), dB re one squared ADC count.

    Samples are complex where there is no sidecar.
    """
    frames = _frames(iq, options, is_real(iq.shape[-1], given.get("sidecar")), shared, given)
    return np.stack([decibel(frames.power(i)) for i in range(len(frames))])


def micro_doppler(
    iq: np.ndarray, *, options: RangeDopplerOptions, shared: Shared | None = None, **given: Unpack[Given]
) -> dict[str, np.ndarray]:
    """How much moves at each velocity in each frame, of all distances together.

    One frame after the other, this is the micro-Doppler signature of what moves, such as of arms and legs (V. C. Chen,
    The Micro-Doppler Effect in Radar, 2011).

    Returns:
        `power` f4 (frame, doppler), dB re one squared ADC count, the sum over distances; `range` f4 (frame, doppler),
        m, where most of it is; NaN where nothing says how large bins are.
    """
    frames = _frames(iq, options, is_real(iq.shape[-1], given.get("sidecar")), shared, given)
    metres = (resolutions(given.get("sidecar")) or (0.0, 0.0))[0] or np.nan
    bias = options.calibration.range_bias.value if options.calibration else 0.0
    powers = np.stack([frames.power(i) for i in range(len(frames))])
    nearest = np.maximum(powers.argmax(axis=2) * metres - bias, 0.0)
    return {"power": decibel(powers.sum(axis=2, dtype="f8")), "range": nearest.astype("f4")}


def range_azimuth(
    iq: np.ndarray, *, options: RangeAzimuthOptions, shared: Shared | None = None, **given: Unpack[Given]
) -> np.ndarray:
    """Power of each frame by direction and distance, f4 (frame, azimuth, range), dB re one squared ADC count."""
    board, frames = _board_and_frames(iq, options, shared, given)
    window = options.azimuth_window
    azimuth = _azimuth(board, iq.shape[1], options.azimuth_bins, window, options.compensate_tdm)
    return np.stack([decibel(azimuth.power(frames.spectrum(i))) for i in range(len(frames))])


def spectrum(
    iq: np.ndarray, *, options: SpectrumOptions, shared: Shared | None = None, **given: Unpack[Given]
) -> np.ndarray:
    """Magnitude of the four-dimensional spectrum of each frame.

    Returns:
        f2, (frame, doppler, elevation, azimuth, range), ADC counts: divided by the coherent gain of chirps, samples
        and antennas.
    """
    board, frames = _board_and_frames(iq, options, shared, given)
    bins, windows = (options.elevation_bins, options.azimuth_bins), (options.elevation_window, options.azimuth_window)
    magnitudes = _magnitudes(board, options.doppler_bins or iq.shape[1], bins, windows, options.compensate_tdm)
    result = []
    for i in range(len(frames)):
        amplitude = magnitudes(frames.spectrum(i))
        with np.errstate(over="ignore"):  # what is too large for the type becomes infinite
            result.append((decibel(amplitude**2) if options.scale == "decibel" else amplitude).astype("f2"))
    return np.stack(result)


def points(
    iq: np.ndarray,
    whole: np.ndarray,
    *,
    options: PointsOptions,
    shared: Shared | None = None,
    guides: Mapping[int, np.ndarray] | None = None,
    **given: Unpack[Given],
) -> dict[str, np.ndarray]:
    """Targets of each frame. A frame that is not whole has none. The sidecar must say how large bins are.

    Args:
        whole: u1, (frame,), 0 = packets of the frame were lost.
        guides: f8 (3,), velocity of the radar by odometry in its own frame, m/s, by number of the frame where it is
            known; it helps to find the ambiguity number of the Doppler.

    Returns:
        `xyz` f4 (frame, point, 3), `doppler` and `snr` f4 (frame, point), `count` u2 (frame,), `folds` i1, `certain`
        and `artefact` u1 (frame, point), `deviation` and `spread` f4 (frame, point, 2), `excised` f4 (frame,), the
        share of the samples that was replaced, and `valid`, False where the receiver was saturated.
    """
    metres, mps = resolutions(given.get("sidecar")) or (0.0, 0.0)
    if not metres:
        raise ValueError("radar.json must give range_resolution and doppler_resolution, both above zero")
    board, frames = _board_and_frames(iq, options, shared, given)
    find = _finder(board, options, frames.transform.samples, frames.real, _prepared(given), mps)
    bias = options.calibration.range_bias.value if options.calibration else 0.0
    made, chirps = _no_points(len(iq), options.max_points), iq.shape[1]
    for i in np.flatnonzero(whole).tolist():
        made["excised"][i] = frames.excised_share(i)
        found = find(*frames.spectrum_and_power(i), (guides or {}).get(i))
        peaks = found.peaks
        made["count"][i] = n = len(peaks.snr)
        made["folds"][i, :n] = found.ambiguity
        for name in ("certain", "artefact", "deviation", "spread"):
            made[name][i, :n] = getattr(found, name)
        made["xyz"][i, :n] = found.direction * np.maximum(peaks.range * metres - bias, 0)[:, None]
        made["doppler"][i, :n] = (peaks.doppler - chirps // 2 + found.ambiguity * float(chirps)) * mps
        made["snr"][i, :n] = 10 * np.log10(peaks.snr)
    return made | {"valid": frames.clipped() <= options.max_clipped}


def _no_points(frames: int, max_points: int) -> dict[str, np.ndarray]:
    """The channels of frames without points."""
    no = {name: np.full((frames, max_points, *more), np.nan, "f4") for name, more in _NAN.items()}
    no |= {name: np.zeros((frames, max_points), kind) for name, kind in _ZERO.items()}
    return no | {"count": np.zeros(frames, "u2"), "excised": np.zeros(frames, "f4")}


def sent_points(
    xyz: np.ndarray,
    doppler: np.ndarray,
    count: np.ndarray,
    whole: np.ndarray,
    *,
    options: PointsOptions,
    strength: np.ndarray | None = None,
) -> dict[str, np.ndarray]:
    """The points that a radar sent, strongest first. Those at the radar itself have no direction and are left out.

    Args:
        xyz: f4 (frame, point, 3), m; doppler, strength: f4 (frame, point); count: u2 (frame,), points of each frame.
        whole: u1, (frame,), 0 = the frame cannot be trusted, and has no points.

    Returns:
        As `points`. `snr` has the strength; NaN where the radar sends none.
    """
    level = np.full_like(doppler, np.nan) if strength is None else strength
    used = np.arange(xyz.shape[1]) < count[:, None]
    used &= (whole != 0)[:, None] & np.isfinite(doppler) & np.isfinite(xyz).all(axis=2) & (xyz != 0).any(axis=2)
    falling = np.where(used, np.nan_to_num(level, nan=-np.inf), -np.inf)
    # Points that are used come first; a stable order keeps that of the radar among equals.
    order = np.lexsort((-falling, ~used), axis=1)
    kept = np.take_along_axis(used, order, axis=1)
    made = _no_points(*kept.shape)
    for name, values in (("xyz", xyz), ("doppler", doppler), ("snr", level)):
        made[name][kept] = values[np.arange(len(kept))[:, None], order][kept]
    # What the radar has made of its Doppler is not known: it is taken as it is sent.
    return {**made, "certain": kept.astype("u1"), "count": kept.sum(axis=1).astype("u2")}


def quality(
    iq: np.ndarray, *, options: PointsOptions, shared: Shared | None = None, **given: Unpack[Given]
) -> dict[str, np.ndarray]:
    """How far each frame can be trusted; see `rover_pipeline.radar.health`.

    Returns:
        `clipped`, `interfered`, `excised`, `coherence` f4 (frame,) and `antenna_power` f4 (frame, tx, rx).
    """
    sidecar = given.get("sidecar")
    # What is left in a frame is what is looked for.
    plain = options.model_copy(update={"estimator": "beam", "interference": "keep"})
    frames = _frames(iq, plain, is_real(iq.shape[-1], sidecar), shared, given)
    try:
        board, mps = placed_board(plain, given.get("config"), iq.shape[1:]), (resolutions(sidecar) or (0.0, 1.0))[1]
        find = _finder(board, plain, frames.transform.samples, frames.real, _prepared(given), mps)
    except ConfigError:
        find = None  # without the board nothing is known of the array, but of the samples all the same

    def coherence(i: int) -> float:
        values = find.coherence(*frames.spectrum_and_power(i)) if find else np.empty(0)
        return float(np.median(values)) if len(values) >= MIN_ECHOES else float("nan")

    numbers = range(len(frames))
    bursts = [find_bursts(frames.samples(i)) for i in numbers]
    return {
        "clipped": frames.clipped(),
        "interfered": np.array([interfered_share(each) for each in bursts], "f4"),
        "excised": np.array([each.mean() for each in bursts], "f4"),
        "coherence": np.array([coherence(i) for i in numbers], "f4"),
        "antenna_power": np.array([antenna_power(frames.samples(i)) for i in numbers], "f4"),
    }


def _prepared(given: Given) -> Prepared:
    return given.get("prepared") or Prepared()


def _frames(iq: np.ndarray, options: RangeDopplerOptions, real: bool, shared: Shared | None, given: Given) -> Frames:
    return Frames(iq, options, real, _prepared(given).coupling, shared)


def _board_and_frames(
    iq: np.ndarray, options: RangeDopplerOptions, shared: Shared | None, given: Given
) -> tuple[Board, Frames]:
    board, sidecar = placed_board(options, given.get("config"), iq.shape[1:]), given.get("sidecar")
    real = board.real if sidecar is None else is_real(iq.shape[-1], sidecar)
    if real != board.real:
        kinds = ("complex", "real")
        raise ValueError(
            f"radar.json says that samples are {kinds[real]}, the board makes {kinds[board.real]} ones; is radar.board "
            "right?"
        )
    return board, _frames(iq, options, real, shared, given)


_azimuth = functools.lru_cache(maxsize=8)(RangeAzimuth)
_magnitudes = functools.lru_cache(maxsize=8)(Magnitudes)


@functools.lru_cache(maxsize=8)
def _finder(
    board: Board, options: PointsOptions, samples: int, real: bool, prepared: Prepared, bin_mps: float
) -> PointFinder:
    blind, removed = None, np.zeros(1)
    if prepared.coupling is not None:
        blind = near_zero(prepared.coupling, samples, real)
        removed = prepared.coupling.power(samples, real, options.range_window)
    return PointFinder(board, options, blind, prepared.error, bin_mps, (prepared.imbalance, removed))
