"""Snakemake and its jobs as one group of processes, which ends together: Ctrl-C, SIGTERM and SIGHUP reach all of it.

As a program it is Snakemake's own command, which is silent when it is interrupted while it starts.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType

from rover_pipeline.lookup import LateModule, stop_collector

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: Time between two looks at processes that are ending, s. Schedule.
_LOOK_S = 0.05


def run_group(command: Sequence[str], environment: Mapping[str, str], folder: Path) -> int:
    """Run a command in a folder, in a group of processes of its own. Returns its exit status.

    A signal that would end this process interrupts the group, as Ctrl-C does, and raises KeyboardInterrupt after it.
    """
    # Blocked until there is a group to hand them to.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    got: list[int] = []
    process = subprocess.Popen(command, env=environment, cwd=folder, process_group=0)

    def hand_on(number: int, frame: FrameType | None) -> None:
        got.append(number)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)

    heeded = [number for number in _SIGNALS if signal.getsignal(number) != signal.SIG_IGN]  # not those of `nohup`
    before = {number: signal.signal(number, hand_on) for number in heeded}
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    try:
        status = process.wait()
        while got and _has_processes(process.pid):
            time.sleep(_LOOK_S)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if got:
        raise KeyboardInterrupt
    return status


def _has_processes(group: int) -> bool:
    """Whether any process of a group lives. One that has ended may stay listed where nobody asks for its status."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, its_group = path.read_bytes().rpartition(b")")[2].split()[:3]
            if int(its_group) == group and state != b"Z":
                return True
    return False


if __name__ == "__main__":
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        for name in ("numpy", "requests"):
            LateModule(name)  # Snakemake and its plugins name it in every run, and hardly ever use it
        # Snakemake asks of each parameter of a rule that it keeps whether it is one of these.
        LateModule("pandas", classes=("DataFrame", "Series", "Index"))
        stop_collector()  # `Plans.begin` starts it again when the jobs are known
        from snakemake.cli import main

        main()
    except KeyboardInterrupt:
        os._exit(130)
