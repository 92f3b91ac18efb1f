"""What was made from other bytes than there are now is known as such, wherever the times of files lead."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from pathlib import Path

import pytest

import rover_pipeline as rp
from rover_pipeline.cli import main
from rover_pipeline.engine import identity
from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.engine.step import Step
from rover_pipeline.errors import FormatError
from rover_pipeline.export.dataset import export_dataset
from rover_pipeline.format.provenance import PROVENANCE, stale_results
from rover_pipeline.report.fleet import make_report, write_fleet
from rover_pipeline.report.templating import SUMMARY
from rover_pipeline.table import find_step
from rover_pipeline.workflow.needs import untrue
from tests.kit import small_trace, write_odometry

STAMP = ".options-0"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A recording with a chain of results: points are made from ranges' image."""
    trace = small_trace(tmp_path / "rec", 12, sensors=("lidar", "radar", "imu"), invalid={})
    for name in ("_lidar_image", "_lidar_points", "_radar_range_doppler", "_sync"):
        run_step(find_step(name), trace, name, Request(), stamps=(STAMP,))
    return trace


def replace(path: Path, data: bytes) -> None:
    """Other bytes with an older time, as `rsync -a` leaves them."""
    status = path.stat()
    path.write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns - 10**12))


def test_results_of_other_bytes_and_all_that_follows_from_them_are_stale(trace: Path) -> None:
    everything = [path.name for path in trace.glob("_*")]
    assert stale_results(trace, everything) == {}
    replace(trace / "lidar/ts", (trace / "lidar/ts").read_bytes()[:-8])
    told = stale_results(trace, ["_lidar_image", "_radar_range_doppler"])
    assert told == {"_lidar_image": "was made from other bytes of lidar/ts"}


@pytest.mark.parametrize("time", ["now", {"inputs": "now"}, {"inputs": None}])
def test_without_the_states_of_inputs_their_bytes_tell(trace: Path, time: object) -> None:
    path = trace / "_lidar_image" / PROVENANCE
    path.write_text(json.dumps(json.loads(path.read_text()) | {"time": time}))
    assert stale_results(trace, ["_lidar_image"]) == {}


def test_results_of_two_versions_of_what_is_gone_are_stale(trace: Path) -> None:
    shutil.copytree(trace / "_radar_range_doppler", trace / "_other")
    shutil.rmtree(trace / "radar")
    assert stale_results(trace, ["_radar_range_doppler", "_other"]) == {}
    path = trace / "_other" / "provenance.json"
    path.write_text(path.read_text().replace('"blake2b": "', '"blake2b": "0'))
    (reason,) = stale_results(trace, ["_radar_range_doppler", "_other"]).values()
    assert "than _radar_range_doppler" in reason


def test_exports_and_synced_refuse_what_is_stale_in_one_line_with_the_command(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    replace(trace / "lidar/ts", (trace / "lidar/ts").read_bytes()[:-8])
    command = f"make them again: rover-pipeline run {trace} --outputs "
    for arguments in (["ply", "--sensor", "_lidar_points"], ["rrd"], ["mp4"]):
        assert main(["export", arguments[0], str(trace), *arguments[1:], "-o", str(tmp_path / "out")]) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert "was made from other bytes of lidar/ts" in line and command in line and "lidar_points" in line
        assert not (tmp_path / "out").exists()
    with pytest.raises(FormatError, match=f"synced needs results of one world.*{command}"):
        rp.open(trace).synced("radar_range_doppler", "lidar_image")


def test_a_dataset_of_stale_results_is_refused(trace: Path, tmp_path: Path) -> None:
    write_odometry(trace)
    run_step(find_step("_radar_pose"), trace, "_radar_pose", Request())
    options: dict[str, dict[str, object]] = {"options": {}, "splits": {}}
    export_dataset("roverp", [str(trace)], tmp_path / "first", settings=options)
    replace(trace / "_odom/pos", (trace / "_odom/pos").read_bytes()[::-1])
    told = "_radar_pose was made from other bytes of _odom/pos; make them again: .* --outputs radar_pose"
    with pytest.raises(FormatError, match=f"export roverp needs results of one world, but {told}"):
        export_dataset("roverp", [str(trace)], tmp_path / "second", settings=options)


@pytest.mark.parametrize("change", ["radar/iq", "imu", "_lidar_image/rng", "radar/radar.json"])
def test_a_page_does_not_stay_good_after_any_file_is_cut_with_older_times(change: str, trace: Path) -> None:
    make_report(trace)
    summary = trace / "_report" / SUMMARY
    before = summary.read_bytes()
    make_report(trace)
    assert summary.read_bytes() == before
    for path in (
        [trace / change] if "/" in change else [each for each in (trace / change).iterdir() if each.suffix == ""]
    ):
        replace(path, path.read_bytes()[: 100 if "iq" in path.name else path.stat().st_size // 16 * 8])
    _, (row,) = write_fleet([str(trace)], trace.parent / "fleet")
    assert summary.read_bytes() != before and row.verdict != "good"


def test_a_page_is_written_again_when_a_result_comes_or_goes(trace: Path) -> None:
    page = make_report(trace)
    states = [page.stat().st_mtime_ns]
    run_step(find_step("_imu_times"), trace, "_imu_times", Request())
    states.append(make_report(trace).stat().st_mtime_ns)
    shutil.rmtree(trace / "_imu_times")
    states.append(make_report(trace).stat().st_mtime_ns)
    assert len(set(states)) == 3 and make_report(trace).stat().st_mtime_ns == states[-1]


def test_the_changed_code_of_a_users_step_is_noticed_and_a_comment_is_not(
    trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = trace.parent / "lab"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    source = """
        import numpy as np
        from labhelper import twice
        from rover_pipeline.steps import step

        @step(sensor="_own", inputs={"iq": "radar/iq"}, outputs={"a": "Mean."}, version=1)
        def own(iq: np.ndarray) -> np.ndarray:
            return twice(iq.mean(axis=(1, 2, 3, 4)))
    """

    def now(text: str, helper: str) -> Step:
        (folder / "labown.py").write_text(textwrap.dedent(text))
        (folder / "labhelper.py").write_text(f"def twice(x):\n    return {helper}\n")
        for cache in (identity._digest_of_module, identity._digest_of_file, identity._source, identity._imports):
            cache.cache_clear()
        for name in ("labown", "labhelper"):
            sys.modules.pop(name, None)
        return find_step("labown:own")

    now(source, "2 * x")
    run_step(find_step("labown:own"), trace, "_own", Request(), stamps=(STAMP,))
    stamp = trace / "_own" / STAMP
    assert untrue(stamp, now(source, "2 * x"), trace) == ""
    assert untrue(stamp, now(source.replace("return", "# why\n            return"), "(2 * x)  # so"), trace) == ""
    told = "the code of labown:own has changed"
    assert untrue(stamp, now(source.replace("mean", "sum"), "2 * x"), trace) == told
    assert untrue(stamp, now(source, "3 * x"), trace) == told, "what it imports counts too"
    assert identity.source_of(find_step("_odom").function) == "", "ours have a version"
