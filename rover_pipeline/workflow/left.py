"""What a run leaves stale: results that nobody asked for now, of other options or from what is made again."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from rover_pipeline.errors import RoverError
from rover_pipeline.format.provenance import is_source, read_provenance
from rover_pipeline.format.stale import changed_inputs, recorded_inputs, run_command
from rover_pipeline.workflow.ending import say
from rover_pipeline.workflow.flow import Flow


def tell_left(flow: Flow) -> None:
    """Name the results that a run leaves stale, and the command that makes them again, in a line for a recording."""
    lines = []
    for results in flow.wanted:
        if names := left_stale(flow, results):
            known = [name for name in names if name in flow.made]
            command = f"make them again: {run_command(results, known)}" if known else "run their rules again"
            lines.append(f"{results}: {', '.join(names)}: {command}")
    if lines:
        say("stale results stay, of other options or made from older ones:", lines)


def left_stale(flow: Flow, results: Path) -> list[str]:
    """Results of a recording that the run does not make, and that are not what it would make, in order."""
    inputs: dict[str, set[str]] = {}
    stale: set[str] = set()
    there = {name[1:] for name in (os.listdir(results) if results.is_dir() else ()) if name.startswith("_")}
    others = there - {*flow.wanted[results]}
    for name in (f"_{each}" for each in others - (flow.reach(results) if others else set())):
        with suppress(RoverError):  # `check` tells of what is damaged
            provenance = read_provenance(results / name)
            if provenance and not is_source(provenance):
                inputs[name] = {each.partition("/")[0] for each in recorded_inputs(results / name, provenance)}
                stale |= {name} if _is_stale(flow, results / name, provenance) else set()
    made = stale | ({f"_{name}" for name in flow.pending(results)} if inputs else set())
    while more := {name for name, each in inputs.items() if name not in stale and each & made}:
        stale, made = stale | more, made | more
    return sorted(stale)


def _is_stale(flow: Flow, result: Path, provenance: dict[str, Any]) -> bool:
    """Whether a result has other options than those of the run, or was made from other bytes."""
    own = flow.of(result.parent)
    step, stamp = own.steps.get(result.name), own.made.get(result.name)
    # The stamp of what shows all results depends on those that are asked for.
    other_options = stamp is not None and not (step and step.waits_for_all) and not os.path.exists(result / stamp)
    return other_options or any(changed_inputs(result, provenance, flow.source(result.parent)))
