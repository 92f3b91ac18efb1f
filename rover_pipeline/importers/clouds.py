"""Import of a folder of point clouds, one file a sweep, as a roverd trace with a lidar that is points."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rover_pipeline.engine.progress import progress
from rover_pipeline.errors import ConfigError, FormatError
from rover_pipeline.format.merge import imported_trace
from rover_pipeline.importers.ahead import worked_ahead
from rover_pipeline.importers.cloud_files import READERS, read_cloud
from rover_pipeline.importers.names import named
from rover_pipeline.importers.origin import write_config
from rover_pipeline.importers.points import Cloud, PointsWriter
from rover_pipeline.importers.reference import read_poses, write_reference
from rover_pipeline.importers.times import files_of, times_of_files
from rover_pipeline.importers.tuning import TUNING
from rover_pipeline.lidar.spin import Turning, share_of_turn


class Turn(NamedTuple):
    """A turn of the beams from behind to behind, relative to the instant at which they look ahead.

    Attributes:
        begin, end: s; the first is negative.
    """

    begin: float
    end: float


def steady_turns(ts: np.ndarray) -> list[Turn]:
    """Turns as long as the median time between them, f8 (sweep,), s."""
    half = float(np.median(np.diff(ts))) / 2 if len(ts) > 1 else 0.05
    return [Turn(-half, half)] * len(ts)


def dated(cloud: Cloud, turn: Turn, turning: Turning) -> Cloud:
    """The cloud with the instant of each point, after the one at which the beams look ahead.

    Raises:
        ConfigError: its points have times.
    """
    if cloud.time is not None:
        raise ConfigError("--turning: the points have times of their own; leave it out")
    share = share_of_turn(cloud.xyz, turning)
    return cloud._replace(time=2 * share * np.where(share < 0, -turn.begin, turn.end))


def raised(cloud: Cloud, degrees: float) -> Cloud:
    """The cloud with every point at a larger elevation, at the same azimuth and distance from the origin."""
    if not degrees:
        return cloud
    xyz, angle = np.asarray(cloud.xyz, "f8"), np.radians(degrees)
    level = np.hypot(xyz[:, 0], xyz[:, 1])
    shrunk = np.cos(angle) - np.sin(angle) * xyz[:, 2] / np.where(level > 0, level, np.inf)
    height = np.cos(angle) * xyz[:, 2] + np.sin(angle) * level
    return cloud._replace(xyz=np.column_stack([xyz[:, :2] * shrunk[:, None], height]))


def import_clouds(
    folder: Path,
    out: Path,
    *,
    times: Path | None = None,
    rate: float | None = None,
    start: float | None = None,
    poses: Path | None = None,
    fields: Sequence[str] = (),
    compensated: bool = False,
    turning: Turning | None = None,
    compress: bool = False,
    name: str | None = None,
) -> int:
    """Write the trace `out` from a folder of `.bin`, `.pcd`, `.ply` or `.npz` files.

    The time stamp of a sweep is that of its last point where the files say when each point was measured, otherwise
    what the list, the rate or the names of the files say.

    Args:
        times: a list of times, one for each file; rate: of the files, Hz; start: of the first one, seconds since 1970.
            See `times_of_files`.
        poses: of the lidar, TUM or KITTI, which become `_reference`.
        fields: names of the f4 columns of `.bin` files; x, y, z, intensity unless given.
        compensated: the motion within sweeps is undone, so that a cloud is as seen at the time of its file.
        turning: points without times are dated by their azimuth. The beams turn in this sense, seen from above, from
            behind over ahead, where they look at the time of the file, to behind.
        compress: see `PointsWriter`.
        name: of the sensor; None = `lidar`.

    Returns:
        The number of sweeps.

    Raises:
        FormatError: a file cannot be read, or there are none.
        ConfigError: nothing gives the times, points that have times are to be dated, or the name is none of a lidar.
    """
    if turning and compensated:
        raise ConfigError("--turning dates points whose motion is not undone: leave it or --compensated out")
    sensor = named(name, "lidar")
    files = cloud_files(folder)
    stamps, source, shift, warned = times_of_files(files, times, rate, start)
    notes = [f"times of sweeps are by {source}", *warned]
    options = {"rate": rate, "start": start, "fields": list(fields), "compensated": compensated, "turning": turning}
    spans = dict(zip(files, steady_turns(stamps), strict=True))

    def read(path: Path) -> Cloud:
        cloud = read_cloud(path, fields)
        return dated(cloud, spans[path], turning) if turning else cloud

    with imported_trace(out) as trace:
        described = f"import clouds {folder.name}, times by {source}"
        notes += write_sweeps(
            trace / sensor,
            files,
            stamps,
            read=read,
            compensated=compensated,
            compress=compress,
            source=described,
        )
        if poses is not None:
            ts, states = read_poses(poses, stamps)
            # Poses are moved with the sweeps where both count from the beginning of the recording.
            ts = ts if ts is stamps or len(ts) == 0 or ts[0] > stamps[0] / 2 else ts + shift
            write_reference(trace, ts, states, command="import clouds", source=poses.name)
        for note in notes[1:]:
            print(f"{folder}: {note}", file=sys.stderr)
        write_config(
            trace,
            {sensor: {"type": "lidar"}},
            command="import clouds",
            sources=[folder, *(each for each in (times, poses) if each)],
            options={name: value for name, value in options.items() if value},
            notes=notes,
        )
    return len(files)


def cloud_files(folder: Path) -> list[Path]:
    """The clouds of a folder, of one format, in the order of their names.

    Raises:
        FormatError: there is no such folder, it has none, or those of several formats.
    """
    found = files_of(folder, sorted(READERS), "point clouds")
    kinds = sorted({path.suffix.lower() for path in found})
    if len(kinds) > 1:
        raise FormatError(f"{folder}: holds {' and '.join(kinds)} files; move those away that are not the sweeps")
    return found


def write_sweeps(
    lidar: Path,
    files: Sequence[Path],
    stamps: np.ndarray,
    *,
    read: Callable[[Path], Cloud],
    compensated: bool,
    compress: bool,
    source: str,
) -> list[str]:
    """Write the sensor `lidar`, a sweep for each file, and return what the user should know of it.

    Args:
        stamps: f8 (file,), s, increasing.
    """
    with progress(source, len(files), "sweep") as advance:
        # Points that are no returns are left out by the threads that read: it takes as long as reading.
        clouds = worked_ahead(lambda path: read(path).returns(), files)
        sweeps = zip(stamps.tolist(), (cloud for _, cloud in clouds), strict=True)
        first = next(sweeps)
        timed = first[1].time is not None
        if timed and compensated:
            raise ConfigError("--compensated: the points have times of their own, so they are not; leave it out")
        with PointsWriter(
            lidar,
            intensity=None if first[1].intensity is None else "in the unit of the source",
            ring=first[1].ring is not None,
            time=timed,
            compensated=compensated,
            instant="the end of the sweep" if timed else "the instant of the cloud",
            source=source,
            compress=compress,
        ) as writer:
            for stamp, cloud in itertools.chain([first], sweeps):
                after = 0.0
                if timed:
                    cloud, after = _after(cloud, stamp).to_end()
                writer.append(stamp + after, cloud)
                advance(1)
    if timed or compensated:
        return []
    return [
        "the points have no times, and nothing says that motion within sweeps is undone: they are taken as measured at "
        "one instant (--compensated says that it is undone, --turning "
        "dates the points of a lidar that spins by their azimuth)"
    ]


def _after(cloud: Cloud, stamp: float) -> Cloud:
    """The cloud with times after a stamp, where they were since 1970."""
    if cloud.time is None or not (np.abs(np.nan_to_num(cloud.time)) > TUNING.min_absolute_s).any():
        return cloud
    return cloud._replace(time=np.asarray(cloud.time, "f8") - stamp)
