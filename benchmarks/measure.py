"""Whole processes, ours and a peer's in turn, so that a machine whose speed drifts still gives a fair ratio."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import NamedTuple


class Run(NamedTuple):
    """Wall seconds, peak resident memory, MiB, and seconds of processor time of one process."""

    seconds: float
    peak_mib: float
    processor: float


#: Runs a command from a small process of its own: the kernel counts the memory of whoever starts a process as the
#: peak of that process, and a benchmark that has loaded numpy and a recording is large.
_STARTER = """
import os, sys, time
begin = time.perf_counter()
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(child, 0)
processor = usage.ru_utime + usage.ru_stime
print(time.perf_counter() - begin, usage.ru_maxrss, processor, os.waitstatus_to_exitcode(status), file=sys.stdout)
"""


def run(command: Sequence[str], *, before: Callable[[], None] = lambda: None) -> Run:
    """Run a command, given by its path, once; it must succeed."""
    before()
    starter = [sys.executable, "-I", "-S", "-c", _STARTER, *command]
    done = subprocess.run(starter, capture_output=True, text=True, check=True)
    seconds, kilobytes, processor, status = done.stdout.split()[-4:]
    if int(status):
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    return Run(float(seconds), int(kilobytes) / 1024, float(processor))


def interleaved(
    rounds: int, commands: Mapping[str, Sequence[str]], *, before: Callable[[], None] = lambda: None
) -> dict[str, list[Run]]:
    """`rounds` runs of each command in turn, after one of each that is not counted."""
    for command in commands.values():
        run(command, before=before)
    found: dict[str, list[Run]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            found[name].append(run(command, before=before))
    return found


def median_seconds(runs: Sequence[Run]) -> float:
    return statistics.median(run.seconds for run in runs)


def step_command(sensor: str, trace: Path, threads: int = 2) -> list[str]:
    """The command that makes a virtual sensor, as a rule of the workflow gives it."""
    files = ["--trace", str(trace), "--output", str(trace / sensor / "meta.json")]
    return [sys.executable, "-m", "rover_pipeline", "step", sensor, *files, "--threads", str(threads)]


def steps_command(sensors: Sequence[str], trace: Path, threads: int = 2) -> list[str]:
    """The command that makes a virtual sensor, or the run that makes several in one pass over the raw bytes."""
    if len(sensors) == 1:
        return step_command(sensors[0], trace, threads)
    names = ",".join(sensor.removeprefix("_") for sensor in sensors)
    return [sys.executable, "-m", "rover_pipeline", "run", str(trace), "--outputs", names, "--cores", str(threads)]


def print_versions(*distributions: str) -> None:
    found = (f"{name} {metadata.version(name)}" for name in ("rover-pipeline", *distributions))
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} processors; {', '.join(found)}")
