"""What a command has made is still there after a power cut, and what a killed one has left goes with the next."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.engine.plan import Plan, Planned
from rover_pipeline.export.output import new_output
from rover_pipeline.format.attempt import PARTIAL, Attempt, remove_left
from rover_pipeline.format.failures import record_failure, write_memory
from rover_pipeline.format.provenance import PROVENANCE
from rover_pipeline.format.trace import link_trace
from rover_pipeline.table import find_step
from rover_pipeline.validation.check import problems
from rover_pipeline.workflow.flow import Flow
from tests.kit import STAMP, environment, small_trace, snapshot

NAME = "_radar_times"


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Paths of files and folders, in the order in which they are synced."""
    found: list[Path] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        found.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    return found


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A recording with a result."""
    path = small_trace(tmp_path / "rec", 2, sensors=("radar",))
    run_step(find_step(NAME), path, NAME, Request(), stamps=(STAMP,))
    return path


def _output(path: Path, _: Path) -> None:
    with new_output(path) as scratch:
        scratch.write_bytes(b"1")


@pytest.mark.parametrize(
    "make",
    [
        _output,
        lambda path, _: write_memory(path.parent, {"a": 1}),
        lambda path, trace: link_trace(trace, path.parent),
        lambda path, _: small_trace(path, 2, sensors=("imu",)),
    ],
)
def test_the_names_of_new_folders_are_on_the_disk(
    make: Callable[[Path, Path], object], trace: Path, tmp_path: Path, synced: list[Path]
) -> None:
    make(tmp_path / "new" / "deeper" / "out", trace)
    assert {tmp_path, tmp_path / "new"} <= set(synced)


def test_the_folder_of_reasons_and_a_stamp_that_is_put_back_are_on_the_disk(trace: Path, synced: list[Path]) -> None:
    record_failure(trace, "_odom", "for a reason", may_pass=False)
    assert synced[-1] == trace
    stamp = trace / NAME / STAMP
    stamp.unlink()
    made = json.loads((trace / NAME / PROVENANCE).read_text())
    identity = {"step": made["step"]}
    planned = Planned(NAME, STAMP, "{}", made["version"], str(trace), identity, None, (), "", False)
    assert Plan(trace, 0.0, {NAME: planned}).is_made(NAME, confirm=True)
    assert stamp.exists() and synced[-1] == trace / NAME


def test_no_reason_is_kept_for_a_recording_that_is_gone(tmp_path: Path) -> None:
    record_failure(tmp_path / "gone", "_odom", "for a reason", may_pass=False)
    assert list(tmp_path.iterdir()) == []


def _kill_after_the_exchange(trace: Path) -> Path:
    """The older result is in the scratch folder of a killed run, with a file that somebody else has put there."""
    left = trace / PARTIAL / f"{NAME}.1-0123456789abcdef"
    shutil.copytree(trace / NAME, left)
    (left / "notes").write_text("mine")
    return left


def test_what_a_killed_run_has_left_of_a_whole_result_goes_when_the_same_command_runs_again(trace: Path) -> None:
    before = snapshot(trace / NAME)
    _kill_after_the_exchange(trace)
    assert any("is unfinished" in line for line in problems(trace))
    flow = Flow({"traces": str(trace), "outputs": NAME[1:]})
    flow.targets([SimpleNamespace(input=[flow.needs(NAME)], output=flow.makes(NAME))])
    assert list(problems(trace)) == [] and not (trace / PARTIAL).exists()
    assert snapshot(trace / NAME) == before | {"notes": b"mine"}


def test_an_empty_scratch_folder_and_a_lock_that_nobody_holds_go_when_the_same_command_runs_again(trace: Path) -> None:
    for lock in (False, True):
        (trace / PARTIAL).mkdir()
        if lock:
            Attempt(trace / NAME).lock.touch()
        remove_left(trace / NAME)
        assert not (trace / PARTIAL).exists()


def test_what_a_run_needs_that_goes_on_stays(trace: Path) -> None:
    left = _kill_after_the_exchange(trace)
    script = f"""
import sys
from pathlib import Path
from rover_pipeline.format.attempt import Attempt
Attempt(Path({str(trace / NAME)!r})).begin(lambda folder: None)
print(flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        remove_left(trace / NAME)
        assert (left / "notes").exists()
    remove_left(trace / NAME)
    assert not left.exists()
