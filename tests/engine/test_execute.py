"""A step does what it declares: its inputs are checked, and its results are the same for any size of chunks."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ByteSize

from rover_pipeline.engine.execute import Request, StepResult, run_step
from rover_pipeline.engine.step import step_of_room
from rover_pipeline.errors import ConfigError, FormatError, RoverError, SampleError
from rover_pipeline.format.meta import META
from rover_pipeline.format.provenance import PROVENANCE
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.format.trace import Trace
from rover_pipeline.format.virtual import VirtualWriter
from rover_pipeline.numerics.nearest import matching_samples, nearest_samples
from rover_pipeline.options import DaskOptions, InputOptions
from rover_pipeline.table import find_step
from tests import toy
from tests.kit import (
    WHOLE,
    assert_same,
    check_virtual_sensor,
    check_whole,
    environment,
    small_trace,
    snapshot,
    step_command,
    times,
)

FRAMES = 9


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return small_trace(tmp_path / "rec", FRAMES, invalid={"lidar": (1,), "radar": (2,)})


def iq(trace: Path) -> np.ndarray:
    return Sensor(trace / "radar").channel("iq").read()


def run(name: str, trace: Path, *, frames_a_chunk: int = 1000, threads: int = 1, **options: Any) -> StepResult:
    """Run a toy step; its result is in `_toy`."""
    chunk = ByteSize(frames_a_chunk * 2200)  # a frame is 2 kB and the results are small
    request = Request(options)
    return run_step(
        find_step(f"tests.toy:{name}"), trace, "_toy", request, threads=threads, dask=DaskOptions(chunk=chunk)
    )


def read(trace: Path, channel: str) -> np.ndarray:
    return Sensor(trace / "_toy").channel(channel).read()


def provenance(trace: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((trace / "_toy" / PROVENANCE).read_text())
    return content


# --- Loading of modules -----------------------------------------------------------------------------------------


def test_a_process_that_runs_a_step_collects_garbage_after_modules_are_loaded(trace: Path) -> None:
    command = step_command("tests.toy:watchful", trace / "_toy", Request())
    subprocess.run(command, env=environment(), check=True, capture_output=True)
    assert read(trace, "collecting").tolist() == [1] * FRAMES


# --- Declaring and finding --------------------------------------------------------------------------------------


def test_a_declared_step_stays_a_plain_function() -> None:
    found = toy.gain(np.ones((2, 4, 3, 2, 8), "i2"), options=toy.GainOptions(factor=3.0))
    assert found.tolist() == [[3.0] * 3] * 2


def test_a_step_declares_its_options_and_its_optional_files() -> None:
    assert find_step("tests.toy:gain").options is toy.GainOptions
    assert find_step("tests.toy:smooth").options is None
    files = find_step("tests.toy:both").files
    assert files["sidecar"].endswith("?") and not files["metadata"].endswith("?")
    assert find_step("tests.toy:gain").name == "tests.toy:gain"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("tests.toy:gian", r"tests.toy has no step 'gian'; did you mean 'gain'\?"),
        ("tests.toy:np", "tests.toy has no step 'np'"),
        ("tests.toy", "tests.toy has no step ''"),
        ("rover_pipeline.errors:step", "rover_pipeline.errors has no step 'step'; it has no function with @step"),
        ("mylab.radar:feature", "no module 'mylab.radar'; is it installed, or its folder on PYTHONPATH"),
        ("tests.nowhere:feature", "no module 'tests.nowhere'"),
    ],
)
def test_a_step_that_does_not_exist_is_an_error_with_the_nearest_name(name: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        find_step(name)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import no_such_library", "ModuleNotFoundError: No module named 'no_such_library'$"),
        ("feature = max(1, 2", r"SyntaxError: '\(' was never closed \(mylab.py, line 1\)$"),
        ("feature = unknown", "NameError: name 'unknown' is not defined$"),
    ],
)
def test_a_module_that_cannot_be_imported_is_not_called_missing(
    code: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mylab.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=f"^step mylab:feature: mylab cannot be imported: {said}"):
        find_step("mylab:feature")


# --- Results ----------------------------------------------------------------------------------------------------


def test_type_and_shape_of_a_channel_are_those_of_the_result(trace: Path) -> None:
    assert run("gain", trace)[:2] == (FRAMES, 1)
    spec = Sensor(trace / "_toy").specs["power"]
    assert (spec.type, spec.shape, spec.desc) == ("f4", (2,), "Mean square. [tx]")
    run("both", trace)
    spec = Sensor(trace / "_toy").specs["sum"]
    assert (spec.type, spec.shape) == ("i8", (2,))
    assert "power" not in Sensor(trace / "_toy").specs and not (trace / "_toy" / "power").exists()


def test_a_step_reads_ranges_of_a_channel_that_is_too_large_to_be_given_in_full(trace: Path) -> None:
    run("change", trace, frames_a_chunk=2, threads=2)
    first = iq(trace)[:, 0, 0, 0, 0].astype("f4")
    assert (read(trace, "change") == first - first[0]).all()


@pytest.mark.parametrize(("frames_a_chunk", "threads"), [(1, 1), (2, 3), (4, 1), (1000, 2)])
def test_neighbours_of_a_block_make_it_equal_to_the_whole(frames_a_chunk: int, threads: int, trace: Path) -> None:
    run("smooth", trace, frames_a_chunk=frames_a_chunk, threads=threads)
    assert read(trace, "mean").tobytes() == toy.smooth(iq(trace)).tobytes()


@pytest.mark.parametrize(("frames_a_chunk", "threads"), [(1, 1), (2, 3), (4, 1), (1000, 2)])
def test_an_ordered_step_carries_its_state_over_any_chunks(frames_a_chunk: int, threads: int, trace: Path) -> None:
    run("total", trace, frames_a_chunk=frames_a_chunk, threads=threads)
    whole, _ = toy.total(iq(trace), state=None)
    assert read(trace, "seen").tolist() == list(range(1, FRAMES + 1))
    assert read(trace, "total").tobytes() == whole["total"].tobytes()


def test_a_step_with_every_format_obeys_the_contract(trace: Path) -> None:
    check_virtual_sensor("tests.toy:everything", trace, "_toy", kills=4)


def test_frames_that_the_step_or_the_recording_marks_are_not_valid(trace: Path) -> None:
    result = run("loud", trace)
    wanted = iq(trace)[:, 0, 0, 0, 0] >= 0
    wanted[2] = False
    assert 0 < wanted.sum() < FRAMES - 1
    assert read(trace, "valid").tolist() == wanted.astype(int).tolist()
    assert result.invalid == FRAMES - wanted.sum() == provenance(trace)["invalid"]


def test_a_frame_is_valid_when_it_is_in_every_sensor_it_comes_from(trace: Path) -> None:
    run("both", trace)
    assert np.flatnonzero(read(trace, "valid") == 0).tolist() == [1, 2]
    rng = Sensor(trace / "lidar").channel("rng").read()
    assert read(trace, "sum")[:, 0].tolist() == rng.sum(axis=(1, 2), dtype="i8").tolist()
    check_whole(find_step("tests.toy:both"), trace / "_toy")


# --- Other times, whole recordings, files -----------------------------------------------------------------------


def shifted_lidar(trace: Path, by_s: float) -> np.ndarray:
    """Move the lidar's times; returns them."""
    ts = times(FRAMES) + by_s
    (trace / "lidar" / "ts").write_bytes(ts.tobytes())
    return ts


