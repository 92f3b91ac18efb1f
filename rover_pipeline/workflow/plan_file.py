"""Where the jobs of a run find what it hands to them: the options, and the directories of the recordings."""

from __future__ import annotations

from pathlib import Path

#: Tells the jobs of a run that plans one for each recording its folder.
RUN_VARIABLE = "ROVER_PIPELINE_RUN"
#: Name under which the failure of a recording's job as a whole is kept.
WHOLE = "recording"


def options_file(run: Path) -> Path:
    """The configuration of a run as JSON, which Snakemake takes as a configuration file."""
    return run.with_name(f"{run.name}.options.json")


def sources_file(run: Path) -> Path:
    """Directory of results -> directory of the recording, where they are not the same."""
    return run.with_name(f"{run.name}.sources.json")
