"""A small seeded choice of the campaigns; the whole is `python -m tests.campaign NAME`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.campaign import coverage, folders, fuzz, hostile, stale
from tests.campaign.bombs import BOMBS, explode
from tests.conftest import CHECKOUT
from tests.kit import environment

pytestmark = pytest.mark.system


def test_a_choice_of_mutants_is_refused_in_one_line_or_gives_the_undisturbed_result() -> None:
    tally = fuzz.campaign(60, seed=20)
    assert not tally.findings, fuzz.report(tally)
    assert sum(tally.counts.values()) == 60


@pytest.mark.parametrize("name", ["ros2.db3", "cloud.pcd"])
def test_what_coverage_has_led_to_is_refused_in_one_line_or_imported_whole(name: str) -> None:
    inputs = coverage.corpus(name)
    assert inputs, "the repository has a corpus"
    with coverage.target(name) as made:
        assert made.try_on(made.path.read_bytes()) == ""
        assert {each: problem for each, data in inputs.items() if (problem := made.try_on(data))} == {}


@pytest.mark.parametrize("name", ["a named pipe as lidar/rng_i"])
def test_a_bomb_is_refused_in_one_line_with_little_memory(name: str, tmp_path: Path) -> None:
    outcomes = explode(BOMBS[name], tmp_path)
    assert [done for _, done in outcomes if done.problem] == []
    assert {command: done.status for command, done in outcomes if command != "info"} == {
        "check": 1,
        "step _lidar_image": 1,
    }


def test_nothing_shows_what_was_true_before_a_choice_of_changes() -> None:
    count, findings = stale.campaign(8, seed=5)
    assert count == 8 and findings == []


def test_a_choice_of_folders_of_others_changes_and_runs_nothing_outside_of_the_results() -> None:
    tally = folders.campaign(40, seed=5)
    assert not tally.findings, fuzz.report(tally)
    assert sum(tally.counts.values()) == 40


def test_a_call_of_every_kind_that_fails_leaves_the_older_result_or_the_new_one() -> None:
    if not shutil.which("cc"):
        assert not os.environ.get("CI"), "the fault campaign needs a C compiler, cc"
        pytest.skip("no C compiler, cc")
    command = [sys.executable, "-m", "tests.campaign", "faults", "--share", "0.01", "_imu_times"]
    done = subprocess.run(command, cwd=CHECKOUT, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " points, 0 wrong" in done.stdout.splitlines()[-1]


def test_no_pose_is_wrong_and_sure_where_the_lidar_repeats_sweeps() -> None:
    verdict, drawn = hostile.play("lidar_stutters", 0, seed=1)
    assert verdict.wrong == 0, f"{drawn}: {verdict}"
    assert verdict.valid > verdict.frames / 3


def test_a_valid_pose_that_is_off_is_wrong_and_sure() -> None:
    count = 40
    times, rot = 0.1 * np.arange(count), np.tile(np.eye(3), (count, 1, 1))
    pos = np.stack([times, 0 * times, 0 * times], 1)
    truth = {"true_ts": times, "pos": pos, "rot": rot}
    made = {"pos": pos.copy(), "rot": rot, "cov": np.tile(1e-4 * np.eye(6), (count, 1, 1)), "valid": np.ones(count)}
    assert hostile.judge(made, truth).wrong == 0
    made["pos"][20:, 1] += 0.2
    assert hostile.judge(made, truth).wrong == 21  # 20 windows of two seconds, and the step itself
    made["valid"][20:] = 0
    verdict = hostile.judge(made, truth)
    assert (verdict.wrong, verdict.valid, verdict.nees) == (0, 20, 0.0)
