"""Runs many cases in forked processes that are watched: for hangs, deaths, memory, and what they write."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

#: Longest time of one case, seconds, and most memory of a process, bytes: what users are promised.
LIMIT_S, LIMIT_BYTES = 20.0, 1 << 30
#: A process is renewed after so many cases: libraries keep some memory for each.
_CASES_OF_A_PROCESS = 400


@dataclass
class Tally:
    """Counts of a campaign.

    Attributes:
        counts: outcome -> number of cases.
        findings: (case, what is wrong), at most a few of them kept.
        slowest, largest: seconds of the slowest case, and bytes of the largest process.
    """

    counts: dict[str, int] = field(default_factory=dict)
    findings: list[tuple[str, str]] = field(default_factory=list)
    slowest: tuple[float, str] = (0.0, "")
    largest: tuple[int, str] = (0, "")

    def add(self, outcome: str, count: int = 1) -> None:
        self.counts[outcome] = self.counts.get(outcome, 0) + count

    def merge(self, other: Tally) -> None:
        for outcome, count in other.counts.items():
            self.add(outcome, count)
        self.findings += [(name, problem) for name, problem in other.findings]
        self.slowest = max(self.slowest, (other.slowest[0], other.slowest[1]))
        self.largest = max(self.largest, (other.largest[0], other.largest[1]))


def run_cases(
    cases: list[Any], prepare: Callable[[], Any], run: Callable[[Any, Any], tuple[str, str]], tally: Tally
) -> None:
    """Run cases one after the other in forked processes.

    Args:
        cases: JSON values, which name a case too.
        prepare: called in each new process; `run` gets what it returns, and a case, and returns an outcome to count
            and what is wrong ("" = nothing).
    """
    at = 0
    while at < len(cases):
        at += _run_in_fork(cases[at : at + _CASES_OF_A_PROCESS], prepare, run, tally)


def _run_in_fork(cases: list[Any], prepare: Any, run: Any, tally: Tally) -> int:
    """Run cases until a process dies or has done them all; the number of cases that were done."""
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(receiving)
        status = 1
        try:
            _work(cases, prepare, run, sending)
            status = 0
        except BaseException as error:
            print(f"campaign: {error!r}", file=sys.__stderr__, flush=True)
        finally:
            os._exit(status)
    os.close(sending)
    done = 0
    begun = time.monotonic()
    with os.fdopen(receiving, "rb", buffering=0) as pipe:
        buffer = b""
        while True:
            patience = LIMIT_S + (40 if done == 0 else 5)  # the first one prepares the process
            ready, _, _ = select.select([pipe], [], [], max(0.0, begun + patience - time.monotonic()))
            if not ready:
                os.kill(child, signal.SIGKILL)
                tally.findings.append((json.dumps(cases[done]), f"takes more than {patience:.0f} s"))
                tally.add("hang")
                break
            part = pipe.read(1 << 16)
            if not part:
                break
            *lines, buffer = (buffer + part).split(b"\n")
            for line in lines:
                outcome, problem, seconds, size = json.loads(line)
                name = json.dumps(cases[done])
                tally.add(outcome)
                tally.slowest = max(tally.slowest, (seconds, name))
                tally.largest = max(tally.largest, (size, name))
                if problem:
                    print(f"{name}: {problem}", file=sys.stderr, flush=True)
                    tally.findings.append((name, problem))
                if seconds > LIMIT_S:
                    tally.findings.append((name, f"takes {seconds:.1f} s"))
                if size > LIMIT_BYTES:
                    tally.findings.append((name, f"takes {size >> 20} MiB"))
                done, begun = done + 1, time.monotonic()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if done < len(cases) and status not in (0, -signal.SIGKILL):
        tally.findings.append((json.dumps(cases[done]), f"the process died: {status}"))
        tally.add("death")
    return min(len(cases), done + (1 if done < len(cases) and (status != 0 or done == 0) else 0))


def _work(cases: list[Any], prepare: Any, run: Any, sending: int) -> None:
    # Beyond this an allocation fails: the machine must not.
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
    with contextlib.suppress(ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    place = prepare()
    for case in cases:
        begun = time.monotonic()
        outcome, problem = run(place, case)
        size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        line = json.dumps([outcome, problem[:2000], time.monotonic() - begun, size]).encode() + b"\n"
        os.write(sending, line)
        if size > LIMIT_BYTES:
            return  # the peak stays: a new process for the next ones
