"""Work that threads do a few items ahead of where the results are used, in order.

What imports spend their time on (decompression, JPEG, large arrays) does not hold the interpreter's lock. As little is
worked on ahead as keeps the threads busy, so that memory does not depend on the length of a recording.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")
#: Threads, and items that are worked on or wait for their use. Schedule.
THREADS, AHEAD = 2, 3
#: Bytes of such items. One larger item is worked on alone. Schedule.
_MAX_BYTES = 1 << 26


class InOrder(Generic[T, R]):
    """Results of items that were given one after the other.

    Args:
        pool: whose threads do the work.
        use: is called with each item and the call that gives its result or raises its error, in the order of items.
    """

    def __init__(self, pool: Executor, use: Callable[[T, Callable[[], R]], object]) -> None:
        self._pool, self._use = pool, use
        self._pending: deque[tuple[T, Future[R], int]] = deque()
        self._bytes = 0

    def put(self, item: T, work: Callable[[T], R], size: int = 0) -> None:
        """Begin with an item, and wait for earlier ones when there are many, or they hold many bytes."""
        while self._pending and (len(self._pending) >= AHEAD or self._bytes + size > _MAX_BYTES):
            self._use_first()
        self._pending.append((item, self._pool.submit(work, item), size))
        self._bytes += size

    def finish(self) -> None:
        """Use all that is left."""
        while self._pending:
            self._use_first()

    def _use_first(self) -> None:
        item, result, size = self._pending.popleft()
        self._bytes -= size
        self._use(item, result.result)


def worked_ahead(
    work: Callable[[T], R], items: Iterable[T], size: Callable[[T], int] = lambda item: 0
) -> Iterator[tuple[T, R]]:
    """Each item with the result of `work`, in order. Errors, those of the items included, come where they belong.

    Args:
        size: bytes that an item and its result take.
    """
    done: list[tuple[T, Callable[[], R]]] = []
    failed: Exception | None = None
    with ThreadPoolExecutor(THREADS) as pool:
        order = InOrder[T, R](pool, lambda item, result: done.append((item, result)))
        source = iter(items)
        while failed is None:
            try:
                item = next(source)
            except StopIteration:
                break
            except Exception as error:  # the items before it come first
                failed = error
                break
            order.put(item, work, size(item))
            while done:
                ready, result = done.pop(0)
                yield ready, result()
        order.finish()
        for ready, result in done:
            yield ready, result()
    if failed is not None:
        raise failed