@pytest.mark.parametrize(("frames_a_chunk", "threads"), [(1, 1), (2, 3), (1000, 2)])
def test_samples_of_a_sensor_with_other_times_are_the_nearest(frames_a_chunk: int, threads: int, trace: Path) -> None:
    shifted_lidar(trace, 0.33)
    run("beside", trace, frames_a_chunk=frames_a_chunk, threads=threads)
    rng = Sensor(trace / "lidar").channel("rng").read()
    nearest = np.clip(np.arange(FRAMES) - 3, 0, None)
    assert read(trace, "rng").tobytes() == rng[nearest].tobytes()
    # Frames 0 to 2 are before the lidar begins; sample 1 of the lidar and 2 of the radar are not valid.
    assert np.flatnonzero(read(trace, "valid") == 0).tolist() == [0, 1, 2, 4]
    assert read(trace, "lidar").tolist() == [-1] * 4 + list(range(FRAMES - 4))
    assert read(trace, "radar").tolist() == list(range(FRAMES))
    assert Sensor(trace / "_toy").specs["radar"].desc == "Of the radar."
    assert {"lidar/ts", "lidar/valid", "lidar/rng", "radar/ts"} <= set(provenance(trace)["inputs"])


def test_of_two_samples_at_the_same_distance_in_time_the_earlier_is_the_nearest() -> None:
    assert nearest_samples(np.array([0.0, 1, 2]), np.array([-5, 0.5, 1.5, 1.6, 9])).tolist() == [0, 0, 1, 2, 2]
    assert nearest_samples(np.array([3.0]), np.array([-5, 3, 9.0])).tolist() == [0, 0, 0]


