"""Work is divided into ranges that cover every frame once, run in parallel, and give their results in order."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ByteSize
from threadpoolctl import threadpool_info

from rover_pipeline.engine.parallel import _WINDOW, Processes, frame_ranges, ordered_map
from rover_pipeline.errors import ConfigError, FormatError, MissingExtraError, RoverError, SampleError
from rover_pipeline.options import DaskOptions


@settings(derandomize=True, deadline=None, database=None)
@given(
    count=st.integers(0, 3000),
    frame_bytes=st.integers(0, 1 << 31),
    chunk=st.integers(1, 1 << 34),
    threads=st.integers(1, 64),
)
def test_ranges_cover_every_frame_once_and_hold_no_more_than_a_chunk(
    count: int, frame_bytes: int, chunk: int, threads: int
) -> None:
    ranges = frame_ranges(count, frame_bytes, DaskOptions(chunk=ByteSize(chunk)), threads)
    assert [frame for start, stop in ranges for frame in range(start, stop)] == list(range(count))
    assert all(stop - start == 1 or (stop - start) * frame_bytes <= chunk for start, stop in ranges)
    assert len(ranges) >= min(count, 2 * threads), "no thread is without work"


def test_the_size_of_a_chunk_is_given_with_a_unit() -> None:
    assert DaskOptions.parse({"chunk": "64 MiB"}).chunk == 64 << 20
    assert DaskOptions.parse({"chunk": "500kB"}).chunk == 500_000
    for wrong in ("0", "many", -1):
        with pytest.raises(ConfigError, match=r"dask\.chunk"):
            DaskOptions.parse({"chunk": wrong}, "dask")
    with pytest.raises(ConfigError, match=r"dask.chunks: unknown key; did you mean 'chunk'\?"):
        DaskOptions.parse({"chunks": 1}, "dask")


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_come_in_the_order_of_ranges_not_of_completion(threads: int) -> None:
    def task(frames: tuple[int, int]) -> tuple[int, int]:
        start, stop = frames
        time.sleep(0.02 if start % 3 == 0 else 0)  # the first of three ends last
        return start, stop

    done: list[tuple[int, int]] = []
    ranges = frame_ranges(23, 1, DaskOptions(chunk=ByteSize(1)), threads)
    assert list(ordered_map(task, ranges, threads=threads, done=done.append)) == ranges
    assert sorted(done) == ranges


def test_as_many_ranges_as_threads_run_at_once_and_no_more() -> None:
    barrier, guard = threading.Barrier(3), threading.Lock()
    inside, maximum = 0, 0

    def task(_frames: tuple[int, int]) -> None:
        nonlocal inside, maximum
        with guard:
            inside += 1
            maximum = max(maximum, inside)
        barrier.wait(10)  # passes only when three are here together
        time.sleep(0.02)  # time for a fourth to be seen
        with guard:
            inside -= 1

    ranges = [(i, i + 1) for i in range(12)]
    list(ordered_map(task, ranges, threads=3))
    assert maximum == 3


def test_only_a_bounded_number_of_results_is_held_before_they_are_taken() -> None:
    started: list[int] = []

    def task(frames: tuple[int, int]) -> int:
        start, _ = frames
        started.append(start)
        return start

    results = ordered_map(task, [(i, i + 1) for i in range(500)], threads=2)
    assert started == [], "nothing is done before somebody asks"
    assert next(results) == 0 and len(started) <= 2 * _WINDOW < 500
    assert list(results) == list(range(1, 500))


@pytest.mark.parametrize("threads", [1, 3])
def test_no_more_results_are_held_than_are_allowed(threads: int) -> None:
    started: list[int] = []

    def task(frames: tuple[int, int]) -> int:
        start, _ = frames
        started.append(start)
        return start

    ranges = [(i, i + 1) for i in range(50)]
    taken = 0
    for result in ordered_map(task, ranges, threads=threads, held=7):
        assert result == taken and len(started) - taken <= 7
        taken += 1
    assert taken == 50


def test_an_error_in_a_task_comes_out_as_it_is_and_ends_the_work() -> None:
    started: list[int] = []

    def task(frames: tuple[int, int]) -> None:
        start, _ = frames
        started.append(start)
        if start == 3:
            raise SampleError("iq: sample 3 is bad", 3)

    with pytest.raises(SampleError, match="iq: sample 3 is bad") as caught:
        list(ordered_map(task, [(i, i + 1) for i in range(500)], threads=2))
    assert caught.value.sample == 3
    assert len(started) <= 2 * _WINDOW < 500


class Marked:
    """A task that leaves a file for each range it begins, and can fail."""

    def __init__(self, folder: Path, failing: Callable[[], object] | None = None) -> None:
        self.folder, self.failing = folder, failing

    def __call__(self, frames: tuple[int, int]) -> tuple[int, int]:
        start, _ = frames
        (self.folder / str(start)).touch()
        time.sleep(0.02 if start % 3 == 0 else 0)  # the first of three ends last
        if self.failing is not None and start == 3:
            self.failing()
        return start, os.getpid()


@pytest.mark.parametrize("count", [1, 2, 3])
def test_processes_give_results_in_order_and_hold_no_more_than_two_for_each(count: int, tmp_path: Path) -> None:
    ranges = [(i, i + 1) for i in range(17)]
    done: list[tuple[int, int]] = []
    pids = set()
    with closing(Processes(count)) as processes:
        for again in ("once", "twice"):
            (tmp_path / again).mkdir()
            task = Marked(tmp_path / again)
            results = ordered_map(task, ranges, threads=9, done=done.append, processes=processes)
            for taken, (start, pid) in enumerate(results):
                assert start == taken and len(os.listdir(tmp_path / again)) - taken <= 2 * count
                pids.add(pid)
    assert sorted(done) == sorted(2 * ranges) and len(pids) <= count
    assert (os.getpid() in pids) == (count == 1)


def _spoil() -> None:
    raise SampleError("iq: sample 3 is bad", 3)


def test_an_error_in_a_process_comes_out_as_it_is(tmp_path: Path) -> None:
    ranges = [(i, i + 1) for i in range(50)]
    task = Marked(tmp_path, _spoil)
    with closing(Processes(2)) as processes, pytest.raises(SampleError, match="iq: sample 3 is bad") as caught:
        list(ordered_map(task, ranges, threads=2, processes=processes))
    assert caught.value.sample == 3
    assert len(os.listdir(tmp_path)) < 50


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_process_that_is_killed_ends_the_work_with_an_error(tmp_path: Path) -> None:
    ranges = [(i, i + 1) for i in range(50)]
    task = Marked(tmp_path, _kill)
    with (
        closing(Processes(2)) as processes,
        pytest.raises(RoverError, match=r"was killed; is there too little memory\?"),
    ):
        list(ordered_map(task, ranges, threads=2, processes=processes))


def test_a_process_that_is_killed_while_it_waits_ends_the_next_work_with_an_error() -> None:
    with closing(Processes(2)) as processes:
        assert list(ordered_map(abs, [-1, -2], processes=processes)) == [1, 2]
        assert processes._pool is not None
        children = list(processes._pool._processes)
        os.kill(children[0], signal.SIGKILL)
        with pytest.raises(RoverError, match=r"was killed; is there too little memory\?"):
            list(ordered_map(abs, range(1000), processes=processes))
    wait_until(lambda: not any(is_alive(pid) for pid in children))


@pytest.mark.parametrize("count", [1, 2])
def test_one_item_is_worked_on_beside_this_process_and_its_error_comes_out_when_it_is_due(
    count: int, tmp_path: Path
) -> None:
    with closing(Processes(count)) as processes:
        start, pid = processes.begin(Marked(tmp_path), (3, 4))()
        spoilt = processes.begin(Marked(tmp_path, _spoil), (3, 4))
        with pytest.raises(SampleError, match="iq: sample 3 is bad"):
            spoilt()
    assert start == 3 and (pid == os.getpid()) == (count == 1)


def test_a_process_that_is_killed_at_its_one_item_is_an_error_when_the_result_is_due(tmp_path: Path) -> None:
    with closing(Processes(2)) as processes:
        result = processes.begin(Marked(tmp_path, _kill), (3, 4))
        with pytest.raises(RoverError, match=r"was killed; is there too little memory\?"):
            result()


def test_processes_that_are_killed_as_soon_as_they_begin_are_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rover_pipeline.engine.parallel._begin_worker", _kill)
    with closing(Processes(2)) as processes, pytest.raises(RoverError, match="was killed"):
        list(ordered_map(abs, [-1, -2], processes=processes))


def test_processes_end_with_the_one_that_started_them_even_if_that_is_killed(tmp_path: Path) -> None:
    script = """
