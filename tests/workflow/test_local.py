"""The workflow end to end on one machine, run as users run it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from rover_pipeline.errors import ConfigError
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.workflow.flow import Flow
from tests.kit import small_trace
from tests.workflow.runs import FROM_NOISE, raw_state, result_bytes, snakemake

pytestmark = pytest.mark.system


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    small_trace(tmp_path / "recordings" / "one")
    return tmp_path / "recordings" / "one"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a run has made nearly all default outputs of the recording `one`."""
    folder = tmp_path_factory.mktemp("finished")
    trace = small_trace(folder / "one")
    before = raw_state(trace)
    done = snakemake(folder, trace, config={"outputs": FROM_NOISE})
    assert done.returncode == 0, done.stderr
    assert raw_state(trace) == before, "raw sensors stay as they are"
    return folder


def test_default_outputs_are_made_once_whatever_the_way_work_is_spread(finished: Path) -> None:
    trace = finished / "one"
    for name in ("_lidar_image", "_radar_range_doppler", "_radar_velocity", "_sync", "_bev"):
        assert Sensor(trace / name).length() > 0
    assert (trace / "_report" / "index.html").exists()
    again = snakemake(finished, trace, "--cores", "1", config={"outputs": FROM_NOISE, "dask": {"chunk": "1 kB"}})
    assert "Nothing to be done" in again.stderr


def test_changed_options_are_noticed_from_another_folder(finished: Path, tmp_path: Path) -> None:
    trace = shutil.copytree(finished / "one", tmp_path / "one")
    before = result_bytes(trace)
    changed = {"radar": {"range_doppler": {"range_window": "none"}}}
    second = snakemake(tmp_path, trace, config=changed)
    assert second.returncode == 0, second.stderr
    after = result_bytes(trace)
    assert after["_radar_range_doppler/power"] != before["_radar_range_doppler/power"]
    assert after["_lidar_image/rng"] == before["_lidar_image/rng"]
    assert "rule radar_range_doppler" in second.stdout and "rule lidar_image" not in second.stdout
    made_with = json.loads((trace / "_radar_range_doppler" / "provenance.json").read_text())
    assert made_with["options"]["range_window"] == "none"
    assert len(list((trace / "_radar_range_doppler").glob(".options-*"))) == 1


def test_a_channel_that_was_removed_is_made_again(finished: Path, tmp_path: Path) -> None:
    trace = shutil.copytree(finished / "one", tmp_path / "one")
    before = result_bytes(trace)
    (trace / "_lidar_image" / "rfl").unlink()
    assert snakemake(tmp_path, trace).returncode == 0
    assert result_bytes(trace) == before


def test_a_folder_a_glob_and_a_list_name_the_same_traces(trace: Path, tmp_path: Path) -> None:
    other = shutil.copytree(trace, trace.with_name("two"))
    folder = trace.parent
    for traces in (str(folder), f"{folder}/*", [str(trace), str(other)]):
        assert list(Flow({"traces": traces}, tmp_path).traces) == [trace, other]


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


def test_a_directory_in_the_way_is_named_and_not_touched(trace: Path, tmp_path: Path) -> None:
    (trace / "_lidar_image").mkdir()
    (trace / "_lidar_image" / "meta.json").write_text('{"mine": 1}')
    (trace / "_lidar_image" / "rng").write_text("precious")
    stopped = snakemake(tmp_path, trace, "--forceall")
    assert stopped.returncode != 0
    assert f"{trace / '_lidar_image'}: was not made by rover_pipeline" in stopped.stderr
    assert (trace / "_lidar_image" / "rng").read_text() == "precious"
    assert (trace / "_lidar_image" / "meta.json").read_text() == '{"mine": 1}'


def test_kernels_are_compiled_ahead_where_the_demo_is_simulated_and_odometry_is_made_of_it(tmp_path: Path) -> None:
    flow = Flow({}, tmp_path)
    assert not flow.simulates
    flow.wanted[flow.demo] = ["lidar_image", "odom"]
    assert flow.simulates
    flow.demo.mkdir()
    (flow.demo / "config.yaml").touch()
    assert not flow.simulates


MISSPELLED: list[tuple[dict[str, object], str]] = [
    ({"radar": {"range_dopler": {}}}, "radar.range_dopler: unknown key; did you mean 'range_doppler'?"),
    ({"outptus": "all"}, "outptus: unknown key; did you mean 'outputs'?"),
    ({"dask": {"chunk": "lots"}}, "dask.chunk"),
]


@pytest.mark.parametrize(("config", "expected"), MISSPELLED)
def test_a_misspelled_option_names_the_nearest_known_one(config: dict[str, object], expected: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(expected)):
        Flow(config)


def test_a_misspelled_output_is_one_line_with_the_nearest_known_one(trace: Path, tmp_path: Path) -> None:
    stopped = snakemake(tmp_path, trace, config={"outputs": "lidar_images"})
    assert stopped.returncode != 0
    lines = [line for line in stopped.stderr.splitlines() if line.startswith("rover-pipeline: ")]
    assert len(lines) == 1
    assert "no rule makes 'lidar_images'; did you mean 'lidar_image'?" in lines[0]
    assert "Traceback" not in stopped.stderr


def test_an_output_whose_sensor_is_missing_is_left_out_by_default_and_an_error_by_name(
    trace: Path, tmp_path: Path
) -> None:
    shutil.rmtree(trace / "lidar")
    shown = snakemake(tmp_path, trace, "--dry-run", config={"outputs": "default"})
    assert shown.returncode == 0, shown.stderr
    assert "radar_points" in shown.stdout and "lidar_image" not in shown.stdout
    stopped = snakemake(tmp_path, trace, config={"outputs": "lidar_image"})
    assert stopped.returncode != 0
    assert "has no sensor 'lidar', which the output 'lidar_image' needs" in stopped.stderr
