"""Steps of one pass: the bytes that each gives alone, from raw bytes that are read once."""

from __future__ import annotations

import os
import pickle
import shutil
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ByteSize

from rover_pipeline.engine.execute import Request, StepResult, run_step
from rover_pipeline.engine.parallel import Failure
from rover_pipeline.engine.together import ResultRequest, run_together
from rover_pipeline.errors import InTheWayError, RoverError
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.options import DaskOptions
from rover_pipeline.radar.frames import Frames
from rover_pipeline.table import TABLE, find_step
from tests.kit import small_trace, snapshot

FRAMES, FRAME_BYTES = 40, 2048
#: Frames that a step looks at before the work: for `prepare`, `inspect` and the shape of its result.
LOOKED_AT = 16 + 4 + 1
#: Options that leave some steps the same transform, and give others one of their own.
OPTIONS: dict[str, dict[str, Any]] = {
    "_radar_range_doppler": {},
    "_radar_micro_doppler": {},
    "_radar_range_azimuth": {"doppler_window": "none"},
    "_radar_spectrum": {"elevation_bins": 4},
    "_radar_points": {},
    "_radar_quality": {},
}
SMALL = DaskOptions(chunk=ByteSize(9000))


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return small_trace(tmp_path / "rec", FRAMES, sensors=["radar"])


def asked(names: Sequence[str] = tuple(OPTIONS)) -> list[ResultRequest]:
    def sensor(name: str) -> str:
        return name if name in TABLE else f"_{name.rpartition(':')[2]}"

    stamps = (".options-1",)
    return [ResultRequest(find_step(name), sensor(name), Request(OPTIONS.get(name, {})), stamps) for name in names]


def test_every_result_has_the_bytes_and_the_provenance_of_a_step_that_is_made_alone(
    trace: Path, tmp_path: Path
) -> None:
    assert {name for name, step in TABLE.items() if step.run.shares} == set(OPTIONS)
    other = shutil.copytree(trace, tmp_path / "other" / "rec")
    for each in asked():
        run_step(each.step, trace, each.sensor, each.request, stamps=each.stamps)
    outcomes = run_together(asked(), other, threads=2, dask=SMALL)
    for name, outcome in outcomes.items():
        assert isinstance(outcome, StepResult) and (outcome.samples, outcome.invalid) == (FRAMES, 1)
        assert snapshot(other / name) == snapshot(trace / name)
    assert not (other / ".partial").exists()


