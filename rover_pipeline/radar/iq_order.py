"""The order of I and Q in a recording: if it is assumed wrongly, targets appear at negative beat frequencies."""

from __future__ import annotations

import numpy as np

from rover_pipeline.radar.spectrum import RangeDoppler

#: Ratio of the energy at negative beat frequencies to that at positive ones, above which I and Q seem swapped. Complex
#: samples resolve ranges over the whole spectrum, so the far walls of a room alone give a ratio of 2 to 3; recordings
#: of whole rooms with swapped words gave 10 and more.
SWAPPED_RATIO = 8.0
#: Range bins left out at both ends of each half: leakage of the antenna coupling, and the edge of the ADC's filter.
_EDGE = 4


def mirrored_energy_ratio(frames: np.ndarray, transform: RangeDoppler) -> float:
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
