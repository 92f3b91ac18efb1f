"""What of a trace can be shown: samples that can be trusted and decoded, by sensor and time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from rover_pipeline.errors import FormatError, SampleError
from rover_pipeline.format.channels import Channel
from rover_pipeline.format.meta import META
from rover_pipeline.format.sensor import VALID, Sensor
from rover_pipeline.format.trace import CONFIG, Trace

#: A stored range of the lidar that was clipped, mm.
_CLIPPED = 65535


class Samples:
    """The samples of a sensor that are valid.

    Attributes:
        sensor: where they are stored.
        ts: f8 (N,), seconds.
        numbers: of the samples among all of the sensor's, i8 (N,).
        left_out: samples asked for so far that could not be decoded.
    """

    def __init__(self, sensor: Sensor, channels: tuple[str, ...], limit: int | None = None) -> None:
        self.sensor = sensor
        wanted = (*channels, *((VALID,) if VALID in sensor.specs else ()))
        count = sensor.length(truncate=True, channels=wanted)  # of a recording that was cut off, what there is
        self.numbers = np.flatnonzero(sensor.valid(count))[:limit]
        self.ts = sensor.times(count)[self.numbers]
        self.left_out = 0
        self._channels = {name: sensor.channel(name) for name in channels}

    def __len__(self) -> int:
        return len(self.ts)

    def replace(self, name: str, view: Callable[[Channel], Channel]) -> None:
        """Read a channel through a view of it, such as the same pictures decoded at a smaller size."""
        self._channels[name] = view(self._channels[name])

    def read(self, at: int) -> dict[str, np.ndarray] | None:
        """The channels of one of the N samples; None when it cannot be decoded."""
        number = int(self.numbers[at])
        try:
            return {name: channel.read(number, number + 1)[0] for name, channel in self._channels.items()}
        except SampleError:
            self.left_out += 1
            return None

    def all(self, name: str) -> np.ndarray:
        """A small channel of all N samples."""
        return self.sensor.channel(name).read(0, int(self.numbers[-1]) + 1 if len(self) else 0)[self.numbers]

    def at(self, time: float, oldest: float = math.inf) -> int | None:
        """The last of the N samples that is not after a time, and not older than so many seconds then."""
        found = int(np.searchsorted(self.ts, time, side="right")) - 1
        return found if found >= 0 and time - self.ts[found] <= oldest else None


def find(trace: Path, sensor: str, *channels: str) -> Samples | None:
    """Samples of some channels of a sensor; None where the trace does not have all of them."""
    if not (trace / sensor / META).exists():
        return None
    source = Trace(trace).source(sensor, channels[0])
    if any(name not in source.specs or not (source.path / name).exists() for name in channels):
        return None
    return Samples(source, channels)


class Sweeps:
    """The lidar's points, of `_lidar_points` where the trace has it, else projected from its ranges.

    Attributes:
        samples: their times and numbers.
    """

    def __init__(self, samples: Samples, project: Callable[[dict[str, np.ndarray]], np.ndarray]) -> None:
        self.samples, self._project = samples, project

    def points(self, at: int, most: int | None = None) -> np.ndarray | None:
        """Points of a sweep in the lidar frame, f4 (M, 3), m: of columns as far apart as `most` points ask for."""
        found = self.samples.read(at)
        if found is None:
            return None
        xyz = self._project(found)
        apart = max(1, math.ceil(xyz.shape[0] * xyz.shape[1] / most)) if most else 1
        kept = xyz[:, ::apart].reshape(-1, 3)
        points: np.ndarray = kept[np.isfinite(kept).all(axis=1)]
        return points


def find_sweeps(trace: Path) -> Sweeps | None:
    """The lidar's points; None where the trace has neither them nor ranges with the lidar's own metadata."""
    made = find(trace, "_lidar_points", "xyz")
    if made is not None:
        return Sweeps(made, lambda found: found["xyz"])
    metadata = text(trace / "lidar" / "lidar.json")
    raw = find(trace, "lidar", "rng")
    if raw is None or metadata is None:
        return None
    from rover_pipeline.lidar.geometry import projection

    try:
        place = projection(metadata)
    except ValueError as error:
        raise FormatError(f"{trace / 'lidar'}: {error}") from error

    def project(found: dict[str, np.ndarray]) -> np.ndarray:
        ranges = found["rng"]
        xyz = np.array(place(ranges.astype("u4")), "f4").reshape(*ranges.shape, 3)
        xyz[(ranges == 0) | (ranges == _CLIPPED)] = np.nan
        return xyz

    return Sweeps(raw, project)


def text(path: Path) -> str | None:
    """The text of a sidecar; None when there is none."""
    return path.read_text(encoding="utf-8") if path.exists() else None


def mount(trace: Path, sensor: Any) -> Any:
    """Pose of a sensor in the lidar frame, as the recording's `config.yaml` says."""
    from rover_pipeline.kinematics.mount import find_mount
    from rover_pipeline.kinematics.options import RigOptions

    return find_mount(sensor, RigOptions(), text(trace / CONFIG))


def spread(samples: Samples, count: int) -> Iterator[dict[str, np.ndarray]]:
    """A few samples, spread evenly, that can be decoded."""
    for at in np.unique(np.linspace(0, len(samples) - 1, count).astype(int)) if len(samples) else ():
        if (found := samples.read(int(at))) is not None:
            yield found
