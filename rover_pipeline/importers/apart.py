"""Imports in a process in a cage: a library in C that is ended by what it decodes is an error of one line."""

from __future__ import annotations

import argparse
import io
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from rover_pipeline.engine.apart import DiedError, run_apart
from rover_pipeline.errors import RoverError
from rover_pipeline.format.merge import imported_trace, lend


def run_import(arguments: argparse.Namespace) -> int:
    """Run the command of an import. Returns its exit status.

    Raises:
        RoverError: its process was ended, or what the command raises.
    """
    if arguments.out is None:
        return int(arguments.run(arguments))

    def work() -> tuple[int, str]:
        with redirect_stdout(io.StringIO()) as said:
            return int(arguments.run(arguments)), said.getvalue()

    source = getattr(arguments, arguments.source)
    status, said = import_apart(work, arguments.out, source[0] if isinstance(source, list) else source)
    print(said, end="")  # now it is true
    return int(status)


def import_apart(work: Callable[[], Any], out: Path, source: Path) -> Any:
    """Build the trace `out` by `work`, in a process that may write to its scratch folder alone, and publish it.

    Args:
        source: what it decodes, for the message.
    """
    with imported_trace(out) as folder:
        lend(out, folder)
        try:
            return run_apart(work, lambda: [folder])
        except DiedError as error:
            raise RoverError(f"{source}: {error}. Nothing was imported") from error
        finally:
            lend(out, None)
