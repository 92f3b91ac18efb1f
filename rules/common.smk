# Discovery and look-ups, nothing else: what the names below do is in rover_pipeline/workflow/flow.py.
import os
import shlex
import sys
from pathlib import Path

from rover_pipeline.errors import RoverError
from rover_pipeline.workflow.ending import (
    end_of_run,
    forget_failures,
    say,
    report_stale,
)
from rover_pipeline.workflow.exports import Exports
from rover_pipeline.workflow.flow import Flow
from rover_pipeline.workflow.launch import environment
from rover_pipeline.workflow.plans import Plans
from rover_pipeline.workflow.recording_job import RUN_VARIABLE
from rover_pipeline.workflow.recordings import RecordingJobs


# Jobs take no module from the folder that they work in.
os.environ.update(environment(Path.cwd()))


def _one_line(function):
    """Errors of the user's making end the run with one line, not with the workflow's source around it."""

    def call(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except RoverError as error:
            sys.exit(f"rover-pipeline: {error}")

    return call


# A job of a run that plans one for each recording looks for no others.
BEGINS = workflow.is_main_process
FLOW = _one_line(Flow)(
    config,
    locate=BEGINS or RUN_VARIABLE not in os.environ,
    typed=workflow.config_settings.overwrite_config,
)

# For rules that the table of steps declares, see rules/derived.smk.
needs = _one_line(FLOW.needs)
makes = _one_line(FLOW.makes)
enabled = _one_line(FLOW.enabled)

# For the datasets that are exported, see rules/exports.smk.
EXPORTS = _one_line(Exports)(FLOW)
datasets = _one_line(EXPORTS.targets)


# For one job for each recording, see rules/recordings.smk.
# The number of jobs is limited where they run elsewhere; the executor itself is not yet known here.
AWAY = workflow.remote_exec or workflow.resource_settings.nodes is not None
DRY = workflow.output_settings.dryrun
# The mark that the kernels of the steps are compiled.
KERNELS = ".snakemake/kernels"
EACH = _one_line(RecordingJobs)(FLOW, away=AWAY, begins=BEGINS)

# For what one job makes along with its own output.
PLANS = Plans(
    FLOW, lambda results: EACH.pending.get(results, ()), begins=BEGINS, away=AWAY
)


@_one_line
def targets(rules):
    """What is asked for: stamps of all outputs, or one marker of each recording."""
    files = EACH.targets(FLOW.targets(rules, begins=BEGINS), dry=DRY)
    if BEGINS:
        FLOW.report_recalled()
        report_stale(FLOW)
    if BEGINS and not DRY:
        FLOW.remember_all()
        forget_failures(FLOW, EACH.pending)
    if DRY and EACH.pending:
        say("would make:", EACH.forecast())
    if DRY and FLOW.refused:
        say("could not be done:", FLOW.refused)
    if DRY and EACH.ends_here:
        sys.exit()
    if FLOW.simulates and not AWAY and workflow.cores > 1:
        files = [*files, KERNELS]
    return files


def threads(wildcards):
    """Threads of a job: jobs run side by side here; those of a cluster have a node's share."""
    elsewhere = workflow.remote_exec or workflow.non_local_exec
    return PLANS.threads(wildcards, None if elsewhere else workflow.cores)


def extra_rules():
    return [os.path.abspath(path) for path in FLOW.config.extra_rules]


def end(whole):
    FLOW.remember_all()  # the simulated recording was not there before
    status = end_of_run(FLOW, EACH, JOBS.failed, whole=whole)
    for results in FLOW.wanted if status else ():
        FLOW.put_back(results)
    EACH.finish()
    PLANS.finish()
    for marker in (
        file
        for job in workflow.dag.jobs
        if job.rule.name == "recording"
        for file in job.output
    ):
        # Nobody asks for the markers of this run again.
        workflow.persistence.cleanup_metadata(marker)
    if status:
        sys.exit(status)
