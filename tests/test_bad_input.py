"""A bad recording causes one line of error that names the file, a non-zero exit code, and no partial result."""

from __future__ import annotations

import errno
import gc
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

from rover_pipeline.cli import main
from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.errors import InTheWayError, RoverError, named_if_not_written
from rover_pipeline.format.failures import FOLDER
from rover_pipeline.format.meta import META
from rover_pipeline.format.provenance import PROVENANCE
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.options import InputOptions
from rover_pipeline.table import find_step
from rover_pipeline.workflow.flow import Flow
from tests.kit import SMALL_FILES, environment, pictures, small_trace, snapshot, step_command, times
from tests.workflow.runs import snakemake

FRAMES = 6
#: A virtual sensor that is made from each raw one.
STEPS = {"lidar": "_lidar_image", "radar": "_radar_range_doppler"}


def meta(sensor: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the content of a sensor's `meta.json`."""
    content = json.loads((sensor / META).read_text())
    change(content)
    (sensor / META).write_text(json.dumps(content))


def offset(trace: Path, channel: str, sample: int) -> int:
    """Byte at which a sample of a compressed channel begins."""
    return int(np.fromfile(trace / f"{channel}_i", "<u8")[sample])


def corrupt(trace: Path, channel: str = "lidar/rng", sample: int = 3) -> None:
    data = bytearray((trace / channel).read_bytes())
    data[offset(trace, channel, sample) + 40] ^= 0xFF
    (trace / channel).write_bytes(data)


def cut(path: Path, size: int) -> None:
    """Cut a file to a size; a negative one is the number of bytes to remove."""
    os.truncate(path, size if size >= 0 else path.stat().st_size + size)


def emptied(trace: Path, name: str) -> None:
    cut(trace / "radar" / name, 0)


def each(*actions: Callable[[Path], object]) -> Callable[[Path], None]:
    """Several kinds of damage, one after the other."""

    def damage(trace: Path) -> None:
        for action in actions:
            action(trace)

    return damage


def with_ts(path: Path, at: int, value: float) -> None:
    ts = times(FRAMES)
    ts[at] = value
    ts.tofile(path)


class Bad(NamedTuple):
    """A damage to a recording, and the message that it must cause."""

    damage: Callable[[Path], object]
    message: str
    sensor: str = "radar"
    options: Mapping[str, Any] = {}
    #: The message of `check`; "" = the same as that of the step, None = the recording itself is not damaged.
    check: str | None = ""


CASES = {
    "meta.json is not JSON": Bad(
        lambda t: (t / "radar/meta.json").write_text('{"iq": '), "radar/meta.json: is not valid JSON"
    ),
    "meta.json is no object": Bad(
        lambda t: (t / "radar/meta.json").write_text("[1]"), "radar/meta.json: must hold a JSON object, holds a list"
    ),
    "meta.json is missing": Bad(
        lambda t: (t / "radar/meta.json").unlink(),
        "radar/meta.json: cannot be read: No such file",
        check="radar: has no meta.json",
    ),
    "unknown channel format": Bad(
        lambda t: meta(t / "radar", lambda m: m["iq"].update(format="rwa")),
        "radar/meta.json: channel 'iq' has unknown format 'rwa'; did you mean 'raw'?",
    ),
    "wrong type for the file size": Bad(
        lambda t: meta(t / "radar", lambda m: m["iq"].update(type="i4")), "radar/iq: has 3 samples where ts has 6"
    ),
    "wrong shape for the file size": Bad(
        lambda t: meta(t / "radar", lambda m: m["iq"].update(shape=[4, 2, 4, 36])),
        "radar/radar.json: describes samples of [4, 2, 4, 32], iq holds [4, 2, 4, 36]",
    ),
    "shape that claims terabytes": Bad(
        lambda t: meta(t / "radar", lambda m: m["iq"].update(shape=[1 << 20, 1 << 20])),
        "radar/meta.json: channel 'iq': shape [1048576, 1048576] of i2 claims 2,199,023,255,552 bytes a sample",
    ),
    "channel name above the sensor": Bad(
        lambda t: meta(t / "radar", lambda m: m.update({"../x": m["iq"]})),
        "radar/meta.json: channel name '../x' leaves the sensor's directory",
    ),
    "channel name from the root": Bad(
        lambda t: meta(t / "radar", lambda m: m.update({"/etc/passwd": m["iq"]})),
        "radar/meta.json: channel name '/etc/passwd' leaves the sensor's directory",
    ),
    "channel file is missing": Bad(
        lambda t: (t / "radar/iq").unlink(), "radar/iq: is listed in meta.json but iq is missing"
    ),
    "empty file": Bad(lambda t: cut(t / "radar/iq", 0), "radar/iq: holds no samples", check="radar/iq: has 0 samples"),
    "no frames": Bad(
        each(*(partial(emptied, name=name) for name in ("ts", "iq", "valid"))),
        "radar/ts: holds no samples"
    ),
    "partial last sample": Bad(
        lambda t: cut(t / "radar/iq", -100),
        "radar/iq: 12,188 bytes is not a whole number of 2,048-byte samples; the last 1,948 bytes, from byte 10240",
    ),
    "channels of unequal length": Bad(
        lambda t: cut(t / "radar/ts", 32),
        "radar/iq: has 6 samples where ts has 4",
        check="radar/iq: has 6 samples where ts has 4",
    ),
    "ts is missing": Bad(
        lambda t: (t / "radar/ts").unlink(), "radar/ts: is listed in meta.json but ts is missing"
    ),
    "ts is not listed": Bad(
        lambda t: meta(t / "radar", lambda m: m.pop("ts")),
        "radar: meta.json lists no channel 'ts'",
        check="radar: meta.json does not list ts",
    ),
    "ts of another type": Bad(
        each(
            lambda t: np.arange(6, dtype="f4").tofile(t / "radar/ts"),
            lambda t: meta(t / "radar", lambda m: m["ts"].update(type="f4")),
        ),
        "radar/ts: must be f8 of [], is f4 of []",
    ),
    "NaN in ts": Bad(lambda t: with_ts(t / "radar/ts", 4, np.nan), "radar/ts: sample 4 at byte 32: is nan, not a time"),
    "decreasing ts": Bad(
        lambda t: with_ts(t / "radar/ts", 3, 1.5), "radar/ts: sample 3 at byte 24: 1.500000 s does not come after"
    ),
    "valid that is neither 0 nor 1": Bad(
        lambda t: np.array([1, 1, 7, 1, 1, 1], "u1").tofile(t / "radar/valid"),
        "radar/valid: sample 2 at byte 2: is 7, must be 0 or 1",
    ),
    "sidecar of another shape": Bad(
        lambda t: (t / "radar/radar.json").write_text('{"shape": [4, 2, 4, 99]}'),
        "radar/radar.json: describes samples of [4, 2, 4, 198], iq holds [4, 2, 4, 32]",
    ),
    "sidecar that is no sidecar": Bad(
        lambda t: (t / "radar/radar.json").write_text("[]"),
        "radar/radar.json: is not what a radar sidecar must be",
    ),
    "sensor is missing": Bad(
        lambda t: shutil.rmtree(t / "radar"), "radar: no such sensor; rover_pipeline.radar.steps:range_doppler needs",
        check=None,
    ),
    "directory in the way": Bad(
        each(
            lambda t: (t / "_radar_range_doppler").mkdir(),
            lambda t: (t / "_radar_range_doppler" / "pose.npz").touch(),
        ),
        "_radar_range_doppler: was not made by rover_pipeline (it holds 'pose.npz'",
        check=None,
    ),
    "misspelled option": Bad(
        lambda t: None, "range_windw: unknown key; did you mean 'range_window'?",
        options={"range_windw": "hann"}, check=None,
    ),
    "option out of its range": Bad(
        lambda t: None, "range_window: Input should be 'hann' or 'none' (got 'hamming')",
        options={"range_window": "hamming"}, check=None,
    ),
    "truncated lzmaf": Bad(
        lambda t: cut(t / "lidar/rng", -9), "lidar/rng: the last {left} bytes, from byte {last}, are part of a sample",
        "lidar",
    ),
    "corrupt lzmaf frame": Bad(
        lambda t: corrupt(t), "lidar/rng: sample 3 at byte {third}: is corrupt", "lidar"
    ),
    "corrupt lzmaf frame without an index": Bad(
        each(corrupt, lambda t: (t / "lidar/rng_i").unlink()),
        "lidar/rng: sample 3 at byte {third}: is corrupt",
        "lidar",
    ),
    "lzmaf frame of another size": Bad(
        lambda t: meta(t / "lidar", lambda m: m["nir"].update(shape=[8, 16])),
        "lidar/lidar.json: describes samples of [8, 32], nir holds [8, 16]",
        "lidar",
    ),
    "index that does not rise": Bad(
        lambda t: np.array([0, 9, 5], "<u8").tofile(t / "lidar/rfl_i"),
        "lidar/rfl_i: entry 2 at byte 16: offsets must rise from 0",
        "lidar",
    ),
    "lidar.json is missing": Bad(
        lambda t: (t / "lidar/lidar.json").unlink(), "lidar/lidar.json: No such file or directory", "lidar",
        check="lidar/lidar.json: is missing",
    ),
    "lidar.json of another sensor": Bad(
        lambda t: (t / "lidar/lidar.json").write_text("{}"), "lidar/lidar.json: is not what a lidar sidecar must be",
        "lidar",
    ),
    "lidar.json is a list": Bad(
        lambda t: (t / "lidar/lidar.json").write_text("[]"), "lidar/lidar.json: is not what a lidar sidecar must be",
        "lidar",
    ),
    "ranges with their axes swapped": Bad(
        lambda t: meta(t / "lidar", lambda m: m["rfl"].update(shape=[32, 8])),
        "lidar/lidar.json: describes samples of [8, 32], rfl holds [32, 8]",
        "lidar",
    ),
    "samples of another kind of number": Bad(
        lambda t: meta(t / "radar", lambda m: m["iq"].update(type="u2")), "radar/iq: is u2, must be i2"
    ),
    "a sidecar of random bytes": Bad(
        lambda t: (t / "radar/radar.json").write_bytes(np.random.default_rng(0).bytes(5000)),
        "radar/radar.json: is not text: byte",
    ),
    "a named pipe as a channel": Bad(
        each(lambda t: (t / "radar/iq").unlink(), lambda t: os.mkfifo(t / "radar/iq")),
        "radar/iq: is a named pipe where a file belongs",
    ),
    "a sparse ts": Bad(lambda t: os.truncate(t / "radar/ts", 100 << 20), "radar/ts: holds 13107200 samples,"),
    "a sparse index": Bad(
        lambda t: os.truncate(t / "lidar/rng_i", 100 << 20), "lidar/rng_i: has 104,857,600 bytes, more than", "lidar"
    ),
    "a lidar of 2^31 x 2^31": Bad(
        lambda t: (t / "lidar/lidar.json").write_text(
            json.dumps({"lidar_data_format": {"pixels_per_column": 1 << 31, "columns_per_frame": 1 << 31}})
        ),
        "lidar/lidar.json: is not what a lidar sidecar must be", "lidar",
    ),
}  # fmt: skip


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return small_trace(tmp_path / "rec", FRAMES)


def expected(text: str, trace: Path) -> str:
    """A message with byte numbers of this recording filled in."""
    if "{" not in text:
        return text
    size, last = (trace / "lidar/rng").stat().st_size, offset(trace, "lidar/rng", 5)
    return text.format(left=size - 9 - last, last=last, third=offset(trace, "lidar/rng", 3))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_step_fails_with_one_line_and_changes_no_file(
    case: Bad, trace: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    message = expected(case.message, trace)
    case.damage(trace)
    before = snapshot(trace)
    name = STEPS[case.sensor]
    status = main(step_command(name, trace / name, Request(case.options))[3:])
    printed = capfd.readouterr()
    assert status == 1 and printed.out == ""
    # The kernels may be compiled first, which is told.
    lines = [line for line in printed.err.splitlines() if not line.startswith("compiling ")]
    assert len(lines) == 1, printed.err
    assert lines[0].startswith("rover-pipeline: ") and message in lines[0]
    after = snapshot(trace)
    assert after.pop(FOLDER) == b"folder"
    assert message in json.loads(after.pop(f"{FOLDER}/{name}.json"))["reason"]  # for the end of the run, and the page
    assert after == before, "something was left or changed"
    assert gc.isenabled(), "the collector works again after the command"


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_check_reports_the_damage_with_exit_1_and_names_no_other_sensor(
    case: Bad, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    message = expected(case.message if case.check == "" else case.check or "", trace)
    case.damage(trace)
    status = main(["check", str(trace), "--threads", "2"])
    lines = capsys.readouterr().out.splitlines()
    if case.check is None:
        assert (status, lines) == (0, [])
    else:
        assert status == 1
        assert [message in line for line in lines].count(True) == 1, lines
        assert all(f"{trace}/{case.sensor}" in line for line in lines), lines


def test_check_of_a_clean_trace_prints_nothing_with_exit_0(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in STEPS.values():
        run_step(find_step(name), trace, name, Request())
    everything = small_trace(trace.with_name("rec2"), 4, sensors=["lidar", "radar", "camera", "imu"])
    assert main(["check", str(trace), str(everything)]) == 0
    assert capsys.readouterr().out == ""
    assert main(["check", "--json", str(trace)]) == 0
    assert json.loads(capsys.readouterr().out) == {str(trace): []}


ODDITIES: dict[str, tuple[Callable[[Path], object], str]] = {
    "no config.yaml": (lambda t: (t / "config.yaml").unlink(), "rec: has no config.yaml"),
    "a killed run": (lambda t: (t / ".partial" / f"_x.1-{'0' * 16}").mkdir(parents=True), "_x: is unfinished"),
    "a clock that was not set": (
        lambda t: np.arange(6.0).tofile(t / "imu/ts"),
        "imu/ts: runs from 0.000 to 5.000, not seconds since 1970",
    ),
    "a missing index": (lambda t: (t / "lidar/nir_i").unlink(), "lidar/nir_i: is missing or empty; indexed 6 samples"),
    "a missing sidecar": (lambda t: (t / "radar/radar.json").unlink(), "radar/radar.json: is missing"),
    "input that changed since": (
        lambda t: np.zeros(6, "u1").tofile(t / "radar/valid"),
        "_radar_range_doppler: was made from other bytes of radar/valid",
    ),
    "input that cannot be found since": (
        each(lambda t: (t / "lidar/nir").unlink(), lambda t: (t / "lidar/meta.json").unlink()),
        "lidar: has no meta.json",
    ),
    "a result that lost its valid": (
        lambda t: meta(t / "_lidar_image", lambda m: m.pop("valid")),
        "_lidar_image: has a provenance.json of ours but no channel valid",
    ),
    "a provenance that is damaged": (
        lambda t: (t / "_lidar_image" / PROVENANCE).write_text('{"made_by": "rover_pipeline", "inputs": [1]}'),
        "_lidar_image/provenance.json: is damaged",
    ),
    "a picture that is cut off": (
        lambda t: cut(t / "_pictures/image/000001.jpg", -5),
        "_pictures/image: sample 1: 000001.jpg is a JPEG without its end",
    ),
    "a folder among pictures": (
        each(
            lambda t: (t / "_pictures/image/000001.jpg").unlink(),
            lambda t: (t / "_pictures/image/000001.jpg").mkdir(),
        ),
        "_pictures/image",
    ),
    "a stray file among pictures": (
        lambda t: (t / "_pictures/image/.DS_Store").touch(),
        "_pictures/image: holds '.DS_Store'",
    ),
    "a clock that was set": (
        lambda t: np.append(times(3), times(3) + 864_000).tofile(t / "imu/ts"),
        "imu/ts: sample 3 at byte 24: comes 863999.800 s (10.00 days) after the one before: the clock was set",
    ),
    "a provenance that names files elsewhere": (
        lambda t: (t / "_lidar_image" / PROVENANCE).write_text(
            '{"made_by": "rover_pipeline", "inputs": {}, "files": ["../radar/iq"]}'
        ),
        "_lidar_image/provenance.json: is damaged: '../radar/iq' is no name of a file",
    ),
    "a provenance whose files are no list": (
        lambda t: (t / "_lidar_image" / PROVENANCE).write_text('{"made_by": "rover_pipeline", "files": 5}'),
        "_lidar_image/provenance.json: is damaged: files is no list",
    ),
    "a config.yaml that explodes": (
        lambda t: (t / "config.yaml").write_text("a: &a [*a]"),
        "config.yaml: holds more than 100,000 values once its aliases are filled in",
    ),
    "every frame of a channel corrupt": (
        each(*(partial(corrupt, sample=sample) for sample in range(6))),
        "lidar/rng: sample 5 at byte",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("damage", "message"), ODDITIES.values(), ids=ODDITIES)
def test_check_reports_problems_that_no_step_notices(
    damage: Callable[[Path], object], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = small_trace(tmp_path / "rec", FRAMES, sensors=["lidar", "radar", "imu"])
    for name in STEPS.values():
        run_step(find_step(name), trace, name, Request())
    add_pictures(trace / "_pictures")
    assert main(["check", str(trace)]) == 0
    damage(trace)
    assert main(["check", str(trace)]) == 1
    found = capsys.readouterr()
    assert [message in line for line in found.out.splitlines()].count(True) == 1, found.out + found.err
    assert "unexpected" not in found.err


def add_pictures(sensor: Path) -> None:
    """A sensor of three pictures by another program."""
    from rover_pipeline.format.sensor import TS, TS_SPEC, SensorWriter
    from tests.kit import spec_of

    images = pictures(3, 16, 16)
    with SensorWriter(sensor, {TS: TS_SPEC, "image": spec_of(images, "jpg")}) as writer:
        writer.append(ts=times(3), image=images)


def test_a_recording_that_was_cut_off_is_used_up_to_its_shortest_channel(trace: Path) -> None:
    whole = shutil.copytree(trace, trace.with_name("whole"))
    cut(trace / "radar/iq", -100)  # 5 whole samples, beside 6 of ts and 7 of valid
    (trace / "radar/valid").write_bytes((trace / "radar/valid").read_bytes() + b"\1")
    name = STEPS["radar"]
    run_step(find_step(name), whole, name, Request())
    result = run_step(find_step(name), trace, name, Request(input=InputOptions(truncate=True, mark_corrupt=False)))
    assert (result.samples, result.invalid) == (5, 1)
    made, wanted = Sensor(trace / name), Sensor(whole / name)
    assert made.length() == 5
    for channel in ("ts", "valid", "power"):
        assert made.channel(channel).read().tobytes() == wanted.channel(channel).read(0, 5).tobytes()
    provenance = json.loads((trace / name / PROVENANCE).read_text())
    assert provenance["samples"] == 5 and provenance["dropped"] >= 1
    assert any("the last 1,948 bytes" in note for note in provenance["notes"])
    assert not any(str(trace) in note for note in provenance["notes"]), "paths are relative to the trace"


def test_a_corrupt_frame_is_zero_and_not_valid_with_mark_corrupt(trace: Path) -> None:
    whole = shutil.copytree(trace, trace.with_name("whole"))
    corrupt(trace, sample=3)
    corrupt(trace, "lidar/nir", 0)
    name = STEPS["lidar"]
    run_step(find_step(name), whole, name, Request())
    request = Request(input=InputOptions(truncate=False, mark_corrupt=True))
    result = run_step(find_step(name), trace, name, request, threads=2)
    assert (result.samples, result.invalid) == (6, 3)
    made, wanted = Sensor(trace / name), Sensor(whole / name)
    assert made.valid(6).tolist() == [0, 0, 1, 0, 1, 1], "sample 1 was not valid in the recording either"
    for channel, bad in (("rng", 3), ("nir", 0), ("rfl", None)):
        found, right = made.channel(channel).read(), wanted.channel(channel).read()
        for frame in range(6):
            assert np.array_equal(found[frame], 0 * right[frame] if frame == bad else right[frame])
    provenance = json.loads((trace / name / PROVENANCE).read_text())
    assert (provenance["corrupt"], provenance["invalid"]) == (2, 3)
    assert provenance["input"]["mark_corrupt"] is True


def test_a_missing_index_is_rebuilt_and_noted_and_the_recording_is_not_written_to(trace: Path) -> None:
    name = STEPS["lidar"]
    run_step(find_step(name), trace, name, Request())
    wanted = snapshot(trace / name)
    (trace / "lidar/rng_i").unlink()
    before = snapshot(trace / "lidar")
    run_step(find_step(name), trace, name, Request())
    found = snapshot(trace / name)
    assert {key for key in wanted if found[key] != wanted[key]} == {PROVENANCE}
    assert "lidar/rng_i: is missing or empty; indexed 6 samples" in found[PROVENANCE].decode()
    assert snapshot(trace / "lidar") == before


@pytest.mark.system
def test_the_workflow_ends_with_the_errors_and_makes_the_other_results(trace: Path, tmp_path: Path) -> None:
    third = offset(trace, "lidar/rng", 3)
    corrupt(trace)
    cut(trace / "radar/iq", -100)
    failed = snakemake(tmp_path, trace)
    assert failed.returncode != 0
    ending = failed.stderr[failed.stderr.rindex("rover-pipeline: failed:") :]
    assert f"{trace}/lidar/rng: sample 3 at byte {third}: is corrupt" in ending
    assert f"{trace}/radar/iq: 12,188 bytes is not a whole number" in ending and "input.truncate" in ending
    assert "Traceback" not in failed.stderr
    assert not [path for path in trace.rglob("_*/*") if path.is_file()], "nothing half-written"

    used = snakemake(tmp_path, trace, config={"input": {"truncate": True, "mark_corrupt": True}})
    assert used.returncode == 0, used.stderr
    assert Sensor(trace / "_lidar_image").valid(6).tolist() == [1, 0, 1, 0, 1, 1]
    assert Sensor(trace / "_radar_range_doppler").length() == 5


@pytest.mark.system
def test_the_installed_command_ends_with_the_error(trace: Path, tmp_path: Path) -> None:
    with_ts(trace / "radar/ts", 4, np.nan)
    command = [sys.executable, "-m", "rover_pipeline", "run", str(trace), "--outputs", "radar_range_doppler"]
    here = tmp_path / "here"
    here.mkdir()
    done = subprocess.run(
        command, cwd=here, env=environment(), capture_output=True, text=True, timeout=120, check=False
    )
    assert list(here.iterdir()) == [], "notes and logs of the run are in the cache"
    assert not [path for path in trace.rglob("*") if path.name in (".snakemake", "logs")]
    assert done.returncode != 0 and "Traceback" not in done.stderr
    tail = done.stderr[done.stderr.rindex("rover-pipeline: failed:") :]
    assert re.search(rf"{trace}/radar/ts: sample 4 at byte 32: is nan, not a time", tail)
    assert not (trace / "_radar_range_doppler" / META).exists()


def test_a_full_disk_is_an_error_that_names_the_result_and_leaves_no_part_of_it(trace: Path) -> None:
    name = STEPS["lidar"]
    # A limit on the size of files fails in the same way as a full disk, at the first write beyond it.
    limited = [
        *SMALL_FILES,
        *step_command(name, trace / name, Request()),
    ]
    done = subprocess.run(limited, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == (
        f"rover-pipeline: {trace / name}: cannot be written: File too large; nothing of it is left behind\n"
    )
    assert not (trace / name).exists()


def test_a_damaged_result_is_to_be_made_again_not_recorded_again(trace: Path) -> None:
    for damage in (lambda path: cut(path, -3), lambda path: cut(path, 0)):
        name = STEPS["lidar"]
        run_step(find_step(name), trace, name, Request())
        damage(trace / name / "rng")
        with pytest.raises(RoverError, match=rf"{trace / name}/rng: .*remove {trace / name} and make it again$"):
            Sensor(trace / name).length()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_an_error_of_writing_names_the_result_instead_of_a_scratch_file(number: int, tmp_path: Path) -> None:
    path, scratch = tmp_path / "_lidar_image", tmp_path / "_lidar_image" / ".lock"
    message = rf"^{path}: cannot be written: {os.strerror(number)}; nothing of it is left"
    with pytest.raises(RoverError, match=message), named_if_not_written(path):
        raise OSError(number, os.strerror(number), str(scratch))
    missing = OSError(errno.ENOENT, "No such file or directory", "input")
    with pytest.raises(FileNotFoundError), named_if_not_written(path):
        raise missing


def test_a_read_only_recording_is_an_error_before_any_job_unless_its_results_exist(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writable = {tmp_path / "out": True, trace: False}
    monkeypatch.setattr("rover_pipeline.caches.os.access", lambda path, mode: writable[Path(path)])
    (tmp_path / "out").mkdir()

    def asked(**config: object) -> list[str]:
        flow = Flow({"traces": str(trace), "outputs": "lidar_image", **config}, tmp_path)
        rule = SimpleNamespace(input=[flow.needs("_lidar_image")], output=flow.makes("_lidar_image"))
        return flow.targets([rule])

    with pytest.raises(InTheWayError, match=rf"{trace}: cannot be written to; set output_root"):
        asked()
    (stamp,) = asked(output_root=str(tmp_path / "out"))
    run_step(find_step("_lidar_image"), trace, "_lidar_image", Request(), stamps=(Path(stamp).name,))
    assert asked() == [f"{trace}/_lidar_image/{Path(stamp).name}"]
