"""A recording with missing sweeps is split into segments."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rover_pipeline.odometry.segments import split, without_overlap


@st.composite
def stamps(draw: st.DrawFn) -> np.ndarray:
    """Sweeps at 10 Hz, some of which are missing."""
    count = draw(st.integers(1, 400))
    kept = np.ones(count, bool)
    for first, length in draw(st.lists(st.tuples(st.integers(1, count), st.integers(1, 120)), max_size=4)):
        kept[first : first + length] = False
    return 0.1 * np.flatnonzero(kept)


@given(ts=stamps(), length=st.floats(0.5, 60), fraction=st.floats(0.01, 0.5))
def test_segments_overlap_with_their_neighbours_only_and_miss_no_frame(
    ts: np.ndarray, length: float, fraction: float
) -> None:
    segments = split(ts, length, fraction * length)
    assert segments[0][0] == 0 and segments[-1][1] == len(ts)
    assert all(before[0] < after[0] < before[1] for before, after in itertools.pairwise(segments))
    assert all(before[1] <= after[0] for before, after in zip(segments, segments[2:], strict=False))
    own = without_overlap(segments)
    assert all(start < stop for start, stop in own)
    assert [frame for start, stop in own for frame in range(start, stop)] == list(range(len(ts)))
    assert all(whole[0] <= start and stop <= whole[1] for whole, (start, stop) in zip(segments, own, strict=True))


def test_two_segments_are_equally_long() -> None:
    (first, last), (second, end) = split(np.arange(1200) / 10, 60, 2)
    assert abs((last - first) - (end - second)) <= 1 and last - second == 20
