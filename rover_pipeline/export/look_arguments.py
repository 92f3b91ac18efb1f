"""Arguments of `info`, `check` and `compare`. What they call is loaded when it is needed."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from rover_pipeline.errors import ConfigError
from rover_pipeline.format.files import existing
from rover_pipeline.lookup import load

#: What a comparison with a reference must keep to, as `references.Limits` has it.
_LIMITS = ("max_ate", "max_rpe", "max_wrong", "max_nees", "min_valid")


def add_parsers(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands to those of `rover-pipeline`."""
    info = commands.add_parser("info", help="what is in a trace")
    info.add_argument("traces", nargs="+", metavar="TRACE", help="traces, folders of traces, or exported datasets")
    info.add_argument("--json", action="store_true", help="for programs")
    info.set_defaults(run=_info)

    check = commands.add_parser("check", help="validate raw and virtual sensors, down to every sample")
    check.add_argument("traces", nargs="+", type=existing, metavar="TRACE", help="traces, folders of them, or datasets")
    check.add_argument("--json", action="store_true", help="for programs")
    check.add_argument("--threads", type=int, default=os.cpu_count() or 1, metavar="N")
    check.add_argument(
        "--against",
        nargs="?",
        const=False,
        type=existing,
        metavar="PATH",
        help="compare _odom and other poses with a trace, its _truth or _reference, or a file of poses (TUM, KITTI); "
        "without PATH, with the trace's own",
    )
    check.add_argument("--offset", type=float, metavar="S", help="added to the times of the reference")
    check.add_argument("--max-ate", type=float, metavar="M", help="largest RMS of positions, worlds aligned")
    check.add_argument("--max-rpe", type=float, metavar="M", help="largest RMS of the motion over a second")
    check.add_argument("--max-wrong", type=int, metavar="N", help="most valid poses that are wrong and sure")
    check.add_argument("--max-nees", type=float, metavar="X", help="largest error squared over covariance")
    check.add_argument("--min-valid", type=float, metavar="SHARE", help="least share of valid poses, 0 to 1")
    check.set_defaults(run=_check)

    compare = commands.add_parser("compare", help="two runs, or a recording and a reference path, side by side")
    compare.add_argument("a", type=existing, metavar="A", help="a recording with results, or a folder of them")
    compare.add_argument(
        "b",
        type=existing,
        metavar="B",
        help="another one; or a file of poses (TUM, KITTI), TRACE/_reference, TRACE/_truth",
    )
    compare.add_argument("-o", "--out", type=Path, metavar="OUT.html", help="the new page")
    compare.add_argument("--json", action="store_true", help="the figures for programs, on standard output")
    compare.add_argument("--offset", type=float, default=0.0, metavar="S", help="added to the times of B")
    compare.set_defaults(run=_compare)


def _info(arguments: argparse.Namespace) -> int:
    status: int = load("rover_pipeline.export.look:print_info")(arguments.traces, arguments.json)
    return status


def _check(arguments: argparse.Namespace) -> int:
    against = None
    if arguments.against is not None:
        limits = {name.partition("_")[2]: getattr(arguments, name) for name in _LIMITS}
        path, offset = arguments.against or None, arguments.offset or 0.0
        against = load("rover_pipeline.report.read.references:Against")(path, offset, limits)
    elif name := next((each for each in ("offset", *_LIMITS) if getattr(arguments, each) is not None), ""):
        raise ConfigError(f"check: --{name.replace('_', '-')} is about a reference; give --against too")
    print_problems = load("rover_pipeline.export.look:print_problems")
    status: int = print_problems(arguments.traces, arguments.json, arguments.threads, against)
    return status


def _compare(arguments: argparse.Namespace) -> int:
    compare = load("rover_pipeline.export.compare:compare_command")
    compare(arguments.a, arguments.b, arguments.out, arguments.json, arguments.offset)
    return 0
