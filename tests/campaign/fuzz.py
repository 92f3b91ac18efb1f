"""`python -m tests.campaign fuzz`: damages the small files of a trace, and what imports read, in thousands of ways.

Each case mutates one file and runs `check`, `info`, a step or an import on it, in this process's forks. What must hold:
one line of error and exit status 1 or 2, or exit status 0; no traceback, no hang, no memory above a gigabyte; all other
files unchanged, nothing outside of the result. A step that ends with 0 must have made the result of the undisturbed
trace, unless the file holds values and an independent parser (Python's own) finds other values in it; of a `meta.json`,
another set of channels. An import that ends with 0 must have made a trace that `check` accepts.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

from rover_pipeline.cli import main as rover_pipeline
from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.format.meta import ChannelSpec, read_meta, write_meta
from rover_pipeline.table import find_step
from tests.campaign.forked import Tally, run_cases
from tests.campaign.mutants import mutate_bytes, mutate_kind, mutate_text, remove
from tests.conftest import CHECKOUT
from tests.kit import small_trace, snapshot, write_odometry

#: Result -> whether it stands in the trace that is damaged. The others are only made.
_RESULTS = {
    "_lidar_image": True, "_radar_points": True, "_imu_filtered": False, "_radar_range_doppler": False,
    "_radar_range_azimuth": False, "_radar_velocity": True, "_lidar_points": False, "_camera_frames": True,
    "_imu_pose": True, "_radar_pose": False, "_sync": True, "_radar_quality": False, "_report": False,
}  # fmt: skip
#: Sensor, or file of the trace -> steps that read it.
_READERS = {
    "lidar": ("_lidar_image", "_lidar_points", "_sync"),
    "radar": (
        "_radar_range_doppler",
        "_radar_range_azimuth",
        "_radar_points",
        "_radar_quality",
        "_radar_pose",
        "_sync",
    ),
    "camera": ("_camera_frames", "_sync"),
    "imu": ("_imu_filtered", "_imu_pose", "_sync"),
    "config.yaml": ("_radar_range_doppler", "_radar_pose", "_imu_pose"),
    "_radar_points": ("_radar_velocity",),
    "_odom": ("_imu_pose", "_radar_pose"),
    "_lidar_image": (),
}
_FILES = (
    "config.yaml", "lidar/meta.json", "lidar/lidar.json", "lidar/ts", "lidar/rng_i", "lidar/rfl_i", "lidar/nir_i",
    "radar/meta.json", "radar/radar.json", "radar/ts", "radar/valid", "camera/meta.json", "camera/camera.json",
    "camera/ts", "camera/video.avi", "imu/meta.json", "imu/ts", "_odom/meta.json", "_odom/ts", "_odom/provenance.json",
    "_radar_points/meta.json", "_radar_points/provenance.json", "_radar_points/.options-0",
    "_lidar_image/meta.json", "_lidar_image/provenance.json", "_lidar_image/valid", "_sync/provenance.json",
    "_camera_frames/meta.json", "_camera_frames/provenance.json", "_map/provenance.json", "_map/occupancy.yaml",
)  # fmt: skip
#: Files that hold values: with other values another result is right. The rest says how values are stored.
_VALUES = ("config.yaml", "lidar.json", "radar.json", "camera.json", "ts", "valid")
_SHARE_OF_IMPORTS, _SHARE_OF_OUSTER = 0.15, 0.1


class Laboratory(NamedTuple):
    """What cases are run on: a trace, files for imports, and what undisturbed steps make of the trace."""

    trace: Path
    captures: Path
    wanted: dict[str, dict[str, bytes]]


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign fuzz")
    parser.add_argument("--mutants", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--part", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--case", help="run only this case, as a finding names it, and show what it prints")
    arguments = parser.parse_args(argv)
    if arguments.case:
        with laboratory() as made:
            print(*_run(made, json.loads(arguments.case), show=True), sep="\n")
        return
    if arguments.part is not None:
        tally = campaign(arguments.mutants, arguments.seed, arguments.part, arguments.processes)
        print(json.dumps(tally.__dict__))
        return
    count = arguments.processes
    same = ["--mutants", str(arguments.mutants), "--seed", str(arguments.seed), "--processes", str(count)]
    command = [sys.executable, "-m", "tests.campaign", "fuzz", *same, "--part"]
    running = [subprocess.Popen([*command, str(part)], stdout=subprocess.PIPE, text=True) for part in range(count)]
    total = Tally()
    for process in running:
        total.merge(Tally(**json.loads(process.communicate()[0])))
    print(report(total))
    sys.exit(1 if total.findings else 0)


def report(tally: Tally) -> str:
    """Counts and findings for people."""
    lines = [f"{sum(tally.counts.values()):,} mutants"]
    lines += [f"{count:8,} {outcome}" for outcome, count in sorted(tally.counts.items())]
    lines.append(f"slowest {tally.slowest[0]:.2f} s: {tally.slowest[1]}")
    lines.append(f"largest {tally.largest[0] >> 20} MiB: {tally.largest[1]}")
    lines.append(f"findings: {len(tally.findings)}")
    return "\n".join(lines + [f"{name}: {problem}" for name, problem in tally.findings[:200]])


def campaign(mutants: int, seed: int, part: int = 0, parts: int = 1) -> Tally:
    """Run a part of the cases of a seed: every `parts`-th one, from number `part` on."""
    tally = Tally()
    with laboratory() as made:
        cases = [
            _case(seed, number, bool(list(made.captures.glob("*.pcap")))) for number in range(part, mutants, parts)
        ]
        run_cases(cases, lambda: _own_copy(made), _run, tally)
    return tally


def _case(seed: int, number: int, ouster: bool) -> list[Any]:
    rng = random.Random(f"{seed} {number}")
    if rng.random() >= _SHARE_OF_IMPORTS:
        file = rng.choice(_FILES)
        readers = _READERS.get(file.partition("/")[0], ())
        action = rng.choice(("check", "info", *readers, *readers, *(("_report",) if rng.random() < 0.1 else ())))
        return [seed, number, file, action]
    if ouster and rng.random() < _SHARE_OF_OUSTER:
        return [seed, number, rng.choice(("lidar.json", "lidar.json", "lidar.pcap")), "import ouster"]
    file = rng.choice(("studio.mmwave.json", "studio.mmwave.json", "collection.yaml", "board.setup.json", "adc.bin"))
    return [seed, number, file, "import dca1000"]


@contextlib.contextmanager
def laboratory() -> Iterator[Laboratory]:
    """Makes the trace, the files for imports, and the undisturbed results. They are removed afterwards."""
    memory = Path("/dev/shm")  # thousands of small files are synced
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=memory if memory.is_dir() else None) as folder:
        trace = _trace(Path(folder) / "here" / "rec")
        wanted = {}
        for name, stays in _RESULTS.items():
            run_step(find_step(name), trace, name, Request(), stamps=(".options-0",))
            wanted[name] = snapshot(trace / name, ignore=("time",))
            wanted[name].pop("provenance.json")
            if not stays:
                shutil.rmtree(trace / name)
        captures = Path(folder) / "here" / "captures"
        captures.mkdir()
        _write_captures(captures)
        yield Laboratory(trace, captures, wanted)


def _trace(path: Path) -> Path:
    trace = small_trace(path, sensors=("lidar", "radar", "camera", "imu"), iq_shape=(16, 2, 4, 64))
    lens = {"fx": 9.0, "fy": 9.0, "cx": 12.0, "cy": 8.0, "k": [0.006, 0.008, -0.002, -0.023], "p": [0.0, 0.0]}
    (trace / "camera" / "camera.json").write_text(json.dumps(lens))
    turn = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    rig = {name: {"translation": [0.1, 0.0, -0.1], "rotation": turn} for name in ("radar", "imu", "camera")}
    config = yaml.safe_load((trace / "config.yaml").read_text())
    (trace / "config.yaml").write_text(json.dumps({**config, "rig": rig}))
    _write_odometry(trace)
    (trace / "_map").mkdir()
    grid = {"image": "occupancy.pgm", "resolution": 0.05, "origin": [0.0, 0.0, 0.0], "negate": 0}
    (trace / "_map" / "occupancy.yaml").write_text(yaml.safe_dump(grid))
    (trace / "_map" / "occupancy.pgm").write_bytes(b"P5 4 4 255\n" + bytes(range(16)))
    for name in ("map.ply", "bev.png"):
        (trace / "_map" / name).write_bytes(b"something")
    _write_provenance(trace / "_map", "rover_pipeline.mapping.steps:map_files")
    return trace


def _write_odometry(trace: Path) -> None:
    """A motion with all the channels that odometry makes."""
    write_odometry(trace, invalid=(1,))
    folder = trace / "_odom"
    specs = read_meta(folder)
    for name, output in find_step("_odom").outputs.items():
        shape = tuple(size or 1 for size in output.shape)
        spec = ChannelSpec(format="raw", type=output.type, shape=shape, desc=output.desc)
        if name not in specs:
            np.ones((6, *shape), spec.dtype).tofile(folder / name)
        specs[name] = spec
    write_meta(folder, specs)
    _write_provenance(folder, "rover_pipeline.odometry.steps:odom")


def _write_provenance(folder: Path, step: str) -> None:
    files = sorted(path.name for path in folder.iterdir())
    version = find_step(folder.name).version
    content = {"made_by": "rover_pipeline", "step": step, "version": version, "files": files}
    (folder / "provenance.json").write_text(json.dumps(content))


def _write_captures(folder: Path) -> None:
    """A radar capture with both kinds of configuration, and a lidar capture where real ones are at hand."""
    data = Path(os.environ.get("ROVER_PIPELINE_DATA", CHECKOUT.parent / "shared" / "data"))
    profile = {
        "startFreqConst_GHz": 60.0, "idleTimeConst_usec": 7.0, "adcStartTimeConst_usec": 6.0, "rampEndTime_usec": 60.0,
        "txStartTime_usec": 0.0, "freqSlopeConst_MHz_usec": 60.0, "numAdcSamples": 16, "digOutSampleRate": 10000,
    }  # fmt: skip
    device = {
        "rfConfig": {
            "rlProfiles": [{"rlProfileCfg_t": profile}],
            "rlFrameCfg_t": {"chirpStartIdx": 0, "chirpEndIdx": 2, "numLoops": 4, "framePeriodicity_msec": 50.0},
            "rlAdcOutCfg_t": {"fmt": {"b2AdcBits": 2, "b2AdcOutFmt": 1}},
            "rlChanCfg_t": {"txChannelEn": "0x7", "rxChannelEn": "0xF"},
        },
        "rawDataCaptureConfig": {
            "rlDevLaneEnable_t": {"laneEn": "0x3"}, "rlDevDataFmtCfg_t": {"iqSwapSel": 0},
        },
    }  # fmt: skip
    studio = {"configGenerator": {"createdOn": "2023-07-04T12:00:00"}, "mmWaveDevices": [device]}
    (folder / "studio.mmwave.json").write_text(json.dumps(studio))
    (folder / "board.setup.json").write_text(json.dumps({"mmWaveDevice": "IWR6843"}))
    capture = {
        "device": "IWR6843", "frequency": 60.0, "idle_time": 7.0, "adc_start_time": 6.0, "ramp_end_time": 60.0,
        "freq_slope": 60.0, "adc_samples": 16, "sample_rate": 10000, "frame_length": 4, "frame_period": 50.0,
    }  # fmt: skip
    (folder / "collection.yaml").write_text(yaml.safe_dump({"radar": {"args": {"radar": capture}}}))
    words = np.random.default_rng(0).integers(-500, 500, 2 * 4 * 3 * 4 * 32).astype("<i2")
    words.tofile(folder / "adc.bin")
    for suffix in ("json", "pcap"):
        for path in sorted((data / "ouster").glob(f"OS-0-32*.{suffix}")):
            shutil.copyfile(path, folder / f"lidar.{suffix}")


def _own_copy(made: Laboratory) -> Laboratory:
    """A copy for a new process, whose libraries write nothing when it ends and never stop collecting garbage."""
    folder = Path(tempfile.mkdtemp(dir=made.trace.parents[1])) / "here"
    shutil.copytree(made.trace.parent, folder, symlinks=True)
    gc.disable = gc.freeze = lambda: None
    return made._replace(trace=folder / made.trace.name, captures=folder / made.captures.name)


def _run(made: Laboratory, case: list[Any], show: bool = False) -> tuple[str, str]:
    """Run one case: an outcome to count, and what is wrong."""
    seed, number, file, action = case
    rng = random.Random(f"{seed} {number} {file} {action}")
    folder = made.captures if action.startswith("import") else made.trace
    path = folder / file
    original = path.read_bytes()
    mutated: bytes | None = None
    if rng.random() < 0.06:
        mutate_kind(path, rng)
    else:
        mutated = _mutated(file, original, rng)
        path.write_bytes(mutated)
    here = made.trace.parent
    before = _look(here, path)
    ours = (f"{made.trace.name}/{action}", "out", "kept")
    out = here / "out" if action.startswith("import") else made.trace / action
    kept = here / "kept"
    if out.exists():
        out.rename(kept)  # a result that stands in the trace is made again beside it
    status, printed, problems = _call(_argv(made, action, out, rng))
    if show:
        print(
            f"{path}: {(mutated if mutated is not None else b'(another kind of file)')[:3000]!r}\n{status}: {printed}"
        )
    if action.startswith("import"):
        outcome, wrong = _judge_import(status, out)
    elif action in ("check", "info"):
        outcome, wrong = f"{action} {status}", ""
    else:
        outcome, wrong = _judge_step(made, file, action, status, original, mutated, out, path)
    problems += [wrong] if wrong else []
    if status and action not in ("check", "info") and out.exists():
        problems.append("a failed run left something")
    remove(out)
    after = _look(here, path)
    if changed := [name for name in {**before, **after} if before.get(name) != after.get(name)]:
        changed = [name for name in changed if not any(name == each or name.startswith(f"{each}/") for each in ours)]
    if changed:
        problems.append(f"other files were changed: {changed[:5]}")
    if kept.exists():
        kept.rename(out)
    remove(path)
    path.write_bytes(original)
    return outcome, "; ".join([*problems, f"status {status}: {printed[-600:]}"]) if problems else ""


def _mutated(file: str, original: bytes, rng: random.Random) -> bytes:
    if file.endswith((".json", ".yaml")):
        return mutate_text(original, rng)
    if file.endswith(".avi"):
        head = original.index(b"00dc") + 8  # what comes before the first picture, and its length
        return mutate_bytes(original[:head], rng) + original[head:]
    return mutate_bytes(original, rng)


def _argv(made: Laboratory, action: str, out: Path, rng: random.Random) -> list[str]:
    if action == "import dca1000":
        config = made.captures / rng.choice(("studio.mmwave.json", "collection.yaml"))
        return ["import", "dca1000", str(made.captures / "adc.bin"), "--config", str(config), "-o", str(out)]
    if action == "import ouster":
        return ["import", "ouster", str(made.captures / "lidar.pcap"), "-o", str(out)]
    if action == "check":
        return ["check", str(made.trace), "--threads", "1"]
    if action == "info":
        return ["info", str(made.trace), *(["--json"] if rng.random() < 0.5 else [])]
    last = "index.html" if action == "_report" else "meta.json"
    return ["step", action, "--trace", str(made.trace), "--output", str(out / last), str(out / ".options-0")]


def _call(argv: list[str]) -> tuple[int, str, list[str]]:
    """Run a command in this process: its status, what it printed, and what is wrong with that."""
    stdout, stderr = io.StringIO(), io.StringIO()
    problems = []
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        try:
            status = rover_pipeline(argv)
        except SystemExit as error:
            status = int(error.code or 0) if not isinstance(error.code, str) else 1
        except BaseException as error:
            status = 99
            problems.append(f"raised {error!r}")
    errors, printed = stderr.getvalue(), stdout.getvalue() + stderr.getvalue()
    if status not in (0, 1, 2):
        problems.append(f"exit status {status}")
    if "Traceback" in printed or "(unexpected;" in printed:
        problems.append("an error that is no RoverError")
    if status and argv[0] in ("step", "import") and errors.count("rover-pipeline: ") != 1:
        problems.append("not one line of error")
    if any(not line.isprintable() or len(line) > 7000 for line in errors.splitlines()):
        problems.append("prints what a terminal cannot show")
    if argv[0] == "check" and (status == 0) != (stdout.getvalue() == ""):
        problems.append("exit status and problems disagree")
    return status, printed, problems


def _judge_import(status: int, out: Path) -> tuple[str, str]:
    if status:
        return "import refused", ""
    checked, printed, problems = _call(["check", str(out), "--threads", "1"])
    return "import done", f"check rejects what was imported: {printed}" if checked or problems else ""


def _judge_step(
    made: Laboratory,
    file: str,
    action: str,
    status: int,
    original: bytes,
    mutated: bytes | None,
    out: Path,
    path: Path,
) -> tuple[str, str]:
    if status:
        return "step refused", ""
    if action == "_report":  # a page shows what is wrong with a recording
        return "report made", ""
    found = snapshot(out, ignore=("time",))
    found.pop("provenance.json")
    if found == made.wanted[action]:
        return "step: same result", ""
    if mutated is None and not os.path.lexists(path):
        return "step: other result of a trace without the file", ""
    if mutated is not None and _has_other_values(file, original, mutated):
        return "step: other result of other values", ""
    return "step: wrong result", f"{action} is another one although {file} has the same values"


def _has_other_values(file: str, original: bytes, mutated: bytes) -> bool:
    name = file.rpartition("/")[2]
    if name == "meta.json":
        before, after = _parsed(file, original), _parsed(file, mutated)
        return isinstance(after, dict) and set(before) != set(after)
    if name not in _VALUES:
        return False
    if name in ("ts", "valid"):
        return original != mutated
    after = _parsed(file, mutated)
    return after is not _UNREADABLE and repr(after) != repr(_parsed(file, original))


_UNREADABLE = object()


def _parsed(file: str, data: bytes) -> Any:
    try:
        text = data.decode("utf-8-sig")
        return yaml.safe_load(text) if file.endswith(".yaml") else json.loads(text)
    except (ValueError, yaml.YAMLError, RecursionError):
        return _UNREADABLE


def _look(here: Path, mutated: Path) -> dict[str, object]:
    """State of every file but the mutated one, which may never end, by its path."""
    found: dict[str, object] = {}
    for folder, folders, files in os.walk(here):
        for name in (*files, *folders):
            path = Path(folder, name)
            status = path.lstat()
            if path == mutated:
                # Opening a file does not change this; writing to it does.
                found[str(path.relative_to(here))] = status.st_mode, status.st_size, status.st_mtime_ns, status.st_ino
            elif path.is_file():
                found[str(path.relative_to(here))] = path.read_bytes()
            else:
                found[str(path.relative_to(here))] = status.st_mode
    return found
