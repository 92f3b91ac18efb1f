"""Work in a process of its own and in a cage: a library in C that what it decodes ends is an error of one line."""

from __future__ import annotations

import ctypes
import json
import multiprocessing
import signal
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from rover_pipeline.engine import cage
from rover_pipeline.engine.parallel import single_threaded_pools
from rover_pipeline.errors import ReportedError, RoverError, describe, may_pass
from rover_pipeline.format.channels.base import noted_places
from rover_pipeline.format.texts import parse_json

#: Bytes of what a process returns, and places that a message names, one of each thread. Schedule.
_MAX_BYTES, _MAX_PLACES = 1 << 26, 3
#: Bytes and options of glibc's `mallopt`: arrays that a job has freed serve its next frame, not zeroed again. Schedule.
_KEPT, _KEEP_FREED = 1 << 25, (-1, -3)


class DiedError(ReportedError):
    """A process was ended. The message says how, and at which sample."""


def run_apart(work: Callable[[], Any], before: Callable[[], Iterable[Path]], **settings: Any) -> Any:
    """Run `work` in a forked process, in a cage, and return what it returns, which is JSON.

    Nothing else is taken from the process: whoever took it over could have this one run what it unpickles.

    Args:
        before: is called in that process, not yet confined, and returns what `work` may write besides `cage.folders`.
        settings: of `cage.enter`.

    Raises:
        DiedError: the process was ended.
        ReportedError: it raised an error.
    """
    noted_places()  # what this process was at before is forgotten
    context = multiprocessing.get_context("fork")
    # A child waits for ever for the threads of a pool of OpenCV, which it has not.
    with single_threaded_pools(), cage.folders() as caches:
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_run, args=(sender, work, before, caches, settings))
        process.start()
        sender.close()
        try:
            with suppress(EOFError):
                returned, content = parse_json(receiver.recv_bytes(_MAX_BYTES).decode(), "a process in a cage")
                if not returned:
                    raise error_from_json(content)
                return content
        except KeyboardInterrupt:
            process.kill()
            raise
        finally:
            process.join()
    code = process.exitcode or 0
    how = f"by {signal.Signals(-code).name}" if code < 0 else f"with status {code}"
    at = ", ".join(noted_places()[:_MAX_PLACES])
    raise DiedError(
        f"the process that decodes it ended {how}{f' at {at}' if at else ''}: data there, or a file that describes "
        "them, are damaged, or memory ran out",
        passes=code == -signal.SIGKILL,
    )


def keep_freed() -> None:
    """Have this process keep the memory of arrays that it frees, for the next ones."""
    for option in _KEEP_FREED:
        with suppress(AttributeError):  # of another library of C
            ctypes.CDLL(None).mallopt(option, _KEPT)


def error_as_json(error: Exception) -> dict[str, Any]:
    """An error as JSON, for `error_from_json`."""
    return {"text": describe(error), "passes": may_pass(error), "shown": "".join(traceback.format_exception(error))}


def error_from_json(content: dict[str, Any]) -> RoverError:
    """The error that `error_as_json` has described."""
    error = ReportedError(content["text"], content["passes"])
    error.add_note(content["shown"])  # for --debug, and logs
    return error


def _run(sender: Connection, work: Any, before: Any, caches: Iterable[Path], settings: dict[str, Any]) -> None:
    # Ctrl-C reaches all processes of a terminal. The process that waits reports it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    keep_freed()
    try:
        cage.enter([*caches, *before()], **settings)
        outcome = [True, work()]
    except Exception as error:
        outcome = [False, error_as_json(error)]
    sender.send_bytes(json.dumps(outcome).encode())