def test_the_next_and_the_previous_sample_are_those_on_either_side_of_an_instant_or_at_it() -> None:
    times, ts = np.array([0.0, 1, 2]), np.array([-5, 0.0, 0.1, 1.0, 1.9, 2.5])
    assert matching_samples(times, ts, "next").tolist() == [0, 0, 1, 1, 2, 2]
    assert matching_samples(times, ts, "previous").tolist() == [0, 0, 0, 1, 1, 2]
    assert matching_samples(times, ts, "nearest").tolist() == nearest_samples(times, ts).tolist()


@pytest.mark.parametrize("threads", [1, 2])
def test_a_step_on_the_whole_recording_processes_its_segments_in_parallel(threads: int, trace: Path) -> None:
    assert run("segments", trace, threads=threads, frames=4).invalid == 2
    wanted = [np.square(iq(trace)[at : at + 4], dtype="f8").mean() for at in (0, 4, 8)]
    assert read(trace, "energy").tolist() == np.repeat(wanted, [4, 4, 1]).tolist()
    assert np.flatnonzero(read(trace, "valid") == 0).tolist() == [2, 4]
    assert provenance(trace)["measured"] == {"segments": 3} and provenance(trace)["notes"] == ["3 segments"]
    assert (trace / "_toy" / "segments.txt").read_text() == "3\n"


def test_a_step_that_gives_ranges_of_frames_one_by_one_gives_the_bytes_of_one_that_gives_all_at_once(
    trace: Path,
) -> None:
    found = {}
    for frames in (1000, 4, 1):
        assert run("one_by_one", trace, frames=frames).invalid == 2
        found[frames] = {name: read(trace, name).tobytes() for name in ("energy", "valid", "ts")}
        assert provenance(trace)["measured"] == {"count": 9} and provenance(trace)["notes"] == ["all frames are done"]
    assert found[1] == found[4] == found[1000]
    assert read(trace, "energy").tolist() == [np.square(frame, dtype="f8").mean() for frame in iq(trace)]


def test_a_step_that_forgets_a_frame_leaves_the_older_result(trace: Path) -> None:
    run("one_by_one", trace)
    before = snapshot(trace / "_toy")
    with pytest.raises(RoverError, match=r"gave 8 of 9 frames"):
        run("one_by_one", trace, forgets=True)
    assert snapshot(trace / "_toy") == before


def test_arrays_on_disk_keep_their_values_and_are_not_held_in_memory(tmp_path: Path) -> None:
    """In a process of its own, whose memory is counted by the system."""
    code = """
import sys
from pathlib import Path
import numpy as np
from rover_pipeline.numerics.blocks import Memory, OnDisk, blocks

def peak():
    return int(dict(line.split(":", 1) for line in open("/proc/self/status"))["VmHWM"].split()[0]) / 1024

memory = Memory() if sys.argv[1] == "memory" else OnDisk(Path(sys.argv[1]))
before, values = peak(), memory.zeros(8_000_000)
for part in blocks(len(values), 100_000):
    values[part] = np.arange(part.start, part.stop)
for part in blocks(len(values), 100_000, -1):
    assert (values[part] == np.arange(part.start, part.stop)).all()
print(peak() - before)
"""
    grown = [
        float(subprocess.run([sys.executable, "-c", code, place], stdout=subprocess.PIPE, check=True).stdout)
        for place in ("memory", str(tmp_path))
    ]
    assert grown[0] > 60 and grown[1] < 10  # MiB, of 61
    assert not list(tmp_path.iterdir())


