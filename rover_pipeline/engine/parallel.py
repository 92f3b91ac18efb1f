"""The one executor: a function on many items, in order, on one thread, many threads, processes or other machines.

Where there is more than one worker, Dask runs the items, and never holds an array: an item is a range of frames or
something as small, whose function opens its own slice of the input and writes its own slice of a pre-sized output. A
single worker runs without Dask, whose import takes longer than many a short step. No result may depend on the ranges.
"""

from __future__ import annotations

import itertools
import math
import multiprocessing
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, TextIO, TypeVar

from threadpoolctl import threadpool_limits

from rover_pipeline.engine.progress import progress
from rover_pipeline.errors import RoverError, describe
from rover_pipeline.lookup import load
from rover_pipeline.options import DaskOptions

T = TypeVar("T")
R = TypeVar("R")

#: Items that each worker does before results are handed on: enough that workers seldom wait for one another. Schedule.
_WINDOW = 16
#: Maximum number of frames of a range, even of small frames: what a function makes of each may be larger. Schedule.
_MAX_FRAMES = 512


def frame_ranges(count: int, frame_bytes: int, options: DaskOptions, threads: int) -> list[tuple[int, int]]:
    """Split `count` frames into ranges of at most `options.chunk` bytes, at least four for every thread."""
    size = max(1, min(options.chunk // max(1, frame_bytes), math.ceil(count / (4 * threads)), _MAX_FRAMES))
    return [(start, min(start + size, count)) for start in range(0, count, size)]


def ordered_map(
    function: Callable[[T], R],
    items: Iterable[T],
    *,
    threads: int = 1,
    processes: Processes | None = None,
    dask: DaskOptions | None = None,
    done: Callable[[T], object] | None = None,
    held: int | None = None,
) -> Iterator[R]:
    """Results of `function` on every item, in the order of the items, with a bounded number of them held at a time.

    Args:
        function: goes to other processes by pickle when there are any.
        threads: items worked on at once. BLAS, OpenMP and OpenCV pools are held to one thread each.
        processes: used instead of threads, for a function that holds the interpreter's lock and has small results.
        dask: whose `scheduler` or `slurm`, when one is set, names workers of Dask on other machines, to be used instead
            of both. A function with an attribute `modules` names the modules of a user that the workers must share.
        done: called with each item that is finished.
        held: results held at a time; many for each worker unless given.

    Raises:
        RoverError: a worker process was killed; or the scheduler or its workers are silent, gone or of other versions.
    """
    finished = done or (lambda item: None)
    if dask is not None and dask.elsewhere:
        yield from load("rover_pipeline.engine.dask_distributed:run")(function, items, dask, finished, held)
    elif processes is not None and processes.count > 1:
        yield from processes.run(function, items, finished)
    elif processes is not None or threads == 1:
        yield from _run_alone(function, items, finished)
    else:
        yield from _run_threads(function, items, threads, finished, held)


def over_frames(
    label: str,
    function: Callable[[tuple[int, int]], R],
    ranges: Sequence[tuple[int, int]],
    log: TextIO | None,
    **how: Any,
) -> Iterator[R]:
    """`ordered_map` on ranges of frames, whose progress is shown; how: its arguments."""
    with progress(label, sum(stop - start for start, stop in ranges), log=log) as advance:
        yield from ordered_map(function, ranges, done=lambda each: advance(each[1] - each[0]), **how)


def single_threaded_pools() -> AbstractContextManager[object]:
    """A context in which libraries do not start threads of their own below ours."""
    if "cv2" in sys.modules:
        sys.modules["cv2"].setNumThreads(1)
    return threadpool_limits(1)


def _run_alone(function: Callable[[T], R], items: Iterable[T], done: Callable[[T], object]) -> Iterator[R]:
    with single_threaded_pools():
        for item in items:
            result = [function(item)]
            done(item)
            yield result.pop()  # handed over, not held until the next one is there


def _run_threads(
    function: Callable[[T], R], items: Iterable[T], threads: int, done: Callable[[T], object], held: int | None
) -> Iterator[R]:
    compute, task = load("rover_pipeline.engine.dask_local:compute"), partial(_on_thread, function)
    size = max(threads, (held or 2 * _WINDOW * threads) // 2)
    # The error of one item ends the work when the items that other threads work on are done: they may write files.
    with single_threaded_pools(), ThreadPoolExecutor(threads) as pool:
        yield from _in_windows(lambda window: compute(task, window, pool, threads, done), items, size)


def _in_windows(compute: Callable[[list[T]], list[R]], items: Iterable[T], size: int) -> Iterator[R]:
    """Results of windows of `size` items. While those of one window are used, the next window is worked on."""
    left = iter(items)
    with ThreadPoolExecutor(1) as ahead:

        def begin() -> Future[list[R]] | None:
            window = list(itertools.islice(left, size))
            return ahead.submit(compute, window) if window else None

        running = begin()
        while running is not None:
            results = list(reversed(running.result()))
            running = begin()
            while results:
                yield results.pop()  # handed over, not held until the window is used up


@dataclass
class Processes:
    """Worker processes for functions that hold the interpreter's lock and take long.

    They are forked when they are first needed, and kept until `close`: a forked process has everything that is
    imported, where a fresh one takes a second or more to import it.
    """

    count: int  #: of processes; with 1 this process does the work itself.
    _pool: ProcessPoolExecutor | None = None

    def run(self, function: Callable[[T], R], items: Iterable[T], done: Callable[[T], object]) -> Iterator[R]:
        """Results of `function`, in order, two for each process held. Its error is raised when the result is due."""
        compute = load("rover_pipeline.engine.dask_local:compute")
        with _explained():
            release = load("rover_pipeline.numerics.blocks:release")
            release()  # what is forked would hold it too
            pool, task = self._forked(), partial(_guarded, function)
            for result in _in_windows(lambda window: compute(task, window, pool, self.count, done), items, self.count):
                yield unwrapped(result)
            release()

    def begin(self, function: Callable[[T], R], item: T) -> Callable[[], R]:
        """Have a process work on one item meanwhile. What is returned waits for the result, or raises its error."""
        if self.count == 1:
            return cache(partial(function, item))
        future = self._forked().submit(_guarded, function, item)

        def result() -> R:
            with _explained():
                return unwrapped(future.result())

        return result

    def _forked(self) -> ProcessPoolExecutor:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(self.count, multiprocessing.get_context("fork"), _begin_worker)
            # Forks now, while this process has one thread: a lock that another thread holds would stay locked for ever.
            self._pool.submit(os.getpid).result()
        return self._pool

    def close(self) -> None:
        """Ends the processes."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None


@contextmanager
def _explained() -> Iterator[None]:
    """That a process was killed is an error that says what may be the cause."""
    try:
        yield
    except BrokenProcessPool as error:
        raise RoverError("a process that did a part of the work was killed; is there too little memory?") from error


def _on_thread(function: Callable[[T], R], item: T) -> R:
    """The result of a function on a thread that libraries did not limit: OpenMP counts its threads for each of them."""
    if not hasattr(_thread, "limited"):
        _thread.limited = threadpool_limits(1, user_api="openmp")
    return function(item)


_thread = threading.local()


class Failure:
    """An error on its way back from a worker: Dask would add the worker's traceback to its message."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __reduce__(self) -> tuple[object, ...]:
        try:
            sent = isinstance(pickle.loads(pickle.dumps(self.error)), Exception)
        except Exception:
            sent = False
        # What cannot be sent to another process becomes its message.
        return (Failure, (self.error if sent else RoverError(describe(self.error)),))


def _guarded(function: Callable[[T], R], item: T) -> R | Failure:
    """The result of a function, or its error, for `unwrapped`."""
    load("rover_pipeline.numerics.blocks:release")()  # what the item before has left
    try:
        return function(item)
    except Exception as error:
        return Failure(error)


def unwrapped(result: R | Failure) -> R:
    """The result of a guarded function, or its error raised."""
    if isinstance(result, Failure):
        raise result.error
    return result


def _begin_worker() -> None:
    """Prepare a worker. It ends when its parent is killed, or it would wait for ever, and hold the parent's locks."""
    single_threaded_pools().__enter__()
    # Ctrl-C reaches all processes of a terminal. The process that waits for the workers reports it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=end, daemon=True).start()