@pytest.mark.parametrize("threads", [1, 2])
def test_each_frame_is_read_once_for_all_of_them(trace: Path, monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    read = Counter[int]()
    plain, lock = os.preadv, threading.Lock()

    def counted(descriptor: int, buffers: Any, offset: int, *rest: Any) -> int:
        count = plain(descriptor, buffers, offset, *rest)
        if os.readlink(f"/proc/self/fd/{descriptor}").endswith("/radar/iq"):
            with lock:
                read.update(range(offset // FRAME_BYTES, (offset + count) // FRAME_BYTES))
        return count

    monkeypatch.setattr(os, "preadv", counted)
    run_together(asked(), trace, threads=threads, dask=SMALL)
    assert set(read) == set(range(FRAMES))
    # A frame is compared with the two before it, which one thread has read, and of two threads perhaps the other one.
    assert sum(read.values()) <= (FRAMES if threads == 1 else 3 * FRAMES) + 3 * LOOKED_AT, "steps read on their own"


def test_a_step_that_fails_leaves_the_others_whole(trace: Path) -> None:
    with (trace / "radar" / "iq").open("r+b") as file:
        file.seek(30 * FRAME_BYTES)
        file.write(np.int16(12345).tobytes())
    bad = ResultRequest(find_step("_radar_range_azimuth"), "_radar_range_azimuth", Request({"board": "none"}))
    (trace / "_radar_points").mkdir()
    (trace / "_radar_points" / "mine").touch()
    names = ["_radar_range_doppler", "tests.toy:halting", "_radar_points"]
    outcomes = run_together([*asked(names), bad], trace, threads=2, dask=SMALL)
    assert isinstance(outcomes["_radar_range_doppler"], StepResult)
    assert isinstance(outcomes["_radar_points"], InTheWayError)
    assert "_radar_points: was not made by" in str(outcomes["_radar_points"])
    assert "samples 30 to 30: tests.toy:halting: 12345" in str(outcomes["_halting"])
    assert "none" in str(outcomes["_radar_range_azimuth"])
    assert Sensor(trace / "_radar_range_doppler").length() == FRAMES
    assert sorted(path.name for path in trace.glob("_*")) == ["_radar_points", "_radar_range_doppler"]
    assert not (trace / ".partial").exists()


def test_a_function_of_a_user_cannot_spoil_the_frames_of_the_others(trace: Path, tmp_path: Path) -> None:
    other = shutil.copytree(trace, tmp_path / "other" / "rec")
    names = ["tests.toy:rude", "_radar_range_doppler"]
    for each in asked(names):
        run_step(each.step, trace, each.sensor, each.request, stamps=each.stamps)
    run_together(asked(names), other, dask=SMALL)
    for each in asked(names):
        assert snapshot(other / each.sensor) == snapshot(trace / each.sensor)


def test_a_step_of_a_user_shares_the_transform_of_ours(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = shutil.copytree(trace, tmp_path / "other" / "rec")
    both = asked(["tests.toy:profile", "_radar_range_doppler"])
    for each in both:
        run_step(each.step, trace, each.sensor, each.request, stamps=each.stamps)
    transformed, plain = [], Frames.cleaned

    def counted(self: Frames, i: int) -> np.ndarray:
        transformed.extend([1] * (self._shared is not None))
        return plain(self, i)

    # Each frame that steps transform in the pass; they are tried on one frame alone before.
    monkeypatch.setattr(Frames, "cleaned", counted)
    run_together(both, other, threads=2, dask=SMALL)
    assert len(transformed) == FRAMES, "each frame once"
    for each in both:
        assert snapshot(other / each.sensor) == snapshot(trace / each.sensor)


def test_steps_from_two_radars_share_nothing(trace: Path, tmp_path: Path) -> None:
    shutil.copytree(trace / "radar", trace / "radar2")
    samples = np.fromfile(trace / "radar2" / "iq", "<i2")
    (samples // 2).tofile(trace / "radar2" / "iq")
    (first,) = asked(["tests.toy:profile"])
    second = first._replace(step=replace(first.step, inputs={"iq": "radar2/iq"}), sensor="_second")
    other = shutil.copytree(trace, tmp_path / "other" / "rec")
    for each in (first, second):
        run_step(each.step, trace, each.sensor, each.request, stamps=each.stamps)
    run_together([first, second], other)
    for each in (first, second):
        assert snapshot(other / each.sensor) == snapshot(trace / each.sensor)


def test_an_interrupt_leaves_nothing_of_any_of_them(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rover_pipeline.engine.parallel.ordered_map", interrupt)
    before = snapshot(trace)
    with pytest.raises(KeyboardInterrupt):
        run_together(asked(["_radar_range_doppler", "_radar_points"]), trace)
    assert snapshot(trace) == before and not (trace / ".partial").exists()


def test_steps_that_are_made_after_others_are_in_no_pass() -> None:
    assert find_step("_radar_points").in_pass
    options = find_step("_radar_points").options
    assert options is not None
    guided = find_step("_radar_points").for_options(options.parse({"odometry": True}, "points"))
    assert guided.run.shares and not guided.in_pass, "it reads _odom, which other steps make"


def test_an_error_that_no_process_can_send_arrives_as_its_message() -> None:
    class LocalError(Exception):
        """Another process has no such class."""

    def sent(error: Exception) -> Exception:
        failure: Failure = pickle.loads(pickle.dumps(Failure(error)))
        return failure.error

    assert isinstance(sent(RoverError("mine")), RoverError)
    assert type(sent(LocalError("text"))) is RoverError and "LocalError: text" in str(sent(LocalError("text")))
