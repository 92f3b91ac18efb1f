"""One job for each recording: what is planned where there are many recordings, or where each job is a Slurm job.

Snakemake takes more than a millisecond to plan a job, and a recording has a dozen of steps. So the run of the user
plans one job for each recording that has something to be made, which runs Snakemake once more, on its recording alone,
with the same rules, options, stamps and working directory: a run of either kind continues one of the other kind.
"""

from __future__ import annotations

import functools
import json
import os
import secrets
import shlex
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from rover_pipeline.errors import ConfigError, counted
from rover_pipeline.format.files import replace_file
from rover_pipeline.format.info import size_text
from rover_pipeline.workflow.flow import Flow
from rover_pipeline.workflow.launch import python
from rover_pipeline.workflow.plans import Cost, cost_of
from rover_pipeline.workflow.recording_job import OPTIONS, RUN_VARIABLE, SOURCES
from rover_pipeline.workflow.worlds import nested

#: Folder of the markers of a run, in the working directory.
RUNS = Path(".snakemake", "recordings")
#: Recordings above which each is one job on one machine too. Below, planning all steps takes seconds. Schedule.
_FEW = 50
#: Recordings above which a dry run leaves Snakemake out. Schedule.
_MAX_PLANNED = 1000
_MAX_THREADS = 4
#: Added to the estimate of a Slurm job, minutes: nobody knows how loaded a node is. Schedule.
_MIN_MINUTES = 20


class RecordingJobs:
    """The jobs of a run that plans one for each recording. `pending`: directory of results -> names of the outputs that
    have to be made there, only where there are some; `pattern`: output of the rule, with the wildcard `trace`."""

    def __init__(self, flow: Flow, *, away: bool, begins: bool) -> None:
        # `away`: whether jobs run on other machines; `begins`: whether this process is the user's, and no job of it.
        self.flow, self.away = flow, away
        self.pending: dict[Path, list[str]] = {}
        self.folder = Path((None if begins else os.environ.get(RUN_VARIABLE)) or RUNS / secrets.token_hex(6))
        if begins:
            os.environ.pop(RUN_VARIABLE, None)
        self.pattern = f"{self.folder}/markers/{{trace}}"
        if flow.config.plan == "recordings" and flow.config.exports:
            raise ConfigError("config: plan: a dataset is made from all recordings; set it to `steps`, or leave it out")

    @property
    def active(self) -> bool:
        """Whether each recording is one job."""
        config = self.flow.config
        if config.traces is None:  # the recording itself is made by a rule
            return False
        if self.flow.mixed and (config.exports or config.plan == "steps"):
            what = "exports" if config.exports else "plan: steps"
            hint = "give the options of all of them with --config, or --reset-config"
            raise ConfigError(f"config: {what}: the recordings remember different options; {hint}")
        if config.plan == "auto" and not self.flow.mixed:
            return not config.exports and (self.away or len(self.flow.traces) > _FEW)
        return config.plan == "recordings" or self.flow.mixed

    def targets(self, stamps: list[str], *, dry: bool) -> list[str]:
        """What the rule `all` waits for: the stamps, or a marker of each recording that has something to be made."""
        for results in self.flow.wanted:
            if names := self.flow.pending(results):
                self.pending[results] = names
        if not self.active or (not self.pending and len(self.flow.traces) <= _FEW):
            return stamps
        if not self.pending:
            print("rover-pipeline: nothing to be done: all outputs of all recordings are there", file=sys.stderr)
        if not dry and self.pending:
            self._write()
        return [self.marker(results) for results in self.pending]

    @property
    def ends_here(self) -> bool:
        """Whether a dry run has said it all: Snakemake would plan as many jobs, in 14 kB each, and only count them."""
        return self.active and len(self.pending) > _MAX_PLANNED

    def marker(self, results: Path) -> str:
        """The file by which a job says that it ended: empty where it made all that it was to make."""
        return self.pattern.replace("{trace}", str(results).lstrip("/"))

    def finish(self) -> None:
        """Remove what only this run needed."""
        if self.active and self.pending:
            shutil.rmtree(self.folder, ignore_errors=True)

    # --- The rule --------------------------------------------------------------------------------------------------

    def command(self) -> str:
        """Shell command of the rule."""
        return (
            f"{shlex.join(python('rover_pipeline'))} recording --trace /{{wildcards.trace:q}} "
            f"--folder {shlex.quote(str(self.folder))} --marker {{output:q}} --threads {{threads}} --log {{log:q}}"
        )

    def threads(self, cores: int) -> int:
        """Threads of a job. On one machine two recordings at once do more than one with all processors."""
        return _MAX_THREADS if self.away else max(1, min(_MAX_THREADS, cores // 2))

    def memory_mb(self, wildcards: Any, attempt: int = 1, threads: int = 1) -> int:
        """Memory that a job asks for; a retry asks for more, for it may have been killed for it."""
        return attempt * self.cost(self.flow.results(wildcards.trace)).memory_mb(threads, self.flow.config.dask.chunk)

    def minutes(self, wildcards: Any, attempt: int = 1, threads: int = 1) -> int:
        """Time that a job asks for: several times the estimate, for nodes differ, and more in a retry."""
        seconds = self.cost(self.flow.results(wildcards.trace)).seconds
        return attempt * (_MIN_MINUTES + round(4 * seconds / 60 / max(1, min(threads, 2))))

    @functools.cache  # noqa: B019, there is one object
    def cost(self, results: Path) -> Cost:
        """What the outputs of a recording cost that have to be made."""
        own = self.flow.of(results)
        names = (f"_{each}" for each in self.pending.get(results, ()))
        return cost_of(self.flow.source(results), [own.step_of(name, results) for name in names if name in own.steps])

    # --- What is shown ---------------------------------------------------------------------------------------------

    def forecast(self) -> list[str]:
        """Lines about what a run would make: outputs, bytes and hours of processors."""
        if not self.pending:
            return []
        counts = Counter(name for names in self.pending.values() for name in names)
        costs = list(map(self.cost, self.pending))
        written, read = sum(each.written for each in costs), sum(each.read for each in costs)
        lines = [f"_{name}: {counts[name]} of {counted(len(self.flow.traces), 'recording')}" for name in sorted(counts)]
        return [
            *lines,
            f"about {size_text(written)} to be written from {size_text(read)} of raw data",
            f"about {sum(each.seconds for each in costs) / 3600:.2g} hours of one processor",
        ]

    def _write(self) -> None:
        """Write the options and sources of this run for its jobs. They are too long for a command line."""
        self.folder.mkdir(parents=True)
        # Only what was given: each job takes the rest from what its recording remembers.
        given = {**nested(self.flow.given), "extra": self.flow.config.extra}
        replace_file(self.folder / OPTIONS, json.dumps(given))
        differing = {str(results): str(source) for results, source in self.flow.traces.items() if results != source}
        replace_file(self.folder / SOURCES, json.dumps(differing))
        os.environ[RUN_VARIABLE] = str(self.folder)
