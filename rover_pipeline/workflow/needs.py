"""Which outputs can be made of a recording, which outputs and files those are made from, and their stamps.

The stamp `_name/.options-DIGEST`, an empty file, is the only output of a rule: Snakemake removes the outputs of a job
before it starts the job, and the older result stays until a new one is whole. A stamp vouches for the options and for
what `provenance.json` says: the step, its version, the inputs and the files. One that is no longer true is removed when
a run begins, whatever the times of the files are.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rover_pipeline.engine.instances import Roles, as_types
from rover_pipeline.engine.step import EVERY, OPTIONAL, REFERENCE, Step
from rover_pipeline.errors import ConfigError, FormatError, RoverError, did_you_mean, naming, one_line
from rover_pipeline.format.files import STAMP
from rover_pipeline.format.meta import META
from rover_pipeline.format.provenance import PROVENANCE, changed_inputs, files_of, read_provenance, recorded_inputs
from rover_pipeline.format.rig import TYPES
from rover_pipeline.format.sensor import TS, VALID
from rover_pipeline.format.texts import read_text
from rover_pipeline.format.trace import CONFIG, Trace, is_empty
from rover_pipeline.lookup import load

if TYPE_CHECKING:
    from rover_pipeline.workflow.flow import Flow

#: Answers about a recording that are kept: each is asked for many times, before the next recording. Schedule.
kept = functools.lru_cache(maxsize=1 << 8)

#: What Snakemake takes for a wildcard in a path, such as `{b}`.
_WILDCARD = re.compile(r"\{\s*\w+\s*(,[^{}]*)?\}")
#: What Snakemake cannot take in a path: it has a meaning of its own, and there is no way to write it otherwise.
_REFUSED = {
    "a name in braces": _WILDCARD,
    "a name in angle brackets": re.compile(r"<[a-z][a-z0-9_]*>"),
    "a line break": re.compile(r"[\n\r]"),
    "bytes that are no UTF-8": re.compile(r"[\ud800-\udfff]"),
    "an ending that is 20 times the same": re.compile(r"(.+)\1{19}$"),
}


def refusal(path: str) -> str:
    """Why Snakemake cannot process what is at a path; "" where it can."""
    for what, pattern in _REFUSED.items():
        if pattern.search(path):
            why = f"has {what} in its path, which Snakemake cannot take; rename it, or name a link to it"
            return f"{one_line(path)}: {why}"
    return ""


class Reads(NamedTuple):
    """What is read of a recording."""

    files: list[str]  #: of the recording itself, such as `config.yaml`.
    sensors: dict[str, tuple[tuple[str, ...], bool]]  #: name -> its channels, and whether it is done without them.
    every: list[str]  #: channels of every raw sensor.

    @classmethod
    def of(cls, references: Sequence[str], files: Iterable[str] = ()) -> Reads:
        """Of references as a step declares them; `files`: those that are no channels."""
        channels: dict[str, dict[str, None]] = {}
        required: set[str] = set()
        found = cls([], {}, [])
        of_channels = {*references} - {*files}
        for entry in references:
            name, _, channel = entry.removesuffix(OPTIONAL).partition("/")
            if name == EVERY or not channel:
                (found.every if channel else found.files).append(channel or name)
                continue
            channels.setdefault(name, {}).update(dict.fromkeys((channel, TS, VALID) if entry in of_channels else ()))
            if not entry.endswith(OPTIONAL):
                required.add(name)
        return found._replace(sensors={name: (tuple(each), name not in required) for name, each in channels.items()})


class StepInput:
    """Input of a rule: the files of a recording that a step reads."""

    #: Snakemake asks for the signature at every job, and Python takes long to find it out.
    __signature__ = inspect.Signature([inspect.Parameter("wildcards", inspect.Parameter.POSITIONAL_ONLY)])

    def __init__(self, flow: Flow, sensor: str) -> None:
        self.flow, self.name = flow, sensor
        self._reads: dict[tuple[int, Path | None], Reads] = {}

    def __call__(self, wildcards: Any) -> list[str]:
        # Of the virtual sensors of the rule this one. A rule of the user may have no such wildcard.
        own = self.flow.inputs.get(f"_{getattr(wildcards, 'product', '')}", self)
        return own.files(self.flow.results(wildcards.trace))

    @property
    def step(self) -> Step:
        """The step, with the options of the recording that is looked at."""
        return self.flow.steps[self.name]

    def step_of(self, results: Path) -> Step:
        """The step for the sensors that a recording has."""
        return self.flow.step_of(self.name, results)

    def sensors(self, results: Path) -> dict[str, bool]:
        """Sensors without which the output is not made -> False, and those that it does without -> True."""
        return {name: optional for name, (_, optional) in self._read(results).sensors.items()}

    def files(self, results: Path) -> list[str]:
        """The files that the step reads."""
        flow, source, reads = self.flow, self.flow.source(results), self._read(results)
        paths = [path for name in reads.files if os.path.exists(path := f"{source}/{name}") or flow.is_demo(results)]
        for name, (channels, optional) in reads.sensors.items():
            if not optional or flow.has(name, results):
                paths += sensor_files(flow, name, channels, results)
        if reads.every and flow.is_demo(results):
            paths += [f"{source}/{name}/{META}" for name in flow.demo_sensors]
        elif reads.every:
            names = sorted(entry.name for entry in os.scandir(source) if not entry.name.startswith(("_", ".")))
            names = [name for name in names if not _WILDCARD.search(name)]  # the step reads it all the same
            of_all = (f"{source}/{name}/{channel}" for name in names for channel in reads.every)
            paths += [path for path in of_all if os.path.exists(path)]
        if self.step.run.waits_for_all:
            others = (f"_{name}" for name in flow.wanted.get(results, ()) if f"_{name}" != self.name)
            paths += [f"{results}/{other}/{flow.made[other]}" for other in others]
        return list(dict.fromkeys(paths))

    def _read(self, results: Path) -> Reads:
        adapted, usual = self.step_of(results), self.step
        known = (id(usual), None if adapted is usual else results)  # no step of a run is ever forgotten
        if known not in self._reads:
            self._reads[known] = Reads.of(adapted.references(), adapted.files.values())
        return self._reads[known]


def sensor_files(flow: Flow, sensor: str, channels: Iterable[str], results: Path) -> list[str]:
    """The stamp of a virtual sensor, or the files of a raw one that are there: a step can name what is missing."""
    if sensor in flow.made:
        return [f"{results}/{sensor}/{flow.made[sensor]}"]
    # Text, not `Path`: this is called for every input of every job, ten thousands of times in a long dry run.
    source = flow.source(results)
    folder = f"{source}/{sensor}"
    if flow.is_demo(results):
        return [f"{folder}/{META}"]
    # The index beside a compressed channel, and a sidecar, change a result as much as the channel does.
    names = [*channels, *(f"{name}_i" for name in channels), f"{sensor}.json"]
    present = [META, *(name for name in names if os.path.exists(f"{folder}/{name}"))]
    # Published traces keep a channel of some raw sensors in a copy of the sensor: see `Trace.source`.
    copy = f"{source}/_{sensor}"
    copied = [f"{copy}/{name}" for name in channels if name not in present and os.path.exists(f"{copy}/{name}")]
    return [*(f"{folder}/{name}" for name in present), *copied]


#: The stamp of a virtual sensor in the output patterns of a rule: `/_name/` or, with a wildcard, `/_{product,name}/`.
_MADE = re.compile(r"/_(?:\{product,)?([^/}]+)\}?/" + re.escape(STAMP))


def made_by(rule: Any) -> list[str]:
    """Names of the virtual sensors that a rule makes, without their underscore. The first one is that of its step."""
    matches = filter(None, (_MADE.search(str(pattern)) for pattern in rule.output))
    return [name.replace("\\", "") for match in matches for name in match[1].split("|")]


def untrue(stamp: Path, step: Step, source: Path) -> str:
    """Why the result of a stamp has to be made again by its step of now, from the raw sensors in `source`; empty where
    the stamp is absent or still true. Raises FormatError where a file cannot be read, so that nobody knows."""
    if not os.path.lexists(stamp):
        return ""
    provenance = read_provenance(stamp.parent) or {}
    try:
        name, version = provenance["step"], provenance["version"]
        known = recorded_inputs(stamp.parent, provenance).keys() & provenance["time"]["inputs"].keys()
        if len(known) < len(provenance["inputs"]):
            raise KeyError
    except (KeyError, TypeError, AttributeError, FormatError):
        return f"its {PROVENANCE} does not say what it was made from"
    lacking = sorted(name for name in files_of(provenance) if not os.path.lexists(stamp.parent / name))
    if lacking or stamp.is_symlink():
        return f"{lacking[0] if lacking else stamp.name} is missing"
    if (name, version) != (step.name, step.version):
        return f"it was made by version {version} of {name}"
    made_with, code = provenance.get("source"), step.identity.get("source")
    if made_with and code and made_with != code:
        return f"the code of {step.name} has changed"
    changed = next(changed_inputs(stamp.parent, provenance, source), "")
    return f"{changed} has changed" if changed else ""


def withdraw(stamp: Path) -> None:
    """Remove a stamp, so that its result, which stays, is made again. Raises RoverError where that cannot be done."""
    with naming(f"{stamp.parent}: has to be made again but cannot be written", OSError, made=RoverError):
        stamp.unlink(missing_ok=True)


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
            if (flow.source(results) / sensor).is_dir() and not empty and not below:
                return f"has no {META} of the sensor {sensor!r}"
            hint = f" ({did_you_mean(sensor, flow.made)})" if sensor[0] == "_" and sensor not in flow.made else ""
            return below or (f"{_EMPTY}{sensor!r}" if empty else f"has no sensor {sensor!r}{hint}")
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
                where = "where the lidar is" if rig.of("lidar") else "in one place"
                note(f"nothing says where {which} on the rig: taken to be {where}; set `rig`")

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