def test_a_step_on_other_times_obeys_the_contract(trace: Path) -> None:
    shifted_lidar(trace, 0.13)
    check_virtual_sensor("tests.toy:beside", trace, "_toy", kills=4 * WHOLE)


def test_a_step_on_the_whole_recording_obeys_the_contract(trace: Path) -> None:
    check_virtual_sensor("tests.toy:segments", trace, "_toy", kills=4 * WHOLE)


@pytest.mark.system
def test_a_folder_of_files_is_whole_or_absent_and_no_sensor(trace: Path) -> None:
    check_virtual_sensor("tests.toy:folder", trace, "_toy", kills=8 if WHOLE else 4)
    run("folder", trace)
    assert (trace / "_toy" / "sum.txt").read_text() == str(int(iq(trace).sum(dtype="i8")))
    assert not (trace / "_toy" / META).exists() and "_toy" not in Trace(trace).sensors()


def test_frames_that_a_segment_cannot_decode_are_marked_when_asked_for(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "rec", FRAMES, invalid={})
    damaged = trace / "lidar" / "rng"
    offsets = np.frombuffer(Path(f"{damaged}_i").read_bytes(), "u8")
    with damaged.open("r+b") as file:
        file.seek(int(offsets[4]))
        file.write(b"\0" * 16)
    described = find_step("tests.toy:mean_range")
    with pytest.raises(SampleError, match=r"rng: sample 4.*mark_corrupt"):
        run_step(described, trace, "_toy", Request())
    run_step(described, trace, "_toy", Request(input=InputOptions(truncate=False, mark_corrupt=True)), threads=2)
    assert np.flatnonzero(read(trace, "valid") == 0).tolist() == [4] and provenance(trace)["corrupt"] == 1


def test_a_sensor_without_valid_counts_as_valid(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "rec", 3, invalid={})
    run("both", trace)
    assert read(trace, "valid").tolist() == [1, 1, 1]
    assert set(provenance(trace)["inputs"]) == {
        *("lidar/rng", "lidar/ts", "lidar/lidar.json"),
        *("radar/iq", "radar/ts", "radar/valid", "radar/radar.json"),
    }


def test_the_published_copy_of_a_video_is_used_where_only_that_is_left(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "rec", 4, sensors=["camera"])
    run("brightness", trace)
    wanted = read(trace, "brightness")
    shutil.copytree(trace / "camera", trace / "_camera")
    (trace / "camera" / "video.avi").unlink()
    run("brightness", trace)
    assert np.array_equal(read(trace, "brightness"), wanted) and wanted[0, 1] > wanted[0, 0]


def test_provenance_holds_the_resolved_options_and_follows_the_bytes_of_the_input(trace: Path) -> None:
    run("gain", trace)
    before = provenance(trace)
    assert before["options"] == {"factor": 2.0} and before["version"] == 1 and before["samples"] == FRAMES
    assert before["inputs"]["radar/iq"]["bytes"] == FRAMES * 2048
    with (trace / "radar" / "iq").open("r+b") as file:
        file.write(b"\1")
    run("gain", trace, factor=3)
    after = provenance(trace)
    assert after["options"] == {"factor": 3.0}
    assert after["inputs"]["radar/iq"]["blake2b"] != before["inputs"]["radar/iq"]["blake2b"]
    assert after["inputs"]["radar/ts"] == before["inputs"]["radar/ts"]


def test_stamps_are_published_with_the_sensor_and_replaced_with_it(trace: Path) -> None:
    described = find_step("tests.toy:gain")
    for stamp in (".options-1", ".options-2"):
        run_step(described, trace, "_toy", Request(), stamps=(stamp,))
        assert [path.name for path in (trace / "_toy").glob(".*")] == [stamp]


