"""Virtual sensors made from the radar's I/Q samples: spectra, points and how far a frame can be trusted.

Arguments mean the same in all functions:
    iq: i2, (frame, chirp, tx, rx, word), the words of complex samples as `Q Q I I`.
    sidecar: `radar.json`; its `shape` tells real from complex samples. Without it they are what the board makes.
    config: `config.yaml`, which names the board.
    prepared: what `rover_pipeline.radar.prepare` estimated for all the recording; None = nothing is removed.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np

from rover_pipeline.engine.step import Inspection
from rover_pipeline.radar.angles import Magnitudes, RangeAzimuth, centred_sines
from rover_pipeline.radar.axes import AXES, describe_axes, resolutions
from rover_pipeline.radar.boards import assumed_board, find_board, recorded_board
from rover_pipeline.radar.coupling import near_zero
from rover_pipeline.radar.options import PointsOptions, RangeAzimuthOptions, RangeDopplerOptions, SpectrumOptions
from rover_pipeline.radar.points import PointFinder
from rover_pipeline.radar.prepare import Prepared, make_transform, placed_board
from rover_pipeline.radar.sidecar import is_real
from rover_pipeline.radar.spectrum import RangeDoppler, decibel

#: Ratio of the energy at negative beat frequencies to that at positive ones, above which I and Q seem swapped. Complex
#: samples resolve ranges over the whole spectrum, so the far walls of a room alone give a ratio of 2 to 3; recordings
#: of whole rooms with swapped words gave 10 and more.
_SWAPPED_RATIO = 8.0
#: Coherence below which an array without a calibration is named.
_INCOHERENT = 0.85
#: Range bins left out at both ends of each half: leakage of the antenna coupling, and the edge of the ADC's filter.
_EDGE = 4


def check_order(
    iq: np.ndarray,
    *,
    options: RangeDopplerOptions,
    sidecar: str | None = None,
    config: str | None = None,
    whole: np.ndarray | None = None,
    prepared: Prepared | None = None,
) -> Inspection:
    """Measure the energy at negative beat frequencies; tell when I and Q seem swapped or the board is a guess.

    And what was prepared: how strong the coupling is, and how coherent the array.
    """
    shape = iq.shape[1:]
    warnings = []
    if type(options) is not RangeDopplerOptions and not (options.board or recorded_board(config)):
        warnings.append(
            f"config.yaml names no radar.args.radar.device; taken for {assumed_board(shape)}, which has {shape[1]} TX "
            f"and {shape[2]} RX too. Set radar.board if it is another"
        )
    measured: dict[str, object] = {}
    real = is_real(shape[-1], sidecar)
    if prepared is not None and prepared.coupling is not None:
        measured["coupling_db"] = round(prepared.coupling.level(shape[-1] // (1 if real else 2), real), 1)
        measured["coupling_from"] = "calibration" if prepared.calibrated else "recording"
    if prepared is not None and np.isfinite(prepared.coherence):
        measured["array_coherence"] = round(prepared.coherence, 3)
        if prepared.coherence < _INCOHERENT and options.calibration is None:
            warnings.append(
                f"the coherence of the array is {prepared.coherence:.2f}: its phases are not those of its design, or "
                "cells hold several targets; `rover-pipeline calibrate radar` measures them"
            )
    if not len(iq) or real:
        return Inspection(measured, warnings)
    share = _mirrored_energy_ratio(iq, make_transform(shape, options, False))
    measured["mirrored_range_energy"] = float(f"{share:.3g}") if np.isfinite(share) else None
    if share > _SWAPPED_RATIO:
        other = "iiqq" if options.sample_order == "qqii" else "qqii"
        warnings.append(
            f"radar/iq: the mirrored half of the range spectrum holds {share:.1f} times the energy of the other; "
            f"unless all there is lies beyond half of the range, I and Q seem swapped: try radar.sample_order: {other}"
        )
    return Inspection(measured, warnings)


def _mirrored_energy_ratio(frames: np.ndarray, transform: RangeDoppler) -> float:
    """Energy at negative beat frequencies over energy at positive ones; NaN if there is no energy at all.

    Args:
        frames: i2, (frame, chirp, tx, rx, word), complex samples.
    """
    profile = sum(transform.power(frame).sum(axis=0, dtype="f8") for frame in frames)
    half = transform.samples // 2
    edge = min(_EDGE, half // 4)
    negative = float(np.sum(profile[half + edge : 2 * half - edge]))
    positive = float(np.sum(profile[1 + edge : half - edge]))
    return negative / positive if positive > 0 else float("nan")


def inspect_spectra(
    iq: np.ndarray,
    *,
    options: RangeDopplerOptions,
    sidecar: str | None = None,
    config: str | None = None,
    prepared: Prepared | None = None,
) -> Inspection:
    """The check of the order, and the axes of the product in `axes.json`."""
    shape = iq.shape[1:]
    axes: dict[str, np.ndarray] = {}
    if isinstance(options, RangeAzimuthOptions):
        axes["azimuth"] = centred_sines(options.azimuth_bins)
    elif isinstance(options, SpectrumOptions):
        board = placed_board(options, config, shape)
        rows, columns = board.grid.max(axis=0) + 1
        axes["elevation"] = centred_sines(options.elevation_bins or int(rows), board.row_spacing)
        axes["azimuth"] = centred_sines(options.azimuth_bins or int(columns), board.spacing)
    transform = make_transform(shape, options, is_real(shape[-1], sidecar))
    text = describe_axes(
        sidecar,
        chirps=transform.chirps,
        samples=transform.samples,
        doppler=0 if isinstance(options, RangeAzimuthOptions) else transform.doppler_bins,
        range_bins=transform.range_bins,
        range_length=transform.fft_length,
        range_bias=options.calibration.range_bias.value if options.calibration else 0.0,
        **axes,
    )
    checked = check_order(iq, options=options, sidecar=sidecar, config=config, prepared=prepared)
    return checked._replace(files={AXES: text})


def range_doppler(
    iq: np.ndarray,
    *,
    options: RangeDopplerOptions,
    sidecar: str | None = None,
    config: str | None = None,
    prepared: Prepared | None = None,
) -> np.ndarray:
    """Range-Doppler power of each frame, f4 (frame, doppler, range), dB re one squared ADC count.

    Samples are complex where there is no sidecar.
    """
    coupling = prepared.coupling if prepared else None
    transform = make_transform(iq.shape[1:], options, is_real(iq.shape[-1], sidecar), coupling)
    return np.stack([decibel(transform.power(frame)) for frame in iq])


def range_azimuth(
    iq: np.ndarray,
    *,
    options: RangeAzimuthOptions,
    sidecar: str | None = None,
    config: str | None = None,
    prepared: Prepared | None = None,
) -> np.ndarray:
    """Power of each frame by direction and distance, f4 (frame, azimuth, range), dB re one squared ADC count."""
    azimuth = _azimuth(iq.shape[1:], options, config)
    return np.stack([decibel(azimuth.power(each)) for each in _spectra(iq, options, sidecar, config, prepared)])


def spectrum(
    iq: np.ndarray,
    *,
    options: SpectrumOptions,
    sidecar: str | None = None,
    config: str | None = None,
    prepared: Prepared | None = None,
) -> np.ndarray:
    """Magnitude of the four-dimensional spectrum of each frame.

    Returns:
        f2, (frame, doppler, elevation, azimuth, range), ADC counts: divided by the coherent gain of chirps, samples
        and antennas.
    """
    magnitudes = _magnitudes(iq.shape[1:], options, config)
    result = []
    for spectrum in _spectra(iq, options, sidecar, config, prepared):
        amplitude = magnitudes(spectrum)
        result.append((decibel(amplitude**2) if options.scale == "decibel" else amplitude).astype("f2"))
    return np.stack(result)


def points(
    iq: np.ndarray,
    whole: np.ndarray,
    *,
    options: PointsOptions,
    sidecar: str,
    config: str | None = None,
    prepared: Prepared | None = None,
) -> dict[str, np.ndarray]:
    """Targets of each frame. A frame that is not whole has none.

    Args:
        whole: u1, (frame,), 0 = packets of the frame were lost.
        sidecar: must say how large bins are.

    Returns:
        `xyz` f4 (frame, point, 3), `doppler` and `snr` f4 (frame, point), `count` u2 (frame,).
    """
    shape = iq.shape[1:]
    metres, mps = resolutions(sidecar) or (0.0, 0.0)
    if not metres:
        raise ValueError("radar.json must give range_resolution and doppler_resolution, both above zero")
    real = _has_real_samples(shape, options, sidecar, config)
    transform = make_transform(shape, options, real, prepared.coupling if prepared else None)
    find = _finder(shape, options, config, real, prepared)
    bias = options.calibration.range_bias.value if options.calibration else 0.0
    most = options.max_points
    xyz = np.full((len(iq), most, 3), np.nan, "f4")
    doppler, snr = np.full((2, len(iq), most), np.nan, "f4")
    count = np.zeros(len(iq), "u2")
    for i in np.flatnonzero(whole):
        peaks, direction = find(*transform.spectrum_and_power(iq[i]))
        count[i] = n = len(peaks.snr)
        xyz[i, :n] = direction * np.maximum(peaks.range * metres - bias, 0)[:, None]
        doppler[i, :n] = (peaks.doppler - shape[0] // 2) * mps
        snr[i, :n] = 10 * np.log10(peaks.snr)
    return {"xyz": xyz, "doppler": doppler, "snr": snr, "count": count}


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
        As `points`. `snr` has the strength; NaN where the radar tells none.
    """
    level = np.full_like(doppler, np.nan) if strength is None else strength
    used = np.arange(xyz.shape[1]) < count[:, None]
    used &= (whole != 0)[:, None] & np.isfinite(doppler) & np.isfinite(xyz).all(axis=2) & (xyz != 0).any(axis=2)
    falling = np.where(used, np.nan_to_num(level, nan=-np.inf), -np.inf)
    # Points that are used come first; a stable order keeps that of the radar among equals.
    order = np.lexsort((-falling, ~used), axis=1)
    kept = np.take_along_axis(used, order, axis=1)
    sorted_xyz = np.take_along_axis(xyz, order[:, :, None], axis=1)
    result = {"xyz": np.where(kept[:, :, None], sorted_xyz, np.float32(np.nan))}
    for name, values in (("doppler", doppler), ("snr", level)):
        result[name] = np.where(kept, np.take_along_axis(values, order, axis=1), np.float32(np.nan))
    return {**result, "count": kept.sum(axis=1).astype("u2")}


