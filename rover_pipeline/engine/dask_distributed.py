"""Dask on other machines: items on the workers of a distributed scheduler. Needs the extra `distributed`.

The scheduler is the user's, or that of `dask_slurm`, whose workers are jobs of Slurm.

A silent or dead scheduler, no workers, and workers that die again and again or have other versions end it in one line.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import pickle
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from rover_pipeline.engine.identity import MODULE, difference, identity
from rover_pipeline.engine.parallel import Failure, single_threaded_pools, unwrapped
from rover_pipeline.errors import RoverError
from rover_pipeline.lookup import load, optional
from rover_pipeline.options import DaskOptions

T = TypeVar("T")
R = TypeVar("R")

#: Items for each thread of the workers that are handed to the scheduler at a time. Schedule.
_WINDOW = 32
#: Seconds between two questions to the scheduler whether it and its workers are still there. Schedule.
_PERIOD = 1.0
#: Libraries that report a lost connection in many lines of their own.
_TALKATIVE = ("asyncio", "distributed", "tornado")


def run(
    function: Callable[[T], R], items: Iterable[T], options: DaskOptions, done: Callable[[T], object], held: int | None
) -> Iterator[R]:
    """Results of `function` on every item, in order; see `ordered_map`.

    Raises:
        MissingExtraError: Dask's distributed scheduler is not installed.
        RoverError: `function` failed, or the scheduler or its workers are silent, absent or of other versions.
    """
    protocol = optional("distributed.protocol", "dask.scheduler", "distributed")
    task = _Remote(protocol.pickle.dumps(function), identity(getattr(function, "modules", ())))
    _silence()
    cluster = load("rover_pipeline.engine.dask_slurm:start")(options.slurm) if options.slurm else None
    address = cluster.scheduler_address if cluster else options.scheduler or ""
    with _connected(address, options.connect_timeout, cluster.security if cluster else None) as client:
        scheduler = _Scheduler(client, address, options)
        window = held or _WINDOW * scheduler.wait_for_workers()
        left = iter(items)
        while part := list(itertools.islice(left, window)):
            for item, result in zip(part, scheduler.results(scheduler.submit(task, part)), strict=True):
                done(item)
                yield unwrapped(result)


@dataclass
class _Scheduler:
    """A connection to a scheduler that ends with an error, and not with silence."""

    client: Any  #: connected to the scheduler at `address`.
    address: str
    options: DaskOptions
    _alone_since: float | None = None

    def wait_for_workers(self) -> int:
        """Number of threads of all workers, as soon as there are any."""
        while not (threads := self.count_threads()):
            time.sleep(_PERIOD / 4)
        return threads

    def submit(self, task: Callable[[T], Any], items: list[T]) -> list[Any]:
        """Futures of the results of `task`."""
        try:
            with warnings.catch_warnings(action="ignore"):  # about the size of `task`, which goes along
                return list(self.client.map(task, items, pure=False))
        except Exception:
            self.count_threads()  # raises what a user understands when the scheduler is gone
            raise

    def results(self, futures: list[Any]) -> Iterator[Any]:
        """The results of futures, in order.

        Dask leaves a result with its worker until somebody asks for it. While a result is waited for, those after it
        are fetched as they are finished: a worker that is lost then takes only the work with it that it was doing.
        """
        fetched: dict[int, Any] = {}

        def fetch(number: int, meanwhile: Callable[[], object] = lambda: None) -> None:
            fetched[number] = self.result(futures[number], meanwhile)
            # The scheduler would have what a lost worker held done again, as long as this client wants it.
            futures[number].release()

        def fetch_finished() -> None:
            for number in range(current + 1, len(futures)):
                if number not in fetched and futures[number].status == "finished":
                    fetch(number)

        for current in range(len(futures)):
            if current not in fetched:
                fetch(current, fetch_finished)
            yield fetched.pop(current)

    def result(self, future: Any, meanwhile: Callable[[], object] = lambda: None) -> Any:
        """The result of a future. Dask's own errors become one line that names the address.

        Args:
            meanwhile: is called each second that the result is waited for.
        """
        from distributed import KilledWorker, wait

        while True:
            try:
                if not future.done():
                    with self.client.as_current():
                        wait(future, timeout=_PERIOD)
                return future.result(timeout=self.options.connect_timeout)
            except TimeoutError:
                self.count_threads()
                meanwhile()
            except CancelledError as error:
                raise self._lost() from error
            except KilledWorker as error:
                raise RoverError(
                    f"dask.scheduler: workers of {self.address} died again and again while they did the same part of "
                    "the work; is there too little memory?"
                ) from error
            except Exception as error:
                self.count_threads()  # the client may not know yet that the scheduler is gone
                raise RoverError(
                    f"dask.scheduler: the scheduler {self.address} or one of its workers cannot load the work or send "
                    f"its result ({reason(error)}); install the same packages there as here and restart it"
                ) from error

    def count_threads(self) -> int:
        """Number of threads of all workers. An error when there were none for too long, or nobody answers."""
        if self.client.status != "running":
            raise self._lost()
        try:
            counts = self.client.nthreads(callback_timeout=self.options.connect_timeout)
        except TimeoutError as error:
            raise RoverError(_silent(self.address, self.options.connect_timeout)) from error
        except Exception as error:  # of many kinds, when the connection breaks meanwhile
            raise self._lost() from error
        threads = sum(counts.values())
        if threads:
            self._alone_since = None
        elif self._alone_since is None:
            self._alone_since = time.monotonic()
            from_slurm = ", which Slurm has yet to start" if self.options.slurm else ""
            print(f"waiting for workers of {self.address}, none is there{from_slurm}", file=sys.stderr, flush=True)
        else:
            self._require_patience(time.monotonic() - self._alone_since)
        return threads

    def _require_patience(self, waited: float) -> None:
        """Raise RoverError where there was no worker for too long, s."""
        slurm, limit = self.options.slurm, self.options.worker_timeout
        if slurm and waited > slurm.queue_hours * 3600:
            raise RoverError(
                f"dask.slurm: Slurm had none of the jobs running for {slurm.queue_hours:g} h; `squeue --me` says why, "
                "and `dask.slurm.queue_hours` sets the time"
            )
        if not slurm and waited > limit:
            raise RoverError(
                f"dask.scheduler: {self.address} had no worker for {limit:g} s; start some with "
                f"`dask worker {self.address}`, or set `dask.worker_timeout` to wait longer"
            )

    def _lost(self) -> RoverError:
        return RoverError(
            f"dask.scheduler: the connection to {self.address} was lost; when the scheduler is back, the same command "
            "again does the work"
        )


def _silent(address: str, limit: float) -> str:
    return (
        f"dask.scheduler: {address} did not answer for {limit:g} s; is it a Dask scheduler, and is it alive? "
        "`dask.connect_timeout` sets the time"
    )


@contextmanager
def _connected(address: str, limit: float, security: Any = None) -> Iterator[Any]:
    """A client of the scheduler at `address`."""
    from distributed import Client

    class Bounded(Client):
        """A client that does not wait for ever for a peer that accepts the connection and says nothing."""

        def start(self, **settings: Any) -> None:
            try:
                super().start(callback_timeout=limit, **settings)
            except BaseException:
                _close(self)
                raise

    try:
        # Versions that differ are reported in a table of many lines; those that matter are compared by each task.
        with warnings.catch_warnings(action="ignore"):
            client = Bounded(address, timeout=limit, security=security, set_as_default=False)
    except TimeoutError as error:
        raise RoverError(_silent(address, limit)) from error
    except Exception as error:  # of many kinds, when the peer is something else than a scheduler
        raise RoverError(f"dask.scheduler: no scheduler answers at {address}: {reason(error)}") from error
    try:
        yield client
    finally:
        _close(client)


def _close(client: Any) -> None:
    with contextlib.suppress(Exception):  # the scheduler may be dead or silent, and the reason for closing is known
        client.close(timeout=2)


def _silence() -> None:
    """No lines of Dask on stderr, until the process ends: it would report in many what is raised as one.

    Its threads still close connections after the work, so that the loggers cannot be given back.
    """
    names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] in _TALKATIVE]
    for logger in (logging.getLogger(name) for name in {*_TALKATIVE, *names}):
        logger.handlers, logger.propagate = [logging.NullHandler()], False


def reason(error: BaseException) -> str:
    """One line for the error at the bottom of a chain of errors."""
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


@dataclass
class _Remote:
    """A function as bytes, which a worker loads only when it is what the process that asks is."""

    function: bytes  #: pickled.
    wanted: Mapping[str, str]  #: the identity of the process that asks, from `identity`.

    def __call__(self, item: Any) -> Any:
        try:
            function = self._loaded()
            # A worker has threads of its own; libraries start none below them.
            with single_threaded_pools():
                return function(item)
        except Exception as error:
            return Failure(error)

    def _loaded(self) -> Callable[[Any], Any]:
        from distributed import get_worker

        worker = f"dask.scheduler: worker {get_worker().address}"
        modules = [name.removeprefix(MODULE) for name in self.wanted if name.startswith(MODULE)]
        if differs := difference(identity(modules), self.wanted):
            raise RoverError(f"{worker} has {differs}; install there what this command has and restart the worker")
        try:
            function: Callable[[Any], Any] = pickle.loads(self.function)
        except Exception as error:
            raise RoverError(
                f"{worker} cannot load the work ({reason(error)}); install there what this command has and restart "
                "the worker"
            ) from error
        return function
