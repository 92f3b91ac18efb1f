"""What a run leaves stale: results that nobody asked for now, of other options or from what is made again."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

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
    own, source = flow.of(results), flow.source(results)
    inputs: dict[str, set[str]] = {}
    stale: set[str] = set()
    there = {name[1:] for name in (os.listdir(results) if results.is_dir() else ()) if name.startswith("_")}
    others = there - {*flow.wanted[results]}
    for name in (f"_{each}" for each in others - (flow.reach(results) if others else set())):
        with suppress(RoverError):  # `check` tells of what is damaged
            result = results / name
            if not (provenance := read_provenance(result)) or is_source(provenance):
                continue
            inputs[name] = {each.partition("/")[0] for each in recorded_inputs(result, provenance)}
            # The stamp of what shows all results depends on those that are asked for.
            has_stamp = name in own.made and not own.steps[name].waits_for_all
            other_options = has_stamp and not os.path.exists(result / own.made[name])
            if other_options or any(changed_inputs(result, provenance, source)):
                stale.add(name)
    made = stale | ({f"_{name}" for name in flow.pending(results)} if inputs else set())
    while more := {name for name, each in inputs.items() if name not in stale and each & made}:
        stale, made = stale | more, made | more
    return sorted(stale)
