"""The command `rover-pipeline`. Thin: each command reads its arguments and calls the module that does the work."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from rover_pipeline import __version__
from rover_pipeline.errors import RoverError

DEBUG_VARIABLE = "ROVER_PIPELINE_DEBUG"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status is 0 only when all that was asked for is there."""
    arguments = _parser().parse_args(argv)
    debug = arguments.debug or bool(os.environ.get(DEBUG_VARIABLE))
    try:
        return int(arguments.run(arguments))
    except KeyboardInterrupt:
        print("rover-pipeline: interrupted; the same command again finishes the work", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output left, as `head` does. Python would complain once more when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:
        if debug:
            traceback.print_exc()
        print(f"rover-pipeline: {describe(error)}", file=sys.stderr)
        return 1


def describe(error: Exception) -> str:
    """One line for any error: what a user can act on, or where to look when it is a fault of ours."""
    if isinstance(error, RoverError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename else ""
        return f"{place}{error.strerror}"
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text} (unexpected; --debug shows where)"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="rover-pipeline", description="From roverd recordings to virtual sensors.")
    parser.add_argument("--version", action="version", version=__version__)
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="process recordings", description="Process recordings with Snakemake.")
    run.add_argument("paths", nargs="+", metavar="PATH", help="a trace, a folder of traces, or a glob")
    run.add_argument("--outputs", metavar="A,B", help="`default`, `all`, or names of virtual sensors")
    run.add_argument("--cores", metavar="N", help="processors to use (default: all)")
    run.add_argument("--profile", metavar="P", help="Snakemake profile: local, cluster, or a folder (default: local)")
    run.add_argument("--config", nargs="+", default=[], metavar="K=V", help="options, as in config.yaml")
    run.add_argument("-n", "--dry-run", action="store_true", help="only say what would be made")
    run.set_defaults(run=_run)

    step = commands.add_parser("step", help="run one step of the workflow (what its rules call)")
    step.add_argument("name", metavar="MODULE:FUNCTION", help="dotted name of a function with @step")
    step.add_argument("--input", nargs="+", required=True, metavar="FILE", help="files of the rule's input")
    step.add_argument("--output", nargs="+", required=True, metavar="FILE", help="files of the rule's output")
    step.add_argument("--request", default="{}", metavar="JSON", help='{"options": {...}, "input": {...}}')
    step.add_argument("--step-version", type=int, metavar="N", help="version of the step the workflow was read with")
    step.add_argument("--threads", type=int, default=1, metavar="N")
    step.add_argument("--log", type=Path, metavar="FILE", help="a copy of the messages, with tracebacks")
    step.set_defaults(run=_step)
    return parser


def _run(arguments: argparse.Namespace) -> int:
    from rover_pipeline.run import run_workflow

    return run_workflow(
        arguments.paths,
        outputs=arguments.outputs,
        cores=arguments.cores,
        profile=arguments.profile or "local",
        config=arguments.config,
        dry_run=arguments.dry_run,
    )


def _step(arguments: argparse.Namespace) -> int:
    from rover_pipeline.run import run_rule

    return run_rule(
        arguments.name,
        [Path(path) for path in arguments.input],
        [Path(path) for path in arguments.output],
        request=arguments.request,
        version=arguments.step_version,
        threads=arguments.threads,
        log=arguments.log,
    )
