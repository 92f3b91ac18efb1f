"""How a recording falls into parts, whatever is missing from it."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rover_pipeline.odometry.segments import split, without_overlap


@st.composite
def stamps(draw: st.DrawFn) -> np.ndarray:
    """Sweeps at 10 Hz, of which some runs are missing."""
    count = draw(st.integers(1, 400))
    kept = np.ones(count, bool)
    for first, length in draw(st.lists(st.tuples(st.integers(1, count), st.integers(1, 120)), max_size=4)):
        kept[first : first + length] = False
    return 0.1 * np.flatnonzero(kept)


@given(ts=stamps(), length=st.floats(0.5, 60), share=st.floats(0.01, 0.5))
def test_parts_share_frames_with_their_neighbours_only_and_miss_none(
    ts: np.ndarray, length: float, share: float
) -> None:
    parts = split(ts, length, share * length)
    assert parts[0][0] == 0 and parts[-1][1] == len(ts)
    assert all(before[0] < after[0] < before[1] for before, after in itertools.pairwise(parts))
    assert all(before[1] <= after[0] for before, after in zip(parts, parts[2:], strict=False))
    own = without_overlap(parts)
    assert all(start < stop for start, stop in own)
    assert [frame for start, stop in own for frame in range(start, stop)] == list(range(len(ts)))
    assert all(part[0] <= start and stop <= part[1] for part, (start, stop) in zip(parts, own, strict=True))


def test_two_parts_are_equally_long() -> None:
    (first, last), (second, end) = split(np.arange(1200) / 10, 60, 2)
    assert abs((last - first) - (end - second)) <= 1 and last - second == 20
