"""Radar products are made in one pass over the raw bytes, and are asked for, remade and fail one by one."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from rover_pipeline.engine.passes import PASSES_VARIABLE, marker_file, outcome, taken_over
from rover_pipeline.errors import RoverError
from rover_pipeline.format.sensor import Sensor
from tests.kit import small_trace
from tests.workflow.runs import result_bytes, snakemake

RADAR = "radar_range_doppler,radar_range_azimuth,radar_points,radar_velocity"
FRAMES = 30
#: Counts what every process of a run reads of `radar/iq`, whatever it is.
COUNTING = """
import os
_preadv = os.preadv
def preadv(descriptor, buffers, offset, *rest):
    count = _preadv(descriptor, buffers, offset, *rest)
    if os.readlink(f"/proc/self/fd/{descriptor}").endswith("/radar/iq"):
        with open(os.environ["READ_LOG"], "a") as log:
            log.write(f"{count}\\n")
    return count
os.preadv = preadv
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a run has made radar outputs of the recording `one`, and counted what it read."""
    folder = tmp_path_factory.mktemp("finished")
    small_trace(folder / "one", FRAMES, sensors=["radar"])
    (folder / "counting").mkdir()
    (folder / "counting" / "sitecustomize.py").write_text(COUNTING)
    path = f"{folder / 'counting'}:{Path(__file__).parents[2]}"
    done = snakemake(
        folder, folder / "one", config={"outputs": RADAR}, env={"PYTHONPATH": path, "READ_LOG": str(folder / "read")}
    )
    assert done.returncode == 0, done.stderr
    return folder


def rules(run: subprocess.CompletedProcess[str]) -> set[str]:
    """Rules that a run, or a dry run, has jobs of."""
    lines = (run.stdout + run.stderr).split("Job stats:")[1].split("total")[0].splitlines()[3:]
    return {line.split()[0] for line in lines if line.strip()} - {"all"}


@pytest.mark.system
def test_a_run_reads_each_raw_byte_once_for_all_radar_outputs(finished: Path) -> None:
    read = sum(map(int, (finished / "read").read_text().split()))
    frames = read / (finished / "one" / "radar" / "iq").stat().st_size * FRAMES
    assert FRAMES <= frames <= FRAMES + 21, "each step looks at 21 frames before the work"
    for name in RADAR.split(","):
        assert Sensor(finished / "one" / f"_{name}").length() == FRAMES
    assert not list((finished / ".snakemake" / "passes").iterdir())


@pytest.mark.system
def test_what_a_pass_made_is_up_to_date_and_one_changed_option_remakes_one_output(
    finished: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(finished, folder)
    trace = folder / "one"
    again = snakemake(finished, finished / "one", config={"outputs": RADAR})
    assert "Nothing to be done" in again.stderr
    before = result_bytes(trace)
    changed = {"outputs": RADAR, "radar": {"points": {"threshold_db": 9.0}}}
    planned = snakemake(folder, trace, "--dry-run", config=changed)
    assert rules(planned) == {"radar_points", "radar_velocity"}, "made alone, and what follows from it"
    forced = snakemake(folder, trace, "--forceall", config={"outputs": RADAR})
    assert forced.returncode == 0 and "radar_pass" in rules(forced), forced.stderr
    assert result_bytes(trace) == before
    until = snakemake(folder, trace, "--until", "radar_points", "--forceall", config={"outputs": RADAR})
    assert until.returncode == 0, until.stderr
    assert rules(until) == {"radar_pass", "radar_points"}


@pytest.mark.system
def test_an_output_that_fails_keeps_back_only_what_follows_from_it(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "one", 6, sensors=["radar"])
    config = {"outputs": RADAR, "radar": {"range_azimuth": {"azimuth_bins": 1}}}
    failed = snakemake(tmp_path, trace, config=config)
    assert failed.returncode == 1
    made = sorted(path.name for path in trace.glob("_*"))
    assert made == ["_radar_points", "_radar_range_doppler", "_radar_velocity"]
    rows = [line for line in failed.stderr.splitlines() if "azimuth bins are fewer" in line]
    assert rows and all("_radar_range_azimuth" in line or "range_azimuth" in line for line in rows)
    config["radar"] = {}
    mended = snakemake(tmp_path, trace, config=config)
    assert mended.returncode == 0, mended.stderr
    assert rules(mended) == {"radar_range_azimuth"}


@pytest.mark.parametrize("change", ["", "other result", "no stamp listed", "a file is missing"])
def test_a_stamp_is_put_back_on_the_result_of_the_pass_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    folder, result = tmp_path / "passes", tmp_path / "one" / "_radar_points"
    result.mkdir(parents=True)
    (result / "count").touch()
    provenance = {"made_by": "rover_pipeline", "samples": 3, "invalid": 1, "time": {"seconds": 1.5}}
    provenance["files"] = [".options-1", "count"] if change != "no stamp listed" else ["count"]
    (result / "provenance.json").write_text(json.dumps(provenance))
    marker = Path(marker_file(folder, "radar", str(result.parent)))
    marker.parent.mkdir(parents=True)
    marker.write_text(json.dumps(outcome({"_radar_points": result}, {"_bad": ("why", False), "_full": ("disk", True)})))
    monkeypatch.setenv(PASSES_VARIABLE, str(folder))
    if change == "other result":
        (result / "provenance.json").write_text(json.dumps({**provenance, "time": {"seconds": 2.0}}))
    if change == "a file is missing":
        (result / "count").unlink()
    made = taken_over(result.parent, [result / ".options-1"])
    assert (result / ".options-1").exists() == (made is not None) == (not change)
    assert made is None or made == (3, 1)
    with pytest.raises(RoverError, match="why"):
        taken_over(result.parent, [result.parent / "_bad" / ".options-1"])
    assert taken_over(result.parent, [result.parent / "_full" / ".options-1"]) is None, "it is tried again"
    monkeypatch.delenv(PASSES_VARIABLE)
    assert taken_over(result.parent, [result / ".options-1"]) is None
