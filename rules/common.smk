# Discovery and look-ups, nothing else: what the names below do is in rover_pipeline/workflow/flow.py.
import os
import sys

from snakemake.logging import logger

from rover_pipeline.errors import RoverError
from rover_pipeline.workflow.ending import end_of_run
from rover_pipeline.workflow.exports import Exports
from rover_pipeline.workflow.flow import Flow
from rover_pipeline.workflow.jobs import watch


def _one_line(function):
    """Errors of the user's making end the run with one line, not with the workflow's source around it."""

    def call(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except RoverError as error:
            sys.exit(f"rover-pipeline: {error}")

    return call


FLOW = _one_line(Flow)(config)

# For rules that the table of steps declares, see rules/derived.smk.
needs = _one_line(FLOW.needs)
makes = _one_line(FLOW.makes)
enabled = _one_line(FLOW.enabled)

# For rules that say by themselves what they need and make.
sensor = FLOW.sensor
sensors = FLOW.sensors
trace_file = FLOW.trace_file
everything = FLOW.everything
virtual = _one_line(FLOW.virtual)
product = _one_line(FLOW.product)
options = _one_line(FLOW.options)
step = _one_line(FLOW.step)

targets = _one_line(FLOW.targets)

# For the datasets that are exported, see rules/exports.smk.
EXPORTS = _one_line(Exports)(FLOW)
datasets = _one_line(EXPORTS.targets)


def threads(most):
    """Threads of a rule, `most` at most, so that jobs run side by side here; a cluster's jobs have a node's share."""

    def share(wildcards):
        away = workflow.remote_exec or workflow.non_local_exec
        return most if away else FLOW.threads(most, workflow.cores)

    return share


def extra_rules():
    return [os.path.abspath(path) for path in FLOW.config.extra_rules]


# What fails is told once, when all is over.
JOBS = watch(logger, workflow.output_settings.verbose)


def end():
    if status := end_of_run(FLOW, JOBS.failed):
        sys.exit(status)