def quality(iq: np.ndarray) -> np.ndarray:
    """Share of the stored values of each frame that are at the limits of their type, f4 (frame,), 0 to 1.

    A receiver that saturates clips the signal, which makes targets where there are none. Clipping inside the radar's
    chip, before its filters, need not reach these limits and is not seen here.
    """
    limits = np.iinfo("i2")
    clipped = (iq == limits.max) | (iq == limits.min)
    return clipped.reshape(len(iq), -1).mean(axis=1, dtype="f8").astype("f4")


def _spectra(
    iq: np.ndarray,
    options: RangeDopplerOptions,
    sidecar: str | None,
    config: str | None,
    prepared: Prepared | None,
) -> Iterator[np.ndarray]:
    """Spectrum of each frame, in a buffer that the next one fills again."""
    shape = iq.shape[1:]
    real = _has_real_samples(shape, options, sidecar, config)
    return map(make_transform(shape, options, real, prepared.coupling if prepared else None).spectrum, iq)


@functools.lru_cache(maxsize=8)
def _azimuth(shape: tuple[int, ...], options: RangeAzimuthOptions, config: str | None) -> RangeAzimuth:
    board = placed_board(options, config, shape)
    return RangeAzimuth(board, shape[0], options.azimuth_bins, options.azimuth_window, options.compensate_tdm)


