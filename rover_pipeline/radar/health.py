"""How far the frames of a radar can be trusted: clipped samples, interference and its repair, weak antennas.

**Interference.** Another radar's ramp crosses the band of the receiver in a part of a chirp, as a burst in time. The
echoes of the scene change little from a chirp to one nearby, the burst does not come back: so a part of a chirp that
differs from all of its neighbours by significantly more than others do is interfered. How much they differ is estimated
from the frame itself: the cube root of a power is about normal, of one random amplitude and of many (E. B.
Wilson and M. M. Hilferty, The distribution of chi-square, Proceedings of the National Academy of Sciences 17, 1931).

The samples of bursts are replaced by those of a sparse spectrum that fits all the others (iterative method with
adaptive thresholding: J. Bechter, F. Roos, M. Rahman, C. Waldschmidt, Automotive radar interference mitigation using a
sparse sampling approach, EuRAD 2017).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import scipy.fft
from scipy.special import chdtri, pdtrc

from rover_pipeline.engine.step import Inspection
from rover_pipeline.errors import counted
from rover_pipeline.numerics.robust import FALSE_ALARM, MAD_TO_SD, is_limit
from rover_pipeline.radar.options import PointsSection
from rover_pipeline.radar.spectrum import samples_of, words_of
from rover_pipeline.radar.tuning import TUNING

Excise = Literal["keep", "time", "chirp"]


def clipped_share(iq: np.ndarray) -> np.ndarray:
    """Share of the stored values of each frame that are at the rails, f4 (frame,), 0 to 1.

    A receiver that saturates clips the signal, which makes targets where there are none. The rails are the limits of
    the type, or those of a converter with fewer bits (`is_limit`), which are on either side of zero.
    Clipping before the filters of the radar's chip makes no rails and is not seen here.
    """
    return np.array([_clipped(frame) for frame in iq], "f4")


def _clipped(frame: np.ndarray) -> float:
    limits = np.iinfo(frame.dtype)
    rails: dict[int, int] = {}
    for find, limit in ((np.max, limits.max), (np.min, limits.min)):
        ends = find(frame.reshape(len(frame), -1), axis=1)
        extreme = int(find(ends))
        count = int(np.count_nonzero(frame[ends == extreme] == extreme))  # other chirps do not have it
        if extreme != limit:
            # The next value is looked for only where it can make a difference.
            if extreme * limit <= 0 or not is_limit(count, 1):
                continue
            others = frame[frame != extreme]
            if not is_limit(count, int(np.count_nonzero(others == find(others, initial=0)))):
                continue
        rails[extreme] = count
    return sum(rails.values()) / frame.size


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
    found = {name: values[used] for name, values in results.items()}
    count = len(found["clipped"])
    if not count:
        return Inspection({})
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
            f"radar: {counted(clipped, 'frame')} of {count} with clipped samples, up to {100 * share:.3g}% of them: "
            "the receiver saturates, which makes targets where there are none; lower its gain"
        )
    if interfered and pdtrc(interfered - 1, FALSE_ALARM * count) < FALSE_ALARM:  # more frames than false alarms explain
        share = float(np.nanmean(found["interfered"]))
        warnings.append(
            f"radar: {counted(interfered, 'frame')} of {count} with interference of another radar, in "
            f"{100 * share:.3g}% of the chirps; radar.interference: time replaces it"
        )
    for name, low, high in (
        ("dead", -np.inf, TUNING.dead_antenna_db),
        ("weak", TUNING.dead_antenna_db, TUNING.weak_antenna_db),
    ):
        faulty = [f"TX {tx + 1} RX {rx + 1}" for tx, rx in np.argwhere((power > low) & (power <= high))]
        if faulty:
            warnings.append(f"radar: virtual antennas are {name}: {', '.join(faulty)} (in the order of the frame)")
    if coherence is not None and coherence < TUNING.incoherent:
        warnings.append(
            f"radar: the array explains {coherence:.0%} of the power of strong targets: its phases are not those of "
            "the board's design, and directions are wrong by more than usual"
        )
    return Inspection(measured, warnings)


# --- Interference -------------------------------------------------------------------------------------------------


def find_bursts(samples: np.ndarray) -> np.ndarray:
    """Parts of chirps with interference, bool (chirp, tx, part); none where there are too few chirps.

    Args:
        samples: (chirp, tx, rx, sample) of one frame.
    """
    chirps, tx, _, count = samples.shape
    parts = min(TUNING.chirp_parts, count)
    if chirps <= len(TUNING.neighbours):
        return np.zeros((chirps, tx, parts), bool)
    edges = np.linspace(0, count, parts + 1).astype(int)[:-1]
    smallest, others, spread = np.full((chirps, tx, parts), np.inf), [], 0.0
    here, roots = np.arange(chirps), dict[int, np.ndarray]()
    for step in TUNING.neighbours:
        if abs(step) not in roots:
            change = samples[abs(step) :] - samples[: -abs(step)]
            power = (change.real**2 + change.imag**2).sum(axis=2, dtype="f8")
            roots[abs(step)] = np.cbrt(np.add.reduceat(power, edges, axis=-1))
        # Neighbours beyond the ends of the frame are those on the other side.
        others.append(np.where((here + step < 0) | (here + step >= chirps), here - step, here + step))
        root = roots[abs(step)][np.minimum(here, others[-1])]
        # Each part and each transmitter has its own echoes, and so its own typical change. A burst takes a part of a
        # chirp only, so that most chirps are undisturbed in each part.
        root /= np.maximum(np.median(root, axis=0), 1e-9)
        # The largest one counts: while echoes beat slowly, few values of a transmitter are independent.
        spread = max(spread, MAD_TO_SD * float(np.median(np.abs(root - 1), axis=(0, 2)).max()))
        smallest = np.minimum(smallest, root)
    # Echoes beat against one another: what they change grows and falls from chirp to chirp, and a burst does not.
    usual = np.maximum(1.0, np.median(smallest[np.stack(others)], axis=0))
    return np.asarray(smallest > usual * (1 + spread * math.sqrt(chdtri(1, 2 * FALSE_ALARM / smallest.size))))


def interfered_share(bursts: np.ndarray) -> float:
    """Share of the chirps with interference; NaN where there are too few chirps."""
    return float(bursts.any(axis=-1).mean()) if bursts.shape[0] > len(TUNING.neighbours) else float("nan")


def excise(words: np.ndarray, how: Excise, real: bool, order: str) -> np.ndarray:
    """A frame with the interference replaced by what the other samples predict, i2 (chirp, tx, rx, word).

    Args:
        how: "time" = the parts of chirps with bursts, and a part on both sides; "chirp" = whole chirps.
    """
    samples = samples_of(words, real, order)
    bursts = find_bursts(samples)
    if not bursts.any():
        return words
    if how == "chirp":
        bursts = np.broadcast_to(bursts.any(axis=-1, keepdims=True), bursts.shape)
    else:
        # A burst begins and ends within parts that it hardly changes.
        wider = bursts.copy()
        wider[..., 1:] |= bursts[..., :-1]
        wider[..., :-1] |= bursts[..., 1:]
        bursts = wider
    count = samples.shape[-1]
    edges = np.linspace(0, count, bursts.shape[-1] + 1).astype(int)
    lost = np.repeat(bursts, np.diff(edges), axis=-1)
    restored = samples.copy()
    for tx in range(samples.shape[1]):
        if lost[:, tx].any():
            for rx in range(samples.shape[2]):
                restored[:, tx, rx] = _restored(samples[:, tx, rx], lost[:, tx])
    changed = words_of(restored, real, order)
    # Of complex samples, two make a group of four words: I and Q of both.
    of_words = lost if real else np.repeat(lost.reshape(*lost.shape[:2], -1, 1, 2), 2, axis=-2)
    return np.where(of_words.reshape(*lost.shape[:2], 1, -1), changed, words)


def power_of_point() -> float:
    """Least power of a point over the median of a map.

    The power of noise is distributed exponentially, so that its median is log(2) of its mean.
    """
    return float(10 ** (PointsSection().threshold_db / 10) / math.log(2))


def _restored(samples: np.ndarray, lost: np.ndarray) -> np.ndarray:
    """The samples of one antenna, (chirp, sample), with the lost ones from a sparse spectrum that fits the others."""
    known = np.where(lost, 0, samples)
    found = known
    highest = None
    stands_out = math.sqrt(power_of_point())  # what is a point stays
    for n in range(TUNING.repair_iterations):
        spectrum = scipy.fft.fft2(found)
        amplitude = np.abs(spectrum)
        if highest is None:
            highest = float(amplitude.max())
        last = stands_out * float(np.median(amplitude))
        if not 0 < last < highest:
            break
        threshold = highest * (last / highest) ** ((n + 1) / TUNING.repair_iterations)
        estimate = scipy.fft.ifft2(np.where(amplitude > threshold, spectrum, 0))
        found = np.where(lost, estimate if np.iscomplexobj(samples) else estimate.real, known)
    return found.astype(samples.dtype)
