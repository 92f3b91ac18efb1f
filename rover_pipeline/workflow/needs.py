"""Which outputs can be made of a recording, and which outputs those are made from."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rover_pipeline.engine.instances import Roles, as_types
from rover_pipeline.engine.step import REFERENCE
from rover_pipeline.errors import ConfigError, FormatError, RoverError, did_you_mean, one_line
from rover_pipeline.format.rig import TYPES
from rover_pipeline.format.texts import read_text
from rover_pipeline.format.trace import CONFIG, Trace, is_empty
from rover_pipeline.lookup import load
from rover_pipeline.workflow.rule_inputs import kept

if TYPE_CHECKING:
    from rover_pipeline.workflow.flow import Flow

#: Begins the reason of outputs of a sensor that is there and recorded nothing.
_EMPTY = "has no samples of "


class Needs:
    """What outputs need of flow. `others`: outputs whose rules read other files too, of which only Snakemake knows
    whether they have changed; `notes`: what is said about recordings -> the recordings; see `report`."""

    def __init__(self, flow: Flow, others: set[str], notes: dict[str, list[Path]]) -> None:
        self.flow, self.others, self.notes = flow, others, notes

    @kept
    def sensors(self, name: str, results: Path) -> dict[str, bool]:
        """Sensors that an output is made from -> whether it does without."""
        declared = self.flow.inputs.get(f"_{name}")
        return declared.sensors(results) if declared else {}

    @kept
    def lacking(self, name: str, results: Path) -> str:
        """What keeps a recording from having an output, such as a sensor that it lacks; "" when there is nothing."""
        if unfit := self._unfit(name, results):
            return unfit
        flow = self.flow
        for sensor, optional in self.sensors(name, results).items():
            if optional or flow.has(sensor, results):
                continue
            below = self.lacking(sensor.removeprefix("_"), results) if sensor in flow.made else ""
            empty = is_empty(flow.source(results) / sensor)
            return below or (f"{_EMPTY}{sensor!r}" if empty else f"has no sensor {sensor!r}")
        return ""

    def tried(self, name: str, results: Path, *, by_name: bool) -> bool:
        """Whether an output is made; one that is asked for by its name fails where the sensor recorded nothing."""
        reason = self.lacking(name, results)
        return not reason or (by_name and reason.startswith(_EMPTY))

    def closure(self, names: Iterable[str], results: Path) -> set[str]:
        """Outputs and all outputs they are made from."""
        seen: set[str] = set()
        todo = list(names)
        while todo:
            name = todo.pop()
            if name not in seen:
                seen.add(name)
                todo += self.made_from(name, results)
        return seen

    @kept
    def made_from(self, name: str, results: Path) -> list[str]:
        """Outputs that an output reads: all that it needs, even one that will fail, and others that can be made."""
        made, has, sensors = self.flow.made, self.flow.has, self.sensors(name, results).items()
        return [each[1:] for each, optional in sensors if each in made and (not optional or has(each, results))]

    def pending(self, wanted: Sequence[str], results: Path) -> list[str]:
        """Outputs that have to be made: those without a stamp, and those that are made from them."""
        known: dict[str, bool] = {}
        flow = self.flow

        def missing(name: str) -> bool:
            if name not in known:
                inputs = list(map(missing, self.made_from(name, results)))
                stamped = os.path.exists(f"{results}/_{name}/{flow.made[f'_{name}']}")
                known[name] = not stamped or any(inputs) or name in self.others
            return known[name]

        found = [name for name in sorted(self.closure(wanted, results)) if missing(name)]
        last = [name for name in wanted if flow.steps[f"_{name}"].run.waits_for_all]
        return list(dict.fromkeys([*found, *(last if found else ())]))

    def anything(self, names: Iterable[str], results: Path) -> bool:
        """Whether there is anything to make of a recording: its page where it has any sensor, or a path at least."""
        has_page = "report" in names and not self.flow.is_demo(results)
        return any(self.sensors(name, results) for name in names) or (
            has_page and bool(Trace(self.flow.source(results)).sensors())
        )

    def report(self, names: Sequence[str], omitted: Sequence[str], results: Path) -> None:
        """Note which outputs are left out although the recording has the sensor, because that is of another kind, which
        sensors give nothing or are missing, and which are taken to be where the lidar is: nothing says where they are.
        """
        flow, source = self.flow, self.flow.source(results)

        def note(text: str) -> None:
            self.notes.setdefault(text, []).append(source)

        unfit = {reason for sensor in flow.inputs if (reason := self._unfit(sensor[1:], results))}
        for name in omitted:
            if (reason := self.lacking(name, results)) in unfit:
                note(f"{name} is left out: the recording {reason}")
        without = [name for name in omitted if self.lacking(name, results) == "has no sensor 'lidar'"]
        if without and not flow.rig(results).of("lidar"):
            needed_for = "; poses are made of a radar and an IMU too" * any(name.endswith("_pose") for name in without)
            note(f"has no lidar, of which {', '.join(without)} would be made{needed_for}")
        if any(name not in TYPES for name in flow.rig(results).types):
            for line in load("rover_pipeline.validation.unused:unused_sensors")(source):
                note(line.removeprefix(f"{one_line(str(source))}/"))
        rig = flow.rig(results)
        for type, name in flow.wanted_roles.items():
            found, named, taken = rig.of(type), f"{type} {name!r}, which odometry.{type}", rig.main(type)
            if type == REFERENCE and name not in TYPES:
                found, named, taken = [*rig.types], f"sensor {name!r}, which sync.reference", rig.reference(name)
            if found and name not in found:
                note(f"has no {named} names: {taken} is taken; {did_you_mean(name, found)}")
        if line := self._check_rig(names, results):
            note(line)
        # The odometry estimates how the IMU is mounted, and matching needs no more than time offsets.
        needed: dict[str, tuple[str, Roles]] = {}
        for name in names:
            if name in ("odom", "sync") or f"_{name}" not in flow.steps:
                continue
            roles = flow.roles(f"_{name}", results)
            for type in flow.steps[f"_{name}"].uses.get("rig", ()):
                if type != "name" and flow.has(roles.get(type, type), results):
                    needed[roles.get(type, type)] = (type, roles)
        if len(needed) + flow.has(flow.rig(results).main("lidar"), results) < 2 or not needed or flow.is_demo(results):
            return  # one sensor alone is nowhere beside another
        text = read_text(source / CONFIG) if (source / CONFIG).exists() else None
        notes_of = load("rover_pipeline.kinematics.stated:mount_notes")  # a room of maths: loaded where it is needed

        def is_unknown(sensor: str) -> bool:
            type, roles = needed[sensor]
            rig, recorded = flow.rig_of(sensor, type, roles), None if text is None else as_types(text, roles)
            return bool(notes_of(type, rig=rig, recorded=recorded))

        with suppress(RoverError):  # the step says what is wrong with it
            if unknown := [each for each in sorted(needed) if is_unknown(each)]:
                which = f"{', '.join(unknown)} {'is' if len(unknown) == 1 else 'are'}"
                note(f"nothing says where {which} on the rig: taken to be where the lidar is; set `rig`")

    def _check_rig(self, names: Sequence[str], results: Path) -> str:
        """A line about keys of the recording's `rig` that name no sensor, if outputs need it; else empty.

        Raises ConfigError where a pose that they need is none: they would fail, and only after the odometry."""
        flow, path, stated = self.flow, self.flow.source(results) / CONFIG, "rover_pipeline.kinematics.stated"
        steps = (flow.steps.get(f"_{name}") for name in self.closure(names, results))
        if not (needed := {key for step in steps if step for key in step.uses.get("rig", ())}) or not path.exists():
            return ""
        try:
            text, given = read_text(path), flow.config.rig
            for sensor, type in flow.rig(results).types.items():
                if type in needed and "rig" not in flow.config.instances.get(sensor, {}):
                    load(f"{stated}:find_stated")(sensor, given, text)
            load(f"{stated}:find_own")(given if "own" in needed else given.model_copy(update={"own": ()}), text)
            return str(load(f"{stated}:misspelt")([*flow.rig(results).types, *TYPES], text))
        except ConfigError as error:
            raise ConfigError(f"{path.parent}/{error}") from error
        except FormatError:  # the steps that read it say what is wrong with it
            return ""

    def say_notes(self) -> None:
        """Print what was noted, a line for each note: it may be one of thousands of recordings."""
        for text, (first, *others) in self.notes.items():
            whose = f"{1 + len(others)} recordings, the first of them {first}" if others else first
            print(f"rover-pipeline: {whose}: {text}", file=sys.stderr)
        self.notes.clear()

    @kept
    def _unfit(self, name: str, results: Path) -> str:
        declared = self.flow.inputs.get(f"_{name}")
        return declared.step_of(results).unfit if declared else ""
