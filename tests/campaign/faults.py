"""The fault campaign: one call to the operating system fails, or the process is killed before or after it.

`python -m tests.campaign faults` does so for thousands of points: for each step and product, import and export, over
nothing and over an older result, at calls spread over the whole run. After each point it looks whether

- raw bytes are as they were,
- the result is the new one, the older one, or absent where there was none,
- exit 0 means that the new result is there, and an error that it is not,
- an error is one line, and leaves no scratch file where only one call failed,
- the same command once more gives the bytes of an undisturbed run.

`faults.c` disturbs the calls; a C compiler, `cc`, builds it. Each run is a fork of one process that has imported all.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import gc
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rover_pipeline.errors import RoverError
from rover_pipeline.format.attempt import PARTIAL
from rover_pipeline.format.provenance import PROVENANCE
from tests.campaign.subjects import OLDER_STAMP, Subject, subjects
from tests.kit import PER_PROCESS, STAMP, environment

SOURCE = Path(__file__).with_name("faults.c")
LIBRARY = "ROVER_PIPELINE_FAULTS"
#: What a run ended with.
DONE, ERROR, UNEXPECTED = 0, 1, 3
_COUNT = 0


class Mode(NamedTuple):
    """A way to disturb a call: number in `faults.c`, and the error."""

    number: int
    error: int = 0


MODES = {
    "EIO once": Mode(1, errno.EIO),
    "ENOSPC once": Mode(1, errno.ENOSPC),
    "EIO from then on": Mode(2, errno.EIO),
    "ENOSPC from then on": Mode(2, errno.ENOSPC),
    "kill before": Mode(3),
    "kill after": Mode(4),
}
Files = dict[str, bytes]
#: Files of each result.
Results = dict[str, Files]


class Laboratory:
    """Runs one subject in copies of a prepared folder, with and without disturbance."""

    def __init__(self, subject: Subject, folder: Path, over: bool) -> None:
        self.subject, self.folder = subject, folder
        self.library = ctypes.CDLL(os.environ[LIBRARY])
        self.library.fault_name.restype = ctypes.c_char_p
        self.base, self.work = folder / "base", folder / "work"
        subject.prepare(self.base)
        self.raw = _files(self.base)
        self.older: Results = {name: {} for name in subject.results}
        self._restore()
        # This run imports modules and loads kernels, so that forks need not. One thread: others do not live in forks.
        subject.run(self.work, STAMP, 1)
        self.wanted, self.shared = self.result(), self._shared()
        if over:
            self._restore()
            assert self.run(OLDER_STAMP)[0] == DONE, self.stderr()
            for name in subject.results:
                _make_different(self.work / name)
                shutil.copytree(self.work / name, self.base / name, symlinks=True)
            self.older = self.result()
        self._restore()
        assert self.run(STAMP, count=True)[0] == DONE, self.stderr()
        assert self.result() == self.wanted, "two undisturbed runs differ"
        self.calls = json.loads((folder / "calls").read_text())

    def run(self, stamp: str, mode: Mode | None = None, at: int = 0, count: bool = False) -> tuple[int, str]:
        """One run in a fork: what it ended with, and its last words."""
        child = os.fork()
        if child == 0:
            status = UNEXPECTED
            try:
                os.dup2(os.open(self.folder / "stderr", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
                chosen = mode or Mode(_COUNT)
                if mode or count:
                    self.library.fault_arm(os.fsencode(self.work), at, chosen.number, chosen.error)
                self.subject.run(self.work, stamp, 2)
                status = DONE
            except (RoverError, OSError) as error:
                status = ERROR if "\n" not in str(error) else UNEXPECTED
                print(error, file=sys.stderr, flush=True)
            except BaseException as error:
                print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            finally:
                self.library.fault_disarm()
                if count:
                    names = [self.library.fault_name(n).decode() for n in range(self.library.fault_counted())]
                    (self.folder / "calls").write_text(json.dumps(names))
                os._exit(status)
        deadline = time.monotonic() + 60
        while True:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status), self.stderr()
            if time.monotonic() > deadline:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return UNEXPECTED, "hangs"
            time.sleep(0.002)

    def disturb(self, mode: Mode, at: int) -> list[str]:
        """Everything that is wrong after a disturbed run; empty when nothing is."""
        self._restore()
        status, words = self.run(STAMP, mode, at)
        killed = status == -signal.SIGKILL
        wrong = [] if killed or status in (DONE, ERROR) else [f"unexpected end {status}: {words}"]
        found = self.result()
        told = self.subject.tells and status == ERROR and any(found.values())
        wrong += self._wrong_bytes(self.wanted if told else found)
        done = found == self.wanted and self._shared() == self.shared
        if status == DONE and not done:
            wrong.append("exit 0 without the result")
        if status == ERROR and done:
            wrong.append("an error over a whole result")
        if mode.number == 1 and self._scratch():
            wrong.append(f"scratch is left: {self._scratch()}")
        if found == self.wanted and not self.subject.replaces and not self.subject.shared:
            return wrong  # the same command again would rightly say that it is there
        status, words = self.run(STAMP)
        if status != DONE or self.result() != self.wanted or self._shared() != self.shared:
            wrong.append(f"the next run does not finish the work: {words}")
        if self._scratch():
            wrong.append("scratch is left by the next run")
        return wrong

    def _wrong_bytes(self, found: Results) -> list[str]:
        before = {name: content for name, content in self.raw.items() if name != self.subject.shared}
        wrong = [] if self._raw() == before else ["raw bytes changed"]
        for name, files in found.items():
            older = self.older[name]
            if files not in (self.wanted[name], older):
                problem = "the older result is lost" if older and not files else "a result that is not whole"
                wrong.append(f"{problem}: {name}")
        if self._shared() not in (self.shared, self.raw.get(self.subject.shared, b"")):
            wrong.append("a file of the trace that is not whole")
        return wrong

    def result(self) -> Results:
        """Files of the results without what tells times."""
        return {name: self._result(self.work / name) for name in self.subject.results}

    def _result(self, place: Path) -> Files:
        files = {"": place.read_bytes()} if place.is_file() else _files(place)
        for name in [name for name in files if name.endswith(PROVENANCE)]:
            content = json.loads(files[name])
            files[name] = json.dumps({key: value for key, value in content.items() if key not in PER_PROCESS}).encode()
        return files

    def stderr(self) -> str:
        return (self.folder / "stderr").read_text(errors="replace").strip()[-300:]

    def _raw(self) -> Files:
        found = _files(self.work, self.subject.results)
        return {name: data for name, data in found.items() if name != self.subject.shared}

    def _shared(self) -> bytes:
        path = self.work / self.subject.shared
        return path.read_bytes() if path.is_file() else b""

    def _scratch(self) -> list[str]:
        return [str(path.relative_to(self.work)) for path in self.work.rglob(f"{PARTIAL}*")]

    def _restore(self) -> None:
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.copytree(self.base, self.work, symlinks=True)


def _files(folder: Path, besides: tuple[str, ...] = ()) -> Files:
    return {
        name: path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and not (name := str(path.relative_to(folder))).startswith(besides)
        and PARTIAL not in path.relative_to(folder).parts
    }


def _make_different(result: Path) -> None:
    """Other bytes in every file of an older result but its metadata, so that a mixture is noticed."""
    for path in result.rglob("*"):
        if path.is_file() and path.suffix != ".json" and path.stat().st_size:
            path.write_bytes(bytes(np.frombuffer(path.read_bytes(), "u1") ^ 0x55))


def points_of(calls: Sequence[str], share: float, rng: np.random.Generator) -> list[tuple[str, int]]:
    """Modes and calls to try: a share of all pairs, of every kind of call at least one."""
    pairs = [(name, at) for name in MODES for at in range(len(calls))]
    chosen = set(rng.permutation(len(pairs))[: max(1, round(share * len(pairs)))].tolist())
    kinds: dict[str, int] = {}
    for at, kind in enumerate(calls):
        kinds.setdefault(kind, at)
    return [
        pair
        for index, pair in enumerate(pairs)
        if index in chosen or (pair[0] == "EIO once" and pair[1] in kinds.values())
    ]


def campaign(
    names: Sequence[str], share: float, seed: int, tell: Callable[[str], object]
) -> tuple[Counter[str], list[str]]:
    """Disturb subjects; returns counts of points by mode and of what is wrong, and a line for each that is wrong."""
    counts: Counter[str] = Counter()
    lines: list[str] = []
    rng = np.random.default_rng(seed)
    known = subjects()
    for name in names or known:
        for over in (False, True) if known[name].replaces else (False,):
            state = f"{name}, over {'an older result' if over else 'nothing'}"
            with tempfile.TemporaryDirectory(prefix="faults-") as folder:
                begin, before = time.monotonic(), len(lines)
                laboratory = Laboratory(known[name], Path(folder), over)
                points = points_of(laboratory.calls, share, rng)
                for mode, at in points:
                    counts[mode] += 1
                    for wrong in laboratory.disturb(MODES[mode], at):
                        counts[wrong.partition(":")[0]] += 1
                        lines.append(f"{state}: {mode}, call {at} ({laboratory.calls[at]}): {wrong}")
                        tell(lines[-1])
                figures = f"{len(points)} points of {len(laboratory.calls)} calls, {len(lines) - before} wrong"
                tell(f"{state}: {figures}, {time.monotonic() - begin:.0f} s")
            gc.collect()
    return counts, lines


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign faults", description=__doc__)
    parser.add_argument("--share", type=float, default=0.25, help="of all pairs of a call and a mode (default: 0.25)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("subjects", nargs="*", help="names of steps, or other subjects (default: all)")
    given = parser.parse_args(arguments)
    if LIBRARY not in os.environ:
        with tempfile.TemporaryDirectory(prefix="faults-") as folder:
            library = build(Path(folder))
            command = [sys.executable, "-m", "tests.campaign", "faults", *arguments]
            preloaded = {**environment(), "LD_PRELOAD": str(library), LIBRARY: str(library)}
            raise SystemExit(subprocess.run(command, env=preloaded, check=False).returncode)
    counts, lines = campaign(given.subjects, given.share, given.seed, lambda line: print(line, flush=True))
    for name, count in counts.items():
        print(f"{count:8,} {name}")
    print(f"{sum(counts[name] for name in MODES):8,} points, {len(lines)} wrong")
    raise SystemExit(bool(lines))


def build(folder: Path) -> Path:
    """The compiled `faults.c`."""
    library = folder / "faults.so"
    command = ["cc", "-shared", "-fPIC", "-O1", "-D_LARGEFILE64_SOURCE", "-o", str(library), str(SOURCE), "-ldl"]
    subprocess.run(command, check=True)
    return library
