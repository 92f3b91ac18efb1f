"""A small choice of the campaign `worlds`: parks, halls and corridors that the project's simulator did not make."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.campaign.worlds import FOLDER, play, read_score

there = pytest.mark.skipif(not (FOLDER / "make.py").exists(), reason=f"no worlds at {FOLDER}: ROVER_PIPELINE_WORLDS")
LINE = (
    "trace: valid 85% ATE 0.31 cm max 0.9 way 10 m scale -0.01 % wrong 3/130 worst 12 cm NEES mean 2.20 median 1.10 | "
    "inl 0.91 res 1.0 cm gyro used depth None"
)


def test_the_figures_of_a_score_are_read() -> None:
    score = read_score(LINE)
    assert score[:6] == (0.85, 0.0031, 3, 130, 0.12, 2.2)
    few = read_score("trace: valid 3%")
    assert few.valid == 0.03 and few.pairs == 0 and math.isnan(few.ate)
    with pytest.raises(ValueError, match="Traceback"):
        read_score("Traceback")


@there
@pytest.mark.system
def test_a_walk_through_a_park_that_others_made_is_known_to_a_centimetre(tmp_path: Path) -> None:
    score = play("park_32", 1, tmp_path, "--frames", "40")
    assert score.wrong == 0 and score.valid > 0.95 and score.ate < 0.01, score.said


@there
@pytest.mark.system
def test_a_lidar_of_16_beams_that_is_under_way_when_the_recording_begins_is_not_lost_in_a_park(tmp_path: Path) -> None:
    score = play("park_16", 1, tmp_path, "--frames", "40")
    assert score.wrong == 0 and score.valid > 0.7 and score.ate < 0.02, score.said


@there
@pytest.mark.system
def test_people_who_walk_along_in_a_corridor_do_not_make_the_lidar_stand(tmp_path: Path) -> None:
    score = play("corridor_128_no_imu", 207, tmp_path)
    assert score.wrong == 0, score.said
