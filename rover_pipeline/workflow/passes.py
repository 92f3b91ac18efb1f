"""Jobs that make several outputs of a recording, before the jobs of these outputs.

A pass makes the outputs that share the raw bytes of a recording. The brief steps are those whose work is shorter than
the start of a process: poses and times, and nearly all steps of a recording of seconds. One process makes them one
after another.

Each output keeps its rule, its stamp and its job. Where two or more outputs of a pass have to be made, their jobs wait
for the marker of the rule `NAME_pass`, those of brief steps for that of `brief_steps` or `later_brief_steps`, whose job
makes them together; each then finds its result there (`engine/passes.py`). Which ones it makes is planned when
Snakemake knows its jobs, so that `--until`, `--omit-from` and forced rules mean what they mean without it.
"""

from __future__ import annotations

import json
import os
import secrets
import shlex
import shutil
from collections.abc import Callable, Iterable, Mapping
from graphlib import TopologicalSorter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rover_pipeline.engine.passes import PASSES_VARIABLE, marker_file, plan_file
from rover_pipeline.engine.step import Step
from rover_pipeline.format.files import replace_file
from rover_pipeline.table import TABLE
from rover_pipeline.workflow.costs import memory_mb, work_s
from rover_pipeline.workflow.flow import Flow
from rover_pipeline.workflow.launch import python
from rover_pipeline.workflow.stamps import made_by

#: Folder of the markers of a run, in the working directory.
RUNS = Path(".snakemake", "passes")
#: Jobs of brief steps: of those that are made from raw sensors and from one another, and of those that follow from
#: other results. They are names of rules too.
BRIEF, LATER = "brief_steps", "later_brief_steps"
#: A recording is short where all that has to be made of it takes less than this, s of one processor: as long as a few
#: processes take to start.
_SHORT_S = 5.0
#: Steps that need more memory than this, MB, have a process of their own.
_MOST_MB = 1000