def test_raw_sensors_are_only_read(trace: Path) -> None:
    before = snapshot(trace)
    for name in ("gain", "total", "everything", "both"):
        run(name, trace)
    shutil.rmtree(trace / "_toy")
    assert snapshot(trace) == before


# --- Errors -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("forgetful", "tests.toy:forgetful: did not return the channel 'b' it declares"),
        ("talkative", "tests.toy:talkative: returned 'extra', which it does not declare"),
        ("short", r"tests.toy:short: a: an array of \(2,\) does not hold one sample for each of 3 frames"),
        ("moody", r"tests.toy:moody: a: samples of \[3\] and float64, but the first frame gave \[1\] and f8"),
        ("failing", r"rec/radar/iq: samples . to .: tests.toy:failing: first line second line"),
        ("wordy", r"tests.toy:wordy: a: samples of \(\) and <U4 cannot be stored in a channel: type: unknown type"),
        ("unsure", r"tests.toy:unsure: valid: an array of \(1, 2\) does not hold one sample for each of 1 frame"),
        ("whole", r"tests.toy:whole: a: samples of \[3\] i4, its output declares \[word\] f4$"),
        ("flat", r"tests.toy:flat: a: samples of \[\] f8, its output declares \[word\]$"),
        ("mistyped", r"rec/radar/iq: samples . to .: tests.toy:mistyped: AttributeError: .*'summ'"),
        ("sonar", "rec/sonar: no such sensor; tests.toy:sonar needs sonar/echo"),
    ],
)
def test_a_step_that_breaks_its_declaration_fails_with_one_line_and_leaves_no_result(
    name: str, problem: str, trace: Path
) -> None:
    with pytest.raises(RoverError, match=problem) as caught:
        run(name, trace)
    assert "\n" not in str(caught.value)
    assert not (trace / "_toy").exists()


@pytest.mark.parametrize("options", [{"facto": 1}, {"factor": -1}, {"factor": "x"}])
def test_options_of_a_step_are_checked_before_anything_is_made(options: dict[str, Any], trace: Path) -> None:
    with pytest.raises(ConfigError, match=r"config: tests.toy:gain.facto"):
        run("gain", trace, **options)
    assert not (trace / "_toy").exists()


