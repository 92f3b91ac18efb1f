"""A small seeded choice of the campaigns; the whole is `python -m tests.campaign fuzz | bombs | faults`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.campaign import fuzz
from tests.campaign.bombs import BOMBS, explode
from tests.conftest import CHECKOUT
from tests.kit import environment

pytestmark = pytest.mark.system


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


def test_a_call_of_every_kind_that_fails_leaves_the_older_result_or_the_new_one() -> None:
    if not shutil.which("cc"):
        assert not os.environ.get("CI"), "the fault campaign needs a C compiler, cc"
        pytest.skip("no C compiler, cc")
    command = [sys.executable, "-m", "tests.campaign", "faults", "--share", "0.01", "_imu_times"]
    done = subprocess.run(command, cwd=CHECKOUT, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " points, 0 wrong" in done.stdout.splitlines()[-1]
