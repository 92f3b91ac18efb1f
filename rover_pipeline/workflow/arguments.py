"""The commands that the jobs of the workflow call: `step` and `recording`."""

from __future__ import annotations

import argparse
import gc
import os
from pathlib import Path
from typing import Any

from rover_pipeline.lookup import load, stop_collector


def add_parsers(commands: Any) -> None:
    """Add them to the commands of the command line."""
    step = commands.add_parser("step", help="run one step of the workflow (what its rules call)")
    step.add_argument("name", metavar="STEP", help="_SENSOR, ROOM/_SENSOR, or MODULE:FUNCTION with @step")
    step.add_argument("--trace", type=Path, required=True, metavar="DIR", help="where the results of the recording go")
    step.add_argument("--output", nargs="+", type=Path, required=True, metavar="FILE", help="files of the output")
    of_request = '{"options": {...}, "input": {...}, "recording": DIR}'
    step.add_argument("--request", default="{}", metavar="JSON", help=of_request)
    step.add_argument("--step-version", type=int, metavar="N", help="version of the step the workflow was read with")
    step.add_argument("--threads", type=int, default=1, metavar="N")
    step.add_argument("--log", type=Path, metavar="FILE", help="a copy of the messages, with tracebacks")
    step.set_defaults(run=_step)

    recording = commands.add_parser("recording", help="make all outputs of one recording (what a job of a run calls)")
    recording.set_defaults(run=_recording)
    for name in ("--folder", "--trace", "--marker", "--log"):
        recording.add_argument(name, type=Path, required=True, metavar="PATH")
    recording.add_argument("--threads", type=int, default=1, metavar="N")


def _find_step(name: str) -> Any:
    """A step. The table of its room is enough where the room is named."""
    find = "rover_pipeline.engine.step:step_of_room" if "/" in name else "rover_pipeline.table:find_step"
    return load(find)(name)


def _step(arguments: argparse.Namespace) -> int:
    is_done, logged = (load(f"rover_pipeline.engine.plan:{name}") for name in ("is_done", "logged"))
    with logged(arguments.log, arguments.output[0].parent) as log:
        if is_done(arguments.trace, arguments.output):  # the job that made it has said so
            return 0
        stop_collector()  # the runner starts it again when all modules are there
        # BLAS and OpenMP read the size of their pools once, when NumPy and all the rest are imported.
        os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        try:
            step = _find_step(arguments.name)
            command, run = (load(f"rover_pipeline.engine.command:{name}") for name in ("StepCommand", "run_command"))
            own = command(step, tuple(arguments.output), arguments.request, arguments.step_version)
            run(own, arguments.trace, find=_find_step, threads=arguments.threads, log=log)
        finally:
            gc.enable()
    return 0


def _recording(arguments: argparse.Namespace) -> int:
    run_recording = load("rover_pipeline.workflow.recording_job:run_recording")
    paths = (arguments.folder, arguments.trace, arguments.marker)
    return int(run_recording(*paths, threads=arguments.threads, log=arguments.log))
