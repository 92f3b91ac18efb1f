"""Dask on this machine: items on threads or in processes. Imported when more than one worker is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from typing import Any, TypeVar

import dask.multiprocessing
import dask.threaded
from dask.callbacks import Callback

T = TypeVar("T")


def compute(
    task: Callable[[T], Any], items: Sequence[T], pool: Executor, count: int, done: Callable[[T], object]
) -> list[Any]:
    """Results of `task` on every item, in order. To a pool of `count` processes the task goes by pickle.

    After an error some items may still be worked on until `pool` ends.
    """
    forked = isinstance(pool, ProcessPoolExecutor)
    # Items are sent one by one: by default Dask sends six at once to one process, and the others would wait.
    settings: Any = {"num_workers": count, "chunksize": 1} if forked else {}
    delayed = dask.delayed(task, pure=False, traverse=False)
    by_key = {f"item-{number}": item for number, item in enumerate(items)}
    jobs = [delayed(item, dask_key_name=key) for key, item in by_key.items()]

    def finished(key: Any, *_: object) -> None:
        if key in by_key:
            done(by_key[key])

    with Callback(posttask=finished):
        scheduler = dask.multiprocessing.get if forked else dask.threaded.get
        return list(dask.compute(*jobs, optimize_graph=False, scheduler=scheduler, pool=pool, **settings))
