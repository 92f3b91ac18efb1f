"""What the bins of a radar product mean: published beside it as `axes.json`."""

from __future__ import annotations

import json

import numpy as np

#: File beside the channels: axis -> its unit and the value of each bin.
AXES = "axes.json"


def resolutions(sidecar: str | None) -> tuple[float, float] | None:
    """Metres a range bin and m/s a Doppler bin, without zero padding; None when `radar.json` does not say."""
    try:
        content = json.loads(sidecar or "{}")
        found = float(content["range_resolution"]), float(content["doppler_resolution"])
    except (ValueError, KeyError, TypeError):
        return None
    return found if min(found) > 0 else None


def max_doppler(sidecar: str | None) -> float | None:
    """Largest radial speed that Doppler bins tell apart, m/s; beyond it velocities wrap. None when nobody says."""
    bins = resolutions(sidecar)
    try:
        chirps = int(json.loads(sidecar or "{}")["shape"][0])
    except (ValueError, KeyError, TypeError, IndexError):
        return None
    return None if bins is None else bins[1] * chirps / 2


def range_axis(sidecar: str, meta: str | None) -> tuple[float, int]:
    """Metres a range bin, and number of range bins without zero padding.

    Args:
        sidecar: `radar.json`.
        meta: the radar's `meta.json`: `iq` holds one word a sample when samples are real; two unless it says so.

    Raises:
        ValueError: the sidecar does not say.
    """
    bins = resolutions(sidecar)
    try:
        samples = int(json.loads(sidecar)["shape"][-1])
    except (ValueError, KeyError, IndexError, TypeError):
        bins = None
    if bins is None:
        raise ValueError("radar.json must give `shape`, range_resolution and doppler_resolution, all above zero")
    try:
        words = int(json.loads(meta or "{}")["iq"]["shape"][-1])
    except (ValueError, KeyError, IndexError, TypeError):
        words = 2 * samples
    # The upper half of the spectrum of real samples mirrors the lower one.
    return bins[0], samples // 2 if words == samples else samples


def describe_axes(
    sidecar: str | None,
    *,
    chirps: int,
    samples: int,
    doppler: int = 0,
    elevation: np.ndarray | None = None,
    azimuth: np.ndarray | None = None,
    range_bins: int = 0,
    range_length: int = 0,
) -> str:
    """The text of `axes.json`: values in m, m/s and radians, or null where nobody says how large a bin is.

    Args:
        chirps, samples: of a frame, which resolutions in `radar.json` refer to.
        doppler, range_bins: bins of the product; range_length: of the transform they come from.
        elevation, azimuth: sine at each bin.
    """
    bins = resolutions(sidecar)
    axes: dict[str, dict[str, object]] = {}
    if doppler:
        velocity = None if bins is None else (np.arange(doppler) - doppler // 2) * bins[1] * chirps / doppler
        axes["doppler"] = {"unit": "m/s", "positive": "recedes", "values": _plain(velocity)}
    for name, sines, direction in (("elevation", elevation, "up"), ("azimuth", azimuth, "right")):
        if sines is not None:
            axes[name] = {"unit": "rad", "positive": direction, "values": _plain(np.arcsin(np.clip(sines, -1, 1)))}
    distance = None if bins is None else np.arange(range_bins) * bins[0] * samples / range_length
    axes["range"] = {"unit": "m", "positive": "away", "values": _plain(distance)}
    return json.dumps(axes) + "\n"


def _plain(values: np.ndarray | None) -> list[float] | None:
    return None if values is None else [round(float(value), 6) for value in values]
