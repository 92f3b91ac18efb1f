"""A whole recording, for a step that is called once: read from any frame, work spread over ranges of frames."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TextIO, TypeVar

import numpy as np

from rover_pipeline.engine.exchange import Exchange
from rover_pipeline.engine.options import DaskOptions
from rover_pipeline.engine.parallel import Processes, ordered_map
from rover_pipeline.engine.progress import progress
from rover_pipeline.engine.task import FrameTask
from rover_pipeline.errors import RoverError

R = TypeVar("R")


@dataclass
class _Spread:
    """How work of a recording is spread. Stays in the process that runs the step."""

    label: str
    threads: int
    dask: DaskOptions
    log: TextIO | None
    processes: Processes


class Recording:
    """The inputs of a step, to be read in any order.

    Can be sent to other processes, as part of what `map` is given.

    Attributes:
        count: number of frames.
        ts: f8, (frame,), s.
        valid: u1, (frame,); 0 = not to be trusted.
    """

    def __init__(self, task: FrameTask, spread: _Spread) -> None:
        self._task = task
        self._spread: _Spread | None = spread
        self._corrupt: set[int] = set()
        self.count = task.inputs.count
        self.ts = task.inputs.ts
        self.valid = task.inputs.valid

    def read(self, argument: str, start: int, stop: int) -> np.ndarray:
        """Frames `start:stop` of an input, (frame, ...).

        Frames that cannot be decoded are zeros where `input.mark_corrupt` is set, and will not be valid.

        Raises:
            SampleError: a frame cannot be decoded.
        """
        readable = np.ones(stop - start, bool)
        block = self._task.read_input(argument, start, stop, readable)
        if not readable.all():
            getattr(_thread, "corrupt", self._corrupt).update((start + np.flatnonzero(~readable)).tolist())
        return block

    def map(
        self,
        function: Callable[[int, int], R],
        ranges: Sequence[tuple[int, int]],
        title: str = "",
        held: int | None = None,
        processes: bool = False,
    ) -> Iterator[R]:
        """Results of `function(start, stop)` on every range, in order, worked on in parallel.

        The ranges are part of the result: they must follow from options, never from the number of workers.

        Args:
            function: goes to other processes by pickle when a Dask scheduler is configured. Its results are small.
            title: of the progress that is shown.
            held: results held at a time, where they are not so small; no more ranges are worked on at once.
            processes: for a function that holds the interpreter's lock, on ranges that take seconds each: it runs in
                processes, and its results are copied between them.
        """
        spread = self._spread
        if spread is None:
            raise RoverError("Recording.map: is called inside a function that it maps; nothing spreads work twice")
        label = f"{spread.label} {title}".rstrip()
        with progress(label, sum(stop - start for start, stop in ranges), log=spread.log) as advance:
            results = ordered_map(
                _Tracked(self, function),
                ranges,
                threads=spread.threads,
                processes=spread.processes if processes else None,
                scheduler=spread.dask.scheduler,
                done=lambda frames: advance(frames[1] - frames[0]),
                held=held,
            )
            for result, corrupt in results:
                self._corrupt |= corrupt
                yield result

    @contextmanager
    def exchange(self) -> Iterator[Exchange]:
        """A store for arrays that mapped functions hand to one another. It is deleted afterwards."""
        with TemporaryDirectory(prefix=".scratch", dir=self._task.partial) as folder:
            yield Exchange(Path(folder))

    @property
    def readable(self) -> np.ndarray:
        """Which frames could be decoded as far as they were read, bool, (frame,)."""
        readable = np.ones(self.count, bool)
        readable[sorted(self._corrupt)] = False
        return readable

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_spread": None}


class _Tracked:
    """A function that also says which frames it could not decode, wherever it runs."""

    def __init__(self, recording: Recording, function: Callable[[int, int], Any]) -> None:
        self.recording, self.function = recording, function

    def __call__(self, frames: tuple[int, int]) -> tuple[Any, set[int]]:
        start, stop = frames
        _thread.corrupt = set()
        try:
            return self.function(start, stop), _thread.corrupt
        except (ValueError, TypeError, ArithmeticError, LookupError, RuntimeError) as error:
            raise RoverError(f"samples {start} to {stop - 1}: {type(error).__name__}: {error}") from error
        finally:
            del _thread.corrupt


_thread = threading.local()


@contextmanager
def opened_recording(
    task: FrameTask, *, label: str, threads: int, dask: DaskOptions, log: TextIO | None
) -> Iterator[Recording]:
    """The recording of a task's inputs, whose work goes to `threads`, or as many processes, or to a Dask scheduler."""
    with closing(Processes(threads)) as processes:
        yield Recording(task, _Spread(label, threads, dask, log, processes))
