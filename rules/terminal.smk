# What Snakemake says on the terminal, before it says anything more: what fails is reported once, when all is over.
from snakemake.logging import logger

from rover_pipeline.workflow.ending import watch

JOBS = watch(
    logger,
    verbose=workflow.output_settings.verbose,
    dry_run=workflow.output_settings.dryrun,
)
