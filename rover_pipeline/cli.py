"""The command `rover-pipeline`. Thin: each command reads its arguments and calls the module that does the work.

The modules are loaded when their command is called: `rover-pipeline info` must not wait for the simulator's libraries.
"""

from __future__ import annotations

import argparse
import gc
import io
import os
import signal
import sys
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from rover_pipeline import __version__
from rover_pipeline.caches import give_matplotlib_a_folder
from rover_pipeline.errors import DEBUG_VARIABLE, ConfigError, RoverError, describe, one_line
from rover_pipeline.format.files import existing
from rover_pipeline.lookup import LateModule, load, stop_collector

#: Commands that jobs of the workflow call, many times in a run.
JOB_COMMANDS = ("step", "recording")
#: What a comparison with a reference must keep to, as `against.Limits` has it.
_LIMITS = ("max_ate", "max_rpe", "max_wrong", "max_nees", "min_valid")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status is 0 only when all that was asked for is there."""
    given = sys.argv[1:] if argv is None else list(argv)
    _prepare_streams()
    give_matplotlib_a_folder()
    is_job = given[:1] and given[0] in JOB_COMMANDS
    debug = bool(os.environ.get(DEBUG_VARIABLE))
    try:
        try:
            arguments = (job_parser() if is_job else build_parser(given)).parse_args(given)
            debug = debug or arguments.debug
            if "apart" in arguments:
                return int(load("rover_pipeline.importers.apart:run_import")(arguments))
            return int(arguments.run(arguments))
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        if is_job:  # the run says it once, and the shell between must not go on
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
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


def _prepare_streams() -> None:
    """Names of files need not be text of this terminal; a stream that the caller has closed leads nowhere."""
    while (lowest := os.open(os.devnull, os.O_RDWR)) <= 2:  # or the next file that is opened would get its number
        os.set_inheritable(lowest, True)
    os.close(lowest)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def job_parser() -> argparse.ArgumentParser:
    """The commands of the workflow's jobs alone: a job must not wait until the arguments of all others are there."""
    parser, commands = _begin_parser()
    _add_jobs(commands)
    _finish_parsers(commands.choices.values())
    return parser


