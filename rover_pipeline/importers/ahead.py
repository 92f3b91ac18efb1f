"""Work that threads do a few items ahead of where the results are used, in order.

What imports spend their time on (decompression, JPEG, large arrays) does not hold the interpreter's lock. As little is
worked on ahead as keeps the threads busy, so that memory does not depend on the length of a recording.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")
#: Threads, and items that are worked on or wait for their use. Schedule.
THREADS, AHEAD = 2, 3
#: Bytes of such items. One larger item is worked on alone. Schedule.
_MAX_BYTES = 1 << 26


def ahead(
    work: Callable[[T], R], items: Iterable[T], size: Callable[[T], int] = lambda item: 0
) -> Iterator[tuple[T, Callable[[], R]]]:
    """Each item with the call that gives its result or raises its error, in order. Errors of `items` come last. `size`
    gives the bytes that an item and its result take."""
    pending: deque[tuple[T, Future[R], int]] = deque()
    failed: Exception | None = None
    with ThreadPoolExecutor(THREADS) as pool:
        try:
            for item in items:
                held = size(item)
                while pending and (len(pending) >= AHEAD or held + sum(each for *_, each in pending) > _MAX_BYTES):
                    first, result, _ = pending.popleft()
                    yield first, result.result
                pending.append((item, pool.submit(work, item), held))
        except Exception as error:  # the items before it come first
            failed = error
        while pending:
            first, result, _ = pending.popleft()
            yield first, result.result
    if failed is not None:
        raise failed


def worked_ahead(
    work: Callable[[T], R], items: Iterable[T], size: Callable[[T], int] = lambda item: 0
) -> Iterator[tuple[T, R]]:
    """Each item with its result. See `ahead`."""
    for item, result in ahead(work, items, size):
        yield item, result()
