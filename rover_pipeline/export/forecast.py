"""How long an export will take, told before it begins."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

#: A shorter time is not told: the export is there before the line is read, s.
_WORTH_TELLING_S = 5.0


def tell_duration(label: str, work: Sequence[tuple[int, str, Callable[[], object]]], threads: int = 1) -> float:
    """Print to stderr how long an export will take, by what one sample of each kind takes now. Returns the seconds.

    Args:
        label: format and recording.
        work: number of samples, what they are called, and a function that does what one of them takes.
        threads: samples that are worked on at once.
    """
    total = 0.0
    for count, _, probe in work:
        if count:
            probe()  # the first one opens files and compiles kernels
            begin = time.monotonic()
            probe()
            total += count * (time.monotonic() - begin) / threads
    if total >= _WORTH_TELLING_S:
        parts = ", ".join(f"{count:,} {name}" for count, name, _ in work if count)
        print(f"{label}: {parts} will take about {_text(total)}", file=sys.stderr, flush=True)
    return total


def _text(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
