"""What users try first, a simulated recording and a capture of one sweep: the page is good, or warnings are true."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from rover_pipeline.importers.ouster import import_ouster
from rover_pipeline.report.summary import Summary
from rover_pipeline.report.templating import REPORT, SUMMARY
from rover_pipeline.simulate.presets import PRESETS
from rover_pipeline.simulate.record import simulate
from tests.kit import WHOLE, environment

pytestmark = pytest.mark.system

#: Seconds of a preset: a walk needs some before its poses can be told from standing still.
_SECONDS = 2.5
#: Warnings that are true of an undamaged simulated recording, `place: text`, and why.
_TRUE = {
    # The rig is faster than the chirps of the preset can tell apart, as real rigs are.
    r"radar: is faster than its maximum Doppler.*": "bike, tunnel",
}


def processed(trace: Path, here: Path) -> tuple[Summary, subprocess.CompletedProcess[str]]:
    """The figures of the page after a run with all defaults."""
    here.mkdir()
    command = [sys.executable, "-m", "rover_pipeline", "run", str(trace)]
    done = subprocess.run(command, cwd=here, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert list(here.iterdir()) == [], "nothing appears where the command was typed"
    return Summary.model_validate_json((trace / REPORT / SUMMARY).read_text()), done


@pytest.mark.parametrize("preset", [*PRESETS] if WHOLE else ["tiny"])
def test_an_undamaged_recording_is_good_or_every_warning_is_true(preset: str, tmp_path: Path) -> None:
    small = {"lidar": "OS-0-32", "columns": 512, "width": 256, "height": 144, "camera_rate": 10.0}
    simulate(tmp_path / "rec", preset=PRESETS[preset].model_copy(update=small), duration=_SECONDS)
    summary, _ = processed(tmp_path / "rec", tmp_path / "here")
    told = [f"{each.place}: {each.text}" for each in summary.findings if each.severity != "note"]
    assert [each for each in told if not any(re.fullmatch(pattern, each) for pattern in _TRUE)] == []


def test_a_capture_of_one_sweep_is_processed_with_defaults_and_nothing_is_wrong(captures: Path, tmp_path: Path) -> None:
    import_ouster(captures / "ouster" / "OS-0-32-U1_v2.2.0_1024x10.pcap", tmp_path / "rec", None)
    summary, done = processed(tmp_path / "rec", tmp_path / "here")
    assert (summary.verdict, {each.severity for each in summary.findings}) == ("good", {"note"})
    assert "Error" not in done.stderr and "ValueError" not in summary.model_dump_json()
