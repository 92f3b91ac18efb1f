"""A virtual sensor is there whole or not at all, and nothing that others made is ever touched."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rover_pipeline.errors import InTheWayError, RoverError
from rover_pipeline.format.meta import META, ChannelSpec
from rover_pipeline.format.provenance import MADE_BY, PROVENANCE
from rover_pipeline.format.sensor import TS, TS_SPEC, Sensor
from rover_pipeline.format.virtual import LOCK, PARTIAL, VirtualWriter, in_the_way
from tests.kit import check_kills, environment, pictures, snapshot, spec_of, times

VALUES = ChannelSpec(format="raw", type="f4", shape=(2,), desc="[x]")
STREAM = ChannelSpec(format="npz", type="f4", shape=(2,), desc="[x]")


def make(place: Path, *, count: int = 3, value: float = 1.0, channel: str = "values", format: str = "raw") -> None:
    """A small virtual sensor."""
    spec = VALUES if format == "raw" else STREAM
    values = np.full((count, 2), value, "f4")
    with VirtualWriter(place) as writer:
        writer.create({TS: TS_SPEC, channel: spec}, count)
        writer.fill(TS, times(count))
        if format == "raw":
            writer.fill(channel, values)
        else:
            writer.stream(channel).append(values)
        writer.commit({"step": "test"})


def test_a_result_appears_when_it_is_committed_and_not_before(tmp_path: Path) -> None:
    place = tmp_path / "_x"
    with VirtualWriter(place) as writer:
        writer.create({TS: TS_SPEC, "values": VALUES, "pile": STREAM}, 2)
        writer.fill(TS, times(2))
        writer.fill("values", np.ones((2, 2), "f4"))
        writer.stream("pile").append(np.ones((2, 2), "f4"))
        assert {entry.name for entry in place.iterdir()} == {PARTIAL, LOCK}
        writer.commit({"step": "test"})
        assert (place / META).exists()
    assert {entry.name for entry in place.iterdir()} == {META, PROVENANCE, TS, "values", "pile"}
    assert Sensor(place).length() == 2
    provenance = json.loads((place / PROVENANCE).read_text())
    assert (provenance["made_by"], provenance["sensor"]) == (MADE_BY, "_x")
    assert provenance["files"] == ["pile", TS, "values"]


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
        pytest.raises(RoverError, match="pile: has 1 samples, 2 were to be written"),
        VirtualWriter(tmp_path / "_x") as writer,
    ):
        writer.create({TS: TS_SPEC, "pile": STREAM}, 2)
        writer.stream("pile").append(np.ones((1, 2), "f4"))
        writer.commit({})
    assert list(tmp_path.iterdir()) == []


def test_a_new_result_replaces_all_of_the_old_one_and_keeps_what_others_added(tmp_path: Path) -> None:
    place = tmp_path / "_x"
    make(place, channel="before", format="npz")
    (place / "pose.npz").write_bytes(b"mine")
    (place / "notes").mkdir()
    (place / "notes" / "a.txt").write_text("mine too")
    make(place, count=4, value=2.0, channel="after")
    assert {entry.name for entry in place.iterdir()} == {META, PROVENANCE, TS, "after", "pose.npz", "notes"}
    assert (place / "pose.npz").read_bytes() == b"mine" and (place / "notes" / "a.txt").read_text() == "mine too"
    assert Sensor(place).channel("after").read().tolist() == [[2.0, 2.0]] * 4


@pytest.mark.parametrize("when", ["create", "commit"])
def test_a_file_that_others_added_is_not_replaced_by_a_new_channel_of_its_name(when: str, tmp_path: Path) -> None:
    place = tmp_path / "_x"
    make(place)
    with (
        pytest.raises(
            InTheWayError, match="_x/notes: stands where a channel belongs and was not made by rover_pipeline"
        ),
        VirtualWriter(place) as writer,
    ):
        if when == "create":
            (place / "notes").write_text("mine")
            before = snapshot(place)
        writer.create({TS: TS_SPEC, "notes": VALUES}, 2)
        (place / "notes").write_text("mine")
        before = {name: data for name, data in snapshot(place).items() if not name.startswith(PARTIAL)}
        writer.commit({})
    visible = {name: data for name, data in before.items() if name not in (LOCK, PARTIAL)}
    assert snapshot(place) == visible and Sensor(place).length() == 3


def foreign(place: Path, kind: str) -> None:
    """Something at `place` that this program did not make."""
    other = place.with_name("elsewhere")
    if kind == "file":
        place.write_text("precious")
    elif kind == "dangling link":
        place.symlink_to("nowhere")
    elif kind == "link to our result":
        make(other)
        place.symlink_to(other)
    else:
        place.mkdir()
        if kind == "sensor":
            (place / META).write_text("{}")
        elif kind == "pose":
            (place / "pose.npz").write_bytes(b"precious")
        elif kind == "provenance of others":
            (place / PROVENANCE).write_text('{"made_by": "somebody"}')
        elif kind == "damaged provenance":
            (place / PROVENANCE).write_text('{"made_by": "rover_pi')


@pytest.mark.parametrize(
    "kind",
    ["file", "dangling link", "link to our result", "sensor", "pose", "provenance of others", "damaged provenance"],
)
def test_what_this_program_did_not_make_is_refused_by_name_and_untouched(kind: str, tmp_path: Path) -> None:
    place = tmp_path / "_lidar"
    foreign(place, kind)
    before, link = snapshot(tmp_path), place.is_symlink() and os.readlink(place)
    assert str(place) in in_the_way(place)
    with pytest.raises(InTheWayError, match=f"{place}: .*(M|m)ove it"):
        make(place)
    assert snapshot(tmp_path) == before
    assert (place.is_symlink() and os.readlink(place)) == link


def test_nothing_empty_or_left_by_a_killed_run_of_ours_is_in_the_way(tmp_path: Path) -> None:
    assert in_the_way(tmp_path / "_x") == ""
    (tmp_path / "_x" / PARTIAL / "half").mkdir(parents=True)
    (tmp_path / "_x" / LOCK).write_text("process 1 on nowhere")
    assert in_the_way(tmp_path / "_x") == ""
    make(tmp_path / "_x")
    assert {entry.name for entry in (tmp_path / "_x").iterdir()} == {META, PROVENANCE, TS, "values"}


def test_a_second_writer_waits_for_the_first_and_knows_that_it_waited(tmp_path: Path) -> None:
    place = tmp_path / "_x"
    events: list[str] = []
    entered = threading.Event()

    def second() -> None:
        entered.wait(5)
        with VirtualWriter(place) as writer:
            events.append(f"second, waited {writer.waited}")
            assert Sensor(place).length() == 3, "the first one's result is whole by now"

    thread = threading.Thread(target=second)
    thread.start()
    with VirtualWriter(place) as writer:
        assert not writer.waited
        entered.set()
        writer.create({TS: TS_SPEC}, 3)
        writer.fill(TS, times(3))
        time.sleep(0.3)
        writer.commit({})
        events.append("first")
    thread.join(10)
    assert events == ["first", "second, waited True"]
    assert {entry.name for entry in place.iterdir()} == {META, PROVENANCE, TS}


def test_writers_that_all_come_and_go_at_once_never_work_at_the_same_time(tmp_path: Path) -> None:
    place, inside, most = tmp_path / "_x", [0], [0]
    guard = threading.Lock()

    def work(number: int) -> None:
        with VirtualWriter(place) as writer:
            with guard:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
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
    assert most == [1] and inside == [0] and Sensor(place).length() == 1


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    code = (
        "import os, sys, pathlib; from rover_pipeline.format.virtual import VirtualWriter\n"
        "with VirtualWriter(pathlib.Path(sys.argv[1])): os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "_x")], env=environment(), check=False)
    assert done.returncode == -9 and (tmp_path / "_x" / LOCK).exists()
    begin = time.monotonic()
    make(tmp_path / "_x")
    assert time.monotonic() - begin < 1


@pytest.mark.parametrize("older", [False, True])
def test_a_disk_that_is_full_at_any_moment_leaves_a_whole_result_or_none(
    older: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path / "wanted" / "_x", value=7.0, format="npz")
    wanted = snapshot(tmp_path / "wanted" / "_x")
    place, failures = tmp_path / "t" / "_x", 0
    for moment in range(200):
        if older:
            make(place, value=7.0, format="npz")
        with monkeypatch.context() as patch:
            countdown = iter(range(moment))
            for name in ("fsync", "ftruncate", "pwrite", "replace"):
                patch.setattr(os, name, _failing(getattr(os, name), countdown))
            try:
                make(place, value=7.0, format="npz")
            except OSError as error:
                assert error.errno == 28
                failures += 1
            else:
                break
        assert not (place / PARTIAL).exists() and not (place / LOCK).exists()
        if (place / META).exists():
            assert snapshot(place) == wanted
        make(place, value=7.0, format="npz")
        assert snapshot(place) == wanted, "the next run is not held up"
    assert failures > 10


def _failing(call: Any, countdown: Any) -> Any:
    def failing(*args: Any, **kwargs: Any) -> Any:
        if next(countdown, None) is None:
            raise OSError(28, "No space left on device")
        return call(*args, **kwargs)

    return failing


def test_a_writer_killed_before_any_of_its_changes_to_the_disk_leaves_a_whole_result_or_none(tmp_path: Path) -> None:
    # All moments there are, of the writer alone; the kit tries a sample of them on every step.
    make_all_formats(tmp_path / "wanted" / "_x")
    (tmp_path / "t").mkdir()
    check_kills(tmp_path / "t" / "_x", tmp_path / "wanted" / "_x", 10_000, make=f"{__name__}:make_all_formats")


def make_all_formats(place: Path) -> None:
    """A virtual sensor with a channel in every format that can be made sample by sample."""
    images = pictures(2, 8, 8)
    specs = {format: spec_of(images, format) for format in ("raw", "lzmaf", "npz", "jpg", "mjpg")}
    with VirtualWriter(place) as writer:
        writer.create({TS: TS_SPEC, **specs}, 2)
        writer.fill(TS, times(2))
        writer.fill("raw", images)
        for format in ("lzmaf", "npz", "jpg", "mjpg"):
            writer.stream(format).append(images)
        writer.commit({"step": "test"})
