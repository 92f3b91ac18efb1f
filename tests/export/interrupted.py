"""Exports that are killed, that find the disk full, and of which two run at once. `python -m tests.export.interrupted`.

It needs the library of the fault campaign (`tests/campaign/faults.c`) loaded before the C library, as
`tests/export/test_interrupted.py` does. Each run is a fork of one process: a kill is a SIGKILL of a real process,
before or after one of its calls to the operating system.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from rover_pipeline.datasets.table import DATASETS
from rover_pipeline.format.attempt import PARTIAL
from tests.campaign.faults import DONE, ERROR, MODES, Laboratory, Results
from tests.campaign.subjects import Subject
from tests.export.subjects import RESULT, prepare, runner
from tests.kit import STAMP

#: Calls at the end of a run by which a dataset gets its name.
_PUBLISHING = 12


class Exports(Laboratory):
    """The exports of one format."""

    def __init__(self, name: str, folder: Path, over: bool) -> None:
        self._merges = DATASETS[name].kind == "merge"
        super().__init__(Subject(self._prepare, runner(name), (RESULT,)), folder, over)

    def _prepare(self, folder: Path) -> None:
        prepare(folder)
        if self._merges:
            (folder / RESULT).mkdir(parents=True)  # into a folder that is there; a new one gets its name as a whole

    def _wrong_bytes(self, found: Results) -> list[str]:
        """Where files are put beside others, some of them may be there, each of them whole."""
        if not self._merges:
            return super()._wrong_bytes(found)
        wanted = self.wanted[RESULT]
        return [f"{name} is not whole" for name, content in found[RESULT].items() if wanted.get(name) != content]

    def at_once(self) -> list[str]:
        """What is wrong when an export begins while another one into the same folder is stopped at its first file."""
        self._restore()
        first = os.fork()
        if first == 0:
            status = ERROR
            try:
                _stop_at_first_file(self.work)
                self.subject.run(self.work, STAMP, 1)
                status = DONE
            finally:
                os._exit(status)
        if not os.WIFSTOPPED(os.waitpid(first, os.WUNTRACED)[1]):
            return ["the first export did not stop at its first file"]
        ended, words = self.run(STAMP)
        wrong = [] if ended == ERROR and "is being made by another process" in words else [f"the second: {words}"]
        os.kill(first, signal.SIGCONT)
        if os.waitstatus_to_exitcode(os.waitpid(first, 0)[1]) != DONE or self.result() != self.wanted:
            wrong.append("the first export does not end as an undisturbed one")
        return wrong

    def points(self, kills: int) -> list[tuple[str, int]]:
        """Modes and calls: kills spread over the work, two of them while it is published, and two full disks."""
        changes = [at for at, call in enumerate(self.calls) if call != "read"]
        working = np.linspace(0, len(changes) - _PUBLISHING, kills - 2).astype(int).tolist()
        at = [changes[index] for index in (*working, -6, -2)]
        listed = [(("kill before", "kill after")[n % 2], call) for n, call in enumerate(at)]
        writes = [call for call in changes if self.calls[call] == "write"]
        return [*listed, ("ENOSPC once", writes[len(writes) // 2]), ("ENOSPC from then on", writes[len(writes) // 3])]


def _stop_at_first_file(work: Path) -> None:
    """Stop this process when it opens the first file of the dataset for writing."""
    scratch = re.compile(rf"{work}/.*{PARTIAL}/out\.[^/]+/out/")
    stopped: list[bool] = []

    def stop(event: str, arguments: tuple[object, ...]) -> None:
        if event != "open" or stopped or not isinstance(arguments[0], str | bytes | os.PathLike):
            return
        creates = isinstance(arguments[2], int) and arguments[2] & os.O_CREAT
        if creates and scratch.match(os.fsdecode(arguments[0])):
            stopped.append(True)
            os.kill(os.getpid(), signal.SIGSTOP)

    sys.addaudithook(stop)


def main(names: list[str], kills: int) -> int:
    """Disturb the exports of some formats; returns how much is wrong."""
    problems = 0
    for name in names:
        begin, listed = time.monotonic(), []
        with tempfile.TemporaryDirectory(prefix="exports-") as folder:
            laboratory = Exports(name, Path(folder), over=False)
            points = laboratory.points(kills)
            for mode, at in points:
                place = f"{mode} {at} ({laboratory.calls[at]})"
                listed += [f"{name}: {place}: {each}" for each in laboratory.disturb(MODES[mode], at)]
            listed += [f"{name}: two at once: {each}" for each in laboratory.at_once()]
        print("\n".join(listed), end="\n" if listed else "")
        took = time.monotonic() - begin
        print(f"{name}: {len(points)} points of {len(laboratory.calls)} calls, {len(listed)} wrong, {took:.1f} s")
        problems += len(listed)
    return problems


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[2:] or list(DATASETS), int(sys.argv[1]))))
