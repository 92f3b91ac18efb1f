"""How far a long step is: a bar with rate and ETA at a terminal, a plain line now and then in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from tqdm import tqdm

_LINE_EVERY_S = 10.0


@contextmanager
def progress(
    label: str, total: int, unit: str = "frame", file: TextIO | None = None
) -> Iterator[Callable[[int], object]]:
    """Yields a function that is told how many more of `total` are done."""
    stream = file or sys.stderr
    if stream.isatty():
        with tqdm(total=total, desc=label, unit=unit, file=stream, leave=False, dynamic_ncols=True) as bar:
            yield bar.update
        return
    begin = said = time.monotonic()
    done = 0

    def advance(count: int) -> None:
        nonlocal done, said
        done += count
        now = time.monotonic()
        if now - said >= _LINE_EVERY_S and done < total:
            said = now
            # An empty bar format: tqdm's rate and ETA, without a picture that fills the log.
            line = tqdm.format_meter(done, total, now - begin, prefix=label, unit=unit, bar_format=_LINE)
            print(line, file=stream, flush=True)

    yield advance
    took = time.monotonic() - begin
    if took >= _LINE_EVERY_S:
        print(f"{label}: {total} {unit}s in {took:.1f} s, {total / took:.1f} {unit}/s", file=stream, flush=True)


_LINE = "{desc}: {percentage:3.0f} %, {n_fmt} of {total_fmt}, {rate_fmt}, {remaining} left"