def build_parser(given: Sequence[str] = ()) -> argparse.ArgumentParser:
    """All commands with their options. What is `given` decides whether imports of installed packages are looked for."""
    parser, commands = _begin_parser()
    run = commands.add_parser("run", help="process recordings", description="Process recordings with Snakemake.")
    run.add_argument("paths", nargs="+", metavar="PATH", help="a trace, a folder of traces, a glob, or a capture")
    run.add_argument("--outputs", metavar="A,B", help="`default`, `all`, or names of virtual sensors")
    run.add_argument("--cores", metavar="N", help="processors to use (default: all)")
    run.add_argument("--profile", metavar="P", help="Snakemake profile: local, cluster, or a folder (default: local)")
    run.add_argument("--config", nargs="+", default=[], metavar="K=V", help="options, as in config.yaml")
    run.add_argument("--reset-config", action="store_true", help="forget the options that the recordings remember")
    run.add_argument("-n", "--dry-run", action="store_true", help="only say what would be made")
    run.add_argument("-v", "--verbose", action="store_true", help="show Snakemake's own lines too")
    run.set_defaults(run=_run)

    simulate = commands.add_parser("simulate", help="make a recording with known truth")
    simulate.add_argument("out", type=Path, metavar="OUT", help="the new trace")
    simulate.add_argument(
        "--preset", default="indoor", metavar="NAME", help="indoor, outdoor, park ... (an unknown name lists them)"
    )
    simulate.add_argument("--duration", type=float, metavar="S", help="seconds (default: the preset's)")
    simulate.add_argument("--seed", type=int, default=0, metavar="N", help="same seed, same bytes")
    simulate.add_argument(
        "--fault",
        action="append",
        default=[],
        metavar="NAME[=VALUE]",
        help="damage it, or make its world unkind, as real ones are (an unknown name lists how)",
    )
    simulate.add_argument("--lens", metavar="NAME", help="fisheye, brown or pinhole (default: the preset's, a fisheye)")
    simulate.add_argument("--log", type=Path, metavar="FILE", help="an error goes there too, with its traceback")
    simulate.set_defaults(run=_simulate)

    importer = commands.add_parser("import", help="turn a maker's capture into a trace")
    importer.set_defaults(apart=True)
    makers = importer.add_subparsers(required=True, metavar="FORMAT")
    asked = (*given, "")[1] if given[:1] == ["import"] else None
    load("rover_pipeline.importers.table:add_parsers")(makers, asked)

    calibrate = commands.add_parser("calibrate", help="measure what a sensor is, from its recordings")
    sensors = calibrate.add_subparsers(required=True, metavar="SENSOR")
    array = sensors.add_parser("radar", help="coupling, phases and gains of the antennas, spacing, range bias")
    array.add_argument("traces", nargs="+", type=existing, metavar="TRACE", help="of one radar, with the same chirps")
    array.add_argument("-o", "--out", type=Path, required=True, metavar="FILE.yaml", help="for radar.calibration")
    array.add_argument("--reflector", type=float, metavar="M", help="calibrate on the static target at this distance")
    array.add_argument("--azimuth", type=float, metavar="DEG", help="its direction, to the right")
    array.add_argument("--elevation", type=float, metavar="DEG", help="its direction, up, for arrays that span heights")
    array.add_argument("--distance", type=float, metavar="M", help="its distance as measured, for the range bias")
    array.add_argument("--board", metavar="NAME", help="for example IWR6843 (default: what the recording says)")
    array.add_argument("--order", choices=("iiqq", "qqii"), default="qqii", help="order of words (default: qqii)")
    array.set_defaults(run=_calibrate_radar)

    rig = sensors.add_parser("rig", help="rotation, translation and time offset of each sensor, beside the lidar")
    rig.add_argument("traces", nargs="+", metavar="TRACE", help="recordings of one rig, or folders of them")
    rig.add_argument("-o", "--out", type=Path, required=True, metavar="rig.yaml", help="for the option rig")
    rig.add_argument("--cores", type=int, default=os.cpu_count() or 1, metavar="N", help="processors to use")
    rig.set_defaults(run=_calibrate_rig)

    info = commands.add_parser("info", help="what is in a trace")
    info.add_argument("traces", nargs="+", metavar="TRACE", help="traces, folders of traces, or exported datasets")
    info.add_argument("--json", action="store_true", help="for programs")
    info.set_defaults(run=lambda given: load("rover_pipeline.export.look:print_info")(given.traces, given.json))

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

    export = commands.add_parser("export", help="write traces in other programs' formats, or a preview")
    export.add_argument("format", metavar="FORMAT", help="tum, kitti, ply, pcd ... (an unknown one lists them all)")
    export.add_argument("traces", nargs="+", metavar="TRACE", help="traces, or folders of traces")
    export.add_argument(
        "-o",
        "--out",
        type=Path,
        required=True,
        metavar="OUT",
        help="the new file or folder; of several traces a folder",
    )
    export.add_argument("--sensor", metavar="NAME", help="for example _truth or _map (default: what FORMAT is about)")
    export.add_argument("--every", type=int, default=1, metavar="N", help="only every n-th sample")
    export.add_argument("--threads", type=int, default=os.cpu_count() or 1, metavar="N")
    export.add_argument(
        "--max-points", type=int, default=20_000, metavar="N", help="rrd: of a sweep, about; 0 = all (default: 20000)"
    )
    export.add_argument("--width", type=int, metavar="N", help="rrd: of the camera's pictures (default: as stored)")
    export.add_argument(
        "--config",
        nargs="+",
        default=[],
        metavar="K=V",
        help="datasets: options of the format, and splits={...}, as in the section `export` of config.yaml",
    )
    export.add_argument("--replace", action="store_true", help="datasets: an older export of ours gives way")
    export.add_argument("--make", action="store_true", help="first make what is missing or stale of what it needs")
    for hidden in ("--output-root", "--stamp", "--request"):  # what the rules of the workflow give
        export.add_argument(hidden, help=argparse.SUPPRESS)
    export.add_argument("--log", type=Path, help=argparse.SUPPRESS)
    export.set_defaults(run=_export)

    mda = commands.add_parser("mda", help="annotations of MDA files and their revisions")
    mda.add_argument("rest", nargs=argparse.REMAINDER, metavar="list|versions|extract|update ...")
    mda.set_defaults(run=lambda arguments: load("rover_pipeline.export.mda.commands:main")(arguments.rest))

    picture = commands.add_parser("picture", help="a picture of a sensor, raw or virtual, or of the map")
    picture.add_argument("trace", type=existing, metavar="TRACE")
    picture.add_argument("sensor", metavar="SENSOR", help="for example radar_range_doppler, odom, camera, map")
    picture.add_argument("-o", "--out", type=Path, required=True, metavar="FILE", help="the new .png, .pdf or .svg")
    picture.add_argument("--frame", type=int, default=0, metavar="N", help="counted from 0 (default: 0)")
    picture.set_defaults(run=_picture)

    report = commands.add_parser("report", help="the page of a recording, or of many, worst first")
    report.add_argument("traces", nargs="+", metavar="TRACE", help="traces, or folders of traces")
    report.add_argument(
        "-o", "--out", type=Path, metavar="DIR", help="folder of the page (default: _report in the folder given)"
    )
    report.set_defaults(run=_report)

    profile = commands.add_parser("profile", help="Snakemake profiles that come with the package")
    profile.add_argument("name", metavar="NAME", help="local or cluster")
    profile.add_argument("--install", action="store_true", help="copy it to the user's Snakemake configuration")
    profile.set_defaults(run=_profile)

    _add_jobs(commands)

    _finish_parsers([*commands.choices.values(), *makers.choices.values(), array, rig])
    return parser


