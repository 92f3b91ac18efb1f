"""`python -m tests.campaign power`: what is on the disk after a power cut, at every moment of every publish.

The system calls of real runs are recorded by strace: of each step, product, import, export and page, of updates of MDA
files, of remembered options, failures and markers, and of whole `rover-pipeline run`s, over nothing and over an older
result. They are played on two models of a file system (`power_disk.py`), and where images can be mounted on real ones,
which give the states that a power cut may leave. In each distinct state

- raw bytes are as they were,
- a result is the new one, the older one, or absent; anything else `check` refuses, and `run` makes again,
- `check`, what `run -n` looks at, and `rp.open` end without a traceback,
- the same command gives the bytes of an undisturbed run and leaves no scratch.

After the command has ended, a power cut takes nothing of the result any more.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

import rover_pipeline as rp
from rover_pipeline.engine import parallel
from rover_pipeline.errors import RoverError
from rover_pipeline.export.look import print_problems
from rover_pipeline.format.attempt import PARTIAL
from rover_pipeline.format.files import is_stamp
from rover_pipeline.format.meta import META
from rover_pipeline.format.provenance import PROVENANCE
from rover_pipeline.format.trace import is_trace
from rover_pipeline.table import TABLE, find_step
from rover_pipeline.workflow.flow import Flow
from rover_pipeline.workflow.needs import untrue
from tests.campaign.forked import Tally, run_cases
from tests.campaign.power_disk import Disk, Tree, calls, digest, read_tree
from tests.campaign.power_images import on_real_disks
from tests.campaign.power_record import Recorded, record, restore
from tests.campaign.power_subjects import publishes
from tests.kit import PER_PROCESS, STAMP


class State(NamedTuple):
    """What may be on the disk. `ended`: the command had ended before the power cut."""

    model: str
    tree: Tree
    ended: bool = False


class Laboratory:
    """Plays one recorded run, and judges the states in which power cuts may leave its folder.

    Args:
        most: states that are judged; images: power cuts on each real file system.
    """

    def __init__(self, recorded: Recorded, seed: int, most: int, images: int) -> None:
        self.publish = publishes()[recorded.name]
        self.subject = self.publish.subject
        self.base, self.work = recorded.folder / "base", recorded.folder / "work"
        self.before = read_tree(self.base)
        self.versions: dict[str, set[bytes | str | None]] = {}
        disk, rng = Disk(self.work, self.before), random.Random(f"{seed} {recorded}")
        played = list(calls(recorded.folder / "log"))
        found: dict[bytes, State] = {}
        for call in played:
            if disk.play(call):
                for path, content in disk.tree().items() if self.publish.by_file else ():
                    self.versions.setdefault(path, set()).add(content)
                if rng.random() < self.publish.share:
                    found.update({digest(tree): State(model, tree) for model, tree in disk.states(rng)})
        self.after = disk.tree()
        assert self.after == read_tree(self.work), f"{recorded}: the recording lacks calls"
        real = list(on_real_disks(recorded.folder, played, images if self.publish.share == 1 else 0, rng))
        found.update({digest(tree): State(model, tree) for model, tree in real})
        self.images = len(real)
        for _ in range(20):
            found.update({digest(tree): State(model, tree, True) for model, tree in disk.states(rng)})
        self.possible = len(found)
        self.states = _chosen(list(found.values()), round(most * self.publish.share), rng)
        self.results = {name: (_below(self.after, name), _below(self.before, name)) for name in self.subject.results}
        self.raw = {path: content for path, content in self.before.items() if not self._ours(path)}
        assert self.raw.items() <= self.after.items(), f"{recorded}: raw bytes changed"
        self.wanted = self._comparable(self.after)
        self.told: set[str] = set()
        self._read: dict[bytes, tuple[str, list[str]]] = {}

    def prepare(self) -> None:
        """In the process that judges: what `check` says where nothing is wrong."""
        parallel.threadpool_limits = lambda _: contextlib.nullcontext()  # it looks for libraries, which takes long
        for tree in (self.before, self.after):
            self._write(tree)
            self.told |= set(self._check()[0])

    def judge(self, number: int) -> tuple[str, str]:
        """Judge a state: an outcome to count, and what is wrong."""
        state = self.states[number]
        self._write(state.tree)
        # Readers see of scratch folders that they are there, and nothing more.
        seen = digest(_seen(state.tree)) + bytes([state.ended])
        if seen not in self._read:
            self._read[seen] = self._look(state)
        outcome, wrong = self._read[seen][0], [*self._read[seen][1]]
        whole = all(_below(state.tree, name) == new for name, (new, _) in self.results.items())
        if self.subject.replaces or self.subject.shared or not whole:
            wrong += self._repair()
        return f"{state.model}: {outcome}", "; ".join(dict.fromkeys(filter(None, wrong)))

    def _look(self, state: State) -> tuple[str, list[str]]:
        """What became of the result, and what is wrong before anything is repaired."""
        wrong = [f"raw bytes lost: {path}" for path, each in self.raw.items() if state.tree.get(path, 0) != each]
        lines, problems = self._check()
        outcomes = set()
        for name, (new, old) in self.results.items():
            found = _below(state.tree, name)
            outcome = "new" if found == new else "older" if found and found == old else self._half(name, found)
            if outcome == "half":
                refused = any(f"/{name.rpartition('/')[2]}" in line for line in lines)
                wrong += [] if refused else [f"{name} is half: {_differences(found, new, old)}"]
                outcome = "refused"
            if state.ended and found != new:
                wrong.append(f"{name} is lost after exit 0: {_differences(found, new, old)}")
            if outcome not in ("new", "older") and (stamp := self._believed(found)):
                wrong.append(f"{stamp} is there, and `run` does not make it again")
            outcomes.add(outcome)
        if outcomes <= {"new", "older", "absent"}:
            wrong += [f"check: {line}" for line in lines if line not in self.told and "is unfinished" not in line]
        for path in self._traces():
            wrong += [_ends(partial(_read_all, path), "rp.open", True)]
            wrong += [_ends(partial(_plan, path), "run -n", True)]
        return max(outcomes), wrong + problems

    def _half(self, name: str, found: Tree) -> str:
        """What a result is that is neither the new one nor the older one."""
        files = {path: content for path, content in found.items() if content is not None}
        if self.publish.by_file:
            return "some files" if all(each in self.versions[path] for path, each in files.items()) else "half"
        mark = f"{name}/{META}"
        if mark in self.results[name][0]:  # readers know a sensor by it
            files = {path: content for path, content in files.items() if path == mark or is_stamp(Path(path).name)}
        return "half" if files else "absent"

    def _believed(self, found: Tree) -> str:
        """The stamp of a result, where `run` would believe it."""
        for stamp in (self.work / path for path in found if is_stamp(Path(path).name)):
            step = stamp.parent.name
            if step in TABLE and not untrue(stamp, find_step(step), stamp.parents[1]):
                return f"{step}/{stamp.name}"
        return ""

    def _traces(self) -> Iterator[Path]:
        return (path for path in sorted(self.work.glob("*/")) if path.name != PARTIAL and is_trace(path))

    def _check(self) -> tuple[list[str], list[str]]:
        """Lines of `check`, of each trace and data set, and what is wrong with how it ends."""
        lines, wrong = [], []
        for path in (*self._traces(), *filter(Path.is_dir, (self.work / name for name in self.publish.datasets))):
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
                wrong.append(_ends(partial(print_problems, [str(path)], False, 1), "check", True))
            lines += printed.getvalue().splitlines()
        return lines, wrong

    def _repair(self) -> list[str]:
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            problem = _ends(lambda: self.subject.run(self.work, STAMP, 1), "the same command")
        if problem:
            return [problem]
        tree = read_tree(self.work)
        found, left = self._comparable(tree), [path for path in tree if PARTIAL in path.split("/")]
        wrong = [f"raw bytes changed: {path}" for path, each in self.raw.items() if tree.get(path, 0) != each]
        if found != self.wanted:
            wrong.append(f"the same command gives other bytes: {_differences(found, self.wanted, {})}")
        return wrong + [f"the same command leaves {path}" for path in left[:1]]

    def _write(self, tree: Tree) -> None:
        """Make the folder what a state says. Files that are as they were have the times that they had."""
        restore(self.base, self.work)
        for path in sorted(self.before.keys() - tree.keys(), reverse=True):
            (Path.rmdir if self.before[path] is None else Path.unlink)(self.work / path)
        for path, content in sorted(tree.items()):
            if path not in self.before or content != self.before[path]:
                place = self.work / path
                if content is None:
                    place.mkdir()
                elif isinstance(content, str):
                    place.symlink_to(content)
                else:
                    place.write_bytes(content)

    def _ours(self, path: str) -> bool:
        """Whether a path belongs to what is made, and is no raw data."""
        mine = (*self.subject.results, *filter(None, [self.subject.shared]))
        return any(path == name or path.startswith(f"{name}/") for name in mine) or PARTIAL in path.split("/")

    def _comparable(self, tree: Tree) -> Tree:
        """What is made, without what tells times."""
        found = {path: each for path, each in tree.items() if self._ours(path) and PARTIAL not in path.split("/")}
        for path, content in found.items():
            if isinstance(content, bytes) and (path.endswith(PROVENANCE) or self.publish.timed):
                kept = {key: value for key, value in json.loads(content).items() if key not in PER_PROCESS}
                found[path] = json.dumps(kept).encode()
        return found


def _chosen(states: list[State], most: int, rng: random.Random) -> list[State]:
    """At most so many states: first of those that differ in what is seen outside of scratch folders."""
    rng.shuffle(states)
    seen: set[bytes] = set()
    first: list[State] = []
    others: list[State] = []
    for state in states:
        key = digest(_seen(state.tree))
        (others if key in seen and not state.ended else first).append(state)
        seen.add(key)
    return [*first, *others][:most]


def _seen(tree: Tree) -> Tree:
    """A state without what is in the folders of attempts."""
    return {path: each for path, each in tree.items() if PARTIAL not in path.split("/")[:-2]}


def _below(tree: Tree, name: str) -> Tree:
    """A file or folder of a state, without scratch folders."""
    inside = {path: each for path, each in tree.items() if path == name or path.startswith(f"{name}/")}
    return {path: each for path, each in inside.items() if PARTIAL not in path.split("/")}


def _differences(found: Tree, new: Tree, old: Tree) -> str:
    paths = sorted(path for path in {*found, *new} if found.get(path, 0) != new.get(path, 0))
    how = {path: "is older" if found.get(path, 0) == old.get(path, 1) else "differs" for path in paths}
    return ", ".join(f"{path} {how[path] if path in found else 'is missing'}" for path in paths[:4])


def _ends(call: Callable[[], object], what: str, may_refuse: bool = False) -> str:
    """What is wrong with how a call ends: an error that is none of ours, or any where it must not refuse."""
    try:
        call()
    except Exception as error:
        return "" if may_refuse and isinstance(error, RoverError) else f"{what} ends with {error!r}"
    return ""


def _read_all(path: Path) -> None:
    with rp.open(path) as trace:
        for sensor in trace:
            for name in trace[sensor]:
                np.asarray(trace[sensor][name])


def _plan(path: Path) -> None:
    """What `run -n` looks at: recordings, remembered options, results and what they were made from."""
    flow = Flow({"traces": str(path), "outputs": "default"})
    names = [name for name, step in TABLE.items() if step.shown.needs_option is None]
    rules = [SimpleNamespace(input=[flow.needs(name)], output=flow.makes(name)) for name in names]
    with contextlib.redirect_stderr(io.StringIO()):
        flow.targets(rules)
        for results in flow.wanted:
            flow.pending(results)


def play(recorded: Recorded, seed: int, most: int, images: int) -> tuple[str, Tally]:
    """Judge states of one recorded run."""
    begin, tally = time.monotonic(), Tally()
    laboratory = Laboratory(recorded, seed, most, images)
    cases = list(range(len(laboratory.states)))

    def prepare() -> Laboratory:
        laboratory.prepare()
        return laboratory

    run_cases(cases, prepare, lambda place, number: place.judge(number), tally)
    tally.findings = [(f"{recorded}: {name}", problem) for name, problem in tally.findings]
    shutil.rmtree(recorded.folder)
    of = f"{laboratory.possible} states" + (f" with {laboratory.images} images" if images else "")
    figures = f"{len(cases)} of {of}, {len(tally.findings)} wrong"
    return f"{recorded}: {figures}, {time.monotonic() - begin:.0f} s", tally


def campaign(
    names: Sequence[str], most: int, seed: int, images: int = 0, jobs: int = 2, tell: Callable[[str], object] = print
) -> Tally:
    """Record publishes and judge at most so many states of each."""
    tally = Tally()
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="power-", dir=place) as folder:
        made = record(Path(folder), names or list(publishes()))
        given = ([each] * len(made) for each in (seed, most, images))
        with ProcessPoolExecutor(jobs, get_context("fork")) as pool:
            for line, more in pool.map(play, made, *given):
                tell("\n    ".join([line, *(f"{name}: {problem}" for name, problem in more.findings[:5])]))
                tally.merge(more)
    return tally


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign power")
    parser.add_argument("--most", type=int, default=600, help="states of each recorded run (default: 600)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--images", type=int, default=0, help="power cuts on each of ext4, XFS and btrfs (needs root)")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("names", nargs="*", help="what is published (default: all)")
    given = parser.parse_args(arguments)
    tally = campaign(
        given.names, given.most, given.seed, given.images, given.jobs, lambda line: print(line, flush=True)
    )
    for outcome, count in sorted(tally.counts.items()):
        print(f"{count:8,} {outcome}")
    print(f"{sum(tally.counts.values()):8,} states, {len(tally.findings)} wrong")
    raise SystemExit(bool(tally.findings))
