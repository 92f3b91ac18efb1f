"""Whether I and Q are in the order they are taken for: a target must come out at positive range."""

from __future__ import annotations

import numpy as np

from rover_pipeline.radar.spectrum import RangeDoppler

#: Energy of the mirrored half of the range spectrum over that of the other, above which the order is swapped. Complex
#: samples tell ranges apart over the whole spectrum, so far walls of a small room alone reach 2 to 3; swapped
#: recordings of whole rooms were seen from 10 on.
SWAPPED = 8.0
#: Range bins at the ends of the halves that are left out: leakage of the antennas' coupling, and the filter's edge.
_EDGE = 4


def mirrored_share(frames: np.ndarray, transform: RangeDoppler) -> float:
    """Energy at negative beat frequencies over that at positive ones; NaN when there is none at all.

    Args:
        frames: i2, (frame, chirp, tx, rx, word), complex samples.
    """
    profile = sum(transform.power(frame).sum(axis=0, dtype="f8") for frame in frames)
    half = transform.samples // 2
    edge = min(_EDGE, half // 4)
    upper = float(np.sum(profile[half + edge : 2 * half - edge]))
    lower = float(np.sum(profile[1 + edge : half - edge]))
    return upper / lower if lower > 0 else float("nan")