class _Parser(argparse.ArgumentParser):
    """Parsers of commands are of this class, too."""

    def error(self, message: str) -> NoReturn:
        """One line, where argparse prints all options before it."""
        self.exit(2, f"{self.prog}: {one_line(message)}; `{self.prog} --help` lists what there is\n")


def _begin_parser() -> tuple[argparse.ArgumentParser, Any]:
    """The parser without commands, and where they are added."""
    parser = _Parser(prog="rover-pipeline", description="From roverd recordings to virtual sensors.")
    parser.add_argument("--version", action="version", version=__version__)
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return parser, parser.add_subparsers(required=True, metavar="COMMAND")


def _finish_parsers(parsers: Iterable[argparse.ArgumentParser]) -> None:
    """`--debug` is taken after the command too."""
    for each in parsers:
        # SUPPRESS, or its default would undo the one given before the command.
        each.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.debug:
        os.environ[DEBUG_VARIABLE] = "1"  # for the processes of the run
    LateModule("numpy")  # to start Snakemake needs no array
    status = load("rover_pipeline.workflow.launch:run_workflow")(
        arguments.paths,
        outputs=arguments.outputs,
        cores=arguments.cores,
        profile=arguments.profile or "local",
        config=[*arguments.config, *(["reset_config=true"] if arguments.reset_config else [])],
        dry_run=arguments.dry_run,
        verbose=arguments.verbose,
    )
    return int(status)


def _simulate(arguments: argparse.Namespace) -> int:
    with load("rover_pipeline.engine.plan:logged")(arguments.log, arguments.out):
        choose = load("rover_pipeline.simulate.presets:choose")  # reports wrong arguments before the simulator loads
        choose(arguments.preset, arguments.duration, arguments.seed, arguments.fault, arguments.lens)
        load("rover_pipeline.simulate.record:simulate")(
            arguments.out,
            preset=arguments.preset,
            duration=arguments.duration,
            seed=arguments.seed,
            faults=arguments.fault,
            say=lambda text: print(text, file=sys.stderr, flush=True),
            lens=arguments.lens,
        )
    print(arguments.out)
    return 0