class Passes:
    """The passes of a run, and its jobs of brief steps.

    Attributes:
        folder: of the plans and markers of this run.
        names: of the passes that steps with rules share, and of the brief steps.
    """

    def __init__(
        self,
        flow: Flow,
        workflow: Any,
        pending: Callable[[Path], Iterable[str]],
        *,
        begins: bool,
        away: bool = False,
    ) -> None:
        """
        Args:
            workflow: Snakemake's.
            pending: names of the outputs of a recording that have no stamp, or are made from one without.
            begins: whether this is the process that the user started, and not one of its jobs.
            away: whether jobs run on other machines: the groups of their profile, not we, join brief steps.
        """
        self.flow, self.workflow, self._pending = flow, workflow, pending
        given = "" if begins else os.environ.get(PASSES_VARIABLE, "")
        self.folder = Path(given) if given else RUNS / secrets.token_hex(6)
        os.environ[PASSES_VARIABLE] = str(self.folder)
        self._away = away
        self._members: dict[tuple[str, Path], list[str]] = {}
        flow.passes = self.marker_before

    @property
    def names(self) -> list[str]:
        return [*self._shared, BRIEF, LATER]

    @property
    def _shared(self) -> list[str]:
        return sorted({step.shares for step in self.flow.steps.values() if step.shares})

    def rule(self, name: str) -> str:
        """Name of the rule of a pass, or of the brief steps."""
        return name if name in (BRIEF, LATER) else f"{name}_pass"

    def needs(self, name: str) -> Callable[[Any], list[str]]:
        """Input of the rule of a pass: what its outputs are made from."""

        def files(wildcards: Any) -> list[str]:
            results = self.flow.results(wildcards.trace)
            members = self.members(name, results)
            own = {self._stamp(sensor, results) for sensor in members}
            needed = [path for sensor in members for path in self.flow.inputs[sensor].files(results)]
            return [path for path in dict.fromkeys(needed) if path not in own]

        return files

    def command(self) -> str:
        """Shell command of the rule of a pass, whose name is a parameter: see `rules/passes.smk`.

        Where the process is killed, each output is left to its own job.
        """
        told = "rover-pipeline: {params.name:q} of /{wildcards.trace:q} was stopped'; its outputs are made one by one'"
        return (
            f"{shlex.join(python('rover_pipeline'))} pass {{params.name:q}} --trace /{{wildcards.trace:q}} "
            f"--folder {shlex.quote(str(self.folder))} --marker {{output:q}} --threads {{threads}} --log {{log:q}} "
            f"|| {{{{ echo {told} >&2; touch {{output:q}}; }}}}"
        )

    def members(self, name: str, results: Path) -> list[str]:
        """Virtual sensors that a job makes of a recording, each after those it is made from: none for less than two."""
        if (name, results) not in self._members:
            found = {f"_{each}" for each in self._pending(results)} | self._forced(results)
            self._members |= {(each, results): members for each, members in self._divided(found, results).items()}
        return self._members[name, results]

    def _divided(self, found: set[str], results: Path) -> dict[str, list[str]]:
        """The members of each job, of the virtual sensors that have to be made of a recording."""
        flow = self.flow
        below = {each: set(flow.needs_of.sensors_made_from(each, results)) & found for each in found}
        order = _in_order(below)
        brief = [] if self._away else self._brief(order, results)
        divided: dict[str, list[str]] = {}
        for name in self._shared:
            members = sorted(each for each in order if self._step(each, results).shares == name)
            members = members if len(members) > 1 else []
            for each in brief if members else ():  # what follows from a pass alone, such as velocities from points
                members += [each] if below[each] and below[each] <= {*members} else []
            divided[name] = members
        in_passes = {each for members in divided.values() for each in members}
        brief = [each for each in brief if each not in in_passes]
        waits = _waits_for(brief, below)
        groups = {each: [other for other in brief if waits[other] == waits[each]] for each in brief}
        first = next((group for each, group in groups.items() if not waits[each]), [])
        later = max((group for each, group in groups.items() if waits[each]), key=len, default=[])
        return divided | {BRIEF: first if len(first) > 1 else [], LATER: later if len(later) > 1 else []}

    def _brief(self, order: Iterable[str], results: Path) -> list[str]:
        """Those whose work is shorter than the start of a process: in a short recording nearly all steps of ours."""
        flow = self.flow
        known = {each: step for each in order if each in flow.inputs and not (step := flow.steps[each]).waits_for_all}
        ours = {each for each, step in known.items() if each in TABLE and step.name == TABLE[each].name}
        if flow.is_demo(results) or work_s(flow.source(results), ours) <= _SHORT_S:
            return [each for each in known if known[each].brief or (each in ours and memory_mb(each) <= _MOST_MB)]
        return [each for each in known if known[each].brief]

    def _stamp(self, sensor: str, results: Path) -> str:
        return f"{results}/{sensor}/{self.flow.made[sensor]}"

    def _step(self, sensor: str, results: Path) -> Step:
        """The step of a sensor as it is for a recording; one that shares nothing where it cannot be in a pass."""
        step = self.flow.steps.get(sensor)
        # A rule that lists its inputs by itself waits for no pass.
        if step is None or not step.shares or sensor not in self.flow.inputs:
            return Step("", 0)
        step = step.for_recording(self.flow.channels(results))
        return step if step.in_pass and not step.unfit else Step("", 0)

    def _forced(self, results: Path) -> set[str]:
        """Sensors whose rules the user forces, and which the recording's outputs are made from."""
        settings = self.workflow.dag_settings
        if not settings.forceall and not settings.forcerun:
            return set()
        rules = [rule for rule in self.workflow.rules if settings.forceall or rule.name in settings.forcerun]
        forced = {f"_{product}" for rule in rules for product in made_by(rule)}
        return forced & {f"_{each}" for each in self.flow.reach(results)}

    def marker_before(self, sensor: str, results: Path) -> list[str]:
        """The marker that the job of a virtual sensor waits for, where a pass makes it."""
        # Whether there is one depends on what else has to be made. That is no reason to make a result once more: its
        # stamp tells what it was made from.
        settings = self.workflow.dag_settings
        # Snakemake 9.0 has them as words, later ones as members of an enumeration.
        triggers = {each: getattr(each, "name", each).lower() for each in settings.rerun_triggers}
        settings.rerun_triggers = {each for each, name in triggers.items() if name != "input"}
        for name in self.names:
            if sensor in self.members(name, results):
                return [marker_file(self.folder, name, str(results))]
        return []

    # --- What is done when a run begins and ends -------------------------------------------------------------------

    def is_pass(self, rule: Any) -> bool:
        """Whether a rule makes a pass."""
        return any(rule.name == self.rule(name) for name in self.names)

    def begin(self, dag: Any) -> None:
        """Plan what the passes are to make: the outputs that Snakemake has jobs for."""
        jobs = list(dag.needrun_jobs())
        stamps = {str(path) for job in jobs if made_by(job.rule) for path in job.output}
        for job in jobs:
            if not self.is_pass(job.rule):
                continue
            name = next(each for each in self.names if job.rule.name == self.rule(each))
            results = self.flow.results(job.wildcards.trace)
            path = plan_file(self.folder, name, str(results))
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, json.dumps(self._stages(name, results, stamps)))

    def _stages(self, name: str, results: Path, stamps: set[str]) -> list[list[dict[str, Any]]]:
        """What a job is to make, one stage after the other: first what shares raw bytes, together, then the others."""
        members = [each for each in self.members(name, results) if self._stamp(each, results) in stamps]
        together = [each for each in members if self._step(each, results).shares == name]
        stages = [together, *([each] for each in members if each not in together)]
        return [[self._planned(each, results, members) for each in stage] for stage in stages if stage]

    def _planned(self, sensor: str, results: Path, members: Iterable[str]) -> dict[str, Any]:
        wildcards = SimpleNamespace(trace=str(results).lstrip("/"), product=sensor[1:])
        return {
            "step": self.flow.step_name(wildcards),
            "stamp": self._stamp(sensor, results),
            "request": self.flow.step_options(wildcards),
            "version": self.flow.step_version(wildcards),
            "after": [each for each in self.flow.needs_of.sensors_made_from(sensor, results) if each in members],
        }

    def outputs_of(self, marker: str) -> list[tuple[Path, str]]:
        """Directory of results and name of each output that the job of a marker was to make."""
        for (name, results), sensors in self._members.items():
            if sensors and marker == marker_file(self.folder, name, str(results)):
                return [(results, sensor) for sensor in sensors]
        return []

    def finish(self) -> None:
        """Remove what only this run needed."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _waits_for(brief: Iterable[str], below: Mapping[str, set[str]]) -> dict[str, frozenset[str]]:
    """What each brief step waits for that other jobs make.

    Only steps that wait for the same are made by one job. So none of them waits for what it does not need, is kept back
    by the failure of that, or waits for itself.

    Args:
        brief: in an order in which each comes after those below it.
    """
    waits: dict[str, frozenset[str]] = {}
    for each in brief:
        near = {other for other in below[each] if other in waits}
        others = frozenset(below[each] - near).union(*(waits[other] for other in near))
        waits[each] = others.union(other for other in near if waits[other] != others)
    return waits


def _in_order(below: Mapping[str, Iterable[str]]) -> list[str]:
    """Names in an order in which each comes after those below it; otherwise by the alphabet."""
    return list(TopologicalSorter({name: sorted(below[name]) for name in sorted(below)}).static_order())
