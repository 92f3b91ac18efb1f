"""A small seeded choice of the fuzz campaign and of the bombs; the whole is `python -m tests.campaign fuzz | bombs`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.campaign import fuzz
from tests.campaign.bombs import BOMBS, explode


def test_a_choice_of_mutants_is_refused_in_one_line_or_gives_the_undisturbed_result() -> None:
    tally = fuzz.campaign(60, seed=20)
    assert not tally.findings, fuzz.report(tally)
    assert sum(tally.counts.values()) == 60


@pytest.mark.parametrize("name", ["a named pipe as lidar/rng_i"])
def test_a_bomb_is_refused_in_one_line_with_little_memory(name: str, tmp_path: Path) -> None:
    outcomes = explode(BOMBS[name], tmp_path)
    assert [done for _, done in outcomes if done.problem] == []
    assert {command: done.status for command, done in outcomes if command != "info"} == {
        "check": 1,
        "step _lidar_image": 1,
    }
