"""What the processor seconds of a step are spent on: `python -m benchmarks.spent TRACE STEP...`.

The steps are made in this process, on one thread, without a profiler: calls of libraries that decode, of the system
that read and write, and of compiled kernels are timed by the clock of their thread. What is left is Python, NumPy and
other libraries. Page faults are counted by the system, and priced by what fresh memory costs; they are in the others.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: What a call is, by the name that its module has for it.
CALLS = {
    "decoding": ("rover_pipeline.format.channels.lzmaf:lzma_decode", "simplejpeg:decode_jpeg"),
    "encoding": ("lzma:compress", "cv2:imencode", "simplejpeg:encode_jpeg"),
    "reading": ("os:pread", "os:preadv"),
    "writing": ("os:pwrite", "os:fsync"),
}


class Spent:
    """Seconds by what they are spent on, and by kernel."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.kernels: dict[str, float] = defaultdict(float)

    def timed(self, function: Callable[..., Any], what: str, kernel: bool = False) -> Callable[..., Any]:
        def call(*values: Any, **named: Any) -> Any:
            begin = time.thread_time()
            try:
                return function(*values, **named)
            finally:
                took = time.thread_time() - begin
                self.seconds[what] += took
                if kernel:
                    self.kernels[values[0].py_func.__qualname__] += took

        return call


def measure(trace: Path, names: list[str]) -> dict[str, Any]:
    """Make some outputs of one job. Times are seconds of the processor."""
    from rover_pipeline.engine.apart import keep_freed
    from rover_pipeline.engine.execute import Request
    from rover_pipeline.engine.step import loaded
    from rover_pipeline.engine.together import ResultRequest, run_together
    from rover_pipeline.lookup import load
    from rover_pipeline.table import TABLE

    for name in names:
        loaded(TABLE[name].function)
    spent = Spent()
    for what, calls in CALLS.items():
        for each in calls:
            module = load(f"{each.partition(':')[0]}:__dict__")
            name = each.partition(":")[2]
            module[name] = spent.timed(module[name], what)
    if "numba" in sys.modules:
        from numba.core.dispatcher import Dispatcher

        (in_c,) = (each for each in Dispatcher.__mro__ if each.__module__.endswith("_dispatcher"))
        setattr(Dispatcher, "__call__", spent.timed(in_c.__call__, "kernels", kernel=True))  # noqa: B010
    keep_freed()  # as a job does
    before = resource.getrusage(resource.RUSAGE_SELF)
    made = run_together([ResultRequest(TABLE[each], each, Request()) for each in names], trace)
    if failed := [each for each in made.values() if isinstance(each, Exception)]:
        raise failed[0]
    after = resource.getrusage(resource.RUSAGE_SELF)
    user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
    found = {"start-up": before.ru_utime + before.ru_stime, "user": user, "system": system}
    found |= {what: spent.seconds[what] for what in (*CALLS, "kernels")}
    found["rest"] = user + system - sum(spent.seconds.values())
    found["page faults"] = (after.ru_minflt - before.ru_minflt) * seconds_of_a_fault()
    return {"seconds": found, "kernels": dict(sorted(spent.kernels.items(), key=lambda each: -each[1])[:5])}


def seconds_of_a_fault(megabytes: int = 256) -> float:
    """What a page costs that is touched for the first time, s."""
    page, memory = os.sysconf("SC_PAGE_SIZE"), bytearray(0)
    begin = time.process_time()
    memory = bytearray(megabytes << 20)  # the system zeroes its pages when they are read
    for at in range(0, len(memory), page):
        memory[at]
    loop = time.process_time()
    for at in range(0, len(memory), page):
        memory[at]
    end = time.process_time()
    return max(0.0, (loop - begin - (end - loop)) / (len(memory) // page))


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]), sys.argv[2:])))
