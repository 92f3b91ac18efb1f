"""A result is made again exactly when it is not what the workflow would make now, and until then it stays."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.errors import FormatError, RoverError
from rover_pipeline.format.provenance import PROVENANCE
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.format.trace import new_trace
from rover_pipeline.importers.points import Cloud, PointsWriter
from rover_pipeline.table import find_step
from rover_pipeline.validation.check import problems
from rover_pipeline.workflow.needs import untrue
from tests.kit import small_trace, snapshot
from tests.workflow.runs import snakemake

pytestmark = pytest.mark.system

NAME = "_radar_range_doppler"
STAMP = ".options-0"
STEP = find_step(NAME)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A recording with a result."""
    trace = small_trace(tmp_path / "rec")
    run_step(find_step(NAME), trace, NAME, Request(), stamps=(STAMP,))
    return trace


def older(path: Path, data: bytes) -> None:
    """Replace a file by one that was last changed a day before."""
    status = path.stat()
    path.write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns - 86_400 * 10**9))


def flipped(path: Path) -> bytes:
    return bytes(np.frombuffer(path.read_bytes(), "u1") ^ 1)


def edited(trace: Path, name: str = NAME, **changes: object) -> None:
    path = trace / name / PROVENANCE
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "an input with older time": (lambda t: older(t / "radar/iq", flipped(t / "radar/iq")), "radar/iq has changed"),
    "a sidecar": (lambda t: (t / "radar/radar.json").write_text("{}"), "radar/radar.json has changed"),
    "an older version of the step": (lambda t: edited(t, version=1), f"it was made by version 1 of {STEP.name}"),
    "another step": (lambda t: edited(t, step="my.module:f"), f"it was made by version {STEP.version} of my.module:f"),
    "a removed channel": (lambda t: (t / NAME / "power").unlink(), "power is missing"),
    "a provenance of before": (lambda t: edited(t, time={}), f"its {PROVENANCE} does not say what it was made from"),
    "a damaged provenance": (lambda t: edited(t, inputs=[1]), f"its {PROVENANCE} does not say what it was made from"),
}


@pytest.mark.parametrize(("change", "reason"), CHANGES.values(), ids=CHANGES)
def test_a_stamp_is_untrue_when_what_it_vouches_for_has_changed(
    change: Callable[[Path], object], reason: str, trace: Path
) -> None:
    assert untrue(trace / NAME / STAMP, STEP, trace) == ""
    change(trace)
    assert untrue(trace / NAME / STAMP, STEP, trace) == reason


def test_a_stamp_stays_true_in_a_copy_whose_files_have_new_times_and_where_raw_sensors_were_archived(
    trace: Path,
) -> None:
    copy = shutil.copytree(trace, trace.with_name("copy"), copy_function=shutil.copyfile)
    assert untrue(copy / NAME / STAMP, STEP, copy) == ""
    shutil.rmtree(copy / "radar")
    assert untrue(copy / NAME / STAMP, STEP, copy) == ""


def test_results_of_a_lidar_that_is_points_are_not_made_again_and_an_older_version_of_them_is(tmp_path: Path) -> None:
    with new_trace(tmp_path / "points") as folder:
        (folder / "config.yaml").touch()
        with PointsWriter(folder / "lidar") as writer:
            for n, sweep in enumerate(np.random.default_rng(0).normal(0, 9, (3, 50, 3))):
                writer.append(0.1 * n, Cloud(sweep))
    trace, outputs = tmp_path / "points", {"outputs": "lidar_points"}
    assert snakemake(tmp_path, trace, config=outputs).returncode == 0
    again = snakemake(tmp_path, trace, config=outputs)
    assert "is made again" not in again.stderr and "Nothing to be done" in again.stdout + again.stderr
    edited(trace, "_lidar_points", version=1)
    assert any("was made by version 1 of its step" in line for line in problems(trace))
    assert "is made again, for it was made by version 1" in snakemake(tmp_path, trace, config=outputs).stderr


def test_a_provenance_that_cannot_be_read_now_is_an_error_and_not_a_result_of_others(
    trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def failing(path: object, *arguments: int, **more: int) -> int:
        if str(path).endswith(PROVENANCE):
            raise OSError(5, "Input/output error")
        return real(path, *arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", failing)
    with pytest.raises(FormatError, match=f"{trace / NAME / PROVENANCE}: cannot be read: Input/output error"):
        untrue(trace / NAME / STAMP, STEP, trace)
    with pytest.raises(RoverError, match="cannot be read: Input/output error"):
        run_step(find_step(NAME), trace, NAME, Request({"range_window": "none"}), stamps=(".options-1",))


def test_an_older_result_outlives_a_failed_job_and_is_made_again_from_changed_input_and_braces_are_refused(
    tmp_path: Path,
) -> None:
    trace = small_trace(tmp_path / "all" / "a { b $c 'd e")
    bad = small_trace(tmp_path / "all" / "ba{d}")
    shutil.copytree(trace / "lidar", trace / "lid{a}r")
    outputs = {"outputs": "radar_range_azimuth"}
    result = trace / "_radar_range_azimuth"
    first = snakemake(tmp_path, tmp_path / "all", config=outputs)
    assert first.returncode != 0 and "Traceback" not in first.stderr
    assert f"not done:\n  {bad}: has a name in braces in its path" in first.stderr
    assert Sensor(result).length() == 6
    whole = snapshot(result)
    failed = snakemake(tmp_path, trace, config={**outputs, "radar": {"board": "AWR2944"}})
    assert failed.returncode != 0 and "Traceback" not in failed.stderr
    assert snapshot(result) == whole

    older(trace / "radar/iq", flipped(trace / "radar/iq"))
    again = snakemake(tmp_path, trace, config=outputs)
    assert again.returncode == 0, again.stderr
    assert f"{result}: is made again, for radar/iq has changed" in again.stderr
    assert Sensor(result).channel("power").read().tobytes() != whole["power"]
