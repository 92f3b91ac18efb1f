"""`rover-pipeline export --make`: what an export needs is made first, with the options of each recording."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from rover_pipeline.errors import RoverError
from rover_pipeline.format.provenance import read_provenance
from rover_pipeline.format.trace import locate_traces
from rover_pipeline.table import TABLE
from rover_pipeline.workflow.launch import run_workflow


def make_needed(entries: Sequence[str], needs: Iterable[str], *, cores: int) -> None:
    """Make what is missing or stale of what an export reads.

    Args:
        entries: traces, directories of traces, or glob patterns.
        needs: `default`, or references `_sensor/channel`; what ends with `?` is made where there is one already.

    Raises:
        RoverError: not all of it could be made.
    """
    groups: dict[str, list[str]] = {}
    for trace in locate_traces(list(entries), Path.cwd(), None):
        outputs = {"default"} & {*needs}
        for reference in needs:
            sensor = reference.removesuffix("?").partition("/")[0]
            if sensor in TABLE and (not reference.endswith("?") or read_provenance(trace / sensor)):
                outputs.add(sensor[1:])
        groups.setdefault(",".join(sorted(outputs)), []).append(str(trace))
    for asked, traces in groups.items():
        if asked and run_workflow(traces, outputs=asked, cores=str(cores), profile="local", config=[]):
            raise RoverError(f"export: nothing was exported, for {asked} could not be made; see above")
