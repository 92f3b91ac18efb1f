"""Imports in a process of their own: a library in C that is ended by what it decodes is an error of one line."""

from __future__ import annotations

import argparse
import multiprocessing
import signal
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection

from rover_pipeline.engine.parallel import Failure, end_with_parent, unwrapped
from rover_pipeline.errors import RoverError
from rover_pipeline.format.attempt import remove_left


def run_apart(arguments: argparse.Namespace) -> int:
    """Run the command of an import. Returns its exit status.

    Raises:
        RoverError: its process was ended. Else what the command raises.
    """
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(sender, arguments))
    process.start()
    sender.close()
    try:
        with suppress(EOFError):
            return int(unwrapped(receiver.recv()))
    finally:
        process.join()
    if arguments.out is not None:
        remove_left(arguments.out.absolute())
    source = next(vars(arguments)[name] for name in ("capture", "adc", "folder", "drive", "bags") if name in arguments)
    code = process.exitcode or 0
    how = f"by {signal.Signals(-code).name}" if code < 0 else f"with status {code}"
    raise RoverError(
        f"{source[0] if isinstance(source, list) else source}: the process that decodes it ended {how}: the file, or a "
        "file that describes it, is damaged, or memory ran out. Nothing was imported"
    )


def _run(sender: Connection, arguments: argparse.Namespace) -> None:
    """Run the command, and send its exit status or its error."""
    end_with_parent()
    with suppress(KeyboardInterrupt):  # the waiting process is interrupted too
        try:
            outcome: int | Failure = int(arguments.run(arguments))
        except Exception as error:
            error.add_note(traceback.format_exc())  # for --debug
            outcome = Failure(error)
        sender.send(outcome)
