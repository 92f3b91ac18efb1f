"""Imports in a process in a cage: a library in C that is ended by what it decodes is an error of one line."""

from __future__ import annotations

import argparse
import io
from contextlib import redirect_stdout

from rover_pipeline.engine.apart import DiedError, run_apart
from rover_pipeline.errors import RoverError
from rover_pipeline.format.trace import imported_trace, lend


def run_import(arguments: argparse.Namespace) -> int:
    """Run the command of an import in a process that may write to the scratch folder of the trace alone; publish it.

    Returns its exit status. Raises RoverError where its process was ended, or what the command raises.
    """
    out, source = arguments.out, getattr(arguments, arguments.source)
    if out is None:
        return int(arguments.run(arguments))

    def work() -> tuple[int, str]:
        with redirect_stdout(io.StringIO()) as said:
            return int(arguments.run(arguments)), said.getvalue()

    with imported_trace(out) as folder:
        lend(out, folder)
        try:
            status, said = run_apart(work, lambda: [folder])
        except DiedError as error:
            decoded = source[0] if isinstance(source, list) else source
            raise RoverError(f"{decoded}: {error}. Nothing was imported") from error
        finally:
            lend(out, None)
    print(said, end="")  # now it is true
    return int(status)
