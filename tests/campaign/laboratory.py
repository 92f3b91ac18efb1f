"""A recording, and real schedulers, workers and commands around it as processes of their own, on free ports."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rover_pipeline.format.failures import FOLDER
from rover_pipeline.options import DASK_VARIABLE
from tests.kit import PER_PROCESS, ROOT, assert_same, small_trace, snapshot

#: Seconds that a command may take when nothing is in its way, on a machine that does other work too.
SOON = 30.0
#: Where a process finds modules. The given folder comes before the checkout.
PYTHONPATH = "PYTHONPATH"
#: Lines on stderr that are no errors.
_NOTES = re.compile(
    r"waiting for|asking Slurm for|.*: waiting for process|.* samples?, .* invalid, .* s$|"
    r".*%\||.*:\s+\d+ %,|.*: \d+ frames in "
)


class Laboratory:
    """A small recording in `folder`, and the processes that a scenario starts. All of them end with the block."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.trace = small_trace(folder / "trace", sensors=("radar",))
        self.raw = snapshot(self.trace)
        self.processes: list[subprocess.Popen[str]] = []
        self.address = ""
        self._log = folder  # of the scheduler, as soon as there is one

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def start(self, command: Sequence[str], name: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """A process in a session of its own, with more in its environment. Its stderr goes to the file `name`."""
        given = env or {}
        path = os.pathsep.join([*([given[PYTHONPATH]] if PYTHONPATH in given else []), str(ROOT)])
        with (self.folder / name).open("w") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-m", *command],
                env={**os.environ, **given, PYTHONPATH: path},
                cwd=self.folder,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                text=True,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def scheduler(self, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """A Dask scheduler; its address is `address` then."""
        file = self.folder / f"scheduler-{len(self.processes)}.json"
        command = ["distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
        process = self.start([*command, "--scheduler-file", str(file)], file.stem, env)
        wait_until(file.exists)
        wait_until(lambda: file.read_text().rstrip().endswith("}"))
        self.address = json.loads(file.read_text())["address"]
        self._log = self.folder / file.stem
        return process

    def worker(self, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """A worker of the scheduler, with one thread, that is registered."""
        name = f"worker-{len(self.processes)}"
        command = ["distributed.cli.dask_worker", self.address, "--nthreads", "1", "--no-nanny", "--no-dashboard"]
        process = self.start([*command, "--local-directory", str(self.folder)], name, env)
        wait_until(lambda: "Registered to" in (self.folder / name).read_text())
        return process

    def lose(self, worker: subprocess.Popen[str]) -> None:
        """Kill a worker, and wait until the scheduler knows: until then, it may still be asked to work."""
        known = self._log.read_text().count("Remove worker")
        worker.kill()
        worker.wait()
        wait_until(lambda: self._log.read_text().count("Remove worker") > known)

    def gate(self) -> Path:
        """A new folder for the gate of `tests.campaign.gated`, which is closed."""
        folder = self.folder / f"gate-{len(list(self.folder.glob('gate-*')))}"
        folder.mkdir()
        return folder

    def run(
        self,
        factor: float,
        *,
        step: str = "gated",
        dask: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Command:
        """Start `rover-pipeline step` on the recording: on threads, or where `dask` says."""
        request = json.dumps({"options": {"factor": factor}})
        name = f"command-{len(self.processes)}"
        command = ["rover_pipeline", "step", f"tests.campaign.gated:{step}", "--trace", str(self.trace)]
        command += ["--threads", "2", "--output", str(self.trace / f"_{step}" / "meta.json"), "--request", request]
        spread = {"chunk": 1, "connect_timeout": 4, "worker_timeout": 4, **(dask or {})}
        process = self.start(command, name, {DASK_VARIABLE: json.dumps(spread), **(env or {})})
        return Command(process, self.folder / name)

    def remote(self, factor: float, env: Mapping[str, str] | None = None) -> Command:
        """The same on the scheduler."""
        return self.run(factor, dask={"scheduler": self.address}, env=env)

    def check(self, *, factors: Sequence[float]) -> None:
        """Raw bytes are unchanged; the result is one of those of the given factors, whole; 0 stands for none."""
        place = self.trace / "_gated"
        now = snapshot(self.trace)
        raw = {name: content for name, content in now.items() if name.partition("/")[0] not in (place.name, FOLDER)}
        assert raw == self.raw, "raw bytes changed"
        if not place.exists():
            assert 0 in factors, "there is no result"
            return
        factor = json.loads((place / "provenance.json").read_text())["options"]["factor"]
        assert factor in factors, f"the result is of factor {factor}"
        assert_same(snapshot(place, ignore=PER_PROCESS), undisturbed(factor), f"the result of factor {factor}")


@functools.cache
def undisturbed(factor: float) -> dict[str, bytes]:
    """The result of `gated` where nothing disturbs the run."""
    with tempfile.TemporaryDirectory(prefix="scenario-") as name, Laboratory(Path(name)) as lab:
        lab.run(factor).succeeds()
        return snapshot(lab.trace / "_gated", ignore=PER_PROCESS)


class Command:
    """A command that was started.

    Args:
        stderr: file of its stderr.
    """

    def __init__(self, process: subprocess.Popen[str], stderr: Path) -> None:
        self.process, self.path, self.started = process, stderr, time.monotonic()

    @property
    def stderr(self) -> str:
        return self.path.read_text(errors="replace")

    def errors(self) -> list[str]:
        """Lines of stderr that are no notes."""
        return [line for line in re.split(r"[\r\n]+", self.stderr) if line.strip() and not _NOTES.match(line)]

    def succeeds(self, limit: float = SOON) -> None:
        """It ends within the limit, with status 0, without an error, and leaves no process."""
        assert self._end(limit) == 0, self.stderr
        assert not self.errors(), self.stderr

    def fails(self, *texts: str, limit: float = SOON) -> None:
        """It ends within the limit with one line of error, which has the texts in it, and leaves no process."""
        assert self._end(limit) == 1, self.stderr
        errors = self.errors()
        assert len(errors) == 1, f"{len(errors)} lines: {self.stderr}"
        for text in texts:
            assert re.search(text, errors[0]), f"no {text!r} in: {errors[0]}"

    def _end(self, limit: float) -> int:
        try:
            status = self.process.wait(limit)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still runs after {limit:g} s: {self.stderr}") from None
        wait_until(lambda: not _is_group(self.process.pid), 5)
        return status

    def kill(self) -> None:
        """End the process as `kill -9` does."""
        self.process.kill()
        self.process.wait()


def _is_group(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until(condition: Callable[[], object], limit: float = SOON) -> None:
    """Wait for something that other processes do."""
    until = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.02)
