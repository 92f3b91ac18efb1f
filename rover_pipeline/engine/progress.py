"""How far a long step is: a bar with rate and ETA at a terminal, a plain line now and then in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from tqdm import tqdm

_LINE_EVERY_S = 10.0


# The last of these: tqdm's stubs may or may not be installed.
class _Bar(tqdm):  # type: ignore[misc, type-arg, unused-ignore]
    """A bar without a thread that watches it: processes may be forked while it is shown."""

    monitor_interval = 0


@contextmanager
def progress(
    label: str, total: int, unit: str = "frame", *, file: TextIO | None = None, log: TextIO | None = None
) -> Iterator[Callable[[int], object]]:
    """Yields a function that is told how many more of `total` are done.

    Args:
        file: where to show it, stderr unless given: a bar if it is a terminal, else plain lines.
        log: gets plain lines too.
    """
    stream = file or sys.stderr
    at_terminal = stream.isatty()
    plain = [out for out in (None if at_terminal else stream, log) if out is not None]
    begin = said = time.monotonic()
    with _Bar(
        total=total, desc=label, unit=unit, file=stream, leave=False, dynamic_ncols=True, disable=not at_terminal
    ) as bar:
        done = 0

        def advance(count: int) -> None:
            nonlocal done, said
            bar.update(count)
            done += count
            now = time.monotonic()
            if now - said >= _LINE_EVERY_S and done < total:
                said = now
                # tqdm's rate and ETA, without a picture that fills the log.
                line = tqdm.format_meter(done, total, now - begin, prefix=label, unit=unit, bar_format=_LINE)
                _tell(line, plain)

        yield advance
    took = time.monotonic() - begin
    if took >= _LINE_EVERY_S:
        _tell(f"{label}: {total} {unit}s in {took:.1f} s, {total / took:.1f} {unit}/s", plain)


def _tell(line: str, streams: list[TextIO]) -> None:
    for stream in streams:
        print(line, file=stream, flush=True)


_LINE = "{desc}: {percentage:3.0f} %, {n_fmt} of {total_fmt}, {rate_fmt}, {remaining} left"
