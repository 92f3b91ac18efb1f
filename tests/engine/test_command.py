"""The job of one result, which makes others along with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rover_pipeline.engine import command
from rover_pipeline.engine.command import StepCommand
from rover_pipeline.engine.execute import StepResult
from rover_pipeline.engine.plan import Plan
from rover_pipeline.errors import RoverError
from rover_pipeline.table import find_step


def test_a_stamp_that_snakemake_has_removed_is_no_failure_of_a_result_that_has_its_own_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, other = (
        StepCommand(find_step(name), (tmp_path / name / ".options-0",), '{"options": {}}', None)
        for name in ("_odom", "_imu_pose")
    )
    made: dict[str, Any] = {each.sensor: StepResult(1, 0, 0.1) for each in (own, other)}
    monkeypatch.setattr(command, "run_together", lambda asked, trace, **given: dict(made))
    outcomes = command._Job(own, Plan(tmp_path), find_step, 1, None)._make_stage([own, other])
    assert isinstance(outcomes["_imu_pose"], StepResult)
    assert isinstance(outcomes["_odom"], RoverError) and "did not make it" in str(outcomes["_odom"])
