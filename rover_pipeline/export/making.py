"""`rover-pipeline export --make`: what an export needs is made first, with the options of each recording."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path

from rover_pipeline.errors import RoverError
from rover_pipeline.export.recording import Recording
from rover_pipeline.format.provenance import read_provenance
from rover_pipeline.format.trace import locate_traces
from rover_pipeline.table import TABLE
from rover_pipeline.workflow.launch import run_workflow

_LOST = "export: nothing was exported"


def make_needed(
    entries: Sequence[str], needs: Sequence[str], several: Iterable[str], *, cores: int, lost: str = _LOST
) -> None:
    """Make what is missing or stale of what an export reads. Raises RoverError where not all of it could be made.

    Args:
        entries: traces, directories of traces, or glob patterns.
        needs: `default`, or references `_sensor/channel`; what ends with `?` is made where there is one already.
        several: types of which it reads all sensors. What cannot be made of further ones is passed over.
        lost: what the error begins with.
    """
    groups: dict[str, list[str]] = {}
    for trace in locate_traces(list(entries), Path.cwd(), None):
        outputs, main = {"default"} & {*needs}, Recording.of(trace)
        for view, reference in product(main.each(*several), needs):
            declared = reference.removesuffix("?").partition("/")[0]
            there, sensor = read_provenance(view.folder(declared)), view.called(declared)
            if main.rig.declared(declared) not in TABLE or (reference.endswith("?") and not there):
                continue
            if view is main or not view.unfit(declared):
                outputs.add(sensor[1:])
        groups.setdefault(",".join(sorted(outputs)), []).append(str(trace))
    for asked, traces in groups.items():
        if asked and run_workflow(traces, outputs=asked, cores=str(cores), profile="local", config=[]):
            raise RoverError(f"{lost}, for {asked} could not be made; see above")
