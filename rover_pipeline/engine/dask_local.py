"""Dask on this machine: items on threads or in processes. Imported when more than one worker is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from typing import Any, TypeVar

import dask.multiprocessing
import dask.threaded
from dask.callbacks import Callback

T = TypeVar("T")


def compute_on_threads(
    task: Callable[[T], Any], items: Sequence[T], pool: Executor, done: Callable[[T], object]
) -> list[Any]:
    """Results of `task` on every item, in order. After an error some items may still be worked on until `pool` ends."""
    return _compute(task, items, done, scheduler=dask.threaded.get, pool=pool)


def compute_in_processes(
    task: Callable[[T], Any], items: Sequence[T], pool: ProcessPoolExecutor, count: int, done: Callable[[T], object]
) -> list[Any]:
    """Results of `task` on every item, in order. The task goes to the processes of `pool` by pickle.

    Items are sent one by one: by default Dask sends six at once to one process, and the others would wait.
    """
    return _compute(task, items, done, scheduler=dask.multiprocessing.get, pool=pool, num_workers=count, chunksize=1)


def _compute(task: Callable[[T], Any], items: Sequence[T], done: Callable[[T], object], **settings: Any) -> list[Any]:
    delayed = dask.delayed(task, pure=False, traverse=False)
    by_key = {f"item-{number}": item for number, item in enumerate(items)}
    jobs = [delayed(item, dask_key_name=key) for key, item in by_key.items()]

    def finished(key: Any, *_: object) -> None:
        if key in by_key:
            done(by_key[key])

    with Callback(posttask=finished):
        return list(dask.compute(*jobs, optimize_graph=False, **settings))
