"""How a recording is split into segments that overlap."""

from __future__ import annotations

import itertools

import numpy as np


def split(ts: np.ndarray, length: float, overlap: float) -> list[tuple[int, int]]:
    """First frame, and one after the last, of equally long segments of which neighbours overlap.

    Args:
        ts: f8 (N,), seconds.
        length, overlap: seconds.
    """
    span = float(ts[-1] - ts[0])
    count = max(1, round(span / length))
    edges = ts[0] + span * np.arange(1, count) / count
    starts = [0]
    for start in np.searchsorted(ts, edges - overlap / 2):
        # Where many sweeps are missing, a segment would consist of its overlaps only.
        if ts[start] - ts[starts[-1]] >= overlap:
            starts.append(int(start))
    stops = np.append(np.searchsorted(ts, ts[starts[1:]] + overlap), len(ts))
    return [(start, int(stop)) for start, stop in zip(starts, stops, strict=True)]


def without_overlap(segments: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The segments cut in the middle of their overlaps, so that each frame is in one of them."""
    edges = [(before[1] + after[0]) // 2 for before, after in itertools.pairwise(segments)]
    return list(zip([segments[0][0], *edges], [*edges, segments[-1][1]], strict=True))
