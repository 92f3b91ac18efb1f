"""Progress of a long step: a bar with rate and remaining time at a terminal, a line every few seconds in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from tqdm import tqdm

_LINE_EVERY_S = 10.0
_LINE = "{desc}: {percentage:3.0f} %, {n_fmt} of {total_fmt}, {rate_fmt}, {remaining} left"


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
        file: where to show the progress, None = stderr. A terminal shows a bar, anything else gets lines.
        log: gets lines too.
    """
    stream = file or sys.stderr
    at_terminal = stream.isatty()
    plain = [out for out in (None if at_terminal else stream, log) if out is not None]
    begin = last_line = time.monotonic()
    with _Bar(
        total=total or None,
        desc=label,
        unit=unit,
        file=stream,
        leave=False,
        dynamic_ncols=True,
        disable=not at_terminal,
    ) as bar:
        done = 0

        def advance(count: int) -> None:
            nonlocal done, last_line
            bar.update(count)
            done += count
            now = time.monotonic()
            if now - last_line >= _LINE_EVERY_S and done < total:
                last_line = now
                _print(tqdm.format_meter(done, total, now - begin, prefix=label, unit=unit, bar_format=_LINE), plain)

        yield advance
    seconds = time.monotonic() - begin
    if seconds >= _LINE_EVERY_S:
        count = total or done
        _print(f"{label}: {count} {unit}s in {seconds:.1f} s, {count / seconds:.1f} {unit}/s", plain)


def _print(line: str, streams: list[TextIO]) -> None:
    for stream in streams:
        print(line, file=stream, flush=True)
