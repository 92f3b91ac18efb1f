"""Which files a job of one recording waits for, and the stamps by which Snakemake knows results.

The stamp `_name/.options-DIGEST`, an empty file, is the only output of a rule: Snakemake removes the outputs of a job
before it starts the job, and the older result stays until a new one is whole. A stamp vouches for the options and for
what `provenance.json` says: the step, its version, the inputs and the files. One that is no longer true is removed when
a run begins, whatever the times of the files are.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rover_pipeline.engine.step import EVERY, OPTIONAL, Step
from rover_pipeline.errors import FormatError, RoverError, one_line
from rover_pipeline.format.files import STAMP
from rover_pipeline.format.meta import META
from rover_pipeline.format.provenance import PROVENANCE, changed_inputs, files_of, read_provenance, recorded_inputs
from rover_pipeline.format.sensor import TS, VALID

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
    """What a step reads of a recording."""

    files: list[str]  #: of the recording itself, such as `config.yaml`.
    sensors: dict[str, tuple[tuple[str, ...], bool]]  #: name -> its channels, and whether the step does without them.
    every: list[str]  #: channels of every raw sensor.

    @classmethod
    def of(cls, step: Step) -> Reads:
        """What a step declares."""
        channels: dict[str, dict[str, None]] = {}
        required: set[str] = set()
        found = cls([], {}, [])
        of_channels = set(step.references()) - set(step.files.values())
        for entry in step.references():
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
            self._reads[known] = Reads.of(adapted)
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
    try:
        with contextlib.suppress(FileNotFoundError):
            stamp.unlink()
    except OSError as error:
        raise RoverError(f"{stamp.parent}: has to be made again but cannot be written: {error.strerror}") from error
