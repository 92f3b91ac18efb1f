"""Input functions of Snakemake rules: which files a job of one recording waits for."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from rover_pipeline.config import Config
from rover_pipeline.engine.step import EVERY, OPTIONAL, Has, Step
from rover_pipeline.errors import one_line
from rover_pipeline.format.meta import META
from rover_pipeline.format.sensor import TS, VALID

_WILDCARD = re.compile(r"\{\s*\w+\s*(,[^{}]*)?\}")


def has_wildcard(path: str) -> bool:
    """Whether Snakemake takes a part of a path, such as `{b}`, for a wildcard."""
    return _WILDCARD.search(path) is not None


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


class Recordings(Protocol):
    """What input functions ask about the recordings of a run.

    Attributes:
        made: the virtual sensors that rules make -> the file that stands for each.
        wanted: directory of results -> names of the outputs that are asked for.
        demo_sensors: sensors of the simulated recording, which may not exist yet.
        config, steps: the configuration, and the step of each output that is what it declares.
        passes: gives the files of passes that the job of a virtual sensor of a recording waits for.
    """

    made: dict[str, str]
    wanted: dict[Path, list[str]]
    demo_sensors: tuple[str, ...]
    config: Config
    steps: dict[str, Step]

    @property
    def passes(self) -> Callable[[str, Path], list[str]]: ...

    def results(self, wildcard: str) -> Path: ...
    def source(self, results: Path) -> Path: ...
    def is_demo(self, results: Path) -> bool: ...
    def has(self, sensor: str, results: Path) -> bool: ...
    def channels(self, results: Path) -> Has: ...


class Input:
    """Input function of a rule: the files of one recording that a job waits for."""

    #: Snakemake asks for the signature at every job, and Python takes long to find it out.
    __signature__ = inspect.Signature([inspect.Parameter("wildcards", inspect.Parameter.POSITIONAL_ONLY)])

    def __init__(self, recordings: Recordings) -> None:
        self.recordings = recordings

    def __call__(self, wildcards: Any) -> list[str]:
        return self.files(self.recordings.results(wildcards.trace))

    def files(self, results: Path) -> list[str]:
        raise NotImplementedError

    @property
    def waits_for_all(self) -> bool:
        """Whether it is all other outputs that are asked for."""
        return False

    def sensors(self, results: Path) -> dict[str, bool]:
        """Sensors without which the output is not made -> False, and those that it does without -> True."""
        return {}

    def unfit(self, results: Path) -> str:
        """Why the output cannot be made of a recording although it has the sensors; "" = it can."""
        return ""


class SensorInput(Input):
    """The files of a sensor that are there, so that a step can name what is missing."""

    def __init__(self, recordings: Recordings, sensor: str, channels: tuple[str, ...], optional: bool) -> None:
        super().__init__(recordings)
        self.sensor, self.channels, self.optional = sensor, channels, optional

    def sensors(self, results: Path) -> dict[str, bool]:
        return {self.sensor: self.optional}

    def files(self, results: Path) -> list[str]:
        recordings = self.recordings
        if self.optional and not recordings.has(self.sensor, results):
            return []
        if self.sensor in recordings.made:
            return [f"{results}/{self.sensor}/{recordings.made[self.sensor]}"]
        # Text, not `Path`: this is called for every input of every job, ten thousands of times in a long dry run.
        source = recordings.source(results)
        folder = f"{source}/{self.sensor}"
        if recordings.is_demo(results):
            return [f"{folder}/{META}"]
        # The companion index of a compressed channel, and a sidecar, change a result as much as the channel does.
        names = [*self.channels, *(f"{name}_i" for name in self.channels), f"{self.sensor}.json"]
        present = [META, *(name for name in names if os.path.exists(f"{folder}/{name}"))]
        # Published traces keep a channel of some raw sensors in a copy of the sensor: see `Trace.source`.
        copy = f"{source}/_{self.sensor}"
        copied = [
            f"{copy}/{name}" for name in self.channels if name not in present and os.path.exists(f"{copy}/{name}")
        ]
        return [*(f"{folder}/{name}" for name in present), *copied]


class FileInput(Input):
    """A file of the recording itself, such as `config.yaml`, where it has one."""

    def __init__(self, recordings: Recordings, name: str) -> None:
        super().__init__(recordings)
        self.name = name

    def files(self, results: Path) -> list[str]:
        path = f"{self.recordings.source(results)}/{self.name}"
        return [path] if os.path.exists(path) or self.recordings.is_demo(results) else []


class ChannelsInput(Input):
    """Channels of every raw sensor of a recording."""

    def __init__(self, recordings: Recordings, channels: tuple[str, ...]) -> None:
        super().__init__(recordings)
        self.channels = channels

    def files(self, results: Path) -> list[str]:
        folder = self.recordings.source(results)
        if self.recordings.is_demo(results):
            return [str(folder / sensor / META) for sensor in self.recordings.demo_sensors]
        names = sorted(entry.name for entry in os.scandir(folder) if not entry.name.startswith(("_", ".")))
        names = [name for name in names if not has_wildcard(name)]  # a step reads it all the same
        paths = [f"{folder}/{name}/{channel}" for name in names for channel in self.channels]
        return [path for path in paths if os.path.exists(path)]


class EverythingInput(Input):
    """All other results that are wanted of a recording."""

    def __init__(self, recordings: Recordings, besides: str) -> None:
        super().__init__(recordings)
        self.besides = besides

    def files(self, results: Path) -> list[str]:
        wanted = self.recordings.wanted.get(results, ())
        others = [f"_{name}" for name in wanted if f"_{name}" != self.besides]
        return [f"{results}/{other}/{self.recordings.made[other]}" for other in others]

    @property
    def waits_for_all(self) -> bool:
        return True


class StepInput(Input):
    """Everything that a step declares to read."""

    def __init__(self, recordings: Recordings, sensor: str) -> None:
        super().__init__(recordings)
        self.name = sensor
        self._parts: dict[tuple[int, Path | None], list[Input]] = {}

    @property
    def step(self) -> Step:
        """The step, with the options of the recording that is looked at."""
        return self.recordings.steps[self.name]

    def step_of(self, results: Path) -> Step:
        """The step for the sensors that a recording has."""
        return self.step.for_recording(self.recordings.channels(results))

    def parts(self, results: Path) -> list[Input]:
        """What the step reads of a recording."""
        adapted, usual = self.step_of(results), self.step
        known = (id(usual), None if adapted is usual else results)  # no step of a run is ever forgotten
        if known not in self._parts:
            self._parts[known] = _parts(self.recordings, adapted, self.name)
        return self._parts[known]

    def sensors(self, results: Path) -> dict[str, bool]:
        return {name: optional for part in self.parts(results) for name, optional in part.sensors(results).items()}

    @property
    def waits_for_all(self) -> bool:
        return self.step.waits_for_all

    def unfit(self, results: Path) -> str:
        return self.step_of(results).unfit

    def files(self, results: Path) -> list[str]:
        return [*self.files_of_step(results), *self.recordings.passes(self.name, results)]

    def files_of_step(self, results: Path) -> list[str]:
        """The files that the step reads."""
        return list(dict.fromkeys(path for part in self.parts(results) for path in part.files(results)))


def _parts(recordings: Recordings, step: Step, sensor: str) -> list[Input]:
    channels: dict[str, dict[str, None]] = {}
    required: set[str] = set()
    every: dict[str, None] = {}
    parts: list[Input] = []
    of_channels = set(step.references()) - set(step.files.values())
    for entry in step.references():
        name, _, channel = entry.removesuffix(OPTIONAL).partition("/")
        if not channel:
            parts.append(FileInput(recordings, name))
            continue
        if name == EVERY:
            every[channel] = None
            continue
        chosen = channels.setdefault(name, {})
        if entry in of_channels:
            chosen |= dict.fromkeys((channel, TS, VALID))
        if not entry.endswith(OPTIONAL):
            required.add(name)
    parts += [SensorInput(recordings, name, tuple(each), name not in required) for name, each in channels.items()]
    parts += [ChannelsInput(recordings, tuple(every))] if every else []
    parts += [EverythingInput(recordings, sensor)] if step.waits_for_all else []
    return parts
