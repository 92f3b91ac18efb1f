"""A virtual sensor is complete or absent, and files that others made are never touched."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rover_pipeline.errors import InTheWayError, RoverError
from rover_pipeline.format import attempt
from rover_pipeline.format.attempt import LOCK, PARTIAL, attempts
from rover_pipeline.format.meta import META, ChannelSpec
from rover_pipeline.format.provenance import MADE_BY, PROVENANCE
from rover_pipeline.format.sensor import TS, TS_SPEC, Sensor
from rover_pipeline.format.virtual import VirtualWriter, in_the_way
from tests.kit import WHOLE, check_kills, environment, pictures, snapshot, spec_of, times

VALUES = ChannelSpec(format="raw", type="f4", shape=(2,), desc="[x]")
STREAM = ChannelSpec(format="npz", type="f4", shape=(2,), desc="[x]")


def make(path: Path, *, count: int = 3, value: float = 1.0, channel: str = "values", format: str = "raw") -> None:
    """Make a small virtual sensor."""
    spec = VALUES if format == "raw" else STREAM
    values = np.full((count, 2), value, "f4")
    with VirtualWriter(path) as writer:
        writer.create({TS: TS_SPEC, channel: spec}, count)
        writer.fill(TS, times(count))
        if format == "raw":
            writer.fill(channel, values)
        else:
            writer.stream(channel).append(values)
        writer.commit({"step": "test"})


def test_a_result_appears_only_when_it_is_committed(tmp_path: Path) -> None:
    path = tmp_path / "_x"
    with VirtualWriter(path) as writer:
        writer.create({TS: TS_SPEC, "values": VALUES, "pile": STREAM}, 2)
        writer.fill(TS, times(2))
        writer.fill("values", np.ones((2, 2), "f4"))
        writer.stream("pile").append(np.ones((2, 2), "f4"))
        assert not path.exists() and attempts(path) == [writer.partial]
        writer.commit({"step": "test"})
        assert (path / META).exists()
    assert {entry.name for entry in path.iterdir()} == {META, PROVENANCE, TS, "values", "pile"}
    assert Sensor(path).length() == 2
    provenance = json.loads((path / PROVENANCE).read_text())
    assert (provenance["made_by"], provenance["sensor"]) == (MADE_BY, "_x")
    assert provenance["files"] == ["pile", TS, "values"]


def test_a_folder_that_cannot_be_written_to_is_named_and_not_the_scratch_folder_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mkdir(path: Path, *_: object, real: Any = os.mkdir) -> None:
        if Path(path).name == PARTIAL:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        real(path)

    monkeypatch.setattr(os, "mkdir", mkdir)
    with pytest.raises(InTheWayError, match=f"^{tmp_path}: Permission denied; choose a folder"):
        attempt.Attempt(tmp_path / "result").begin()


def test_a_failed_or_abandoned_run_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), VirtualWriter(tmp_path / "_x") as writer:
        writer.create({TS: TS_SPEC, "pile": STREAM}, 2)
        raise ZeroDivisionError
    with VirtualWriter(tmp_path / "_x") as writer:
        writer.create({TS: TS_SPEC}, 2)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("format", ["raw", "npz"])
def test_a_failed_run_leaves_the_older_result_as_it_was(format: str, tmp_path: Path) -> None:
    make(tmp_path / "_x", format=format)
    before = snapshot(tmp_path)
    with pytest.raises(KeyboardInterrupt), VirtualWriter(tmp_path / "_x") as writer:
        writer.create({TS: TS_SPEC, "values": VALUES}, 5)
        raise KeyboardInterrupt
    assert snapshot(tmp_path) == before


def test_a_channel_that_was_not_filled_to_its_length_is_never_published(tmp_path: Path) -> None:
    with (
        pytest.raises(RoverError, match="pile: has 1 sample of 2"),
        VirtualWriter(tmp_path / "_x") as writer,
    ):
        writer.create({TS: TS_SPEC, "pile": STREAM}, 2)
        writer.stream("pile").append(np.ones((1, 2), "f4"))
        writer.commit({})
    assert list(tmp_path.iterdir()) == []


def test_a_new_result_replaces_the_old_one_and_keeps_the_files_of_others(tmp_path: Path) -> None:
    path = tmp_path / "_x"
    make(path, channel="before", format="npz")
    (path / "pose.npz").write_bytes(b"mine")
    (path / "notes").mkdir()
    (path / "notes" / "a.txt").write_text("mine too")
    make(path, count=4, value=2.0, channel="after")
    assert {entry.name for entry in path.iterdir()} == {META, PROVENANCE, TS, "after", "pose.npz", "notes"}
    assert (path / "pose.npz").read_bytes() == b"mine" and (path / "notes" / "a.txt").read_text() == "mine too"
    assert Sensor(path).channel("after").read().tolist() == [[2.0, 2.0]] * 4


@pytest.mark.parametrize("when", ["create", "commit"])
def test_a_file_of_others_is_not_replaced_by_a_new_channel_of_its_name(when: str, tmp_path: Path) -> None:
    path = tmp_path / "_x"
    make(path)
    with (
        pytest.raises(
            InTheWayError, match="_x/notes: stands where a channel belongs and was not made by rover_pipeline"
        ),
        VirtualWriter(path) as writer,
    ):
        if when == "create":
            (path / "notes").write_text("mine")
            before = snapshot(path)
        writer.create({TS: TS_SPEC, "notes": VALUES}, 2)
        (path / "notes").write_text("mine")
        before = snapshot(path)
        writer.commit({})
    assert snapshot(path) == before and Sensor(path).length() == 3


def foreign(path: Path, kind: str) -> None:
    """Make something at `path` that is not a result of this program."""
    other = path.with_name("elsewhere")
    if kind == "file":
        path.write_text("precious")
    elif kind == "dangling link":
        path.symlink_to("nowhere")
    elif kind == "link to our result":
        make(other)
        path.symlink_to(other)
    else:
        path.mkdir()
        if kind == "sensor":
            (path / META).write_text("{}")
        elif kind == "pose":
            (path / "pose.npz").write_bytes(b"precious")
        elif kind == "provenance of others":
            (path / PROVENANCE).write_text('{"made_by": "somebody"}')
        elif kind == "damaged provenance":
            (path / PROVENANCE).write_text('{"made_by": "rover_pi')


@pytest.mark.parametrize(
    "kind",
    ["file", "dangling link", "link to our result", "sensor", "pose", "provenance of others", "damaged provenance"],
)
def test_files_of_others_in_the_way_are_named_and_not_touched(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "_lidar"
    foreign(path, kind)
    before, link = snapshot(tmp_path), path.is_symlink() and os.readlink(path)
    assert str(path) in in_the_way(path)
    with pytest.raises(InTheWayError, match=f"{path}: .*(M|m)ove it"):
        make(path)
    assert snapshot(tmp_path) == before
    assert (path.is_symlink() and os.readlink(path)) == link


def test_an_empty_directory_or_what_a_killed_run_left_is_not_in_the_way(tmp_path: Path) -> None:
    assert in_the_way(tmp_path / "_x") == ""
    (tmp_path / PARTIAL / f"_x.1-{'0' * 16}").mkdir(parents=True)
    (tmp_path / PARTIAL / f"_x{LOCK}").write_text("process 1 on nowhere")
    (tmp_path / "_x").mkdir()
    assert in_the_way(tmp_path / "_x") == ""
    make(tmp_path / "_x")
    assert {entry.name for entry in (tmp_path / "_x").iterdir()} == {META, PROVENANCE, TS, "values"}


def test_a_second_writer_waits_for_the_first_and_knows_that_it_waited(tmp_path: Path) -> None:
    path = tmp_path / "_x"
    events: list[str] = []
    entered = threading.Event()

    def second() -> None:
        entered.wait(5)
        with VirtualWriter(path) as writer:
            events.append(f"second, waited {writer.attempt.waited}")
            assert Sensor(path).length() == 3, "the result of the first writer is complete by now"

    thread = threading.Thread(target=second)
    thread.start()
    with VirtualWriter(path) as writer:
        assert not writer.attempt.waited
        entered.set()
        writer.create({TS: TS_SPEC}, 3)
        writer.fill(TS, times(3))
        time.sleep(0.3)
        writer.commit({})
        events.append("first")
    thread.join(10)
    assert events == ["first", "second, waited True"]
    assert {entry.name for entry in path.iterdir()} == {META, PROVENANCE, TS}


def test_many_writers_of_one_sensor_never_work_at_the_same_time(tmp_path: Path) -> None:
    path, inside, maximum = tmp_path / "_x", [0], [0]
    guard = threading.Lock()

    def work(number: int) -> None:
        with VirtualWriter(path) as writer:
            with guard:
                inside[0] += 1
                maximum[0] = max(maximum[0], inside[0])
            if number % 2:
                writer.create({TS: TS_SPEC}, 1)
                writer.fill(TS, times(1))
                writer.commit({"number": number})
            with guard:
                inside[0] -= 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert maximum == [1] and inside == [0] and Sensor(path).length() == 1


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    code = (
        "import os, sys, pathlib; from rover_pipeline.format.virtual import VirtualWriter\n"
        "with VirtualWriter(pathlib.Path(sys.argv[1])): os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "_x")], env=environment(), check=False)
    assert done.returncode == -9 and len(attempts(tmp_path / "_x")) == 1
    begin = time.monotonic()
    make(tmp_path / "_x")
    assert time.monotonic() - begin < 1 and not (tmp_path / PARTIAL).exists()


@pytest.mark.parametrize("older", [False, True])
def test_a_disk_that_gets_full_at_any_moment_leaves_a_complete_result_or_none(
    older: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path / "expected" / "_x", value=7.0, format="npz")
    expected = snapshot(tmp_path / "expected" / "_x")
    path, failures = tmp_path / "t" / "_x", 0
    for moment in range(200):
        if older:
            make(path, value=7.0, format="npz")
        else:
            shutil.rmtree(path, ignore_errors=True)
        with monkeypatch.context() as patch:
            countdown = iter(range(moment))
            for name in ("fsync", "ftruncate", "pwrite", "replace"):
                patch.setattr(os, name, _failing(getattr(os, name), countdown))
            try:
                make(path, value=7.0, format="npz")
            except OSError as error:
                assert error.errno == 28
                failures += 1
            else:
                break
        assert not (path.parent / PARTIAL).exists()
        assert snapshot(path) == expected if older else not path.exists()
        make(path, value=7.0, format="npz")
        assert snapshot(path) == expected, "the next run is not blocked"
    assert failures > 10


def _failing(call: Any, countdown: Any) -> Any:
    def failing(*args: Any, **kwargs: Any) -> Any:
        if next(countdown, None) is None:
            raise OSError(28, "No space left on device")
        return call(*args, **kwargs)

    return failing


@pytest.mark.system
def test_a_writer_killed_at_any_moment_leaves_a_complete_result_or_none(tmp_path: Path) -> None:
    # In the whole campaign every moment at which the writer can be killed, else some of them.
    make_all_formats(tmp_path / "expected" / "_x")
    (tmp_path / "t").mkdir()
    check_kills(
        tmp_path / "t" / "_x",
        tmp_path / "expected" / "_x",
        10_000 if WHOLE else 24,
        make=f"{__name__}:make_all_formats",
    )


def make_all_formats(path: Path) -> None:
    """Make a virtual sensor with a channel in every format that can be written sample by sample."""
    images = pictures(2, 8, 8)
    specs = {format: spec_of(images, format) for format in ("raw", "lzmaf", "npz", "jpg", "mjpg")}
    with VirtualWriter(path) as writer:
        writer.create({TS: TS_SPEC, **specs}, 2)
        writer.fill(TS, times(2))
        writer.fill("raw", images)
        for format in ("lzmaf", "npz", "jpg", "mjpg"):
            writer.stream(format).append(images)
        writer.commit({"step": "test"})


HARMFUL = ["..", ".", "", "/", "../radar/iq", "precious", "notes/a.txt", 5, None, ["iq"], "x" * 300, "\0"]


def test_a_provenance_that_lists_paths_of_others_removes_none_of_them(tmp_path: Path) -> None:
    path, raw = tmp_path / "_x", tmp_path / "radar" / "iq"
    make(path)
    raw.parent.mkdir()
    raw.write_bytes(b"raw")
    (path / "precious").write_text("mine")
    for files in (HARMFUL, "..", 5, {"..": 1}, None):
        content = json.loads((path / PROVENANCE).read_text())
        (path / PROVENANCE).write_text(json.dumps({**content, "files": files}))
        # Files of ours that are not listed are taken for those of others, which is an error.
        with contextlib.suppress(InTheWayError), VirtualWriter(path, declared={"other"}) as writer:
            writer.create({"other": VALUES}, 1)
            writer.fill("other", np.ones((1, 2), "f4"))
            writer.commit({})
        assert raw.read_bytes() == b"raw" and (path / "precious").read_text() == "mine"
        assert sorted(entry.name for entry in tmp_path.iterdir()) == ["_x", "radar"]
        shutil.rmtree(path)
        make(path)
        (path / "precious").write_text("mine")


@pytest.mark.parametrize("kind", ["symbolic", "hard", "fifo", "folder"])
def test_a_lock_or_scratch_folder_that_leads_to_raw_data_is_refused(kind: str, tmp_path: Path) -> None:
    raw = tmp_path / "radar" / "iq"
    raw.parent.mkdir()
    raw.write_bytes(b"raw")
    lock = tmp_path / PARTIAL / f"_x{LOCK}"
    lock.parent.mkdir()
    if kind == "symbolic":
        lock.symlink_to("../radar/iq")
    elif kind == "hard":
        os.link(raw, lock)
    elif kind == "fifo":
        os.mkfifo(lock)
    else:
        lock.mkdir()
    with pytest.raises(InTheWayError, match=f"{lock}: is not a file of this program"):
        make(tmp_path / "_x")
    assert raw.read_bytes() == b"raw" and not (tmp_path / "_x").exists()
    shutil.rmtree(tmp_path / PARTIAL)
    (tmp_path / PARTIAL).symlink_to("radar")
    with pytest.raises(InTheWayError, match=r"\.partial: is not a folder of this program"):
        make(tmp_path / "_x")
    assert [entry.name for entry in raw.parent.iterdir()] == ["iq"]


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EXDEV, errno.ENOSYS])
def test_where_names_cannot_be_exchanged_files_are_replaced_and_an_error_takes_all_of_it_back(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exchange(*_arguments: object) -> int:
        ctypes.set_errno(number)
        return -1

    monkeypatch.setattr(attempt.ctypes, "CDLL", lambda *_, **__: SimpleNamespace(renameat2=exchange))
    path = tmp_path / "_x"
    make(path, channel="before", format="npz")
    (path / "pose.npz").write_bytes(b"mine")
    before, rename, failures = snapshot(path), os.rename, 0
    for moment in range(20):
        with monkeypatch.context() as patch:
            countdown = iter([0] * moment + [1])

            def failing(source: Any, target: Any, countdown: Any = countdown) -> None:
                if next(countdown, 0):
                    raise OSError(errno.EIO, "Input/output error")
                rename(source, target)

            patch.setattr(os, "rename", failing)
            try:
                make(path, value=2.0, channel="after")
            except OSError:
                failures += 1
                assert snapshot(path) == before
            else:
                break
    assert failures > 5
    assert {entry.name for entry in path.iterdir()} == {META, PROVENANCE, TS, "after", "pose.npz"}
    assert not (tmp_path / PARTIAL).exists()


def test_a_file_system_without_locks_leaves_no_scratch_and_keeps_the_attempts_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(*_arguments: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("rover_pipeline.format.attempt.fcntl.flock", flock)
    with VirtualWriter(tmp_path / "_x") as first:
        make(tmp_path / "_x", value=1.0)
        first.create({TS: TS_SPEC}, 1)
        first.fill(TS, times(1))
        first.commit({})
    assert Sensor(tmp_path / "_x").length() == 1 and not (tmp_path / PARTIAL).exists()


def test_a_link_that_looks_like_a_scratch_folder_is_removed_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    raw = tmp_path / "radar"
    raw.mkdir()
    (raw / "iq").write_bytes(b"raw")
    (raw / PROVENANCE).write_text(json.dumps({"made_by": MADE_BY, "files": []}))
    before = snapshot(raw)
    link = tmp_path / PARTIAL / "_x.1-0123456789abcdef"
    link.parent.mkdir()
    link.symlink_to("../radar")
    make(tmp_path / "_x")
    make(tmp_path / "_x", value=2.0)
    assert snapshot(raw) == before and {entry.name for entry in tmp_path.iterdir()} == {"_x", "radar"}
