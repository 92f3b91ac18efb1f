"""Input functions of Snakemake rules: which files a job of one trace waits for."""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rover_pipeline.format.meta import META

if TYPE_CHECKING:
    from rover_pipeline.workflow.flow import Flow


class _Input:
    """Input function of a rule: the files of one trace that a job waits for."""

    #: Snakemake asks for it at every job, and Python takes long to find it out.
    __signature__ = inspect.Signature([inspect.Parameter("wildcards", inspect.Parameter.POSITIONAL_ONLY)])

    def __init__(self, flow: Flow) -> None:
        self.flow = flow

    def __call__(self, wildcards: Any) -> list[str]:
        return self.files(self.flow.place(wildcards.trace))

    def files(self, results: Path) -> list[str]:
        raise NotImplementedError


class SensorInput(_Input):
    """The files of a sensor that are there, so that a step can name what is missing."""

    def __init__(self, flow: Flow, sensor: str, channels: tuple[str, ...], optional: bool) -> None:
        super().__init__(flow)
        self.sensor, self.channels, self.optional = sensor, channels, optional

    def files(self, results: Path) -> list[str]:
        if self.optional and not self.flow.has(self.sensor, results):
            return []
        if self.sensor in self.flow.made:
            return [f"{results}/{self.sensor}/{self.flow.made[self.sensor]}"]
        # Text, not `Path`: this is called for every input of every job, ten thousands of times in a long dry run.
        source = self.flow.source(results)
        folder = f"{source}/{self.sensor}"
        if self.flow.is_demo(results):
            return [f"{folder}/{META}"]
        # The companion index of a compressed channel, and a sidecar, change a result as much as the channel does.
        names = [*self.channels, *(f"{name}_i" for name in self.channels), f"{self.sensor}.json"]
        found = [META, *(name for name in names if os.path.exists(f"{folder}/{name}"))]
        # Published traces keep a channel of some raw sensors in a copy of the sensor: see `Trace.source`.
        copy = f"{source}/_{self.sensor}"
        copied = [f"{copy}/{name}" for name in self.channels if name not in found and os.path.exists(f"{copy}/{name}")]
        return [*(f"{folder}/{name}" for name in found), *copied]


class FileInput(_Input):
    """A file of the recording itself, such as `config.yaml`, where it has one."""

    def __init__(self, flow: Flow, name: str) -> None:
        super().__init__(flow)
        self.name = name

    def files(self, results: Path) -> list[str]:
        path = f"{self.flow.source(results)}/{self.name}"
        return [path] if os.path.exists(path) or self.flow.is_demo(results) else []


class ChannelsInput(_Input):
    """Channels of every raw sensor of a trace."""

    def __init__(self, flow: Flow, channels: tuple[str, ...]) -> None:
        super().__init__(flow)
        self.channels = channels

    def files(self, results: Path) -> list[str]:
        folder = self.flow.source(results)
        if self.flow.is_demo(results):
            return [str(folder / sensor / META) for sensor in self.flow.demo_sensors]
        names = sorted(entry.name for entry in os.scandir(folder) if not entry.name.startswith(("_", ".")))
        paths = [f"{folder}/{name}/{channel}" for name in names for channel in self.channels]
        return [path for path in paths if os.path.exists(path)]


class EverythingInput(_Input):
    """All other results that are wanted of a trace."""

    def __init__(self, flow: Flow, besides: str) -> None:
        super().__init__(flow)
        self.besides = besides

    def files(self, results: Path) -> list[str]:
        others = [f"_{name}" for name in self.flow.wanted.get(results, ()) if f"_{name}" != self.besides]
        return [f"{results}/{other}/{self.flow.made[other]}" for other in others]
