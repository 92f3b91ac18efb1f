"""`python -m tests.campaign folders`: folders of others are data.

A case changes one thing in a folder that a command reads: a name in a list that could become a path (JSON, YAML, text,
SQLite, Arrow), what stands at the path of a file or of a result (links, pipes, sockets, devices, folders), or it puts
code and settings where a process works. What must hold: one line of error and exit status 1 or 2, or exit status 0; no
traceback, no hang; nothing outside of the results is changed; nothing that was planted has run.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import yaml

from rover_pipeline.format.failures import FOLDER
from rover_pipeline.format.provenance import MADE_BY
from tests.campaign.datasets import FORMATS, dataset_trace
from tests.campaign.forked import Tally, run_cases
from tests.campaign.fuzz import _call, report
from tests.campaign.fuzz_inputs import Laboratory, laboratory
from tests.campaign.planted import plant, ran
from tests.kit import environment

_STEPS = (
    "_lidar_image", "_radar_points", "_radar_quality", "_radar_velocity", "_radar_pose", "_imu_filtered", "_imu_pose",
    "_camera_frames", "_sync",
)  # fmt: skip
#: Names that our results list, and more that one could.
_OURS = (
    "ts", "valid", "acc", "rot", "avel", "rng", "rfl", "nir", "points", "video.avi", "pos", "vel", "lidar", "imu",
    "index.html", "summary.json", ".options-0",
)  # fmt: skip
#: What `export roverp` into the recording adds to.
_ROVERP = (
    "_slam",
    "_lidar",
    "_radar",
    "_camera",
    "_fusion",
    ".roverp",
    "_slam/trajectory.csv",
    ".roverp/provenance.json",
)
#: Places in a recording where a command writes, and where others can have put something.
_PLACES = (
    ".partial",
    FOLDER,
    "_report",
    "_report/index.html",
    "_report/provenance.json",
    "_report/.options-0",
    *_ROVERP,
)
_ENDLESS = "with recursive n(i) as (values(1) union all select i + 1 from n)"
_SQL = (
    f"drop table topics; create view topics as {_ENDLESS} select i as id, 'a' as name, 'b' as type, 'cdr' as "
    "serialization_format from n",
    f"drop table messages; create view messages as {_ENDLESS} select i as id, 1 as topic_id, i as timestamp, "
    "zeroblob(1000) as data from n",
    "update topics set name = {name}",
    "update topics set type = {name}",
    "insert into topics select id + 100, {name}, type, serialization_format, '' from topics",
    "update messages set data = zeroblob(300000000) where id = 1",
    "create trigger t after insert on topics begin delete from messages; end",
    "update topics set offered_qos_profiles = {name}",
    "drop table messages; create virtual table messages using fts5(id, topic_id, timestamp, data)",
    "alter table messages add column more blob as (zeroblob(1000000000))",
)


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign folders")
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--case", help="run only this case, as a finding names it, and show what it prints")
    arguments = parser.parse_args(argv)
    if arguments.case:
        with laboratory() as made:
            print(*_run(_prepared(made), json.loads(arguments.case), show=True), sep="\n")
        return
    tally = campaign(arguments.cases, arguments.seed, arguments.first)
    print(report(tally).replace("mutants", "folders"))
    sys.exit(1 if tally.findings else 0)


def campaign(cases: int, seed: int, first: int = 0) -> Tally:
    """Run cases of a seed."""
    tally = Tally()
    with laboratory() as made:
        run_cases([[seed, number] for number in range(first, first + cases)], lambda: _prepared(made), _run, tally)
    return tally


class _Place:
    """Where one process runs its cases.

    Attributes:
        made: what is copied for each case; whole: a recording that every export can be made of.
        work: the folder of the present case, with what is its own: `here`, `outside`, `out`.
    """

    def __init__(self, made: Laboratory) -> None:
        self.made = made
        self.folder = Path(tempfile.mkdtemp(dir=made.trace.parents[1], prefix="folders-"))
        self.whole = dataset_trace(self.folder / "whole" / "rec")
        self.work = self.folder / "work"

    def begin(self) -> None:
        shutil.rmtree(self.work, ignore_errors=True)
        for name in ("outside/folder/precious", "outside/precious", "outside/folder/ts", "outside/config.yaml"):
            (self.work / name).parent.mkdir(parents=True, exist_ok=True)
            (self.work / name).write_bytes(b"precious " * 100)
        (self.work / "out").mkdir()


def _prepared(made: Laboratory) -> _Place:
    return _Place(made)


def _run(place: _Place, case: list[int], show: bool = False) -> tuple[str, str]:
    """Run one case: an outcome to count, and what is wrong."""
    rng = random.Random(f"folders {case}")
    place.begin()
    kind = rng.choices(("trace", "capture", "dataset", "planted"), (60, 22, 15, 3))[0]
    os.chdir(place.work)
    changed, argv, results = {"trace": _trace, "capture": _capture, "dataset": _dataset, "planted": _planted}[kind](
        place, rng
    )
    before = _look(place.work)
    if kind == "planted":
        command = [sys.executable, "-P", "-m", "rover_pipeline", *argv]
        done = subprocess.run(
            command, cwd=place.work / "here", env=environment(), capture_output=True, text=True, check=False
        )
        status, printed, problems = done.returncode, done.stdout + done.stderr, []
        problems += ["an error that is no RoverError"] if "Traceback" in printed or "(unexpected;" in printed else []
    else:
        status, printed, problems = _call(argv)
    if show:
        print(f"{changed}\n{' '.join(argv)}\n{status}: {printed}")
    after = _look(place.work)
    others = [
        name
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name) and not _is_of(name, results, name in before)
    ]
    problems += [f"other files were changed: {others[:5]}"] if others else []
    problems += [f"ran: {ran(place.work / 'ran')}"] if (place.work / "ran").exists() else []
    problem = (
        "; ".join([*problems, f"{changed}: {' '.join(argv)}: status {status}: {printed[-600:]}"]) if problems else ""
    )
    return f"{kind} {argv[0]} {status}", problem


def _is_of(name: str, results: Sequence[str], was_there: bool) -> bool:
    """Whether a path is a result of the command. `+NAME`: only what is new there."""
    for each in results:
        path = each.lstrip("+")
        if (name == path or name.startswith(f"{path}/")) and not (each.startswith("+") and was_there):
            return True
    return False


def _look(folder: Path) -> dict[str, tuple[Any, ...]]:
    """State of everything below a folder: what it is, its bytes, its time or its target."""
    found: dict[str, tuple[Any, ...]] = {}
    for place, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = os.path.join(place, name)
            status = os.lstat(path)
            is_folder = os.path.isdir(path) and not os.path.islink(path)
            state = () if is_folder else (status.st_size, status.st_mtime_ns, status.st_ino)
            found[os.path.relpath(path, folder)] = (status.st_mode, *state)
    return found


# --- What is changed --------------------------------------------------------------------------------------------------


def _names(work: Path) -> tuple[Any, ...]:
    """Names that lead out of a folder, or are none."""
    ups = tuple(
        f"{'../' * count}{name}" for count in (1, 2, 3, 4) for name in ("outside/precious", "radar/iq", "outside")
    )
    return (
        *ups, *ups, f"{work}/outside/precious", f"{work}/outside", f"//{work}/outside/precious", "/", "..", ".", "",
        "a/../../../outside/precious", "link/precious", "./link/precious", "link", "pipe", "x" * 300, "x" * 70_000,
        "a\0b", "\udc80", "a\nb", "\x1b[2J", "-rf", "~", "$HOME", "{trace}", "*", "?", "%s", "\\..\\x", ".git",
        ".options-../../radar/iq", ".options-", ".partial", ".failed", "provenance.json", "meta.json", "ts", "valid",
        "iq", 7, None, [], {}, ["../outside/precious"], True, 1e300,
    )  # fmt: skip


def _change_names(path: Path, work: Path, rng: random.Random) -> str:
    """Put hostile names into a JSON or YAML file, or into lines of a text."""
    original = path.read_bytes()
    names = _names(work)
    if path.suffix in (".txt", ".csv"):
        lines = original.decode().splitlines() or [""]
        lines[rng.randrange(len(lines))] = str(rng.choice(names))
        path.write_bytes("\n".join(lines).encode("utf-8", "surrogatepass"))
        return f"{path.name}: a line"
    content = json.loads(original) if path.suffix != ".yaml" else yaml.safe_load(original)
    told: list[str] = []
    for _ in range(rng.choice((1, 1, 2, 5))):
        places = list(_places(content))
        if not places:
            break
        holder, key, is_key = rng.choice(places)
        name = rng.choice(names)
        told.append(f"{key!r} -> {name!r:.60}")
        if is_key and isinstance(name, str):
            holder[name] = copy.deepcopy(holder[key]) if rng.random() < 0.5 else holder.pop(key)
        elif isinstance(holder, list) and rng.random() < 0.6:
            holder += [name, *rng.sample(names, 5), holder[key]]
        elif not is_key:
            holder[key] = name
    text = yaml.safe_dump(content) if path.suffix == ".yaml" else json.dumps(content)
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    return f"{path.name}: {', '.join(told)}"


def _places(content: Any) -> Iterator[tuple[Any, Any, bool]]:
    """Strings in a content: what holds them, their key or number, and whether it is the key itself."""
    if isinstance(content, dict):
        for key, value in list(content.items()):
            yield content, key, True
            if isinstance(value, str):
                yield content, key, False
            yield from _places(value)
    elif isinstance(content, list):
        for number, value in enumerate(content[:20]):
            if isinstance(value, str):
                yield content, number, False
            yield from _places(value)


def _change_kind(path: Path, work: Path, rng: random.Random) -> str:
    """Put something else at a path: a link that leads out, or what is no file."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = rng.choice(("file", "folder", "new", "pipe", "device", "loop", "directory", "linked pipe", "hard link"))
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    elif kind == "hard link":
        os.link(work / "outside" / "precious", path)
    elif kind == "linked pipe":
        os.mkfifo(work / "outside" / "pipe")
        path.symlink_to(work / "outside" / "pipe")
    else:
        names = {"file": "precious", "folder": "folder", "new": "new", "device": "/dev/zero", "loop": str(path)}
        path.symlink_to(work / "outside" / names[kind])
    return f"{path.relative_to(work)}: {kind}"


