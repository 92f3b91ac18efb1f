"""Passes in the workflow: one job that makes what shares the raw bytes of a recording, before the jobs of its outputs.

Each output keeps its rule, its stamp and its job. Where two or more outputs of a pass have to be made, their jobs wait
for the marker of the rule `NAME_pass`, whose job makes them together; each then finds its result there
(`engine/passes.py`). Which ones it makes is planned when Snakemake knows its jobs, so that `--until`, `--omit-from` and
forced rules mean what they mean without it.
"""

from __future__ import annotations

import json
import os
import secrets
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rover_pipeline.engine.passes import PASSES_VARIABLE, marker_file, plan_file
from rover_pipeline.engine.step import Step
from rover_pipeline.format.meta import replace_file
from rover_pipeline.workflow.flow import Flow
from rover_pipeline.workflow.stamps import made_by

#: Folder of the markers of a run, in the working directory.
RUNS = Path(".snakemake", "passes")
#: Ends the name of a rule that makes a pass.
SUFFIX = "_pass"


class Passes:
    """The passes of a run.

    Attributes:
        folder: of the plans and markers of this run.
        names: of the passes that steps with rules share.
    """

    def __init__(
        self,
        flow: Flow,
        workflow: Any,
        as_file: Callable[[str], Any],
        pending: Callable[[Path], Iterable[str]],
        *,
        begins: bool,
    ) -> None:
        """
        Args:
            workflow: Snakemake's; as_file: its type of a path.
            pending: names of the outputs of a recording that have no stamp, or are made from one without.
            begins: whether this is the process that the user started, and not one of its jobs.
        """
        self.flow, self.workflow, self._as_file, self._pending = flow, workflow, as_file, pending
        given = "" if begins else os.environ.get(PASSES_VARIABLE, "")
        self.folder = Path(given) if given else RUNS / secrets.token_hex(6)
        os.environ[PASSES_VARIABLE] = str(self.folder)
        self._begins = begins
        self._members: dict[tuple[str, Path], list[str]] = {}
        self._checked: set[str] = set()
        flow.passes = self.marker_before

    @property
    def names(self) -> list[str]:
        return sorted({step.shares for step in self.flow.steps.values() if step.shares})

    def pattern(self, name: str) -> str:
        """Output of the rule of a pass."""
        return marker_file(self.folder, name, "{trace}")

    def needs(self, name: str) -> Callable[[Any], list[str]]:
        """Input of the rule of a pass: what its outputs are made from."""

        def files(wildcards: Any) -> list[str]:
            results = self.flow.results(wildcards.trace)
            inputs = [self.flow.inputs[sensor] for sensor in self.members(name, results)]
            return list(dict.fromkeys(path for each in inputs for path in each.files_of_step(results)))

        return files

    def command(self, name: str) -> str:
        """Shell command of the rule of a pass."""
        return (
            f"{shlex.quote(sys.executable)} -m rover_pipeline pass {shlex.quote(name)} --trace /{{wildcards.trace:q}} "
            f"--folder {shlex.quote(str(self.folder))} --marker {{output:q}} --threads {{threads}} --log {{log:q}}"
        )

    def members(self, name: str, results: Path) -> list[str]:
        """Virtual sensors that a pass makes of a recording: none where it is not worth a job."""
        key = (name, results)
        if key not in self._members:
            found = {f"_{each}" for each in self._pending(results)} | self._forced(results)
            members = sorted(each for each in found if self._step(each, results).shares == name)
            self._members[key] = members if len(members) > 1 else []
        return self._members[key]

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
        name = self._step(sensor, results).shares
        if name and sensor in self.members(name, results):
            return [marker_file(self.folder, name, str(results))]
        if name and self._begins:
            self._forget(f"{results}/{sensor}/{self.flow.made[sensor]}")
        return []

    def _forget(self, stamp: str) -> None:
        """Make Snakemake forget that a job has waited for a pass of an earlier run: it would run it again without."""
        if stamp not in self._checked and os.path.exists(stamp):
            self._checked.add(stamp)
            persistence, file = self.workflow.persistence, self._as_file(stamp)
            if any(str(path).startswith(f"{RUNS}/") for path in persistence.input(file) or ()):
                persistence.cleanup_metadata(file)

    # --- What is done when a run begins and ends -------------------------------------------------------------------

    def is_pass(self, rule: Any) -> bool:
        """Whether a rule makes a pass."""
        return any(rule.name == name + SUFFIX for name in self.names)

    def begin(self, dag: Any) -> None:
        """Plan what the passes are to make: the outputs that Snakemake has jobs for."""
        jobs = list(dag.needrun_jobs())
        stamps = {str(path) for job in jobs if made_by(job.rule) for path in job.output}
        for job in jobs:
            if not self.is_pass(job.rule):
                continue
            name, results = job.rule.name.removesuffix(SUFFIX), self.flow.results(job.wildcards.trace)
            planned = []
            for sensor in self.members(name, results):
                stamp = f"{results}/{sensor}/{self.flow.made[sensor]}"
                if stamp in stamps:
                    wildcards = SimpleNamespace(trace=job.wildcards.trace, product=sensor[1:])
                    request, version = self.flow.step_options(wildcards), self.flow.step_version(wildcards)
                    planned.append([self.flow.step_name(wildcards), stamp, request, version])
            path = plan_file(self.folder, name, str(results))
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, json.dumps(planned))

    def outputs_of(self, marker: str) -> list[tuple[Path, str]]:
        """Directory of results and name of each output that the job of a marker was to make."""
        for (name, results), sensors in self._members.items():
            if sensors and marker == marker_file(self.folder, name, str(results)):
                return [(results, sensor) for sensor in sensors]
        return []

    def finish(self) -> None:
        """Remove what only this run needed."""
        shutil.rmtree(self.folder, ignore_errors=True)
