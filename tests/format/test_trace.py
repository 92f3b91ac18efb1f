"""Traces are found, appear only when they are complete, are linked, and are read in the layout of the public data."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rover_pipeline.cli import main
from rover_pipeline.errors import FormatError, InTheWayError
from rover_pipeline.format.meta import META
from rover_pipeline.format.provenance import MADE_BY, PROVENANCE
from rover_pipeline.format.trace import CONFIG, Trace, find_traces, link_trace, locate_traces, new_trace, require_trace
from tests.kit import pictures, small_trace, snapshot


def mark(*folders: Path) -> None:
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / CONFIG).touch()


def published(path: Path) -> Path:
    """A trace as I/Q-1M publishes it: the anonymised video and the poses are beside the raw sensors."""
    small_trace(path, 4, sensors=["lidar", "radar", "camera"])
    (path / "_camera").mkdir()
    shutil.move(path / "camera" / "video.avi", path / "_camera" / "video.avi")
    shutil.copy(path / "camera" / "ts", path / "_camera" / "ts")
    shutil.copy(path / "camera" / META, path / "_camera" / META)
    for name in ("_lidar", "_radar"):
        (path / name).mkdir()
        np.savez(path / name / "pose.npz", t=np.arange(4.0))
    (path / "_slam").mkdir()
    (path / "_slam" / "trajectory.csv").write_text("field.header.stamp\n")
    return path


def test_a_trace_means_itself_and_a_folder_means_all_traces_below_it(tmp_path: Path) -> None:
    mark(tmp_path / "b", tmp_path / "a" / "deep" / "x", tmp_path / "a" / "y")
    assert find_traces(tmp_path) == [tmp_path / "a" / "deep" / "x", tmp_path / "a" / "y", tmp_path / "b"]
    assert find_traces(tmp_path / "b") == [tmp_path / "b"]
    assert find_traces(tmp_path / "a" / "deep") == [tmp_path / "a" / "deep" / "x"]


def test_the_search_stops_at_a_trace_and_skips_links_and_hidden_folders(tmp_path: Path) -> None:
    mark(tmp_path / "t", tmp_path / "t" / "radar" / "inner", tmp_path / ".t2.partial", tmp_path / "far" / "z")
    (tmp_path / "link").symlink_to(tmp_path / "far")
    assert find_traces(tmp_path) == [tmp_path / "far" / "z", tmp_path / "t"]


def test_a_folder_without_traces_has_none(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert find_traces(tmp_path) == []
    with pytest.raises(FormatError, match="is no trace"):
        require_trace(tmp_path)
    with pytest.raises(FormatError, match="gone: no such directory"):
        require_trace(tmp_path / "gone")


def test_two_recordings_of_one_name_are_refused_where_results_would_be_in_one_folder(tmp_path: Path) -> None:
    one, two = (small_trace(tmp_path / folder / "t", 2) for folder in "ab")
    with pytest.raises(FormatError, match="would both be called t; rename one"):
        locate_traces([str(one), str(two)], tmp_path, tmp_path / "out")


def test_a_recording_without_config_yaml_is_a_trace(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "t", 2)
    (trace / CONFIG).unlink()
    assert find_traces(trace) == [trace] and require_trace(trace) == trace


def test_sensors_are_the_folders_with_meta_json_virtual_ones_last(tmp_path: Path) -> None:
    trace = published(tmp_path / "t")
    assert Trace(trace).sensors() == ["camera", "lidar", "radar", "_camera"]


def test_the_video_of_the_published_layout_is_read_from_the_derived_sensor(tmp_path: Path) -> None:
    trace = Trace(published(tmp_path / "t"))
    assert "video.avi" in trace.sensor("camera").specs, "meta.json still lists the file that was moved away"
    source = trace.source("camera", "video.avi")
    assert source.path.name == "_camera"
    assert np.abs(source.channel("video.avi").read().astype(int) - pictures(4, 16, 24)).max() <= 8
    assert trace.source("camera", "ts").path.name == "camera"
    assert trace.source("lidar", "rng").path.name == "lidar", "a `_lidar` with only pose.npz is not a sensor"


def test_a_missing_channel_is_reported_for_the_raw_sensor(tmp_path: Path) -> None:
    trace = Trace(published(tmp_path / "t"))
    (trace.path / "_camera" / "video.avi").unlink()
    with pytest.raises(FormatError, match=r"camera/video.avi: is listed in meta.json but video.avi is missing"):
        trace.source("camera", "video.avi").channel("video.avi")


def test_a_new_trace_appears_only_when_it_is_done(tmp_path: Path) -> None:
    with new_trace(tmp_path / "t") as scratch:
        mark(scratch)
        assert not (tmp_path / "t").exists() and find_traces(tmp_path) == []
    assert find_traces(tmp_path) == [tmp_path / "t"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["t"]


def test_a_new_trace_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), new_trace(tmp_path / "deep" / "t") as scratch:
        mark(scratch / "radar")
        raise ZeroDivisionError
    assert list((tmp_path / "deep").iterdir()) == []


def test_a_new_trace_never_replaces_anything_but_empty_folders(tmp_path: Path) -> None:
    (tmp_path / "t" / "lidar").mkdir(parents=True)
    with new_trace(tmp_path / "t") as scratch:
        mark(scratch)
    for taken in ("t", "file", "link"):
        (tmp_path / "file").touch()
        if not (tmp_path / "link").is_symlink():
            (tmp_path / "link").symlink_to("nowhere")
        with pytest.raises(InTheWayError, match=f"{taken}: already exists"), new_trace(tmp_path / taken):
            pytest.fail("the block must not run")
    assert (tmp_path / "t" / CONFIG).exists() and (tmp_path / "link").is_symlink()


def test_files_that_appear_while_a_trace_is_made_are_kept(tmp_path: Path) -> None:
    with pytest.raises(InTheWayError, match="appeared while"), new_trace(tmp_path / "t") as scratch:
        mark(scratch)
        (tmp_path / "t").mkdir()
        (tmp_path / "t" / "precious").write_text("mine")
    assert (tmp_path / "t" / "precious").read_text() == "mine"
    assert [entry.name for entry in tmp_path.iterdir()] == ["t"]


def test_two_processes_do_not_make_the_same_trace(tmp_path: Path) -> None:
    with new_trace(tmp_path / "t") as scratch:
        mark(scratch)
        with pytest.raises(InTheWayError, match="is being made by another process"), new_trace(tmp_path / "t"):
            pytest.fail("the block must not run")
        assert (scratch / CONFIG).exists()


def test_a_killed_process_does_not_block_the_next_one_from_making_a_trace(tmp_path: Path) -> None:
    code = (
        "import os, sys, pathlib; from rover_pipeline.format.trace import new_trace\n"
        "with new_trace(pathlib.Path(sys.argv[1])) as scratch:\n"
        "    (scratch / 'old').touch(); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "t")], check=False)
    assert [entry.name for entry in tmp_path.iterdir()] == [".partial"]
    with new_trace(tmp_path / "t") as scratch:
        mark(scratch)
    assert sorted(entry.name for entry in (tmp_path / "t").iterdir()) == [CONFIG]


def ours(folder: Path) -> None:
    folder.mkdir()
    (folder / PROVENANCE).write_text(json.dumps({"made_by": MADE_BY}))
    (folder / META).write_text("{}")


def test_a_linked_trace_holds_raw_sensors_and_files_of_others_but_not_our_results(tmp_path: Path) -> None:
    source = published(tmp_path / "t")
    ours(source / "_lidar_image")
    before = snapshot(source)
    for _ in range(2):
        link_trace(source, tmp_path / "out")
    assert Trace(tmp_path / "out").sensors() == ["camera", "lidar", "radar", "_camera"]
    assert Trace(tmp_path / "out").source("camera", "video.avi").path.name == "_camera"
    assert (tmp_path / "out" / "_slam" / "trajectory.csv").exists()
    assert snapshot(source) == before


def test_scratch_files_of_a_killed_run_are_not_linked(tmp_path: Path) -> None:
    source = small_trace(tmp_path / "t", 2)
    (source / ".partial" / f"_lidar_image.1-{'0' * 16}").mkdir(parents=True)
    (source / ".partial" / "_lidar_image.lock").touch()
    (source / "_radar_range_doppler").mkdir()
    link_trace(source, tmp_path / "out")
    assert sorted(os.listdir(tmp_path / "out")) == [CONFIG, "lidar", "radar"]


def test_a_file_at_the_path_of_a_link_is_named_and_kept(tmp_path: Path) -> None:
    source = small_trace(tmp_path / "t", 2)
    (tmp_path / "out" / "radar").mkdir(parents=True)
    with pytest.raises(InTheWayError, match="out/radar: is in the way of a link"):
        link_trace(source, tmp_path / "out")
    assert (tmp_path / "out" / "radar").is_dir() and not (tmp_path / "out" / "radar").is_symlink()


def test_a_linked_trace_gets_a_config_yaml(tmp_path: Path) -> None:
    source = small_trace(tmp_path / "t", 2)
    (source / CONFIG).unlink()
    link_trace(source, tmp_path / "out")
    assert find_traces(tmp_path / "out") == [tmp_path / "out"] and not (source / CONFIG).exists()


def test_a_link_to_itself_among_traces_is_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small_trace(tmp_path / "rec", 2)
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "rec" / "loop").symlink_to("loop")
    assert main(["info", str(tmp_path)]) == 0
    assert f"{tmp_path}/rec: " in capsys.readouterr().out


def test_results_inside_of_a_sensor_are_refused(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "rec", 2)
    (tmp_path / "link").symlink_to(trace / "radar")
    for root in (trace / "radar", trace / "radar" / "new", tmp_path / "link" / "new"):
        with pytest.raises(FormatError, match=rf"output_root: {root} is inside of the sensor {trace}/radar"):
            locate_traces([str(trace)], tmp_path, root)
    assert locate_traces([str(trace)], tmp_path, tmp_path / "out") == {tmp_path / "out" / "rec": trace}


def test_one_trace_that_cannot_be_described_does_not_stop_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        small_trace(tmp_path / name, 2)
    whole = Trace.sensors

    def failing(trace: Trace) -> list[str]:
        if trace.name == "a":
            raise OSError(5, "Input/output error", str(trace.path))
        return whole(trace)

    monkeypatch.setattr(Trace, "sensors", failing)
    assert main(["info", str(tmp_path)]) == 1
    printed = capsys.readouterr()
    assert printed.out.startswith(f"{tmp_path}/b: ")
    assert printed.err == f"rover-pipeline: {tmp_path}/a: {tmp_path}/a: Input/output error\n"


def test_a_folder_whose_config_yaml_is_of_another_program_is_no_trace(tmp_path: Path) -> None:
    mark(tmp_path / "empty", tmp_path / "listed", tmp_path / "workflow", tmp_path / "broken")
    (tmp_path / "listed" / CONFIG).write_text("radar: {type: radar, args: {}}\n")
    (tmp_path / "workflow" / CONFIG).write_text("cores: all\nresources: {slot: 1}\n")
    (tmp_path / "broken" / CONFIG).write_text("a: [")
    assert find_traces(tmp_path) == [tmp_path / "empty", tmp_path / "listed"]
    for name in ("workflow", "broken"):
        with pytest.raises(FormatError, match="is no trace"):
            require_trace(tmp_path / name)
