"""`python -m tests.campaign fuzz`: damages the small files of a trace, what imports read, and exported datasets.

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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from rover_pipeline.cli import main as rover_pipeline
from rover_pipeline.format.failures import FOLDER
from tests.campaign.datasets import FORMATS
from tests.campaign.forked import Tally, run_cases
from tests.campaign.fuzz_inputs import CALIBRATED, CALIBRATION, Laboratory, laboratory
from tests.campaign.mutants import mutate_bytes, mutate_kind, mutate_text, remove
from tests.kit import snapshot

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
_VALUES = ("config.yaml", "lidar.json", "radar.json", "camera.json", "ts", "valid", "calibration.yaml")
_SHARE_OF_IMPORTS, _SHARE_OF_OUSTER = 0.15, 0.1
#: Of the imports, those of folders of files.
_SHARE_OF_FOLDERS = 0.5
_SHARE_OF_DATASETS, _SHARE_OF_CALIBRATIONS = 0.1, 0.03


#: Of the imports that are left, those of bags.
_SHARE_OF_BAGS = 0.4


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
        cases = [_case(made, seed, number) for number in range(part, mutants, parts)]
        run_cases(cases, lambda: _own_copy(made), _run, tally)
    return tally


def _case(made: Laboratory, seed: int, number: int) -> list[Any]:
    rng = random.Random(f"{seed} {number}")
    if rng.random() < _SHARE_OF_DATASETS:
        dataset = made.datasets / rng.choice(FORMATS)
        path = rng.choice(sorted(path for path in dataset.rglob("*") if path.is_file()))
        return [seed, number, str(path.relative_to(made.datasets)), f"{rng.choice(('check', 'info'))} dataset"]
    if rng.random() < _SHARE_OF_CALIBRATIONS:
        return [seed, number, CALIBRATION, f"{CALIBRATED} calibrated"]
    if rng.random() >= _SHARE_OF_IMPORTS:
        file = rng.choice(_FILES)
        readers = _READERS.get(file.partition("/")[0], ())
        action = rng.choice(("check", "info", *readers, *readers, *(("_report",) if rng.random() < 0.1 else ())))
        return [seed, number, file, action]
    if rng.random() < _SHARE_OF_FOLDERS:
        kind = rng.choice(("clouds", "clouds", "day"))
        path = rng.choice(sorted(path for path in (made.captures / kind).rglob("*") if path.is_file()))
        of_folder = "pictures" if path.parent.name == "pictures" else "clouds"
        file = str(path.relative_to(made.captures))
        return [seed, number, file, f"import {'kitti' if kind == 'day' else of_folder}"]
    if rng.random() < _SHARE_OF_BAGS:
        path = rng.choice(sorted(path for path in (made.captures / "bags").rglob("*") if path.is_file()))
        return [
            seed,
            number,
            str(path.relative_to(made.captures)),
            "import velodyne" if path.suffix == ".pcap" else "import ros",
        ]
    ouster = (made.captures / "lidar.pcap").exists()
    if ouster and rng.random() < _SHARE_OF_OUSTER:
        return [seed, number, rng.choice(("lidar.json", "lidar.json", "lidar.pcap")), "import ouster"]
    file = rng.choice(("studio.mmwave.json", "studio.mmwave.json", "collection.yaml", "board.setup.json", "adc.bin"))
    return [seed, number, file, "import dca1000"]


def _own_copy(made: Laboratory) -> Laboratory:
    """A copy for a new process, whose libraries write nothing when it ends and never stop collecting garbage."""
    folder = Path(tempfile.mkdtemp(dir=made.trace.parents[1])) / "here"
    shutil.copytree(made.trace.parent, folder, symlinks=True)
    gc.disable = gc.freeze = lambda: None
    trace, captures, datasets = (folder / path.name for path in made[:3])
    return Laboratory(trace, captures, datasets, made.wanted)


def _run(made: Laboratory, case: list[Any], show: bool = False) -> tuple[str, str]:
    """Run one case: an outcome to count, and what is wrong."""
    seed, number, file, action = case
    rng = random.Random(f"{seed} {number} {file} {action}")
    path = _folder(made, action) / file
    original = path.read_bytes()
    mutated: bytes | None = None
    if rng.random() < 0.06:
        mutate_kind(path, rng)
    else:
        mutated = _mutated(file, original, rng)
        path.write_bytes(mutated)
    here = made.trace.parent
    before = _look(here, path)
    step = action.partition(" ")[0]
    ours = (f"{made.trace.name}/{step}", f"{made.trace.name}/{FOLDER}", "out", "kept")
    out = here / "out" if step == "import" else made.trace / step
    kept = here / "kept"
    if out.exists():
        out.rename(kept)  # a result that stands in the trace is made again beside it
    status, printed, problems = _call(_argv(made, file, action, out, rng))
    if show:
        print(
            f"{path}: {(mutated if mutated is not None else b'(another kind of file)')[:3000]!r}\n{status}: {printed}"
        )
    if action.startswith("import"):
        outcome, wrong = _judge_import(status, out)
    elif step in ("check", "info"):
        outcome, wrong = f"{action} {status}", ""
    else:
        outcome, wrong = _judge_step(made, file, action, status, original, mutated, out, path)
    problems += [wrong] if wrong else []
    if status and step not in ("check", "info") and out.exists():
        problems.append("a failed run left something")
    remove(out)
    remove(made.trace / FOLDER)
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


def _folder(made: Laboratory, action: str) -> Path:
    """Where the file of a case lies."""
    if action.endswith("dataset"):
        return made.datasets
    return made.captures if action.startswith("import") or action.endswith("calibrated") else made.trace


def _mutated(file: str, original: bytes, rng: random.Random) -> bytes:
    if file.endswith((".json", ".yaml")):
        return mutate_text(original, rng)
    if file.endswith(".avi"):
        head = original.index(b"00dc") + 8  # what comes before the first picture, and its length
        return mutate_bytes(original[:head], rng) + original[head:]
    return mutate_bytes(original, rng)


def _argv(made: Laboratory, file: str, action: str, out: Path, rng: random.Random) -> list[str]:
    if action == "import dca1000":
        config = made.captures / rng.choice(("studio.mmwave.json", "collection.yaml"))
        return ["import", "dca1000", str(made.captures / "adc.bin"), "--config", str(config), "-o", str(out)]
    if action in ("import clouds", "import pictures"):
        fields = ["--fields", "x,y,z,intensity,ring,time"] if "/bin/" in file else []
        return ["import", action.split()[1], str((made.captures / file).parent), "-o", str(out), *fields]
    if action == "import kitti":
        drive = next((made.captures / "day").glob("*_sync"))
        return ["import", "kitti", str(drive), "-o", str(out)]
    if action in ("import ros", "import velodyne"):
        path = made.captures / file
        source = path.parent if path.parent.name == "packed" else path
        return [*action.split(), str(source), "-o", str(out), *(["--partial"] if rng.random() < 0.5 else [])]
    if action == "import ouster":
        return ["import", "ouster", str(made.captures / "lidar.pcap"), "-o", str(out)]
    step, _, how = action.partition(" ")
    subject = str(made.datasets / Path(file).parts[0] if how == "dataset" else made.trace)
    if step == "check":
        return ["check", subject, "--threads", "1"]
    if step == "info":
        return ["info", subject, *(["--json"] if rng.random() < 0.5 else [])]
    last = "index.html" if step == "_report" else "meta.json"
    options = {"calibration": str(made.captures / CALIBRATION)} if how == "calibrated" else {}
    request = ["--request", json.dumps({"options": options})] if options else []
    return ["step", step, "--trace", subject, "--output", str(out / last), str(out / ".options-0"), *request]


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
