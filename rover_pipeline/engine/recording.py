"""A whole recording, for a step that is called once: frames are read in any order, and work runs in parallel."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import numpy as np

from rover_pipeline.engine.parallel import Processes, over_frames
from rover_pipeline.engine.shared import Exchange
from rover_pipeline.engine.task import FrameTask
from rover_pipeline.errors import RoverError
from rover_pipeline.lookup import load
from rover_pipeline.options import DaskOptions

if TYPE_CHECKING:
    from rover_pipeline.numerics.blocks import Memory

R = TypeVar("R")


@dataclass
class Workers:
    """Where the work of a recording runs. It stays in the process that runs the step."""

    label: str
    threads: int
    dask: DaskOptions
    log: TextIO | None
    processes: Processes


class Recording:
    """The inputs of a step, which can be read in any order.

    A function that is given to `map` can hold the recording, also when it runs in another process.

    Attributes:
        count: number of frames.
        ts: f8, (frame,), s.
        valid: u1, (frame,); 0 = the frame cannot be trusted.
        arguments: names of the inputs.
        texts: argument -> text of a file.
        others: of the sensors beside the main one, by sensor, what is read of this: inputs, `whole` and texts; see
            `Run.beside`. A frame of theirs that cannot be decoded is zero.
    """

    def __init__(self, task: FrameTask, workers: Workers, others: Mapping[str, FrameTask] | None = None) -> None:
        self._task = task
        self._workers: Workers | None = workers
        self._corrupt: set[int] = set()
        self._is_main = True
        self.count = task.inputs.count
        self.ts = task.inputs.ts
        self.valid = task.inputs.valid
        self.arguments = tuple(task.inputs.channels)
        self.texts = task.inputs.texts
        self.others = {name: Recording(other, workers) for name, other in (others or {}).items()}
        for other in self.others.values():
            other._is_main = False

    def read(self, argument: str, start: int, stop: int) -> np.ndarray:
        """Frames `start:stop` of an input, (frame, ...).

        With `input.mark_corrupt` a frame that cannot be decoded is zero here and not valid in the result.

        Raises:
            SampleError: a frame cannot be decoded, and `input.mark_corrupt` is not set.
        """
        block, readable = self._task.read_input(argument, start, stop)
        if self._is_main and not readable.all():
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
        """Results of `function(start, stop)` for every range, in order. The ranges are processed in parallel.

        The result depends on the ranges. They must follow from options, never from the number of workers.

        Args:
            function: is sent to other processes by pickle when a Dask scheduler is configured. Its results are small.
            title: of the progress that is shown.
            held: maximum number of results held at a time, for larger ones. No more ranges are processed at once.
            processes: True = run in processes and copy the results between them. It is for a function that holds the
                interpreter's lock and takes seconds for each range.
        """
        workers = self._workers
        if workers is None:
            raise RoverError("Recording.map: is called inside a function that Recording.map runs; call it outside")
        label, work = f"{workers.label} {title}".rstrip(), _Tracked(self, function)
        how = {"processes": workers.processes if processes else None, "dask": workers.dask, "held": held}
        for result, corrupt in over_frames(label, work, ranges, workers.log, threads=workers.threads, **how):
            self._corrupt |= corrupt
            yield result

    @property
    def whole(self) -> dict[str, Any]:
        """Argument -> array that is given in full."""
        return self._task.inputs.whole

    @property
    def threads(self) -> int:
        """Threads that the work may use, on this machine."""
        return self._workers.threads if self._workers else 1

    @property
    def forks(self) -> bool:
        """Whether functions that `map` is to run in processes run in several that are forked from this one."""
        workers = self._workers
        return workers is not None and workers.processes.count > 1 and not workers.dask.elsewhere

    @contextmanager
    def exchange(self) -> Iterator[Exchange]:
        """A store for arrays that mapped functions hand to one another. It is deleted afterwards."""
        with TemporaryDirectory(prefix=".scratch", dir=self._task.partial) as folder:
            yield Exchange(Path(folder))

    def memory(self) -> Memory:
        """For arrays that are as long as the recording: they are on disk."""
        return load("rover_pipeline.numerics.blocks:OnDisk")(self._task.partial)

    @property
    def readable(self) -> np.ndarray:
        """Whether a frame could be decoded, bool (frame,); True for frames that were not read."""
        readable = np.ones(self.count, bool)
        readable[sorted(self._corrupt)] = False
        return readable

    @property
    def modules(self) -> set[str]:
        """Names of the modules that hold what the step declares."""
        return self._task.modules

    def check_run(self) -> None:
        """Raise RoverError when the run that this recording was opened for has ended."""
        self._task.check_run()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_workers": None}


class _Tracked:
    """A function that also returns the frames that could not be decoded, in whatever process it runs."""

    def __init__(self, recording: Recording, function: Callable[[int, int], Any]) -> None:
        self.recording, self.function = recording, function
        self.modules = recording.modules | {function.__module__}

    def __call__(self, frames: tuple[int, int]) -> tuple[Any, set[int]]:
        start, stop = frames
        self.recording.check_run()
        _thread.corrupt = set()
        try:
            return self.function(start, stop), _thread.corrupt
        except (ValueError, TypeError, ArithmeticError, LookupError, RuntimeError) as error:
            raise RoverError(f"samples {start} to {stop - 1}: {type(error).__name__}: {error}") from error
        finally:
            del _thread.corrupt


_thread = threading.local()
