"""Virtual sensor of how far a radar frame can be trusted: `_radar_quality`."""

from __future__ import annotations

import numpy as np

#: The largest and the smallest value of a stored sample: the signal was at least this large.
_RAILS = np.iinfo("i2")


def quality(iq: np.ndarray) -> np.ndarray:
    """Share of the stored values of each frame that are at the limits of their type.

    A receiver that saturates clips the signal, which makes targets where there are none. Clipping inside the radar's
    chip, before its filters, need not reach these limits and is not seen here.

    Args:
        iq: i2, (frame, chirp, tx, rx, word), ADC counts.

    Returns:
        f4, (frame,), 0 to 1.
    """
    clipped = (iq == _RAILS.max) | (iq == _RAILS.min)
    return clipped.reshape(len(iq), -1).mean(axis=1, dtype="f8").astype("f4")
