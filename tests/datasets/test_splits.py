"""Splits: whole blocks, gaps between them, shares as asked for, and the same choice every time."""

from __future__ import annotations

import numpy as np
import pytest

from rover_pipeline.datasets.options import SplitOptions
from rover_pipeline.datasets.splits import NO_SPLIT, Course, assign
from rover_pipeline.errors import FormatError


def course(name: str, seconds: float, rate_hz: float = 10.0, start: float = 1.7e9) -> Course:
    ts = start + np.arange(round(seconds * rate_hz)) / rate_hz
    # A walk along a square of 60 m, round and round.
    along = (ts - start) * 1.5 % 240
    x = np.interp(along, [0, 60, 120, 180, 240], [0, 60, 60, 0, 0])
    y = np.interp(along, [0, 60, 120, 180, 240], [0, 0, 60, 60, 0])
    return Course(name, ts, np.stack([x, y, 0 * x], 1))


COURSES = [course("a", 600), course("b", 333.3), course("c", 47.0)]


@pytest.mark.parametrize("by", ["time", "recording", "place"])
def test_the_same_seed_gives_the_same_splits_in_any_order_and_another_seed_others(by: str) -> None:
    options = SplitOptions.model_validate({"by": by})
    first, again = assign(COURSES, options), assign(COURSES[::-1], options)[::-1]
    assert all(np.array_equal(one, other) for one, other in zip(first, again, strict=True))
    seeds = [assign(COURSES, SplitOptions.model_validate({"by": by, "seed": seed})) for seed in range(6)]
    assert any(not np.array_equal(np.concatenate(first), np.concatenate(other)) for other in seeds)


@pytest.mark.parametrize("by", ["time", "place"])
def test_shares_are_those_that_were_asked_for(by: str) -> None:
    options = SplitOptions.model_validate({"by": by, "gap_s": 0, "gap_m": 0, "block_s": 10})
    splits = np.concatenate(assign(COURSES, options))
    shares = [(splits == code).mean() for code in range(3)]
    assert np.abs(np.array(shares) - [0.7, 0.15, 0.15]).max() < 0.03 if by == "time" else min(shares) > 0.05
    assert (splits != NO_SPLIT).all()


@pytest.mark.parametrize("gap_s", [0.05, 2.0, 15.0])
def test_samples_of_two_splits_are_never_nearer_in_time_than_the_gap(gap_s: float) -> None:
    options = SplitOptions(gap_s=gap_s, block_s=10)
    for each, splits in zip(COURSES, assign(COURSES, options), strict=True):
        for code in range(3):
            own, others = each.ts[splits == code], each.ts[(splits != code) & (splits != NO_SPLIT)]
            if len(own) and len(others):
                assert np.abs(own[:, None] - others).min() >= gap_s - 1e-6
    assert {*np.concatenate(assign(COURSES, options)).tolist()} >= ({0, 1, 2} if gap_s < 10 else {0})


def test_samples_of_two_splits_are_never_nearer_in_space_than_the_gap_even_when_a_place_is_seen_again() -> None:
    options = SplitOptions(by="place", gap_m=3.0, cell_m=20)
    for each, splits in zip(COURSES, assign(COURSES, options), strict=True):
        assert each.pos is not None
        for code in range(3):
            own = each.pos[splits == code][::3, :2]
            others = each.pos[(splits != code) & (splits != NO_SPLIT)][::3, :2]
            if len(own) and len(others):
                assert np.linalg.norm(own[:, None] - others, axis=-1).min() >= 3.0 - 1e-9


def test_a_recording_is_never_divided_when_recordings_are_split() -> None:
    courses = [course(str(number), 30) for number in range(20)]
    splits = assign(courses, SplitOptions(by="recording"))
    assert all(len(set(each.tolist())) == 1 for each in splits)
    counts = np.bincount([each[0] for each in splits], minlength=3)
    assert counts.tolist() == [14, 3, 3]


def test_samples_of_two_sensors_of_a_recording_at_the_same_time_have_the_same_split() -> None:
    options = SplitOptions(block_s=5.0, gap_s=1.0)
    first, second = course("walk", 100.0), course("walk", 100.0, rate_hz=7.0, start=1.7e9 + 0.3)
    splits, others = assign([first, second], options)
    nearest = np.abs(first.ts[:, None] - second.ts).argmin(0)
    known = (splits[nearest] != NO_SPLIT) & (others != NO_SPLIT)
    assert known.mean() > 0.6 and len(set(others[known].tolist())) == 3
    assert np.array_equal(splits[nearest][known], others[known])
    assert np.array_equal(splits, assign([first], options)[0]), "a further sensor changes no split"


def test_no_sample_without_a_position_is_split_by_place() -> None:
    unknown = COURSES[0]._replace(pos=None)
    with pytest.raises(FormatError, match="a: has no positions"):
        assign([unknown], SplitOptions(by="place"))
    assert COURSES[0].pos is not None
    pos = COURSES[0].pos.copy()
    pos[5] = np.nan
    assert assign([COURSES[0]._replace(pos=pos)], SplitOptions(by="place"))[0][5] == NO_SPLIT
