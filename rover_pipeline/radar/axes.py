"""What `radar.json` and `config.yaml` say of the samples and of the size of bins."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeVar

from scipy.constants import speed_of_light

from rover_pipeline.errors import FormatError
from rover_pipeline.format.texts import parse_collection, parse_json

T = TypeVar("T")


@lru_cache(maxsize=8)
def chirp_settings(config: str | None) -> Mapping[str, Any]:
    """The section `radar.args.radar` of a `config.yaml`: board, antennas and chirps; empty if there is none."""
    section: Any = parse_collection(config)
    for key in ("radar", "args", "radar"):
        section = section.get(key) if isinstance(section, dict) else None
    return section if isinstance(section, dict) else {}


@lru_cache(maxsize=8)
def is_real(words: int, sidecar: str | None) -> bool:
    """Whether samples are real instead of complex; complex if there is no sidecar.

    Args:
        words: of a chirp; sidecar: `radar.json`.

    Raises:
        ValueError: it does not say, or something else than the words do.
    """
    if sidecar is None:
        return False
    if (samples := _read(int, sidecar, "shape", -1)) is None:
        raise ValueError("radar.json must be an object with a `shape` of [chirps, tx, rx, samples]")
    if words not in (samples, 2 * samples):
        raise ValueError(f"radar.json says {samples} samples a chirp, iq holds {words} words; neither real nor complex")
    return words == samples


@lru_cache(maxsize=8)
def resolutions(sidecar: str | None) -> tuple[float, float] | None:
    """Size of a range bin, m, and of a Doppler bin, m/s, without zero padding; None if `radar.json` does not say."""
    metres = _read(float, sidecar, "range_resolution")
    speed = _read(float, sidecar, "doppler_resolution")
    return None if metres is None or speed is None or not min(metres, speed) > 0 else (metres, speed)


def doppler_bin(sidecar: str) -> float | None:
    """Size of a Doppler bin, m/s; None if the text does not say.

    Args:
        sidecar: `radar.json`; or `points.json` of a radar that sends points, of which 0 = they have no bins.
    """
    bins = resolutions(sidecar)
    if bins is not None:
        return bins[1]
    if _read(int, sidecar, "max_points") is None:
        return None
    return max(_read(float, sidecar, "doppler_resolution") or 0.0, 0.0)


def bins_of(chirps: Mapping[str, Any], tx: int) -> tuple[float, float]:
    """As `resolutions`, by the frequency and the times of the chirps, which `tx` transmitters send in turn.

    The phase of a range bin from chirp to chirp is that of the middle sample. The wavelength at the start of the ramp,
    which is longer, makes velocities too large by the half of the bandwidth.

    Raises:
        LookupError, ValueError, TypeError, ArithmeticError: a number is missing, or is none.
    """
    names = "frequency", "freq_slope", "adc_start_time", "adc_samples", "sample_rate", "idle_time", "ramp_end_time"
    ghz, mhz_us, begin_us, samples, ksps, idle_us, ramp_us = (float(chirps[name]) for name in names)
    bandwidth_hz, middle_us = mhz_us * 1e12 * samples / (ksps * 1e3), begin_us + 1e3 * samples / ksps / 2
    wavelength = speed_of_light / (ghz * 1e9 + mhz_us * 1e6 * middle_us)
    frame_s = float(chirps["frame_length"]) * tx * ((idle_us + ramp_us) * 1e-6)
    return speed_of_light / (2 * bandwidth_hz), wavelength / (2 * frame_s)


def bins_of_chirps(config: str | None, sidecar: str | None) -> tuple[float, float] | None:
    """As `resolutions`, by the chirps in `config.yaml`; None if it does not say. `radar.json` has the transmitters."""
    shape = frame_shape(sidecar, None)
    try:
        bins = bins_of(chirp_settings(config), shape[1] if shape else 0)
    except (LookupError, ValueError, TypeError, ArithmeticError):
        return None
    return bins if all(0 < size < math.inf for size in bins) else None


def max_doppler(sidecar: str | None) -> float | None:
    """Largest unambiguous radial speed, m/s; faster targets alias. None if `radar.json` does not say."""
    bins, chirps = resolutions(sidecar), _read(int, sidecar, "shape", 0)
    return None if bins is None or chirps is None else bins[1] * chirps / 2


def frame_shape(sidecar: str | None, meta: str | None) -> tuple[int, ...] | None:
    """Numbers of chirps, transmitters and receivers of a frame; None if neither text gives them.

    Args:
        sidecar: `radar.json`; meta: the radar's `meta.json`, which is asked first because it describes what is stored.
    """
    for text, keys in ((meta, ("iq", "shape")), (sidecar, ("shape",))):
        sizes = [_read(int, text, *keys, axis) for axis in range(3)]
        if all(size is not None and size > 0 for size in sizes):
            return tuple(size for size in sizes if size is not None)
    return None


def range_axis(sidecar: str, meta: str | None) -> tuple[float, int]:
    """Size of a range bin, m, and number of range bins without zero padding.

    Args:
        sidecar: `radar.json`.
        meta: the radar's `meta.json`. Samples are real if its `iq` holds one word a sample, else complex.

    Raises:
        ValueError: the sidecar does not say.
    """
    bins, samples = resolutions(sidecar), _read(int, sidecar, "shape", -1)
    if bins is None or samples is None:
        raise ValueError("radar.json must give `shape`, range_resolution and doppler_resolution, all above zero")
    # The upper half of the spectrum of real samples mirrors the lower one.
    return bins[0], samples // 2 if _read(int, meta, "iq", "shape", -1) == samples else samples


def _read(convert: Callable[[Any], T], text: str | None, *keys: str | int) -> T | None:
    """The converted value at a path of keys in a JSON text; None if it is not there or cannot be converted."""
    try:
        value = parse_json(text or "{}", "the sidecar")
        for key in keys:
            value = value[key]
        return convert(value)
    except (FormatError, ValueError, LookupError, TypeError, ArithmeticError):
        return None
