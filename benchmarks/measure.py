"""Whole processes, ours and a peer's in turn, so that a machine whose speed drifts still gives a fair ratio."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import NamedTuple


class Run(NamedTuple):
    """Wall seconds and peak resident memory, MiB, of one process."""

    seconds: float
    peak_mib: float


def run(command: Sequence[str], *, before: Callable[[], None] = lambda: None) -> Run:
    """Run a command once; it must succeed. Peak memory is the kernel's own figure for that process."""
    before()
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    message = process.stderr.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}\n{message}")
    return Run(seconds, peak_mib(usage))


def peak_mib(usage: resource.struct_rusage) -> float:
    return usage.ru_maxrss / 1024  # Linux counts kilobytes


def interleaved(
    rounds: int, commands: dict[str, Sequence[str]], *, before: Callable[[], None] = lambda: None
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


def step_command(name: str, trace: Path, raw: str, made: str, threads: int = 2) -> list[str]:
    """The command of a step, as a rule of the workflow gives it."""
    files = ["--input", str(trace / raw / "meta.json"), "--output", str(trace / made / "meta.json")]
    return [sys.executable, "-m", "rover_pipeline", "step", name, *files, "--threads", str(threads)]


def print_versions(*distributions: str) -> None:
    found = (f"{name} {metadata.version(name)}" for name in ("rover-pipeline", *distributions))
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} processors; {', '.join(found)}")
