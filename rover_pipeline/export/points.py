"""Point clouds of a trace, for the formats that hold one: sweeps of the lidar, or its map."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rover_pipeline.engine.parallel import ordered_map
from rover_pipeline.engine.progress import progress
from rover_pipeline.errors import FormatError
from rover_pipeline.export import MAP, ExportOptions
from rover_pipeline.format.meta import META
from rover_pipeline.format.sensor import Sensor

POINTS = "_lidar_points"
#: A stored range of so many mm is a clipped value, not a return.
_CLIPPED = 65535
_RENAMED = {"rfl": "intensity"}


class Points(NamedTuple):
    """A point cloud.

    Attributes:
        xyz: f4 (N, 3), m.
        fields: name -> (N,), what else is known of the points.
    """

    xyz: np.ndarray
    fields: dict[str, np.ndarray]


#: Writes a point cloud, with remarks for its header, to a new file.
Writer = Callable[[Path, Points, tuple[str, ...]], None]


def write_points(trace: Path, out: Path, options: ExportOptions, ending: str, write: Writer) -> None:
    """The map as the file `out`, or every n-th sweep as `out/<number of the sample><ending>`.

    Sweeps are in the lidar's sensor frame, front-left-up: `_lidar_points` where it is there, else projected from the
    raw ranges. Sweeps with `valid` = 0 and pixels without a return are left out.

    Raises:
        FormatError: the trace has neither, or no valid sweep.
    """
    if options.sensor == MAP:
        write(out, _read_map(trace), ("frame of _odom, the first valid pose of the lidar, front-left-up, m",))
        return
    source = _source(trace, options.sensor)
    numbers = np.flatnonzero(source.valid)
    numbers = numbers[numbers % options.every == 0]
    if not len(numbers):
        raise FormatError(f"{source.path}: none of its {len(source.valid)} sweeps can be exported: valid is 0")
    out.mkdir()
    job = _SweepJob(source, out, ending, write)
    with progress(f"export {trace.name}", len(numbers), "sweep") as advance:
        for _ in ordered_map(job, numbers.tolist(), threads=options.threads, done=lambda number: advance(1)):
            pass


@dataclass(frozen=True)
class _SweepJob:
    """Writes one of the chosen sweeps."""

    source: _Projected | _Stored
    out: Path
    ending: str
    write: Writer

    def __call__(self, number: int) -> None:
        points = self.source.read(number)
        remarks = (f"sensor frame, front-left-up, m; {self.source.path.name} sample {number}",)
        self.write(self.out / f"{number:06d}{self.ending}", points, remarks)


class _Stored:
    """Sweeps of `_lidar_points`, with all its channels of a value a pixel."""

    def __init__(self, path: Path) -> None:
        self.path, self._sensor = path, Sensor(path)
        spec = self._sensor.specs.get("xyz")
        if spec is None or len(spec.shape) != 3 or spec.shape[2] != 3:
            raise FormatError(f"{path}: holds no lidar points: there is no xyz of [beam, column, 3]")
        self._fields = [name for name, other in self._sensor.specs.items() if other.shape == spec.shape[:2]]
        self.valid = self._sensor.valid(self._sensor.length(channels=("xyz", *self._fields)))

    def read(self, number: int) -> Points:
        xyz = self._sensor.channel("xyz").read(number, number + 1)[0]
        hit = np.isfinite(xyz).all(-1)
        fields = {name: self._sensor.channel(name).read(number, number + 1)[0][hit] for name in self._fields}
        return Points(xyz[hit], {_RENAMED.get(name, name): values for name, values in fields.items()})


class _Projected:
    """Sweeps of the raw lidar, projected with its own metadata."""

    def __init__(self, path: Path) -> None:
        self.path, self._sensor = path, Sensor(path)
        self._fields = [name for name in ("rfl", "nir") if name in self._sensor.specs]
        self.valid = self._sensor.valid(self._sensor.length(channels=("rng", *self._fields)))
        sidecar = path / "lidar.json"
        try:
            self._metadata = sidecar.read_text(encoding="utf-8")
        except OSError as error:
            raise FormatError(f"{sidecar}: {error.strerror}; without it ranges are no points") from error

    def read(self, number: int) -> Points:
        from rover_pipeline.lidar.geometry import projection

        rng = self._sensor.channel("rng").read(number, number + 1)[0]
        try:
            xyz = projection(self._metadata)(rng.astype("u4"))
        except (ValueError, RuntimeError) as error:
            raise FormatError(f"{self.path / 'rng'}: cannot be projected: {error}") from error
        hit = (rng > 0) & (rng < _CLIPPED)
        fields = {name: self._sensor.channel(name).read(number, number + 1)[0][hit] for name in self._fields}
        return Points(xyz[hit], {_RENAMED.get(name, name): values for name, values in fields.items()})


def _source(trace: Path, name: str | None) -> _Stored | _Projected:
    if name is None:
        name = POINTS if (trace / POINTS / META).exists() else "lidar"
    if not (trace / name / META).exists():
        raise FormatError(f"{trace / name}: no such sensor, so there are no points to export")
    return _Projected(trace / name) if "rng" in Sensor(trace / name).specs else _Stored(trace / name)


def _read_map(trace: Path) -> Points:
    from plyfile import PlyData, PlyParseError

    path = trace / MAP / "map.ply"
    try:
        vertices = PlyData.read(str(path))["vertex"].data
    except FileNotFoundError as error:
        raise FormatError(f"{path}: is missing; run the workflow with the output `map`") from error
    except (PlyParseError, KeyError) as error:
        raise FormatError(f"{path}: is no map of ours: {error}") from error
    names = [name for name in vertices.dtype.names if name not in ("x", "y", "z")]
    xyz = np.stack([vertices[axis] for axis in "xyz"], -1)
    return Points(xyz, {name: np.asarray(vertices[name]) for name in names})
