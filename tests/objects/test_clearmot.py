"""The score of tracks, on cases that were counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tests.objects.clearmot import clear_mot

A, B = np.array([0.0, 0.0]), np.array([5.0, 0.0])


def test_perfect_tracks_score_one() -> None:
    frames = [({1: A, 2: B}, {7: A, 8: B}, {1, 2})] * 4
    score = clear_mot(frames)
    assert (score.mota, score.motp, score.bodies) == (1.0, 0.0, 8)


def test_misses_false_alarms_and_switches_are_counted_as_by_hand() -> None:
    """Eight places of bodies; one miss, one false alarm and one switch leave 1 - 3 / 8."""
    near = A + np.array([0.4, 0.0])
    frames = [
        ({1: A, 2: B}, {7: near, 8: B}, {1, 2}),
        ({1: A, 2: B}, {7: near}, {1, 2}),  # 2 is missed
        ({1: A, 2: B}, {9: A, 8: B}, {1, 2}),  # 1 switches from 7 to 9
        ({1: A, 2: B}, {9: A, 8: B, 5: A + np.array([2.0, 2.0])}, {1, 2}),  # 5 is a false alarm
    ]
    score = clear_mot(frames)
    assert (score.bodies, score.misses, score.false_alarms, score.switches) == (8, 1, 1, 1)
    assert score.mota == pytest.approx(1 - 3 / 8)
    assert score.motp == pytest.approx(2 * 0.4 / 7)


def test_a_match_is_kept_while_it_holds_although_another_track_is_nearer() -> None:
    frames = [({1: A}, {7: A}, {1}), ({1: A}, {7: A + np.array([0.8, 0.0]), 8: A + np.array([0.1, 0.0])}, {1})]
    score = clear_mot(frames)
    assert (score.switches, score.false_alarms) == (0, 1)


def test_bodies_that_do_not_count_are_neither_missed_nor_false_alarms() -> None:
    frames = [({1: A, 2: B}, {7: A}, {1}), ({1: A, 2: B}, {7: A, 8: B}, {1})]
    score = clear_mot(frames)
    assert (score.bodies, score.misses, score.false_alarms) == (2, 0, 0)


def test_tracks_farther_away_than_the_limit_match_nothing() -> None:
    score = clear_mot([({1: A}, {7: A + np.array([1.2, 0.0])}, {1})], limit=1.0)
    assert (score.misses, score.false_alarms) == (1, 1) and score.mota == -1.0
