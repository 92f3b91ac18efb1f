"""Progress of a long step: a bar with rate and remaining time at a terminal, a line now and then in its own log."""

from __future__ import annotations

import fcntl
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from tqdm import tqdm

from rover_pipeline.errors import printable

#: Seconds between two lines of a log. Schedule.
_LINE_EVERY_S = 10.0
_LINE = "{desc}: {percentage:3.0f} %, {n_fmt} of {total_fmt}, {rate_fmt}, {remaining} left"

#: Bars of processes that share a terminal, one below the other. Layout.
_MAX_BARS = 8
#: Goes to the begin of the line, and clears all that is below it: bars, which appear again.
_CLEAR = "\r\033[J"


# `unused-ignore` is listed because tqdm's stubs may or may not be installed.
class _Bar(tqdm):  # type: ignore[misc, type-arg, unused-ignore]
    """A bar without tqdm's monitor thread, because processes may be forked while it is shown."""

    monitor_interval = 0


@contextmanager
def progress(
    label: str, total: int, unit: str = "frame", *, file: TextIO | None = None, log: TextIO | None = None
) -> Iterator[Callable[[int], object]]:
    """Yields a function that is called with the number of units done since its last call.

    Args:
        total: number of units to do; 0 = nobody knows.
        unit: what they are; "B" = bytes, which a bar shows as megabytes or what fits.
        file: the terminal, where a bar is shown; None = stderr. What is no terminal gets nothing.
        log: gets lines.
    """
    stream = file or sys.stderr
    begin = last_line = time.monotonic()
    with (
        _line_of_terminal(stream) as line,
        _Bar(
            total=total or None,
            desc=label,
            unit=unit,
            unit_scale=unit == "B",
            file=stream,
            leave=False,
            dynamic_ncols=True,
            position=line,
            disable=line is None,
        ) as bar,
    ):
        done = 0

        def advance(count: int) -> None:
            nonlocal done, last_line
            bar.update(count)
            done += count
            now = time.monotonic()
            if log and now - last_line >= _LINE_EVERY_S and done < total:
                last_line = now
                say(tqdm.format_meter(done, total, now - begin, prefix=label, unit=unit, bar_format=_LINE), log)

        yield advance
    seconds = time.monotonic() - begin
    if log and seconds >= _LINE_EVERY_S:
        count = total or done
        say(f"{label}: {count} {unit}s in {seconds:.1f} s, {count / seconds:.1f} {unit}/s", log)


def say(line: str, *streams: TextIO | None) -> None:
    """Print a line on streams, where there are any. On a terminal it takes the place of the bars of all processes."""
    for stream in filter(None, streams):
        print(f"{_CLEAR if stream.isatty() else ''}{printable(line)}", file=stream, flush=True)


@contextmanager
def _line_of_terminal(stream: TextIO) -> Iterator[int | None]:
    """Yields the number of the first line below the cursor where no other process shows a bar; None = no terminal."""
    if not stream.isatty():
        yield None
        return
    line = 0
    with suppress(OSError):  # no lock can be had: all show theirs in one line
        for line in range(_MAX_BARS):
            with suppress(BlockingIOError):
                fcntl.lockf(stream, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, line)
                break
    try:
        yield line
    finally:
        with suppress(OSError):
            fcntl.lockf(stream, fcntl.LOCK_UN, 1, line)