def _change(folder: Path, work: Path, rng: random.Random, extra: Sequence[str] = ()) -> str:
    """Change one file of a folder, or what stands at one of other paths in it."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    lists = [path for path in files if path.suffix in (".json", ".yaml", ".txt", ".zattrs", ".zarray", ".csv")]
    if lists and rng.random() < 0.6:
        for name, target in (("link", work / "outside"), ("pipe", None)):
            if rng.random() < 0.3:
                at = rng.choice(lists).parent / name
                if not os.path.lexists(at):
                    at.symlink_to(target) if target else os.mkfifo(at)
        provenances = [path for path in lists if path.name == "provenance.json"]
        return _change_names(rng.choice(provenances if provenances and rng.random() < 0.4 else lists), work, rng)
    return _change_kind(rng.choice([*files, *(folder / name for name in extra)]), work, rng)


# --- The cases --------------------------------------------------------------------------------------------------------


def _trace(place: _Place, rng: random.Random) -> tuple[str, list[str], list[str]]:
    """A recording, of which a result, a page, or an export into it is made."""
    action = rng.choice(("check", "info", "step", "step", "step", "report", "one report", "roverp"))
    work = place.work
    shutil.copytree(place.whole if action == "roverp" else place.made.trace, work / "here" / "rec", symlinks=True)
    trace = work / "here" / "rec"
    step = rng.choice(_STEPS)
    if action in ("step", "roverp") or rng.random() < 0.5:
        _forge(trace, work, rng, step if action == "step" else rng.choice((step, "_report")))
    changed = _change(trace, work, rng, (*_PLACES, step, f"{step}/ts", f".partial/{step}.lock"))
    of_all = [f"here/rec/{FOLDER}", "here/rec/.partial"]
    if action == "step":
        output = [str(trace / step / name) for name in ("meta.json", ".options-0")]
        return changed, ["step", step, "--trace", str(trace), "--output", *output], [*of_all, f"here/rec/{step}"]
    if action == "report":
        return changed, ["report", str(work / "here")], [*of_all, "here/rec/_report", "here/_report", "here/.partial"]
    if action == "one report":
        return changed, ["report", str(trace)], [*of_all, "here/rec/_report"]
    if action == "roverp":
        results = [*of_all, *(f"+here/rec/{name}" for name in _ROVERP), "here/.partial"]
        return changed, ["export", "roverp", str(trace), "-o", str(trace)], results
    return changed, [action, str(trace)], []


def _forge(trace: Path, work: Path, rng: random.Random, name: str) -> None:
    """An older result, failures and interrupted attempts that others have made up."""
    names = [each for each in _names(work) if isinstance(each, str)]
    listed = [*rng.sample(names, 8), *(_OURS if rng.random() < 0.8 else ())]
    folder = trace / name
    folder.mkdir(exist_ok=True)
    content = {"made_by": MADE_BY, "step": "a", "version": 1, "files": listed, "products": rng.sample(names, 3)}
    content |= {"inputs": {each: {"bytes": 1} for each in rng.sample(names, 3)}, "sensor": rng.choice(names)}
    content |= {
        "time": {"inputs": {each: [1, 1] for each in rng.sample(names, 3)}},
        "options": {rng.choice(names): 1} if rng.random() < 0.2 else {},
    }
    (folder / "provenance.json").write_text(json.dumps(content))
    (folder / ".options-0").touch()
    (trace / FOLDER).mkdir(exist_ok=True)
    failure = {"output": rng.choice(names), "reason": "\x1b[2J", "time": 1e12, "may_pass": False}
    for each in (name, rng.choice(("_odom", "..", "...", "a b", "_map"))):
        (trace / FOLDER / f"{each}.json").write_text(json.dumps(failure))
    left = trace / ".partial" / f"{name}.1-{'0' * 16}"
    (left / "parts").mkdir(parents=True)
    (left / "link").symlink_to(work / "outside")
    (left / "provenance.json").write_text(json.dumps(content))
    (left / "parts" / "a.json").write_text(json.dumps({"key": "a", "files": listed}))


def _capture(place: _Place, rng: random.Random) -> tuple[str, list[str], list[str]]:
    """Files that an import reads."""
    work, out = place.work, place.work / "out" / "new"
    here = work / "here"
    shutil.copytree(place.made.captures, here, symlinks=True)
    kind = rng.choice(("ros", "ros", "clouds", "pictures", "kitti", "dca1000", "velodyne"))
    results = ["out/new", "out/.partial"]
    if kind == "ros":
        bags = sorted(path for path in (here / "bags").iterdir() if path.suffix != ".pcap")
        bag = rng.choice(bags)
        database = next(iter(bag.glob("*.db3")), bag) if bag.is_dir() else bag
        if database.suffix == ".db3" and rng.random() < 0.5:
            statement = rng.choice(_SQL)
            name = rng.choice([each for each in _names(work) if isinstance(each, str) and each.isascii()])
            changed = statement[:60]
            with closing(sqlite3.connect(database)) as opened:
                try:
                    opened.executescript(statement.format(name="'" + name.replace("'", "''").replace("\0", "") + "'"))
                except sqlite3.Error as error:
                    changed = f"{changed}: {error}"
        elif bag.is_dir():
            changed = _change(bag, work, rng, ("metadata.yaml", f"{database.name}-wal"))
        else:
            changed = _change_kind(bag, work, rng)
        return changed, ["import", "ros", str(bag), "-o", str(out), *rng.choice(([], ["--partial"]))], results
    if kind in ("clouds", "pictures"):
        folders = sorted({path.parent for path in (here / "clouds").rglob("*") if path.is_file()})
        folder = rng.choice([each for each in folders if (each.name == "pictures") == (kind == "pictures")])
        changed = _change(folder, work, rng, ("timestamps.txt", "camera.json"))
        return changed, ["import", kind, str(folder), "-o", str(out), "--rate", "10"], results
    if kind == "kitti":
        drive = next((here / "day").glob("*_sync"))
        changed = _change(here / "day", work, rng)
        return changed, ["import", "kitti", str(drive), "-o", str(out)], results
    if kind == "velodyne":
        capture = rng.choice(sorted((here / "bags").glob("*.pcap")))
        return _change_kind(capture, work, rng), ["import", "velodyne", str(capture), "-o", str(out)], results
    config = here / rng.choice(("studio.mmwave.json", "collection.yaml"))
    changed = _change_kind(here / "adc.bin", work, rng) if rng.random() < 0.4 else _change_names(config, work, rng)
    command = ["import", "dca1000", str(here / "adc.bin"), "--config", str(config), "-o", str(out)]
    return changed, command, results


def _dataset(place: _Place, rng: random.Random) -> tuple[str, list[str], list[str]]:
    """An exported dataset, which is checked, or made again in its place."""
    name = rng.choice(FORMATS)
    work, folder = place.work, place.work / "here" / name
    shutil.copytree(place.made.datasets / name, folder, symlinks=True)
    extra = (".options-0", "provenance.json", *_ROVERP)
    if name == "edgefirst" and rng.random() < 0.4:
        changed = _change_table(folder / f"{name}.arrow", work, rng)
    else:
        changed = _change(folder, work, rng, extra)
    action = rng.choice(("check", "info", "export", "mda"))
    items = sorted(folder.glob("*/*.mda"))
    if action == "mda" and items:
        (work / "text").write_text("{}")
        return changed, ["mda", "update", str(items[0]), str(work / "text"), "--group", "pose"], [f"here/{name}"]
    if action == "export":
        more = rng.choice(([], ["--replace"]))
        results = [
            f"{'+' if name == 'roverp' and not more else ''}here/{name}",
            f"here/{name}/.{name}",
            "here/.partial",
        ]
        return changed, ["export", name, str(place.whole), "-o", str(folder), *more], results
    return changed, ["check" if action == "mda" else action, str(folder)], []


def _change_table(path: Path, work: Path, rng: random.Random) -> str:
    """Hostile names in the table of an EdgeFirst dataset."""
    import pyarrow as pa

    with pa.OSFile(str(path)) as file:
        table = pa.ipc.open_file(file).read_all()
    column = table.column_names.index("name")
    names = [str(each).encode("utf-8", "replace").decode() for each in _names(work)]
    values = pa.array([rng.choice(names) for _ in range(table.num_rows)])
    table = table.set_column(column, "name", values.cast(table.schema.field("name").type))
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    return "names of samples"


def _planted(place: _Place, rng: random.Random) -> tuple[str, list[str], list[str]]:
    """Code and settings in every folder of a recording and above it; commands in processes of their own.

    Whole runs take longer than a case may: `tests/workflow/test_planted.py` has them.
    """
    work, trace = place.work, place.work / "here" / "rec"
    shutil.copytree(place.made.trace, trace, symlinks=True)
    for folder in (work, work / "here", trace, trace / "imu", trace / "lidar"):
        plant(folder, work / "ran")
    step = rng.choice(("_lidar_image", "_imu_filtered", "_radar_quality"))
    output = [str(trace / step / name) for name in ("meta.json", ".options-0")]
    commands = (
        ["check", "rec"],
        ["info", "rec"],
        ["report", "rec"],
        ["step", step, "--trace", str(trace), "--output", *output],
        ["export", "tum", "rec", "-o", str(work / "out" / "poses.tum")],
    )
    results = [f"here/rec/{step}", f"here/rec/{FOLDER}", "here/rec/.partial", "here/rec/_report", "out"]
    return f"code in every folder, {step}", rng.choice(commands), results