@functools.lru_cache(maxsize=8)
def _magnitudes(shape: tuple[int, ...], options: SpectrumOptions, config: str | None) -> Magnitudes:
    return Magnitudes(
        placed_board(options, config, shape),
        options.doppler_bins or shape[0],
        (options.elevation_bins, options.azimuth_bins),
        (options.elevation_window, options.azimuth_window),
        options.compensate_tdm,
    )


@functools.lru_cache(maxsize=8)
def _finder(
    shape: tuple[int, ...], options: PointsOptions, config: str | None, real: bool, prepared: Prepared | None
) -> PointFinder:
    blind, error = None, 0.0
    if prepared is not None:
        error = prepared.error
        if prepared.coupling is not None:
            samples = shape[-1] // (1 if real else 2)
            blind = near_zero(prepared.coupling, samples // 2 if real else samples, samples, samples, real)
    return PointFinder(placed_board(options, config, shape), options, blind, error)


def _has_real_samples(
    shape: tuple[int, ...], options: RangeDopplerOptions, sidecar: str | None, config: str | None
) -> bool:
    board = find_board(options.board, config, shape)
    real = board.real if sidecar is None else is_real(shape[-1], sidecar)
    if real != board.real:
        kinds = ("complex", "real")
        raise ValueError(
            f"radar.json says that samples are {kinds[real]}, the board makes {kinds[board.real]} ones; is radar.board "
            "right?"
        )
    return real
