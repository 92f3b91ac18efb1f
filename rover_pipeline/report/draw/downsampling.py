"""Curves, intervals and masks reduced to what a picture can resolve, without hiding any extreme or single event."""

from __future__ import annotations

from itertools import pairwise

import numpy as np


def downsample_curve(x: np.ndarray, y: np.ndarray, bins: int) -> tuple[np.ndarray, np.ndarray]:
    """A curve with the minimum and the maximum of each bin, in their order.

    Args:
        x: ascending, f8 (sample,); y: f8 (sample,). NaN interrupts the curve and stays in it.
        bins: number of bins, each with as many samples as the others.
    """
    if len(x) <= 2 * bins:
        return x, y
    chosen: list[int] = []
    for indices in np.array_split(np.arange(len(x)), bins):
        finite = indices[np.isfinite(y[indices])]
        if len(finite) < len(indices):
            chosen.append(int(indices[~np.isfinite(y[indices])][0]))
        if len(finite):
            chosen += [int(finite[np.argmin(y[finite])]), int(finite[np.argmax(y[finite])])]
    keep = np.unique(chosen)
    return x[keep], y[keep]


def share_of_bins(intervals: np.ndarray, span: tuple[float, float], bins: int) -> np.ndarray:
    """Share of each of equally long bins that intervals cover, f8 (bin,).

    Args:
        intervals: ascending, without overlap, f8 (interval, 2), s.
        span: begin of the first bin and end of the last one, s.
    """
    edges = np.linspace(*span, bins + 1)
    if not len(intervals):
        return np.zeros(bins)
    lengths = intervals[:, 1] - intervals[:, 0]
    until = np.cumsum(lengths)
    covered = np.interp(edges, intervals.reshape(-1), np.column_stack([until - lengths, until]).reshape(-1))
    return np.diff(covered) / np.maximum(np.diff(edges), 1e-300)


def nonzero_runs(values: np.ndarray) -> list[tuple[int, int, float]]:
    """Runs of equal values other than 0: first index, end index and value of each."""
    edges = np.flatnonzero(np.diff(values, prepend=np.nan, append=np.nan) != 0)
    return [(int(low), int(high), float(values[low])) for low, high in pairwise(edges) if values[low]]


def downsample_mask(mask: np.ndarray, factor: int) -> np.ndarray:
    """A mask, bool (row, column), by an integer factor: a block is 1 if any of its cells is set. Returns f8."""
    rows, columns = (-(-size // factor) for size in mask.shape)
    padded = np.zeros((rows * factor, columns * factor), bool)
    padded[: mask.shape[0], : mask.shape[1]] = mask
    return padded.reshape(rows, factor, columns, factor).any(axis=(1, 3)).astype("f8")
