"""`python -m tests.campaign power`: what is on the disk after a power cut, at every moment of every publish.

The system calls of real runs are recorded by strace: of each step, product, import, export and page, of updates of MDA
files, of remembered options, failures and markers, and of a whole `rover-pipeline run`, over nothing and over an older
result. They are played on two models of a file system (`power_disk.py`), which give the states in which a power cut may
leave it. In each distinct state

- raw bytes are as they were,
- a result is the new one, the older one, or absent; anything else `check` refuses, and `run` makes again,
- `check`, what `run -n` looks at, and `rp.open` end without a traceback,
- the same command gives the bytes of an undisturbed run and leaves no scratch.

After the command has ended, a power cut changes nothing any more (in order: at all; weak: at most its scratch).
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

import rover_pipeline as rp
from rover_pipeline.errors import RoverError
from rover_pipeline.format.attempt import PARTIAL
from rover_pipeline.format.meta import META
from rover_pipeline.format.names import is_stamp
from rover_pipeline.format.provenance import PROVENANCE
from rover_pipeline.format.trace import is_trace
from rover_pipeline.table import TABLE, find_step
from rover_pipeline.workflow.flow import Flow
from rover_pipeline.workflow.stamps import StepId, untrue
from tests.campaign.faults import _make_different
from tests.campaign.forked import Tally, run_cases
from tests.campaign.fuzz import _call
from tests.campaign.power_calls import TRACED, calls
from tests.campaign.power_disk import Disk, Tree, digest, read_tree
from tests.campaign.power_images import kinds, states
from tests.campaign.power_subjects import Publish, publishes
from tests.campaign.subjects import OLDER_STAMP
from tests.kit import PER_PROCESS, STAMP, environment

#: Power cuts of each real file system, for each recorded run.
_CUTS = 5
_BEGIN, _END = "/power-cut/begin/", "/power-cut/end/"


class Recorded(NamedTuple):
    """One recorded run. `over`: an older result was there."""

    name: str
    over: bool
    folder: Path

    def __str__(self) -> str:
        return f"{self.name}, over {'an older result' if self.over else 'nothing'}"


# --- Recording ----------------------------------------------------------------------------------------------------


def record(root: Path, names: Sequence[str]) -> list[Recorded]:
    """Run publishes in a process whose system calls are recorded."""
    log = root / "log"
    command = [*TRACED, str(log), sys.executable, "-m", "tests.campaign.power", str(root), *names]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the recording failed: {done.stderr[-3000:]}")
    made = [Recorded(**{**each, "folder": Path(each["folder"])}) for each in json.loads((root / "made").read_text())]
    marks = {f"{_BEGIN}{each.folder.name}": each.folder for each in made}
    with log.open() as lines:
        output = None
        for line in lines:
            if "mkdir(" in line and " ENOENT " in line:
                name = bytes.fromhex(line.split('"')[1].replace("\\x", "")).decode()
                if output is not None and name.startswith((_BEGIN, _END)):
                    output.close()
                    output = None
                if name in marks:
                    output = (marks[name] / "log").open("w")
                    continue
            if output is not None:
                output.write(line)
    log.unlink()
    return made


def _record_all(root: Path, names: Sequence[str]) -> None:
    """In the recorded process: prepare each publish, and run it between two marks."""
    made = []
    known = publishes()
    for name in names:
        for over in (False, True) if known[name].subject.replaces else (False,):
            folder = root / f"{len(made)}"
            _record_one(known[name], folder, over)
            made.append({"name": name, "over": over, "folder": str(folder)})
    (root / "made").write_text(json.dumps(made))


def _record_one(publish: Publish, folder: Path, over: bool) -> None:
    subject, base, work = publish.subject, folder / "base", folder / "work"
    folder.mkdir()
    subject.prepare(base)
    if over:
        shutil.copytree(base, work, symlinks=True)
        subject.run(work, OLDER_STAMP, 1)
        for name in subject.results:
            if (work / name).is_dir():
                _make_different(work / name)
        shutil.rmtree(base)
        shutil.move(work, base)
    _restore(base, work)
    _mark(f"{_BEGIN}{folder.name}")
    subject.run(work, STAMP, 2)
    _mark(f"{_END}{folder.name}")


def _mark(name: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.mkdir(name)


def _restore(base: Path, work: Path) -> None:
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(base, work, symlinks=True)


# --- States -------------------------------------------------------------------------------------------------------


class State(NamedTuple):
    """What may be on the disk. `ended`: the command had ended before the power cut."""

    model: str
    tree: Tree
    ended: bool


class Laboratory:
    """Plays one recorded run, and judges the states in which power cuts may leave its folder."""

    def __init__(self, recorded: Recorded, seed: int, most: int, images: Path | None = None) -> None:
        self.publish = publishes()[recorded.name]
        self.subject = self.publish.subject
        self.base, self.work = recorded.folder / "base", recorded.folder / "work"
        self.before = read_tree(self.base)
        self.versions: dict[str, set[bytes | str | None]] = {}
        self.disk = Disk(self.work, self.before)
        rng = random.Random(f"{seed} {recorded}")
        found: dict[bytes, State] = {}
        played = list(calls(recorded.folder / "log"))
        self.calls = 0
        for call in played:
            if self.disk.play(call):
                self.calls += 1
                for model, tree in self.disk.states(rng):
                    found.setdefault(digest(tree), State(model, tree, False))
                if self.publish.by_file:
                    for path, content in self.disk.tree().items():
                        self.versions.setdefault(path, set()).add(content)
        self.after = self.disk.tree()
        assert self.after == read_tree(self.work), f"{recorded}: the recording lacks calls"
        for _ in range(20):  # the command has ended
            for model, tree in self.disk.states(rng):
                found[digest(tree)] = State(model, tree, True)
        if images and self.publish.share == 1:
            for kind in kinds(images):
                for tree in states(kind, images, self.base, self.work, played, _CUTS, rng):
                    found.setdefault(digest(tree), State(kind, tree, False))
        self.possible = len(found)
        self.states = _chosen(list(found.values()), round(most * self.publish.share), rng)
        self.results = {name: (_below(self.after, name), _below(self.before, name)) for name in self.subject.results}
        self.raw = {path: content for path, content in self.before.items() if not self._ours(path)}
        assert all(self.after[path] == content for path, content in self.raw.items()), f"{recorded}: raw bytes changed"
        self.wanted = self._comparable(self.after)
        self.told: set[str] = set()

    def prepare(self) -> None:
        """In the process that judges: what `check` says where nothing is wrong."""
        for tree in (self.before, self.after):
            self._write(tree)
            self.told |= set(self._check()[1])

    def judge(self, number: int) -> tuple[str, str]:
        """Judge a state: an outcome to count, and what is wrong."""
        state = self.states[number]
        self._write(state.tree)
        wrong, outcome = self._look(state)
        wrong += [each for each in self._read() if each]
        whole = all(_below(state.tree, name) == self.results[name][0] for name in self.subject.results)
        if not (whole and not self.subject.replaces and not self.subject.shared):
            wrong += self._repair()
        return f"{state.model}: {outcome}", "; ".join(dict.fromkeys(wrong))

    def _look(self, state: State) -> tuple[list[str], str]:
        """What is wrong before anything is repaired, and what became of the result."""
        tree = state.tree
        wrong = [f"raw bytes lost: {path}" for path, content in self.raw.items() if tree.get(path, 0) != content]
        status, lines, problems = self._check()
        wrong += problems
        outcomes = set()
        for name, (new, old) in self.results.items():
            found = _below(tree, name)
            outcome = "new" if found == new else "older" if found and found == old else self._half(name, found)
            if outcome == "half":
                refused = status and any(f"/{name.rpartition('/')[2]}" in line for line in lines)
                wrong += [] if refused else [f"{name} is half: {_differences(found, new, old)}"]
                outcome = "refused"
            if state.ended and found != new:
                wrong.append(f"{name} is lost after exit 0: {_differences(found, new, old)}")
            outcomes.add(outcome)
            if outcome not in ("new", "older") and (stamp := self._believed(found)):
                wrong.append(f"{stamp} is there, and `run` does not make it again")
        if outcomes <= {"new", "older", "absent"}:
            wrong += [f"check: {line}" for line in lines if line not in self.told and "is unfinished" not in line]
        return wrong, max(outcomes)

    def _half(self, name: str, found: Tree) -> str:
        """What a result is that is neither the new one nor the older one."""
        files = {path: content for path, content in found.items() if content is not None}
        if self.publish.by_file:
            known = all(content in self.versions[path] for path, content in files.items())
            return "some files" if known else "half"
        mark = f"{name}/{META}"
        if mark in self.results[name][0]:  # readers know a sensor by it
            files = {path: content for path, content in files.items() if path == mark or is_stamp(Path(path).name)}
        return "half" if files else "absent"

    def _believed(self, found: Tree) -> str:
        """The stamp of a result, where `run` would believe it."""
        for path in found:
            stamp = self.work / path
            step = stamp.parent.name
            if (
                is_stamp(stamp.name)
                and step in TABLE
                and not untrue(stamp, StepId.of(find_step(step)), stamp.parents[1])
            ):
                return path
        return ""

    def _traces(self) -> Iterator[Path]:
        for path in sorted(self.work.glob("*/")):
            if path.name != PARTIAL and is_trace(path):
                yield path

    def _check(self) -> tuple[int, list[str], list[str]]:
        """Status and lines of `check`, of each trace and data set, and what is wrong with them."""
        status, lines, wrong = 0, [], []
        paths = [*self._traces(), *(self.work / name for name in self.publish.datasets)]
        for path in filter(Path.is_dir, paths):
            one, printed, problems = _call(["check", str(path), "--threads", "1"])
            status = max(status, one)
            lines += [line for line in printed.splitlines() if not line.startswith("rover-pipeline: ")]
            wrong += [f"check: {each}: {printed[-300:]}" for each in problems]
        return status, lines, wrong

    def _read(self) -> Iterator[str]:
        """What is wrong where recordings are read, and planned for."""
        for path in self._traces():
            yield _ends(lambda at=path: _read_all(at), "rp.open")
            yield _ends(lambda at=path: _plan(at), "run -n")

    def _repair(self) -> list[str]:
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            problem = _ends(lambda: self.subject.run(self.work, STAMP, 1), "the same command", refuses=True)
        tree = read_tree(self.work)
        wrong = [problem] if problem else []
        if not problem and (found := self._comparable(tree)) != self.wanted:
            wrong.append(f"the same command gives other bytes: {_differences(found, self.wanted, {})}")
        wrong += [
            f"the same command changes raw bytes: {path}"
            for path, each in self.raw.items()
            if tree.get(path, 0) != each
        ]
        left = [path for path in tree if PARTIAL in path.split("/")]
        return wrong + ([f"the same command leaves {left[0]}"] if left and not problem else [])

    def _write(self, tree: Tree) -> None:
        """Make the folder what a state says. Files that are as they were have the times that they had."""
        _restore(self.base, self.work)
        gone = [path for path in self.before if path not in tree or type(tree[path]) is not type(self.before[path])]
        for path in sorted(gone, reverse=True):
            place = self.work / path
            place.rmdir() if self.before[path] is None else place.unlink()
        for path in sorted(tree):
            content = tree[path]
            if path in gone or path not in self.before or content != self.before[path]:
                place = self.work / path
                if content is None:
                    place.mkdir()
                elif isinstance(content, str):
                    place.unlink(missing_ok=True)
                    place.symlink_to(content)
                else:
                    place.write_bytes(content)

    def _ours(self, path: str) -> bool:
        """Whether a path belongs to what is made, and is no raw data."""
        mine = (*self.subject.results, *filter(None, [self.subject.shared]))
        return any(path == name or path.startswith(f"{name}/") for name in mine) or PARTIAL in path.split("/")

    def _comparable(self, tree: Tree) -> Tree:
        """What is made, without what tells times."""
        found = {path: content for path, content in tree.items() if self._ours(path) and PARTIAL not in path.split("/")}
        for path, content in found.items():
            if isinstance(content, bytes) and (path.endswith(PROVENANCE) or self.publish.timed):
                with contextlib.suppress(ValueError):
                    kept = {key: value for key, value in json.loads(content).items() if key not in PER_PROCESS}
                    found[path] = json.dumps(kept).encode()
        return found


def _chosen(states: list[State], most: int, rng: random.Random) -> list[State]:
    """At most so many states: first of those that differ in what is seen outside of scratch folders."""
    rng.shuffle(states)
    seen: set[bytes] = set()
    first, others = [], []
    for state in states:
        key = digest({path: each for path, each in state.tree.items() if PARTIAL not in path.split("/")})
        (others if key in seen and not state.ended else first).append(state)
        seen.add(key)
    return [*first, *others][:most]


def _below(tree: Tree, name: str) -> Tree:
    inside = {path: content for path, content in tree.items() if path == name or path.startswith(f"{name}/")}
    return {path: content for path, content in inside.items() if PARTIAL not in path.split("/")}


def _differences(found: Tree, new: Tree, old: Tree) -> str:
    paths = sorted(path for path in {*found, *new} if found.get(path, 0) != new.get(path, 0))
    return ", ".join(
        f"{path} {'is missing' if path not in found else 'is older' if found[path] == old.get(path, 0) else 'differs'}"
        for path in paths[:4]
    )


def _ends(call: Callable[[], object], what: str, refuses: bool = False) -> str:
    """What is wrong with how a call ends; an error of ours is wrong where the command must not refuse."""
    try:
        call()
    except (RoverError, OSError) as error:
        if refuses or isinstance(error, OSError):
            return f"{what} fails: {error}"
    except Exception as error:
        return f"{what} raises {error!r}"
    return ""


def _read_all(path: Path) -> None:
    with rp.open(path) as trace:
        for sensor in trace:
            for name in trace[sensor]:
                np.asarray(trace[sensor][name])


def _plan(path: Path) -> None:
    """What `run -n` looks at: recordings, remembered options, results and what they were made from."""
    flow = Flow({"traces": str(path), "outputs": "default"})
    names = [name for name, step in TABLE.items() if step.needs_option is None]
    rules = [SimpleNamespace(input=[flow.needs(name)], output=flow.makes(name)) for name in names]
    with contextlib.redirect_stderr(io.StringIO()):
        flow.targets(rules)
        for results in flow.wanted:
            flow.pending(results)


# --- The campaign -------------------------------------------------------------------------------------------------


def play(recorded: Recorded, seed: int, most: int) -> tuple[str, Tally]:
    """Judge states of one recorded run."""
    begin, tally = time.monotonic(), Tally()
    laboratory = Laboratory(recorded, seed, most)

    def prepare() -> Laboratory:
        laboratory.prepare()
        return laboratory

    cases = list(range(len(laboratory.states)))
    run_cases(cases, prepare, lambda place, number: place.judge(number), tally)
    tally.findings = [(f"{recorded}: {name}", problem) for name, problem in tally.findings]
    seconds = time.monotonic() - begin
    shutil.rmtree(recorded.folder)
    figures = f"{len(cases)} of {laboratory.possible} states of {laboratory.calls} calls, {len(tally.findings)} wrong"
    return f"{recorded}: {figures}, {seconds:.0f} s", tally


def campaign(names: Sequence[str], most: int, seed: int, jobs: int, tell: Callable[[str], object]) -> Tally:
    """Record publishes and judge at most so many states of each."""
    tally = Tally()
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="power-", dir=place) as folder:
        made = record(Path(folder), names or list(publishes()))
        with ProcessPoolExecutor(jobs, get_context("fork"), max_tasks_per_child=None) as pool:
            for line, more in pool.map(play, made, [seed] * len(made), [most] * len(made)):
                tell(line)
                for name, problem in more.findings[:5]:
                    tell(f"    {name}: {problem}")
                tally.merge(more)
    return tally


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign power")
    parser.add_argument("--most", type=int, default=420, help="states of each recorded run (default: 420)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("names", nargs="*", help="what is published (default: all)")
    given = parser.parse_args(arguments)
    tally = campaign(given.names, given.most, given.seed, given.jobs, lambda line: print(line, flush=True))
    for outcome, count in sorted(tally.counts.items()):
        print(f"{count:8,} {outcome}")
    print(f"{sum(tally.counts.values()):8,} states, {len(tally.findings)} wrong")
    raise SystemExit(bool(tally.findings))


if __name__ == "__main__":
    _record_all(Path(sys.argv[1]), sys.argv[2:])
