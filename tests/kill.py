"""Kills a step at every kind of moment and looks at what is left. A process of its own: `tests.kit` starts it.

Each run is a fork that counts its calls to the operating system that change the disk, and kills itself, as
`kill -9` would, right before one of them. A fork costs milliseconds where a new process costs a second of imports.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.format import attempt
from rover_pipeline.table import find_step
from tests.kit import PER_PROCESS, STAMP, assert_same, assert_whole_or_absent, snapshot

_CALLS = ("open", "mkdir", "ftruncate", "pwrite", "fsync", "link", "replace", "rename", "unlink", "rmdir")
#: Calls by which a result gets its name: over nothing, and over an older result.
_PUBLISHES = {"rename", "_exchange"}


def main(arguments: dict[str, Any]) -> None:
    """Kill runs that make `place`, which come to be `wanted`, before about `kills` of their calls.

    Runs of the step `step` with `options`; or calls of the function `make` with the place.
    """
    place, wanted = Path(arguments["place"]), snapshot(Path(arguments["wanted"]), ignore=PER_PROCESS)
    run: Callable[[], object]
    if "make" in arguments:
        module, _, name = arguments["make"].partition(":")
        run = partial(getattr(importlib.import_module(module), name), place)
    else:
        described, request = find_step(arguments["step"]), Request(arguments["options"])
        run = partial(run_step, described, place.parent, place.name, request, threads=2, stamps=(STAMP,))
    rng = np.random.default_rng(len(place.name))
    # Modules that the first run imports may touch the disk, as Numba's cache does: not among the calls that count.
    _calls_of(run, place.parent / "calls")
    for state in ("over nothing", "over a result"):
        if state == "over nothing":
            shutil.rmtree(place, ignore_errors=True)
        calls = _calls_of(run, place.parent / "calls")
        publishes = [at for at, name in enumerate(calls) if name in _PUBLISHES]
        assert len(publishes) == 1, "a result is published by one call"
        for moment in _moments(rng, max(0, publishes[0] - 4), len(calls), arguments["kills"]):
            if state == "over nothing":
                shutil.rmtree(place)
            status = _in_fork(partial(_dying, run, moment))
            what = f"{state}, killed before call {moment}, {calls[moment]}"
            assert status == -signal.SIGKILL, f"{what}: ended with {status}"
            assert_whole_or_absent(place, wanted, what)
            assert _in_fork(run) == 0, f"{what}: the next run failed"
            assert_same(snapshot(place, ignore=PER_PROCESS), wanted, f"{what}, run again")


def _moments(rng: np.random.Generator, publishing_from: int, count: int, kills: int) -> list[int]:
    """Half of the kills while a result is worked on, half while it is published; all moments when there are enough."""
    working, publishing = np.arange(publishing_from), np.arange(publishing_from, count)
    return [
        int(moment)
        for moments in (working, publishing)
        for moment in sorted(rng.choice(moments, min(len(moments), max(1, kills // 4)), replace=False))
    ]


def _calls_of(run: Callable[[], object], record: Path) -> list[str]:
    """Names of the calls that one undisturbed run makes, in order. Imports what it did, to spare the next ones that."""
    names: list[str] = []

    def recorded() -> None:
        _patch(lambda name: names.append(name))
        run()
        with open(record, "w", encoding="utf-8") as file:
            json.dump({"calls": names, "modules": list(sys.modules)}, file)

    assert _in_fork(recorded) == 0
    found = json.loads(record.read_text())
    for module in found["modules"]:
        with contextlib.suppress(ImportError):  # some are not imported by their names
            importlib.import_module(module)
    return list(found["calls"])


def _dying(run: Callable[[], object], moment: int) -> None:
    """Run until the call of that number; the process ends there."""
    seen = iter(range(moment))
    _patch(lambda name: None if next(seen, None) is not None else os.kill(os.getpid(), signal.SIGKILL))
    run()


def _patch(before: Callable[[str], None]) -> None:
    for owner, name in (*((os, name) for name in _CALLS), (attempt, "_exchange")):
        original = getattr(owner, name)

        def call(*args: Any, _name: str = name, _original: Any = original, **kwargs: Any) -> Any:
            before(_name)
            return _original(*args, **kwargs)

        setattr(owner, name, call)


def _in_fork(work: Callable[[], object]) -> int:
    """Do work in a copy of this process; its exit status, negative for a signal."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
