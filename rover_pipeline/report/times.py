"""What the times of a sensor tell: rate, gaps, jitter, and a picture of them with a bounded number of parts."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from rover_pipeline.info import GAP_PERIODS

#: What a stretch of a timeline shows; of several in one stretch the last of these.
RUNNING, INVALID, GAP = 1, 2, 3


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
    gap = steps > GAP_PERIODS * period
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


def places_of(ts: np.ndarray) -> np.ndarray:
    """Where samples stand in an unbroken row, whole numbers as f8, (sample,): a gap takes the places that it lost."""
    steps = np.diff(ts)
    period = float(np.median(steps)) if len(steps) else 0.0
    if period <= 0:
        return np.arange(len(ts), dtype="f8")
    return np.concatenate([[0], np.cumsum(np.where(steps > GAP_PERIODS * period, np.round(steps / period), 1))])


def straight_line(places: np.ndarray, ts: np.ndarray) -> tuple[float, np.ndarray]:
    """Slope of the straight line through times by least squares, s a place, and the distances from it, s."""
    x, y = places - places.mean(), ts - ts.mean()
    slope = float(x @ y) / float(x @ x)
    return slope, y - slope * x


def stretches(
    ts: np.ndarray, valid: np.ndarray, span: tuple[float, float], bins: int
) -> list[tuple[float, float, int]]:
    """A timeline of at most `bins` parts: (begin, end, what), what being RUNNING, INVALID or GAP.

    Args:
        ts: rising times, f8 (sample,), s; valid: u1, (sample,).
        span: begin and end of the picture, s.
        bins: the finest detail shown, as a number of equal parts of the span.

    Returns:
        Stretches in order, relative to the begin of the span, s. Nothing before the first sample or after the last.
        A gap or an invalid sample is never too short to be seen: it fills its part.
    """
    begin, end = span
    if not len(ts) or end <= begin:
        return []
    width = (end - begin) / bins
    steps = np.diff(ts)
    period = float(np.median(steps)) if len(steps) else 0.0

    def part(times: np.ndarray) -> np.ndarray:
        return np.clip(((times - begin) / width).astype(int), 0, bins - 1)

    kinds = np.zeros(bins, int)
    first, last = part(ts[[0, -1]])
    kinds[first : last + 1] = RUNNING
    bad = ts[valid == 0]
    kinds[_covered(part(bad), part(bad + period), bins)] = INVALID
    gap = np.flatnonzero(steps > GAP_PERIODS * period)
    # A sample stands for the period after it: the gap begins where the lost sample should have been.
    kinds[_covered(part(ts[gap] + period), part(ts[gap + 1]), bins)] = GAP
    edges = np.flatnonzero(np.diff(kinds, prepend=-1, append=-1))
    found = [(low * width, high * width, int(kinds[low])) for low, high in pairwise(edges)]
    return [each for each in found if each[2]]


def _covered(low: np.ndarray, high: np.ndarray, bins: int) -> np.ndarray:
    """Which of the parts lie in one of the ranges `low:high`, the first part of each always. Returns bool, (bins,)."""
    change = np.zeros(bins + 1, int)
    np.add.at(change, low, 1)
    np.add.at(change, np.maximum(low + 1, high), -1)
    return np.cumsum(change)[:bins] > 0


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