import os, sys, time
from pathlib import Path
from rover_pipeline.engine.parallel import Processes, ordered_map

def task(frames):
    (Path(sys.argv[1]) / str(os.getpid())).touch()
    time.sleep(60)

list(ordered_map(task, [(0, 1), (1, 2)], threads=2, processes=Processes(2)))
"""
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path)]) as parent:
        wait_until(lambda: len(os.listdir(tmp_path)) == 2)
        parent.kill()
    workers = [int(name) for name in os.listdir(tmp_path)]
    wait_until(lambda: not any(is_alive(pid) for pid in workers))


def wait_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


def test_libraries_start_no_threads_of_their_own_inside_a_task_and_may_again_afterwards() -> None:
    import cv2

    np.ones((2, 2)) @ np.ones((2, 2))
    before = pools()

    def task(_frames: tuple[int, int]) -> tuple[list[int], int]:
        return pools(), cv2.getNumThreads()

    for inside, opencv in ordered_map(task, [(0, 1), (1, 2)], threads=2):
        assert set(inside) == {1} and opencv == 1
    assert pools() == before


def pools() -> list[int]:
    """Threads of the BLAS and OpenMP pools that are loaded."""
    return [pool["num_threads"] for pool in threadpool_info()]


def test_a_scheduler_without_the_library_for_it_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtraError, match=r"dask.scheduler needs .* 'rover-pipeline\[distributed\]'"):
        list(ordered_map(lambda frames: None, [(0, 1)], dask=DaskOptions(scheduler="tcp://127.0.0.1:1")))


@pytest.mark.parametrize(
    "error", [SampleError("a: sample 3 is bad", 3), MissingExtraError("video", "av"), FormatError("b: is bad")]
)
def test_errors_survive_the_way_back_from_another_process(error: Exception) -> None:
    import pickle

    twin = pickle.loads(pickle.dumps(error))
    assert type(twin) is type(error) and str(twin) == str(error) and vars(twin) == vars(error)


def test_no_item_is_worked_on_after_the_error_of_another_one() -> None:
    begun, ended = threading.Event(), threading.Event()

    def work(item: int) -> None:
        if item:
            begun.set()
            time.sleep(0.2)
            ended.set()
        else:
            begun.wait()
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        list(ordered_map(work, [0, 1], threads=2))
    assert ended.is_set(), "it may still write into a folder that is being removed"


def test_threads_are_limited_while_another_thread_loads_libraries() -> None:
    script = """
import _ctypes, faulthandler, glob, threading
import scipy.linalg
from rover_pipeline.engine.parallel import ordered_map

faulthandler.dump_traceback_later(40, exit=True)  # each of two locks is held by the thread that waits for the other
libraries = glob.glob(f"{scipy.__path__[0]}/*/*.so")[:40]
limits = threading.Thread(target=lambda: [list(ordered_map(abs, [-1])) for _ in range(10)], daemon=True)
limits.start()
while limits.is_alive():
    for each in libraries:
        _ctypes.dlclose(_ctypes.dlopen(each, 1))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