def _calibrate_radar(arguments: argparse.Namespace) -> int:
    reflector = None
    if arguments.reflector is not None:
        given = (arguments.reflector, arguments.azimuth, arguments.elevation, arguments.distance)
        reflector = load("rover_pipeline.calibrate.radar:Reflector")(*given)
    elif any(each is not None for each in (arguments.azimuth, arguments.elevation, arguments.distance)):
        raise RoverError("calibrate radar: --azimuth, --elevation and --distance are of a --reflector; give that too")
    file = load("rover_pipeline.calibrate.radar:calibrate_radar")(
        arguments.traces, arguments.out, reflector=reflector, board=arguments.board, order=arguments.order
    )
    before, after = file.coherence
    print(f"{arguments.out}: {file.targets} echoes, coherence {before:.2f} before, {after:.2f} after")
    return 0


def _calibrate_rig(arguments: argparse.Namespace) -> int:
    for line in load("rover_pipeline.export.rig:calibrate_rig")(arguments.traces, arguments.out, cores=arguments.cores):
        print(line)
    return 0


def _check(arguments: argparse.Namespace) -> int:
    against = None
    if arguments.against is not None:
        limits = {name.partition("_")[2]: getattr(arguments, name) for name in _LIMITS}
        path, offset = arguments.against or None, arguments.offset or 0.0
        against = load("rover_pipeline.validation.against:Against")(path, offset, limits)
    elif name := next((each for each in ("offset", *_LIMITS) if getattr(arguments, each) is not None), ""):
        raise ConfigError(f"check: --{name.replace('_', '-')} is about a reference; give --against too")
    print_problems = load("rover_pipeline.export.look:print_problems")
    return int(print_problems(arguments.traces, arguments.json, arguments.threads, against))


def _compare(arguments: argparse.Namespace) -> int:
    compare = load("rover_pipeline.export.compare:compare_command")
    compare(arguments.a, arguments.b, arguments.out, arguments.json, arguments.offset)
    return 0


def _picture(arguments: argparse.Namespace) -> int:
    save_picture = load("rover_pipeline.export.picture:save_picture")
    save_picture(arguments.trace, arguments.sensor, arguments.out, arguments.frame)
    print(arguments.out)
    return 0


def _export(arguments: argparse.Namespace) -> int:
    if load("rover_pipeline.export:is_dataset")(arguments.format, arguments.out):
        with load("rover_pipeline.engine.plan:logged")(arguments.log, arguments.out):
            print(load("rover_pipeline.export.dataset:export_command")(arguments))
        return 0
    options = load("rover_pipeline.export:ExportOptions")(
        arguments.sensor, arguments.every, arguments.threads, arguments.max_points or None, arguments.width,
        arguments.make,
    )  # fmt: skip
    for path in load("rover_pipeline.export:export")(arguments.format, arguments.traces, arguments.out, options):
        print(path)
    return 0


def _report(arguments: argparse.Namespace) -> int:
    only = Path(arguments.traces[0])
    is_trace = load("rover_pipeline.format.trace:is_trace")
    if len(arguments.traces) == 1 and arguments.out is None and only.is_dir() and is_trace(only):
        print(load("rover_pipeline.report.fleet:make_report")(only))
        return 0
    page, rows = load("rover_pipeline.report.fleet:write_fleet")(arguments.traces, arguments.out)
    lacking = [row for row in rows if row.summary is None]
    for row in lacking:
        print(f"{row.path}: {row.problem}", file=sys.stderr)
    print(page)
    return 1 if lacking else 0


def _profile(arguments: argparse.Namespace) -> int:
    folder = load("rover_pipeline.workflow.launch:profile_folder")(arguments.name)
    print(load("rover_pipeline.workflow.launch:install_profile")(folder) if arguments.install else folder)
    return 0


def _add_jobs(commands: Any) -> None:
    """Add the commands that the jobs of the workflow call."""
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
