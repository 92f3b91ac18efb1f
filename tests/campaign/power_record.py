"""Runs publishes in a real process, whose system calls strace records."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.campaign.faults import _make_different
from tests.campaign.power_disk import TRACED
from tests.campaign.power_subjects import publishes
from tests.campaign.subjects import OLDER_STAMP
from tests.kit import STAMP, environment

_BEGIN, _END = "/power-cut/begin/", "/power-cut/end/"


class Recorded(NamedTuple):
    """One recorded run. `over`: an older result was there."""

    name: str
    over: bool
    folder: Path

    def __str__(self) -> str:
        return f"{self.name}, over {'an older result' if self.over else 'nothing'}"


def record(root: Path, names: Sequence[str]) -> list[Recorded]:
    """Run publishes in a process whose system calls are recorded."""
    command = [*TRACED, str(root / "log"), sys.executable, "-m", "tests.campaign.power_record", str(root), *names]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the recording failed: {done.stderr[-3000:]}")
    output = None
    with (root / "log").open() as lines:
        for line in lines:
            if "mkdir(" in line and " ENOENT " in line:
                mark = bytes.fromhex(line.split('"')[1].replace("\\x", "")).decode()
                if mark.startswith((_BEGIN, _END)):
                    output = (Path(mark[len(_BEGIN) - 1 :]) / "log").open("w") if mark.startswith(_BEGIN) else None
            if output is not None:
                output.write(line)
    (root / "log").unlink()
    made = json.loads((root / "made").read_text())
    return [Recorded(name, over, root / str(number)) for number, (name, over) in enumerate(made)]


def _record_all(root: Path, names: Sequence[str]) -> None:
    """In the recorded process: prepare each publish, and run it between two marks, which are calls that fail."""
    known = publishes()
    made = [(name, over) for name in names for over in (False, True)[: 1 + known[name].subject.replaces]]
    (root / "made").write_text(json.dumps(made))
    for number, (name, over) in enumerate(made):
        subject, folder = known[name].subject, root / str(number)
        base, work = folder / "base", folder / "work"
        folder.mkdir()
        subject.prepare(base)
        if over:
            restore(base, work)
            subject.run(work, OLDER_STAMP, 1)
            for each in filter(Path.is_dir, (work / result for result in subject.results)):
                _make_different(each)
            restore(work, base)
        restore(base, work)
        for mark in (_BEGIN, _END):
            with contextlib.suppress(FileNotFoundError):
                os.mkdir(f"{mark[:-1]}{folder}")
            if mark == _BEGIN:
                subject.run(work, STAMP, 2)


def restore(base: Path, work: Path) -> None:
    """Make a folder what another one is."""
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(base, work, symlinks=True)


if __name__ == "__main__":
    _record_all(Path(sys.argv[1]), sys.argv[2:])
