"""The workflow end to end on one machine, run as users run it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rover_pipeline.format.sensor import Sensor
from tests.kit import small_trace
from tests.workflow.runs import FROM_NOISE, raw_state, result_bytes, snakemake


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    small_trace(tmp_path / "recordings" / "one")
    return tmp_path / "recordings" / "one"


def test_default_outputs_are_made_once_and_the_raw_sensors_stay_as_they_are(trace: Path, tmp_path: Path) -> None:
    before = raw_state(trace)
    first = snakemake(tmp_path, trace, config={"outputs": FROM_NOISE})
    assert first.returncode == 0, first.stderr
    for name in ("_lidar_image", "_radar_range_doppler", "_radar_velocity", "_sync", "_bev"):
        assert Sensor(trace / name).length() > 0
    assert (trace / "_report" / "index.html").exists()
    assert raw_state(trace) == before
    again = snakemake(tmp_path, trace, config={"outputs": FROM_NOISE})
    assert "Nothing to be done" in again.stderr


def test_a_folder_a_glob_and_a_list_name_the_same_traces(trace: Path, tmp_path: Path) -> None:
    shutil.copytree(trace, trace.with_name("two"))
    folder = trace.parent
    for traces in (str(folder), f"{folder}/*", [str(trace), str(trace.with_name("two"))]):
        shown = snakemake(tmp_path, traces, "--dry-run")
        assert re.search(r"^lidar_image +2$", shown.stdout, re.MULTILINE), shown.stdout


def test_changed_options_are_noticed_from_another_folder(trace: Path, tmp_path: Path) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    assert snakemake(tmp_path / "here", trace).returncode == 0
    before = result_bytes(trace)
    changed = {"radar": {"range_doppler": {"range_window": "none"}}}
    second = snakemake(tmp_path / "there", trace, config=changed)
    assert second.returncode == 0, second.stderr
    after = result_bytes(trace)
    assert after["_radar_range_doppler/power"] != before["_radar_range_doppler/power"]
    assert after["_lidar_image/rng"] == before["_lidar_image/rng"]
    assert "Rule: lidar_image" not in second.stderr
    made_with = json.loads((trace / "_radar_range_doppler" / "provenance.json").read_text())
    assert made_with["options"]["range_window"] == "none"
    assert len(list((trace / "_radar_range_doppler").glob(".options-*"))) == 1


def test_the_way_work_is_spread_is_no_reason_to_do_it_again(trace: Path, tmp_path: Path) -> None:
    assert snakemake(tmp_path, trace).returncode == 0
    again = snakemake(tmp_path, trace, "--cores", "1", config={"dask": {"chunk": "1 kB"}})
    assert "Nothing to be done" in again.stderr


def test_a_channel_that_was_removed_is_made_again(trace: Path, tmp_path: Path) -> None:
    assert snakemake(tmp_path, trace).returncode == 0
    before = result_bytes(trace)
    (trace / "_lidar_image" / "rfl").unlink()
    assert snakemake(tmp_path, trace).returncode == 0
    assert result_bytes(trace) == before


def test_an_output_root_holds_whole_traces_beside_read_only_recordings(trace: Path, tmp_path: Path) -> None:
    published = trace / "_camera"
    published.mkdir()
    (published / "meta.json").write_text("{}")
    before = raw_state(trace.parent)
    done = snakemake(tmp_path, trace.parent, config={"output_root": str(tmp_path / "out")})
    assert done.returncode == 0, done.stderr
    mirror = tmp_path / "out" / "one"
    assert raw_state(trace.parent) == before
    assert sorted(path.name for path in trace.iterdir() if path.name.startswith("_")) == ["_camera"]
    assert Sensor(mirror / "radar").length() == Sensor(trace / "radar").length()
    assert Sensor(mirror / "_radar_range_doppler").length() == Sensor(trace / "radar").length()
    assert (mirror / "config.yaml").exists()
    assert (mirror / "_camera").resolve() == published.resolve()


def test_a_failed_job_names_its_fault_last_and_the_others_are_still_done(trace: Path, tmp_path: Path) -> None:
    iq = trace / "radar" / "iq"
    iq.write_bytes(iq.read_bytes()[:-7])
    failed = snakemake(tmp_path, trace)
    assert failed.returncode != 0
    summary = failed.stderr.partition("rover-pipeline: failed:")[2]
    assert f"{iq}: " in summary
    assert "input.truncate" in summary
    assert "Traceback" not in failed.stderr
    assert not (trace / "_radar_range_doppler" / "meta.json").exists()
    assert Sensor(trace / "_lidar_image").length() > 0


def test_a_directory_in_the_way_is_named_and_not_touched(trace: Path, tmp_path: Path) -> None:
    (trace / "_lidar_image").mkdir()
    (trace / "_lidar_image" / "meta.json").write_text('{"mine": 1}')
    (trace / "_lidar_image" / "rng").write_text("precious")
    stopped = snakemake(tmp_path, trace, "--forceall")
    assert stopped.returncode != 0
    assert f"{trace / '_lidar_image'}: was not made by rover_pipeline" in stopped.stderr
    assert (trace / "_lidar_image" / "rng").read_text() == "precious"
    assert (trace / "_lidar_image" / "meta.json").read_text() == '{"mine": 1}'


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"radar": {"range_dopler": {}}}, "radar.range_dopler: unknown key; did you mean 'range_doppler'?"),
        ({"outptus": "all"}, "outptus: unknown key; did you mean 'outputs'?"),
        ({"outputs": "lidar_images"}, "no rule makes 'lidar_images'; did you mean 'lidar_image'?"),
        ({"dask": {"chunk": "lots"}}, "dask.chunk"),
    ],
)
def test_a_misspelled_option_is_one_line_with_the_nearest_known_one(
    trace: Path, tmp_path: Path, config: dict[str, object], expected: str
) -> None:
    stopped = snakemake(tmp_path, trace, config=config)
    assert stopped.returncode != 0
    lines = [line for line in stopped.stderr.splitlines() if line.startswith("rover-pipeline: ")]
    assert len(lines) == 1
    assert expected in lines[0]
    assert "Traceback" not in stopped.stderr


def test_an_output_whose_sensor_is_missing_is_left_out_by_default_and_an_error_by_name(
    trace: Path, tmp_path: Path
) -> None:
    shutil.rmtree(trace / "lidar")
    assert snakemake(tmp_path, trace, config={"outputs": "default"}).returncode == 0
    assert not (trace / "_lidar_image").exists()
    stopped = snakemake(tmp_path, trace, config={"outputs": "lidar_image"})
    assert stopped.returncode != 0
    assert "has no sensor 'lidar', which the output 'lidar_image' needs" in stopped.stderr


def test_the_installed_command_runs_from_a_folder_that_is_no_checkout(trace: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    run = [sys.executable, "-m", "rover_pipeline", "run", str(trace), "--outputs", "radar_range_doppler"]
    done = subprocess.run(run, cwd=tmp_path / "elsewhere", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert Sensor(trace / "_radar_range_doppler").length() > 0
    assert not (trace / "_lidar_image").exists()
