"""The one place that chunks, and the only one that knows Dask.

Work is a function of a frame range that opens its own slice of the input and writes its own slice of a pre-sized
output, so nothing large crosses a scheduler. Ranges run on threads of this process, on processes forked from it where
the work holds the interpreter's lock, or on a Dask distributed scheduler when its address is given. No result may
depend on how frames fall into ranges.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, closing
from typing import Any, Generic, Protocol, TypeVar

from pydantic import ByteSize, Field
from threadpoolctl import threadpool_limits

from rover_pipeline.errors import MissingExtraError, RoverError
from rover_pipeline.options import Options

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
S = TypeVar("S")
T = TypeVar("T")

#: How a job learns how to spread its work: not part of its command, which would rerun it when changed.
DASK_VARIABLE = "ROVER_PIPELINE_DASK"

#: Ranges a thread works through before results are handed on: enough that threads seldom wait for one another.
_WINDOW = 32


class DaskOptions(Options):
    """How work is spread. Nothing here changes a result."""

    chunk: ByteSize = Field(
        ByteSize(8 << 20), gt=0, description="Input and output of one chunk, in bytes (`8 MiB`, `500 kB`)."
    )
    scheduler: str | None = Field(
        None,
        description="Address of a Dask distributed scheduler (`tcp://host:8786`) whose workers see the same files; "
        "null = threads of the job itself.",
    )


class RangeTask(Protocol[R_co]):
    """Work on frames `start:stop`. Sent to other processes by pickle when a scheduler is configured."""

    def __call__(self, start: int, stop: int) -> R_co: ...


def frame_ranges(count: int, frame_bytes: int, options: DaskOptions, threads: int) -> list[tuple[int, int]]:
    """Split `count` frames into ranges of at most `options.chunk` bytes, at least four for every thread."""
    size = max(1, min(options.chunk // max(1, frame_bytes), math.ceil(count / (4 * threads))))
    return [(start, min(start + size, count)) for start in range(0, count, size)]


def run_ranges(
    task: RangeTask[R],
    ranges: Sequence[tuple[int, int]],
    *,
    threads: int,
    options: DaskOptions,
    advance: Callable[[int], object],
    held: int | None = None,
    workers: Workers | None = None,
) -> Iterator[R]:
    """Results of `task` on every range, in order, with a bounded number of them held at a time.

    Args:
        threads: ranges worked on at once. BLAS, OpenMP and OpenCV pools are held to one thread each.
        advance: told the number of frames of each range that is done.
        held: results held at a time; many for each worker unless given.
        workers: processes that are to do it instead of threads. Results are copied between them: they must be small.
    """
    if options.scheduler:
        yield from _run_distributed(task, ranges, options.scheduler, advance, held)
    elif workers is not None:
        yield from workers.run(task, ranges, advance)
    elif threads == 1:
        yield from _run_alone(task, ranges, advance)
    else:
        yield from _run_threads(task, ranges, threads, advance, held)


def scan_ranges(
    task: Callable[[S | None, int, int], tuple[R, S]],
    ranges: Sequence[tuple[int, int]],
    *,
    advance: Callable[[int], object],
) -> Iterator[R]:
    """Results of an ordered task that hands its state from each range to the next; None begins."""
    state: S | None = None
    with single_threaded_pools():
        for start, stop in ranges:
            result, state = task(state, start, stop)
            advance(stop - start)
            yield result


def single_threaded_pools() -> AbstractContextManager[object]:
    """A context in which libraries do not start threads of their own below ours."""
    import sys

    if "cv2" in sys.modules:
        sys.modules["cv2"].setNumThreads(1)
    limits: AbstractContextManager[object] = threadpool_limits(1)
    return limits


def _run_alone(task: RangeTask[R], ranges: Sequence[tuple[int, int]], advance: Callable[[int], object]) -> Iterator[R]:
    # Without Dask, whose import takes as long as many a short step.
    with single_threaded_pools():
        for start, stop in ranges:
            result = task(start, stop)
            advance(stop - start)
            yield result


def _run_threads(
    task: RangeTask[R],
    ranges: Sequence[tuple[int, int]],
    threads: int,
    advance: Callable[[int], object],
    held: int | None = None,
) -> Iterator[R]:
    import dask.threaded
    from dask.callbacks import Callback

    window = held or _WINDOW * threads
    for first in range(0, len(ranges), window):
        part = ranges[first : first + window]
        jobs = [dask.delayed(_Ranged(task), pure=False, traverse=False)(start, stop) for start, stop in part]
        done = Callback(posttask=lambda _key, value, *_rest: advance(value[0]) if isinstance(value, tuple) else None)
        with single_threaded_pools(), done:
            results = dask.compute(*jobs, scheduler=dask.threaded.get, num_workers=threads, optimize_graph=False)
        left = list(reversed(results))
        del results
        while left:  # handed over, not held until the next ones are there
            yield left.pop()[1]


class Workers:
    """Processes for work that holds the interpreter's lock and takes long: forked when first needed, and kept.

    Forked, so that they begin with all that is imported: what a fresh process imports takes a second.

    Args:
        count: of processes; no process but this one is used when it is 1.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool: ProcessPoolExecutor | None = None

    def run(
        self, task: RangeTask[R], ranges: Sequence[tuple[int, int]], advance: Callable[[int], object]
    ) -> Iterator[R]:
        """Results of `task`, which goes to the processes by pickle, in order; two for each process are held."""
        if min(self.count, len(ranges)) < 2:
            for start, stop in ranges:
                with single_threaded_pools():
                    done = [task(start, stop)]
                advance(stop - start)
                yield done.pop()  # handed over, not held until the next one is there
            return
        if self._pool is None:
            self._pool = ProcessPoolExecutor(self.count, multiprocessing.get_context("fork"), _begin_worker)
        left, running = deque(ranges), deque[tuple[int, Future[R]]]()
        try:
            while left or running:
                while left and len(running) < 2 * self.count:
                    start, stop = left.popleft()
                    running.append((stop - start, self._pool.submit(task, start, stop)))
                frames, future = running.popleft()
                result = future.result()
                del future
                advance(frames)
                yield result
        except BrokenProcessPool as error:
            raise RoverError("a process that did a part of the work was killed; is there too little memory?") from error
        finally:
            for _, future in running:
                future.cancel()

    def close(self) -> None:
        """Ends the processes."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None


def _begin_worker() -> None:
    single_threaded_pools().__enter__()
    # Ctrl-C reaches all processes of a terminal: the one that waits for the workers says what there is to say.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end_with_parent() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGKILL)

    # A worker whose parent is killed waits for work for ever, and holds the parent's locks.
    threading.Thread(target=end_with_parent, daemon=True).start()


def _run_distributed(
    task: RangeTask[R],
    ranges: Sequence[tuple[int, int]],
    address: str,
    advance: Callable[[int], object],
    held: int | None = None,
) -> Iterator[R]:
    try:
        from distributed import Client
    except ImportError as error:
        raise MissingExtraError("dask.scheduler", "distributed") from error
    try:
        client = Client(address, timeout="30s")
    except (OSError, ValueError) as error:
        raise RoverError(f"dask.scheduler: no scheduler answers at {address}: {error}") from error
    with closing(client):
        window = held or _WINDOW * max(1, sum(client.nthreads().values()))
        for first in range(0, len(ranges), window):
            starts, stops = zip(*ranges[first : first + window], strict=True)
            futures: list[Any] = client.map(_Ranged(task, limit_pools=True), starts, stops, pure=False, retries=2)
            for future in futures:
                frames, result = future.result()
                advance(frames)
                yield result


class _Ranged(Generic[R]):
    """A task that also says how many frames it did."""

    def __init__(self, task: RangeTask[R], limit_pools: bool = False) -> None:
        self.task, self.limit_pools = task, limit_pools

    def __call__(self, start: int, stop: int) -> tuple[int, R]:
        if self.limit_pools:
            with single_threaded_pools():
                return stop - start, self.task(start, stop)
        if not hasattr(_thread, "openmp"):
            # OpenMP counts per calling thread: the limit around the run does not reach the threads that do the work.
            _thread.openmp = threadpool_limits(1, user_api="openmp")
        return stop - start, self.task(start, stop)


_thread = threading.local()


def ordered_map(
    function: Callable[[T], R],
    items: Iterable[T],
    *,
    threads: int = 1,
    done: Callable[[T], object] | None = None,
    held: int | None = None,
) -> Iterator[R]:
    """PROVISIONAL, for tests in this branch only: the one of main replaces it at the merge."""
    from rover_pipeline.simulate.ordered import in_order

    def work(item: T) -> R:
        result = function(item)
        if done:
            done(item)
        return result

    with single_threaded_pools():
        yield from in_order(work, items, threads)
