"""Times at which the host's clock was set during a recording. Nothing may be laid out over the years that it skips."""

from __future__ import annotations

import numpy as np

#: A longer time between two samples is a clock that was set, s: no sensor is silent for ten minutes and then goes on.
#: Tuned: by hand.
JUMP_S = 600.0
#: Times from 1990 to 2100, seconds since 1970. Those of a clock that was not set, or counts milliseconds, are outside.
#: Tuned: by hand.
EPOCH_S = (631_152_000.0, 4_102_444_800.0)
#: Time between samples where a jump comes before each of them, s. Tuned: by hand.
_PERIOD_S = 1.0


def jumps(ts: np.ndarray) -> np.ndarray:
    """Numbers of the samples before which the clock was set, i8 (jump,).

    Args:
        ts: f8 (N,), seconds, increasing.
    """
    return 1 + np.flatnonzero(np.diff(ts) > JUMP_S)


def is_set(ts: np.ndarray) -> bool:
    """Whether times, f8 (N,), s, increasing, are those of a clock that was set: some, and between 1990 and 2100."""
    return bool(len(ts) and EPOCH_S[0] < ts[0] and ts[-1] < EPOCH_S[1])


def without_jumps(ts: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Times as if the clock had not been set: a jump takes a typical period of the reference.

    Args:
        ts: f8 (N,), seconds; reference: f8 (M,), seconds, increasing, the times that show the jumps. Times within a
            jump of the reference are NaN, because it is not known to which side of it they belong.

    Returns:
        f8 (N,), seconds; `ts` itself where there are no jumps.
    """
    after = jumps(reference)
    if not len(after):
        return ts
    begin, end = reference[after - 1], reference[after]
    steady = np.delete(np.diff(reference), after - 1)
    period = float(np.median(steady)) if len(steady) else _PERIOD_S
    skipped = np.concatenate([[0.0], np.cumsum(end - begin - period)])
    number = np.searchsorted(end, ts, side="right")
    moved = ts - skipped[number]
    inside = (number < len(begin)) & (ts > begin[np.minimum(number, len(begin) - 1)])
    moved[inside] = np.nan
    return moved
