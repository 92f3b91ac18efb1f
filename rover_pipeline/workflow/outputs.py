"""Which recordings a run is about."""

from __future__ import annotations

from pathlib import Path

from rover_pipeline.config import Config
from rover_pipeline.errors import ConfigError, InTheWayError
from rover_pipeline.format.provenance import read_provenance
from rover_pipeline.format.trace import has_files, locate_traces
from rover_pipeline.workflow.rule_inputs import refusal


def find_recordings(config: Config, here: Path, demo: Path) -> tuple[dict[Path, Path], list[str]]:
    """Directory of results -> directory of the recording, and messages about recordings that cannot be processed.

    Args:
        here: folder that relative paths start from.
        demo: the simulated recording, which is made where the configuration names none.

    Raises:
        InTheWayError: the directory of the simulated recording holds something else.
        FormatError, ConfigError: there is no recording that can be processed.
    """
    if config.traces is None:
        if has_files(demo) and read_provenance(demo / "_truth") is None:
            raise InTheWayError(f"{demo}: is not a simulated trace of ours; give traces=PATH, or move it away")
        return {demo: demo}, []
    located = locate_traces(config.traces, here, here / config.output_root if config.output_root else None)
    traces = {results: source for results, source in located.items() if not refusal(str(results))}
    refused = [refusal(str(results)) for results in located if results not in traces]
    if refused and not traces:
        raise ConfigError(refused[0])
    return traces, refused
