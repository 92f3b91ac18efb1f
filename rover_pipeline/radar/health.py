"""Virtual sensor `_radar_quality`: how far the frames of a radar can be trusted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rover_pipeline.engine.step import Inspection
from rover_pipeline.radar.interference import find_bursts, interfered_share

#: Share of frames above which a fault is named.
_NAMED_SHARE = 0.01
#: An antenna with this much less power than the median one is weak, and one with this much less is dead, dB.
WEAK_DB, DEAD_DB = -6.0, -20.0
#: Coherence below which an array is called one that is not calibrated.
_INCOHERENT = 0.8

#: A value that no sample exceeds is a rail, although it is not the limit of its type, if at least so many samples have
#: it, so many times more than each of the values next to it, and if it is at least so large.
_RAIL_SAMPLES, _RAIL_RATIO, _RAIL_NEAR, _RAIL_LEAST = 16, 20, 16, 256


def clipped_share(iq: np.ndarray) -> np.ndarray:
    """Share of the stored values of each frame that are at the rails, f4 (frame,), 0 to 1.

    A receiver that saturates clips the signal, which makes targets where there are none. The rails are the limits of
    the type, or those of a converter with fewer bits, which show as a value that many samples have and none exceeds.
    Clipping before the filters of the radar's chip makes no rails and is not seen here.
    """
    return np.array([_clipped(frame) for frame in iq], "f4")


def _clipped(frame: np.ndarray) -> float:
    limits = np.iinfo(frame.dtype)
    rails: dict[int, int] = {}
    for extreme, limit, inwards in ((int(frame.max()), limits.max, -1), (int(frame.min()), limits.min, 1)):
        count = int(np.count_nonzero(frame == extreme))
        if extreme != limit:
            if abs(extreme) < _RAIL_LEAST or count < _RAIL_SAMPLES:
                continue
            ends = sorted((extreme + inwards, extreme + _RAIL_NEAR * inwards))
            near = np.count_nonzero((frame >= ends[0]) & (frame <= ends[1]))
            if count * _RAIL_NEAR < _RAIL_RATIO * near:
                continue
        rails[extreme] = count
    return sum(rails.values()) / frame.size


def frame_health(samples: np.ndarray) -> tuple[float, float, np.ndarray]:
    """Share of the chirps of a frame with interference, share of its samples, and `antenna_power`.

    Args:
        samples: c8 (chirp, tx, rx, sample), or f4 where they are real.
    """
    bursts = find_bursts(samples)
    return interfered_share(bursts), float(bursts.mean()), antenna_power(samples)


def antenna_power(samples: np.ndarray) -> np.ndarray:
    """Power of each virtual antenna over that of the median one, dB, f8 (tx, rx).

    Args:
        samples: (chirp, tx, rx, sample). Their mean over a chirp is no echo and is left out.
    """
    changing = samples - samples.mean(axis=-1, keepdims=True)
    power = (changing.real**2 + changing.imag**2).mean(axis=(0, 3), dtype="f8")
    level = 10 * np.log10(power + 1e-6)
    return np.asarray(level - np.median(level))


def conclude(results: Mapping[str, np.ndarray]) -> Inspection:
    """What the user should know of all frames, from the channels of `_radar_quality`."""
    used = results["valid"] != 0
    return Inspection(*_findings({name: values[used] for name, values in results.items()}))


def _findings(found: Mapping[str, np.ndarray]) -> tuple[dict[str, Any], list[str]]:
    """Figures for provenance, and warnings, about the frames that are whole."""
    count = len(found["clipped"])
    if not count:
        return {}, []
    clipped, interfered = int((found["clipped"] > 0).sum()), int((found["interfered"] > 0).sum())
    power = np.median(found["antenna_power"], axis=0)
    known = found["coherence"][np.isfinite(found["coherence"])]
    coherence = float(np.median(known)) if len(known) else None
    measured: dict[str, Any] = {
        "clipped_frames": clipped,
        "interfered_frames": interfered,
        "coherence": None if coherence is None else round(coherence, 3),
        "antenna_power_db": power.astype("f8").round(1).tolist(),
    }
    warnings = []
    if clipped:
        share = float(found["clipped"].max())
        warnings.append(
            f"radar: {clipped} of {count} frames have clipped samples, up to {share:.2%} of them: the receiver "
            "saturates, which makes targets where there are none; lower its gain"
        )
    if interfered > _NAMED_SHARE * count:
        share = float(np.nanmean(found["interfered"]))
        warnings.append(
            f"radar: {interfered} of {count} frames have interference of another radar, in {share:.0%} of the chirps; "
            "radar.interference: time replaces it"
        )
    for name, low, high in (("dead", -np.inf, DEAD_DB), ("weak", DEAD_DB, WEAK_DB)):
        faulty = [f"TX {tx + 1} RX {rx + 1}" for tx, rx in np.argwhere((power > low) & (power <= high))]
        if faulty:
            warnings.append(f"radar: virtual antennas are {name}: {', '.join(faulty)} (in the order of the frame)")
    if coherence is not None and coherence < _INCOHERENT:
        warnings.append(
            f"radar: the array explains {coherence:.0%} of the power of strong targets: its phases are not those of "
            "the board's design, and directions are wrong by more than usual"
        )
    return measured, warnings
