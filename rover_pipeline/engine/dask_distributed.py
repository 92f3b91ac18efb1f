"""Dask on other machines: items on the workers of a distributed scheduler. Needs the extra `distributed`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import Any, TypeVar

from rover_pipeline.engine.parallel import single_threaded_pools
from rover_pipeline.errors import MissingExtraError, RoverError

T = TypeVar("T")
R = TypeVar("R")

#: Items for each thread of the workers that are handed to the scheduler at a time.
_WINDOW = 32


def run(
    function: Callable[[T], R], items: Iterable[T], address: str, done: Callable[[T], object], held: int | None
) -> Iterator[R]:
    """Results of `function` on every item, in order; see `ordered_map`.

    Raises:
        MissingExtraError: Dask's distributed scheduler is not installed.
        RoverError: no scheduler answers at `address`.
    """
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
        left = iter(items)
        while part := list(itertools.islice(left, window)):
            futures: list[Any] = client.map(_Limited(function), part, pure=False, retries=2)
            for item, future in zip(part, futures, strict=True):
                result = future.result()
                done(item)
                yield result


class _Limited:
    """A function that runs without threads of libraries below it: a worker has threads of its own."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function

    def __call__(self, item: Any) -> Any:
        with single_threaded_pools():
            return self.function(item)