def test_an_error_of_a_step_without_frames_names_no_samples(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> dict[str, bytes]:
        raise RoverError("a process was killed")

    monkeypatch.setattr("rover_pipeline.report.steps.report_files", fails)
    with pytest.raises(RoverError, match=r"^rover_pipeline\.report\.steps:report: a process was killed$"):
        run_step(find_step("_report"), trace, "_report", Request({}))


def test_sensors_of_unequal_times_are_an_error_that_names_them(trace: Path) -> None:
    ts = Sensor(trace / "lidar").times(FRAMES)
    (ts + 1e-6).tofile(trace / "lidar" / "ts")
    with pytest.raises(FormatError, match="rec/radar: its ts differs from that of lidar"):
        run("both", trace)


def test_a_missing_file_is_an_error_unless_it_is_optional(trace: Path) -> None:
    (trace / "radar" / "radar.json").unlink()
    run("both", trace)
    assert "radar/radar.json" not in provenance(trace)["inputs"]
    (trace / "lidar" / "lidar.json").write_bytes(b"\xff\xfe")
    with pytest.raises(FormatError, match=r"lidar/lidar.json: is not text: byte 0 is no UTF-8"):
        run("both", trace)


@pytest.mark.parametrize("text", [" ", "{", "[]"])
def test_an_optional_file_that_is_damaged_does_not_pass_for_a_missing_one(text: str, trace: Path) -> None:
    (trace / "lidar" / "lidar.json").write_text(text)
    with pytest.raises(FormatError, match=r"lidar/lidar.json: (is not|must be)"):
        run("both", trace)


# --- Several processes at the same time -------------------------------------------------------------------------


def test_the_result_of_a_process_that_was_waited_for_is_not_made_again(trace: Path) -> None:
    results: list[StepResult] = []
    threads = [threading.Thread(target=lambda: results.append(run("gain", trace))) for _ in range(3)]
    with VirtualWriter(trace / "_toy"):  # all three come while this one holds the lock
        for thread in threads:
            thread.start()
        time.sleep(0.3)
    for thread in threads:
        thread.join(20)
    assert sorted(result.seconds == 0 for result in results) == [False, True, True]
    assert {result[:2] for result in results} == {(FRAMES, 1)}


def test_an_older_result_is_not_taken_for_that_of_a_process_that_failed(trace: Path) -> None:
    run("gain", trace)
    (trace / "radar" / "valid").write_bytes(bytes(FRAMES))
    with pytest.raises(ZeroDivisionError), VirtualWriter(trace / "_toy"):
        results: list[StepResult] = []
        thread = threading.Thread(target=lambda: results.append(run("gain", trace)))
        thread.start()
        time.sleep(0.3)
        raise ZeroDivisionError
    thread.join(20)
    assert results[0].invalid == FRAMES and read(trace, "valid").tolist() == [0] * FRAMES


@pytest.mark.parametrize("missing", [META, ".options-2"])
def test_a_half_published_result_is_not_taken_for_a_whole_one(missing: str, trace: Path) -> None:
    described = find_step("tests.toy:gain")
    results: list[StepResult] = []
    with VirtualWriter(trace / "_toy"):
        stamps = (".options-2",)
        thread = threading.Thread(
            target=lambda: results.append(run_step(described, trace, "_toy", Request(), stamps=stamps))
        )
        thread.start()
        time.sleep(0.3)
        # What the process before us would have left when killed.
        run_step(described, make_copy(trace), "_toy", Request(), stamps=stamps)
        (trace / "_toy").mkdir()
        for path in (trace.with_name("copy") / "_toy").iterdir():
            if path.name != missing:
                shutil.copy(path, trace / "_toy" / path.name)
    thread.join(20)
    assert results[0].seconds > 0
    check_whole(described, trace / "_toy")


def make_copy(trace: Path) -> Path:
    """The same recording once more, without results."""
    return shutil.copytree(trace, trace.with_name("copy"), ignore=shutil.ignore_patterns("_*"))


@pytest.mark.system
def test_a_distributed_scheduler_gives_the_bytes_and_errors_of_threads(trace: Path) -> None:
    from distributed import LocalCluster

    described = find_step("_lidar_image")
    request = Request(input=InputOptions(truncate=False, mark_corrupt=True))
    data = bytearray((trace / "lidar" / "rng").read_bytes())
    data[int(np.fromfile(trace / "lidar" / "rng_i", "<u8")[7]) + 40] ^= 0xFF
    (trace / "lidar" / "rng").write_bytes(data)
    there = make_copy(trace)
    run_step(described, trace, "_toy", request)
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster:
        options = DaskOptions(chunk=ByteSize(1), scheduler=cluster.scheduler_address)
        result = run_step(described, there, "_toy", request, dask=options)
        assert (result.samples, result.invalid) == (FRAMES, 2)
        # Codecs are loaded by the workers; the process that asked may never need them.
        ignored = ("time", "packages")
        assert_same(snapshot(there / "_toy", ignored), snapshot(trace / "_toy", ignored), "distributed")
        shutil.rmtree(there / "_toy")
        with pytest.raises(SampleError, match=r"lidar/rng: sample 7 at byte .* is corrupt") as caught:
            run_step(described, there, "_toy", Request(), dask=options)
        assert caught.value.sample == 7 and not (there / "_toy").exists()


@pytest.mark.parametrize(
    ("name", "problem"),
    [("radar/_radar_point", "did you mean '_radar_points'"), ("rader/_radar_points", "no room 'rader' has a table")],
)
def test_a_room_or_a_sensor_that_is_not_there_is_named(name: str, problem: str) -> None:
    assert step_of_room("radar/_radar_points") is find_step("_radar_points")
    with pytest.raises(ConfigError, match=problem):
        step_of_room(name)
