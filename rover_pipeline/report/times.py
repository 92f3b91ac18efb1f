"""What the times of a sensor tell: rate, gaps, jitter, and a picture of them with a bounded number of parts."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from rover_pipeline.format.info import GAP_PERIODS

#: Values beyond this are damage.
_DRAWABLE = 1e15


class Rhythm(NamedTuple):
    """How regular the samples of a sensor are.

    Attributes:
        period: median interval, s.
        rate: samples a second, lost ones counted: the slope of the straight line through the times.
        p95, largest: distance of intervals, gaps left out, from the median, s.
        jitter: standard deviation of the times about a straight line through them, lost samples counted, s.
        gaps: f8, (gap, 2): the times before and after each gap.
        lost: samples that would fill the gaps.
    """

    period: float
    rate: float
    p95: float
    largest: float
    jitter: float
    gaps: np.ndarray
    lost: int


def rhythm(ts: np.ndarray) -> Rhythm | None:
    """The rhythm of rising times, f8 (sample,), s; None when there are fewer than three."""
    if len(ts) < 3:
        return None
    steps = np.diff(ts)
    period = float(np.median(steps))
    if period <= 0:
        return None
    gap = gaps_in(steps)
    whole = steps[~gap]
    away = np.abs(whole - period)
    slope, residual = straight_line(places_of(ts), ts)
    return Rhythm(
        period=period,
        rate=1 / slope,
        p95=float(np.percentile(away, 95)),
        largest=float(away.max()),
        jitter=float(residual.std()),
        gaps=np.column_stack([ts[:-1][gap], ts[1:][gap]]),
        lost=int(np.round(steps[gap] / period - 1).sum()),
    )


def gaps_in(steps: np.ndarray) -> np.ndarray:
    """Which intervals, f8 (interval,), s, lost a sample, bool (interval,).

    None of a sensor that keeps no rate: half of its intervals would have to be alike.
    """
    if not len(steps):
        return np.zeros(0, bool)
    low, period, high = np.percentile(steps, (25, 50, 75))
    return steps > GAP_PERIODS * period if high - low < 0.5 * period else np.zeros(len(steps), bool)


def places_of(ts: np.ndarray) -> np.ndarray:
    """Where samples stand in an unbroken row, whole numbers as f8, (sample,): a gap takes the places that it lost."""
    steps = np.diff(ts)
    period = float(np.median(steps)) if len(steps) else 0.0
    if period <= 0:
        return np.arange(len(ts), dtype="f8")
    return np.concatenate([[0], np.cumsum(np.where(gaps_in(steps), np.round(steps / period), 1))])


def straight_line(places: np.ndarray, ts: np.ndarray) -> tuple[float, np.ndarray]:
    """Slope of the straight line through times by least squares, s a place, and the distances from it, s."""
    x, y = places - places.mean(), ts - ts.mean()
    slope = float(x @ y) / float(x @ x)
    return slope, y - slope * x


class Spells(NamedTuple):
    """What a sensor did, as intervals of time in order, f8 (spell, 2), s.

    Attributes:
        period: median interval between samples.
        running: the one between its first sample and the period after its last; none without a sample.
        invalid: of samples with `valid` = 0, each standing for the time to the next one, a period at most.
        missing: where lost samples should have been.
    """

    period: float
    running: np.ndarray
    invalid: np.ndarray
    missing: np.ndarray


def spells(ts: np.ndarray, valid: np.ndarray) -> Spells:
    """What a sensor did. Rising times, f8 (sample,), s; valid: u1, (sample,)."""
    steps = np.diff(ts)
    period = float(np.median(steps)) if len(steps) else 0.0
    until = np.append(ts[1:], ts[-1:] + period)
    gap = np.append(gaps_in(steps), np.zeros(len(ts) - len(steps), bool))
    # A sample stands for the period after it: the gap begins where the lost sample should have been.
    ends = np.where(gap, ts + period, until)
    bad = valid == 0
    return Spells(
        period=period,
        running=np.column_stack([ts[:1], until[-1:]]),
        invalid=np.column_stack([ts[bad], ends[bad]]),
        missing=np.column_stack([ends[gap], until[gap]]),
    )


def shares(found: np.ndarray, span: tuple[float, float], parts: int) -> np.ndarray:
    """Share that spells, in order and apart, f8 (spell, 2), s, have of each of equal parts of a span, f8 (part,)."""
    edges = np.linspace(*span, parts + 1)
    if not len(found):
        return np.zeros(parts)
    lengths = found[:, 1] - found[:, 0]
    before = np.cumsum(lengths)
    total = np.interp(edges, found.reshape(-1), np.column_stack([before - lengths, before]).reshape(-1))
    return np.diff(total) / np.maximum(np.diff(edges), 1e-300)


def runs(values: np.ndarray) -> list[tuple[int, int, float]]:
    """Stretches of equal values other than 0: first, end and value of each."""
    edges = np.flatnonzero(np.diff(values, prepend=np.nan, append=np.nan) != 0)
    return [(int(low), int(high), float(values[low])) for low, high in pairwise(edges) if values[low]]


def drawable(values: np.ndarray) -> np.ndarray:
    """Values as f8 with NaN for what no axis can be drawn for: not finite, or damaged beyond measure."""
    found = values.astype("f8")
    return np.where(np.abs(np.where(np.isfinite(found), found, np.inf)) < _DRAWABLE, found, np.nan)


def thin(x: np.ndarray, y: np.ndarray, parts: int) -> tuple[np.ndarray, np.ndarray]:
    """A curve with at most two points for each of `parts` stretches, the lowest and the highest, in their order.

    Args:
        x: rising, f8 (sample,); y: f8 (sample,). NaN breaks the curve and stays a break.
    """
    if len(x) <= 2 * parts:
        return x, y
    chosen: list[int] = []
    for block in np.array_split(np.arange(len(x)), parts):
        finite = block[np.isfinite(y[block])]
        if len(finite) < len(block):  # the break is kept where it was
            chosen.append(int(block[~np.isfinite(y[block])][0]))
        if len(finite):
            chosen += [int(finite[np.argmin(y[finite])]), int(finite[np.argmax(y[finite])])]
    keep = np.unique(chosen)
    return x[keep], y[keep]
